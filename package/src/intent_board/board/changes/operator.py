"""The Operator's answer, and what a person says to it."""

from __future__ import annotations

from typing import Any

from intent_board.board import ladder
from intent_board.board.changes.arrival import to_operator
from intent_board.board.changes.families import become_parent, new_child
from intent_board.board.changes.pieces import (
    Change,
    attach,
    next_job,
    no_family,
    no_relative,
    reason_of,
    update,
    with_reason,
)
from intent_board.board.model import (
    NEXT_LINE,
    CancelJobs,
    Card,
    Effect,
    Facts,
    Kind,
    Notify,
    Phase,
    ReplaceIntent,
    Status,
)


def direct(card: Card, facts: Facts) -> list[Effect]:
    lane = facts.data["lane"]
    if lane not in facts.config.lanes:
        return failed("failed")(card, with_reason(facts, f"there is no lane {lane!r} any more"))
    values = {
        "lane": lane,
        "profile": ladder.lane_profile(facts.config, lane, card.iterations),
        "ladder": ladder.decided(facts.data.get("escalation")),
        "rung": 0,
        "line": NEXT_LINE,
        "reason": reason_of(facts, ""),
    }
    return [update(card, Phase.GEPLANT, Status.WAITING_FOR_BUILDER, **values)]


def split(card: Card, facts: Facts) -> list[Effect]:
    """All or nothing: a slug that is taken makes the answer invalid, and no child exists."""
    if card.parent is not None:
        reason = f"the card belongs to {card.parent} and is never split"
        return failed("failed")(card, with_reason(facts, reason))
    if facts.taken:
        reason = "the answer names slugs that are taken: " + ", ".join(sorted(facts.taken))
        return failed("failed")(card, with_reason(facts, reason))
    children = [new_child(card, facts, child) for child in facts.data["children"]]
    return [*become_parent(card, facts), *children]


def needs_human(card: Card, facts: Facts) -> list[Effect]:
    action = str(facts.data["human_action"])
    return [
        update(
            card,
            Phase.OPERATOR_KLAERUNG,
            Status.SUCCEEDED,
            reason=reason_of(facts, ""),
            human_action=action,
            asked_by="operator",
        ),
        Notify("needs_human", card.slug, f"{card.title}: {action}"),
    ]


def failed(status: str) -> Change:
    """Row OP: nothing was created; a person looks.  There is no ladder for the Operator."""

    def change(card: Card, facts: Facts) -> list[Effect]:
        reason = reason_of(facts, "the Operator's run came to nothing")
        action = f"read board show {card.slug}, then board retry {card.slug}"
        return [
            update(card, Phase.OPERATOR_KLAERUNG, Status(status), reason=reason, human_action=action, asked_by=None),
            Notify("needs_human", card.slug, f"{card.title}: {reason}"),
        ]

    return change


def answer(card: Card, facts: Facts) -> list[Effect]:
    return [*attach(card, facts, "answer", "answer"), *to_operator(card, facts)]


def replan(card: Card, facts: Facts) -> list[Effect]:
    """Row: submit --replace, or route replan applied: a new Operator job, with the findings attached."""
    no_relative(card, "sent to the Operator")
    no_family(card, facts, "sent to the Operator again")
    values: dict[str, Any] = {"rung": 0, "round": card.round + 1, "publish_rounds": 0, "line": None, "by_hand": False}
    values |= {"kind": Kind.ORDINARY}
    values |= {"reason": "", "human_action": None, "question": None, "asked_by": None}
    if facts.data.get("title"):
        values |= {
            "title": facts.data["title"],
            "acceptance_criteria": tuple(facts.data.get("acceptance_criteria") or ()),
        }
    return [
        # A job of the plan that is given up must not end in the next one.
        CancelJobs(card.slug),
        *attach(card, facts, "findings", "findings"),
        *([ReplaceIntent(card.slug, facts.data["intent"])] if facts.data.get("intent") else []),
        update(card, Phase.OPERATOR_PRUEFUNG, Status.QUEUED, **values),
        next_job(card, "operator", "operator", {}, round=card.round + 1),
    ]
