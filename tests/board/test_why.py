"""`board why`: every phase has an answer from state alone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from intent_board.board.model import Card, Job, JobState, Kind, Phase, Profile, Snapshot, Status, Waiting
from intent_board.board.why import Inspection, Outlook, explain
from intent_board.config import example, parse

CONFIG = example()


def card(phase: Phase, status: Status = Status.QUEUED, **more: object) -> Card:
    profile = Profile("codex", "gpt-5.6-luna", None, 20)
    return Card("sitemap", "Sitemap", "nixos-config", "lukas", phase, status, profile=profile, **more)  # type: ignore[arg-type]


def why(one: Card, **more: object) -> str:
    return explain(Outlook(one, more.pop("snapshot", Snapshot(CONFIG)), **more))  # type: ignore[arg-type]


@pytest.mark.parametrize("phase", list(Phase))
@pytest.mark.parametrize("status", list(Status))
def test_every_phase_and_status_has_a_reason(phase: Phase, status: Status) -> None:
    for values in ({}, {"commit": "a" * 40}, {"parent": "family", "kind": Kind.CHILD}, {"lane": "schwer", "line": 3}):
        text = why(card(phase, status, **values))
        assert text.strip() and "None" not in text


@pytest.mark.parametrize("gate", ["review", "owner", "commit"])
@pytest.mark.parametrize("phase", [Phase.BEREIT, Phase.DEPLOYED])
def test_an_imported_card_has_no_commit_and_says_so(phase: Phase, gate: str) -> None:
    raw = CONFIG.model_dump(mode="json", exclude_none=True)
    config = parse({**raw, "deploy": {**raw["deploy"], "gate": gate}})
    text = why(card(phase, Status.SUCCEEDED, reason="imported"), snapshot=Snapshot(config))
    assert "no commit of it is known. Reason: imported." in text
    assert "board deploy" not in text and "board release" not in text


def test_a_waiting_card_names_what_it_waits_for() -> None:
    one = card(Phase.GEPLANT, Status.WAITING_FOR_BUILDER)
    waiting = Waiting("sitemap", "nixos-config", "schwer", 4)
    text = why(one, snapshot=Snapshot(CONFIG, (waiting,), busy={"schwer": 1}))
    assert text == "Waits for its Builder: lane schwer is full (1 at a time)."


def test_a_running_job_shows_its_iterations() -> None:
    snapshot = {"profile": {"runtime": "codex", "iteration_limit": 20}}
    job = Job(5, "sitemap", "builder", "builder-schwer", 2, 1, JobState.RUNNING, 1, snapshot, used_iterations=7)
    text = why(card(Phase.IN_UMSETZUNG), job=job)
    assert "job 5 runs, attempt 2, 7 of 20 iterations used" in text


def test_a_job_of_a_paused_runtime_says_how_to_go_on() -> None:
    snapshot = {"profile": {"runtime": "codex", "iteration_limit": 20}}
    job = Job(5, "sitemap", "builder", "builder-schwer", 2, 1, JobState.QUEUED, 1, snapshot)
    paused = Snapshot(CONFIG, paused_runtimes=frozenset({"codex"}))
    assert "board resume codex" in why(card(Phase.IN_UMSETZUNG), job=job, snapshot=paused)


def test_a_parked_card_names_the_ways_out() -> None:
    text = why(card(Phase.KLAERUNG_REPARATUR, Status.LIMIT_REACHED, reason="limit 20 reached"))
    assert "limit 20 reached" in text
    for way in ("board retry sitemap", "board split sitemap", "board archive sitemap"):
        assert way in text
    child = why(card(Phase.KLAERUNG_REPARATUR, Status.LIMIT_REACHED, parent="family"))
    assert "split" not in child and "--replace" not in child


def test_a_question_is_shown_with_the_way_to_answer() -> None:
    one = card(Phase.KLAERUNG_REPARATUR, Status.NEEDS_INPUT, question="Which port?", asked_by="builder")
    assert "The builder asks: Which port?" in why(one) and "board answer sitemap" in why(one)


def test_a_pending_route_is_shown_with_its_id() -> None:
    route = {"id": 12, "recommendation": "repair"}
    text = why(card(Phase.PLANUNG_MIT_FEEDBACK), route=route)
    assert "board route apply sitemap 12" in text


def test_an_inspection_is_told_beside_the_phase() -> None:
    queued = Job(5, "sitemap", "inspector", "inspect", 1, 1, JobState.QUEUED, 0, {"task": "implementation_status"})
    parked = card(Phase.KLAERUNG_REPARATUR, Status.FAILED, reason="broke")
    text = why(parked, inspection=Inspection(queued))
    assert "Parked as failed" in text and "An Inspector looks at it: job 5 waits in queue inspect" in text
    done = replace(queued, state=JobState.DONE)
    found = {"implementation": "partial", "summary": "Half\nof it", "open_points": ["the rest"]}
    text = why(parked, inspection=Inspection(done, 1e9, found))
    assert "The inspection of 2001-09-09 01:46:40 UTC says: partial. Half of it. Open points: 1." in text
    text = why(parked, inspection=Inspection(done, 1e12, failure="x" * 5000))
    assert "failed: xxx" in text and len(text) < 1000 and "Way out: board inspect sitemap." in text
    routed = replace(done, snapshot={"task": "route_next"})
    assert "board inspect --route sitemap" in why(parked, inspection=Inspection(routed, failure="refused"))
    assert why(parked, inspection=Inspection(routed)) == why(parked)


def test_a_parked_parent_names_only_ways_that_are_open_to_it() -> None:
    text = why(card(Phase.KLAERUNG_REPARATUR, Status.FAILED, kind=Kind.PARENT, commit="a" * 40))
    assert "board retry sitemap" in text and "board archive sitemap" in text
    assert "repair" not in text and "--replace" not in text


def test_a_parent_that_an_archived_child_blocks_can_be_archived() -> None:
    text = why(card(Phase.DURCH_KINDER_BLOCKIERT, reason="part-a (archived by lukas)"))
    assert "board archive sitemap" in text
