"""Intent files: written from what is committed, again when missing, and never over a file that is not ours."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from store_board import configured, sql

from intent_board.store import Store, open_store

if TYPE_CHECKING:
    from store_board import Board

TEXT = "# Intent: The lamp\n"
NEWER = "# Intent: A brighter lamp\n"


def file_of(store: Store, slug: str = "lamp") -> Path:
    return store.config.intent_dir / f"{slug}.md"


def replaced(store: Store, board: Board) -> None:
    store.finish(board.claim("operator"), "operator_invalid", {})
    store.happen("lamp", "replace", actor="lukas", data={"title": "A brighter lamp", "intent": NEWER})


def tick(store: Store) -> None:
    store.tick(1.0, off_branch={})


def test_a_missing_file_is_written_again(store: Store, board: Board) -> None:
    board.submit("lamp")
    tick(store)
    file_of(store).unlink()
    tick(store)
    assert file_of(store).read_text() == TEXT


def test_a_missing_directory_is_made_again(store: Store, board: Board) -> None:
    for number in range(30):
        board.submit(f"card-{number}")
    tick(store)
    shutil.rmtree(store.config.intent_dir)
    tick(store)
    assert len(list(store.config.intent_dir.iterdir())) == 30


def test_the_files_of_closed_cards_come_back_a_few_at_a_time(store: Store, board: Board) -> None:
    for number in range(30):
        board.submit(f"card-{number}")
    sql(store, "UPDATE cards SET phase = 'archiviert'")
    tick(store)
    shutil.rmtree(store.config.intent_dir)
    tick(store)
    assert 0 < len(list(store.config.intent_dir.iterdir())) < 30
    for _ in range(10):
        tick(store)
    assert len(list(store.config.intent_dir.iterdir())) == 30


def test_our_own_older_version_is_replaced(store: Store, board: Board) -> None:
    board.submit("lamp")
    replaced(store, board)
    assert file_of(store).read_text() == NEWER
    file_of(store).write_text(TEXT)
    sql(store, "INSERT INTO unprojected VALUES ('lamp')")
    tick(store)
    assert file_of(store).read_text() == NEWER


def test_a_foreign_file_stays(store: Store, board: Board) -> None:
    store.config.intent_dir.mkdir()
    file_of(store).write_text("my own notes")
    board.submit("lamp")
    tick(store)
    assert file_of(store).read_text() == "my own notes"
    replaced(store, board)
    assert file_of(store).read_text() == "my own notes"
    assert store.intent("lamp") == NEWER


def test_a_file_that_somebody_changed_stays(store: Store, board: Board) -> None:
    board.submit("lamp")
    file_of(store).write_text(TEXT + "and a thought of mine\n")
    replaced(store, board)
    tick(store)
    assert file_of(store).read_text() == TEXT + "and a thought of mine\n"


@pytest.mark.parametrize("dangling", [True, False])
def test_a_link_is_not_followed(store: Store, board: Board, tmp_path: Path, dangling: bool) -> None:
    target = tmp_path / "elsewhere"
    if not dangling:
        target.write_text("precious")
    store.config.intent_dir.mkdir()
    file_of(store).symlink_to(target)
    board.submit("lamp")
    tick(store)
    assert file_of(store).is_symlink()
    assert target.exists() is not dangling
    assert dangling or target.read_text() == "precious"


def test_what_is_no_file_is_left_alone(store: Store, board: Board) -> None:
    file_of(store).mkdir(parents=True)
    os.mkfifo(file_of(store, "desk"))
    board.submit("lamp")
    board.submit("desk")
    tick(store)
    assert file_of(store).is_dir()
    assert file_of(store, "desk").is_fifo()


def test_a_link_in_the_place_of_the_temporary_file_is_not_followed(store: Store, board: Board, tmp_path: Path) -> None:
    target = tmp_path / "precious"
    target.write_text("precious")
    store.config.intent_dir.mkdir()
    (store.config.intent_dir / ".lamp.md.new").symlink_to(target)
    board.submit("lamp")
    assert target.read_text() == "precious"
    assert file_of(store).read_text() == TEXT
    assert [path.name for path in store.config.intent_dir.iterdir()] == ["lamp.md"]


def test_a_directory_that_can_not_be_made_hurts_no_card_and_is_tried_again(state_dir: Path, tmp_path: Path) -> None:
    (tmp_path / "in the way").write_text("")
    config = configured(state_dir, board={"intent_dir": str(tmp_path / "in the way" / "intents")})
    store = open_store(config)
    from store_board import Board

    Board(store).submit("lamp")
    assert store.card("lamp").title == "The lamp"
    (tmp_path / "in the way").unlink()
    tick(store)
    assert file_of(store).read_text() == TEXT


@pytest.mark.faults
def test_a_process_that_dies_after_its_commit_leaves_the_file_to_the_next_tick(state_dir: Path, tmp_path: Path) -> None:
    code = "import sys; sys.path.insert(0, sys.argv[1]); from store_board import *;"
    code += "from intent_board.store import open_store;"
    code += "Board(open_store(configured(Path(sys.argv[2])))).submit('lamp')"
    store = open_store(configured(state_dir))
    for place in range(1, 40):
        environment = {
            **os.environ,
            "INTENT_BOARD_TEST_BOUNDARIES": str(tmp_path / f"places-{place}"),
            "INTENT_BOARD_TEST_KILL_AT": str(place),
        }
        arguments = [sys.executable, "-c", code, str(Path(__file__).parent), str(state_dir)]
        ended = subprocess.run(arguments, env=environment).returncode
        if ended == 0:
            break
        assert ended == -9
        tick(store)
        if store.find("lamp") is None:
            assert not file_of(store).exists()
            continue
        assert file_of(store).read_text() == TEXT
        assert store.doorbells.consume("operator", 0)
        for table in ("jobs", "intents", "unprojected"):
            sql(store, f"DELETE FROM {table}")
        sql(store, "DELETE FROM cards")
        file_of(store).unlink()
    assert place > 5
    assert file_of(store).read_text() == TEXT


def test_an_intent_may_be_any_text(store: Store) -> None:
    text = "# Intent: \u2028 \x00 \ud800 ü\r\nand no newline at the end"
    store.submit(slug="lamp", title="t", intent=text, repository="site", requester="lukas", event="submit_by_owner")
    kept = text.replace("\ud800", "\\ud800")
    assert store.intent("lamp") == kept
    assert file_of(store).read_bytes() == kept.encode()
    file_of(store).unlink()
    tick(store)
    assert file_of(store).read_bytes() == kept.encode()
