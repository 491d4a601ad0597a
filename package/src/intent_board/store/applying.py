"""Carrying out effects: the only code that changes a card."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, bindparam, delete, insert, select, update

from intent_board.board.model import (
    NEXT_LINE,
    AddReview,
    Attach,
    CancelJobs,
    CloseRoute,
    CreateCard,
    CreateJob,
    Effect,
    Happen,
    Job,
    JobState,
    KeepRef,
    Notify,
    Record,
    Refused,
    ReplaceIntent,
    UpdateCard,
)
from intent_board.boundaries import boundary
from intent_board.config import SLUG_PATTERN, TRUSTED_QUEUES
from intent_board.store import rows, tables
from intent_board.store.errors import StoreError
from intent_board.store.outbox import BELL
from intent_board.store.projections import digest

_OPEN_JOBS = (JobState.QUEUED.value, JobState.RUNNING.value)


class JobExists(Refused):
    """The same decision would be dispatched a second time."""


@dataclass(slots=True)
class Work:
    """One transaction at work, and what is to follow its commit."""

    connection: Connection
    now: float
    job: Job | None = None
    rung: set[str] = field(default_factory=set)
    intents: set[str] = field(default_factory=set)


def apply(work: Work, effects: Iterable[Effect]) -> list[Happen]:
    """Carry out every effect, or raise and leave it to the caller's transaction to undo them all.

    Returns the events that are to follow in the same transaction.  Raises Refused when a card no longer stands where
    the rules saw it, or a slug or job exists already.
    """
    created: list[CreateCard] = []
    following: list[Happen] = []
    for effect in effects:
        match effect:
            case Happen():
                following.append(effect)
                continue
            case CreateCard():
                created.append(effect)
        _apply(work, effect)
        boundary(f"store.apply.{type(effect).__name__}")
    # Children of one decision wait for one another, so all of them have to be there first.
    for effect in created:
        _set_blockers(work, effect.card.slug, effect.card.blocked_by)
    return following


def _apply(work: Work, effect: Effect) -> None:
    match effect:
        case UpdateCard():
            _update_card(work, effect)
        case CreateCard():
            _create_card(work, effect)
        case ReplaceIntent(slug, intent):
            add_intent(work, slug, intent)
        case CreateJob():
            _create_job(work, effect)
        case CancelJobs(slug):
            work.connection.execute(_CANCEL, {"of": slug, "finished_at": work.now})
        case Notify():
            _notify(work, effect)
        case KeepRef(slug, commit):
            _keep_ref(work, slug, commit)
        case Record():
            record(work, effect)
        case AddReview():
            _add_review(work, effect)
        case Attach():
            _attach(work, effect)
        case CloseRoute():
            _close_route(work, effect)


def next_line(connection: Connection) -> int:
    """The next number of the sequence from which places in line are given."""
    connection.execute(_ADVANCE_LINE)
    number = connection.execute(_LINE).scalar()
    if number is None:
        raise StoreError("The store has lost the number of its line; put the newest good backup in its place.")
    return int(number)


def _with_line(work: Work, values: Mapping[str, Any]) -> dict[str, Any]:
    encoded = rows.encode(values)
    if encoded.get("line") == NEXT_LINE:
        encoded["line"] = next_line(work.connection)
    return encoded


def _update_card(work: Work, effect: UpdateCard) -> None:
    unknown = effect.values.keys() - rows.CARD_FIELDS | effect.values.keys() & {"slug", "attempts"}
    if unknown:
        raise TypeError(f"a card has no field {', '.join(sorted(unknown))} that can be set")
    values = _with_line(work, effect.values) | {"updated_at": work.now}
    if values.get("phase", effect.expect) != effect.expect:
        values["phase_since"] = work.now
    found = work.connection.execute(
        update(tables.cards)
        .where(tables.cards.c.slug == bindparam("of"), tables.cards.c.phase == bindparam("expect"))
        .values({name: bindparam(f"to_{name}") for name in values}),
        {"of": effect.slug, "expect": effect.expect.value} | {f"to_{name}": value for name, value in values.items()},
    )
    if found.rowcount == 0:
        raise Refused(
            f"The card {effect.slug!r} no longer stands in {effect.expect.value}, so nothing was done; look at it with "
            f"`board show {effect.slug}` and try again."
        )
    if "blocked_by" in effect.values:
        work.connection.execute(delete(tables.dependencies).where(tables.dependencies.c.slug == effect.slug))
        _set_blockers(work, effect.slug, tuple(effect.values["blocked_by"]))


def _create_card(work: Work, effect: CreateCard) -> None:
    slug = effect.card.slug
    if not re.fullmatch(SLUG_PATTERN, slug):
        raise Refused(f"{slug[:80]!r} is no slug; use lower-case letters, digits and hyphens, at most 61 characters.")
    if work.connection.execute(_HAS_CARD, {"of": slug}).first() is not None:
        raise Refused(f"The slug {slug!r} is taken; choose another one, since no card is ever deleted.")
    values = _with_line(work, rows.as_fields(effect.card))
    values |= {"created_at": work.now, "updated_at": work.now, "phase_since": work.now}
    work.connection.execute(insert(tables.cards), values)
    add_intent(work, slug, effect.intent)


def add_intent(work: Work, slug: str, text: str) -> None:
    """Make `text` the newest version of a card's intent; its file follows the commit."""
    text = rows.clean(text)
    version = int(work.connection.execute(_LAST_VERSION, {"of": slug}).scalar() or 0) + 1
    values = {"slug": slug, "version": version, "hash": digest(text), "created_at": work.now, "text": text}
    work.connection.execute(insert(tables.intents), values)
    if work.connection.execute(_IS_UNPROJECTED, {"of": slug}).first() is None:
        work.connection.execute(insert(tables.unprojected), {"slug": slug})
    work.intents.add(slug)


def _set_blockers(work: Work, slug: str, blockers: tuple[str, ...]) -> None:
    for place, blocker in enumerate(blockers):
        if work.connection.execute(_HAS_CARD, {"of": blocker}).first() is None:
            raise Refused(f"The card {slug!r} can't wait for {blocker!r}: there is no such card.")
        work.connection.execute(insert(tables.dependencies), {"slug": slug, "blocker": blocker, "place": place})


def _create_job(work: Work, effect: CreateJob) -> None:
    same = {"of": effect.slug, "as_role": effect.role, "number": effect.attempt}
    if work.connection.execute(_HAS_JOB, same).first() is not None:
        raise JobExists(
            f"The card {effect.slug!r} has its {effect.role} attempt {effect.attempt} already, so that nothing was "
            "dispatched twice."
        )
    values = {
        "slug": effect.slug,
        "role": effect.role,
        "queue": effect.queue,
        "attempt": effect.attempt,
        "round": effect.round,
        "state": JobState.QUEUED.value,
        "not_before": effect.not_before,
        "waiting_since": work.now,
        "runtime": _runtime(effect),
        "created_at": work.now,
        "snapshot": rows.dump(effect.snapshot),
    }
    work.connection.execute(insert(tables.jobs), values)
    work.rung.add(effect.queue)


def _runtime(effect: CreateJob) -> str | None:
    """The runtime that the job's snapshot fixes; None: its queue's, or none at all."""
    profile = effect.snapshot.get("profile")
    if effect.queue in TRUSTED_QUEUES or not isinstance(profile, Mapping):
        return None
    return str(profile["runtime"])


def _notify(work: Work, effect: Notify) -> None:
    """Put a fact into the outbox, once.

    The same words to the same people about the same job, in one round and one stay in a phase, are the same fact.
    """
    stay = str(work.connection.execute(_STAY, {"of": effect.slug}).first())
    job = str(work.job.id if work.job else "")
    parts = (effect.slug, effect.event, stay, job, str(effect.to_requester), rows.clean(effect.text))
    key = hashlib.sha256("\0".join(parts).encode()).hexdigest()
    if work.connection.execute(_HAS_FACT, {"of": key}).first() is not None:
        return
    values = {
        "key": key,
        "slug": effect.slug,
        "event": effect.event,
        "to_requester": effect.to_requester,
        "created_at": work.now,
        "text": parts[-1],
    }
    work.connection.execute(insert(tables.notifications), values)
    work.rung.add(BELL)


def _keep_ref(work: Work, slug: str, commit: str | None) -> None:
    repository = work.connection.execute(_REPOSITORY, {"of": slug}).scalar()
    values = {"slug": slug, "repository": repository, "commit": commit, "created_at": work.now}
    work.connection.execute(insert(tables.refs_wanted), values)


def record(work: Work, effect: Record) -> None:
    """Add one line to the audit."""
    values = {
        "at": work.now,
        "slug": effect.slug or None,
        "event": str(effect.event),
        "actor": rows.clean(effect.actor),
        "data": rows.dump(effect.data),
    }
    work.connection.execute(insert(tables.events), values)


def _add_review(work: Work, effect: AddReview) -> None:
    values = {
        "slug": effect.slug,
        "job_id": effect.job_id or None,
        "commit": effect.commit,
        "decision": effect.decision,
        "created_at": work.now,
        "report": rows.dump(effect.report),
    }
    work.connection.execute(insert(tables.reviews), values)


def _attach(work: Work, effect: Attach) -> None:
    values = {
        "slug": effect.slug,
        "kind": effect.kind,
        "job_id": effect.job_id,
        "created_at": work.now,
        "data": rows.dump(effect.data),
    }
    added = work.connection.execute(insert(tables.attachments), values)
    if effect.kind == "route":
        identity = added.inserted_primary_key
        work.connection.execute(insert(tables.routes), {"id": identity[0] if identity else None, "slug": effect.slug})


def _close_route(work: Work, effect: CloseRoute) -> None:
    closed = work.connection.execute(
        _CLOSE_ROUTE, {"route": effect.id, "of": effect.slug, "to": effect.outcome, "at": work.now}
    )
    if closed.rowcount == 0:
        raise Refused(
            f"The route {effect.id} of {effect.slug!r} is not pending; `board show {effect.slug}` names the one that "
            "is."
        )


_CANCEL = (
    update(tables.jobs)
    .where(tables.jobs.c.slug == bindparam("of"), tables.jobs.c.state.in_(_OPEN_JOBS))
    .values(state=JobState.CANCELLED.value, finished_at=bindparam("finished_at"))
)
_ADVANCE_LINE = update(tables.meta).where(tables.meta.c.key == "line").values(value=tables.meta.c.value + 1)
_LINE = select(tables.meta.c.value).where(tables.meta.c.key == "line")
_HAS_CARD = select(tables.cards.c.slug).where(tables.cards.c.slug == bindparam("of"))
_HAS_JOB = select(tables.jobs.c.id).where(
    tables.jobs.c.slug == bindparam("of"),
    tables.jobs.c.role == bindparam("as_role"),
    tables.jobs.c.attempt == bindparam("number"),
)
_LAST_VERSION = (
    select(tables.intents.c.version)
    .where(tables.intents.c.slug == bindparam("of"))
    .order_by(tables.intents.c.version.desc())
    .limit(1)
)
_IS_UNPROJECTED = select(tables.unprojected.c.slug).where(tables.unprojected.c.slug == bindparam("of"))
_STAY = select(tables.cards.c.round, tables.cards.c.phase_since).where(tables.cards.c.slug == bindparam("of"))
_REPOSITORY = select(tables.cards.c.repository).where(tables.cards.c.slug == bindparam("of"))
_HAS_FACT = select(tables.notifications.c.id).where(tables.notifications.c.key == bindparam("of"))
_CLOSE_ROUTE = (
    update(tables.routes)
    .where(
        tables.routes.c.id == bindparam("route"),
        tables.routes.c.slug == bindparam("of"),
        tables.routes.c.outcome == "pending",
    )
    .values(outcome=bindparam("to"), closed_at=bindparam("at"))
)
