"""The ladder: which further attempts a card has, and what each attempt runs with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from intent_board.board.model import Card, Profile, Refused, Rung
from intent_board.config import BoardConfig


def lane_profile(config: BoardConfig, lane: str, iterations: int | None = None) -> Profile:
    """The profile of a lane, with the submitter's iteration limit in place of the lane's where one was asked for."""
    it = config.lanes[lane]
    return Profile(it.runtime, it.model, it.reasoning_effort, iterations or it.iteration_limit)


def decided(escalation: Sequence[Mapping[str, Any]] | None) -> tuple[Rung, ...] | None:
    """The ladder that an Operator's answer decided; None where it decided none."""
    if escalation is None:
        return None
    return tuple(Rung(rung["model"], rung["reasoning_effort"], rung["iteration_limit"]) for rung in escalation)


def rungs(card: Card) -> tuple[Rung | None, ...]:
    """The attempts that may follow the first one of a round.

    No ladder decided means one flat retry (None: the same profile again); `[]` decided means none.
    """
    return (None,) if card.ladder is None else card.ladder


def profile_of_attempt(card: Card) -> Profile:
    """What the card's present attempt runs with: the lane's profile, or the rung it stands on.

    Runtime and lane never change on a ladder.  Raises Refused when the card has no profile or no such rung.
    """
    if card.profile is None:
        raise Refused(f"{card.slug}: has no profile; board build {card.slug} gives it a lane")
    if card.rung == 0:
        return card.profile
    steps = rungs(card)
    if card.rung > len(steps):
        raise Refused(f"{card.slug}: stands on rung {card.rung} of a ladder of {len(steps)}; use board retry")
    rung = steps[card.rung - 1]
    if rung is None:
        return card.profile
    return replace(
        card.profile, model=rung.model, reasoning_effort=rung.reasoning_effort, iteration_limit=rung.iteration_limit
    )
