"""What happens to cards: all of it or nothing, once, and remembered."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from intent_board.board.model import Kind, Phase, Refused, Status
from intent_board.store import Store, UnknownCard

if TYPE_CHECKING:
    from store_board import Board


def test_a_submitted_card_has_its_intent_its_job_and_a_line_of_the_audit(store: Store, board: Board) -> None:
    board.submit("lamp", acceptance_criteria=["it is lit"], warnings=["no scope"])
    card = store.card("lamp")
    assert (card.phase, card.status, card.requester) == (Phase.OPERATOR_PRUEFUNG, Status.QUEUED, "lukas")
    assert card.acceptance_criteria == ("it is lit",)
    assert card.warnings == ("no scope",)
    assert store.intent("lamp") == "# Intent: The lamp\n"
    (line,) = store.jobs("lamp")
    assert (line.job.role, line.job.queue, line.job.attempt) == ("operator", "operator", 1)
    assert [(event.event, event.actor) for event in store.events("lamp")] == [("submit_by_owner", "lukas")]


def test_a_taken_slug_is_refused_and_changes_nothing(store: Store, board: Board) -> None:
    board.submit("lamp")
    with pytest.raises(Refused, match="taken"):
        board.submit("lamp", requester="eve")
    assert store.card("lamp").requester == "lukas"
    assert len(store.events()) == 1


@pytest.mark.parametrize("slug", ["Lamp", "../lamp", "", "a" * 62, "lämp", "-lamp", "la mp"])
def test_what_is_no_slug_is_refused(store: Store, board: Board, slug: str) -> None:
    with pytest.raises(Refused, match="slug"):
        board.submit(slug)
    assert store.cards() == []


def test_every_field_of_a_card_comes_back_as_it_went_in(store: Store, board: Board) -> None:
    board.submit("lamp", write_scope=["a/**"], iterations=7, lane="leicht")
    ladder = [{"model": "gpt-5.6-sol", "reasoning_effort": None, "iteration_limit": 9}]
    store.finish(
        board.claim("operator"), "operator_direct", {"lane": "leicht", "escalation": ladder, "reason": "ä\ud800"}
    )
    card = store.card("lamp")
    assert card.profile is not None
    assert (card.profile.runtime, card.profile.iteration_limit) == ("codex", 7)
    assert card.ladder is not None
    assert [(rung.model, rung.reasoning_effort, rung.iteration_limit) for rung in card.ladder] == [
        ("gpt-5.6-sol", None, 9)
    ]
    assert card.write_scope == ("a/**",)
    assert card.iterations == 7
    assert card.reason == "ä\\ud800"
    assert card.line == 1


def test_a_split_makes_every_child_and_their_files(store: Store, board: Board) -> None:
    board.split("house", {"roof": ["wall"], "wall": []})
    assert store.card("house").phase is Phase.WARTET_AUF_KINDER
    roof, wall = store.family("house")
    assert (roof.kind, roof.parent, roof.blocked_by, roof.line) == (Kind.CHILD, "house", ("wall",), None)
    assert wall.line is not None
    assert (store.config.intent_dir / "roof.md").read_text() == "# Intent: The roof\n"


def test_a_split_that_names_a_taken_slug_makes_no_child(store: Store, board: Board) -> None:
    board.submit("wall")
    store.finish(board.claim("operator"), "operator_direct", {"lane": "schwer"})
    board.split("house", {"roof": [], "wall": []})
    house = store.card("house")
    assert (house.phase, house.status) == (Phase.OPERATOR_KLAERUNG, Status.FAILED)
    assert "wall" in house.reason
    assert store.find("roof") is None
    assert store.card("wall").parent is None


def test_a_split_that_waits_for_a_card_that_is_not_there_makes_no_child(store: Store, board: Board) -> None:
    board.submit("house")
    from store_board import child_data

    data = {"children": [child_data("roof", ["nowhere"]), child_data("wall")]}
    assert not store.finish(board.claim("operator"), "operator_split", data)
    assert store.family("house") == ()
    assert store.answers("house")[0].stale
    store.tick(1.0, off_branch={})
    assert store.card("house").phase is Phase.OPERATOR_KLAERUNG


def test_an_event_that_the_rules_refuse_changes_nothing(store: Store, board: Board) -> None:
    board.submit("lamp", requester="eve")
    before = (store.card("lamp"), len(store.events()))
    with pytest.raises(Refused, match="only the owner"):
        store.happen("lamp", "accept", actor="eve")
    assert (store.card("lamp"), len(store.events())) == before
    assert store.happen("lamp", "accept", actor="lukas").phase is Phase.OPERATOR_PRUEFUNG


def test_a_repository_that_is_not_configured_is_refused(store: Store) -> None:
    with pytest.raises(Refused, match="'elsewhere'"):
        store.submit(
            slug="lamp",
            title="t",
            intent="# Intent: t\n",
            repository="elsewhere",
            requester="lukas",
            event="submit_by_owner",
        )


def test_an_unknown_card_is_named(store: Store) -> None:
    with pytest.raises(UnknownCard, match="'lamp'"):
        store.happen("lamp", "accept", actor="lukas")
    with pytest.raises(UnknownCard, match="board list"):
        store.card("lamp")


def test_a_replaced_intent_is_the_newest_version_and_its_file_follows(store: Store, board: Board) -> None:
    board.submit("lamp")
    store.finish(board.claim("operator"), "operator_invalid", {})
    data = {"title": "A brighter lamp", "intent": "# Intent: A brighter lamp\n"}
    card = store.happen("lamp", "replace", actor="lukas", data=data)
    assert (card.title, card.phase, card.round) == ("A brighter lamp", Phase.OPERATOR_PRUEFUNG, 2)
    assert store.intent("lamp") == "# Intent: A brighter lamp\n"
    assert (store.config.intent_dir / "lamp.md").read_text() == "# Intent: A brighter lamp\n"


def test_places_in_line_are_given_out_once_each(store: Store, board: Board) -> None:
    for slug in ("one", "two", "three"):
        board.direct(slug)
    assert [store.card(slug).line for slug in ("one", "two", "three")] == [1, 2, 3]
