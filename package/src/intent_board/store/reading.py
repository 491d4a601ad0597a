"""Everything that can be asked of the store without changing it."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Row, Select, func, select

from intent_board.board.model import Card, JobState
from intent_board.store import happening, rows, tables, values
from intent_board.store.errors import UnknownCard
from intent_board.store.projections import Versions

_LINE = tables.cards.c
_CARD_LINE = (
    _LINE.slug,
    _LINE.title,
    _LINE.phase,
    _LINE.status,
    _LINE.kind,
    _LINE.parent,
    _LINE.repository,
    _LINE.lane,
    _LINE.requester,
    _LINE.reason,
    _LINE.created_at,
    _LINE.updated_at,
    _LINE.phase_since,
)
_MORE = (
    tables.jobs.c.created_at,
    tables.jobs.c.started_at,
    tables.jobs.c.finished_at,
    tables.jobs.c.outcome,
    tables.jobs.c.reason,
    tables.jobs.c.runtime,
    tables.jobs.c.slot,
    tables.jobs.c.sandboxed,
    tables.jobs.c.cost_usd,
    tables.jobs.c.outages,
    tables.jobs.c.role_version,
    tables.jobs.c.role_hash,
    tables.jobs.c.usage,
    tables.jobs.c.result,
)


def card_lines(
    connection: Connection,
    *,
    phases: Collection[str] | None,
    repository: str | None,
    parent: str | None,
    requester: str | None,
    limit: int | None,
) -> list[values.CardLine]:
    """Cards as a list shows them, those that moved last first."""
    query = select(*_CARD_LINE).order_by(_LINE.updated_at.desc(), _LINE.slug)
    if phases is not None:
        query = query.where(_LINE.phase.in_([str(phase) for phase in phases]))
    for column, value in ((_LINE.repository, repository), (_LINE.parent, parent), (_LINE.requester, requester)):
        if value is not None:
            query = query.where(column == value)
    if limit is not None:
        query = query.limit(limit)
    return [values.CardLine(*map(_shown, row)) for row in connection.execute(query)]


def slugs(connection: Connection, limit: int) -> tuple[list[str], int]:
    """The names of the cards that moved last, at most `limit` of them, and how many cards there are."""
    newest = select(_LINE.slug).order_by(_LINE.updated_at.desc(), _LINE.slug).limit(limit)
    total = connection.execute(select(func.count()).select_from(tables.cards)).scalar_one()
    return [str(_shown(slug)) for slug in connection.execute(newest).scalars()], int(total)


def _shown(value: Any) -> Any:
    """A column for somebody who only looks: bytes that are no text are shown as what they resemble."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def family(connection: Connection, parent: str) -> tuple[Card, ...]:
    """A parent's children and synthesis, whole."""
    slugs = connection.execute(select(_LINE.slug).where(_LINE.parent == parent).order_by(_LINE.wave, _LINE.slug))
    return tuple(happening.load(connection, slug) for slug in slugs.scalars())


def job_lines(connection: Connection, query: Select[Any]) -> list[values.JobLine]:
    """The jobs of a query over JOB_COLUMNS and what came of them."""
    return [_job_line(row) for row in connection.execute(query)]


def jobs_query() -> Select[Any]:
    """All jobs; the caller narrows it."""
    return select(*rows.JOB_COLUMNS, *_MORE).order_by(tables.jobs.c.id)


def _job_line(row: Row[Any]) -> values.JobLine:
    size = len(rows.JOB_COLUMNS)
    named = {column.name: value for column, value in zip(_MORE, row[size:], strict=True)}
    named |= {name: _loaded(named[name]) for name in ("usage", "result")}
    job, unreadable = rows.job_as_far_as_readable(row[:size])
    named["reason"] = unreadable or _shown(named["reason"])
    return values.JobLine(job, **named)


def _values(row: Sequence[Any]) -> tuple[Any, ...]:
    """The values of a row, whose last one is JSON."""
    return (*row[:-1], _loaded(row[-1]))


def _loaded(text: Any) -> Any:
    """A JSON column; what can't be read is shown as it stands, since a reader only looks."""
    try:
        return json.loads(text)
    except (ValueError, TypeError):
        return {"unreadable": str(text)}


def intents(connection: Connection, slugs: Sequence[str]) -> dict[str, Versions]:
    """Of each card the hashes of all its intent's versions, and the newest text."""
    table = tables.intents.c
    found: dict[str, tuple[set[str], str]] = {}
    for start in range(0, len(slugs), 500):  # databases bound the number of values in one statement
        query = select(table.slug, table.hash, table.text).where(table.slug.in_(slugs[start : start + 500]))
        for slug, hashed, text in connection.execute(query.order_by(table.slug, table.version)):
            found[slug] = (found.get(slug, (set(), ""))[0] | {hashed}, text)
    return {slug: (frozenset(hashes), text) for slug, (hashes, text) in found.items()}


def reviews(connection: Connection, slug: str) -> list[values.Review]:
    table = tables.reviews.c
    query = select(table.id, table.job_id, table.commit, table.decision, table.created_at, table.report)
    found = connection.execute(query.where(table.slug == slug).order_by(table.id))
    return [values.Review(*_values(row)) for row in found]


def commits(connection: Connection, repository: str) -> list[tuple[str, str, str]]:
    """(slug, commit, phase) of the cards of a repository that have a commit."""
    card = tables.cards.c
    query = select(card.slug, card.commit, card.phase).where(card.repository == repository, card.commit.is_not(None))
    return [(str(slug), str(commit), str(phase)) for slug, commit, phase in connection.execute(query)]


def attachments(connection: Connection, slug: str, kind: str | None) -> list[values.Attachment]:
    table = tables.attachments.c
    query = select(table.id, table.kind, table.job_id, table.created_at, table.data).where(table.slug == slug)
    if kind is not None:
        query = query.where(table.kind == kind)
    return [values.Attachment(*_values(row)) for row in connection.execute(query.order_by(table.id))]


def deployments(connection: Connection, limit: int | None) -> list[tuple[str, values.Attachment]]:
    """What was recorded about deployments, with the card's slug, the newest first."""
    table = tables.attachments.c
    query = select(table.slug, table.id, table.kind, table.job_id, table.created_at, table.data)
    found = connection.execute(query.where(table.kind == "deployment").order_by(table.id.desc()).limit(limit))
    return [(str(row[0]), values.Attachment(*_values(row[1:]))) for row in found]


def routes(connection: Connection, slug: str) -> list[values.Route]:
    route, attached = tables.routes.c, tables.attachments.c
    query = (
        select(route.id, route.outcome, route.closed_at, attached.created_at, attached.data)
        .select_from(tables.routes.join(tables.attachments, attached.id == route.id))
        .where(route.slug == slug)
        .order_by(route.id)
    )
    return [values.Route(*_values(row)) for row in connection.execute(query)]


def answers(connection: Connection, slug: str, job_id: int | None) -> list[values.Answer]:
    table = tables.answers.c
    query = select(
        table.job_id, table.token, table.event, table.stale, table.cut, table.size, table.created_at, table.text
    ).where(table.slug == slug)
    if job_id is not None:
        query = query.where(table.job_id == job_id)
    return [values.Answer(*row) for row in connection.execute(query.order_by(table.id))]


def audit(connection: Connection, slug: str | None, after: int, limit: int | None) -> list[values.AuditLine]:
    table = tables.events.c
    query = select(table.id, table.at, table.slug, table.event, table.actor, table.data).where(table.id > after)
    if slug is not None:
        query = query.where(table.slug == slug)
    if limit is not None:  # the newest ones, in the order in which they happened
        newest = query.order_by(table.id.desc()).limit(limit).subquery()
        query = select(*newest.c).order_by(newest.c.id)
    else:
        query = query.order_by(table.id)
    return [values.AuditLine(*_values(row)) for row in connection.execute(query)]


def status(connection: Connection) -> values.BoardStatus:
    job, card = tables.jobs.c, tables.cards.c
    running = job_lines(connection, jobs_query().where(job.state == JobState.RUNNING.value))
    return values.BoardStatus(
        tuple(running),
        _counts(
            connection.execute(
                select(job.queue, func.count()).where(job.state == JobState.QUEUED.value).group_by(job.queue)
            )
        ),
        _counts(connection.execute(select(card.phase, func.count()).group_by(card.phase))),
        {str(runtime): float(cost) for runtime, cost in connection.execute(_COSTS)},
        tuple(paused(connection)),
    )


def _counts(found: Iterable[Sequence[Any]]) -> Mapping[str, int]:
    return {str(word): int(count) for word, count in found}


def paused(connection: Connection) -> list[values.PausedRuntime]:
    table = tables.paused_runtimes.c
    query = select(table.runtime, table.since, table.reason).order_by(table.runtime)
    return [values.PausedRuntime(*row) for row in connection.execute(query)]


def require(connection: Connection, slug: str) -> None:
    """Raises UnknownCard."""
    if connection.execute(select(_LINE.slug).where(_LINE.slug == slug)).first() is None:
        raise UnknownCard(slug)


_COSTS = (
    select(func.coalesce(tables.jobs.c.runtime, tables.jobs.c.queue), func.sum(tables.jobs.c.cost_usd))
    .where(tables.jobs.c.cost_usd.is_not(None))
    .group_by(func.coalesce(tables.jobs.c.runtime, tables.jobs.c.queue))
)
