"""The build user's own mirror of the repository: the remote's branch, fetched by that user, proved before it is used.

Root runs no git.  What the board's service user has in its own mirror is not looked at: the branch comes from the
remote itself.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from intent_board.config import Branch, Repository
from intent_board.deploy.host import Account, DeployRefused, Host
from intent_board.deploy.run import Done, run
from intent_board.workspace.errors import WorkspaceError
from intent_board.workspace.remote import Settings, access

#: A whole commit hash and nothing that git would resolve to one.
COMMIT = re.compile(r"[0-9a-f]{40}")
#: More commits than this came along: the record holds the newest ones and says that there are more.
MAX_COMMITS = 1000
_FETCH_SECONDS = 600.0
_QUICK_SECONDS = 60.0
#: What `git init` writes.  Anything else in the mirror's configuration may name a program to run.
_PLAIN_KEYS = frozenset({"core.repositoryformatversion", "core.filemode", "core.bare", "core.logallrefupdates"})
#: What git itself makes in a repository that has no files.  Anything else leads it to other objects (alternates,
#: grafts), other attributes, or programs (hooks).
_PLAIN_PARTS = frozenset(
    {"HEAD", "config", "objects", "refs", "packed-refs", "logs", "info", "description", "branches", "gc.log"}
)
_PLAIN_INFO = frozenset({"refs"})
_FOREIGN_OBJECTS = ("info/alternates", "info/http-alternates")
Network = tuple[Settings, dict[str, str]]


def is_commit(text: object) -> bool:
    """Whether this is one full hash: no abbreviation, tag, branch, `HEAD`, option or path."""
    return isinstance(text, str) and COMMIT.fullmatch(text) is not None


@dataclass(frozen=True, slots=True)
class Mirror:
    """One repository as the build user sees it.  `branch` None is the remote's HEAD until `fetch` has asked."""

    host: Host
    account: Account
    name: str
    repository: Repository

    @property
    def path(self) -> Path:
        return self.host.build_dir / "mirrors" / self.name

    @property
    def git_dir(self) -> Path:
        """Nix copies a bare repository once more before it looks at it, so this one is not bare; it has no files."""
        return self.path / ".git"

    def prepare(self) -> None:
        """Make the mirror when it is missing, and prove that it is the build user's own and as git made it.

        Raises DeployRefused for a mirror, or a part of it, that is a link, another user's, writable by others, or
        configured.
        """
        _own_directory(self.host.build_dir, self.account, "the build user's directory")
        if self.git_dir.is_dir():
            # Only one deployment runs, so what a killed git left locked is nobody's.
            self._run(["find", str(self.git_dir), "-name", "*.lock", "-type", "f", "-delete"], _QUICK_SECONDS)
        if not os.path.lexists(self.path):
            for argv in (
                ["mkdir", "-p", "-m", "755", str(self.path.parent), str(self.host.build_dir / "home")],
                ["git", "init", "--quiet", "--template=", str(self.path)],
            ):
                done = self._run(argv, _QUICK_SECONDS)
                if not done.ok:
                    raise DeployRefused(
                        f"{self.path} cannot be made: {done.argv[-2]} {done.why}; look at {self.path.parent}"
                    )
        self._prove_plain()

    def _prove_plain(self) -> None:
        for path in (self.path.parent, self.path, self.git_dir, self.git_dir / "objects", self.git_dir / "refs"):
            _own_directory(path, self.account, "the mirror")
        for entry in (*self.path.iterdir(), *self.git_dir.iterdir()):
            status = entry.lstat()
            if stat.S_ISLNK(status.st_mode) or status.st_uid != self.account.uid:
                raise DeployRefused(f"{entry} is a link or another user's; remove {self.path}, it is fetched anew")
        foreign = [entry for entry in self.path.iterdir() if entry.name != ".git"]
        foreign += [entry for entry in self.git_dir.iterdir() if entry.name not in _PLAIN_PARTS]
        info = self.git_dir / "info"
        foreign += [entry for entry in info.iterdir() if entry.name not in _PLAIN_INFO] if info.is_dir() else []
        objects = (self.git_dir / "objects" / part for part in _FOREIGN_OBJECTS)
        foreign += [path for path in objects if os.path.lexists(path)]
        if foreign:
            raise DeployRefused(f"{foreign[0]} was not made by the deployer; remove {self.path}, it is fetched anew")
        done = self._run(
            ["git", "config", "--file", str(self.git_dir / "config"), "--name-only", "--list", "-z"], _QUICK_SECONDS
        )
        keys = set(done.answer.split("\0")) - {""}
        if not done.ok or keys - _PLAIN_KEYS:
            what = ", ".join(sorted(keys - _PLAIN_KEYS)) or done.why
            raise DeployRefused(
                f"{self.git_dir}/config was changed ({what[:200]}); remove {self.path}, it is fetched anew"
            )

    def fetch(self) -> tuple[str, str, Done]:
        """Bring the remote's branch here.  Returns the branch, its commit, and how git ended.

        Raises DeployRefused, with `later` set, when the remote cannot be reached or has no such branch.
        """
        with self._reaching() as network:
            branch = self.repository.branch or self._default_branch(network)
            ref = f"refs/heads/{branch}"
            words = ["fetch", "--quiet", "--force", "--no-tags", "--no-recurse-submodules", "--no-write-fetch-head"]
            words += ["--update-head-ok", "--", "origin", f"+{ref}:{ref}"]
            done = self._git(*words, timeout=_FETCH_SECONDS, network=network)
            if not done.ok and self._git("ls-remote", "--", "origin", ref, timeout=_QUICK_SECONDS, network=network).ok:
                # The remote answers, so it is the mirror that is broken, by a power cut perhaps.
                self._run(["rm", "-rf", "--", str(self.path)], _FETCH_SECONDS)
                self.prepare()
                done = self._git(*words, timeout=_FETCH_SECONDS, network=network)
        if not done.ok:
            raise DeployRefused(f"branch {branch!r} of {self.name!r} cannot be fetched: git {done.why}", later=True)
        # Nix asks for HEAD even where a revision is named.
        self._git("symbolic-ref", "HEAD", ref)
        tip = self._git("rev-parse", "--verify", "--end-of-options", f"{ref}^{{commit}}")
        if not tip.ok or not is_commit(tip.answer.strip()):
            raise DeployRefused(f"branch {branch!r} of {self.name!r} is no commit: git {tip.why}; look at the remote")
        return branch, tip.answer.strip(), done

    def _default_branch(self, network: Network) -> str:
        done = self._git("ls-remote", "--symref", "--", "origin", "HEAD", timeout=_FETCH_SECONDS, network=network)
        found = re.match(r"ref: refs/heads/(\S+)\tHEAD\n", done.answer)
        if not done.ok or not found:
            words = f"the remote of {self.name!r} names no branch as HEAD: git {done.why}; set its branch"
            raise DeployRefused(words, later=not done.ok)
        try:
            return TypeAdapter[str](Branch).validate_python(found.group(1))
        except ValidationError:
            words = f"the remote of {self.name!r} calls its branch {found.group(1)[:80]!r}; set its branch"
            raise DeployRefused(words) from None

    @contextmanager
    def _reaching(self) -> Iterator[Network]:
        """What git needs to reach the remote; the build user has the credential only as long as this lasts."""
        copy = self.host.build_dir / "credential"
        try:
            yield access(self.name, self.repository, _Lent(self._lend, copy))
        except WorkspaceError as error:
            raise DeployRefused(str(error)) from None
        finally:
            if self.repository.credential or self.repository.fetch_credential:
                self._run(["rm", "-f", "--", str(copy)], _QUICK_SECONDS)

    def _lend(self, name: str, copy: Path) -> bool:
        """Copy a credential, which only root can read, to where the build user can; whether there is one."""
        directory = os.environ.get("CREDENTIALS_DIRECTORY")
        source = Path(directory) / name if directory else None
        if source is None or not source.is_file():
            return False
        done = run(["dd", f"of={copy}", "status=none"], self.host, timeout=_QUICK_SECONDS, account=self.account,
                   stdin=source.read_bytes(), umask=0o077)  # fmt: skip
        if not done.ok:
            raise DeployRefused(f"{copy} cannot be written: dd {done.why}; look at {self.host.build_dir}")
        return True

    def has(self, commit: str) -> bool:
        """Whether the mirror holds this commit."""
        return is_commit(commit) and self._git("cat-file", "-e", "--end-of-options", f"{commit}^{{commit}}").ok

    def is_ancestor(self, commit: str, of: str) -> bool:
        """Whether `of` contains `commit`.  A commit that the mirror does not have is contained in nothing."""
        if not (self.has(commit) and self.has(of)):
            return False
        done = self._git("merge-base", "--is-ancestor", commit, of)
        if done.exit_code not in (0, 1) or done.timed_out:
            raise DeployRefused(f"git cannot compare {commit} and {of}: merge-base {done.why}; look at {self.path}")
        return done.ok

    def between(self, old: str | None, new: str) -> tuple[str, ...]:
        """The commits that `new` brings over `old`, newest first, at most MAX_COMMITS."""
        span = [new] if old is None else [new, f"^{old}"]
        done = self._git("rev-list", f"--max-count={MAX_COMMITS}", *span)
        if not done.ok:
            raise DeployRefused(f"git cannot list what {new} brings: rev-list {done.why}; look at {self.path}")
        return tuple(done.answer.split())

    def _git(self, *words: str, timeout: float = _QUICK_SECONDS, network: Network = ((), {})) -> Done:
        return self._run(["git", f"--git-dir={self.git_dir}", *words], timeout, network)

    def _run(self, argv: list[str], timeout: float, network: Network = ((), {})) -> Done:
        settings, variables = network
        environment = git_environment(self.host, settings) | variables
        return run(argv, self.host, timeout=timeout, account=self.account, environment=environment)


@dataclass(frozen=True, slots=True)
class _Lent:
    """The credentials of one fetch, as `workspace.remote` asks for them."""

    lend: Callable[[str, Path], bool]
    copy: Path

    def path(self, name: str) -> Path | None:
        return self.copy if self.lend(name, self.copy) else None


def git_environment(host: Host, more: Settings = ()) -> dict[str, str]:
    """An environment in which git reads no configuration but the repository's own, and runs nothing that one names."""
    settings = {
        "core.hooksPath": "/dev/null",
        "core.fsmonitor": "false",
        "credential.helper": "",
        # One pack a fetch, and few packs: git tidies up before it returns, never behind the deployer's back.
        "fetch.unpackLimit": "1",
        "gc.autoDetach": "false",
        "maintenance.autoDetach": "false",
        "protocol.allow": "never",
        **dict(more),
    }
    environment = {"GIT_CONFIG_COUNT": str(len(settings))}
    for number, (key, value) in enumerate(settings.items()):
        environment |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
    return environment | {
        "HOME": str(host.build_dir / "home"),
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_NO_REPLACE_OBJECTS": "1",
    }


def _own_directory(path: Path, account: Account, what: str) -> None:
    """Raises DeployRefused unless `path` is a directory of this user (no link) that nobody else may write."""
    try:
        status = path.lstat()
    except OSError as error:
        raise DeployRefused(f"{what} {path} is not there ({error.strerror}); the module's tmpfiles make it") from None
    if not stat.S_ISDIR(status.st_mode):
        raise DeployRefused(f"{what} {path} is no directory but something else, a link perhaps; remove it")
    if status.st_uid != account.uid:
        raise DeployRefused(f"{what} {path} belongs to uid {status.st_uid}, not to {account.name}; remove it")
    if status.st_mode & 0o022:
        raise DeployRefused(f"{what} {path} can be written by others than {account.name}; remove it")
