"""What is to be told or kept outside of the store, each once and until it got through."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from sqlalchemy import Connection, bindparam, delete, insert, or_, select, update

from intent_board.store import rows, values
from intent_board.store.tables import cards, deliveries, notifications, notify_targets, refs_wanted

#: The bell of the program that sends.
BELL = "notify"


def due(connection: Connection, now: float, limit: int) -> list[values.Notification]:
    """Facts to be sent now, oldest first."""
    return [values.Notification(*row) for row in connection.execute(_DUE.limit(limit), {"now": now})]


def is_due(connection: Connection, now: float) -> bool:
    """Whether there is something to send now."""
    return connection.execute(_IS_DUE, {"now": now}).first() is not None


def lines(connection: Connection, limit: int, settled: bool) -> list[values.NotificationLine]:
    """The outbox for somebody who looks, newest first; `settled` takes in what needs no more sending."""
    query = _LINES if settled else _LINES.where(_note.state == "due")
    found = connection.execute(query.limit(limit))
    return [values.NotificationLine(values.Notification(*row[:8]), row[8], row[9], row[10], row[11]) for row in found]


def sent(connection: Connection, identity: int, now: float) -> None:
    connection.execute(_SENT, {"of": identity, "at": now})


def failed(connection: Connection, identity: int, retry_at: float, error: str) -> None:
    connection.execute(_FAILED, {"of": identity, "at": retry_at, "why": rows.clean(error)})


def put_off(connection: Connection, identity: int, until: float) -> None:
    """Nothing was tried; look at it again then."""
    connection.execute(_PUT_OFF, {"of": identity, "at": until})


def unwanted(connection: Connection, identity: int) -> None:
    """Nobody is to be told."""
    connection.execute(_SETTLE, {"of": identity, "to": "unwanted"})


def expire(connection: Connection, before: float) -> int:
    """Let go of what could not be sent for so long that it is no news any more; how many."""
    return connection.execute(_EXPIRE, {"before": before}).rowcount


# --- who got what ---------------------------------------------------------------------------------------------------


def told(connection: Connection, identities: Sequence[int]) -> dict[int, dict[str, values.Delivery]]:
    """What was delivered or tried of these facts, by target."""
    found: dict[int, dict[str, values.Delivery]] = defaultdict(dict)
    for identity, target, *rest in connection.execute(_TOLD, {"those": list(identities)}):
        found[identity][target] = values.Delivery(*rest)
    return dict(found)


def health(connection: Connection) -> dict[str, values.TargetHealth]:
    return {target: values.TargetHealth(*rest) for target, *rest in connection.execute(_HEALTH)}


def begin(connection: Connection, identity: int, target: str, now: float, retry_at: float) -> None:
    """A sending begins: from now on nobody can say that the target did not get it."""
    key = {"of": identity, "at_target": target}
    tries = int(connection.execute(_TRIES, key).scalar() or 0) + 1
    connection.execute(_FORGET, key)
    row = {"notification_id": identity, "target": target, "state": "sending", "tries": tries, "retry_at": retry_at}
    connection.execute(insert(deliveries), {**row, "begun_at": now})


def delivered(connection: Connection, identity: int, target: str) -> None:
    connection.execute(_END, {"of": identity, "at_target": target, "to": "sent", "why": ""})
    connection.execute(_WELL, {"at_target": target})


def not_delivered(connection: Connection, identity: int, target: str, error: str, *, certain: bool) -> None:
    """The try came to nothing; not `certain`: the target may have it all the same."""
    state = "failed" if certain else "sending"
    connection.execute(_END, {"of": identity, "at_target": target, "to": state, "why": rows.clean(error)})


def unwell(connection: Connection, target: str, failures: int, retry_at: float, error: str) -> None:
    """The target failed, for the `failures`th time in a row; leave it alone until `retry_at`."""
    connection.execute(_WELL, {"at_target": target})
    row = {"target": target, "failures": failures, "retry_at": retry_at, "error": rows.clean(error)}
    connection.execute(insert(notify_targets), row)


def wanted(connection: Connection) -> list[values.WantedRef]:
    """Commits to be kept alive, in the order in which it was decided."""
    return [values.WantedRef(*row) for row in connection.execute(_WANTED)]


def kept(connection: Connection, identity: int, now: float) -> None:
    connection.execute(_KEPT, {"of": identity, "at": now})


_note = notifications.c
_COLUMNS = (
    _note.id,
    _note.slug,
    _note.event,
    _note.text,
    _note.to_requester,
    cards.c.requester,
    _note.created_at,
    _note.tries,
)
_OF_CARDS = notifications.join(cards, cards.c.slug == _note.slug)
# A failed sending is repeated within a day; a time further away comes from a clock that has jumped.
_now = (_note.state == "due", or_(_note.retry_at <= bindparam("now"), _note.retry_at > bindparam("now") + 86400))
_DUE = select(*_COLUMNS).select_from(_OF_CARDS).where(*_now).order_by(_note.id)
# Without an order, so that every tick can ask the index.
_IS_DUE = select(1).select_from(notifications).where(*_now).limit(1)
_LINES = (
    select(*_COLUMNS, _note.state, _note.retry_at, _note.sent_at, _note.error)
    .select_from(_OF_CARDS)
    .order_by(_note.id.desc())
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
_OPEN = update(notifications).where(_note.id == bindparam("of"), _note.state == "due")
_PUT_OFF = _OPEN.values(retry_at=bindparam("at"))
_SETTLE = _OPEN.values(state=bindparam("to"))
_EXPIRE = (
    update(notifications).where(_note.state == "due", _note.created_at < bindparam("before")).values(state="expired")
)
_key = (deliveries.c.notification_id == bindparam("of"), deliveries.c.target == bindparam("at_target"))
_TRIES = select(deliveries.c.tries).where(*_key)
_FORGET = delete(deliveries).where(*_key)
_END = update(deliveries).where(*_key).values(state=bindparam("to"), error=bindparam("why"))
_TOLD = select(
    deliveries.c.notification_id,
    deliveries.c.target,
    deliveries.c.state,
    deliveries.c.tries,
    deliveries.c.retry_at,
).where(deliveries.c.notification_id.in_(bindparam("those", expanding=True)))
_HEALTH = select(notify_targets.c.target, notify_targets.c.failures, notify_targets.c.retry_at)
_WELL = delete(notify_targets).where(notify_targets.c.target == bindparam("at_target"))
_WANTED = (
    select(refs_wanted.c.id, refs_wanted.c.slug, refs_wanted.c.repository, refs_wanted.c.commit)
    .where(refs_wanted.c.state == "wanted")
    .order_by(refs_wanted.c.id)
)
_KEPT = update(refs_wanted).where(refs_wanted.c.id == bindparam("of")).values(state="kept", kept_at=bindparam("at"))
