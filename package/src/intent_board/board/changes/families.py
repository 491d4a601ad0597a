"""Splitting a card, its children, and the synthesis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from intent_board.board import ladder
from intent_board.board.changes.deployment import deploy_jobs
from intent_board.board.changes.pieces import next_job, no_family, no_relative, reason_of, update, with_reason
from intent_board.board.model import (
    NEXT_LINE,
    Attach,
    CancelJobs,
    Card,
    CreateCard,
    Effect,
    Facts,
    Kind,
    Notify,
    Phase,
    Refused,
    Status,
)


def become_parent(card: Card, facts: Facts) -> list[Effect]:
    """The split card waits for its children from now on."""
    reason = reason_of(facts, "")
    return [update(card, Phase.WARTET_AUF_KINDER, Status.SUCCEEDED, kind=Kind.PARENT, reason=reason, line=None)]


def new_child(parent: Card, facts: Facts, data: Mapping[str, Any]) -> CreateCard:
    """A child as the Operator or the Planner described it; without dependencies it stands in line at once."""
    blocked_by = tuple(data.get("blocked_by") or ())
    card = _member(
        parent,
        facts,
        Kind.CHILD,
        lane=data["lane"],
        slug=data["slug"],
        title=data["title"],
        ladder=ladder.decided(data.get("escalation")),
        line=None if blocked_by else NEXT_LINE,
        wave=data.get("wave"),
        blocked_by=blocked_by,
        write_scope=tuple(data["write_scope"]),
        acceptance_criteria=tuple(data["acceptance_criteria"]),
        branch=parent.branch,
        warnings=tuple(data.get("warnings") or ()),
    )
    return CreateCard(card, data["intent"])


def _member(parent: Card, facts: Facts, kind: Kind, *, lane: str, **own: Any) -> Card:
    """A new card of the family, which waits for its Builder; repository and requester are the parent's."""
    return Card(
        repository=parent.repository,
        requester=parent.requester,
        phase=Phase.GEPLANT,
        status=Status.WAITING_FOR_BUILDER,
        kind=kind,
        parent=parent.slug,
        lane=lane,
        profile=ladder.lane_profile(facts.config, lane),
        **own,
    )


def split(card: Card, facts: Facts) -> list[Effect]:
    no_relative(card, "split")
    no_family(card, facts, "split")
    if card.status is not Status.LIMIT_REACHED:
        raise Refused(f"{card.slug}: only a card that ran into its limit is split; its status is {card.status}")
    return [CancelJobs(card.slug), next_job(card, "planner", "split", {})]


def split_valid(card: Card, facts: Facts) -> list[Effect]:
    """The Planner's children take the card's lane and scope; the apply path is the Operator's."""
    no_relative(card, "split")
    if card.status is not Status.LIMIT_REACHED or (facts.job is not None and facts.job.round != card.round):
        raise Refused(f"{card.slug}: went on since the split was asked for (status {card.status}), so it is not split")
    if facts.taken:
        reason = "the answer names slugs that are taken: " + ", ".join(sorted(facts.taken))
        return split_invalid(card, with_reason(facts, reason))
    common = {"lane": card.lane, "write_scope": card.write_scope or (".",), "blocked_by": (), "wave": 1}
    children = [new_child(card, facts, {**child, **common}) for child in facts.data["children"]]
    return [*become_parent(card, facts), *children]


def split_invalid(card: Card, facts: Facts) -> list[Effect]:
    reason = reason_of(facts, "the split came to nothing")
    return [Attach(card.slug, "notes", {"split": reason}), Notify("failed", card.slug, f"{card.title}: {reason}")]


def blocked(card: Card, facts: Facts) -> list[Effect]:
    blocking = facts.data["blocking"]
    reason = "blocked by " + "; ".join(f"{one['slug']} ({one['why']})" for one in blocking)
    return [
        update(card, Phase.DURCH_KINDER_BLOCKIERT, reason=reason),
        Notify("blocked", card.slug, f"{card.title}: {reason}"),
    ]


def cleared(card: Card, facts: Facts) -> list[Effect]:
    return [update(card, Phase.WARTET_AUF_KINDER, reason="")]


def synthesis_due(card: Card, facts: Facts) -> list[Effect]:
    """All children are good and on the branch: a card that proves that together they do what the parent asked."""
    children = [child for child in facts.children if child.kind is Kind.CHILD]
    criteria = card.acceptance_criteria or [f"{child.title}: what it promised still holds" for child in children]
    synthesis = _member(
        card,
        facts,
        Kind.SYNTHESIS,
        lane=facts.config.scheduler.synthesis_lane,
        slug=f"{card.slug}-synthese",
        title=f"Synthese: {card.title}",
        line=NEXT_LINE,
        write_scope=tuple(dict.fromkeys(path for child in children for path in child.write_scope)),
        acceptance_criteria=tuple(criteria)[:50],
        branch=children[0].branch if children else card.branch,
    )
    return [CreateCard(synthesis, _synthesis_intent(card, facts.intent, children))]


def _synthesis_intent(parent: Card, intent: str, children: Sequence[Card]) -> str:
    done = "\n".join(f"- `{child.slug}` ({child.commit}): {child.title}" for child in children)
    return (
        f"# Intent: Synthese: {parent.title}\n\n"
        "The children below are built, reviewed and on the branch. Check that together they do what the parent's "
        "intent asks for, and change only what is missing between them. If nothing is missing, change nothing.\n\n"
        f"## Children\n\n{done}\n\n## The parent's intent\n\n{intent}\n"
    )


def synthesis_good(card: Card, facts: Facts) -> list[Effect]:
    synthesis = next(child for child in facts.children if child.kind is Kind.SYNTHESIS)
    values: dict[str, Any] = {
        "commit": synthesis.commit,
        "reviewed": synthesis.reviewed,
        "released": synthesis.released,
    }
    values |= {"branch": synthesis.branch, "base": synthesis.base, "reason": ""}
    ready_card = replace(card, phase=Phase.BEREIT, **values)
    return [
        update(card, Phase.BEREIT, Status.SUCCEEDED, **values),
        Notify("ready", card.slug, f"{card.title}: every child and the synthesis are reviewed and published"),
        *deploy_jobs(ready_card, facts.config),
    ]
