"""The scheduler's tick over the store: who goes, who waits, families, and bad items that hurt only themselves."""

from __future__ import annotations

import sqlite3
import time
from typing import TYPE_CHECKING, Any

import pytest
from store_board import configured, sql

from intent_board.board import schedule, states
from intent_board.board.model import Happen, Kind, Phase, Refused, Status
from intent_board.store import Store, StoreError, open_store

if TYPE_CHECKING:
    from pathlib import Path

    from store_board import Board

HASH = "a" * 40
NOW = 1_000.0


def tick(store: Store, **off_branch: list[str]) -> list[tuple[str, str]]:
    """What a tick did, as (card, event); families named in `off_branch` were asked about."""
    done = store.tick(NOW, off_branch=off_branch)
    assert all(isinstance(effect, Happen) for effect in done)
    return [(effect.slug, effect.event) for effect in done if isinstance(effect, Happen)]


def make_good(store: Store, slug: str) -> None:
    """As if the card had been built, reviewed and published."""
    statement = 'UPDATE cards SET phase = ?, status = ?, "commit" = ?, reviewed = ? WHERE slug = ?'
    sql(store, statement, "bereit_fuer_deployment", "succeeded", HASH, HASH, slug)
    sql(store, "UPDATE jobs SET state = 'done' WHERE slug = ?", slug)


def set_phase(store: Store, slug: str, phase: str, status: str = "failed") -> None:
    sql(store, "UPDATE cards SET phase = ?, status = ? WHERE slug = ?", phase, status, slug)


# --- dispatch -----------------------------------------------------------------------------------------------------


def test_a_ready_card_is_dispatched_once(store: Store, board: Board) -> None:
    board.direct("lamp")
    assert tick(store) == [("lamp", "dispatch")]
    assert tick(store) == []
    assert store.card("lamp").phase is Phase.IN_UMSETZUNG
    assert [line.job.role for line in store.jobs("lamp")] == ["operator", "builder"]


def test_a_lane_takes_as_many_as_it_has_room_for_first_in_first_out(store: Store, board: Board) -> None:
    for slug in ("zebra", "ant"):
        board.direct(slug)
    sql(store, "UPDATE cards SET write_scope = '[\"' || slug || '\"]'")
    assert tick(store) == [("zebra", "dispatch")]
    store.finish(board.claim("builder-schwer"), "build_failed", {})
    assert tick(store) == [("ant", "dispatch")]


def test_a_scope_is_leased_until_it_is_published(store: Store, board: Board) -> None:
    board.direct("lamp")
    tick(store)
    board.direct("desk", lane="leicht")  # has no scope, so it may touch anything
    assert tick(store) == []
    for phase, status in (("im_review", "queued"), ("wartet_auf_commitfreigabe", "succeeded")):
        set_phase(store, "lamp", phase, status)
        assert tick(store) == []
    set_phase(store, "lamp", "klaerung_reparatur", "running")
    assert tick(store) == []
    set_phase(store, "lamp", "klaerung_reparatur", "failed")
    assert tick(store) == [("desk", "dispatch")]


def test_a_paused_runtime_dispatches_nothing(store: Store, board: Board) -> None:
    board.direct("lamp")
    sql(store, "INSERT INTO paused_runtimes VALUES ('codex', 1.0, 'refused')")
    assert tick(store) == []
    store.resume("codex", actor="lukas")
    assert tick(store) == [("lamp", "dispatch")]


def test_a_card_keeps_its_place_on_its_ladder(store: Store, board: Board) -> None:
    first = board.building("lamp")
    board.direct("desk")
    store.finish(first, "build_limit", {"report": {"done": ["half"]}})
    assert store.card("lamp").line == 1
    assert store.attachments("lamp", "interim_report")[0].data == {"done": ["half"]}
    assert tick(store) == [("lamp", "dispatch")]
    assert store.present_job("lamp").attempt == 2  # type: ignore[union-attr]


def test_every_queue_with_something_to_do_is_rung_again(store: Store, board: Board) -> None:
    board.submit("lamp")
    assert store.doorbells.consume("operator", 0)
    assert not store.doorbells.consume("operator", 0)
    tick(store)
    assert store.doorbells.consume("operator", 0)
    board.claim("operator")
    tick(store)
    assert not store.doorbells.consume("operator", 0)


def test_every_slot_of_a_queue_is_rung(state_dir: Path) -> None:
    config = configured(state_dir)
    queue = config.queues["operator"].model_copy(update={"slots": 3})
    store = open_store(config.model_copy(update={"queues": {**config.queues, "operator": queue}}))
    store.doorbells.ring("operator")
    store.doorbells.ring("deploy")
    names = sorted(bell.name for bell in (state_dir / "doorbells").iterdir())
    assert names == ["deploy-0", "operator-0", "operator-1", "operator-2"]


# --- dependencies and families -------------------------------------------------------------------------------------


def test_a_child_gets_its_place_when_what_it_waits_for_is_good(store: Store, board: Board) -> None:
    board.split("house", {"roof": ["wall", "floor"], "wall": [], "floor": []})
    assert tick(store)[0] in (("wall", "dispatch"), ("floor", "dispatch"))
    make_good(store, "wall")
    assert ("roof", "ready") not in tick(store)
    set_phase(store, "floor", "bereit_fuer_deployment", "succeeded")  # the phase alone unblocks nobody
    assert ("roof", "ready") not in tick(store)
    make_good(store, "floor")
    assert ("roof", "ready") in tick(store)
    assert store.card("roof").line == 3
    assert ("roof", "ready") not in tick(store)


def test_a_parked_child_blocks_its_parent_once_and_a_retry_clears_it(store: Store, board: Board) -> None:
    board.split("house", {"roof": [], "wall": []})
    set_phase(store, "roof", "klaerung_reparatur")
    sql(store, "UPDATE cards SET reason = 'the tests are red' WHERE slug = 'roof'")
    assert ("house", "family_blocked") in tick(store)
    house = store.card("house")
    assert house.phase is Phase.DURCH_KINDER_BLOCKIERT
    assert "roof (the tests are red)" in house.reason
    assert ("house", "family_blocked") not in tick(store)
    set_phase(store, "wall", "planung_mit_feedback")
    assert ("house", "family_blocked") in tick(store)
    assert len([note for note in store.due_notifications(NOW) if note.event == "blocked"]) == 2
    for slug in ("roof", "wall"):
        store.happen(slug, "retry", actor="lukas")
    assert ("house", "family_cleared") in tick(store)
    set_phase(store, "roof", "klaerung_reparatur")
    sql(store, "UPDATE cards SET reason = 'the tests are red' WHERE slug = 'roof'")
    store.tick(NOW + 1, off_branch={})
    # Blocked for the same reason as long ago is news again.
    assert len([note for note in store.due_notifications(NOW) if note.event == "blocked"]) == 3


def test_an_archived_child_blocks_its_parent(store: Store, board: Board) -> None:
    board.split("house", {"roof": [], "wall": []})
    make_good(store, "wall")
    store.happen("roof", "archive", actor="lukas")
    assert ("house", "family_blocked") in tick(store, house=[])


def test_the_synthesis_waits_for_the_proof_that_the_children_are_on_the_branch(store: Store, board: Board) -> None:
    board.split("house", {"roof": [], "wall": []})
    assert store.families_to_prove() == []
    for slug in ("roof", "wall"):
        make_good(store, slug)
    (proof,) = store.families_to_prove()
    assert (proof.parent, proof.repository, proof.branch) == ("house", "site", "main")
    assert proof.commits == {"roof": HASH, "wall": HASH}
    assert tick(store) == []  # nobody asked
    assert tick(store, house=["roof"]) == [("house", "family_blocked")]
    assert [one.parent for one in store.families_to_prove()] == ["house"]
    assert tick(store) == []
    assert tick(store, house=[]) == [("house", "family_cleared")]
    assert tick(store, house=[]) == [("house", "synthesis_due")]
    synthesis = store.card("house-synthese")
    assert (synthesis.kind, synthesis.parent, synthesis.write_scope) == (
        Kind.SYNTHESIS,
        "house",
        ("roof/**", "wall/**"),
    )
    assert store.families_to_prove() == []
    assert tick(store, house=[]) == [("house-synthese", "dispatch")]
    make_good(store, "house-synthese")
    assert tick(store) == [("house", "synthesis_good")]
    assert store.card("house").commit == HASH


def test_archiving_a_parent_takes_its_children_along(store: Store, board: Board) -> None:
    board.split("house", {"roof": [], "wall": []})
    tick(store)
    claim = store.claim("builder-schwer")
    assert claim is not None
    store.happen("house", "archive", actor="lukas")
    assert {card.phase for card in store.cards()} == {"archiviert"}
    assert not store.finish(claim, "build_limit", {})
    assert [(ref.slug, ref.commit) for ref in store.pending_refs()] == [(claim.job.slug, None)]


def test_what_a_deployment_contains_is_deployed_with_it(store: Store, board: Board) -> None:
    for slug in ("lamp", "desk", "chair"):
        board.direct(slug)
    for slug in ("lamp", "desk"):
        make_good(store, slug)
    sql(store, "UPDATE cards SET repository = 'site'")
    data = {"deployment": {"generation": 7}, "contained": ["desk", "chair", "nobody"]}
    store.happen("lamp", "deployed", actor="board", data=data)
    phases = {slug: store.card(slug).phase for slug in ("lamp", "desk", "chair")}
    assert phases == {"lamp": Phase.DEPLOYED, "desk": Phase.DEPLOYED, "chair": Phase.GEPLANT}
    assert [line.event for line in store.events("chair")][-1] == "refused"


# --- one bad item hurts only itself ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("write_scope", "not json"),
        ("write_scope", "[1]"),
        ("write_scope", b"\xff\xfe"),
        ("profile", "{}"),
        ("profile", '{"runtime": 3, "model": null, "reasoning_effort": null, "iteration_limit": 1}'),
        ("ladder", "[" * 100_000),
        ("ladder", '[{"model": "x"}]'),
        ("title", b"\xff"),
        ("rung", "many"),
        ("kind", "stepchild"),
        ("status", "dancing"),
        ("phase", "nowhere"),
        ("lane", None),
        ("line", "first"),
        ("repository", b"\xff"),
        ("warnings", "{}"),
        ("by_hand", "maybe"),
        ("by_hand", 7),
        ("iterations", 2.5),
        ("line", 2.5),
    ],
)
def test_an_unreadable_card_is_parked_with_the_reason_and_the_next_one_goes(
    store: Store, board: Board, column: str, value: Any
) -> None:
    board.direct("lamp")
    board.direct("desk")
    sql(store, f"UPDATE cards SET {column} = ? WHERE slug = 'lamp'", value)
    assert ("desk", "dispatch") in tick(store)
    lamp = store.card("lamp")
    assert (lamp.phase, lamp.status) == (Phase.KLAERUNG_REPARATUR, Status.FAILED)
    assert lamp.reason
    assert "lamp" in [note.slug for note in store.due_notifications(NOW) if note.event == "failed"]
    assert store.card("desk").phase is Phase.IN_UMSETZUNG
    assert tick(store) == []


def test_what_stood_in_a_broken_column_is_kept_in_the_audit(store: Store, board: Board) -> None:
    board.direct("lamp")
    sql(store, "UPDATE cards SET write_scope = 'hosts/' WHERE slug = 'lamp'")
    with pytest.raises(StoreError, match="board show lamp"):
        store.happen("lamp", "archive", actor="lukas")
    assert store.card("lamp").phase is Phase.KLAERUNG_REPARATUR
    (line,) = [line for line in store.events("lamp") if line.event == "unreadable"]
    assert line.data == {"columns": {"write_scope": "'hosts/'"}}
    assert store.happen("lamp", "archive", actor="lukas").phase is Phase.ARCHIVIERT


def test_a_child_in_no_known_phase_does_not_make_its_family_look_good(store: Store, board: Board) -> None:
    board.split("house", {"roof": [], "wall": []})
    for slug in ("roof", "wall"):
        make_good(store, slug)
    sql(store, "UPDATE cards SET phase = ? WHERE slug = 'roof'", b"\xff")
    assert tick(store, house=[]) == [("house", "family_blocked")]
    assert store.card("roof").phase is Phase.KLAERUNG_REPARATUR


@pytest.mark.parametrize("column", ["reason", "status", "kind", "title"])
def test_a_good_child_with_an_unreadable_word_is_mended_and_stays_good(store: Store, board: Board, column: str) -> None:
    board.split("house", {"roof": [], "wall": []})
    for slug in ("roof", "wall"):
        make_good(store, slug)
    sql(store, f"UPDATE cards SET {column} = ? WHERE slug = 'roof'", b"\xff")
    assert ("house", "synthesis_due") in tick(store, house=[])
    roof = store.card("roof")
    assert (roof.phase, roof.status, roof.kind) == (Phase.BEREIT, Status.SUCCEEDED, Kind.CHILD)
    assert "unreadable" in [line.event for line in store.events("roof")]


def test_an_unreadable_job_parks_its_card_and_the_next_job_goes(store: Store, board: Board) -> None:
    board.submit("lamp")
    board.submit("desk")
    sql(store, "UPDATE jobs SET snapshot = '[]' WHERE slug = 'lamp'")
    assert board.claim("operator").job.slug == "desk"
    lamp = store.card("lamp")
    assert (lamp.phase, lamp.status) == (Phase.OPERATOR_KLAERUNG, Status.FAILED)
    assert "snapshot" in lamp.reason
    assert store.claim("operator") is None


def test_an_unreadable_card_is_parked_when_its_job_is_claimed(store: Store, board: Board) -> None:
    board.submit("lamp")
    board.submit("desk")
    sql(store, "UPDATE cards SET ladder = 'x' WHERE slug = 'lamp'")
    assert board.claim("operator").job.slug == "desk"
    assert store.card("lamp").phase is Phase.OPERATOR_KLAERUNG


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("not_before", "soon"),
        ("not_before", 1e300),
        ("token", "x"),
        ("state", "lost"),
        ("queue", "nowhere"),
        ("snapshot", b"\xff"),
        ("used_iterations", "many"),
        ("round", 1.5),
    ],
)
def test_no_damage_to_a_job_makes_its_card_wait_for_ever(store: Store, board: Board, column: str, value: Any) -> None:
    board.submit("lamp")
    board.submit("desk")
    sql(store, f"UPDATE jobs SET {column} = ? WHERE slug = 'lamp'", value)
    assert len(store.jobs("lamp")) == 1  # a reader sees what there is to see
    tick(store)
    claims = [store.claim("operator"), store.claim("operator")]
    tick(store)
    claimed = [claim.job.slug for claim in claims if claim is not None]
    assert "desk" in claimed
    lamp = store.card("lamp")
    assert "lamp" in claimed or (lamp.phase, lamp.reason != "") == (Phase.OPERATOR_KLAERUNG, True)


def test_a_repair_whose_job_vanished_is_parked(store: Store, board: Board) -> None:
    board.direct("lamp")
    set_phase(store, "lamp", "klaerung_reparatur", "running")
    tick(store)
    assert store.card("lamp").status is Status.FAILED


def test_an_unreadable_relative_does_not_undo_what_happened(store: Store, board: Board) -> None:
    board.split("house", {"roof": [], "wall": []})
    for slug in ("roof", "wall", "house"):
        make_good(store, slug)
    sql(store, "UPDATE cards SET title = ? WHERE slug = 'roof'", b"\xff")
    sql(
        store,
        "INSERT INTO jobs (slug, role, queue, attempt, round, state, created_at, snapshot)"
        " VALUES ('house', 'deploy', 'deploy', 1, 1, 'queued', 1.0, '{}')",
    )
    assert store.finish(board.claim("deploy"), "deployed", {"deployment": {"generation": 4}})
    assert {store.card(slug).phase for slug in ("house", "roof", "wall")} == {Phase.DEPLOYED}


def test_an_unreadable_recommendation_is_none(store: Store, board: Board) -> None:
    board.direct("lamp")
    store.happen("lamp", "inspect", actor="lukas", data={"task": "routing"})
    route = {"recommendation": "nothing", "reason": "r", "lane": None, "question": None}
    store.finish(board.claim("inspect"), "routed", {"route": route})
    sql(store, "UPDATE attachments SET data = ?", b"\xff")
    assert store.pending_route("lamp") is None
    assert tick(store) == [("lamp", "dispatch")]


def test_a_card_over_which_even_parking_fails_is_parked_all_the_same(
    store: Store, board: Board, monkeypatch: pytest.MonkeyPatch
) -> None:
    board.direct("lamp")
    board.direct("desk")
    real = states.step

    def fragile(card: Any, *rest: Any) -> Any:
        if card is not None and card.slug == "lamp":
            raise KeyError("nobody thought of that")
        return real(card, *rest)

    monkeypatch.setattr(states, "step", fragile)
    assert tick(store) == [("desk", "dispatch")]
    lamp = store.card("lamp")
    assert (lamp.phase, lamp.status) == (Phase.KLAERUNG_REPARATUR, Status.FAILED)
    assert "nobody thought of that" in lamp.reason


def test_a_database_that_fails_is_not_the_fault_of_a_card(
    store: Store, board: Board, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sqlalchemy.exc import OperationalError

    board.direct("lamp")

    def broken(*_: Any) -> Any:
        raise OperationalError("UPDATE", {}, sqlite3.OperationalError("disk I/O error"))

    with monkeypatch.context() as patch:
        patch.setattr(states, "step", broken)
        with pytest.raises(StoreError, match="disk I/O error"):
            store.tick(NOW, off_branch={})
    assert store.card("lamp").phase is Phase.GEPLANT
    assert tick(store) == [("lamp", "dispatch")]


def test_an_unreadable_running_job_of_a_dead_worker_parks_its_card(store: Store, board: Board) -> None:
    claim = board.building("lamp")
    claim._let_go(None)
    sql(store, "UPDATE jobs SET snapshot = 'x' WHERE id = ?", claim.job.id)
    assert store.recover() == [claim.job.id]
    assert store.card("lamp").phase is Phase.KLAERUNG_REPARATUR
    assert store.recover() == []


def test_a_card_that_the_rules_refuse_to_dispatch_is_parked_and_holds_up_nobody(store: Store, board: Board) -> None:
    board.direct("lamp")
    board.direct("desk")
    sql(store, "UPDATE cards SET profile = NULL WHERE slug = 'lamp'")
    assert tick(store) == [("desk", "dispatch")]
    lamp = store.card("lamp")
    assert lamp.phase is Phase.KLAERUNG_REPARATUR
    assert "no profile" in lamp.reason


def test_a_card_over_which_the_plan_breaks_is_parked(
    store: Store, board: Board, monkeypatch: pytest.MonkeyPatch
) -> None:
    board.direct("lamp")
    board.direct("desk", lane="leicht")
    sql(store, "UPDATE cards SET write_scope = '[\"' || slug || '\"]'")
    real = schedule._verdict

    def fragile(card: Any, *rest: Any) -> Any:
        if card.slug == "lamp":
            raise ZeroDivisionError("a scope nobody thought of")
        return real(card, *rest)

    monkeypatch.setattr(schedule, "_verdict", fragile)
    assert tick(store) == [("desk", "dispatch")]
    assert "a scope nobody thought of" in store.card("lamp").reason


def test_a_card_that_stays_unreadable_holds_up_nobody(store: Store, board: Board) -> None:
    board.direct("lamp")
    board.direct("desk")
    sql(store, "UPDATE cards SET slug = ? WHERE slug = 'lamp'", b"\xff")
    for _ in range(2):
        tick(store)
    assert store.card("desk").phase is Phase.IN_UMSETZUNG


def test_many_bad_cards_in_front_hold_up_the_good_one_for_no_tick(store: Store, board: Board) -> None:
    for number in range(8):
        board.direct(f"bad-{number}")
    board.direct("good")
    sql(store, "UPDATE cards SET title = ? WHERE slug LIKE 'bad%'", b"\xff")
    assert tick(store) == [("good", "dispatch")]


def test_a_plan_that_breaks_over_nobody_in_particular_is_said(
    store: Store, board: Board, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(snapshot: Any, now: float) -> Any:
        raise ZeroDivisionError("no luck today")

    monkeypatch.setattr(schedule, "plan", broken)
    with pytest.raises(StoreError, match="no luck today"):
        store.tick(NOW, off_branch={})


def test_a_card_whose_lane_or_queue_is_gone_is_parked_with_the_reason(state_dir: Path, board: Board) -> None:
    board.direct("lamp")
    board.direct("desk")
    tick(board.store)
    board.store.close()
    lane = {"phase": "in_umsetzung_leicht", "runtime": "codex", "model": "gpt-5.6-luna", "reasoning_effort": "none"}
    config = configured(state_dir)
    smaller = config.model_copy(update={"lanes": {"quick": type(config.lanes["leicht"])(**lane)}})
    store = open_store(smaller)
    tick(store)
    lamp, desk = store.card("lamp"), store.card("desk")
    assert (lamp.phase, desk.phase) == (Phase.KLAERUNG_REPARATUR, Phase.KLAERUNG_REPARATUR)
    assert "builder-schwer" in lamp.reason
    assert "lane 'schwer'" in desk.reason


def test_a_taken_synthesis_slug_parks_the_parent_with_the_reason(store: Store, board: Board) -> None:
    board.split("house", {"roof": []})
    make_good(store, "roof")
    board.submit("house-synthese")
    tick(store, house=[])
    house = store.card("house")
    assert house.phase is Phase.KLAERUNG_REPARATUR
    assert "house-synthese" in house.reason


def test_a_refusal_to_a_person_leaves_no_trace_in_the_card(store: Store, board: Board) -> None:
    board.direct("lamp")
    before = store.card("lamp")
    with pytest.raises(Refused):
        store.happen("lamp", "release", actor="lukas")
    assert store.card("lamp") == before


def test_clocks_may_jump(store: Store, board: Board) -> None:
    board.split("house", {"roof": ["wall"], "wall": []})
    for now in (4_000_000_000.0, 0.0, time.time(), -5.0):
        store.tick(now, off_branch={})
    assert store.card("wall").phase is Phase.IN_UMSETZUNG
