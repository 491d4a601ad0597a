"""From a tree that an agent wrote to a commit that trusted code made."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from intent_board.boundaries import boundary
from intent_board.workspace.errors import WorkspaceError
from intent_board.workspace.git import Git
from intent_board.workspace.ignore import Ignored
from intent_board.workspace.mirror import Mirror
from intent_board.workspace.names import shown
from intent_board.workspace.objects import full_hash, read_blobs, stage, write_commit
from intent_board.workspace.scope import prove_no_secret, prove_scope
from intent_board.workspace.tree import Entry, Survey, survey

#: A patch that nothing in the repository can shape.
PATCH = (
    "-r", "-p", "--no-commit-id", "--no-renames", "--no-ext-diff", "--no-textconv", "--no-color", "--full-index",
    "--src-prefix=a/", "--dst-prefix=b/",
)  # fmt: skip


@dataclass(frozen=True)
class Commit:
    """A trusted commit; `paths` are those it changes against `base`."""

    hash: str
    base: str | None
    paths: tuple[str, ...]


@dataclass(frozen=True)
class Tree:
    """A card's tree, and who answers what its .gitignore files leave out."""

    path: Path
    ignored: Ignored


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
    mirror: Mirror, tree: Tree, told: Told, *, base: str | None, scope: Sequence[str], forbidden: Iterable[str]
) -> Commit | None:
    """Commit what the tree holds, on top of `base`; None when that is nothing new.

    Raises WorkspaceError (check_failed): something in the tree that may not be committed, a path outside `scope`, a
    private key or one of the `forbidden` values.  The mirror gets nothing before all of that is known.
    """
    known = mirror.entries(base)
    found = survey(tree.path, known, digits=mirror.digits, ignored=tree.ignored)
    if found.refused:
        raise WorkspaceError(
            "check_failed",
            f"{len(found.refused)} path(s) of the tree can't be committed; {found.refused[0]}",
            tuple(found.refused),
        )
    if not found.paths:
        return None
    prove_scope(found.paths, scope)
    prove_no_secret(partial(old_content, mirror.git, known), found.content, told.message, forbidden)
    with stage(mirror.path, mirror.digits) as staged:
        commit = write(staged.git, found, told, base)
        differing = raw_diff(staged.git, base, commit)
        _prove_same(commit, differing, {**found.changed, **dict.fromkeys(found.deleted)})
        prove_scope(differing, scope)
        prove_unfiltered(staged.git, commit, {**known, **found.changed}, found.changed)
        staged.accept()
    boundary("workspace: commit written")
    return Commit(commit, base, tuple(map(shown, sorted(differing))))


def old_content(git: Git, known: Mapping[bytes, Entry], paths: Iterable[bytes]) -> dict[bytes, bytes]:
    """What the paths held before, for those that were there."""
    there = [path for path in paths if path in known]
    blobs = read_blobs(git, (known[path].oid for path in there))
    return {path: blobs[known[path].oid] for path in there}


def write(git: Git, found: Survey, told: Told, base: str | None) -> str:
    """Write the surveyed changes as a commit into the objects of a stage."""
    return write_commit(
        git,
        base=base,
        changed=found.changed,
        content=found.content,
        deleted=found.deleted,
        message=told.message,
        when=told.when,
    )


def _prove_same(commit: str, differing: Mapping[bytes, Entry | None], wanted: Mapping[bytes, Entry | None]) -> None:
    """git's own diff of the written commit must be what was judged."""
    odd = sorted(path for path in {*differing, *wanted} if differing.get(path) != wanted.get(path))
    if odd:
        raise WorkspaceError(
            "failed", f"commit {commit} differs from its tree at {shown(odd[0])}; report this", tuple(map(shown, odd))
        )


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


def prove_unfiltered(git: Git, commit: str, entries: Mapping[bytes, Entry], changed: Iterable[bytes]) -> None:
    """Raises WorkspaceError (check_failed) when the commit's own .gitattributes give a changed path a filter.

    With git-lfs or git-crypt the repository is meant to hold something else than the file's bytes, and the bytes may
    be a secret.  The board runs no filter.  `git` is a stage's.
    """
    rules = [entry.oid for path, entry in entries.items() if is_attributes(path, entry)]
    if not any(b"filter" in text for text in read_blobs(git, rules).values()):
        return
    assert git.git_dir is not None
    index = Git(git.git_dir, index=git.git_dir / "index")
    ours = git.git_dir / "info" / "attributes"
    kept = ours.read_text()
    ours.unlink()  # here the repository's own rules are wanted
    index.run("read-tree", commit)
    out = index.run(
        "check-attr", "--cached", "--stdin", "-z", "filter", stdin=b"".join(b"%b\0" % p for p in changed)
    ).out
    ours.write_text(kept)
    fields = out.split(b"\0")
    filtered = tuple(
        f"{shown(path)}: filter={shown(value)}"
        for path, value in zip(fields[0::3], fields[2::3], strict=False)
        if value not in (b"unspecified", b"unset")
    )
    if filtered:
        raise WorkspaceError(
            "check_failed",
            f"{len(filtered)} path(s) need a git filter, which the board never runs: {filtered[0]}",
            filtered,
        )


def is_attributes(path: bytes, entry: Entry) -> bool:
    """Whether git reads attributes from this file."""
    return path.split(b"/")[-1] == b".gitattributes" and entry.mode != "120000"


def diff(mirror: Mirror, base: str | None, commit: str, limit: int) -> str:
    """The change as a patch for a reader, every file as text unless it holds a NUL byte; cut after `limit` bytes."""
    out = mirror.git.run("diff-tree", *pair(base, commit), *PATCH, limit=limit)
    text = out.out.decode(errors="backslashreplace")
    return text + f"\n[cut after {limit} bytes]\n" if out.cut else text
