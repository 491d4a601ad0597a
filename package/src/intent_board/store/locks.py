"""Locks that the kernel frees when their holders die: liveness without a clock.

A lock is a flock on an open file that the worker's sandbox inherits, so it is free only when both are gone.  It is
never unlocked by a call, which would free it for the heirs too: it ends when the last of them has closed it.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from intent_board.store.errors import StoreError


def acquire(path: Path) -> int | None:
    """The open lock file, held by this process alone; None when somebody else holds it.  Raises StoreError."""
    while True:
        lock = _open(path)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            return None
        if _is_at(path, lock):
            return lock
        # The file was removed between the open and the lock; whoever comes next would lock another one.
        os.close(lock)


def held(path: Path) -> bool:
    """Whether somebody holds this lock.  Makes no file."""
    try:
        lock = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False


def discard(path: Path, lock: int) -> None:
    """Close a held lock that nobody will need again, and remove its file unless an heir still holds it."""
    os.close(lock)
    if path.exists() and (free := acquire(path)) is not None:
        if _is_at(path, free):
            path.unlink(missing_ok=True)
        os.close(free)


@contextmanager
def waiting(path: Path) -> Iterator[None]:
    """Hold a lock for a short piece of work, after whoever has it now.  Raises StoreError."""
    lock = _open(path)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def _open(path: Path) -> int:
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise StoreError(
            f"The lock {path} can't be opened ({error.strerror}); look at its directory, or run `board init` again."
        ) from error


def _is_at(path: Path, lock: int) -> bool:
    try:
        there = path.stat(follow_symlinks=False)
    except FileNotFoundError:
        return False
    mine = os.fstat(lock)
    return (there.st_dev, there.st_ino) == (mine.st_dev, mine.st_ino)
