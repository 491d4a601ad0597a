"""The connection to SQLite: durable, with foreign keys, and with transactions that we begin ourselves."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event

from intent_board.store.errors import as_sentences

#: How long a transaction waits for another process before it gives up with a sentence.
BUSY_SECONDS = 10.0

_BEGIN = "intent_board_begin"


def _text(raw: bytes) -> str | bytes:
    # Bytes that are no text reach the decoder of their own row; the driver would fail the whole look instead.
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw


def make_engine(path: Path) -> Engine:
    """An engine for the SQLite file `path`; nothing is opened yet."""
    engine = create_engine(f"sqlite:///{path}", connect_args={"timeout": BUSY_SECONDS})

    @event.listens_for(engine, "connect")
    def _connected(connection: sqlite3.Connection, _record: Any) -> None:
        # Python's driver begins transactions late and not at all before DDL, so it is told to begin none.
        connection.isolation_level = None
        connection.text_factory = _text
        connection.execute("PRAGMA foreign_keys = ON")
        # In WAL mode less than FULL may lose the last transactions at a power cut.
        connection.execute("PRAGMA synchronous = FULL")

    @event.listens_for(engine, "begin")
    def _begun(connection: Connection) -> None:
        connection.exec_driver_sql(connection.get_execution_options().get(_BEGIN, "BEGIN"))

    return engine


@contextmanager
def reading(engine: Engine, path: Path) -> Iterator[Connection]:
    """One consistent look at the store.  Raises StoreError."""
    with as_sentences(path), engine.connect() as connection:
        yield connection


@contextmanager
def writing(engine: Engine, path: Path) -> Iterator[Connection]:
    """One transaction that holds the write lock from its beginning; committed, or rolled back by any exception.

    Raises StoreError.
    """
    with (
        as_sentences(path),
        engine.connect().execution_options(**{_BEGIN: "BEGIN IMMEDIATE"}) as connection,
        connection.begin(),
    ):
        yield connection
