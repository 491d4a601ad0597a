"""A scratch host for each test, with one Nix store for all of them."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from scratch_host import FakeBoard, Machine, Store, use_fake_board, why_not


@pytest.fixture(scope="session")
def nix_store() -> Iterator[Store]:
    if (reason := why_not()) is not None:
        pytest.skip(reason)
    # Other users must reach it, and pytest's own directories are closed to them.
    root = Path(tempfile.mkdtemp(prefix="intent-board-store-"))
    root.chmod(0o755)
    store = Store(root)
    store.start()
    try:
        yield store
    finally:
        store.stop()
        subprocess.run(["chmod", "-R", "u+w", str(root)], check=True)
        shutil.rmtree(root)


@pytest.fixture
def machine(nix_store: Store) -> Iterator[Machine]:
    root = Path(tempfile.mkdtemp(prefix="intent-board-host-"))
    root.chmod(0o755)
    (root / "store.json").write_text(json.dumps(str(nix_store.root)))
    machine = Machine(root, nix_store.root)
    machine.make()
    try:
        yield machine
    finally:
        shutil.rmtree(root)


@pytest.fixture
def board(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> FakeBoard:
    from intent_board.deploy import service

    monkeypatch.setattr(service, "_ask", service._ask)
    board = FakeBoard(machine.root / "fake-board.json")
    use_fake_board(board)
    return board
