"""The Inspector: looks, read-only, and reports what is there or recommends what should happen.  It decides nothing."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from intent_board.board.model import Phase
from intent_board.board.states import Event
from intent_board.contracts import ContractError
from intent_board.contracts.inspector import Inspection, parse_inspection, parse_routing
from intent_board.roles import base, order
from intent_board.roles.base import Context, Outcome, PutBack
from intent_board.roles.history import left_behind, negative_reviews
from intent_board.roles.reading import read
from intent_board.roles.reviewer import exists
from intent_board.roles.text import RoleText, load
from intent_board.runtimes import Outcome as Ended
from intent_board.store import Claim

#: The job's task, and what the role text calls it.
TASKS = {"implementation_status": "inspection", "route_next": "routing"}


def work(claim: Claim, context: Context) -> Outcome | PutBack:
    """One look at one commit: the card's own, or the tip of the branch.  A refused answer is only recorded."""
    text = load("inspector", context.config)
    card, task = claim.card, str(claim.job.snapshot["task"])
    branch = context.workspace.fetch(card.repository)
    commit = claim.job.snapshot.get("commit") or context.workspace.tip(card.repository, branch)
    order_text = _order(claim, context, text, commit)
    missing: list[str] = []

    def look(tree: Path, answer: str) -> None:
        missing.extend(_missing(tree, answer))

    result = read(claim, context, commit, lambda tree: order_text, look=look)
    if isinstance(result, PutBack):
        return result
    kept = base.record(claim, context.config, text, result) | {"commit": commit}
    if result.outcome is not Ended.ANSWERED:
        return Outcome(Event.INSPECTION_FAILED, {"reason": result.reason, "task": task}, result.text, kept)
    try:
        event, data = _reported(task, result.text, context, commit, missing)
    except ContractError as error:
        reason = f"the Inspector's answer was refused: {error}"
        return Outcome(Event.INSPECTION_FAILED, {"reason": reason, "task": task}, result.text, kept)
    return Outcome(event, data, result.text, kept)


def _reported(
    task: str, answer: str, context: Context, commit: str | None, missing: list[str]
) -> tuple[Event, dict[str, Any]]:
    if task == "route_next":
        return Event.ROUTED, {"route": asdict(parse_routing(answer, context.config))}
    found = asdict(parse_inspection(answer)) | {"commit": commit, "not_in_the_commit": missing}
    return Event.INSPECTED, {"evidence": found}


def _missing(tree: Path, answer: str) -> list[str]:
    """The paths given as evidence that are not in the checkout: a claim, and no evidence."""
    try:
        inspection: Inspection = parse_inspection(answer)
    except ContractError:
        return []  # refused as a whole, with its reason, by the caller
    paths = [one.reference for one in inspection.evidence if one.kind == "path"]
    return [path for path in paths if not exists(tree, path)]


def _order(claim: Claim, context: Context, text: RoleText, commit: str | None) -> str:
    card = claim.card
    facts: dict[str, Any] = {
        "task": TASKS[str(claim.job.snapshot["task"])],
        "commit": commit,
        "phase": str(card.phase),
        "status": str(card.status),
        "attempts": dict(card.attempts),
        "reviewed": card.reviewed,
        "deployment_recorded": "deployed" if card.phase is Phase.DEPLOYED else "not_deployed",
        "lanes": list(context.config.lanes),
    }
    data = [
        order.criteria(card),
        order.Data("Why the card stands where it stands", card.reason),
        *negative_reviews(card.slug, context),
        *left_behind(card.slug, context, "interim_report", "findings", "answer"),
    ]
    return order.of_role(claim, context, text, facts, data)
