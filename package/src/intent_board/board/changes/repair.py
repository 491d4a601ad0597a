"""What a person does with a parked card: retry, answer, repair; and how a repair ends."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from intent_board.board.changes.pieces import (
    Change,
    attach,
    card_snapshot,
    evidence_order,
    job_snapshot,
    next_job,
    no_family,
    publish_job,
    reason_of,
    repair_job,
    review_job,
    update,
)
from intent_board.board.model import (
    NEXT_LINE,
    Attach,
    CancelJobs,
    Card,
    Effect,
    Facts,
    KeepRef,
    Notify,
    Phase,
    Refused,
    Status,
)


def retry(card: Card, facts: Facts) -> list[Effect]:
    """A new round: the whole ladder again, reports and findings attached to the next order.

    `afresh`: the work so far is kept as a ref and given up, as after a conflict with the branch.
    """
    if facts.data.get("afresh"):
        keep: list[Effect] = [KeepRef(card.slug, card.commit)] if card.commit else []
        note = Attach(card.slug, "notes", {"afresh": card.round + 1})
        return [
            CancelJobs(card.slug),
            *keep,
            note,
            *_new_round(card, facts, commit=None, base=None, reviewed=None, released=None),
        ]
    if card.status is Status.PUBLISH_FAILED:
        return [
            CancelJobs(card.slug),
            update(card, Phase.IN_REVIEW, Status.QUEUED, publish_rounds=0, reason=""),
            publish_job(card, card_snapshot(card)),
        ]
    if card.status is Status.DEPLOY_FAILED:
        return [
            update(card, Phase.BEREIT, Status.QUEUED, reason=""),
            next_job(card, "deploy", "deploy", {"commit": card.commit}),
        ]
    return [CancelJobs(card.slug), *_new_round(card, facts)]


def _new_round(card: Card, facts: Facts, **more: Any) -> list[Effect]:
    values: dict[str, Any] = {**more, "round": card.round + 1, "rung": 0, "publish_rounds": 0, "line": NEXT_LINE}
    values |= {"reason": "", "question": None, "asked_by": None, "human_action": None}
    if facts.children:
        # Its children are the work: a parent is looked at again, and never built beside them.
        return [update(card, Phase.WARTET_AUF_KINDER, Status.SUCCEEDED, **{**values, "line": None})]
    if card.lane is None or card.profile is None:
        raise Refused(f"{card.slug}: never had a lane; use board build {card.slug} or board submit --replace")
    return [update(card, Phase.GEPLANT, Status.WAITING_FOR_BUILDER, **values)]


def answer_worker(card: Card, facts: Facts) -> list[Effect]:
    """Row KR needs_input: a new session with the answer as untrusted text, limits afresh."""
    if card.status is not Status.NEEDS_INPUT:
        raise Refused(f"{card.slug}: asked nothing (status {card.status}); see board why {card.slug}")
    # Nothing that was begun before the question may go on beside what the answer begins.
    answer = [CancelJobs(card.slug), *attach(card, facts, "answer", "answer")]
    if card.asked_by != "fixer":
        return [*answer, *_new_round(card, facts)]
    values: dict[str, Any] = {
        "round": card.round + 1,
        "question": None,
        "asked_by": None,
        "human_action": None,
        "reason": "",
    }
    return [
        *answer,
        update(card, status=Status.QUEUED, **values),
        repair_job(replace(card, round=card.round + 1), card_snapshot(card)),
    ]


def repair(card: Card, facts: Facts) -> list[Effect]:
    """Only for a proved defect or a negative review, and only as often as the budget says."""
    no_family(card, facts, "repaired")
    if card.commit is None:
        raise Refused(f"{card.slug}: there is no commit to repair; use board retry {card.slug}")
    if card.status is Status.QUEUED or card.status is Status.RUNNING:
        raise Refused(f"{card.slug}: a repair is under way; wait for it, see board why {card.slug}")
    if card.status in (Status.DEPLOY_FAILED, Status.PUBLISH_FAILED):
        raise Refused(f"{card.slug}: its commit was approved, so there is no defect to repair; use board retry")
    if card.repairs >= facts.config.repair.budget:
        budget = facts.config.repair.budget
        raise Refused(f"{card.slug}: the repair budget ({budget}) is used up; use board retry or submit --replace")
    return [
        *attach(card, facts, "findings", "findings"),
        update(card, Phase.KLAERUNG_REPARATUR, Status.QUEUED, repairs=card.repairs + 1, reason=""),
        repair_job(card, card_snapshot(card)),
    ]


def repaired(card: Card, facts: Facts) -> list[Effect]:
    values = {"commit": facts.data["commit"], "base": facts.data["base"], "reviewed": None, "released": None}
    snapshot = {**job_snapshot(facts), **evidence_order(facts)}
    return [
        update(card, Phase.IN_REVIEW, Status.QUEUED, reason="", **values),
        review_job(card, facts, snapshot),
    ]


def stopped(status: str) -> Change:
    def change(card: Card, facts: Facts) -> list[Effect]:
        reason = reason_of(facts, f"the repair ended as {status}")
        return [
            *attach(card, facts, "interim_report", "report"),
            update(card, status=Status(status), reason=reason),
            Notify("failed", card.slug, f"{card.title}: {reason}"),
        ]

    return change
