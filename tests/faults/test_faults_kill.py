"""`kill -9` at the boundaries between effects, then restart until quiet: the same end as without the kill.

Two stories meet every room: `slow`, a stranger's intent that runs into its limit, is built by the flat retry, needs
the owner's release and a rebase; and `family`, a split with a dependency and a synthesis.  By default the first and
the last boundary of each name is met; INTENT_BOARD_FAULTS=all meets every one.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from faults_stage import Stage

pytestmark = pytest.mark.faults

STORIES: dict[str, Callable[[Stage], Callable[[], None]]] = {
    "slow": lambda stage: lambda: stage.submit("slow", "eva"),
    "family": lambda stage: lambda: stage.submit("family"),
}


def chosen(names: list[str]) -> list[int]:
    """The numbers, from 1, of the boundaries to be killed at."""
    if os.environ.get("INTENT_BOARD_FAULTS") == "all":
        return list(range(1, len(names) + 1))
    first: dict[str, int] = {}
    last: dict[str, int] = {}
    for number, name in enumerate(names, 1):
        first.setdefault(name, number)
        last[name] = number
    return sorted({*first.values(), *last.values()})


@pytest.mark.parametrize("story", STORIES)
def test_a_kill_between_any_two_effects_changes_nothing(story: str, tmp_path: Path) -> None:
    undisturbed = Stage.make(tmp_path / "undisturbed")
    undisturbed.until_quiet(STORIES[story](undisturbed))
    expected = undisturbed.remains()
    assert {phase for phase, _, _ in expected["phases"].values()} == {"bereit_fuer_deployment"}
    names = undisturbed.passed.read_text().splitlines()
    faults: dict[str, Any] = {}
    for number in chosen(names):
        stage = Stage.make(tmp_path / f"killed-{number}")
        ended = stage.until_quiet(STORIES[story](stage), kill_at=number)
        assert ended == [signal.SIGKILL], f"boundary {number} ({names[number - 1]}) was not met"
        found = stage.remains()
        different = {key: (found[key], expected[key]) for key in expected if found[key] != expected[key]}
        if different or stage.processes():
            faults[f"{number} {names[number - 1]}"] = different or stage.processes()
    assert faults == {}
