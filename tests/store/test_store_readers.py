"""What can be asked of the store, and what is to be told or kept outside of it."""

from __future__ import annotations

import sqlite3
import time
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import inspect
from store_board import sql

from intent_board.store import Store, StoreError

if TYPE_CHECKING:
    from store_board import Board

HASH = "c" * 40


def test_cards_are_listed_by_phase_repository_parent_and_requester(store: Store, board: Board) -> None:
    board.split("house", {"roof": [], "wall": []})
    board.submit("lamp", requester="eve")
    assert {card.slug for card in store.cards(parent="house")} == {"roof", "wall"}
    assert [card.slug for card in store.cards(phases=["wartet_auf_startfreigabe"])] == ["lamp"]
    assert [card.slug for card in store.cards(requester="eve")] == ["lamp"]
    assert store.cards(repository="other") == []
    assert store.cards(phases=[]) == []
    assert len(store.cards(limit=2)) == 2
    assert store.cards()[0].slug == "lamp"  # moved last


def test_the_names_alone_are_read_newest_first_and_counted(store: Store, board: Board) -> None:
    for number in range(4):
        board.submit(f"lamp-{number}")
    store.happen("lamp-1", "archive", actor="lukas")
    assert store.slugs(limit=2) == (["lamp-1", "lamp-3"], 4)
    assert store.slugs(limit=9) == (["lamp-1", "lamp-3", "lamp-2", "lamp-0"], 4)


def test_reviews_routes_and_attachments_are_kept_with_their_job(store: Store, board: Board) -> None:
    claim = board.building()
    data = {"commit": HASH, "base": "b" * 40, "branch": "main", "summary": "s", "checks": [], "paths": ["a"]}
    assert store.finish(claim, "built", data)
    review = board.claim("review")
    assert len(review.job.snapshot["nonce"]) == 32
    assert store.finish(review, "negative", {"commit": HASH, "report": {"summary": "no"}})
    (kept,) = store.reviews("lamp")
    assert (kept.job_id, kept.commit, kept.decision, kept.report) == (
        review.job.id, HASH, "planung_mit_feedback", {"summary": "no"},
    )  # fmt: skip
    store.happen("lamp", "inspect", actor="lukas", data={"task": "routing"})
    route = {"recommendation": "retry_builder", "reason": "try again", "lane": None, "question": None}
    assert store.finish(board.claim("inspect"), "routed", {"route": route})
    pending = store.pending_route("lamp")
    assert pending is not None
    assert pending["recommendation"] == "retry_builder"
    assert store.attachments("lamp", "route")[0].data == route
    store.happen("lamp", "route_apply", actor="lukas", data={"id": pending["id"]})
    assert [one.outcome for one in store.routes("lamp")] == ["applied"]
    assert store.pending_route("lamp") is None
    assert store.card("lamp").round == 2


def test_only_the_newest_route_is_pending(store: Store, board: Board) -> None:
    store.finish(board.building(), "build_failed", {"reason": "broke"})
    for recommendation in ("archive", "nothing"):
        store.happen("lamp", "inspect", actor="lukas", data={"task": "routing"})
        route = {"recommendation": recommendation, "reason": "r", "lane": None, "question": None}
        store.finish(board.claim("inspect"), "routed", {"route": route})
    pending = store.pending_route("lamp")
    assert pending is not None
    assert pending["recommendation"] == "nothing"
    store.happen("lamp", "route_dismiss", actor="lukas", data={"id": pending["id"]})
    assert store.pending_route("lamp") is None  # the older one does not come back
    assert store.card("lamp").phase == "klaerung_reparatur"


def test_the_status_shows_what_runs_and_what_waits(store: Store, board: Board) -> None:
    claim = board.building()
    store.progress(claim, 6)
    board.submit("desk")
    status = store.status()
    (line,) = status.running
    assert (line.job.slug, line.job.used_iterations, line.limit) == ("lamp", 6, 20)
    assert status.queued == {"operator": 1}
    assert status.phases == {"in_umsetzung": 1, "operator_pruefung": 1}
    assert status.paused == ()
    assert store.present_job("lamp") == line.job


def test_the_audit_is_in_order_and_can_be_followed(store: Store, board: Board) -> None:
    board.direct("lamp")
    board.submit("desk")
    lines = store.events()
    assert [(line.slug, line.event) for line in lines] == [
        ("lamp", "submit_by_owner"), ("lamp", "operator_direct"), ("desk", "submit_by_owner"),
    ]  # fmt: skip
    assert [line.event for line in store.events("lamp", limit=1)] == ["operator_direct"]
    assert store.events(after=lines[1].id) == lines[2:]


@pytest.mark.parametrize("deed", ["DELETE FROM events", "UPDATE events SET actor = 'eve'"])
def test_the_audit_can_not_be_changed(store: Store, board: Board, deed: str) -> None:
    board.submit("lamp")
    with pytest.raises(sqlite3.IntegrityError, match="append-only"):
        sql(store, deed)
    assert store.events()[0].actor == "lukas"


def test_an_unreadable_card_is_named_to_a_reader(store: Store, board: Board) -> None:
    board.submit("lamp")
    sql(store, "UPDATE cards SET rung = 'x'")
    with pytest.raises(StoreError, match=r"'lamp' can't be shown.*rung"):
        store.card("lamp")


def test_a_fact_is_told_once_and_until_it_got_through(store: Store, board: Board) -> None:
    claim = board.building()
    question = {"question": "which colour?"}
    store.finish(claim, "build_needs_input", question)
    store.finish(claim, "build_needs_input", question)
    notes = store.due_notifications(time.time())
    assert sorted((note.event, note.to_requester) for note in notes) == [("question", False), ("question", True)]
    assert {note.requester for note in notes} == {"lukas"}
    first, second = notes
    store.notification_sent(first.id)
    store.notification_failed(second.id, time.time() + 50, "no route \ud800")
    assert store.due_notifications(time.time()) == []
    (again,) = store.due_notifications(time.time() + 60)
    assert (again.id, again.tries) == (second.id, 1)
    store.notification_failed(first.id, 0.0, "late")  # it was sent: nothing brings it back
    assert [note.id for note in store.due_notifications(time.time() + 60)] == [second.id]


def test_a_notification_time_from_a_clock_that_jumped_holds_nothing(store: Store, board: Board) -> None:
    store.finish(board.building(), "build_failed", {})
    (note,) = store.due_notifications(time.time())
    store.notification_failed(note.id, time.time() + 400 * 86400, "x")
    assert [one.id for one in store.due_notifications(time.time())] == [note.id]


def test_the_same_question_in_a_new_round_is_a_new_fact(store: Store, board: Board) -> None:
    store.finish(board.building(), "build_needs_input", {"question": "which colour?"})
    store.happen("lamp", "answer", actor="lukas", data={"answer": {"text": "red"}})
    store.tick(time.time(), off_branch={})
    store.finish(board.claim("builder-schwer"), "build_needs_input", {"question": "which colour?"})
    notes = [note for note in store.due_notifications(time.time()) if not note.to_requester]
    assert len(notes) == 2


def test_wanted_refs_are_kept_once(store: Store, board: Board) -> None:
    board.direct("lamp")
    sql(store, "UPDATE cards SET phase = 'wartet_auf_commitfreigabe', \"commit\" = ?, reviewed = ?", HASH, HASH)
    store.happen("lamp", "discard", actor="lukas")
    (ref,) = store.pending_refs()
    assert (ref.slug, ref.repository, ref.commit) == ("lamp", "site", HASH)
    store.ref_kept(ref.id)
    assert store.pending_refs() == []


def test_the_whole_snapshot_names_every_waiting_card(store: Store, board: Board) -> None:
    board.split("house", {"roof": ["wall"], "wall": []})
    board.direct("lamp")
    store.tick(time.time(), off_branch={})
    snapshot = store.snapshot()
    waiting = {card.slug: card for card in snapshot.waiting}
    assert set(waiting) == {"roof", "lamp"}
    assert [(member.slug, member.good) for member in waiting["roof"].blockers] == [("wall", False)]
    assert snapshot.busy == {"schwer": 1}
    family = store.family_of("house")
    assert family is not None
    assert [child.slug for child in family.children] == ["roof", "wall"]
    assert store.family_of("lamp") is None


def test_no_statement_of_a_tick_reads_a_whole_table(store: Store, board: Board) -> None:
    """A scan of cards, jobs, events or intents would grow with all that was ever done."""
    from sqlalchemy import event

    board.split("house", {"roof": ["wall"], "wall": []})
    board.direct("lamp")
    seen: list[tuple[str, object]] = []

    @event.listens_for(store._engine, "before_cursor_execute")
    def listen(connection: object, cursor: object, statement: str, values: object, *_: object) -> None:
        seen.append((statement, values))

    store.tick(time.time(), off_branch={})
    store.claim("operator")
    event.remove(store._engine, "before_cursor_execute", listen)
    assert len(seen) > 20
    with store._reading() as connection:
        for statement, values in seen:
            if not statement.startswith(("SELECT", "UPDATE", "DELETE")):
                continue
            plan = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", values).all()  # type: ignore[arg-type]
            for row in plan:
                scanned = str(row[3])
                allowed = any(word in scanned for word in ("paused_runtimes", "unprojected", "SUBQUERY", "CONSTANT"))
                assert not scanned.startswith("SCAN") or allowed, (scanned, statement)


def test_every_reference_has_an_index_or_is_the_key(store: Store) -> None:
    inspector = inspect(store._engine)
    for table in ("jobs", "dependencies", "reviews", "attachments", "routes", "answers"):
        indexed = {index["column_names"][0] for index in inspector.get_indexes(table)}
        indexed |= {key["column_names"][0] for key in inspector.get_unique_constraints(table)}
        indexed |= set(inspector.get_pk_constraint(table)["constrained_columns"][:1])
        assert "slug" in indexed, table
