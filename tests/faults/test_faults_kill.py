"""`kill -9` at the boundaries between effects, then restart until quiet: the same end as without the kill.

Two stories meet every room: `slow`, a stranger's intent that runs into its limit, is built by the flat retry, needs
the owner's release and a rebase; and `family`, a split with a dependency and a synthesis.  By default the first
boundary of each name is met; INTENT_BOARD_FAULTS=all meets every one.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from pprint import pformat
from typing import Any

import pytest
from faults_stage import Stage

pytestmark = pytest.mark.faults

STORIES: dict[str, Callable[[Stage], Callable[[], None]]] = {
    "slow": lambda stage: lambda: stage.submit("slow", "eva"),
    "family": lambda stage: lambda: stage.submit("family"),
}


def everything() -> bool:
    return os.environ.get("INTENT_BOARD_FAULTS") == "all"


def chosen(names: list[str], known: set[str]) -> list[int]:
    """The numbers, from 1, of the boundaries to be killed at: the first of each name that no other story met.

    Of a new card every one: between the children of a family lies what "half a split" would mean.
    """
    if everything():
        return list(range(1, len(names) + 1))
    first: dict[str, int] = {}
    for number, name in enumerate(names, 1):
        if name not in known:
            first.setdefault(name, number)
    new_cards = {number for number, name in enumerate(names, 1) if name == "store.apply.CreateCard"}
    return sorted({*first.values(), *new_cards})


def undisturbed(story: str, top: Path) -> tuple[dict[str, Any], list[str]]:
    """What the story leaves, and the names of the boundaries it passes."""
    stage = Stage.make(top)
    stage.until_quiet(STORIES[story](stage))
    return stage.remains(), stage.passed.read_text().splitlines()


def killed(story: str, top: Path, number: int, expected: dict[str, Any]) -> object:
    """What is different when boundary `number` kills; empty: nothing."""
    stage = Stage.make(top)
    ended = stage.until_quiet(STORIES[story](stage), kill_at=number)
    if ended != [signal.SIGKILL]:
        return "the boundary was not met"
    found = stage.remains()
    return {key: (found[key], expected[key]) for key in expected if found[key] != expected[key]} or stage.processes()


@pytest.mark.parametrize(("story", "known_from"), [("slow", None), ("family", "slow")])
def test_a_kill_between_any_two_effects_changes_nothing(story: str, known_from: str | None, tmp_path: Path) -> None:
    expected, names = undisturbed(story, tmp_path / "undisturbed")
    assert {phase for phase, _, _ in expected["phases"].values()} == {"bereit_fuer_deployment"}
    known = set(undisturbed(known_from, tmp_path / "known")[1]) if known_from else set()
    numbers = chosen(names, known)
    # Most of a story is waiting for processes, so a few run side by side.
    with ProcessPoolExecutor(4, mp_context=get_context("fork")) as pool:
        found = pool.map(killed, *zip(*[(story, tmp_path / f"{n}", n, expected) for n in numbers], strict=True))
        faults = {f"{n} {names[n - 1]}": what for n, what in zip(numbers, found, strict=True) if what}
    assert not faults, pformat(faults)
