"""The Planner's split: a card that ran into its limit becomes a parent of independent, smaller intents."""

from __future__ import annotations

from typing import Any

from intent_board.board.states import Event
from intent_board.contracts import ContractError
from intent_board.contracts.planner import parse_split
from intent_board.roles import base, order
from intent_board.roles.base import Context, Outcome, PutBack
from intent_board.roles.history import left_behind
from intent_board.roles.reading import read
from intent_board.roles.text import RoleText, load
from intent_board.runtimes import Outcome as Ended
from intent_board.store import Claim


def work(claim: Claim, context: Context) -> Outcome | PutBack:
    """Have what is left of the card cut into children; a refused answer creates none."""
    text = load("planner", context.config)
    card = claim.card
    branch = context.workspace.fetch(card.repository)
    commit = context.workspace.tip(card.repository, branch)
    order_text = _order(claim, context, text, branch, commit)
    result = read(claim, context, commit, lambda tree: order_text)
    if isinstance(result, PutBack):
        return result
    kept = base.record(claim, context.config, text, result) | {"commit": commit}
    if result.outcome is not Ended.ANSWERED:
        return Outcome(Event.SPLIT_INVALID, {"reason": f"the split came to no end: {result.reason}"}, result.text, kept)
    try:
        split = parse_split(result.text, parent_slug=card.slug, config=context.config)
    except ContractError as error:
        reason = f"the Planner's answer was refused: {error}"
        return Outcome(Event.SPLIT_INVALID, {"reason": reason}, result.text, kept)
    children = [
        {
            "slug": child.slug,
            "title": child.title,
            "acceptance_criteria": list(child.acceptance_criteria),
            "intent": child.intent_markdown,
            "warnings": list(child.warnings),
        }
        for child in split.children
    ]
    return Outcome(Event.SPLIT_VALID, {"children": children}, result.text, kept)


def _order(claim: Claim, context: Context, text: RoleText, branch: str, commit: str | None) -> str:
    card = claim.card
    facts: dict[str, Any] = {
        "branch": branch,
        "commit": commit,
        "lane": card.lane,
        "write_scope": list(card.write_scope),
        "max_children": context.config.limits.max_children,
        **order.taken(context.store),
    }
    data = [
        order.criteria(card),
        *left_behind(card.slug, context, "interim_report", "findings", "answer"),
    ]
    return order.of_role(claim, context, text, facts, data)
