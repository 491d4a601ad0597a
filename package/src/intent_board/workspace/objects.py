"""Reading and writing many objects with one process each, and the stage on which new ones are judged."""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from intent_board.workspace.errors import WorkspaceError
from intent_board.workspace.files import lock, make_git_dir, temporary
from intent_board.workspace.git import Git
from intent_board.workspace.names import shown
from intent_board.workspace.tree import Entry

#: Nobody's mailbox: the name says who made the commit, the trailers why.
IDENTITY = b"Intent Board <intent-board@localhost.invalid>"
#: Longer than a mirror's packing may take.
MOVE_TIMEOUT = 900.0
_HASH = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?")


def borrow(git_dir: Path, mirror: Path) -> None:
    """Let a git directory read the objects of a mirror, with the mirror's own edge where its history is shallow."""
    (git_dir / "objects" / "info" / "alternates").write_text(f"{mirror / 'objects'}\n")
    shallow = mirror / "shallow"
    if shallow.exists():
        (git_dir / "shallow").write_bytes(shallow.read_bytes())


def moving(mirror: Path) -> contextlib.AbstractContextManager[int]:
    """Held by whoever moves object files in a mirror: git drops directories that it emptied while it packs.

    The lock's file is beside the objects, out of the reach of those who only borrow them.
    """
    return lock(mirror / "moving", timeout=MOVE_TIMEOUT)


@dataclass(frozen=True)
class Stage:
    """A git directory for one piece of work: it reads a mirror's objects and writes its own, without any ref.

    What is judged and refused here never reaches the mirror, whose objects every agent can read.
    """

    git: Git
    directory: Path
    mirror: Path

    def accept(self) -> None:
        """Move every object that was written here into the mirror, for good."""
        ours, theirs = self.directory / "git" / "objects", self.mirror / "objects"
        loose = [path for path in ours.glob("??/*") if len(path.parent.name) == 2]
        packed = sorted((ours / "pack").glob("pack-*"), key=lambda path: path.suffix == ".idx")
        # A pack counts from the moment its index is there, so the index goes last.
        with moving(self.mirror):
            for path in [*loose, *packed]:
                target = theirs / path.parent.name / path.name
                target.parent.mkdir(exist_ok=True)
                path.rename(target)
            for directory in {theirs, *(theirs / path.parent.name for path in [*loose, *packed])}:
                _sync(directory)


def _sync(directory: Path) -> None:
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


@contextlib.contextmanager
def stage(mirror: Path, digits: int) -> Iterator[Stage]:
    """A new stage on a mirror, gone at the end with all that was not accepted."""
    with temporary(mirror.parent) as directory:
        git_dir = directory / "git"
        make_git_dir(git_dir, head="board", bare=True, digits=digits)
        borrow(git_dir, mirror)
        yield Stage(Git(git_dir), directory, mirror)


def full_hash(commit: str) -> str:
    """The same text, if it is a full object name.  Raises WorkspaceError otherwise, so no option passes for one."""
    if not _HASH.fullmatch(commit):
        raise WorkspaceError("failed", f"{commit[:80]!r} is not a full commit hash")
    return commit


def list_files(git: Git, commit: str) -> dict[bytes, Entry]:
    """Every file of a commit.  Raises WorkspaceError when git has no such commit, and for submodules."""
    listing = git.run("ls-tree", "-r", "-z", "--full-tree", full_hash(commit), codes=(0, 128))
    if listing.code:
        raise WorkspaceError("failed", f"{git.git_dir} has no commit {commit}; fetch it first", listing.words)
    entries = {}
    for line in listing.out.split(b"\0")[:-1]:
        head, path = line.split(b"\t", 1)
        mode, kind, oid = head.decode().split(" ")
        if kind == "commit":
            raise WorkspaceError(
                "failed", f"{git.git_dir} has a submodule at {shown(path)}, which the board does not support; remove it"
            )
        # git itself once wrote 100664; it means the same.
        entries[path] = Entry("100644" if mode == "100664" else mode, oid)
    return entries


def read_blobs(git: Git, oids: Iterable[str]) -> dict[str, bytes]:
    """The content of blobs by object name.  Raises WorkspaceError when one is missing or is no blob."""
    wanted = list(dict.fromkeys(oids))
    if not wanted:
        return {}
    out = git.run("cat-file", "--batch", stdin="".join(f"{oid}\n" for oid in wanted).encode()).out
    blobs, at = {}, 0
    for oid in wanted:
        end = out.index(b"\n", at)
        fields = out[at:end].split(b" ")
        if len(fields) != 3 or fields[1] != b"blob":
            raise WorkspaceError("failed", f"object {oid} in {git.git_dir} is not a blob: {out[at:end].decode()}")
        size = int(fields[2])
        blobs[oid] = out[end + 1 : end + 1 + size]
        at = end + 2 + size
    return blobs


def write_commit(
    git: Git,
    *,
    base: str | None,
    changed: Mapping[bytes, Entry],
    content: Mapping[bytes, bytes],
    deleted: Iterable[bytes],
    message: bytes,
    when: int,
) -> str:
    """Write the commit whose tree is the base's with these changes; returns its hash.

    `git` is a stage's: the one process writes blobs, trees and the commit from what is handed to it here, and looks
    at no working tree, index, attribute or hook.  The same arguments give the same hash.
    """
    with tempfile.TemporaryFile() as stream:
        order = sorted(changed)
        for number, path in enumerate(order, 2):
            stream.write(b"blob\nmark :%d\ndata %d\n%b\n" % (number, len(content[path]), content[path]))
        stamp = b"%b %d +0000" % (IDENTITY, when)
        stream.write(b"commit refs/heads/board\nmark :1\nauthor %b\ncommitter %b\n" % (stamp, stamp))
        stream.write(b"data %d\n%b\n" % (len(message), message))
        if base is not None:
            stream.write(b"from %b\n" % base.encode())
        # Deletions first: a directory may take the place of a file.
        stream.writelines(b"D %b\n" % _quoted(path) for path in sorted(deleted))
        stream.writelines(
            b"M %b :%d %b\n" % (changed[path].mode.encode(), number, _quoted(path))
            for number, path in enumerate(order, 2)
        )
        stream.write(b"\nget-mark :1\ndone\n")
        stream.seek(0)
        return git.run("fast-import", "--quiet", "--done", "--date-format=raw", stdin=stream).out.decode().strip()


def _quoted(path: bytes) -> bytes:
    plain = {*range(33, 127)} - set(b'"\\')
    return b'"%b"' % b"".join(bytes([byte]) if byte in plain else b"\\%03o" % byte for byte in path)
