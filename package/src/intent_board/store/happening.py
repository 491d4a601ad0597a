"""Letting an event happen to a card: the rules say what it does, `applying` does it, in the caller's transaction."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection, bindparam, func, select, update
from sqlalchemy.exc import DataError, IntegrityError, InterfaceError, ProgrammingError

from intent_board.board import states
from intent_board.board.model import (
    FINAL,
    SUCCESS,
    CancelJobs,
    Card,
    CreateCard,
    Effect,
    Facts,
    Happen,
    Job,
    Kind,
    Phase,
    Record,
    Refused,
    Status,
)
from intent_board.board.states import Event
from intent_board.config import BoardConfig
from intent_board.store import applying, rows
from intent_board.store.applying import Work
from intent_board.store.errors import UnknownCard, Unreadable
from intent_board.store.tables import attachments, cards, dependencies, intents, jobs, routes

log = logging.getLogger(__name__)

#: How many unreadable rows of one family are mended to park one card.
_MENDINGS = 50
#: Who acts when trusted code does something by itself.
BOARD = "board"
#: Roles whose jobs touch neither phase nor status until their result is applied: docs/states.md, rule (g).
ASIDE = frozenset({"inspector", "planner"})


def load(connection: Connection, slug: str) -> Card:
    """The card as it is stored.  Raises UnknownCard, Unreadable."""
    row = connection.execute(_CARD, {"of": slug}).first()
    if row is None:
        raise UnknownCard(slug)
    blockers = connection.execute(_BLOCKED_BY, {"of": slug})
    attempts = {str(role): int(count) for role, count in connection.execute(_ATTEMPTS, {"of": slug})}
    return rows.card(row, tuple(str(blocker) for (blocker,) in blockers), attempts)


def load_job(connection: Connection, job_id: int) -> Job | None:
    """The job as it is stored.  Raises Unreadable."""
    row = connection.execute(_JOB, {"of": job_id}).first()
    return None if row is None else rows.job(row)


def intent(connection: Connection, slug: str) -> str:
    """The newest text of a card's intent; "" when it has none."""
    return str(connection.execute(_INTENT, {"of": slug}).scalar() or "")


def pending_route(connection: Connection, slug: str) -> dict[str, Any] | None:
    """The newest recommendation for a card, with its `id`, unless it is closed already."""
    row = connection.execute(_ROUTE, {"of": slug}).first()
    if row is None or row[1] != "pending":
        return None
    try:
        return {**rows.document(row[2]), "id": row[0]}
    except (ValueError, TypeError, RecursionError):
        return None  # nobody can apply what can't be read


def happen(work: Work, config: BoardConfig, slug: str, event: Event, actor: str, data: Mapping[str, Any]) -> None:
    """Carry out one event of a card that exists.

    Raises Refused (also when a row it needs is unreadable: that card is then to be parked with `fault`), and leaves
    it to the caller to undo what was half done.
    """
    carry_out(work, config, load(work.connection, slug), event, actor, data, intent(work.connection, slug))


def carry_out(
    work: Work, config: BoardConfig, card: Card | None, event: Event, actor: str, data: Mapping[str, Any], text: str
) -> None:
    """`happen` for a card that is loaded already, or that the event is to create."""
    facts = _facts(work, config, card, actor, data, text)
    effects = states.step(card, event, facts)
    if taken := _taken(work.connection, effects):
        # Only the rules know which slugs an event makes, so they are asked again when some of those exist.
        effects = states.step(card, event, replace(facts, taken=taken))
    for effect in applying.apply(work, effects):
        _follow(work, config, effect, actor)


def _facts(work: Work, config: BoardConfig, card: Card | None, actor: str, data: Mapping[str, Any], text: str) -> Facts:
    connection = work.connection
    children: tuple[Card, ...] = ()
    route = None
    if card is not None:
        slugs = [slug for (slug,) in connection.execute(_CHILDREN, {"of": card.slug})]
        children = tuple(load(connection, slug) for slug in slugs)
        route = pending_route(connection, card.slug)
    return Facts(
        config=config,
        now=work.now,
        actor=actor,
        data=data,
        job=work.job,
        children=children,
        intent=text,
        nonce=secrets.token_hex(16),
        route=route,
    )


def _taken(connection: Connection, effects: list[Effect]) -> frozenset[str]:
    made = [effect.card.slug for effect in effects if isinstance(effect, CreateCard)]
    return frozenset(slug for slug in made if connection.execute(_SLUG, {"of": slug}).first() is not None)


def _follow(work: Work, config: BoardConfig, effect: Happen, actor: str) -> None:
    """An event that another one brings along.  Where it is refused the other one stays true: it has happened."""
    try:
        with work.connection.begin_nested():
            happen(work, config, effect.slug, Event(effect.event), actor, effect.data)
    except Unreadable as error:
        fault(work, config, effect.slug, str(error))
    except Refused as refusal:
        data = {"event": effect.event, "reason": str(refusal)}
        applying.record(work, Record(effect.slug, "refused", BOARD, data))


# --- one bad item hurts only itself --------------------------------------------------------------------------------


def guarded(
    work: Work, config: BoardConfig, slug: str, deed: Callable[[], None], *, refused: Callable[[Refused], None]
) -> bool:
    """Do `deed`, all of it or nothing.

    A refusal goes to `refused`.  Anything else that is wrong with this one item (a row, a missing value, a rule that
    fails) parks its card with the reason, and the caller goes on.  Errors of the database itself are not caught, since
    they are nobody's in particular.  Returns whether it was done.
    """
    for _ in range(_MENDINGS):
        try:
            with _savepoint(work):
                deed()
            return True
        except Unreadable as error:
            fault(work, config, error.slug, str(error))
            if error.slug == slug:
                return False
            # A relative was unreadable and is mended now; what happened to this card is still true.
        except Refused as refusal:
            refused(refusal)
            return False
        except _OF_ONE_ITEM as error:
            log.exception("The card %s could not be handled and is parked", slug)
            fault(work, config, slug, f"the board could not handle it ({type(error).__name__}: {error})")
            return False
    fault(work, config, slug, "too much of its family is unreadable")
    return False


def fault(work: Work, config: BoardConfig, slug: str, reason: str) -> None:
    """Park a card with the reason on it, after mending what is unreadable in its row and its children's."""
    job, work.job = work.job, None
    try:
        for _ in range(_MENDINGS):
            try:
                with _savepoint(work):
                    happen(work, config, slug, Event.FAULT, BOARD, {"reason": reason})
                return
            except Unreadable as error:
                _mend(work, error)
        raise LookupError("too much of its family is unreadable")
    except UnknownCard:
        log.error("A row names the card %r, which is not there: %s", slug, reason)
    except Refused as refusal:
        # A phase without a row for it: nothing is under way there that could be parked.
        applying.record(work, Record(slug, "fault", BOARD, {"reason": reason, "not_parked": str(refusal)}))
    except _OF_ONE_ITEM as error:
        log.exception("The card %s can't even be parked by the rules", slug)
        _park_anyway(work, slug, f"{reason}; parking it failed too ({type(error).__name__}: {error})")
    finally:
        work.job = job


def _park_anyway(work: Work, slug: str, reason: str) -> None:
    """For a card over which the rules themselves fail: out of everybody's way, with the reason on it."""
    values = {"phase": Phase.KLAERUNG_REPARATUR.value, "status": Status.FAILED.value, "reason": rows.clean(reason)}
    stays = sorted((*SUCCESS, *FINAL, Phase.STARTFREIGABE))
    parked = update(cards).where(cards.c.slug == slug, cards.c.phase.not_in(stays))
    work.connection.execute(parked.values({**values, "phase_since": work.now, "updated_at": work.now}))
    applying.apply(work, [CancelJobs(slug), Record(slug, "fault", BOARD, {"reason": reason})])


def _savepoint(work: Work) -> AbstractContextManager[Any]:
    return work.connection.begin_nested()


def _mend(work: Work, error: Unreadable) -> None:
    values = rows.mended(error.faults)
    if "phase" in error.faults:
        values["phase"] = Phase.KLAERUNG_REPARATUR.value
    if "status" in error.faults:
        phase = values.get("phase") or work.connection.execute(_PHASE, {"of": error.slug}).scalar()
        good = phase in {word.value for word in SUCCESS}
        values["status"] = (Status.SUCCEEDED if good else Status.FAILED).value
    if "kind" in error.faults:
        values["kind"] = _kind(work.connection, error.slug).value
    work.connection.execute(update(cards).where(cards.c.slug == error.slug).values(values))
    # What stood there is kept in the audit, since it may be all that is left of it.
    applying.record(work, Record(error.slug, "unreadable", BOARD, {"columns": error.faults}))


def _kind(connection: Connection, slug: str) -> Kind:
    """A card's place in its family, from its relatives."""
    if connection.execute(_HAS_PARENT, {"of": slug}).first() is None:
        return Kind.ORDINARY if connection.execute(_CHILDREN, {"of": slug}).first() is None else Kind.PARENT
    return Kind.SYNTHESIS if slug.endswith("-synthese") else Kind.CHILD


def start(work: Work, job: Job) -> None:
    """A job was claimed: the card says so, unless the job goes on aside."""
    _set_status(work, job, Status.QUEUED, Status.RUNNING)


def stop(work: Work, job: Job) -> None:
    """A run ended, whatever comes of it: the card no longer says that it runs."""
    _set_status(work, job, Status.RUNNING, Status.QUEUED)


def _set_status(work: Work, job: Job, old: Status, new: Status) -> None:
    if job.role not in ASIDE:
        values = {"of": job.slug, "old": old.value, "new": new.value, "at": work.now}
        work.connection.execute(_STATUS, values)


#: What one bad item can raise; OperationalError and the like are of the whole database.
_OF_ONE_ITEM = (
    ArithmeticError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
    DataError,
    IntegrityError,
    InterfaceError,
    ProgrammingError,
)
_CARD = select(*rows.CARD_COLUMNS).where(cards.c.slug == bindparam("of"))
_SLUG = select(cards.c.slug).where(cards.c.slug == bindparam("of"))
_PHASE = select(cards.c.phase).where(cards.c.slug == bindparam("of"))
_HAS_PARENT = select(cards.c.slug).where(cards.c.slug == bindparam("of"), cards.c.parent.is_not(None))
_CHILDREN = select(cards.c.slug).where(cards.c.parent == bindparam("of")).order_by(cards.c.slug)
_BLOCKED_BY = (
    select(dependencies.c.blocker).where(dependencies.c.slug == bindparam("of")).order_by(dependencies.c.place)
)
_ATTEMPTS = select(jobs.c.role, func.max(jobs.c.attempt)).where(jobs.c.slug == bindparam("of")).group_by(jobs.c.role)
_JOB = select(*rows.JOB_COLUMNS).where(jobs.c.id == bindparam("of"))
_INTENT = select(intents.c.text).where(intents.c.slug == bindparam("of")).order_by(intents.c.version.desc()).limit(1)
_ROUTE = (
    select(routes.c.id, routes.c.outcome, attachments.c.data)
    .select_from(routes.join(attachments, attachments.c.id == routes.c.id))
    .where(routes.c.slug == bindparam("of"))
    .order_by(routes.c.id.desc())
    .limit(1)
)
_STATUS = (
    update(cards)
    .where(cards.c.slug == bindparam("of"), cards.c.status == bindparam("old"))
    .values(status=bindparam("new"), updated_at=bindparam("at"))
)
