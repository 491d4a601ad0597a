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
from intent_board.workspace.ignore import Rules, parse
from intent_board.workspace.names import READ_BY_GIT, is_git, leaves_tree, shown

MAX_DEPTH = 100
MAX_PATH = 3800
MAX_ENTRIES = 1_000_000
#: A change of one file, and of all together, is held in memory while it is judged.
MAX_FILE = 32 * 1024 * 1024
MAX_CHANGE = 96 * 1024 * 1024
MAX_RULES = 1024 * 1024
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


def survey(root: Path, known: Mapping[bytes, Entry], *, digits: int, ignore: bool = True) -> Survey:
    """Walk the tree at `root` and compare it with the entries of a commit.

    `digits` is the length of an object name.  With `ignore`, untracked files that .gitignore names are left out;
    without, every file counts.  Raises WorkspaceError (check_failed) when root is no directory or the tree is too
    large to walk.
    """
    try:
        fd = os.open(root, _OPEN | os.O_DIRECTORY)
    except OSError as error:
        raise WorkspaceError("check_failed", f"{root} can't be walked: {error.strerror}") from error
    walk = _Walk(known, "sha1" if digits == 40 else "sha256", ignore)
    try:
        walk.directory(fd, b"", None, depth=0)
    finally:
        os.close(fd)
    walk.check_links()
    walk.found.deleted = tuple(path for path in known if path not in walk.seen)
    return walk.found


class _Walk:
    def __init__(self, known: Mapping[bytes, Entry], algorithm: str, ignore: bool) -> None:
        self.known, self.algorithm, self.ignore = known, algorithm, ignore
        self.found = Survey()
        self.seen: set[bytes] = set()
        self.entries = self.size = 0
        #: inode -> names seen, link count, a path that is to be committed
        self.links: dict[tuple[int, int], tuple[int, int, bytes | None]] = {}

    def refuse(self, path: bytes, reason: str) -> None:
        self.seen.add(path)
        self.found.refused.append(f"{shown(path)}: {reason}")

    def directory(self, fd: int, prefix: bytes, rules: Rules | None, *, depth: int, ignored: bool = False) -> None:
        if self.ignore and not ignored:
            rules = self.rules(fd, prefix, rules)
        for name in sorted(map(os.fsencode, os.listdir(fd))):
            self.entries += 1
            if self.entries > MAX_ENTRIES:
                raise WorkspaceError(
                    "check_failed", f"the tree has more than {MAX_ENTRIES} entries; remove what is no work"
                )
            info = os.stat(name, dir_fd=fd, follow_symlinks=False)
            path = prefix + name
            is_dir = stat.S_ISDIR(info.st_mode)
            if path == b".git" and is_dir:
                continue
            hidden = ignored or self.hidden(path, rules, is_dir)
            if is_git(name):
                self.refuse(path, "is a .git below or beside the repository's own; remove it")
            elif is_dir:
                self.below(fd, name, path, rules, depth, hidden)
            elif not (stat.S_ISREG(info.st_mode) or stat.S_ISLNK(info.st_mode)):
                self.refuse(path, "is a device, pipe or socket; remove it")
            else:
                self.file(fd, name, path, info, hidden and path not in self.known)

    def hidden(self, path: bytes, rules: Rules | None, is_dir: bool) -> bool:
        if rules is None or path in self.known:
            return False
        return rules.ignored(path.decode(errors="surrogateescape"), is_dir=is_dir)

    def rules(self, fd: int, prefix: bytes, above: Rules | None) -> Rules | None:
        try:
            file = os.open(b".gitignore", _OPEN | os.O_NONBLOCK, dir_fd=fd)
        except OSError:
            return above  # none, or a link: git reads no link either
        with os.fdopen(file, "rb") as text:
            if not stat.S_ISREG(os.fstat(file).st_mode):
                return above
            return parse(text.read(MAX_RULES), prefix.decode(errors="surrogateescape"), above)

    def below(self, fd: int, name: bytes, path: bytes, rules: Rules | None, depth: int, ignored: bool) -> None:
        if depth >= MAX_DEPTH or len(path) > MAX_PATH:
            self.refuse(path, "lies too deep; remove it")
            return
        try:
            inner = os.open(name, _OPEN | os.O_DIRECTORY, dir_fd=fd)
        except OSError as error:
            self.refuse(path, f"can't be read ({error.strerror}); correct its permissions")
            return
        try:
            self.directory(inner, path + b"/", rules, depth=depth + 1, ignored=ignored)
        finally:
            os.close(inner)

    def file(self, fd: int, name: bytes, path: bytes, info: os.stat_result, hidden: bool) -> None:
        if info.st_nlink > 1:
            key = (info.st_dev, info.st_ino)
            count, _, shown_path = self.links.get(key, (0, 0, None))
            self.links[key] = (count + 1, info.st_nlink, shown_path if hidden else path)
        if hidden:
            return
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
            return "120000", self.digest(len(target), target), target
        with os.fdopen(os.open(name, _OPEN | os.O_NONBLOCK, dir_fd=fd), "rb", buffering=0) as file:
            info = os.fstat(file.fileno())
            mode = "100755" if info.st_mode & 0o100 else "100644"
            if info.st_size <= MAX_FILE:
                content = os.read(file.fileno(), info.st_size + 1) if info.st_size < _CHUNK else file.readall()
                return mode, self.digest(len(content), content), content
            # Too large to be committed as a change, but it may be unchanged.
            if path not in self.known:
                return mode, "", None
            digest = hashlib.new(self.algorithm, b"blob %d\0" % info.st_size, usedforsecurity=False)
            while chunk := file.read(_CHUNK):
                digest.update(chunk)
            return mode, digest.hexdigest(), None

    def digest(self, size: int, content: bytes) -> str:
        digest = hashlib.new(self.algorithm, b"blob %d\0" % size, usedforsecurity=False)
        digest.update(content)
        return digest.hexdigest()

    def check_links(self) -> None:
        for count, links, path in self.links.values():
            if path is not None and count < links and path in self.found.changed:
                del self.found.changed[path], self.found.content[path]
                self.refuse(path, "has another name outside the tree (a hard link); copy the file instead")
