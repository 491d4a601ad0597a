"""Making, opening and migrating a store; and everything that can be in the way of it."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import event
from store_board import configured, heard, sql, tell

from intent_board.config import BoardConfig
from intent_board.store import Store, StoreError, engine, migrate, open_store, tables

if TYPE_CHECKING:
    from store_board import Board, Processes


def schema_of(path: Path) -> set[str]:
    with closing(sqlite3.connect(path)) as connection:
        return {sql for (sql,) in connection.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL")}


# --- making -------------------------------------------------------------------------------------------------------


def test_the_first_opening_makes_the_store_for_the_service_user_alone(config: BoardConfig) -> None:
    store = open_store(config)
    assert store.path.stat().st_mode & 0o777 == 0o600
    assert config.state_dir.stat().st_mode & 0o777 == 0o700
    assert sql(store, "PRAGMA journal_mode") == [("wal",)]
    assert dict(sql(store, "SELECT key, value FROM meta"))["schema"] == tables.SCHEMA
    for made in ("locks", "doorbells", "mirrors", "trees", "runs", "checkouts", "backups"):
        assert (config.state_dir / made).is_dir()


def test_connections_are_durable_and_hold_references(store: Store) -> None:
    with store._reading() as connection:
        assert connection.exec_driver_sql("PRAGMA synchronous").scalar() == 2
        assert connection.exec_driver_sql("PRAGMA foreign_keys").scalar() == 1
        assert connection.exec_driver_sql("PRAGMA busy_timeout").scalar() == 10_000


def test_an_empty_file_becomes_a_store(config: BoardConfig) -> None:
    config.state_dir.mkdir(mode=0o700)
    (config.state_dir / "board.sqlite3").touch(mode=0o600)
    assert open_store(config).cards() == []


def test_many_processes_may_open_a_new_store_at_once(config: BoardConfig, processes: Processes) -> None:
    started = [processes.start("say(len(store.cards()))") for _ in range(5)]
    assert [heard(process) for process in started] == ["0"] * 5


@pytest.mark.faults
@pytest.mark.parametrize("place", [1, 2, 3])
def test_making_it_may_be_killed_anywhere(config: BoardConfig, tmp_path: Path, place: int) -> None:
    code = "import sys; sys.path.insert(0, sys.argv[1]); from store_board import configured; import pathlib;"
    code += "from intent_board.store import open_store; open_store(configured(pathlib.Path(sys.argv[2])))"
    environment = {
        **os.environ,
        "INTENT_BOARD_TEST_BOUNDARIES": str(tmp_path / "places"),
        "INTENT_BOARD_TEST_KILL_AT": str(place),
    }
    arguments = [sys.executable, "-c", code, str(Path(__file__).parent), str(config.state_dir)]
    assert subprocess.run(arguments, env=environment).returncode == -9
    assert open_store(config).cards() == []


def test_alembic_is_not_loaded_to_open_or_make_a_store(config: BoardConfig) -> None:
    code = "import sys; sys.path.insert(0, sys.argv[1]); from store_board import configured; import pathlib;"
    code += "from intent_board.store import open_store; open_store(configured(pathlib.Path(sys.argv[2])));"
    code += "open_store(configured(pathlib.Path(sys.argv[2]))); sys.exit('alembic' in sys.modules)"
    arguments = [sys.executable, "-c", code, str(Path(__file__).parent), str(config.state_dir)]
    assert subprocess.run(arguments).returncode == 0


# --- what is in the way -------------------------------------------------------------------------------------------


def test_a_state_directory_that_is_open_to_others_is_refused(config: BoardConfig) -> None:
    config.state_dir.mkdir()
    config.state_dir.chmod(0o750)
    with pytest.raises(StoreError, match=r"chmod 0700"):
        open_store(config)
    assert list(config.state_dir.iterdir()) == []


def test_nobody_but_the_service_user_opens_it(config: BoardConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    open_store(config).close()
    monkeypatch.setattr(os, "geteuid", lambda: 4711)
    with pytest.raises(StoreError, match="only that user may open"):
        open_store(config)


def test_a_file_that_is_no_database_is_named(config: BoardConfig) -> None:
    config.state_dir.mkdir(mode=0o700)
    (config.state_dir / "board.sqlite3").write_bytes(b"this is no database at all, whatever its name says" * 100)
    with pytest.raises(StoreError, match=r"board\.sqlite3 is not an SQLite file; stop the board"):
        open_store(config)


def test_a_database_of_something_else_is_left_alone(config: BoardConfig) -> None:
    config.state_dir.mkdir(mode=0o700)
    path = config.state_dir / "board.sqlite3"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE recipes (name TEXT)")
    with pytest.raises(StoreError, match="not a store of the board"):
        open_store(config)
    assert schema_of(path) == {"CREATE TABLE recipes (name TEXT)"}


def test_a_damaged_file_is_one_sentence(store: Store, board: Board) -> None:
    for number in range(20):
        board.submit(f"card-{number}")
    store.close()
    with closing(sqlite3.connect(store.path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    content = bytearray(store.path.read_bytes())
    for page in range(4096, len(content), 4096):
        content[page : page + 200] = b"\xff" * 200
    store.path.write_bytes(content)
    with pytest.raises(StoreError, match="damaged"):
        open_store(store.config).cards()


def test_a_read_only_directory_is_one_sentence(config: BoardConfig, tmp_path: Path) -> None:
    """As root nothing is read-only, so a child that is another user owns the directory and opens it."""
    if os.geteuid() != 0:
        pytest.skip("needs root, to become another user for whom the directory is read-only")
    store = open_store(config)
    store.close()
    place = Path("/dev/shm") / f"intent-board-{os.getpid()}"  # where another user gets to
    shutil.copytree(config.state_dir, place)
    try:
        for path in [place, *place.rglob("*")]:
            os.chown(path, 65534, 65534)
            path.chmod(0o500 if path.is_dir() else 0o400)
        said = as_another_user(lambda: open_store(configured(place)).claim("operator"))
    finally:
        for path in [place, *place.rglob("*")]:
            path.chmod(0o700)
        shutil.rmtree(place)
    assert "can't be written" in said or "can't be opened" in said
    assert said.count("\n") == 0


def as_another_user(deed: Callable[[], object]) -> str:
    """What a StoreError of `deed` says when a process of the user `nobody` does it."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:  # pragma: no cover - in another process
        try:
            os.setgid(65534)
            os.setuid(65534)
            deed()
            os.write(write, b"nothing")
        except StoreError as error:
            os.write(write, str(error).encode())
        finally:
            os._exit(0)
    os.close(write)
    os.waitpid(child, 0)
    with os.fdopen(read) as said:
        return said.read()


def test_a_full_disk_is_one_sentence_and_changes_nothing(store: Store, board: Board) -> None:
    board.submit("lamp")

    @event.listens_for(store._engine, "begin")
    def full(connection: object) -> None:
        pages = connection.exec_driver_sql("PRAGMA page_count").scalar()  # type: ignore[attr-defined]
        connection.exec_driver_sql(f"PRAGMA max_page_count = {pages}")  # type: ignore[attr-defined]

    with pytest.raises(StoreError, match="disk is full; make room"):
        store.submit(
            slug="desk",
            title="Desk",
            intent="# Intent: Desk\n" + "x" * 100_000,
            repository="site",
            requester="lukas",
            event="submit_by_owner",
        )
    event.remove(store._engine, "begin", full)
    with store._reading() as connection:
        connection.exec_driver_sql("PRAGMA max_page_count = 1073741823")
    assert [card.slug for card in store.cards()] == ["lamp"]
    board.submit("desk")
    assert store.card("desk").title == "The desk"


def test_a_store_that_is_locked_too_long_is_one_sentence_and_works_afterwards(
    config: BoardConfig, processes: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "BUSY_SECONDS", 0.2)
    store = open_store(config)
    code = """
        import sqlite3
        other = sqlite3.connect(store.path, isolation_level=None)
        other.execute('BEGIN IMMEDIATE'); say('locked'); hear(); other.execute('COMMIT'); say('free')
    """
    holder = processes.start(code)
    assert heard(holder) == "locked"
    with pytest.raises(StoreError, match="locked by another process"):
        store.claim("operator")
    with pytest.raises(StoreError, match="locked by another process"):
        store.tick(1.0, off_branch={})
    assert store.cards() == []  # reading goes on
    tell(holder)
    assert heard(holder) == "free"
    assert store.claim("operator") is None


def test_a_database_in_a_directory_that_is_open_to_others_is_refused(tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir(mode=0o770)
    (tmp_path / "shared").chmod(0o770)
    config = configured(tmp_path / "state", board={"database": f"sqlite:///{tmp_path}/shared/board.sqlite3"})
    with pytest.raises(StoreError, match=r"chmod 0700 .*shared"):
        open_store(config)
    assert list((tmp_path / "shared").iterdir()) == []


def test_a_lock_directory_that_is_gone_is_one_sentence(store: Store, board: Board) -> None:
    board.submit("lamp")
    shutil.rmtree(store.config.state_dir / "locks")
    with pytest.raises(StoreError, match=r"lock .* can't be opened"):
        store.claim("operator")
    assert store.jobs("lamp")[0].job.state == "queued"
    open_store(store.config)
    assert store.claim("operator") is not None


def test_bells_that_can_not_be_rung_undo_nothing(store: Store, board: Board) -> None:
    shutil.rmtree(store.config.state_dir / "doorbells")
    board.submit("lamp")
    assert store.card("lamp").title == "The lamp"
    store.tick(1.0, off_branch={})
    assert store.claim("operator") is not None


# --- backups ------------------------------------------------------------------------------------------------------


def test_a_backup_is_a_whole_store_and_replaces_nothing(store: Store, board: Board, tmp_path: Path) -> None:
    board.submit("lamp")
    target = tmp_path / "copy.sqlite3"
    store.backup(target)
    assert target.stat().st_mode & 0o777 == 0o600
    with closing(sqlite3.connect(target)) as connection:
        assert connection.execute("SELECT slug FROM cards").fetchall() == [("lamp",)]
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    with pytest.raises(StoreError, match="is there already"):
        store.backup(target)
    with pytest.raises(StoreError, match="can't be made"):
        store.backup(tmp_path / "nowhere" / "copy.sqlite3")


# --- migrations ---------------------------------------------------------------------------------------------------

_NEXT = """
revision = "{to:04d}"
down_revision = "{since:04d}"
min_code = {min_code}

import os
import sqlalchemy as sa
from alembic import op

def upgrade():
    op.add_column("cards", sa.Column("colour", sa.Text))
    op.create_table("shelves", sa.Column("name", sa.Text, primary_key=True))
    {more}
"""


@contextmanager
def newer_code(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *, min_code: int = 1, more: str = "") -> Iterator[int]:
    """This code as its next version would be: one schema further, with a script that leads there."""
    schema = tables.SCHEMA + 1
    scripts = tmp_path / "migrations"
    if not scripts.exists():
        shutil.copytree(migrate.SCRIPTS, scripts)
    script = _NEXT.format(to=schema, since=tables.SCHEMA, min_code=min_code, more=more)
    (scripts / "versions" / "next.py").write_text(script)
    with monkeypatch.context() as patch:
        patch.setattr(migrate, "SCRIPTS", scripts)
        patch.setattr(tables, "SCHEMA", schema)
        yield schema


def test_an_older_store_is_migrated_after_a_backup(
    store: Store, board: Board, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    board.submit("lamp")
    with newer_code(monkeypatch, tmp_path, min_code=1) as schema:
        newer = open_store(store.config)
        assert newer.schema == schema
        assert newer.card("lamp").title == "The lamp"
        assert sql(newer, "SELECT colour FROM cards") == [(None,)]
        assert open_store(store.config).schema == schema
    (backup,) = (store.config.state_dir / "backups").iterdir()
    assert backup.name.startswith(f"schema-{tables.SCHEMA:04d}-")
    with closing(sqlite3.connect(backup)) as connection:
        assert connection.execute("SELECT slug FROM cards").fetchall() == [("lamp",)]
        assert "shelves" not in {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}


def test_an_older_package_goes_on_with_a_newer_store_that_allows_it(
    store: Store, board: Board, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with newer_code(monkeypatch, tmp_path, min_code=1) as schema:
        open_store(store.config).close()
    older = open_store(store.config)
    assert older.schema == schema > tables.SCHEMA
    board_of_older = type(board)(older)
    board_of_older.submit("lamp")
    assert board_of_older.claim("operator").job.slug == "lamp"


def test_an_older_package_refuses_a_newer_store_that_needs_newer_code(
    store: Store, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with newer_code(monkeypatch, tmp_path, min_code=tables.SCHEMA + 1):
        open_store(store.config).close()
    store.close()
    before = store.path.read_bytes()
    with pytest.raises(StoreError, match="needs a newer package"):
        open_store(store.config)
    assert store.path.read_bytes() == before
    assert len(list((store.config.state_dir / "backups").iterdir())) == 1


def test_a_worker_whose_store_was_migrated_finishes_and_claims_no_more(
    store: Store, board: Board, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    claim = board.building()
    board.submit("desk")
    with newer_code(monkeypatch, tmp_path):
        open_store(store.config).close()
        assert store.finish(claim, "build_limit", {})
        assert store.claim("operator") is None
        assert open_store(store.config).claim("operator") is not None


def test_a_migration_that_fails_leaves_the_store_as_it_was(
    store: Store, board: Board, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    board.submit("lamp")
    before = schema_of(store.path)
    wrong = 'op.execute("INSERT INTO nowhere VALUES (1)")'
    with newer_code(monkeypatch, tmp_path, more=wrong), pytest.raises(StoreError, match="nowhere"):
        open_store(store.config)
    assert schema_of(store.path) == before
    assert open_store(store.config).card("lamp").title == "The lamp"


@pytest.mark.faults
def test_a_migration_that_is_killed_in_the_middle_is_done_again(
    store: Store, board: Board, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    board.submit("lamp")
    store.close()
    before = schema_of(store.path)
    with newer_code(monkeypatch, tmp_path, more="os.kill(os.getpid(), 9)"):
        child = os.fork()
        if child == 0:  # pragma: no cover - it is killed
            open_store(store.config)
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 9
        assert schema_of(store.path) == before
    with newer_code(monkeypatch, tmp_path) as schema:
        assert open_store(store.config).schema == schema
    assert len(list((store.config.state_dir / "backups").iterdir())) == 2


def test_migrated_at_once_by_two_processes_it_is_migrated_once(
    store: Store, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    store.close()
    with newer_code(monkeypatch, tmp_path, more="__import__('time').sleep(0.2)") as schema:
        children = []
        for _ in range(3):
            child = os.fork()
            if child == 0:  # pragma: no cover - in another process
                os._exit(0 if open_store(store.config).schema == schema else 1)
            children.append(child)
        assert [os.waitpid(child, 0)[1] for child in children] == [0, 0, 0]
    assert len(list((store.config.state_dir / "backups").iterdir())) == 1


def test_the_tables_are_those_of_the_frozen_schema_and_its_migrations(store: Store, tmp_path: Path) -> None:
    """Who changes tables.py without a migration, or the first schema at all, is told here."""
    frozen = Path(__file__).parent / "schema-0001.sql"
    path = tmp_path / "frozen.sqlite3"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(frozen.read_text())
    migrated = path
    if tables.SCHEMA > 1:
        migrate.migrate(path, tmp_path, 1, 1)
    with closing(sqlite3.connect(store.path)) as made, closing(sqlite3.connect(migrated)) as grown:
        for kind in ("table", "index", "trigger"):
            query = "SELECT name FROM sqlite_master WHERE type = ? AND name NOT LIKE 'sqlite_%' ORDER BY name"
            names = made.execute(query, (kind,)).fetchall()
            assert names == grown.execute(query, (kind,)).fetchall()
        for (table,) in made.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            columns = [sorted(db.execute(f"PRAGMA table_xinfo({table})").fetchall()) for db in (made, grown)]
            assert columns[0] == columns[1] or tables.SCHEMA > 1
            assert {column[1] for column in columns[0]} == {column[1] for column in columns[1]}


def test_another_place_for_the_database_is_taken(tmp_path: Path) -> None:
    other = tmp_path / "with space and 100%?"
    other.mkdir(mode=0o700)
    config = configured(tmp_path / "state", board={"database": f"sqlite:///{other}/b#1.sqlite3"})
    store = open_store(config)
    assert store.path == other / "b#1.sqlite3"
    assert store.path.exists()
    assert store.cards() == []
