"""An answer that is cut off: how often its question is asked again, and what it leaves."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from roles_bench import OWNER, Bench
from test_fixer_role import LOUD, PUSH
from test_inspector_role import REPORT, parked
from test_planner_role import TWO

from intent_board.roles import worker
from intent_board.roles.scheduler import tick_once

#: From here on an agent's last words lose their end, as with a provider that stops in the middle.
CUT = "whole = final\ndef final(words): whole(words[:-40])\n"
SPLIT = 'decision("split", children=[child("greet-a", ["a/**"]), child("greet-b", ["b/**"])])'
DAYS = 3


def at_its_limit(bench: Bench) -> None:
    bench.building()
    bench.agent("while True: step(); time.sleep(0.01)")
    for _ in range(2):
        bench.drained("builder-schwer")
        bench.ticked()


def refused(bench: Bench) -> None:
    """A repair follows at once, since the board may make some by itself."""
    bench.in_review()
    bench.agent(LOUD)
    bench.drained("review")


def looked_at(bench: Bench) -> None:
    parked(bench)
    bench.store.happen("greet", "inspect", actor=OWNER, data={"task": "implementation_status"})


@pytest.mark.parametrize(
    ("prepare", "role", "program", "asked", "phase"),
    [
        (Bench.submit, "operator", f"final({SPLIT})", 1, "operator_klaerung_noetig"),
        (at_its_limit, "planner", f"final('===SPLIT-REPORT===\\n{TWO}===END-SPLIT-REPORT===')", 1,
         "klaerung_reparatur"),
        (Bench.building, "builder", "open('greeting.txt', 'w').write('x'); built()", 1, "klaerung_reparatur"),
        (Bench.in_review, "reviewer", "final(review())", 2, "klaerung_reparatur"),
        (refused, "fixer", PUSH + "write('hi'); hash = commit(); push(); repaired(hash)", 1, "klaerung_reparatur"),
        (looked_at, "inspector", REPORT + "inspected()", 1, "klaerung_reparatur"),
    ],
    ids=["operator", "planner", "builder", "reviewer", "fixer", "inspector"],
)  # fmt: skip
def test_a_cut_off_answer_is_asked_for_again_no_more_than_stated(
    tmp_path: Path,
    bench: Bench,
    monkeypatch: pytest.MonkeyPatch,
    prepare: Callable[[Bench], object],
    role: str,
    program: str,
    asked: int,
    phase: str,
) -> None:
    """With everything on that the board may do by itself, and over days."""
    bench.store.close()
    bench = Bench(tmp_path, {"split.automatic": True, "repair.automatic_rounds": 3, "repair.budget": 3})
    prepare(bench)
    bench.agent(CUT + program)
    # A worker that asks for ever would drain its queue for ever.
    rounds, serve = iter(range(10)), worker.serve
    monkeypatch.setattr(worker, "serve", lambda claim, context: (next(rounds), serve(claim, context)))
    for day in range(DAYS):
        tick_once(bench.config, bench.store, bench.context.workspace, time.time() + day * 86400)
        for queue in bench.config.queue_slots():
            bench.drained(queue)
    card = bench.store.card("greet")
    assert (card.phase, card.reviewed) == (phase, None), card.reason
    assert [one.job.role for one in bench.store.jobs("greet")].count(role) == asked
    assert bench.store.present_job("greet") is None, "nothing of it is under way"
    assert bench.store.family("greet") == ()
