"""The web server and the board of every test here."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from notify_bench import Bench, Handler, Place, Server, configured
from serving import serving

from intent_board.store import open_store


@pytest.fixture
def place() -> Iterator[Place]:
    made = Place()
    server = Server(("127.0.0.1", 0), Handler)
    server.place, made.port = made, server.server_address[1]
    with serving(server):
        yield made


@pytest.fixture
def bench(tmp_path: Path, place: Place) -> Iterator[Bench]:
    config = configured(tmp_path / "state")
    made = Bench(config, open_store(config), place.url())
    yield made
    made.store.close()
