"""Bringing an older store to this code's schema.  The only module that loads Alembic."""

from __future__ import annotations

import os
import time
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, update

from intent_board.boundaries import boundary
from intent_board.store import tables
from intent_board.store.backups import copy_to
from intent_board.store.engine import make_engine, writing
from intent_board.store.errors import StoreError

#: Where the scripts are; each is named by the schema that it makes, and may say `min_code`.
SCRIPTS = Path(__file__).parent / "migrations"


def migrate(path: Path, backups: Path, schema: int, min_code: int) -> int:
    """Bring the store under `path` from `schema` to `tables.SCHEMA`, in one transaction after a backup.

    Returns the new schema.  Raises StoreError; the store is then as it was.
    """
    engine = make_engine(path)
    try:
        with writing(engine, path) as connection:
            # The write lock is held already, so the backup is exactly what the migration begins with.
            backup = backups / f"schema-{schema:04d}-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}.sqlite3"
            copy_to(path, _free(backup))
            boundary("store.migrate.backup")
            _upgrade(connection, schema)
            needed = max([min_code, *_min_codes(schema)])
            for key, value in {"schema": tables.SCHEMA, "min_code": needed}.items():
                connection.execute(update(tables.meta).where(tables.meta.c.key == key).values(value=value))
            boundary("store.migrate.steps")
    finally:
        engine.dispose()
    boundary("store.migrate.commit")
    return tables.SCHEMA


def _free(path: Path) -> Path:
    """The path, or one with a number when two migrations began in one second."""
    number, free = 1, path
    while os.path.lexists(free):
        number, free = number + 1, path.with_stem(f"{path.stem}-{number}")
    return free


def _configuration() -> Config:
    config = Config()
    config.set_main_option("script_location", str(SCRIPTS).replace("%", "%%"))
    return config


def _upgrade(connection: Connection, schema: int) -> None:
    if MigrationContext.configure(connection).get_current_revision() != f"{schema:04d}":
        raise StoreError(
            f"The store says that it has schema {schema}, and its migration mark says otherwise; put the newest good "
            "backup in its place."
        )
    config = _configuration()
    config.attributes["connection"] = connection
    command.upgrade(config, f"{tables.SCHEMA:04d}")


def _min_codes(schema: int) -> list[int]:
    scripts = ScriptDirectory.from_config(_configuration())
    revisions = scripts.iterate_revisions(f"{tables.SCHEMA:04d}", f"{schema:04d}")
    return [int(getattr(revision.module, "min_code", 1)) for revision in revisions]
