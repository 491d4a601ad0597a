"""The Inspector's two tasks: a look that decides nothing, and a recommendation that waits for the owner."""

from __future__ import annotations

import pytest
from roles_bench import OWNER, Bench

from intent_board.board.model import Card, Refused

REPORT = """
def inspected(**other):
    fields = dict(schema_version=1, implementation="complete", summary="There.", evidence=[], open_points=[],
                  deployment_claim="unknown")
    final(block("INSPECTION_RESULT", "END_INSPECTION_RESULT", **{**fields, **other}))
def routed(**other):
    fields = dict(schema_version=1, recommendation="archive", reason="Done elsewhere.", lane=None, question=None)
    final(block("ROUTING_RESULT", "END_ROUTING_RESULT", **{**fields, **other}))
"""


def ready(bench: Bench) -> Card:
    bench.approved()
    card = bench.drained("publish")
    assert card.phase == "bereit_fuer_deployment"
    return card


def parked(bench: Bench) -> Card:
    bench.building()
    bench.agent("built(outcome='needs_input', question='Which?')")
    return bench.drained("builder-schwer")


def look(bench: Bench, program: str, task: str = "implementation_status") -> Card:
    bench.store.happen("greet", "inspect", actor=OWNER, data={"task": task})
    bench.agent(REPORT + program)
    return bench.drained("inspect")


def test_what_is_there_is_kept_and_moves_nothing(bench: Bench) -> None:
    before = ready(bench)
    card = look(bench, "step(); inspected(evidence=[dict(kind='path', reference='greeting.txt', text='says hello')])")
    assert (card.phase, card.status, card.commit) == (before.phase, before.status, before.commit)
    (found,) = bench.attached("inspection")
    assert found["implementation"] == "complete" and found["commit"] == card.commit
    assert found["not_in_the_commit"] == []


def test_evidence_that_is_not_in_the_commit_is_marked(bench: Bench) -> None:
    ready(bench)
    look(bench, "inspected(evidence=[dict(kind='path', reference='docs/none.md', text='describes it')])")
    assert bench.attached("inspection")[0]["not_in_the_commit"] == ["docs/none.md"]


def test_the_record_of_the_board_wins_over_a_claim(bench: Bench) -> None:
    ready(bench)
    card = look(bench, "inspected(deployment_claim='deployed')")
    assert card.phase == "bereit_fuer_deployment"
    assert bench.attached("discrepancy") == [{"claim": "deployed", "recorded": "not_deployed"}]


def test_a_recommendation_waits_for_the_owner_and_a_newer_one_replaces_it(bench: Bench) -> None:
    before = parked(bench)
    card = look(bench, "routed()", "route_next")
    assert (card.phase, card.status) == (before.phase, before.status)
    first = bench.store.pending_route("greet")
    assert first is not None and first["recommendation"] == "archive"
    look(bench, "routed(recommendation='retry_builder')", "route_next")
    second = bench.store.pending_route("greet")
    assert second is not None and second["id"] != first["id"]
    with pytest.raises(Refused, match=f"pending recommendation is {second['id']}"):
        bench.store.happen("greet", "route_apply", actor=OWNER, data={"id": first["id"]})
    with pytest.raises(Refused, match="only the owner"):
        bench.store.happen("greet", "route_apply", actor="eva", data={"id": second["id"]})
    card = bench.store.happen("greet", "route_apply", actor=OWNER, data={"id": second["id"]})
    assert (card.phase, card.round) == ("geplant", 2)
    assert bench.store.pending_route("greet") is None
    with pytest.raises(Refused, match="no recommendation is pending"):
        bench.store.happen("greet", "route_apply", actor=OWNER, data={"id": second["id"]})


def test_a_dismissed_recommendation_does_nothing(bench: Bench) -> None:
    before = parked(bench)
    look(bench, "routed()", "route_next")
    route = bench.store.pending_route("greet")
    assert route is not None
    card = bench.store.happen("greet", "route_dismiss", actor=OWNER, data={"id": route["id"]})
    assert (card.phase, card.status) == (before.phase, before.status)
    assert bench.store.pending_route("greet") is None


@pytest.mark.parametrize("task", ["implementation_status", "route_next"])
@pytest.mark.parametrize(
    "program",
    ["final('fine')", "inspected(phase='deployed')", "routed(recommendation='deploy')", "sys.exit(4)",
     "while True: step(); time.sleep(0.01)"],
)  # fmt: skip
def test_a_refused_answer_changes_nothing_and_is_kept(bench: Bench, program: str, task: str) -> None:
    before = parked(bench)
    card = look(bench, program, task)
    assert card == before or (card.phase, card.status, card.reason) == (before.phase, before.status, before.reason)
    assert bench.attached("inspection") == [] and bench.store.pending_route("greet") is None
    assert bench.store.events("greet")[-1].event == "inspection_failed"


def test_an_inspector_can_write_nothing(bench: Bench) -> None:
    ready(bench)
    look(bench, """
try:
    open("greeting.txt", "w").write("changed")
    inspected(summary="wrote")
except OSError as error:
    inspected(summary="refused")
""")  # fmt: skip
    found = bench.attached("inspection")
    # With a sandbox the write is refused; without one the run is void.
    assert [one["summary"] for one in found] in (["refused"], [])
