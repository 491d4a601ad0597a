"""The Operator: one intent in, a decision out.  Reads the commit at the branch's tip, changes nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from intent_board.board.states import Event
from intent_board.config import BoardConfig
from intent_board.contracts import ContractError
from intent_board.contracts.operator import Child, Decision, Ladder, parse_decision
from intent_board.roles import base, order
from intent_board.roles.base import Context, Outcome, PutBack
from intent_board.roles.history import left_behind
from intent_board.roles.reading import read
from intent_board.roles.text import RoleText, load
from intent_board.runtimes import Outcome as Ended
from intent_board.store import Claim

#: What a run without an answer means for the card; anything else is a failed run.
ENDINGS = {Ended.LIMIT_REACHED: Event.OPERATOR_LIMIT, Ended.TIMED_OUT: Event.OPERATOR_TIMEOUT}


def work(claim: Claim, context: Context) -> Outcome | PutBack:
    """Have the intent judged and return the decision as an event; a refused answer creates nothing."""
    text = load("operator", context.config)
    repository = claim.card.repository
    branch = context.workspace.fetch(repository)
    commit = context.workspace.tip(repository, branch)
    order_text = _order(claim, context, text, branch, commit)
    result = read(claim, context, commit, lambda tree: order_text)
    if isinstance(result, PutBack):
        return result
    kept = base.record(claim, context.config, text, result) | {"commit": commit}
    if result.outcome is not Ended.ANSWERED:
        event = ENDINGS.get(result.outcome, Event.OPERATOR_FAILED)
        return Outcome(event, {"reason": result.reason}, result.text, kept)
    return judge(claim.card.slug, result.text, context.config, kept)


def judge(slug: str, answer: str, config: BoardConfig, kept: Mapping[str, Any]) -> Outcome:
    """An answer about the card `slug` as the event it means; `board-operator apply` takes the same way."""
    try:
        decision = parse_decision(answer, parent_slug=slug, config=config)
    except ContractError as error:
        return Outcome(Event.OPERATOR_INVALID, {"reason": f"the Operator's answer was refused: {error}"}, answer, kept)
    event, data = _decided(decision)
    return Outcome(event, data, answer, kept)


def _decided(decision: Decision) -> tuple[Event, dict[str, Any]]:
    if decision.decision == "needs_human":
        return Event.OPERATOR_NEEDS_HUMAN, {"reason": decision.reason, "human_action": decision.human_action}
    if decision.decision == "split":
        children = [_child(child) for child in decision.children]
        return Event.OPERATOR_SPLIT, {"reason": decision.reason, "children": children}
    data = {"reason": decision.reason, "lane": decision.recommended_lane, "escalation": _rungs(decision.escalation)}
    return Event.OPERATOR_DIRECT, data


def _child(child: Child) -> dict[str, Any]:
    return {
        "slug": child.slug,
        "title": child.title,
        "wave": child.wave,
        "blocked_by": list(child.blocked_by),
        "lane": child.recommended_lane,
        "write_scope": list(child.write_scope),
        "acceptance_criteria": list(child.acceptance_criteria),
        "intent": child.intent_markdown,
        "escalation": _rungs(child.escalation),
        "warnings": list(child.warnings),
    }


def _rungs(ladder: Ladder) -> list[dict[str, Any]] | None:
    # None and [] are different decisions: no ladder was decided, and no further attempt is wanted.
    return None if ladder is None else [asdict(rung) for rung in ladder]


def _order(claim: Claim, context: Context, text: RoleText, branch: str, commit: str | None) -> str:
    facts = {"branch": branch, "commit": commit, **order.choices(context.config), **order.taken(context.store)}
    return order.of_role(claim, context, text, facts, left_behind(claim.card.slug, context, "answer", "findings"))
