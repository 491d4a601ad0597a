"""`kill -9` around a sending: nothing is lost, and what may come twice says so."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from notify_bench import Bench, Place

pytestmark = pytest.mark.faults


_SENDS = """
import os, signal, sys
sys.path.insert(0, {tests!r})
from pathlib import Path
from intent_board import boundaries
from notify_bench import Bench, configured, open_store

def die(_, passed):
    if passed == {name!r}:
        os.kill(os.getpid(), signal.SIGKILL)

boundaries._FILE, boundaries._pass = "set", die
config = configured(Path({state!r}))
Bench(config, open_store(config), {urls!r}).send()
"""


def killed_at(bench: Bench, name: str) -> int:
    """Run a sending in a process that dies at its first boundary of this name; its exit code."""
    code = _SENDS.format(
        tests=str(Path(__file__).parent), name=name, state=str(bench.config.state_dir), urls=bench.urls
    )
    return subprocess.run([sys.executable, "-c", code], check=False).returncode


@pytest.mark.parametrize(
    ("name", "came_before", "says_so"),
    [
        # Nobody knows whether it was sent: it was not.
        ("notify.begun", 0, True),
        # Nobody knows either, and it was.
        ("notify.sent", 1, True),
        # The word is kept.
        ("notify.settled", 1, None),
    ],
)
def test_killed_around_a_sending_no_fact_is_lost_and_a_repetition_says_so(
    bench: Bench, place: Place, name: str, came_before: int, says_so: bool | None
) -> None:
    bench.facts("lamp")
    assert killed_at(bench, name) == -signal.SIGKILL
    assert len(place.taken) == came_before
    bench.send()
    assert len(place.taken) == came_before, "the next run waits, so that a crash in a row sends no row of messages"
    bench.now += 60
    bench.send()
    bench.now += 7200
    bench.send()
    later = [message for *_, message in place.taken[came_before:]]
    assert [message.startswith("(Perhaps for the second time") for message in later] == (
        [] if says_so is None else [True]
    )
    assert bench.states() == {"lamp": "sent"}


def test_killed_before_the_sending_begins_it_is_sent_once_and_says_nothing(bench: Bench, place: Place) -> None:
    bench.facts("lamp")
    assert killed_at(bench, "store.before_commit") == -signal.SIGKILL
    bench.send()
    assert [message.startswith("lamp:") for *_, message in place.taken] == [True]
