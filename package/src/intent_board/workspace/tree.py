"""The walk over a tree that an agent wrote: names, types and bytes, following no link, without git.

The walk holds a descriptor of each directory it is in and opens everything below with O_NOFOLLOW, so nothing it reads
lies outside.  It refuses what would make some later git, ours or a person's, run or read something else.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from intent_board.workspace.errors import WorkspaceError
from intent_board.workspace.ignore import Ignored
from intent_board.workspace.names import READ_BY_GIT, is_git, leaves_tree, shown

MAX_DEPTH = 100
MAX_PATH = 3800
MAX_ENTRIES = 1_000_000
#: A change of one file, and of all together, is held in memory while it is judged.
MAX_FILE = 32 * 1024 * 1024
MAX_CHANGE = 96 * 1024 * 1024
_CHUNK = 1024 * 1024
_OPEN = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class Entry:
    """A file as a git tree knows it."""

    mode: str
    oid: str


@dataclass
class Survey:
    """What a walk found, against the entries it was compared with.

    `changed` are files that are new or different with their content, `deleted` those that are missing; `refused` has a
    line per path that may not be committed, with the reason.  Refused paths are in neither of the others.
    """

    changed: dict[bytes, Entry] = field(default_factory=dict)
    content: dict[bytes, bytes] = field(default_factory=dict)
    deleted: tuple[bytes, ...] = ()
    refused: list[str] = field(default_factory=list)

    @property
    def paths(self) -> tuple[bytes, ...]:
        """Every changed or deleted path, sorted."""
        return tuple(sorted([*self.changed, *self.deleted]))


def survey(root: Path, known: Mapping[bytes, Entry], *, digits: int, ignored: Ignored | None) -> Survey:
    """Walk the tree at `root` and compare it with the entries of a commit.

    `digits` is the length of an object name.  `ignored` says which untracked files are left out; None: every file
    counts.  Raises WorkspaceError (check_failed) when root is no directory or the tree is too large to walk.
    """
    try:
        _make_readable(root, root.lstat())
        fd = os.open(root, _OPEN | os.O_DIRECTORY)
    except OSError as error:
        raise WorkspaceError("check_failed", f"{root} can't be walked: {error.strerror}") from error
    walk = _Walk(known, "sha1" if digits == 40 else "sha256")
    try:
        walk.directory(fd, b"", depth=0)
        left_out = ignored(root, walk.untracked) if ignored and walk.rules and walk.untracked else set()
        for path in walk.untracked:
            if path not in left_out:
                walk.untracked_file(fd, path)
    finally:
        os.close(fd)
    walk.check_links()
    walk.found.deleted = tuple(path for path in known if path not in walk.seen)
    return walk.found


def _make_readable(name: Path | bytes, info: os.stat_result, dir_fd: int | None = None) -> None:
    """Give ourselves, the owner, the right to read what an agent took it from, or its tree would never go away."""
    wanted = stat.S_IRWXU if stat.S_ISDIR(info.st_mode) else stat.S_IRUSR
    if stat.S_ISLNK(info.st_mode) or info.st_mode & wanted == wanted:
        return
    fd = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=dir_fd)
    try:
        # By its descriptor, so that the name can't turn into a link meanwhile.
        Path(f"/proc/self/fd/{fd}").chmod(stat.S_IMODE(info.st_mode) | wanted)
    finally:
        os.close(fd)


class _Walk:
    def __init__(self, known: Mapping[bytes, Entry], algorithm: str) -> None:
        self.known, self.algorithm = known, algorithm
        self.found = Survey()
        self.seen: set[bytes] = set()
        self.untracked: list[bytes] = []
        #: Whether there is any .gitignore.
        self.rules = False
        self.entries = self.size = 0
        #: Files with several names: link count, and the names seen.
        self.links: dict[tuple[int, int], tuple[int, list[bytes]]] = {}

    def refuse(self, path: bytes, reason: str) -> None:
        self.seen.add(path)
        self.found.refused.append(f"{shown(path)}: {reason}")

    def directory(self, fd: int, prefix: bytes, *, depth: int) -> None:
        for name in sorted(map(os.fsencode, os.listdir(fd))):
            self.entries += 1
            if self.entries > MAX_ENTRIES:
                raise WorkspaceError("check_failed", f"the tree has more than {MAX_ENTRIES} entries; clear it up")
            info = os.stat(name, dir_fd=fd, follow_symlinks=False)
            path = prefix + name
            if path == b".git" and stat.S_ISDIR(info.st_mode):
                continue
            if is_git(name):
                self.refuse(path, "is a .git below or beside the repository's own; remove it")
            elif stat.S_ISDIR(info.st_mode):
                self.below(fd, name, path, info, depth)
            elif not (stat.S_ISREG(info.st_mode) or stat.S_ISLNK(info.st_mode)):
                self.refuse(path, "is a device, pipe or socket; remove it")
            else:
                self.rules = self.rules or name == b".gitignore"
                _make_readable(name, info, fd)
                if info.st_nlink > 1:
                    self.links.setdefault((info.st_dev, info.st_ino), (info.st_nlink, []))[1].append(path)
                if path in self.known:
                    self.file(fd, name, path, info)
                else:
                    self.untracked.append(path)

    def below(self, fd: int, name: bytes, path: bytes, info: os.stat_result, depth: int) -> None:
        if depth >= MAX_DEPTH or len(path) > MAX_PATH:
            self.refuse(path, "lies too deep; remove it")
            return
        try:
            _make_readable(name, info, fd)
            inner = os.open(name, _OPEN | os.O_DIRECTORY, dir_fd=fd)
        except OSError as error:
            self.refuse(path, f"can't be read ({error.strerror}); correct its permissions")
            return
        try:
            self.directory(inner, path + b"/", depth=depth + 1)
        finally:
            os.close(inner)

    def untracked_file(self, root: int, path: bytes) -> None:
        """The same for a file that is named from the root: every directory on the way is opened as itself."""
        *directories, name = path.split(b"/")
        fd = os.dup(root)
        try:
            for directory in directories:
                inner = os.open(directory, _OPEN | os.O_DIRECTORY, dir_fd=fd)
                os.close(fd)
                fd = inner
            self.file(fd, name, path, os.stat(name, dir_fd=fd, follow_symlinks=False))
        finally:
            os.close(fd)

    def file(self, fd: int, name: bytes, path: bytes, info: os.stat_result) -> None:
        self.seen.add(path)
        try:
            mode, oid, content = self.read(fd, name, path, info)
        except OSError as error:
            self.refuse(path, f"can't be read ({error.strerror}); correct its permissions")
            return
        if self.known.get(path) == Entry(mode, oid):
            return
        if reason := self.unfit(path, name, mode, info, content):
            self.refuse(path, reason)
            return
        assert content is not None
        self.size += len(content)
        if self.size > MAX_CHANGE:
            self.refuse(path, f"makes the whole change larger than {MAX_CHANGE} bytes; leave large files out")
            return
        self.found.changed[path] = Entry(mode, oid)
        self.found.content[path] = content

    def unfit(self, path: bytes, name: bytes, mode: str, info: os.stat_result, content: bytes | None) -> str | None:
        if content is None:
            return f"has {info.st_size} bytes, more than {MAX_FILE}; leave large files out"
        if len(path) > MAX_PATH:
            return "has too long a path; shorten it"
        if mode == "120000" and name.lower() in READ_BY_GIT:
            return "is a link, and git reads this file; make it a plain file"
        if mode == "120000" and leaves_tree(path, content):
            return f"is a link out of the tree, to {shown(content)}; remove it or list it in .gitignore"
        return None

    def read(self, fd: int, name: bytes, path: bytes, info: os.stat_result) -> tuple[str, str, bytes | None]:
        """Mode, object name, and the content unless it is too large to be a change."""
        if stat.S_ISLNK(info.st_mode):
            target = os.readlink(name, dir_fd=fd)
            return "120000", self.digest(target), target
        with os.fdopen(os.open(name, _OPEN | os.O_NONBLOCK, dir_fd=fd), "rb", buffering=0) as file:
            info = os.fstat(file.fileno())
            mode = "100755" if info.st_mode & 0o100 else "100644"
            if info.st_size <= MAX_FILE:
                content = os.read(file.fileno(), info.st_size + 1) if info.st_size < _CHUNK else file.readall()
                return mode, self.digest(content), content
            # Too large to be committed as a change, but it may be unchanged.
            if path not in self.known:
                return mode, "", None
            digest = hashlib.new(self.algorithm, b"blob %d\0" % info.st_size, usedforsecurity=False)
            while chunk := file.read(_CHUNK):
                digest.update(chunk)
            return mode, digest.hexdigest(), None

    def digest(self, content: bytes) -> str:
        digest = hashlib.new(self.algorithm, b"blob %d\0" % len(content), usedforsecurity=False)
        digest.update(content)
        return digest.hexdigest()

    def check_links(self) -> None:
        for links, paths in self.links.values():
            if len(paths) < links:
                for path in self.found.changed.keys() & set(paths):
                    del self.found.changed[path], self.found.content[path]
                    self.refuse(path, "has another name outside the tree (a hard link); copy the file instead")
