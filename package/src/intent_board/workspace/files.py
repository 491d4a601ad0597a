"""Directories of ours: locks on them, git directories without running git, and their removal whatever is inside."""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import stat
import time
from collections.abc import Iterator
from pathlib import Path

from intent_board.workspace.errors import WorkspaceError

#: info/attributes wins over every .gitattributes: files are the blobs' bytes, and a diff shows every change.
ATTRIBUTES = "* -text !eol !crlf -ident !filter !working-tree-encoding !diff !merge !whitespace\n"
#: No repository, checkout or slug begins with a dot.
_TEMPORARY = ".work-"
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@contextlib.contextmanager
def lock(path: Path, *, timeout: float) -> Iterator[int]:
    """Hold the lock file `path` alone; yields its descriptor.

    The kernel frees it with the last process that has the descriptor, so a git process that inherits it keeps
    others out even when its worker was killed.  Raises WorkspaceError (outage) after `timeout` seconds.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        end = time.monotonic() + timeout
        pause = 0.002
        while True:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > end:
                    raise WorkspaceError(
                        "outage", f"{path} is held by another process for more than {timeout:.0f} s; try again later"
                    ) from None
                time.sleep(pause)
                pause = min(pause * 2, 0.1)
        yield fd
    finally:
        os.close(fd)


def make_git_dir(git_dir: Path, *, head: str, bare: bool, digits: int = 40, detached: bool = False) -> None:
    """Write a new, empty git directory; `head` is a branch, or a commit when `detached`; 64 `digits` mean SHA-256."""
    for part in ("objects/info", "objects/pack", "refs/heads", "refs/tags", "info"):
        (git_dir / part).mkdir(parents=True)
    version = "0" if digits == 40 else "1\n[extensions]\n\tobjectFormat = sha256\n[core]"
    (git_dir / "config").write_text(
        f"[core]\n\trepositoryformatversion = {version}\n\tfilemode = true\n\tbare = {str(bare).lower()}\n"
        "[gc]\n\tauto = 0\n[maintenance]\n\tauto = false\n"
    )
    (git_dir / "info" / "attributes").write_text(ATTRIBUTES)
    (git_dir / "HEAD").write_text(f"{head}\n" if detached else f"ref: refs/heads/{head}\n")


def replace_text(path: Path, text: str) -> None:
    """Write a small file so that a reader, or the time after a power cut, sees the old or the new text whole."""
    new = path.with_name(f".new-{secrets.token_hex(8)}")
    with new.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)


def clear_leftovers(directory: Path) -> None:
    """Remove what a killed predecessor left half made or half removed in a directory of ours, or make the directory.

    The caller holds the lock under which everything in it is made and removed.
    """
    directory.mkdir(parents=True, exist_ok=True)
    for path in list(directory.iterdir()):
        if path.name.startswith((".new-", ".gone-")):
            remove(path)


def remove(path: Path) -> None:
    """Remove a file or a directory with everything in it, following no link.

    Takes directories without permissions, and trees of any depth: what lies deep is moved up before it is emptied.
    The first step is a rename, so that a half removed directory never passes for a whole one.
    """
    try:
        if not stat.S_ISDIR(path.lstat().st_mode):
            path.unlink()
            return
    except FileNotFoundError:
        return
    gone = path.with_name(f".gone-{secrets.token_hex(8)}") if not path.name.startswith(".gone-") else path
    if gone != path:
        path.chmod(0o700)
        path.rename(gone)
    _remove_directory(gone)


@contextlib.contextmanager
def temporary(parent: Path) -> Iterator[Path]:
    """A new directory in `parent`, removed at the end.

    It is locked as long as its owner lives, so each call also removes what killed owners left.
    """
    parent.mkdir(parents=True, exist_ok=True)
    for path in parent.glob(f"{_TEMPORARY}*"):
        if (fd := _lock_directory(path, wait=False)) is not None:
            try:
                _remove_directory(path)
            finally:
                os.close(fd)
    while True:
        path = parent / f"{_TEMPORARY}{secrets.token_hex(8)}"
        path.mkdir(mode=0o700)
        # Another process may have taken it for a leftover before it was locked.
        if (fd := _lock_directory(path, wait=True)) is not None:
            break
    try:
        yield path
    finally:
        _remove_directory(path)
        os.close(fd)


def _lock_directory(path: Path, *, wait: bool) -> int | None:
    try:
        fd = os.open(path, _DIRECTORY)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        # A removed directory has no link left.
        if os.fstat(fd).st_nlink > 0:
            return fd
    except BlockingIOError:
        pass  # its owner lives
    except BaseException:
        os.close(fd)
        raise
    os.close(fd)
    return None


def _remove_directory(path: Path) -> None:
    top = os.open(path, _DIRECTORY)
    try:
        _empty(top)
    finally:
        os.close(top)
    path.rmdir()


def _empty(top: int) -> None:
    os.fchmod(top, 0o700)
    waiting = _unlink_files(top)
    while waiting:
        name = waiting.pop()
        # The walk met a directory here and its writers are dead, so this chmod follows no link.
        os.chmod(name, 0o700, dir_fd=top)
        fd = os.open(name, _DIRECTORY, dir_fd=top)
        try:
            for below in _unlink_files(fd):
                os.chmod(below, 0o700, dir_fd=fd)
                moved = secrets.token_hex(16)
                os.rename(below, moved, src_dir_fd=fd, dst_dir_fd=top)
                waiting.append(moved)
        finally:
            os.close(fd)
        os.rmdir(name, dir_fd=top)


def _unlink_files(fd: int) -> list[str]:
    """Unlink what is no directory; returns the names of the directories."""
    directories = []
    with os.scandir(fd) as entries:
        for entry in list(entries):
            if entry.is_dir(follow_symlinks=False):
                directories.append(entry.name)
            else:
                os.unlink(entry.name, dir_fd=fd)
    return directories
