"""The phases as a table, and what each event does to a card in one transaction.

`TABLE` is docs/states.md in code: one row a line, in the same order and words.  `step` finds the row of (phase, event)
and answers the effects; a pair that is not in the table is refused.  Nobody else decides on a phase.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from intent_board.board.changes import (
    arrival,
    building,
    deployment,
    families,
    inspection,
    operator,
    parking,
    pieces,
    publishing,
    repair,
    review,
)
from intent_board.board.model import Card, Effect, Facts, Kind, Phase, Record, Refused

G, OP, OK = Phase.GEPLANT, Phase.OPERATOR_PRUEFUNG, Phase.OPERATOR_KLAERUNG
SF, CF = Phase.STARTFREIGABE, Phase.COMMITFREIGABE
IU, IL, IR = Phase.IN_UMSETZUNG, Phase.IN_UMSETZUNG_LEICHT, Phase.IN_REVIEW
KR, PF = Phase.KLAERUNG_REPARATUR, Phase.PLANUNG_MIT_FEEDBACK
WK, DB = Phase.WARTET_AUF_KINDER, Phase.DURCH_KINDER_BLOCKIERT
BD, D, A = Phase.BEREIT, Phase.DEPLOYED, Phase.ARCHIVIERT
ANY_BUT_A = tuple(phase for phase in Phase if phase is not A)


class Event(StrEnum):
    """What can happen to a card."""

    SUBMIT_BY_OWNER = "submit_by_owner"
    SUBMIT_BY_OTHER = "submit_by_other"
    BUILD_BY_HAND = "build_by_hand"
    ACCEPT = "accept"
    DECLINE = "decline"
    OPERATOR_DIRECT = "operator_direct"
    OPERATOR_SPLIT = "operator_split"
    OPERATOR_NEEDS_HUMAN = "operator_needs_human"
    OPERATOR_INVALID = "operator_invalid"
    OPERATOR_FAILED = "operator_failed"
    OPERATOR_LIMIT = "operator_limit"
    OPERATOR_TIMEOUT = "operator_timeout"
    ANSWER = "answer"
    RETRY = "retry"
    REPLACE = "replace"
    READY = "ready"
    DISPATCH = "dispatch"
    BUILT = "built"
    BUILD_LIMIT = "build_limit"
    BUILD_TIMEOUT = "build_timeout"
    BUILD_NEEDS_INPUT = "build_needs_input"
    BUILD_NO_CHANGES = "build_no_changes"
    BUILD_CHECK_FAILED = "build_check_failed"
    BUILD_FAILED = "build_failed"
    APPROVED = "approved"
    NEGATIVE = "negative"
    REVIEW_INVALID = "review_invalid"
    RELEASE = "release"
    DISCARD = "discard"
    PUBLISHED = "published"
    REBASED = "rebased"
    PUBLISH_FAILED = "publish_failed"
    REPAIR = "repair"
    FIX_REPAIRED = "fix_repaired"
    FIX_NEEDS_INPUT = "fix_needs_input"
    FIX_NOT_APPLICABLE = "fix_not_applicable"
    FIX_FAILED = "fix_failed"
    FIX_LIMIT = "fix_limit"
    FIX_TIMEOUT = "fix_timeout"
    INSPECT = "inspect"
    INSPECTED = "inspected"
    ROUTED = "routed"
    INSPECTION_FAILED = "inspection_failed"
    ROUTE_APPLY = "route_apply"
    ROUTE_DISMISS = "route_dismiss"
    REPLAN = "replan"
    ASK_HUMAN = "ask_human"
    SPLIT = "split"
    SPLIT_VALID = "split_valid"
    SPLIT_INVALID = "split_invalid"
    FAMILY_BLOCKED = "family_blocked"
    FAMILY_CLEARED = "family_cleared"
    SYNTHESIS_DUE = "synthesis_due"
    SYNTHESIS_GOOD = "synthesis_good"
    DEPLOY = "deploy"
    DEPLOYED = "deployed"
    DEPLOY_BUSY = "deploy_busy"
    DEPLOY_FAILED = "deploy_failed"
    ARCHIVE = "archive"
    RUN_LOST = "run_lost"
    FAULT = "fault"


E = Event
#: What only the one system user of `[board] owner` may do.
OWNER_ONLY = frozenset(
    {E.BUILD_BY_HAND, E.ACCEPT, E.DECLINE, E.RELEASE, E.DISCARD, E.REPAIR, E.SPLIT}
    | {E.ROUTE_APPLY, E.ROUTE_DISMISS, E.REPLAN, E.ASK_HUMAN, E.DEPLOY, E.ARCHIVE}
)
#: What the owner or the card's own requester may do.
REQUESTER = frozenset({E.ANSWER, E.RETRY, E.REPLACE})


@dataclass(frozen=True, slots=True)
class Row:
    """One line of docs/states.md.  `to` and `status` are what a reader sees; `change` carries the row out."""

    phases: tuple[Phase | None, ...]
    event: Event
    to: str
    status: str
    change: pieces.Change


TABLE: tuple[Row, ...] = (
    Row((None,), E.SUBMIT_BY_OWNER, "OP", "queued", arrival.submit_by_owner),
    Row((None,), E.SUBMIT_BY_OTHER, "SF", "=", arrival.submit_by_other),
    Row((None,), E.BUILD_BY_HAND, "G", "waiting_for_builder", arrival.create_by_hand),
    Row((SF,), E.ACCEPT, "OP", "queued", arrival.to_operator),
    Row((SF,), E.DECLINE, "A", "cancelled", arrival.decline),
    Row((OP,), E.OPERATOR_DIRECT, "G", "waiting_for_builder", operator.direct),
    Row((OP,), E.OPERATOR_SPLIT, "WK", "succeeded", operator.split),
    Row((OP,), E.OPERATOR_NEEDS_HUMAN, "OK", "succeeded", operator.needs_human),
    Row((OP,), E.OPERATOR_INVALID, "OK", "failed", operator.failed("failed")),
    Row((OP,), E.OPERATOR_FAILED, "OK", "failed", operator.failed("failed")),
    Row((OP,), E.OPERATOR_LIMIT, "OK", "limit_reached", operator.failed("limit_reached")),
    Row((OP,), E.OPERATOR_TIMEOUT, "OK", "timed_out", operator.failed("timed_out")),
    Row((OK,), E.ANSWER, "OP", "queued", operator.answer),
    Row((OK,), E.RETRY, "OP", "queued", arrival.to_operator),
    Row((OK, KR, PF), E.REPLACE, "OP", "queued", operator.replan),
    Row((OK,), E.BUILD_BY_HAND, "G", "waiting_for_builder", arrival.build_by_hand),
    Row((G,), E.READY, "G", "=", building.ready),
    Row((G,), E.DISPATCH, "IU", "queued", building.dispatch),
    Row((IU, IL), E.BUILT, "IR", "queued", building.built),
    Row((IU, IL), E.BUILD_LIMIT, "G, KR", "waiting_for_builder, limit_reached", building.limit),
    Row((IU, IL), E.BUILD_TIMEOUT, "KR", "timed_out", building.stopped("timed_out")),
    Row((IU, IL), E.BUILD_NEEDS_INPUT, "KR", "needs_input", building.needs_input("builder")),
    Row((IU, IL), E.BUILD_NO_CHANGES, "KR, IR", "no_changes, queued", building.no_changes),
    Row((IU, IL), E.BUILD_CHECK_FAILED, "KR", "check_failed", building.stopped("check_failed")),
    Row((IU, IL), E.BUILD_FAILED, "KR", "failed", building.stopped("failed")),
    Row((IR,), E.APPROVED, "IR, CF", "queued, succeeded", review.approved),
    Row((IR,), E.NEGATIVE, "PF, KR", "succeeded, queued", review.negative),
    Row((IR,), E.REVIEW_INVALID, "IR, KR", "queued, failed", review.invalid),
    Row((CF,), E.RELEASE, "CF", "queued", publishing.release),
    Row((BD,), E.RELEASE, "BD", "=", publishing.release_deployment),
    Row((CF,), E.DISCARD, "A", "cancelled", publishing.discard),
    Row((IR, CF), E.PUBLISHED, "BD", "succeeded", publishing.published),
    Row((IR, CF), E.REBASED, "IR", "queued", publishing.rebased),
    Row((IR, CF), E.PUBLISH_FAILED, "KR", "publish_failed", publishing.failed),
    Row((KR, PF), E.RETRY, "G, IR, BD, WK", "waiting_for_builder, queued, succeeded", repair.retry),
    Row((KR,), E.ANSWER, "G, KR, WK", "waiting_for_builder, queued, succeeded", repair.answer_worker),
    Row((KR, PF), E.REPAIR, "KR", "queued", repair.repair),
    Row((KR,), E.FIX_REPAIRED, "IR", "queued", repair.repaired),
    Row((KR,), E.FIX_NEEDS_INPUT, "KR", "needs_input", building.needs_input("fixer")),
    Row((KR,), E.FIX_NOT_APPLICABLE, "KR", "not_applicable", repair.stopped("not_applicable")),
    Row((KR,), E.FIX_FAILED, "KR", "failed", repair.stopped("failed")),
    Row((KR,), E.FIX_LIMIT, "KR", "limit_reached", repair.stopped("limit_reached")),
    Row((KR,), E.FIX_TIMEOUT, "KR", "timed_out", repair.stopped("timed_out")),
    Row(ANY_BUT_A, E.INSPECT, "=", "=", inspection.inspect),
    Row(ANY_BUT_A, E.INSPECTED, "=", "=", inspection.inspected),
    Row(ANY_BUT_A, E.ROUTED, "=", "=", inspection.routed),
    Row(ANY_BUT_A, E.INSPECTION_FAILED, "=", "=", pieces.nothing),
    Row((KR, PF, OK), E.REPLAN, "OP", "queued", operator.replan),
    Row((KR, PF), E.ASK_HUMAN, "KR", "needs_input", building.needs_input("inspector")),
    Row((KR,), E.SPLIT, "KR", "=", families.split),
    Row((KR,), E.SPLIT_VALID, "WK", "succeeded", families.split_valid),
    Row((KR,), E.SPLIT_INVALID, "KR", "=", families.split_invalid),
    Row((WK, DB), E.FAMILY_BLOCKED, "DB", "=", families.blocked),
    Row((DB,), E.FAMILY_CLEARED, "WK", "=", families.cleared),
    Row((WK,), E.SYNTHESIS_DUE, "WK", "=", families.synthesis_due),
    Row((WK,), E.SYNTHESIS_GOOD, "BD", "succeeded", families.synthesis_good),
    Row((BD,), E.DEPLOY, "BD", "queued", deployment.deploy),
    Row((BD,), E.DEPLOYED, "D", "succeeded", deployment.deployed),
    Row((BD,), E.DEPLOY_BUSY, "BD", "queued", deployment.busy),
    Row((BD,), E.DEPLOY_FAILED, "KR", "deploy_failed", deployment.failed),
    Row(ANY_BUT_A, E.ARCHIVE, "A", "cancelled, =", parking.archive),
    Row((G, IU, IL, IR, CF, KR, PF, WK, DB), E.FAULT, "KR", "failed", parking.fault),
    Row((OP, OK), E.FAULT, "OK", "failed", operator.failed("failed")),
)
_ROWS = {(phase, row.event): row for row in TABLE for phase in row.phases}

#: docs/states.md (c): what a run that was interrupted too often counts as, by the role of its job.
_LOST = {
    "operator": E.OPERATOR_FAILED,
    "builder": E.BUILD_FAILED,
    "reviewer": E.REVIEW_INVALID,
    "publish": E.PUBLISH_FAILED,
    "fixer": E.FIX_FAILED,
    "inspector": E.INSPECTION_FAILED,
    "planner": E.SPLIT_INVALID,
    "deploy": E.DEPLOY_FAILED,
}
#: Applying a recommendation is applying one of these to the card, in the same transaction.
_ROUTES = {
    "retry_builder": E.RETRY,
    "repair": E.REPAIR,
    "replan": E.REPLAN,
    "split": E.SPLIT,
    "ask_human": E.ASK_HUMAN,
    "archive": E.ARCHIVE,
    "nothing": None,
}


def step(card: Card | None, event: Event, facts: Facts) -> list[Effect]:
    """What an event does to a card: the effects of its row, and a line of the audit.

    `card` is None for a card that does not exist yet; its values come in `facts.data`.  Raises Refused, in one
    sentence, when the actor may not do this, when (phase, event) is not in the table, or when the row's own
    condition does not hold.  Nothing is applied here.
    """
    if card is not None:
        _allowed(card, event, facts)
    else:
        _may_create(event, facts)
    if event is E.RUN_LOST and facts.job is not None:
        event = _LOST[facts.job.role]
    if event in (E.ROUTE_APPLY, E.ROUTE_DISMISS) and card is not None:
        return _route(card, event, facts)
    row = _ROWS.get((card.phase if card else None, event))
    if row is None:
        raise Refused(_no_row(card, event))
    subject = card if card is not None else arrival.new_card(facts)
    effects = row.change(subject, facts)
    audit = {key: value for key, value in facts.data.items() if key not in pieces.NOT_FOR_THE_AUDIT}
    return [*effects, Record(subject.slug, event, facts.actor, audit)]


def events_for(phase: Phase | None) -> Iterator[Event]:
    """The events that have a row for this phase, in the table's order."""
    return (row.event for row in TABLE if phase in row.phases)


def _allowed(card: Card, event: Event, facts: Facts) -> None:
    owner = facts.config.board.owner
    if facts.actor in (owner, pieces.TRUSTED):
        return
    if event in OWNER_ONLY:
        raise Refused(f"{card.slug}: only the owner ({owner}) may {event}; {facts.actor} may not")
    if event in REQUESTER and facts.actor != card.requester:
        raise Refused(f"{card.slug}: only {owner} or the requester ({card.requester}) may {event}; ask one of them")


def _may_create(event: Event, facts: Facts) -> None:
    """Somebody else's card begins where it waits for the owner, whatever a caller says."""
    owner = facts.config.board.owner
    if event in (E.SUBMIT_BY_OWNER, E.BUILD_BY_HAND) and facts.actor not in (owner, pieces.TRUSTED):
        raise Refused(f"only the owner ({owner}) may {event}; what {facts.actor} hands over waits for the owner's word")


def _route(card: Card, event: Event, facts: Facts) -> list[Effect]:
    """A person's word on a recommendation, by its id: a newer one makes the older unappliable."""
    wanted, route = facts.data.get("id"), facts.route
    if route is None:
        raise Refused(f"{card.slug}: no recommendation is pending; ask for one with board inspect --route {card.slug}")
    if wanted != route["id"]:
        raise Refused(f"{card.slug}: the pending recommendation is {route['id']}, not {wanted}; look at board show")
    close = inspection.close_route(card, route, "dismissed" if event is E.ROUTE_DISMISS else "applied")
    target = _ROUTES[route["recommendation"]] if event is E.ROUTE_APPLY else None
    if target is None:
        return [close, Record(card.slug, event, facts.actor, {"id": wanted})]
    return [
        close,
        *step(card, target, inspection.with_route(facts, route)),
        Record(card.slug, event, facts.actor, {"id": wanted}),
    ]


def _no_row(card: Card | None, event: Event) -> str:
    if card is None:
        return f"there is no such card, so {event} can't happen to it; see board list"
    if card.phase is D:
        return f"{card.slug}: is deployed; only inspect and archive are possible now, so {event} is refused"
    if card.phase is A:
        return f"{card.slug}: is archived, which is final, so {event} is refused; submit a new intent"
    if card.kind in (Kind.CHILD, Kind.SYNTHESIS) and event in (E.REPLACE, E.REPLAN):
        return f"{card.slug}: belongs to {card.parent}, so it never goes to the Operator; use retry or repair"
    return f"{card.slug}: {event} is not possible in phase {card.phase}; board why {card.slug} says what is"
