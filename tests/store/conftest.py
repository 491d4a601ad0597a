"""The fixtures of these tests; what they are made of is in store_board.py, whose name is nobody else's."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from store_board import Board, Processes, configured

from intent_board.config import BoardConfig
from intent_board.store import Store, open_store


@pytest.fixture
def state_dir(tmp_path: Path) -> Path:
    return tmp_path / "state"


@pytest.fixture
def config(state_dir: Path) -> BoardConfig:
    return configured(state_dir)


@pytest.fixture
def store(config: BoardConfig) -> Iterator[Store]:
    opened = open_store(config)
    yield opened
    opened.close()


@pytest.fixture
def board(store: Store) -> Board:
    return Board(store)


@pytest.fixture
def processes(state_dir: Path) -> Iterator[Processes]:
    started = Processes(state_dir)
    yield started
    started.end()
