"""Intent files: what is committed, for people and programs to read.

A file is ours when its content is any version of that card's intent.  Everything else under its name is foreign and
stays as it is, links included.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import stat
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path

log = logging.getLogger(__name__)

#: Hashes of every version that a card's intent had, and the text of the newest.
Versions = tuple[frozenset[str], str]

#: A file larger than any intent can be is foreign without being read.
_LARGEST = 4 * 1024 * 1024
#: How many missing files of cards that nobody looks at any more are written at one time.
_REWRITTEN_ASIDE = 8


def digest(text: str) -> str:
    """The hash of an intent's text."""
    return hashlib.sha256(text.encode()).hexdigest()


class Projections:
    """The intent files in one directory."""

    def __init__(self, directory: Path, memory: Path) -> None:
        self._directory, self._memory = directory, memory

    def write(self, intents: Mapping[str, Versions]) -> set[str]:
        """Bring the files of these cards up to date.

        Returns the slugs that need no further look: written, up to date, or foreign.  A file that can't be written
        is logged and left for the next time, since the card itself is committed.
        """
        done: set[str] = set()
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            directory = os.open(self._directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            log.warning("Intent files can't be written to %s: %s", self._directory, error.strerror)
            return done
        try:
            for slug, versions in intents.items():
                try:
                    _bring_up_to_date(directory, f"{slug}.md", versions)
                    done.add(slug)
                except OSError as error:
                    log.warning("The intent file %s/%s.md can't be written: %s", self._directory, slug, error.strerror)
        finally:
            os.close(directory)
        return done

    def missing(self, open_slugs: Callable[[], Iterable[str]], next_slugs: Callable[[str], list[str]]) -> list[str]:
        """Cards whose file somebody removed.

        Open cards are looked at whenever the directory changed since the last look.  Of all cards there are, the next
        few are looked at each time (`next_slugs` names some that follow a given one), so that a look costs the same
        however many cards are closed.
        """
        memory, changed = self._remembered(), self._changed_at()
        cursor = str(memory.get("cursor", ""))
        absent: list[str] = []
        if changed != memory.get("changed"):
            absent += [slug for slug in open_slugs() if self._is_absent(slug)]
        some = next_slugs(cursor) or next_slugs("")
        for cursor in some:
            if self._is_absent(cursor):
                absent.append(cursor)
                if len(absent) >= _REWRITTEN_ASIDE:
                    break
        self._remember({"changed": changed, "cursor": cursor})
        return list(dict.fromkeys(absent))

    def _is_absent(self, slug: str) -> bool:
        return not os.path.lexists(f"{self._directory}/{slug}.md")

    def _changed_at(self) -> int:
        try:
            return self._directory.stat().st_mtime_ns
        except FileNotFoundError:
            return 0

    def _remembered(self) -> Mapping[str, object]:
        # Only a memory of what was looked at: lost or unreadable means to look again.
        try:
            loaded = json.loads(self._memory.read_bytes())
        except (FileNotFoundError, ValueError):
            return {}
        return loaded if isinstance(loaded, dict) else {}

    def _remember(self, values: Mapping[str, object]) -> None:
        temporary = self._memory.with_suffix(f".{os.getpid()}")
        temporary.write_text(json.dumps(values))
        temporary.replace(self._memory)


def _bring_up_to_date(directory: int, name: str, versions: Versions) -> None:
    ours, text = versions
    present = _content_hash(directory, name)
    if present == digest(text) or (present is not None and present not in ours):
        return
    # One fixed name, so that what a killed process left is taken away by the next; a lock keeps them apart.
    temporary = f".{name}.new"
    _remove(directory, temporary)
    try:
        target = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644, dir_fd=directory)
        with os.fdopen(target, "wb") as file:
            file.write(text.encode())
            file.flush()
            os.fsync(file.fileno())
        if present is not None:
            os.replace(temporary, name, src_dir_fd=directory, dst_dir_fd=directory)
            return
        # A link never replaces, so a file that appeared meanwhile stays.
        with suppress(FileExistsError):
            os.link(temporary, name, src_dir_fd=directory, dst_dir_fd=directory, follow_symlinks=False)
    finally:
        _remove(directory, temporary)


def _remove(directory: int, name: str) -> None:
    with suppress(FileNotFoundError):
        os.unlink(name, dir_fd=directory)


def _content_hash(directory: int, name: str) -> str | None:
    """The hash of a file's content; "" for what is no plain file of our size, None for nothing at all."""
    try:
        status = os.stat(name, dir_fd=directory, follow_symlinks=False)
        if not stat.S_ISREG(status.st_mode) or status.st_size > _LARGEST:
            return ""
        file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=directory)
    except FileNotFoundError:
        return None
    except PermissionError:
        return ""
    with os.fdopen(file, "rb") as content:
        return hashlib.sha256(content.read(_LARGEST + 1)).hexdigest()
