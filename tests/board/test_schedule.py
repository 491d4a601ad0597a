"""Scheduling: order, lanes, leases, families; and that nobody starves."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from intent_board.board.model import Family, Happen, Lease, Member, Phase, Snapshot, Status, Waiting
from intent_board.board.schedule import blocking_members, plan, verdicts
from intent_board.config import example

CONFIG = example()
REPO = "nixos-config"


def waiting(slug: str, line: int | None, scope: str = "", lane: str = "schwer", **more: object) -> Waiting:
    return Waiting(slug, REPO, lane, line, (scope,) if scope else (), **more)  # type: ignore[arg-type]


def dispatched(snapshot: Snapshot) -> list[str]:
    return [one.slug for one in plan(snapshot, 0.0) if isinstance(one, Happen) and one.event == "dispatch"]


def why_not(snapshot: Snapshot, slug: str) -> str:
    return next(one.reason for one in verdicts(snapshot) if one.slug == slug)


def member(slug: str, phase: Phase, good: bool = False, reason: str = "") -> Member:
    return Member(slug, phase, Status.QUEUED, good, reason)


def test_one_card_a_lane_and_two_at_once_oldest_first() -> None:
    cards = (waiting("a", 1, "a"), waiting("b", 2, "b"), waiting("c", 3, "c", "leicht"))
    assert dispatched(Snapshot(CONFIG, cards)) == ["a", "c"]
    assert why_not(Snapshot(CONFIG, cards), "b") == "lane schwer is full (1 at a time)"


def test_the_board_as_a_whole_has_a_capacity() -> None:
    snapshot = Snapshot(CONFIG, (waiting("a", 1, "a", "leicht"),), busy={"schwer": 2})
    assert dispatched(snapshot) == []
    assert "the board is full (2 builders at a time)" in why_not(snapshot, "a")


def test_a_scope_that_is_held_keeps_the_card_and_lets_another_pass() -> None:
    lease = Lease("busy", REPO, ("docs",))
    snapshot = Snapshot(CONFIG, (waiting("a", 1, "docs"), waiting("b", 2, "src")), leases=(lease,))
    assert dispatched(snapshot) == ["b"]
    assert why_not(snapshot, "a") == "busy is being worked on and may write the same files"


def test_a_lease_of_another_repository_holds_nobody() -> None:
    snapshot = Snapshot(CONFIG, (waiting("a", 1, "docs"),), leases=(Lease("busy", "website", ("docs",)),))
    assert dispatched(snapshot) == ["a"]


def test_a_card_without_a_scope_may_touch_anything() -> None:
    snapshot = Snapshot(CONFIG, (waiting("a", 1),), leases=(Lease("busy", REPO, ("docs",)),))
    assert dispatched(snapshot) == []


def test_nobody_overtakes_a_waiting_card_into_its_scope_in_whichever_lane() -> None:
    cards = (waiting("a", 1, "docs"), waiting("b", 2, "docs", "leicht"))
    snapshot = Snapshot(CONFIG, cards, busy={"schwer": 1})
    assert dispatched(snapshot) == []
    assert why_not(snapshot, "b") == "a stands before it in the line and may write the same files"


def test_a_failed_dependency_never_unblocks_and_says_so() -> None:
    for phase in (Phase.KLAERUNG_REPARATUR, Phase.ARCHIVIERT, Phase.BEREIT):
        bad = member("dep", phase, reason="the checks failed")
        snapshot = Snapshot(CONFIG, (waiting("a", None, "a", blockers=(bad,)),))
        assert plan(snapshot, 0.0) == []
        assert "depends on dep" in why_not(snapshot, "a")


def test_a_good_dependency_gives_a_place_in_line_behind_the_others() -> None:
    good = member("dep", Phase.BEREIT, good=True)
    cards = (waiting("late", None, "a", blockers=(good,)), waiting("early", 5, "b"))
    effects = plan(Snapshot(CONFIG, cards), 0.0)
    assert effects == [Happen("late", "ready"), Happen("early", "dispatch")]


def test_a_lane_or_repository_that_is_gone_fails_only_its_card() -> None:
    cards = (waiting("a", 1, "a", "weg"), replace(waiting("b", 2, "b"), repository="gone"), waiting("c", 3, "c"))
    effects = plan(Snapshot(CONFIG, cards), 0.0)
    assert [(one.slug, one.event) for one in effects if isinstance(one, Happen)] == [
        ("a", "fault"), ("b", "fault"), ("c", "dispatch"),
    ]  # fmt: skip


def test_a_paused_runtime_keeps_its_lane_and_says_why() -> None:
    snapshot = Snapshot(CONFIG, (waiting("a", 1, "a"),), paused_runtimes=frozenset({"codex"}))
    assert dispatched(snapshot) == []
    assert "codex is paused" in why_not(snapshot, "a")


def test_a_clock_that_jumps_changes_nothing() -> None:
    snapshot = Snapshot(CONFIG, (waiting("a", 1, "a"),))
    assert plan(snapshot, 0.0) == plan(snapshot, 1e12) == plan(snapshot, -1e12)


# --- families ------------------------------------------------------------------------------------------------------

GOOD = member("done", Phase.BEREIT, good=True)
OPEN = member("open", Phase.IN_UMSETZUNG)


def family(*children: Member, **more: object) -> Family:
    return Family("parent", more.pop("phase", Phase.WARTET_AUF_KINDER), children, **more)  # type: ignore[arg-type]


def happens(one: Family) -> list[str]:
    return [effect.event for effect in plan(Snapshot(CONFIG, families=(one,)), 0.0) if isinstance(effect, Happen)]


@pytest.mark.parametrize("phase", [Phase.KLAERUNG_REPARATUR, Phase.PLANUNG_MIT_FEEDBACK, Phase.ARCHIVIERT])
def test_a_parked_child_blocks_its_parent_visibly(phase: Phase) -> None:
    parked = member("bad", phase, reason="limit reached")
    assert happens(family(GOOD, parked)) == ["family_blocked"]
    assert blocking_members(family(GOOD, parked)) == [{"slug": "bad", "why": "limit reached"}]


def test_a_child_that_is_published_without_a_review_is_no_success() -> None:
    assert happens(family(GOOD, member("odd", Phase.BEREIT))) == ["family_blocked"]


def test_a_blocked_family_is_told_again_only_when_something_changed() -> None:
    bad, worse = member("bad", Phase.ARCHIVIERT), member("worse", Phase.ARCHIVIERT)
    blocked = {"phase": Phase.DURCH_KINDER_BLOCKIERT}
    assert happens(family(bad, **blocked, blocking=("bad",))) == []
    assert happens(family(bad, worse, **blocked, blocking=("bad",))) == ["family_blocked"]
    assert happens(family(GOOD, **blocked, blocking=("bad",))) == ["family_cleared"]


def test_the_synthesis_comes_when_all_are_good_and_on_the_branch() -> None:
    assert happens(family(GOOD, OPEN)) == []
    assert happens(family(GOOD)) == ["synthesis_due"]
    assert happens(family(GOOD, off_branch=("done",))) == ["family_blocked"]
    assert happens(family(GOOD, synthesis=OPEN)) == []
    assert happens(family(GOOD, synthesis=GOOD)) == ["synthesis_good"]
    parked = member("parent-synthese", Phase.KLAERUNG_REPARATUR)
    assert happens(family(GOOD, synthesis=parked)) == ["family_blocked"]


# --- nobody starves ------------------------------------------------------------------------------------------------

SCOPES = st.sampled_from(["a", "b", "a/x", "."])
LANES = st.sampled_from(["schwer", "leicht"])
STREAM = st.lists(st.tuples(SCOPES, LANES), min_size=1, max_size=3)


@given(first=st.tuples(SCOPES, LANES), stream=st.lists(STREAM, min_size=1, max_size=8), seed=st.integers(0, 3))
@settings(max_examples=300, deadline=None)
def test_no_card_starves_under_any_stream_of_new_ones(
    first: tuple[str, str], stream: list[list[tuple[str, str]]], seed: int
) -> None:
    """Every tick brings new cards for ever; each running card ends after a few ticks.  The oldest always goes."""
    line = [waiting("old", 0, *first)]
    running: dict[str, tuple[Waiting, int]] = {}
    for tick in range(60):
        for number, (scope, lane) in enumerate(stream[tick % len(stream)]):
            line.append(waiting(f"new-{tick}-{number}", 1 + tick * 10 + number, scope, lane))
        running = {slug: (card, left - 1) for slug, (card, left) in running.items() if left > 1}
        busy = {lane: sum(card.lane == lane for card, _ in running.values()) for lane in ("schwer", "leicht")}
        leases = tuple(Lease(slug, REPO, card.write_scope) for slug, (card, _) in running.items())
        for slug in dispatched(Snapshot(CONFIG, tuple(line), busy, leases)):
            card = next(one for one in line if one.slug == slug)
            running[slug] = (card, 1 + (tick + seed) % 3)
        line = [card for card in line if card.slug not in running]
        if "old" in running:
            return
    raise AssertionError("the oldest card was never dispatched")


def test_a_parent_without_any_child_says_so_and_does_not_wait_in_silence() -> None:
    lost = family()
    (effect,) = plan(Snapshot(CONFIG, families=(lost,)), 0)
    assert isinstance(effect, Happen) and effect.event == "family_blocked"
    assert effect.data["blocking"] == [{"slug": "parent", "why": "none of its children is on the board"}]
