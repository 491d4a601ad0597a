"""Inspections, and the routes that an Inspector recommends."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from intent_board.board.changes.pieces import attach, next_job
from intent_board.board.model import Attach, Card, CloseRoute, Effect, Facts, Notify, Phase


def inspect(card: Card, facts: Facts) -> list[Effect]:
    return [next_job(card, "inspector", "inspect", {"task": facts.data["task"], "commit": card.commit})]


def inspected(card: Card, facts: Facts) -> list[Effect]:
    """What the board recorded about deployment wins; a differing claim is kept beside it."""
    effects = attach(card, facts, "inspection", "evidence")
    claim = (facts.data.get("evidence") or {}).get("deployment_claim")
    recorded = "deployed" if card.phase is Phase.DEPLOYED else "not_deployed"
    if claim in ("deployed", "not_deployed") and claim != recorded:
        text = f"{card.title}: the Inspector says {claim}, the board recorded {recorded}"
        data = {"claim": claim, "recorded": recorded}
        effects += [Attach(card.slug, "discrepancy", data), Notify("discrepancy", card.slug, text)]
    return effects


def routed(card: Card, facts: Facts) -> list[Effect]:
    text = f"{card.title}: the Inspector recommends {facts.data['route']['recommendation']}"
    return [*attach(card, facts, "route", "route"), Notify("approval_wanted", card.slug, text)]


def close_route(card: Card, route: Mapping[str, Any], outcome: str) -> CloseRoute:
    return CloseRoute(card.slug, route["id"], outcome)


def with_route(facts: Facts, route: Mapping[str, Any]) -> Facts:
    """The facts of the event that a recommendation stands for."""
    extra = {"reason": route.get("reason", ""), "question": route.get("question"), "findings": {"route": dict(route)}}
    return replace(facts, data={**facts.data, **extra}, route=None)
