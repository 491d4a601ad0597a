"""Reading and writing many objects of a mirror with one process each."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from intent_board.workspace.errors import WorkspaceError
from intent_board.workspace.files import make_git_dir, temporary
from intent_board.workspace.git import Git
from intent_board.workspace.tree import Entry

#: Nobody's mailbox: the name says who made the commit, the trailers why.
IDENTITY = b"Intent Board <intent-board@localhost.invalid>"


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


@contextlib.contextmanager
def scratch(git: Git, place: Path, digits: int) -> Iterator[Git]:
    """git with an empty git directory of its own that reads and writes the objects of `git`."""
    assert git.git_dir is not None
    with temporary(place) as directory:
        own = directory / "git"
        make_git_dir(own, head="board", bare=True, digits=digits)
        objects = git.objects or git.git_dir / "objects"
        shallow = git.git_dir / "shallow"
        if shallow.exists():
            (own / "shallow").write_bytes(shallow.read_bytes())
        yield replace(git, git_dir=own, objects=objects)


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

    `git` is a `scratch`: the one process writes blobs, trees and the commit from what is handed to it here, and looks
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
        stream.writelines(b"D %b\n" % _quote(path) for path in sorted(deleted))
        stream.writelines(
            b"M %b :%d %b\n" % (changed[path].mode.encode(), number, _quote(path))
            for number, path in enumerate(order, 2)
        )
        stream.write(b"\nget-mark :1\ndone\n")
        stream.seek(0)
        return git.run("fast-import", "--quiet", "--done", "--date-format=raw", stdin=stream).out.decode().strip()


def _quote(path: bytes) -> bytes:
    return (
        b'"'
        + b"".join(b"\\%03o" % byte if byte < 33 or byte > 126 or byte in b'"\\' else bytes([byte]) for byte in path)
        + b'"'
    )
