"""The ladder: which further attempts a card has, and what each attempt runs with."""

from __future__ import annotations

from dataclasses import replace

from intent_board.board.model import Card, Profile, Refused, Rung


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
