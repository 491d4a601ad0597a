"""Cards that go no further by themselves: archived, or parked by a fault."""

from __future__ import annotations

from intent_board.board.changes.pieces import reason_of, update
from intent_board.board.model import (
    BUILDING,
    FINAL,
    SUCCESS,
    CancelJobs,
    Card,
    Effect,
    Facts,
    KeepRef,
    Notify,
    Phase,
    Status,
)


def archive(card: Card, facts: Facts) -> list[Effect]:
    """Final; the slug stays taken.  A parent takes its unfinished children along."""
    reason = reason_of(facts, f"archived by {facts.actor}")
    unfinished = [child for child in facts.children if child.phase not in SUCCESS | FINAL]
    along = [effect for child in unfinished for effect in _archive_one(child, f"archived with {card.slug}")]
    return [*_archive_one(card, reason), *along]


def _archive_one(card: Card, reason: str) -> list[Effect]:
    status = card.status if card.phase in SUCCESS else Status.CANCELLED
    unfinished = card.phase not in SUCCESS
    started = card.commit is not None or card.phase in BUILDING or card.attempts.get("builder", 0) > 0
    keep: list[Effect] = [KeepRef(card.slug, card.commit)] if unfinished and started else []
    return [CancelJobs(card.slug), *keep, update(card, Phase.ARCHIVIERT, status, reason=reason, line=None)]


def fault(card: Card, facts: Facts) -> list[Effect]:
    """Something that belongs to this card alone can't be read or is gone: it is parked with the reason."""
    reason = reason_of(facts, "something this card needs can't be read")
    return [
        CancelJobs(card.slug),
        update(card, Phase.KLAERUNG_REPARATUR, Status.FAILED, reason=reason),
        Notify("failed", card.slug, f"{card.title}: {reason}"),
    ]
