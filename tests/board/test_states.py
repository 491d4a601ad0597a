"""The phases: every row of the table walked, and every pair that is not in it refused."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from intent_board.board import states
from intent_board.board.model import (
    AddReview,
    Attach,
    CancelJobs,
    Card,
    CloseRoute,
    CreateCard,
    CreateJob,
    Effect,
    Facts,
    Happen,
    Job,
    JobState,
    KeepRef,
    Kind,
    Notify,
    Phase,
    Profile,
    Record,
    Refused,
    Rung,
    Status,
    UpdateCard,
)
from intent_board.board.states import TABLE, Event, step
from intent_board.config import BoardConfig, example, parse

E = Event
HASH, OTHER = "a" * 40, "b" * 40
CODES = {
    "G": Phase.GEPLANT, "OP": Phase.OPERATOR_PRUEFUNG, "OK": Phase.OPERATOR_KLAERUNG, "SF": Phase.STARTFREIGABE,
    "CF": Phase.COMMITFREIGABE, "IU": Phase.IN_UMSETZUNG, "IR": Phase.IN_REVIEW, "KR": Phase.KLAERUNG_REPARATUR,
    "PF": Phase.PLANUNG_MIT_FEEDBACK, "WK": Phase.WARTET_AUF_KINDER, "DB": Phase.DURCH_KINDER_BLOCKIERT,
    "BD": Phase.BEREIT, "D": Phase.DEPLOYED, "A": Phase.ARCHIVIERT,
}  # fmt: skip
PROFILE = Profile("codex", "gpt-5.6-luna", "none", 20)
REPORT = {"summary": "looked", "findings": []}


def config(**tables: dict[str, Any]) -> BoardConfig:
    raw = example().model_dump(mode="json", exclude_none=True)
    for table, values in tables.items():
        raw[table] = {**raw[table], **values}
    return parse(raw)


def card(phase: Phase, **values: Any) -> Card:
    plain: dict[str, Any] = {
        "status": Status.QUEUED,
        "lane": "schwer",
        "profile": PROFILE,
        "commit": HASH,
        "base": OTHER,
    }
    plain |= {"requester": "lukas", "repository": "nixos-config", "phase": phase}
    return Card("sitemap", "Sitemap", **{**plain, **values})


def job(role: str, **snapshot: Any) -> Job:
    base = {"profile": {"runtime": "codex", "model": "gpt-5.6-luna", "reasoning_effort": None, "iteration_limit": 20}}
    return Job(7, "sitemap", role, role, 1, 1, JobState.RUNNING, 3, {**base, "commit": HASH, **snapshot})


def facts(actor: str = "board", *, conf: BoardConfig | None = None, **values: Any) -> Facts:
    data = values.pop("data", {})
    return Facts(conf or config(), 1000.0, actor, data, nonce="n" * 32, **values)


CHILD = {
    "slug": "part-a", "title": "A", "wave": 1, "blocked_by": (), "lane": "leicht", "write_scope": ("a",),
    "acceptance_criteria": ("it is there",), "intent": "# Intent: A\n", "escalation": None,
}  # fmt: skip
NEW = {"slug": "sitemap", "title": "Sitemap", "repository": "nixos-config", "requester": "lukas"}
BUILT = {"commit": HASH, "base": OTHER, "branch": "main", "checks": [], "summary": "s", "paths": ["a"]}
#: What an event needs beside the card: its data, its job, and values of the card itself.
NEEDS: dict[Event, dict[str, Any]] = {
    E.SUBMIT_BY_OWNER: {"data": NEW}, E.SUBMIT_BY_OTHER: {"data": NEW}, E.BUILD_BY_HAND: {"data": NEW},
    E.OPERATOR_DIRECT: {"data": {"lane": "schwer", "escalation": []}},
    E.OPERATOR_SPLIT: {"data": {"children": [CHILD]}},
    E.OPERATOR_NEEDS_HUMAN: {"data": {"human_action": "decide"}},
    E.BUILT: {"data": BUILT, "job": job("builder")},
    E.BUILD_NEEDS_INPUT: {"data": {"question": "which?"}},
    E.BUILD_NO_CHANGES: {"data": BUILT, "job": job("builder")},
    E.APPROVED: {"data": {"commit": HASH, "report": REPORT}, "job": job("reviewer")},
    E.NEGATIVE: {"data": {"commit": HASH, "report": REPORT}, "job": job("reviewer")},
    E.REVIEW_INVALID: {"job": job("reviewer")},
    E.RELEASE: {"card": {"reviewed": HASH, "status": Status.SUCCEEDED}, "conf": config(deploy={"gate": "owner"})},
    E.PUBLISHED: {"data": {"commit": HASH}, "job": job("publish")},
    E.REBASED: {"data": {"old": HASH, "commit": OTHER, "base": HASH}, "job": job("publish")},
    E.FIX_REPAIRED: {"data": {**BUILT, "commit": OTHER}, "job": job("fixer")},
    E.FIX_NEEDS_INPUT: {"data": {"question": "which?", "required_action": "decide"}},
    E.ANSWER: {"data": {"answer": {"text": "this one"}}, "card": {"status": Status.NEEDS_INPUT, "asked_by": "builder"}},
    E.REPAIR: {"card": {"status": Status.CHECK_FAILED}},
    E.INSPECT: {"data": {"task": "route_next"}},
    E.ROUTED: {"data": {"route": {"recommendation": "archive", "reason": "old"}}},
    E.ASK_HUMAN: {"data": {"question": "which?"}},
    E.SPLIT: {"card": {"status": Status.LIMIT_REACHED}},
    E.SPLIT_VALID: {"data": {"children": [CHILD]}, "card": {"status": Status.LIMIT_REACHED}},
    E.FAMILY_BLOCKED: {"data": {"blocking": [{"slug": "part-a", "why": "parked"}]}},
    E.DEPLOY: {"card": {"released": HASH}},
    E.SYNTHESIS_GOOD: {"children": (replace(card(Phase.BEREIT), kind=Kind.SYNTHESIS, reviewed=HASH),)},
}  # fmt: skip


def run(phase: Phase | None, event: Event, **more: Any) -> list[Effect]:
    need = {**NEEDS.get(event, {}), **more}
    values = need.pop("card", {})
    return step(card(phase, **values) if phase else None, event, facts(**need))


def after(effects: list[Effect], slug: str = "sitemap") -> tuple[Phase | None, Status | None]:
    """Where the effects leave a card; None where they do not say."""
    phase = status = None
    for effect in effects:
        if isinstance(effect, CreateCard) and effect.card.slug == slug:
            phase, status = effect.card.phase, effect.card.status
        if isinstance(effect, UpdateCard) and effect.slug == slug:
            phase, status = effect.values.get("phase", phase), effect.values.get("status", status)
    return phase, status


def jobs(effects: list[Effect]) -> list[CreateJob]:
    return [effect for effect in effects if isinstance(effect, CreateJob)]


ROWS = [pytest.param(phase, row, id=f"{phase}-{row.event}") for row in TABLE for phase in row.phases]


@pytest.mark.parametrize(("phase", "row"), ROWS)
def test_every_row_leaves_the_card_where_the_table_says(phase: Phase | None, row: states.Row) -> None:
    effects = run(phase, row.event)
    to, status = after(effects)
    allowed = {CODES.get(code.strip()) for code in row.to.split(",")}
    assert (to or phase) in (allowed - {None} or {phase})
    statuses = {word.strip() for word in row.status.split(",")}
    assert status is None or status in statuses or "=" in statuses
    assert any(isinstance(effect, Record) for effect in effects), "the audit must know"


@pytest.mark.parametrize(("phase", "row"), ROWS)
def test_every_update_expects_the_phase_it_was_decided_in(phase: Phase | None, row: states.Row) -> None:
    for effect in run(phase, row.event):
        if isinstance(effect, UpdateCard) and effect.slug == "sitemap":
            assert effect.expect is phase


MISSING = [
    (phase, event)
    for phase in (None, *Phase)
    for event in Event
    if not any(row.event is event and phase in row.phases for row in TABLE)
    and event not in (E.ROUTE_APPLY, E.ROUTE_DISMISS, E.RUN_LOST)
]


@pytest.mark.parametrize(("phase", "event"), MISSING)
def test_every_other_pair_is_refused_in_one_sentence(phase: Phase | None, event: Event) -> None:
    with pytest.raises(Refused) as refused:
        run(phase, event)
    assert "\n" not in str(refused.value)
    assert phase is None or "sitemap" in str(refused.value)


def test_every_phase_has_a_way_out_for_a_person_or_the_board() -> None:
    for phase in Phase:
        if phase is not Phase.ARCHIVIERT:
            assert Event.ARCHIVE in states.events_for(phase)
    assert list(states.events_for(Phase.ARCHIVIERT)) == []


def test_the_document_and_the_table_are_the_same() -> None:
    text = (Path(__file__).parents[2] / "docs" / "states.md").read_text()
    rows = re.findall(r"^\| ([^|]+) \| `([a-z_]+)` \| ([^|]+) \| ([^|]+) \|", text, re.M)
    names = {phase: code for code, phase in CODES.items()} | {None: "–", Phase.IN_UMSETZUNG_LEICHT: "IU"}
    anything = tuple(phase for phase in Phase if phase is not Phase.ARCHIVIERT)
    expected = []
    for row in TABLE:
        phases = "any but A" if row.phases == anything else ", ".join(dict.fromkeys(names[one] for one in row.phases))
        expected.append((phases, row.event.value, row.to, row.status))
    assert rows == expected


@pytest.mark.parametrize("event", sorted(states.OWNER_ONLY))
def test_only_the_owner_may(event: Event) -> None:
    for phase in Phase:
        with pytest.raises(Refused, match=r"only the owner|no such"):
            run(phase, event, actor="mallory")


@pytest.mark.parametrize("event", sorted(states.REQUESTER))
def test_a_requester_may_speak_for_the_own_card_only(event: Event) -> None:
    phase = Phase.OPERATOR_KLAERUNG
    with pytest.raises(Refused, match="only lukas or the requester"):
        run(phase, event, actor="mallory")
    need = dict(NEEDS.get(event, {}))
    values = need.pop("card", {})
    own = replace(card(phase, **values), requester="eva")
    assert after(step(own, event, facts("eva", **need)))[0] is Phase.OPERATOR_PRUEFUNG


@pytest.mark.parametrize("event", [E.SUBMIT_BY_OWNER, E.BUILD_BY_HAND])
def test_nobody_but_the_owner_can_create_a_card_that_starts_by_itself(event: Event) -> None:
    with pytest.raises(Refused, match="only the owner"):
        run(None, event, actor="eva")
    assert after(run(None, event, actor="lukas"))[0] in (Phase.OPERATOR_PRUEFUNG, Phase.GEPLANT)
    assert after(run(None, E.SUBMIT_BY_OTHER, actor="eva"))[0] is Phase.STARTFREIGABE


# --- what single rows promise ------------------------------------------------------------------------------------


def test_a_split_with_a_taken_slug_creates_nothing() -> None:
    effects = run(Phase.OPERATOR_PRUEFUNG, E.OPERATOR_SPLIT, taken=frozenset({"part-a"}))
    assert not [effect for effect in effects if isinstance(effect, CreateCard)]
    assert after(effects) == (Phase.OPERATOR_KLAERUNG, Status.FAILED)


def test_children_inherit_the_requester_and_wait_for_their_dependencies() -> None:
    second = {**CHILD, "slug": "part-b", "blocked_by": ("part-a",), "wave": 2}
    effects = run(Phase.OPERATOR_PRUEFUNG, E.OPERATOR_SPLIT, data={"children": [CHILD, second]})
    children = {effect.card.slug: effect.card for effect in effects if isinstance(effect, CreateCard)}
    assert children["part-a"].line is not None and children["part-b"].line is None
    assert {child.requester for child in children.values()} == {"lukas"}
    assert {child.kind for child in children.values()} == {Kind.CHILD}


def test_the_ladder_is_climbed_and_ends() -> None:
    ladder = (Rung("gpt-5.6-terra", None, 30),)
    first = step(card(Phase.GEPLANT, ladder=ladder), E.DISPATCH, facts())
    assert jobs(first)[0].snapshot["profile"]["model"] == "gpt-5.6-luna"
    climbed = step(card(Phase.IN_UMSETZUNG, ladder=ladder), E.BUILD_LIMIT, facts(job=job("builder")))
    assert after(climbed) == (Phase.GEPLANT, Status.WAITING_FOR_BUILDER)
    update = next(effect for effect in climbed if isinstance(effect, UpdateCard))
    assert update.values["rung"] == 1 and "line" not in update.values
    second = step(card(Phase.GEPLANT, ladder=ladder, rung=1, attempts={"builder": 1}), E.DISPATCH, facts())
    assert jobs(second)[0].attempt == 2
    assert jobs(second)[0].snapshot["profile"] == {
        "runtime": "codex", "model": "gpt-5.6-terra", "reasoning_effort": None, "iteration_limit": 30,
    }  # fmt: skip
    ended = step(card(Phase.IN_UMSETZUNG, ladder=ladder, rung=1), E.BUILD_LIMIT, facts(job=job("builder")))
    assert after(ended) == (Phase.KLAERUNG_REPARATUR, Status.LIMIT_REACHED)


def test_a_missing_ladder_is_one_flat_retry_and_an_empty_one_is_none() -> None:
    flat = step(card(Phase.IN_UMSETZUNG, ladder=None), E.BUILD_LIMIT, facts(job=job("builder")))
    assert after(flat)[0] is Phase.GEPLANT
    empty = step(card(Phase.IN_UMSETZUNG, ladder=()), E.BUILD_LIMIT, facts(job=job("builder")))
    assert after(empty)[0] is Phase.KLAERUNG_REPARATUR


def test_only_a_limit_climbs_the_ladder() -> None:
    for event in (E.BUILD_TIMEOUT, E.BUILD_FAILED, E.BUILD_CHECK_FAILED):
        effects = run(Phase.IN_UMSETZUNG, event, card={"ladder": (Rung("gpt-5.6-sol", None, 30),)})
        assert after(effects)[0] is Phase.KLAERUNG_REPARATUR
    negative = run(Phase.IN_REVIEW, E.NEGATIVE, card={"ladder": (Rung("gpt-5.6-sol", None, 30),)})
    assert after(negative)[0] is Phase.PLANUNG_MIT_FEEDBACK and not jobs(negative)


@pytest.mark.parametrize(
    ("phase", "event"),
    [
        (Phase.IN_REVIEW, E.NEGATIVE), (Phase.IN_REVIEW, E.REVIEW_INVALID), (Phase.IN_REVIEW, E.APPROVED),
        (Phase.IN_UMSETZUNG, E.BUILD_TIMEOUT), (Phase.IN_UMSETZUNG, E.BUILD_FAILED),
        (Phase.IN_UMSETZUNG, E.BUILD_CHECK_FAILED), (Phase.IN_UMSETZUNG, E.BUILT),
    ],
)  # fmt: skip
@pytest.mark.parametrize("rung", [0, 1])
def test_what_is_no_limit_leaves_a_card_on_its_rung(phase: Phase, event: Event, rung: int) -> None:
    """A repair and the reviews that follow it run with the profile of the build that they are about."""
    ladder = (Rung("gpt-5.6-sol", None, 30), Rung("gpt-6-astra", None, 30))
    for rounds in (0, 1):
        conf = config(repair={"automatic_rounds": rounds})
        effects = run(phase, event, conf=conf, card={"ladder": ladder, "rung": rung})
        updates = [effect for effect in effects if isinstance(effect, UpdateCard)]
        assert updates and all(update.values.get("rung", rung) == rung for update in updates)


def test_an_approval_of_another_commit_approves_nothing() -> None:
    with pytest.raises(Refused, match="the card's commit is"):
        run(Phase.IN_REVIEW, E.APPROVED, data={"commit": OTHER, "report": REPORT})


def test_a_foreign_card_and_a_protected_path_wait_for_the_owner() -> None:
    foreign = run(Phase.IN_REVIEW, E.APPROVED, card={"requester": "eva"})
    assert after(foreign)[0] is Phase.COMMITFREIGABE and not jobs(foreign)
    protected = run(Phase.IN_REVIEW, E.APPROVED, data={"commit": HASH, "report": REPORT, "protected": ["flake.lock"]})
    assert after(protected)[0] is Phase.COMMITFREIGABE
    assert any("flake.lock" in effect.text for effect in protected if isinstance(effect, Notify))
    assert [effect.role for effect in jobs(run(Phase.IN_REVIEW, E.APPROVED))] == ["publish"]


def test_a_second_invalid_review_goes_to_a_person_and_the_first_to_a_fresh_review_with_another_nonce() -> None:
    first = jobs(run(Phase.IN_REVIEW, E.REVIEW_INVALID))
    assert [one.role for one in first] == ["reviewer"] and first[0].snapshot["nonce"] == "n" * 32
    second = run(Phase.IN_REVIEW, E.REVIEW_INVALID, job=job("reviewer", second=True))
    assert after(second) == (Phase.KLAERUNG_REPARATUR, Status.FAILED) and not jobs(second)


def test_a_rebase_needs_a_new_review_and_keeps_a_release_only_for_the_same_patch() -> None:
    data = {"old": HASH, "commit": OTHER, "base": HASH}
    for same, kept in ((True, OTHER), (False, None)):
        effects = run(
            Phase.COMMITFREIGABE,
            E.REBASED,
            card={"released": HASH, "reviewed": HASH},
            data={**data, "same_patch": same},
        )
        update = next(effect for effect in effects if isinstance(effect, UpdateCard))
        assert update.values["reviewed"] is None and update.values["released"] == kept
        assert [one.role for one in jobs(effects)] == ["reviewer"]
    used_up = run(Phase.IN_REVIEW, E.REBASED, card={"publish_rounds": 3})
    assert after(used_up) == (Phase.KLAERUNG_REPARATUR, Status.PUBLISH_FAILED)


@pytest.mark.parametrize("event", [E.RETRY, E.REPLACE, E.REPLAN])
def test_what_is_built_anew_has_all_its_rebases_again(event: Event) -> None:
    effects = run(Phase.KLAERUNG_REPARATUR, event, card={"status": Status.FAILED, "publish_rounds": 3})
    update = next(effect for effect in effects if isinstance(effect, UpdateCard))
    assert update.values["publish_rounds"] == 0


def test_a_release_is_of_the_hash_that_was_looked_at() -> None:
    with pytest.raises(Refused, match="the commit is now"):
        run(Phase.COMMITFREIGABE, E.RELEASE, data={"commit": OTHER})


def test_a_deployment_that_is_not_possible_says_what_would_be() -> None:
    with pytest.raises(Refused, match="belongs to a family; use board deploy house"):
        run(Phase.BEREIT, E.DEPLOY, card={"kind": Kind.CHILD, "parent": "house"})
    with pytest.raises(Refused, match=r"its repository is not; see deploy\.repository"):
        run(Phase.BEREIT, E.DEPLOY, card={"repository": "another"})


def test_gate_commit_is_for_the_owners_own_direct_builds() -> None:
    conf = config(deploy={"gate": "commit"})
    own = run(Phase.IN_UMSETZUNG, E.BUILT, card={"by_hand": True}, conf=conf)
    assert [one.role for one in jobs(own)] == ["publish"]
    for values in ({"by_hand": False}, {"by_hand": True, "requester": "eva"}, {"by_hand": True, "kind": Kind.CHILD}):
        assert [one.role for one in jobs(run(Phase.IN_UMSETZUNG, E.BUILT, card=values, conf=conf))] == ["reviewer"]


def test_a_published_card_is_deployed_by_the_gate() -> None:
    reviewed = {"reviewed": HASH}
    by_review = config(deploy={"gate": "review"})
    assert [one.role for one in jobs(run(Phase.IN_REVIEW, E.PUBLISHED, card=reviewed, conf=by_review))] == ["deploy"]
    assert not jobs(run(Phase.IN_REVIEW, E.PUBLISHED, card=reviewed))
    released = {**reviewed, "released": HASH}
    assert [one.role for one in jobs(run(Phase.IN_REVIEW, E.PUBLISHED, card=released))] == ["deploy"]
    for kind in (Kind.CHILD, Kind.SYNTHESIS):
        assert not jobs(run(Phase.IN_REVIEW, E.PUBLISHED, card={**released, "kind": kind}, conf=by_review))
    unreviewed = run(Phase.IN_REVIEW, E.PUBLISHED, card={"reviewed": OTHER}, conf=by_review)
    assert not jobs(unreviewed)


def test_an_automatic_repair_happens_as_often_as_configured() -> None:
    conf = config(repair={"automatic_rounds": 1})
    first = run(Phase.IN_REVIEW, E.NEGATIVE, conf=conf)
    assert after(first) == (Phase.KLAERUNG_REPARATUR, Status.QUEUED)
    assert [one.role for one in jobs(first)] == ["fixer"]
    second = run(Phase.IN_REVIEW, E.NEGATIVE, conf=conf, card={"automatic_repairs": 1})
    assert after(second)[0] is Phase.PLANUNG_MIT_FEEDBACK and not jobs(second)


def test_the_repair_budget_is_one_for_the_whole_chain() -> None:
    with pytest.raises(Refused, match="budget"):
        run(Phase.KLAERUNG_REPARATUR, E.REPAIR, card={"repairs": 3, "status": Status.CHECK_FAILED})
    with pytest.raises(Refused, match="no commit to repair"):
        run(Phase.KLAERUNG_REPARATUR, E.REPAIR, card={"commit": None, "status": Status.LIMIT_REACHED})


@pytest.mark.parametrize(
    ("status", "to"),
    [
        (Status.PUBLISH_FAILED, (Phase.IN_REVIEW, Status.QUEUED)),
        (Status.DEPLOY_FAILED, (Phase.BEREIT, Status.QUEUED)),
        (Status.LIMIT_REACHED, (Phase.GEPLANT, Status.WAITING_FOR_BUILDER)),
    ],
)
def test_a_retry_goes_on_where_the_card_stopped(status: Status, to: tuple[Phase, Status]) -> None:
    effects = run(Phase.KLAERUNG_REPARATUR, E.RETRY, card={"status": status, "rung": 1, "round": 1})
    assert after(effects) == to


def test_an_answer_begins_a_round_for_the_one_that_asked() -> None:
    asked = {"status": Status.NEEDS_INPUT, "asked_by": "fixer"}
    fixer = run(Phase.KLAERUNG_REPARATUR, E.ANSWER, card=asked)
    assert after(fixer)[1] is Status.QUEUED and [one.role for one in jobs(fixer)] == ["fixer"]
    assert jobs(fixer)[0].round == 2
    assert any(isinstance(effect, Attach) and effect.kind == "answer" for effect in fixer)
    with pytest.raises(Refused, match="asked nothing"):
        run(Phase.KLAERUNG_REPARATUR, E.ANSWER, card={"status": Status.FAILED})


def test_an_inspectors_claim_never_beats_the_record() -> None:
    data = {"evidence": {"deployment_claim": "deployed"}}
    effects = run(Phase.BEREIT, E.INSPECTED, data=data)
    assert any(isinstance(effect, Attach) and effect.kind == "discrepancy" for effect in effects)
    assert after(effects) == (None, None)


def test_a_route_is_applied_by_its_id_in_one_go() -> None:
    route = {"id": 9, "recommendation": "archive", "reason": "old"}
    effects = run(Phase.KLAERUNG_REPARATUR, E.ROUTE_APPLY, actor="lukas", data={"id": 9}, route=route)
    assert after(effects) == (Phase.ARCHIVIERT, Status.CANCELLED)
    assert CloseRoute("sitemap", 9, "applied") in effects
    with pytest.raises(Refused, match="pending recommendation is 9"):
        run(Phase.KLAERUNG_REPARATUR, E.ROUTE_APPLY, actor="lukas", data={"id": 8}, route=route)
    dismissed = run(Phase.KLAERUNG_REPARATUR, E.ROUTE_DISMISS, actor="lukas", data={"id": 9}, route=route)
    assert after(dismissed) == (None, None) and CloseRoute("sitemap", 9, "dismissed") in dismissed


def test_the_synthesis_has_the_union_of_the_scopes_and_the_parent_its_commit() -> None:
    children = tuple(
        replace(
            card(Phase.BEREIT), slug=f"part-{name}", kind=Kind.CHILD, parent="sitemap", write_scope=(name, "shared")
        )
        for name in "ab"
    )
    due = run(Phase.WARTET_AUF_KINDER, E.SYNTHESIS_DUE, children=children, intent="# Intent: Sitemap\n")
    made = next(effect for effect in due if isinstance(effect, CreateCard))
    assert made.card.slug == "sitemap-synthese" and made.card.write_scope == ("a", "shared", "b")
    assert "# Intent: Sitemap" in made.intent
    good = run(Phase.WARTET_AUF_KINDER, E.SYNTHESIS_GOOD)
    update = next(effect for effect in good if isinstance(effect, UpdateCard))
    assert update.values["commit"] == update.values["reviewed"] == HASH


@pytest.mark.parametrize(
    ("phase", "event"),
    [(Phase.STARTFREIGABE, E.DECLINE), (Phase.COMMITFREIGABE, E.DISCARD), (Phase.GEPLANT, E.ARCHIVE)],
)
def test_a_card_that_ends_is_nobodys_work_any_more(phase: Phase, event: Event) -> None:
    assert CancelJobs("sitemap") in run(phase, event)


def test_archiving_a_parent_takes_the_unfinished_children_along() -> None:
    open_child = replace(card(Phase.IN_UMSETZUNG), slug="part-a", parent="sitemap", kind=Kind.CHILD)
    done_child = replace(card(Phase.BEREIT), slug="part-b", parent="sitemap", kind=Kind.CHILD)
    effects = run(Phase.WARTET_AUF_KINDER, E.ARCHIVE, actor="lukas", children=(open_child, done_child))
    assert after(effects, "part-a") == (Phase.ARCHIVIERT, Status.CANCELLED)
    assert after(effects, "part-b") == (None, None)
    assert KeepRef("part-a", HASH) in effects and CancelJobs("part-a") in effects


def test_a_deployment_takes_the_family_and_the_contained_cards_along() -> None:
    child = replace(card(Phase.BEREIT), slug="part-a", parent="sitemap", kind=Kind.CHILD)
    effects = run(Phase.BEREIT, E.DEPLOYED, children=(child,), data={"contained": ["older"]})
    assert after(effects, "part-a")[0] is Phase.DEPLOYED
    assert any(isinstance(effect, Happen) and effect.slug == "older" for effect in effects)


@pytest.mark.parametrize(
    ("role", "phase", "to"),
    [
        ("operator", Phase.OPERATOR_PRUEFUNG, Phase.OPERATOR_KLAERUNG),
        ("builder", Phase.IN_UMSETZUNG, Phase.KLAERUNG_REPARATUR),
        ("publish", Phase.IN_REVIEW, Phase.KLAERUNG_REPARATUR),
        ("fixer", Phase.KLAERUNG_REPARATUR, None),
    ],
)
def test_a_run_that_was_lost_too_often_counts_as_failed(role: str, phase: Phase, to: Phase | None) -> None:
    effects = step(card(phase), E.RUN_LOST, facts(job=job(role)))
    assert after(effects)[0] is to


def test_a_review_is_stored_with_the_commit_it_names() -> None:
    effects = run(Phase.IN_REVIEW, E.APPROVED)
    assert AddReview("sitemap", 7, HASH, "bereit_fuer_deployment", REPORT) in effects


def test_a_lane_that_is_gone_parks_the_card_with_the_reason() -> None:
    effects = run(Phase.GEPLANT, E.DISPATCH, card={"lane": "weg"})
    assert after(effects) == (Phase.KLAERUNG_REPARATUR, Status.FAILED) and not jobs(effects)


def test_a_protected_path_waits_for_the_owner_under_gate_commit_too() -> None:
    raw = example().model_dump(mode="json", exclude_none=True)
    raw["deploy"]["gate"] = "commit"
    raw["repositories"]["nixos-config"]["protected_paths"] = ["secrets"]
    conf = parse(raw)
    own: dict[str, Any] = {"by_hand": True}
    harmless = run(Phase.IN_UMSETZUNG, E.BUILT, card=own, conf=conf, data={**BUILT, "paths": ["docs/a"]})
    assert [one.role for one in jobs(harmless)] == ["publish"]
    touches = {**BUILT, "paths": ["docs/a", "secrets/key"]}
    protected = run(Phase.IN_UMSETZUNG, E.BUILT, card=own, conf=conf, data=touches)
    assert [one.role for one in jobs(protected)] == ["reviewer"]
    approval = {"commit": HASH, "report": REPORT, "protected": ["secrets/key"]}
    assert after(run(Phase.IN_REVIEW, E.APPROVED, card=own, conf=conf, data=approval))[0] is Phase.COMMITFREIGABE
    # Its successor after a rebase is as protected as it was.
    released = {**own, "reviewed": HASH, "released": HASH}
    assert [one.role for one in jobs(run(Phase.IN_REVIEW, E.REBASED, card=released, conf=conf))] == ["reviewer"]
    assert [one.role for one in jobs(run(Phase.IN_REVIEW, E.REBASED, card=own, conf=conf))] == ["publish"]


def test_a_commit_is_released_and_published_once() -> None:
    with pytest.raises(Refused, match="released already"):
        run(Phase.COMMITFREIGABE, E.RELEASE, card={"reviewed": HASH, "released": HASH, "status": Status.QUEUED})


def test_a_failed_publish_of_an_older_commit_does_not_park_its_successor() -> None:
    older = job("publish", commit=OTHER)
    for event in (E.PUBLISH_FAILED, E.RUN_LOST):
        with pytest.raises(Refused, match="by now"):
            run(Phase.IN_REVIEW, event, job=older)


FAMILY = (replace(card(Phase.BEREIT), slug="part-a", parent="sitemap", kind=Kind.CHILD),)


@pytest.mark.parametrize("lane", ["schwer", None])
@pytest.mark.parametrize(
    ("event", "values", "data"),
    [
        (E.RETRY, {"status": Status.FAILED}, {}),
        (E.RETRY, {"status": Status.FAILED}, {"afresh": True}),
        (E.ANSWER, {"status": Status.NEEDS_INPUT, "asked_by": "inspector"}, {"answer": {"text": "yes"}}),
    ],
)
def test_a_parent_is_never_built_beside_its_children(
    event: Event, values: dict[str, Any], data: dict[str, Any], lane: str | None
) -> None:
    parent = {**values, "kind": Kind.PARENT, "lane": lane, "profile": PROFILE if lane else None}
    effects = run(Phase.KLAERUNG_REPARATUR, event, card=parent, data=data, children=FAMILY)
    assert after(effects) == (Phase.WARTET_AUF_KINDER, Status.SUCCEEDED) and not jobs(effects)


@pytest.mark.parametrize("event", [E.REPLACE, E.REPLAN, E.REPAIR, E.SPLIT])
def test_a_parent_with_children_gets_no_second_plan(event: Event) -> None:
    # The synthesis of the first children would be taken for that of the second.
    values = {"kind": Kind.PARENT, "status": Status.DEPLOY_FAILED}
    with pytest.raises(Refused, match=r"has children.*retry.*archive"):
        run(Phase.KLAERUNG_REPARATUR, event, card=values, children=FAMILY)


@pytest.mark.parametrize("event", [E.REPLACE, E.REPLAN, E.RETRY, E.ANSWER, E.ASK_HUMAN, E.SPLIT])
def test_a_persons_word_ends_what_was_under_way(event: Event) -> None:
    assert CancelJobs("sitemap") in run(Phase.KLAERUNG_REPARATUR, event)


def test_a_split_that_comes_after_the_card_went_on_is_stale() -> None:
    data = {"children": [CHILD]}
    for values in ({"status": Status.QUEUED}, {"status": Status.LIMIT_REACHED, "round": 2}):
        with pytest.raises(Refused, match="went on since"):
            run(Phase.KLAERUNG_REPARATUR, E.SPLIT_VALID, card=values, data=data, job=job("planner"))
