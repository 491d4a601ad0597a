"""The bare mirror of one repository: every branch of its remote, and the objects that all clones borrow.

No object of it is ever pruned, reachable or not: clones borrow them, and a commit that is not published yet has no
ref.  What many small fetches and commits leave is rolled up into larger packs.

Its configuration holds no address: each command gets the configured one, so a changed `remote_url` holds from the next
fetch on.
"""

from __future__ import annotations

import contextlib
import logging
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from intent_board.boundaries import boundary
from intent_board.config import Repository
from intent_board.workspace.errors import WorkspaceError
from intent_board.workspace.files import lock, make_git_dir, remove, replace_text, temporary
from intent_board.workspace.git import NETWORK_TIMEOUT, Git, Output
from intent_board.workspace.objects import full_hash, list_files, moving
from intent_board.workspace.remote import UPLOAD_PACK, Credentials, access, scheme
from intent_board.workspace.tree import Entry

#: What a killed git leaves in the object store is rubbish after this time, longer than any git of ours may run.
STALE_SECONDS = 6 * 3600
#: Objects are rolled up beyond so many packs, or beyond so many loose ones with a given first byte (6,700 in all); both
#: are git's own measures.
PACKS, LOOSE = 50, 27
#: How often that is tried: one that fails or takes its whole time must not hold up each job.
PACK_PAUSE, PACK_TIMEOUT = 24 * 3600, 600.0

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Mirror:
    """The mirror `path` of the configured repository `name`."""

    name: str
    repository: Repository
    path: Path
    lock_path: Path
    credentials: Credentials

    @property
    def git(self) -> Git:
        """git on the mirror, without its remote.  Raises WorkspaceError when there is no mirror."""
        if not self.path.is_dir():
            raise WorkspaceError("failed", f"repository {self.name!r} has no mirror at {self.path}; fetch it first")
        return Git(self.path)

    @property
    def digits(self) -> int:
        """The length of an object name: 40, or 64 in a SHA-256 repository."""
        return 64 if "sha256" in (self.path / "config").read_text() else 40

    @property
    def head(self) -> str:
        """The branch that the last fetch found to be the repository's."""
        return (self.path / "HEAD").read_text().strip().removeprefix("ref: refs/heads/")

    @contextlib.contextmanager
    def locked(self) -> Iterator[Git]:
        """git on the mirror while nobody else changes its refs; a killed predecessor's lock files are cleared."""
        with lock(self.lock_path, timeout=NETWORK_TIMEOUT + 60) as fd:
            # Every process that changes refs here inherits this lock, so a lock file without one is a dead one's.
            for name in ("packed-refs.lock", "HEAD.lock", "config.lock", "shallow.lock"):
                (self.path / name).unlink(missing_ok=True)
            for stale in (self.path / "refs").rglob("*.lock"):
                stale.unlink(missing_ok=True)
            yield replace(self.git, held=(fd,))

    def fetch(self) -> str:
        """Make or update the mirror; returns the configured branch, or the remote's own default.

        Raises WorkspaceError: outage, the remote's refusal, or a remote that has branches but not this one.
        """
        self.make()
        with self.locked() as git:
            branch = self.repository.branch or self._default_branch(git)
            self.update(git)
            self.clear_rubbish()
            self.roll_up(git)
            if self.head != branch:
                replace_text(self.path / "HEAD", f"ref: refs/heads/{branch}\n")
            others = self.branches(git)
        if others and branch not in others:
            known = ", ".join(sorted(others)[:10])
            raise WorkspaceError(
                "failed", f"the remote of {self.name!r} has no branch {branch!r}; it has {known}: correct the branch"
            )
        return branch

    def update(self, git: Git) -> None:
        """Bring every branch of the remote in, removed ones out.  The caller holds `locked`."""
        self.read(
            git, "fetch", "--quiet", "--no-tags", "--prune", "--update-shallow", "--no-write-fetch-head",
            "--no-auto-maintenance", "--no-recurse-submodules", "origin",
        )  # fmt: skip
        boundary("workspace: fetched")

    def ask(self, git: Git, *argv: str, push: bool = False) -> Output:
        """Run a git command that reaches the remote, as `origin`; whatever it exits with."""
        settings, environment = access(self.name, self.repository, self.credentials, push=push)
        online = replace(git, settings=git.settings + settings, environment=environment)
        return online.run(*argv, codes=None, timeout=NETWORK_TIMEOUT)

    def read(self, git: Git, *argv: str) -> Output:
        """The same for a command that only reads.  Raises WorkspaceError when the remote does not let it."""
        result = self.ask(git, *argv)
        if result.code and result.outage:
            raise WorkspaceError(
                "outage",
                f"the remote of {self.name!r} can't be reached: {result.reason}; try again later",
                result.words,
            )
        if result.code:
            raise WorkspaceError(
                "failed",
                f"the remote of {self.name!r} can't be read: {result.reason}; "
                f"check repositories.{self.name}.remote_url and its fetch_credential",
                result.words,
            )
        return result

    def make(self) -> None:
        """Make an empty mirror in the remote's object format, unless there is one."""
        if self.path.is_dir():
            return
        with lock(self.lock_path, timeout=NETWORK_TIMEOUT + 60) as fd:
            if self.path.is_dir():
                return
            listing = self.read(Git(None, held=(fd,)), "ls-remote", "--symref", "origin")
            new = self.path.with_name(f".new-{self.path.name}")
            remove(new)
            new.parent.mkdir(parents=True, exist_ok=True)
            if listing.out:
                head = _symref(listing) or "main"
                digits = len(listing.out.splitlines()[-1].split(b"\t")[0])
            else:
                head, digits = self._empty_remote(fd)
            make_git_dir(new, head=head, bare=True, digits=digits)
            new.rename(self.path)
            boundary("workspace: mirror made")

    def _empty_remote(self, fd: int) -> tuple[str, int]:
        """Branch name and object format of a remote without a commit; only a clone asks for them."""
        with temporary(self.path.parent) as place:
            target = place / "probe"
            # Unlike the others, clone takes neither the name of a remote nor that remote's settings.
            address = self.repository.remote_url
            options = ["--quiet", "--bare", "--template=", "--no-local"]
            options += [f"--upload-pack={UPLOAD_PACK}"] if scheme(address) == "file" else []
            self.read(Git(None, held=(fd,)), "clone", *options, "--", address, str(target))
            head = (target / "HEAD").read_text().strip().removeprefix("ref: refs/heads/")
            return head, 64 if "sha256" in (target / "config").read_text() else 40

    def _default_branch(self, git: Git) -> str:
        listing = self.read(git, "ls-remote", "--symref", "origin", "HEAD")
        if branch := _symref(listing):
            return branch
        if self.branches(git):
            raise WorkspaceError(
                "failed", f"HEAD in the remote of {self.name!r} names no branch; set repositories.{self.name}.branch"
            )
        return self.head

    def branches(self, git: Git) -> dict[str, str]:
        """Every branch of the remote as the last fetch saw it, with its commit."""
        listing = git.run("for-each-ref", "--format=%(objectname) %(refname:lstrip=2)", "refs/heads").out
        # A name is any bytes without a blank or a newline; U+2028 and its like are no line ends to git.
        lines = (line.decode(errors="backslashreplace") for line in listing.split(b"\n") if line)
        return {name: commit for commit, name in (line.split(" ", 1) for line in lines)}

    def tip(self, branch: str) -> str | None:
        """The commit of a branch as the last fetch saw it, None when there is no such branch."""
        found = self.git.run("rev-parse", "--verify", "--quiet", f"refs/heads/{branch}^{{commit}}", codes=(0, 1))
        return found.out.decode().strip() or None

    def is_ancestor(self, commit: str, of: str) -> bool:
        """Whether `of` contains `commit`.  A commit that the mirror does not know is contained in nothing."""
        result = self.git.run("merge-base", "--is-ancestor", full_hash(commit), full_hash(of), codes=(0, 1, 128))
        if result.code == 128 and self.has(commit) and self.has(of):
            raise WorkspaceError("failed", f"git can't compare commits of {self.name!r}", result.words)
        return result.code == 0

    def has(self, commit: str) -> bool:
        """Whether the mirror holds this commit."""
        return self.git.run("cat-file", "-e", f"{full_hash(commit)}^{{commit}}", codes=None).code == 0

    def entries(self, commit: str | None) -> dict[bytes, Entry]:
        """Every file of a commit (None: no commit yet, so no file).

        Raises WorkspaceError when the mirror has no such commit, and for submodules, which the board can't carry.
        """
        return {} if commit is None else list_files(self.git, commit)

    def clear_rubbish(self) -> None:
        """Remove what killed processes left in the object store long ago."""
        limit = time.time() - STALE_SECONDS
        for pattern in ("pack/tmp_*", "pack/.tmp-*", "??/tmp_obj_*", "tmp_objdir-*", "incoming-*"):
            for path in (self.path / "objects").glob(pattern):
                # Those that vanish meanwhile belong to a git that lives.
                with contextlib.suppress(FileNotFoundError):
                    if path.lstat().st_mtime < limit:
                        remove(path)

    def roll_up(self, git: Git) -> None:
        """Pack loose objects and small packs together, where there are many.  The caller holds `locked`.

        Every object stays, and a git that reads meanwhile looks again where a file has gone.  That it can't be done now
        is logged, and hinders nothing.
        """
        objects, stamp = self.path / "objects", self.path / "rolled-up"
        if len(list(objects.glob("pack/*.pack"))) <= PACKS and len(list(objects.glob("17/*"))) <= LOOSE:
            return
        with contextlib.suppress(FileNotFoundError):
            # A time from the future is that of a clock that was set back: it keeps nobody from packing.
            if 0 <= time.time() - stamp.stat().st_mtime < PACK_PAUSE:
                return
        try:
            stamp.touch()
            with moving(self.path) as fd:
                # It drops directories as long as it lives, also when we die before it.
                packer = replace(git, held=(*git.held, fd))
                # A geometric repack takes loose objects and all that is in the packs that it replaces, whatever reaches
                # them; without an option to prune nothing is let go.
                packer.run("repack", "--geometric=2", "-d", "-l", "-q", "--no-write-bitmap-index", timeout=PACK_TIMEOUT)
        except (OSError, WorkspaceError) as error:
            log.warning("the mirror of %s stays in many small files: %s", self.name, error)


def _symref(listing: Output) -> str | None:
    """The branch that HEAD names, None when there is none or its name is no text, which no file of ours could hold."""
    match = re.match(rb"ref: refs/heads/(\S+)\tHEAD\n", listing.out)
    try:
        return match.group(1).decode() if match else None
    except UnicodeDecodeError:
        return None
