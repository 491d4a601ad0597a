"""What can go wrong with the store, each as one sentence."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy.exc import DBAPIError

from intent_board.board.model import Refused


class StoreError(Exception):
    """The store can't be used now; `str()` is one sentence: what, where, what to do."""


class StaleClaim(Exception):
    """The job was given to somebody else or cancelled: this worker may write nothing more."""


class UnknownCard(Refused):
    """There is no card with this slug."""

    def __init__(self, slug: str) -> None:
        super().__init__(f"There is no card {slug!r}; `board list` shows those there are.")


class Unreadable(Exception):
    """Columns of one row that hold what they can't hold; `faults` maps each to what stands there."""

    def __init__(self, slug: str, faults: dict[str, str]) -> None:
        super().__init__(f"the stored row is unreadable in {', '.join(sorted(faults))}")
        self.slug, self.faults = slug, faults


_SENTENCES = {
    "SQLITE_BUSY": "is locked by another process for too long; `fuser` on the file names it, then try again",
    "SQLITE_LOCKED": "is locked by another process for too long; `fuser` on the file names it, then try again",
    "SQLITE_READONLY": "can't be written; make the file and its directory writable for the service user",
    "SQLITE_FULL": "can't grow because the disk is full; make room, then try again (nothing was changed)",
    "SQLITE_IOERR": "can't be read or written because the disk reports an error; look at the disk, then try again",
    "SQLITE_CANTOPEN": "can't be opened; look at its directory's owner, mode and free space",
    "SQLITE_CORRUPT": "is damaged; stop the board and put the newest good backup in its place",
    "SQLITE_NOTADB": "is not an SQLite file; stop the board and put the newest good backup in its place",
    "SQLITE_PERM": "can't be opened for want of rights; it belongs to the service user alone",
}


def sentence(path: Path, error: BaseException | None) -> str:
    """One sentence for an error of the database under `path`."""
    name = str(getattr(error, "sqlite_errorname", None) or "")
    # Extended names continue the plain ones: SQLITE_READONLY_DIRECTORY, SQLITE_IOERR_WRITE.
    said = next((text for start, text in _SENTENCES.items() if name.startswith(start)), None)
    if said is None:
        said = "refused an operation; the journal has the details, and a backup may be needed"
    return f"The store {path} {said} ({error})."


@contextmanager
def as_sentences(path: Path) -> Iterator[None]:
    """Turn every error of the database into a StoreError."""
    try:
        yield
    except DBAPIError as error:
        raise StoreError(sentence(path, error.orig)) from error
    except sqlite3.Error as error:
        raise StoreError(sentence(path, error)) from error


__all__ = ["Refused", "StaleClaim", "StoreError", "UnknownCard", "Unreadable", "as_sentences", "sentence"]
