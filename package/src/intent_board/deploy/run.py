"""Programs that the deployer starts: complete environment, own process group, an end after a time, bounded output.

The deployer keeps only CAP_SETUID and CAP_SETGID, so it cannot signal a process of another user: such a group is ended
by a child that became that user.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import IO

from intent_board.deploy.host import Account, Host
from intent_board.sandbox import is_child

#: How much of a program's output is kept.
TAIL_BYTES = 16 * 1024
#: An answer on stdout longer than this is cut, and a cut answer is no answer.
ANSWER_BYTES = 8 * 1024 * 1024
#: A log file that grows beyond this starts again from its end.
LOG_BYTES = 16 * 1024 * 1024
#: How much of that end goes on.
LOG_TAIL_BYTES = 1024 * 1024
#: How long the pipes of a program that ended are read when somebody else still holds them.
LINGER_SECONDS = 5.0
#: What a shell answers for a program that does not exist.
NOT_FOUND = 127
_CHUNK = 64 * 1024


@dataclass(frozen=True, slots=True)
class Done:
    """How a program ended.  `exit_code` is negative for a signal; `log` is the end of its output."""

    argv: tuple[str, ...]
    exit_code: int
    answer: str
    log: str
    started: float
    seconds: float
    timed_out: bool = False
    cut: bool = False

    @property
    def ok(self) -> bool:
        return self.exit_code == 0 and not self.timed_out

    @property
    def why(self) -> str:
        """How it went wrong, with its last words, for a sentence."""
        if self.timed_out:
            how = f"did not end within {self.seconds:.0f} s"
        elif self.exit_code < 0:
            how = f"was ended by signal {-self.exit_code}"
        else:
            how = f"ended with {self.exit_code}"
        lines = [line.strip() for line in self.log.splitlines() if line.strip()]
        # git and nix explain at length after the line that says what is wrong.
        said = (line for line in lines if line.startswith(("fatal: ", "error: ")))
        words = next(said, lines[-1] if lines else "")
        return f"{how}: {words[:300]}" if words else how

    def as_data(self) -> dict[str, object]:
        """The same as JSON data for a record."""
        data: dict[str, object] = {
            "argv": list(self.argv),
            "exit_code": self.exit_code,
            "started": round(self.started, 3),
            "seconds": round(self.seconds, 3),
            "output": self.log,
        }
        return data | ({"timed_out": True} if self.timed_out else {}) | ({"cut": True} if self.cut else {})


def as_user(account: Account, argv: Sequence[str]) -> list[str]:
    """The command line that runs `argv` as this user and nothing more, and ends it when the deployer ends."""
    ids = [f"--reuid={account.uid}", f"--regid={account.gid}", "--clear-groups"]
    return ["setpriv", *ids, "--no-new-privs", "--pdeathsig=KILL", "--", *argv]


def run(
    argv: Sequence[str],
    host: Host,
    *,
    timeout: float,
    account: Account | None = None,
    environment: Mapping[str, str] | None = None,
    stdin: bytes = b"",
    log_file: Path | None = None,
    keep_open: Sequence[int] = (),
    umask: int = 0o022,
) -> Done:
    """Run a program to its end.

    `account` runs it as that user (as root else, or as whoever calls).  Nothing is inherited but `PATH`; `environment`
    is added.  With `log_file` the whole output goes to that file, never through a pipe, so that the program survives
    the end of the deployer; else stdout is the answer and stderr the log.  A program that does not exist is exit
    code 127.  `keep_open` are file descriptors that the program holds too.  `umask` is not the unit's, since root
    without capabilities must be able to look at what the build user made.
    """
    command = as_user(account, argv) if account is not None else list(argv)
    complete = {"PATH": host.search_path, "LC_ALL": "C.UTF-8", **(environment or {})}
    started, clock = time.time(), time.monotonic()
    output = _open_log(log_file) if log_file is not None else None
    try:
        process = subprocess.Popen(
            command,
            env=complete,
            cwd="/",
            stdin=subprocess.PIPE if stdin else subprocess.DEVNULL,
            stdout=subprocess.PIPE if output is None else output,
            stderr=subprocess.PIPE if output is None else subprocess.STDOUT,
            start_new_session=True,
            pass_fds=tuple(keep_open),
            umask=umask,
        )
    except (FileNotFoundError, PermissionError, NotADirectoryError) as error:
        words = f"{command[0]}: {error.strerror}"
        return Done(tuple(command), NOT_FOUND, "", words, started, time.monotonic() - clock)
    finally:
        if output is not None:
            output.close()
    ours = is_child(process.pid)
    readers = _Readers(process, stdin)
    timed_out = not _wait(process, timeout, log_file)
    # What it started may go on when it is over itself: it would hold the pipes, and act after it was judged.
    if ours and (timed_out or _anybody_left(process.pid)):
        end_group(process.pid, account)
        process.wait()
    answer, log, cut = readers.finish()
    if log_file is not None:
        log = read_tail(log_file)
    seconds = time.monotonic() - clock
    return Done(tuple(command), process.returncode, answer, log, started, seconds, timed_out, cut)


def end_group(group: int, account: Account | None) -> None:
    """End every process of a group, as the user they run as."""
    if account is None or os.geteuid() != 0:
        _kill(group)
        return
    child = os.fork()
    if child == 0:  # pragma: no cover - coverage does not see a fork
        try:
            os.setgroups([])
            os.setresgid(account.gid, account.gid, account.gid)
            os.setresuid(account.uid, account.uid, account.uid)
            _kill(group)
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    # setpriv itself may not have changed its user yet; then it still is root's to end.
    _kill(group)


def _anybody_left(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True  # another user's
    return True


def _kill(group: int) -> None:
    try:
        os.killpg(group, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return  # already gone, or another user's: the caller has tried as that user


def _wait(process: subprocess.Popen[bytes], timeout: float, log_file: Path | None) -> bool:
    """False when the time is over.  A log that grows too large meanwhile is cut to its end."""
    deadline = time.monotonic() + timeout
    while True:
        step = deadline - time.monotonic()
        if step <= 0:
            return process.poll() is not None
        try:
            process.wait(min(step, 1.0) if log_file is not None else step)
        except subprocess.TimeoutExpired:
            if log_file is not None:
                _shorten(log_file)
            continue
        return True


def _open_log(path: Path) -> IO[bytes]:
    # O_APPEND lets the file be shortened while the program goes on writing to its end.
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
    return os.fdopen(os.open(path, flags, 0o600), "wb", buffering=0)


def _shorten(path: Path) -> None:
    if path.stat().st_size > LOG_BYTES:
        tail = read_tail(path, LOG_TAIL_BYTES).encode()
        with path.open("r+b") as file:
            file.truncate(0)
            file.write(b"[the log grew too large; its beginning is gone]\n" + tail)


def read_tail(path: Path, limit: int = TAIL_BYTES) -> str:
    """The end of a file, at most `limit` bytes of it."""
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - limit))
        return file.read(limit).decode(errors="replace")


class _Readers:
    """Both pipes read to their end, whatever comes, in a bounded amount of memory."""

    def __init__(self, process: subprocess.Popen[bytes], stdin: bytes) -> None:
        self._answer, self._log, self._cut = bytearray(), bytearray(), False
        jobs: list[tuple[object, ...]] = []
        if process.stdout is not None:
            jobs.append((self._read_answer, process.stdout))
        if process.stderr is not None:
            jobs.append((self._read_log, process.stderr))
        if stdin:
            assert process.stdin is not None
            jobs.append((self._write, process.stdin, stdin))
        self._threads = [threading.Thread(target=job[0], args=job[1:], daemon=True) for job in jobs]  # type: ignore[arg-type]
        for thread in self._threads:
            thread.start()

    def _read_answer(self, stream: BufferedReader) -> None:
        while chunk := stream.read1(_CHUNK):
            room = ANSWER_BYTES - len(self._answer)
            self._answer += chunk[:room]
            self._cut = self._cut or len(chunk) > room

    def _read_log(self, stream: BufferedReader) -> None:
        while chunk := stream.read1(_CHUNK):
            self._log += chunk
            del self._log[:-TAIL_BYTES]

    def _write(self, stream: IO[bytes], data: bytes) -> None:
        try:
            with stream:
                stream.write(data)
        except BrokenPipeError:
            return  # it ended without reading; its exit code says why

    def finish(self) -> tuple[str, str, bool]:
        # A grandchild that left the group may hold a pipe open for ever; what was read by then is what there is.
        deadline = time.monotonic() + LINGER_SECONDS
        for thread in self._threads:
            thread.join(max(deadline - time.monotonic(), 0.0))
        return self._answer.decode(errors="replace"), self._log.decode(errors="replace"), self._cut
