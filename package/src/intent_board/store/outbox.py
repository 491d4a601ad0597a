"""What is to be told or kept outside of the store, each once and until it got through."""

from __future__ import annotations

from sqlalchemy import Connection, bindparam, or_, select, update

from intent_board.store import rows, values
from intent_board.store.tables import cards, notifications, refs_wanted


def due(connection: Connection, now: float, limit: int) -> list[values.Notification]:
    """Facts to be sent now, oldest first."""
    return [values.Notification(*row) for row in connection.execute(_DUE.limit(limit), {"now": now})]


def sent(connection: Connection, identity: int, now: float) -> None:
    connection.execute(_SENT, {"of": identity, "at": now})


def failed(connection: Connection, identity: int, retry_at: float, error: str) -> None:
    connection.execute(_FAILED, {"of": identity, "at": retry_at, "why": rows.clean(error)})


def wanted(connection: Connection) -> list[values.WantedRef]:
    """Commits to be kept alive, in the order in which it was decided."""
    return [values.WantedRef(*row) for row in connection.execute(_WANTED)]


def kept(connection: Connection, identity: int, now: float) -> None:
    connection.execute(_KEPT, {"of": identity, "at": now})


_note = notifications.c
_DUE = (
    select(
        _note.id,
        _note.slug,
        _note.event,
        _note.text,
        _note.to_requester,
        cards.c.requester,
        _note.created_at,
        _note.tries,
    )
    .select_from(notifications.join(cards, cards.c.slug == _note.slug))
    # A failed sending is repeated within a day; a time further away comes from a clock that has jumped.
    .where(_note.state == "due", or_(_note.retry_at <= bindparam("now"), _note.retry_at > bindparam("now") + 86400))
    .order_by(_note.id)
)
_SENT = (
    update(notifications)
    .where(_note.id == bindparam("of"), _note.state == "due")
    .values(state="sent", sent_at=bindparam("at"), tries=_note.tries + 1, error="")
)
_FAILED = (
    update(notifications)
    .where(_note.id == bindparam("of"), _note.state == "due")
    .values(retry_at=bindparam("at"), tries=_note.tries + 1, error=bindparam("why"))
)
_WANTED = (
    select(refs_wanted.c.id, refs_wanted.c.slug, refs_wanted.c.repository, refs_wanted.c.commit)
    .where(refs_wanted.c.state == "wanted")
    .order_by(refs_wanted.c.id)
)
_KEPT = update(refs_wanted).where(refs_wanted.c.id == bindparam("of")).values(state="kept", kept_at=bindparam("at"))
