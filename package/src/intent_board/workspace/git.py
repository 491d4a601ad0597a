"""The one place that runs git.

Every process gets an environment built from nothing, an empty configuration of system and user, no hooks, no
fsmonitor, no replace refs, no prompt, only the transport that its remote needs, a time limit, and a limit on what it
may print.  Settings travel in the environment, so that no configuration file has to be trusted and no remote address
shows in a process list.
"""

from __future__ import annotations

import os
import re
import selectors
import subprocess
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from intent_board.sandbox import end_session
from intent_board.workspace.errors import WorkspaceError

LOCAL_TIMEOUT = 300.0
NETWORK_TIMEOUT = 900.0
#: Enough for the file list of a very large repository; a diff has its own, smaller limit.
OUTPUT_LIMIT = 256 * 1024 * 1024
ERROR_LIMIT = 64 * 1024
#: What the host may say about its own trust store and proxies; nothing else of our environment reaches git.
PASSED_ON = (
    "PATH", "SSL_CERT_FILE", "SSL_CERT_DIR", "NIX_SSL_CERT_FILE", "GIT_SSL_CAINFO",
    "http_proxy", "https_proxy", "no_proxy", "all_proxy", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY",
)  # fmt: skip
ENVIRONMENT = {
    "LC_ALL": "C",
    "TZ": "UTC",
    "HOME": "/nonexistent",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_SYSTEM": "/dev/null",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ASKPASS": "false",
    "SSH_ASKPASS_REQUIRE": "never",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_GRAFT_FILE": "/dev/null",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_LITERAL_PATHSPECS": "1",
    "GIT_DEFAULT_REF_FORMAT": "files",
    "GIT_PAGER": "cat",
    "GIT_EDITOR": "false",
}
SETTINGS = (
    ("core.hooksPath", "/dev/null"),
    ("core.fsmonitor", "false"),
    ("core.attributesFile", "/dev/null"),
    ("core.excludesFile", "/dev/null"),
    ("core.autocrlf", "false"),
    ("core.protectHFS", "true"),
    ("core.protectNTFS", "true"),
    # After a power cut a commit that the store knows must still be there; git alone doesn't sync loose objects.
    ("core.fsync", "committed,reference"),
    ("protocol.allow", "never"),
    # Clones borrow objects, so nothing may ever be pruned behind their back; mirror.py says when it packs.
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
    # A rename counts as what it is, a deletion and a new file; publish.py refuses what a merge carries elsewhere.
    ("diff.renames", "false"),
    ("merge.renames", "true"),
    ("merge.directoryRenames", "false"),
    ("push.gpgSign", "false"),
    ("push.followTags", "false"),
    ("push.recurseSubmodules", "no"),
    ("fetch.recurseSubmodules", "false"),
    ("remote.origin.followRemoteHEAD", "never"),
)
_OUTAGE = re.compile(
    r"could not resolve host|temporary failure in name resolution|connection (refused|timed out|reset|closed)|"
    r"network is unreachable|no route to host|operation timed out|failed to connect|remote end hung up|"
    r"early eof|returned error: (429|5\d\d)|kex_exchange_identification|gnutls_handshake|ssl_error_syscall",
    re.IGNORECASE,
)
#: What is said beside a lost connection when the cause is a refusal or lies on our side.
_OURS = re.compile(r"no space left|permission denied|host key verification failed|disk quota exceeded", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Output:
    """What one git process came to; `cut` when it printed more than it was allowed and was ended for that."""

    code: int
    out: bytes
    error: str
    cut: bool = False

    @property
    def words(self) -> tuple[str, ...]:
        """The last lines of its error output, for a person, without any user name or password of an address."""
        lines = (re.sub(r"://[^/@\s]+@", "://", line).strip() for line in re.split(r"[\r\n]+", self.error))
        return tuple(line for line in lines if line)[-20:]

    @property
    def reason(self) -> str:
        """The one line that says most: git puts the cause first and general advice after it."""
        causes = [line for line in self.words if line.startswith(("fatal:", "error:", "ERROR:", "ssh:", "remote:"))]
        return (causes or self.words or (f"it ended with {self.code} and said nothing",))[0]

    @property
    def outage(self) -> bool:
        """Whether its words speak of a remote that can't be reached now, and not of one that refuses."""
        return bool(_OUTAGE.search(self.error)) and not _OURS.search(self.error)


@dataclass(frozen=True)
class Git:
    """git on one git directory that is ours (None: outside any repository).

    `index` and `work_tree` are the files it may touch.  `settings` and `environment` come on top of the fixed ones.
    `held` are file descriptors (locks) that stay open as long as the process lives, even when we die before it.
    """

    git_dir: Path | None
    index: Path | None = None
    work_tree: Path | None = None
    settings: tuple[tuple[str, str], ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    held: tuple[int, ...] = ()

    def run(
        self,
        *argv: str,
        stdin: bytes | IO[bytes] = b"",
        codes: Iterable[int] | None = (0,),
        timeout: float = LOCAL_TIMEOUT,
        limit: int = OUTPUT_LIMIT,
    ) -> Output:
        """Run one git command and return what it said.

        Raises WorkspaceError when it exits with none of `codes` (None takes every code), takes too long, or prints
        more than OUTPUT_LIMIT; with a smaller `limit` the output is cut there instead.
        """
        try:
            result = _run(
                ["git", *argv], self._environment(), self.git_dir or Path("/"), stdin, self.held, timeout, limit
            )
        except subprocess.TimeoutExpired:
            raise WorkspaceError("outage", f"git {argv[0]} was ended after {timeout:.0f} seconds; try again") from None
        except OSError as error:
            raise WorkspaceError("failed", f"git {argv[0]} can't be run: {error}") from error
        if result.cut and limit == OUTPUT_LIMIT:
            raise WorkspaceError("failed", f"git {argv[0]} printed more than {limit} bytes in {self.git_dir}")
        if not result.cut and codes is not None and result.code not in codes:
            kind = "outage" if result.outage else "failed"
            raise WorkspaceError(kind, f"git {argv[0]} failed in {self.git_dir}: {result.reason}", result.words)
        return result

    def _environment(self) -> dict[str, str]:
        places = {
            "GIT_DIR": self.git_dir,
            "GIT_INDEX_FILE": self.index,
            "GIT_WORK_TREE": self.work_tree,
        }
        environment = {name: os.environ[name] for name in PASSED_ON if name in os.environ} | ENVIRONMENT
        environment |= {name: str(place) for name, place in places.items() if place is not None}
        settings = SETTINGS + self.settings
        environment["GIT_CONFIG_COUNT"] = str(len(settings))
        for number, (key, value) in enumerate(settings):
            environment |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
        return environment | dict(self.environment)


def _run(
    argv: Sequence[str],
    environment: Mapping[str, str],
    cwd: Path,
    stdin: bytes | IO[bytes],
    held: tuple[int, ...],
    timeout: float,
    limit: int,
) -> Output:
    with tempfile.TemporaryFile() as spool:
        source: IO[bytes] = spool
        if isinstance(stdin, bytes):
            spool.write(stdin)
            spool.seek(0)
        else:
            source = stdin
        process = subprocess.Popen(
            argv,
            env=environment,
            cwd=cwd,
            stdin=source,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=held,
            start_new_session=True,
        )
    try:
        out, error, cut = _collect(process, time.monotonic() + timeout, limit, argv)
    finally:
        _end(process)
    return Output(process.returncode, out, error.decode(errors="backslashreplace"), cut)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End git and whatever it started (ssh, a hook of a remote on this host), also when git itself is gone already.

    They hold our locks as long as they live, and could still change something after we have said how it ended.
    """
    end_session(process)
    for stream in (process.stdout, process.stderr):
        if stream is not None:
            stream.close()


def _collect(
    process: subprocess.Popen[bytes], deadline: float, limit: int, argv: Sequence[str]
) -> tuple[bytes, bytes, bool]:
    """Both outputs until the process ends; a grandchild that keeps a pipe open doesn't hold us up."""
    assert process.stdout is not None and process.stderr is not None
    out, error = bytearray(), bytearray()
    streams = {process.stdout.fileno(): out, process.stderr.fileno(): error}
    end = os.pidfd_open(process.pid)
    running = True
    try:
        with selectors.DefaultSelector() as selector:
            for fd in (*streams, end):
                selector.register(fd, selectors.EVENT_READ)
            # What was written before the end is still in the pipes after it, so one empty look more is needed.
            while (ready := selector.select(max(deadline - time.monotonic(), 0) if running else 0)) or running:
                if time.monotonic() > deadline:
                    raise subprocess.TimeoutExpired(argv, 0)
                for key, _ in ready:
                    chunk = b"" if key.fd == end else os.read(key.fd, 65536)
                    running = running and key.fd != end
                    if not chunk:
                        selector.unregister(key.fd)
                    else:
                        streams[key.fd].extend(chunk)
                if len(out) > limit:
                    return bytes(out[:limit]), bytes(error), True
                del error[:-ERROR_LIMIT]
    finally:
        os.close(end)
    return bytes(out), bytes(error), False
