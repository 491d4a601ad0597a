"""From a tree that an agent wrote to a commit that trusted code made."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from intent_board.boundaries import boundary
from intent_board.workspace.errors import WorkspaceError
from intent_board.workspace.git import Git
from intent_board.workspace.mirror import Mirror, full_hash
from intent_board.workspace.names import shown
from intent_board.workspace.objects import read_blobs, scratch, write_commit
from intent_board.workspace.scope import prove_no_secret, prove_scope
from intent_board.workspace.tree import Entry, Survey, survey


@dataclass(frozen=True)
class Commit:
    """A trusted commit; `paths` are those it changes against `base`."""

    hash: str
    base: str | None
    paths: tuple[str, ...]


@dataclass(frozen=True)
class Told:
    """What a commit says of itself besides its tree; the same values give the same hash."""

    title: str
    body: str
    trailers: Mapping[str, str]
    when: int

    @property
    def message(self) -> bytes:
        """Title, body and trailers; nothing in title or body can pass for a trailer of ours."""
        names = "|".join(map(re.escape, self.trailers)) or "$^"
        body = re.sub(rf"(?im)^[ \t]*({names})[ \t]*:", r"> \1:", _clean(self.body).strip())
        trailers = "\n".join(f"{name}: {' '.join(value.split())}" for name, value in self.trailers.items())
        parts = (" ".join(_clean(self.title).split()), body, trailers)
        return ("\n\n".join(part for part in parts if part) + "\n").encode()


def _clean(text: str) -> str:
    text = text.encode(errors="replace").decode().replace("\r\n", "\n").replace("\r", "\n")
    return re.sub(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", "", text)


def commit_tree(
    mirror: Mirror, tree: Path, told: Told, *, base: str | None, scope: Sequence[str], forbidden: Iterable[str]
) -> Commit | None:
    """Commit what the tree holds, on top of `base`; None when that is nothing new.

    Raises WorkspaceError (check_failed): something in the tree that may not be committed, a path outside `scope`, a
    private key or one of the `forbidden` values.  Nothing is written before all of that is known.
    """
    known = mirror.entries(base)
    found = survey(tree, known, digits=mirror.digits)
    if found.refused:
        raise WorkspaceError(
            "check_failed",
            f"{len(found.refused)} path(s) of the tree can't be committed; {found.refused[0]}",
            tuple(found.refused),
        )
    if not found.paths:
        return None
    prove_scope(found.paths, scope)
    old = read_blobs(mirror.git, (known[path].oid for path in found.changed if path in known))
    before = {path: old[known[path].oid] for path in found.changed if path in known}
    prove_no_secret(before, found.content, told.message, forbidden)
    commit = write(mirror, found, told, base)
    boundary("workspace: commit written")
    paths = prove(mirror, base, commit, found.changed, found.deleted)
    prove_scope(paths, scope)
    return Commit(commit, base, tuple(map(shown, paths)))


def write(mirror: Mirror, found: Survey, told: Told, base: str | None, *, git: Git | None = None) -> str:
    """Write the surveyed changes as a commit into the objects of the mirror, or of `git`; no ref changes."""
    with scratch(git or mirror.git, mirror.path.parent, mirror.digits) as own:
        return write_commit(
            own,
            base=base,
            changed=found.changed,
            content=found.content,
            deleted=found.deleted,
            message=told.message,
            when=told.when,
        )


def prove(
    mirror: Mirror, base: str | None, commit: str, changed: Mapping[bytes, Entry], deleted: Iterable[bytes]
) -> tuple[bytes, ...]:
    """The changed paths as git's own diff of the written commit has them; they must be what was judged."""
    differing = raw_diff(mirror.git, base, commit)
    wanted: dict[bytes, Entry | None] = {**changed, **dict.fromkeys(deleted)}
    if differing != wanted:
        odd = sorted({path for path in {*differing, *wanted} if differing.get(path) != wanted.get(path)})
        raise WorkspaceError(
            "failed",
            f"commit {commit} differs from the tree it was made of, at {shown(odd[0])}",
            tuple(map(shown, odd)),
        )
    filtered = _filtered(mirror, commit, sorted(changed))
    if filtered:
        raise WorkspaceError(
            "check_failed",
            f"{len(filtered)} path(s) need a git filter, which the board never runs; first: {filtered[0]}",
            filtered,
        )
    return tuple(sorted(differing))


def raw_diff(git: Git, base: str | None, commit: str) -> dict[bytes, Entry | None]:
    """Every path that differs between two commits, with its new entry; None: deleted."""
    out = git.run("diff-tree", *pair(base, commit), "-r", "-z", "--raw", "--no-abbrev", "--no-renames").out
    fields = out.split(b"\0")
    if base is None and fields[0] == commit.encode():
        fields = fields[1:]
    entries: dict[bytes, Entry | None] = {}
    for head, path in zip(fields[0::2], fields[1::2], strict=False):
        _, mode, _, oid, status = head.decode().split(" ")
        entries[path] = None if status == "D" else Entry(mode, oid)
    return entries


def pair(base: str | None, commit: str) -> tuple[str, ...]:
    """The arguments with which diff-tree compares a commit with its base, or with nothing."""
    return ("--root", full_hash(commit)) if base is None else (full_hash(base), full_hash(commit))


def _filtered(mirror: Mirror, commit: str, paths: Sequence[bytes]) -> tuple[str, ...]:
    """Changed paths to which the commit's own .gitattributes give a filter (git-lfs, git-crypt): git would store
    something else than their bytes, and the bytes may be a secret."""
    entries = mirror.entries(commit)
    attributes = [
        entry for path, entry in entries.items() if path.split(b"/")[-1] == b".gitattributes" and entry.mode != "120000"
    ]
    if not any(b"filter" in text for text in read_blobs(mirror.git, (entry.oid for entry in attributes)).values()):
        return ()
    with scratch(mirror.git, mirror.path.parent, mirror.digits) as git:
        assert git.git_dir is not None
        (git.git_dir / "info" / "attributes").unlink()
        git = Git(git.git_dir, objects=git.objects, index=git.git_dir / "index")
        git.run("read-tree", commit)
        out = git.run("check-attr", "--cached", "--stdin", "-z", "filter", stdin=b"\0".join(paths) + b"\0").out
    fields = out.split(b"\0")
    return tuple(
        f"{shown(path)}: filter={value.decode(errors='backslashreplace')}"
        for path, value in zip(fields[0::3], fields[2::3], strict=False)
        if value not in (b"unspecified", b"unset")
    )


def diff(mirror: Mirror, base: str | None, commit: str, limit: int) -> str:
    """The change as a patch for a reader, every file as text unless it holds a NUL byte; cut after `limit` bytes."""
    out = mirror.git.run("diff-tree", *pair(base, commit), "-r", "-p", "--no-commit-id", *PATCH, limit=limit)
    text = out.out.decode(errors="backslashreplace")
    return text + f"\n[cut after {limit} bytes]\n" if out.cut else text


#: A patch that nothing in the repository can shape.
PATCH = (
    "--no-renames",
    "--no-ext-diff",
    "--no-textconv",
    "--no-color",
    "--full-index",
    "--src-prefix=a/",
    "--dst-prefix=b/",
)
