"""One machine for all tests of this folder, in the order in which they stand: each leaves it as a healthy host."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import boot_tree
import pytest
from boot_machine import Machine, machine

SWITCH = "INTENT_BOARD_BOOT"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.boot)


@pytest.fixture(scope="session")
def blunix() -> Iterator[Machine]:
    """A booted host with the board."""
    if os.environ.get("CI") != "true" and not os.environ.get(SWITCH):
        pytest.skip("A REAL SYSTEMD: takes minutes and root; tests/boot/run boots it")
    if reason := boot_tree.missing():
        pytest.skip(f"A REAL SYSTEMD: {reason}")
    with machine() as made:
        seconds = made.boot()
        print(f"\nbooted in {seconds:.1f} s")
        yield made
