"""Working trees of a commit: a card's private clone, and read-only checkouts.

Both are git directories of their own that borrow the mirror's objects.  Files are the blobs' bytes: no attribute, no
filter and no line ending changes them, so what a check or an agent sees is what the commit holds.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from pathlib import Path

from intent_board.boundaries import boundary
from intent_board.workspace.commit import is_attributes
from intent_board.workspace.errors import WorkspaceError
from intent_board.workspace.files import clear_leftovers, lock, make_git_dir, remove, replace_text
from intent_board.workspace.git import Git
from intent_board.workspace.mirror import Mirror
from intent_board.workspace.objects import borrow, full_hash, read_blobs
from intent_board.workspace.tree import survey

LOCK_TIMEOUT = 900.0
_MANIFEST = ".manifest"


def clone(mirror: Mirror, trees: Path, locks: Path, slug: str, base: str | None) -> Path:
    """The private clone trees/<slug> at `base` (None: a branch without a commit); one that exists stays as it is.

    Raises WorkspaceError when the repository has submodules or git-lfs files, or the mirror has no such commit.
    """
    target = trees / slug
    if _is_there(target):
        return target
    with trees_locked(locks):
        if _is_there(target):
            return target
        clear_leftovers(trees)
        _check_supported(mirror, base)
        new = trees / f".new-{secrets.token_hex(8)}"
        populate(mirror, new, base, branch=mirror.head)
        boundary("workspace: clone built")
        Mark(base).write(trees, slug)
        new.rename(target)
        boundary("workspace: clone in place")
    return target


def _is_there(target: Path) -> bool:
    try:
        mode = target.lstat().st_mode
    except FileNotFoundError:
        return False
    if not stat.S_ISDIR(mode):
        raise WorkspaceError("failed", f"{target} is not a directory; remove it")
    return True


def _check_supported(mirror: Mirror, base: str | None) -> None:
    entries = mirror.entries(base)
    rules = [entry.oid for path, entry in entries.items() if is_attributes(path, entry)]
    if any(b"filter=lfs" in text for text in read_blobs(mirror.git, rules).values()):
        raise WorkspaceError(
            "failed",
            f"repository {mirror.name!r} keeps files in git-lfs, which the board does not support; store them in git",
        )


def populate(mirror: Mirror, target: Path, commit: str | None, *, branch: str | None) -> None:
    """Write a working tree with its .git at `target`, on `branch`, or detached at the commit (None)."""
    git_dir = target / ".git"
    head = branch or commit
    assert head is not None
    if commit is not None:
        full_hash(commit)
    make_git_dir(git_dir, head=head, bare=False, digits=mirror.digits, detached=branch is None)
    borrow(git_dir, mirror.path)
    if commit is None:
        return
    if branch is not None:
        # The second name is what programs expect to compare with; there is no remote behind it.
        (git_dir / "packed-refs").write_text(
            f"# pack-refs with: sorted\n{commit} refs/heads/{branch}\n{commit} refs/remotes/origin/{branch}\n"
        )
    Git(git_dir, work_tree=target).run("read-tree", "--reset", "-u", commit)


def checkout(mirror: Mirror, checkouts: Path, locks: Path, commit: str, name: str) -> Path:
    """A fresh checkout of the commit at checkouts/<name>, whatever lay there before.

    Checkouts of the same job (`name` is <job>-<token>) with another token go too: their run is over.
    """
    target = checkouts / name
    job = name.rpartition("-")[0]
    with lock(locks / "checkouts.lock", timeout=LOCK_TIMEOUT):
        clear_leftovers(checkouts)
        for path in list(checkouts.iterdir()):
            if path.name.removesuffix(_MANIFEST).rpartition("-")[0] == job:
                remove(path)
    populate(mirror, target, commit, branch=None)
    fingerprint = _fingerprint(target / ".git")
    with lock(locks / "checkouts.lock", timeout=LOCK_TIMEOUT):
        replace_text(checkouts / f"{name}{_MANIFEST}", fingerprint)
    boundary("workspace: checkout made")
    return target


def remove_checkout(target: Path, locks: Path) -> None:
    """Remove a checkout and what is remembered of it."""
    with lock(locks / "checkouts.lock", timeout=LOCK_TIMEOUT):
        clear_leftovers(target.parent)
        remove(target)
        target.with_name(f"{target.name}{_MANIFEST}").unlink(missing_ok=True)


def unchanged(mirror: Mirror, target: Path, commit: str) -> bool:
    """Whether a checkout still is exactly its commit: every byte, mode and name, no file more, and the same .git."""
    manifest = target.with_name(f"{target.name}{_MANIFEST}")
    try:
        found = survey(target, mirror.entries(commit), digits=mirror.digits, ignored=None)
        return not found.paths and not found.refused and manifest.read_text() == _fingerprint(target / ".git")
    except (WorkspaceError, OSError):
        # Gone, replaced or not to be read: whatever it is, it is not what was checked out.
        return False


def _fingerprint(git_dir: Path) -> str:
    """A digest over every name, mode and byte below a git directory of ours."""
    digest = hashlib.sha256()
    for path, info in _below(git_dir):
        content = b"" if stat.S_ISDIR(info.st_mode) else _bytes(path)
        digest.update(b"%b\0%o\0%d\0%b" % (os.fsencode(path.relative_to(git_dir)), info.st_mode, len(content), content))
    return digest.hexdigest()


def _bytes(path: Path) -> bytes:
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        return file.read()


def _below(directory: Path) -> Iterator[tuple[Path, os.stat_result]]:
    for entry in sorted(os.scandir(directory), key=lambda entry: entry.name):
        info = entry.stat(follow_symlinks=False)
        yield Path(entry.path), info
        if stat.S_ISDIR(info.st_mode):
            yield from _below(Path(entry.path))


@dataclass(frozen=True)
class Mark:
    """What is known of a clone, kept beside it and out of its reach.  `commit` is the last one made from it."""

    base: str | None = None
    commit: str | None = None

    def write(self, trees: Path, slug: str) -> None:
        """Remember it for the clone trees/<slug>; the caller holds `trees_locked`."""
        replace_text(trees / f".{slug}.json", json.dumps(asdict(self)))

    @staticmethod
    def read(trees: Path, slug: str) -> Mark:
        """What is known of trees/<slug>; nothing, when the mark is gone."""
        try:
            return Mark(**json.loads((trees / f".{slug}.json").read_text()))
        except (FileNotFoundError, ValueError, TypeError):
            return Mark()


def slugs(trees: Path) -> set[str]:
    """The cards that have a clone, or the mark of one whose removal was interrupted."""
    names = [path.name for path in trees.iterdir()] if trees.is_dir() else []
    marks = {name[1:-5] for name in names if name.startswith(".") and name.endswith(".json")}
    return marks | {name for name in names if not name.startswith(".")}


def trees_locked(locks: Path) -> AbstractContextManager[int]:
    """Held by everybody who makes or removes something beside the clones."""
    return lock(locks / "trees.lock", timeout=LOCK_TIMEOUT)


def remove_tree(trees: Path, locks: Path, slug: str) -> None:
    """Remove a clone and its mark.  The caller has made sure that its work is safe."""
    with trees_locked(locks):
        clear_leftovers(trees)
        remove(trees / slug)
        boundary("workspace: clone removed")
        (trees / f".{slug}.json").unlink(missing_ok=True)
