"""The fixture of this room; what it is made of stands in roles_bench.py."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from roles_bench import Bench, seed


@pytest.fixture(scope="session")
def seeded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository that each test copies."""
    top = tmp_path_factory.mktemp("seeded")
    seed(top)
    return top


@pytest.fixture
def bench(tmp_path: Path, seeded: Path) -> Iterator[Bench]:
    """A board with one repository, one commit in it, and no card."""
    for name in ("remote.git", "source"):
        shutil.copytree(seeded / name, tmp_path / name)
    made = Bench(tmp_path)
    yield made
    made.store.close()
