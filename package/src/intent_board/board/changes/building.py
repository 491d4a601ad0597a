"""From the place in line to a commit: dispatch, and how a build ends."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from intent_board.board import ladder
from intent_board.board.changes.parking import fault
from intent_board.board.changes.pieces import (
    Change,
    attach,
    evidence_order,
    next_job,
    reason_of,
    review_job,
    update,
    with_reason,
)
from intent_board.board.model import NEXT_LINE, CancelJobs, Card, Effect, Facts, Kind, Notify, Phase, Status
from intent_board.config import BoardConfig
from intent_board.contracts.scope import matches


def ready(card: Card, facts: Facts) -> list[Effect]:
    """The dependencies are good: the card takes its place in line."""
    return [update(card, line=NEXT_LINE)]


def dispatch(card: Card, facts: Facts) -> list[Effect]:
    lane = facts.config.lanes.get(card.lane or "")
    if lane is None or card.lane is None:
        return fault(card, with_reason(facts, f"lane {card.lane!r} is not configured any more"))
    profile = ladder.profile_of_attempt(card)
    snapshot = {"profile": asdict(profile), "rung": card.rung, "lane": card.lane}
    return [
        update(card, Phase(lane.phase), Status.QUEUED, reason=""),
        next_job(card, "builder", facts.config.lane_queue(card.lane), snapshot),
    ]


def built(card: Card, facts: Facts) -> list[Effect]:
    """Row IU done: in scope, and the checks of the commit came out 0; trusted code has seen both."""
    commit, base = facts.data["commit"], facts.data["base"]
    values = {"commit": commit, "base": base, "branch": facts.data["branch"], "reviewed": None, "released": None}
    if needs_no_review(card, facts.config) and not _protected(card, facts):
        publish = next_job(card, "publish", "publish", {"commit": commit, "base": base})
        return [update(card, Phase.IN_REVIEW, Status.QUEUED, **values), publish]
    snapshot = evidence_order(facts)
    return [update(card, Phase.IN_REVIEW, Status.QUEUED, **values), review_job(card, facts, snapshot)]


def needs_no_review(card: Card, config: BoardConfig) -> bool:
    """Gate `commit` is for the owner's own direct builds alone."""
    own = card.by_hand and card.requester == config.board.owner and card.kind is Kind.ORDINARY
    return config.deploy.gate == "commit" and own


def _protected(card: Card, facts: Facts) -> bool:
    """Whether the commit touches a path that waits for the owner's release, whoever owns the card: such a commit goes
    by the review to its gate, also where gate `commit` would have published it at once."""
    repository = facts.config.repositories.get(card.repository)
    patterns = repository.protected_paths if repository else ()
    return any(matches(patterns, path) for path in facts.data.get("paths") or ())


def limit(card: Card, facts: Facts) -> list[Effect]:
    report = attach(card, facts, "interim_report", "report")
    reason = reason_of(facts, "the iteration limit was reached")
    if card.rung < len(ladder.rungs(card)):
        # The place in line is kept: a card on its ladder does not start to wait anew.
        return [*report, update(card, Phase.GEPLANT, Status.WAITING_FOR_BUILDER, rung=card.rung + 1, reason=reason)]
    return [
        *report,
        update(card, Phase.KLAERUNG_REPARATUR, Status.LIMIT_REACHED, reason=reason),
        Notify("limit_reached", card.slug, f"{card.title}: {reason}, and no further attempt is left"),
        *_automatic_split(card, facts),
    ]


def _automatic_split(card: Card, facts: Facts) -> list[Effect]:
    if not facts.config.split.automatic or card.parent is not None:
        return []
    return [next_job(card, "planner", "split", {})]


def stopped(status: str) -> Change:
    """Rows IU: wall clock, outside scope, check, secret, invalid answer, agent failed."""

    def change(card: Card, facts: Facts) -> list[Effect]:
        reason = reason_of(facts, f"the build ended as {status}")
        values: dict[str, Any] = {"reason": reason}
        if facts.data.get("commit"):  # a commit whose checks failed: what a Fixer would start from
            values |= {key: facts.data.get(key) for key in ("commit", "base", "branch")}
        return [
            *attach(card, facts, "interim_report", "report"),
            *attach(card, facts, "findings", "findings"),
            update(card, Phase.KLAERUNG_REPARATUR, Status(status), **values),
            Notify("failed", card.slug, f"{card.title}: {reason}"),
        ]

    return change


def needs_input(asked_by: str) -> Change:
    """A question of a Builder, a Fixer, or (route ask_human) an Inspector."""

    def change(card: Card, facts: Facts) -> list[Effect]:
        question = str(facts.data["question"])
        action = facts.data.get("required_action")
        # An Inspector's question may come while a repair is under way, which then waits for the answer too.
        stop: list[Effect] = [CancelJobs(card.slug)] if asked_by == "inspector" else []
        return [
            *stop,
            update(
                card,
                Phase.KLAERUNG_REPARATUR,
                Status.NEEDS_INPUT,
                question=question,
                asked_by=asked_by,
                human_action=action,
                reason=f"the {asked_by} asks: {question}",
            ),
            Notify("question", card.slug, f"{card.title}: the {asked_by} asks: {question}"),
            Notify("question", card.slug, f"{card.title}: the {asked_by} asks: {question}", to_requester=True),
        ]

    return change


def no_changes(card: Card, facts: Facts) -> list[Effect]:
    if card.kind is not Kind.SYNTHESIS:
        return stopped("no_changes")(card, with_reason(facts, reason_of(facts, "the Builder changed nothing")))
    # A synthesis without a change reviews the branch as the children left it; that hash is its commit.
    return built(card, facts)
