"""git: mirrors, private clones, the trusted commit, the scope of a diff, checks, and publishing.

Everything here is trusted code of the service user.  A tree that an agent wrote is walked and read as bytes; no git
command outside a sandbox ever takes its .git, index, attributes or configuration for its own.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

from intent_board.config import SLUG_PATTERN, BoardConfig
from intent_board.workspace import checks, clone, commit, publish, report
from intent_board.workspace.checks import CheckResult
from intent_board.workspace.clone import Mark
from intent_board.workspace.commit import Commit, Tree
from intent_board.workspace.errors import WorkspaceError
from intent_board.workspace.files import temporary
from intent_board.workspace.ignore import asker
from intent_board.workspace.mirror import Mirror
from intent_board.workspace.names import shown
from intent_board.workspace.objects import read_blobs
from intent_board.workspace.publish import Moved, Published
from intent_board.workspace.quarantine import Quarantine
from intent_board.workspace.remote import Credentials
from intent_board.workspace.report import ChangedFile, TreeReport

__all__ = [
    "ChangedFile",
    "CheckResult",
    "Commit",
    "Credentials",
    "Moved",
    "Published",
    "TreeReport",
    "Workspace",
    "WorkspaceError",
]

P = ParamSpec("P")
R = TypeVar("R")


def _said(method: Callable[Concatenate[Workspace, P], R]) -> Callable[Concatenate[Workspace, P], R]:
    """A full disk, missing permissions and the like become one sentence too."""

    @functools.wraps(method)
    def wrapped(self: Workspace, /, *args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return method(self, *args, **kwargs)
        except OSError as error:
            place = f" at {shown(str(error.filename).encode(errors='surrogateescape'))}" if error.filename else ""
            raise WorkspaceError(
                "failed", f"{method.__name__} stopped: {error.strerror or error}{place}; correct that and try again"
            ) from error

    return wrapped


def _run_name(name: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_]*-[A-Za-z0-9_]+", name):
        raise WorkspaceError("failed", f"{name!r} does not name a run; use <job>-<token>")
    return name


def _is_text(path: bytes) -> bool:
    try:
        path.decode()
    except UnicodeDecodeError:
        return False
    return True


class Workspace:
    """The git side of one board.

    Every method raises WorkspaceError, and may be repeated after any interruption: the same arguments come to the
    same result.  Commits are full hashes; paths in results are text that can be stored (names.shown).
    """

    def __init__(self, config: BoardConfig, credentials: Credentials) -> None:
        self._config, self._credentials = config, credentials
        state = config.state_dir
        self._mirrors, self._trees, self._checkouts = state / "mirrors", state / "trees", state / "checkouts"
        self._locks = state / "locks"
        self._ignored = asker(self._mirrors, config.board.sandbox)

    @_said
    def fetch(self, repository: str) -> str:
        """Make or update the mirror; returns the configured branch, or the remote's default.

        Kinds: outage; failed for a remote that refuses, or that has branches but not this one.
        """
        return self._mirror(repository).fetch()

    @_said
    def tip(self, repository: str, branch: str) -> str | None:
        """The branch's commit as of the last fetch; None when it has none yet."""
        return self._mirror(repository).tip(branch)

    @_said
    def known(self, repository: str) -> str | None:
        """The commit of the repository's branch as of the last fetch; None before the first, or while it is unborn."""
        mirror = self._mirror(repository)
        if not mirror.path.is_dir():
            return None
        return mirror.tip(self._config.repositories[repository].branch or mirror.head)

    @_said
    def listing(self, repository: str, commit_hash: str) -> tuple[str, ...]:
        """Every file of a commit whose path is text, sorted."""
        paths = self._mirror(repository).entries(commit_hash)
        return tuple(path.decode() for path in sorted(paths) if _is_text(path))

    @_said
    def texts(self, repository: str, commit_hash: str, paths: Sequence[str]) -> dict[str, str]:
        """What stands in these files of a commit, links left out; what is not UTF-8 is replaced."""
        mirror = self._mirror(repository)
        entries = mirror.entries(commit_hash)
        wanted = {path: entry.oid for path in paths if (entry := entries.get(path.encode())) and entry.mode != "120000"}
        blobs = read_blobs(mirror.git, wanted.values())
        return {path: blobs[oid].decode(errors="replace") for path, oid in wanted.items()}

    @_said
    def is_ancestor(self, repository: str, commit: str, of: str) -> bool:
        """Whether `of` contains `commit`; False for commits that the mirror does not know."""
        return self._mirror(repository).is_ancestor(commit, of)

    @_said
    def clone(self, repository: str, slug: str, base: str | None) -> Path:
        """The card's private clone, made at `base` (None: unborn branch); one that exists is returned as it is.

        Kind failed: submodules or git-lfs in the repository, or an unknown commit.
        """
        return clone.clone(self._mirror(repository), self._trees, self._locks, self._slug(slug), base)

    def tree(self, slug: str) -> Path | None:
        """The card's private clone, if there is one."""
        tree = self._tree(slug)
        return tree if tree.is_dir() else None

    @_said
    def base(self, slug: str) -> str | None:
        """The commit that the card's clone was made at; None: an unborn branch, or no clone."""
        return self._mark(slug).base

    @_said
    def holds(self, slug: str, commit: str) -> bool:
        """Whether the card's clone was made at this commit, or this is the last one made from it."""
        mark = self._mark(slug)
        return commit in (mark.base, mark.commit)

    def objects(self, repository: str) -> Path:
        """What clones and checkouts of a repository borrow: to be mounted read-only at its own path."""
        return self._mirror(repository).path / "objects"

    @_said
    def checkout(self, repository: str, commit: str, name: str) -> Path:
        """A fresh checkout of the commit at checkouts/<name> (`<job>-<token>`), to be mounted read-only.

        It has a .git of its own, detached at the commit, for `git log` and nix.
        """
        return clone.checkout(self._mirror(repository), self._checkouts, self._locks, commit, _run_name(name))

    @_said
    def unchanged(self, checkout: Path, repository: str, commit: str) -> bool:
        """Whether a checkout still is byte for byte its commit; else the run that had it is void."""
        return clone.unchanged(self._mirror(repository), checkout, commit)

    @_said
    def remove_checkout(self, checkout: Path) -> None:
        """Remove a checkout after its run."""
        clone.remove_checkout(checkout, self._locks)

    @_said
    def commit_tree(
        self,
        repository: str,
        slug: str,
        *,
        base: str | None,
        scope: Sequence[str],
        title: str,
        body: str,
        trailers: Mapping[str, str],
        forbidden_values: Iterable[str],
        when: int,
    ) -> Commit | None:
        """Commit the card's tree on `base`; None when it holds no change.

        `when` (epoch seconds; the job's creation) dates the commit, so that a repetition gives the same hash.  Kind
        check_failed: a path outside `scope`, a secret, or something that may not be committed; `detail` has the list.
        """
        mirror, tree = self._mirror(repository), Tree(self._tree(slug), self._ignored)
        told = commit.Told(title, body, trailers, when)
        made = commit.commit_tree(mirror, tree, told, base=base, scope=scope, forbidden=forbidden_values)
        if made is not None:
            with clone.trees_locked(self._locks):
                Mark(base, made.hash).write(self._trees, slug)
        return made

    @_said
    def quarantine(self, repository: str, name: str) -> Path:
        """A new, empty repository at quarantines/<name> (`<job>-<token>`) that one Fixer run may push to."""
        return self._quarantine(repository, name).make()

    @_said
    def pushed(self, repository: str, name: str) -> bool:
        """Whether anything was pushed to a quarantine repository."""
        return self._quarantine(repository, name).pushed()

    @_said
    def take(
        self,
        repository: str,
        name: str,
        branch: str,
        commit: str,
        *,
        parent: str,
        scope: Sequence[str],
        forbidden_values: Iterable[str],
    ) -> Commit:
        """Take exactly this commit, one on `parent`, from a quarantine repository's branch into the mirror.

        Kind check_failed: it is not there, not that, or breaks a rule that commit_tree holds too.
        """
        held = self._quarantine(repository, name)
        return held.take(branch, commit, parent=parent, scope=scope, forbidden=forbidden_values)

    @_said
    def remove_quarantine(self, repository: str, name: str) -> None:
        """Remove a quarantine repository."""
        self._quarantine(repository, name).remove()

    @_said
    def run_checks(self, repository: str, commit: str, *, lock_fd: int | None = None) -> list[CheckResult]:
        """The repository's checks on a fresh checkout of the commit, in order, up to the first that fails."""
        mirror, results = self._mirror(repository), list[CheckResult]()
        settings = mirror.repository
        if not settings.checks:
            return results
        with temporary(self._checkouts) as directory:
            tree = directory / "checkout"
            clone.populate(mirror, tree, commit, branch=None)
            objects = self.objects(repository)
            box = checks.box(tree, objects, network=settings.check_network, nix_daemon=settings.nix_daemon)
            timeout = settings.check_timeout_minutes * 60.0
            for argv in settings.checks:
                mode = self._config.board.sandbox
                results.append(checks.run_check(argv, box, mode=mode, timeout=timeout, lock_fd=lock_fd))
                if results[-1].exit_code != 0:
                    break
        return results

    @_said
    def paths_changed(self, repository: str, base: str | None, commit_hash: str) -> tuple[str, ...]:
        """Every path that differs between two commits, renames as both."""
        return tuple(map(shown, sorted(commit.raw_diff(self._mirror(repository).git, base, commit_hash))))

    @_said
    def diff(self, repository: str, base: str | None, commit_hash: str, limit_bytes: int) -> str:
        """The change as a patch, cut after `limit_bytes`, which its last line then says."""
        return commit.diff(self._mirror(repository), base, commit_hash, limit_bytes)

    @_said
    def rebase(self, repository: str, commit: str, onto: str, *, base: str | None) -> str:
        """The card's commits, those from its `base` to `commit`, again on top of `onto`; returns the new hash.

        Kind publish_failed: a conflict (`detail` has the paths), or nothing left to publish.
        """
        return publish.rebase(self._mirror(repository), commit, onto, base)

    @_said
    def patch_id(self, repository: str, commit: str, *, base: str | None) -> str:
        """A digest of the change from `base` to `commit`: equal after a clean rebase, and only then."""
        return publish.patch_id(self._mirror(repository), commit, base)

    @_said
    def publish(
        self,
        repository: str,
        branch: str,
        commit: str,
        *,
        base: str | None = None,
        last_look: Callable[[], None] = lambda: None,
    ) -> Published | Moved:
        """Push exactly this commit, fast-forward only.  With `base`, Moved says whether history was rewritten.

        `last_look` is called right before the push; what it raises goes through, and nothing is pushed.
        Kinds: publish_failed (`detail` has the remote's words), outage.
        """
        return publish.publish(self._mirror(repository), branch, commit, base, last_look)

    @_said
    def keep_ref(self, repository: str, name: str, commit: str) -> None:
        """Keep a commit as refs/board/<name>."""
        report.keep_ref(self._mirror(repository), self._slug(name), commit)

    @_said
    def save_tree(self, repository: str, slug: str) -> str | None:
        """The state of the card's tree as a commit under refs/board/<slug>; None when there is no tree or no change."""
        tree = self._tree(slug)
        if not tree.is_dir():
            return None
        return report.save_tree(self._mirror(repository), Tree(tree, self._ignored), slug, self._mark(slug).base)

    def trees(self) -> list[str]:
        """The slugs of all cards that have a clone, or what is left of one."""
        return sorted(clone.slugs(self._trees))

    @_said
    def remove_tree(self, repository: str, slug: str) -> None:
        """Remove the card's clone; work in it that no branch and no kept ref has is saved as save_tree does first."""
        path, mark, mirror = self._tree(slug), self._mark(slug), self._mirror(repository)
        tree = Tree(path, self._ignored)
        if path.is_dir() and not path.is_symlink() and not report.is_safe(mirror, tree, mark.base, mark.commit):
            self.save_tree(repository, slug)
        clone.remove_tree(self._trees, self._locks, slug)

    @_said
    def tree_report(self, repository: str, slug: str) -> TreeReport:
        """Changed files and diffstat of the card's tree against its base, for the interim report."""
        tree = self._tree(slug)
        if not tree.is_dir():
            return TreeReport()
        return report.tree_report(self._mirror(repository), Tree(tree, self._ignored), self._mark(slug).base)

    def _mirror(self, repository: str) -> Mirror:
        configured = self._config.repositories.get(repository)
        if configured is None:
            raise WorkspaceError("failed", f"there is no repository {repository!r}; declare it under repositories")
        lock = self._locks / f"mirror-{repository}.lock"
        return Mirror(repository, configured, self._mirrors / f"{repository}.git", lock, self._credentials)

    def _quarantine(self, repository: str, name: str) -> Quarantine:
        path = self._config.state_dir / "quarantines" / f"{_run_name(name)}.git"
        return Quarantine(path, self._mirror(repository), self._config.board.sandbox, self._locks / "quarantines.lock")

    def _slug(self, slug: str) -> str:
        if not re.fullmatch(SLUG_PATTERN, slug):
            raise WorkspaceError("failed", f"{slug!r} is not a slug")
        return slug

    def _tree(self, slug: str) -> Path:
        return self._trees / self._slug(slug)

    def _mark(self, slug: str) -> Mark:
        return Mark.read(self._trees, slug)
