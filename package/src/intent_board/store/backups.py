"""Copies of the whole store, consistent while others write."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

from intent_board.store.errors import StoreError, as_sentences


def copy_to(database: Path, target: Path) -> None:
    """Write the store under `database`, as it is now, to the new file `target`, and have it on the disk.

    Raises StoreError; no half copy stays behind.
    """
    try:
        os.close(os.open(target, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600))
    except FileExistsError:
        raise StoreError(f"The backup {target} is there already; name a file that is not.") from None
    except OSError as error:
        raise StoreError(f"The backup {target} can't be made ({error.strerror}); name another place.") from error
    try:
        with as_sentences(database), closing(sqlite3.connect(database, isolation_level=None)) as plain:
            plain.execute("VACUUM INTO ?", (str(target),))
        _sync(target)
        _sync(target.parent)
    except BaseException:
        target.unlink(missing_ok=True)
        raise


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
