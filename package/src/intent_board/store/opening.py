"""Opening a store: whose it is, its making on first use, and whether its schema is one that this code may use."""

from __future__ import annotations

import os
import sqlite3
import stat
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import quote

from sqlalchemy import Engine, insert

from intent_board.boundaries import boundary
from intent_board.config import BoardConfig
from intent_board.store import locks, tables
from intent_board.store.engine import BUSY_SECONDS, make_engine, writing
from intent_board.store.errors import StoreError, as_sentences

#: What lives in the state directory beside the store (docs/architecture.md).
DIRECTORIES = ("locks", "doorbells", "mirrors", "trees", "runs", "checkouts", "backups")


def database_path(config: BoardConfig) -> Path:
    """The store's file."""
    return Path(config.database_url.removeprefix("sqlite:///"))


def open_engine(config: BoardConfig) -> tuple[Engine, int]:
    """An engine for the board's store, made or migrated if need be, and the schema that it has.

    Raises StoreError before it touches anything that this user or this code may not touch.
    """
    path = database_path(config)
    _prepare_directory(config.state_dir)
    _check_private(path.parent)
    for name in DIRECTORIES:
        _make_directory(config.state_dir / name)
    schema = _usable_schema(path)
    if schema is None:
        # One process makes or migrates the store; those that come meanwhile find it done.
        with _os_errors(config.state_dir), locks.waiting(config.state_dir / "locks" / "schema.lock"):
            schema = _usable_schema(path) or _make_or_migrate(config, path)
    return make_engine(path), schema


def _prepare_directory(directory: Path) -> None:
    with _os_errors(directory):
        if not directory.exists():
            directory.mkdir(mode=0o700, parents=True)
    _check_private(directory)


def _check_private(directory: Path) -> None:
    """Whoever can write here could insert an approval, and whoever reads leaves files that stop the board's writing."""
    with _os_errors(directory):
        status = directory.stat()
    if status.st_uid != os.geteuid():
        raise StoreError(
            f"{directory} belongs to user id {status.st_uid}, and only that user may open the store in it (this is "
            f"{os.geteuid()}); use `board`, which runs itself as the service user."
        )
    if status.st_mode & 0o077:
        raise StoreError(
            f"The directory {directory} of the store is open to others (mode {stat.S_IMODE(status.st_mode):04o}), who "
            f"could then insert approvals; run: chmod 0700 {directory}"
        )


def _make_directory(directory: Path) -> None:
    if not directory.is_dir():
        with _os_errors(directory):
            directory.mkdir(mode=0o700, exist_ok=True)


@contextmanager
def _os_errors(directory: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StoreError(
            f"{error.filename or directory} can't be used ({error.strerror}); look at the owner, the mode and the free "
            "space of the state directory."
        ) from error


def _usable_schema(path: Path) -> int | None:
    """The store's schema if this code may go on with it as it is; None: it is to be made or migrated."""
    found = read_schema(path)
    if found is None:
        return None
    schema, min_code = found
    if min_code > tables.SCHEMA:
        raise StoreError(
            f"The store {path} has schema {schema}, which needs a newer package than this one (it knows schema "
            f"{tables.SCHEMA}); install the newer package again, or put back the backup made before the migration."
        )
    return schema if schema >= tables.SCHEMA else None


def read_schema(path: Path) -> tuple[int, int] | None:
    """`schema` and `min_code` of the store under `path`; None when there is none yet.  Changes nothing."""
    try:
        if path.stat().st_size == 0:
            return None
    except FileNotFoundError:
        return None
    with as_sentences(path):
        # Opened for writing, since a reader alone can't take over what a killed writer left in the log.
        uri = f"file:{quote(str(path))}?mode=rw"
        with closing(sqlite3.connect(uri, uri=True, isolation_level=None, timeout=BUSY_SECONDS)) as plain:
            names = {name for (name,) in plain.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
            values = dict(plain.execute("SELECT key, value FROM meta")) if "meta" in names else {}
    if not names:
        return None
    if not {"schema", "min_code"} <= values.keys():
        raise StoreError(
            f"The file {path} is an SQLite file, but not a store of the board; name another one in [board] database."
        )
    return int(values["schema"]), int(values["min_code"])


def _make_or_migrate(config: BoardConfig, path: Path) -> int:
    found = read_schema(path)
    if found is None:
        _make(path)
        return tables.SCHEMA
    from intent_board.store import migrate  # Alembic is slow to load and seldom needed

    return migrate.migrate(path, config.state_dir / "backups", found[0], found[1])


def _make(path: Path) -> None:
    # Made by us and not by SQLite, so that its mode, which -wal and -shm take over, depends on no umask.
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600))
    boundary("store.make.file")
    with as_sentences(path), closing(sqlite3.connect(path, isolation_level=None)) as plain:
        plain.execute("PRAGMA journal_mode = WAL")
    boundary("store.make.wal")
    engine = make_engine(path)
    with writing(engine, path) as connection:
        tables.metadata.create_all(connection)
        connection.execute(insert(tables.alembic_version), {"version_num": f"{tables.SCHEMA:04d}"})
        numbers = {"schema": tables.SCHEMA, "min_code": tables.MIN_CODE, "line": 0, "made_at": int(time.time())}
        connection.execute(insert(tables.meta), [{"key": key, "value": value} for key, value in numbers.items()])
        boundary("store.make.tables")
    engine.dispose()
