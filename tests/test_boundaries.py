"""The marks between effects: free without the variable, counted over processes, and a kill at exactly one of them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

CODE = "from intent_board.boundaries import boundary\nfor name in ('one', 'two', 'three'): boundary(name)\nprint('end')"


def run(**variables: str) -> subprocess.CompletedProcess[str]:
    environment = {key: value for key, value in os.environ.items() if not key.startswith("INTENT_BOARD_TEST")}
    command = [sys.executable, "-c", CODE]
    return subprocess.run(command, env=environment | variables, capture_output=True, text=True, check=False)


def test_nothing_happens_without_the_variable(tmp_path: Path) -> None:
    assert run(INTENT_BOARD_TEST_KILL_AT="1").stdout == "end\n"


def test_the_process_dies_at_exactly_the_named_boundary(tmp_path: Path) -> None:
    counter = tmp_path / "boundaries"
    result = run(INTENT_BOARD_TEST_BOUNDARIES=str(counter), INTENT_BOARD_TEST_KILL_AT="2")
    assert result.returncode == -signal.SIGKILL
    assert counter.read_text().splitlines() == ["one", "two"]


def test_processes_count_together_and_die_once(tmp_path: Path) -> None:
    counter = tmp_path / "boundaries"
    variables = {"INTENT_BOARD_TEST_BOUNDARIES": str(counter), "INTENT_BOARD_TEST_KILL_AT": "5"}
    assert run(**variables).returncode == 0
    assert run(**variables).returncode == -signal.SIGKILL
    assert run(**variables).returncode == 0
    assert len(counter.read_text().splitlines()) == 3 + 2 + 3
