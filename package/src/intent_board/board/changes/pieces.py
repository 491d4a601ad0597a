"""What several changes are made of: the updated card, the next job and its order, and who may not."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from typing import Any

from intent_board.board import ladder
from intent_board.board.model import Attach, Card, CreateJob, Effect, Facts, Phase, Refused, Status, UpdateCard

#: The actor of everything that trusted code does by itself.
TRUSTED = "board"
#: Long texts that have a place of their own (intents, reviews, attachments) and would only swell the audit.
NOT_FOR_THE_AUDIT = frozenset({"intent", "children", "report", "findings", "diff", "checks", "title", "evidence"})

Change = Callable[[Card, Facts], list[Effect]]


def update(card: Card, phase: Phase | None = None, status: Status | None = None, **values: Any) -> UpdateCard:
    """New values of a card; what is left out stays."""
    if phase is not None:
        values["phase"] = phase
    if status is not None:
        values["status"] = status
    return UpdateCard(card.slug, card.phase, values)


def next_job(card: Card, role: str, queue: str, snapshot: Mapping[str, Any], *, round: int | None = None) -> CreateJob:
    """The next job of a role for a card.  Its attempt comes from the card as it was read, so that deciding twice
    from one state makes the same key, which is unique."""
    attempt = card.attempts.get(role, 0) + 1
    return CreateJob(card.slug, role, queue, attempt, card.round if round is None else round, dict(snapshot))


def reason_of(facts: Facts, default: str) -> str:
    """The reason that the event came with."""
    return str(facts.data.get("reason") or default)


def with_reason(facts: Facts, reason: str) -> Facts:
    """The same facts with another reason."""
    return replace(facts, data={**facts.data, "reason": reason})


def attach(card: Card, facts: Facts, kind: str, key: str) -> list[Effect]:
    """What the event brought under `key`, kept beside the card; nothing when it brought nothing."""
    data = facts.data.get(key)
    return [Attach(card.slug, kind, data, facts.job.id if facts.job else None)] if data else []


def no_relative(card: Card, what: str) -> None:
    """Refuse a card that has a parent: it is never sent to the Operator and never split."""
    if card.parent is not None:
        raise Refused(f"{card.slug}: belongs to {card.parent} and can't be {what}; use retry or repair")


def no_family(card: Card, facts: Facts, what: str) -> None:
    """Refuse a card with children: a second plan beside theirs would be taken for finished with them."""
    if facts.children:
        raise Refused(f"{card.slug}: has children, so it can't be {what}; use board retry, or board archive it")


def job_snapshot(facts: Facts) -> Mapping[str, Any]:
    """The order of the job whose result this is.  Raises Refused when the event is no job's."""
    if facts.job is None:
        raise Refused("this event is the result of a job, and no job was named")
    return facts.job.snapshot


def card_snapshot(card: Card) -> dict[str, Any]:
    """A job's order where no earlier job's snapshot is at hand: the card's own commit and profile."""
    profile = asdict(ladder.profile_of_attempt(card)) if card.profile else None
    return {"profile": profile, "commit": card.commit, "base": card.base, "branch": card.branch}


def evidence_order(facts: Facts) -> dict[str, Any]:
    """A review's order: the attempt's profile and what trusted code saw of the commit."""
    snapshot = {"profile": job_snapshot(facts)["profile"]}
    for key in ("commit", "base", "branch", "checks", "summary", "paths"):
        snapshot[key] = facts.data.get(key)
    return snapshot


def review_job(card: Card, facts: Facts, snapshot: Mapping[str, Any]) -> CreateJob:
    """A review, with the word that shows its answer to be no quotation."""
    return next_job(card, "reviewer", "review", {**snapshot, "nonce": facts.nonce})


def publish_job(card: Card, snapshot: Mapping[str, Any]) -> CreateJob:
    """The publishing of what an earlier job's order names."""
    keep = {key: snapshot.get(key) for key in ("profile", "commit", "base", "branch", "checks", "summary", "paths")}
    return next_job(card, "publish", "publish", keep)


def repair_job(card: Card, snapshot: Mapping[str, Any]) -> CreateJob:
    """A repair of the card's commit, with the profile of an earlier job's order."""
    keep = {"profile": snapshot.get("profile"), "commit": card.commit, "base": card.base, "branch": card.branch}
    return next_job(card, "fixer", "repair", keep)


def same_commit(card: Card, facts: Facts) -> str:
    """The commit of the answer, which must be the card's present one.  Raises Refused."""
    commit = str(facts.data["commit"])
    if commit != card.commit:
        raise Refused(f"{card.slug}: the answer is about {commit}, but {commit_of(card)}")
    return commit


def commit_of(card: Card) -> str:
    """The card's commit for a sentence; there is none before the first build and after a fresh start."""
    return f"the card's commit is {card.commit}" if card.commit else "the card has no commit"


def nothing(card: Card, facts: Facts) -> list[Effect]:
    """Only the audit remembers it."""
    return []
