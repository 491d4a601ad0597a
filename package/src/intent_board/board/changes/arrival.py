"""A card comes to the board, and to its Operator."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from intent_board.board import ladder
from intent_board.board.changes.pieces import next_job, no_relative, reason_of, update
from intent_board.board.model import (
    NEXT_LINE,
    CancelJobs,
    Card,
    CreateCard,
    Effect,
    Facts,
    Notify,
    Phase,
    Refused,
    Status,
)


def new_card(facts: Facts) -> Card:
    """A card that does not exist yet.

    `facts.data` holds `slug, title, repository, requester, acceptance_criteria, warnings` of the intent, and the
    submitter's wishes `lane, iterations, write_scope` where there are any.
    """
    data = facts.data
    return Card(
        slug=data["slug"],
        title=data["title"],
        repository=data["repository"],
        requester=data["requester"],
        phase=Phase.OPERATOR_PRUEFUNG,
        status=Status.QUEUED,
        lane=data.get("lane"),
        iterations=data.get("iterations"),
        write_scope=tuple(data.get("write_scope") or ()),
        acceptance_criteria=tuple(data.get("acceptance_criteria") or ()),
        branch=facts.config.repositories[data["repository"]].branch,
        warnings=tuple(data.get("warnings") or ()),
    )


def submit_by_owner(card: Card, facts: Facts) -> list[Effect]:
    return [CreateCard(card, facts.intent), next_job(card, "operator", "operator", {})]


def submit_by_other(card: Card, facts: Facts) -> list[Effect]:
    waiting = replace(card, phase=Phase.STARTFREIGABE, status=Status.QUEUED)
    text = f"{card.requester} asks for: {card.title}. board accept {card.slug} or board decline {card.slug}"
    return [CreateCard(waiting, facts.intent), Notify("approval_wanted", card.slug, text)]


def _by_hand(card: Card, facts: Facts) -> dict[str, Any]:
    lane = facts.data.get("lane") or card.lane or next(iter(facts.config.lanes))
    if lane not in facts.config.lanes:
        raise Refused(f"{card.slug}: there is no lane {lane!r}; use one of: {', '.join(facts.config.lanes)}")
    profile = ladder.lane_profile(facts.config, lane, facts.data.get("iterations") or card.iterations)
    return {"lane": lane, "profile": profile, "ladder": None, "rung": 0, "line": NEXT_LINE, "by_hand": True}


def create_by_hand(card: Card, facts: Facts) -> list[Effect]:
    card = replace(card, phase=Phase.GEPLANT, status=Status.WAITING_FOR_BUILDER)
    return [CreateCard(replace(card, **_by_hand(card, facts)), facts.intent)]


def build_by_hand(card: Card, facts: Facts) -> list[Effect]:
    values = _by_hand(card, facts)
    return [update(card, Phase.GEPLANT, Status.WAITING_FOR_BUILDER, reason="", human_action=None, **values)]


def to_operator(card: Card, facts: Facts) -> list[Effect]:
    no_relative(card, "sent to the Operator")
    return [
        update(card, Phase.OPERATOR_PRUEFUNG, Status.QUEUED, reason="", human_action=None, question=None),
        next_job(card, "operator", "operator", {}),
    ]


def decline(card: Card, facts: Facts) -> list[Effect]:
    reason = reason_of(facts, f"declined by {facts.actor}")
    text = f"{card.title}: declined. {reason}"
    return [
        CancelJobs(card.slug),  # an Inspector may look at it already
        update(card, Phase.ARCHIVIERT, Status.CANCELLED, reason=reason),
        Notify("approval_wanted", card.slug, text, to_requester=True),
    ]
