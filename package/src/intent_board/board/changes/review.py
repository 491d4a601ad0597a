"""How a review of the card's commit ends."""

from __future__ import annotations

from typing import Any

from intent_board.board.changes.pieces import (
    job_snapshot,
    publish_job,
    reason_of,
    repair_job,
    review_job,
    same_commit,
    update,
)
from intent_board.board.model import AddReview, Card, Effect, Facts, Notify, Phase, Status


def approved(card: Card, facts: Facts) -> list[Effect]:
    commit = same_commit(card, facts)
    job_id = facts.job.id if facts.job else 0
    review = AddReview(card.slug, job_id, commit, "bereit_fuer_deployment", facts.data["report"])
    protected = tuple(facts.data.get("protected") or ())
    foreign = card.requester != facts.config.board.owner
    if (foreign or protected) and card.released != commit:
        why = "touches protected paths: " + ", ".join(protected) if protected else f"was asked for by {card.requester}"
        text = f"{card.title}: approved, {why}. board release {card.slug} or board discard {card.slug}"
        reason = f"waits for the owner's release: the commit {why}"
        return [
            review,
            update(card, Phase.COMMITFREIGABE, Status.SUCCEEDED, reviewed=commit, reason=reason),
            Notify("approval_wanted", card.slug, text),
        ]
    return [
        review,
        update(card, Phase.IN_REVIEW, Status.QUEUED, reviewed=commit, reason=""),
        publish_job(card, job_snapshot(facts)),
    ]


def negative(card: Card, facts: Facts) -> list[Effect]:
    commit = same_commit(card, facts)
    job_id = facts.job.id if facts.job else 0
    review = AddReview(card.slug, job_id, commit, "planung_mit_feedback", facts.data["report"])
    reason = reason_of(facts, "the review was negative")
    left = card.automatic_repairs < facts.config.repair.automatic_rounds and card.repairs < facts.config.repair.budget
    phase, status = (
        (Phase.KLAERUNG_REPARATUR, Status.QUEUED) if left else (Phase.PLANUNG_MIT_FEEDBACK, Status.SUCCEEDED)
    )
    values: dict[str, Any] = {"reviewed": None, "reason": reason}
    if left:
        values |= {"repairs": card.repairs + 1, "automatic_repairs": card.automatic_repairs + 1}
    return [
        review,
        update(card, phase, status, **values),
        Notify("negative_review", card.slug, f"{card.title}: {reason}"),
        *([repair_job(card, job_snapshot(facts))] if left else []),
    ]


def invalid(card: Card, facts: Facts) -> list[Effect]:
    """A missing, invalid or void review approves nothing: one fresh review, then a person."""
    reason = reason_of(facts, "there is no valid review")
    snapshot = job_snapshot(facts)
    if not snapshot.get("second"):
        return [update(card, reason=reason), review_job(card, facts, {**snapshot, "second": True})]
    return [
        update(card, Phase.KLAERUNG_REPARATUR, Status.FAILED, reason=f"not approved twice: {reason}"),
        Notify("failed", card.slug, f"{card.title}: no valid review after two tries: {reason}"),
    ]
