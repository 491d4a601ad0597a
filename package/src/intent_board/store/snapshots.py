"""What a tick decides from, read in as few and narrow looks as possible.

The cost follows the cards that could move, not the cards there are: no index used here meets a closed card, a card
whose blockers are not all good is passed over inside the database, and so is a family in which nothing was parked or
completed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, TypeVar

from sqlalchemy import Connection, Select, and_, bindparam, exists, func, or_, select

from intent_board.board.model import (
    BUILDING,
    PARKED,
    SUCCESS,
    Family,
    Kind,
    Lease,
    Member,
    Phase,
    Snapshot,
    Status,
    Waiting,
)
from intent_board.board.schedule import has_room
from intent_board.config import BoardConfig
from intent_board.store import rows
from intent_board.store.tables import cards, dependencies, events, paused_runtimes

T = TypeVar("T")

#: Databases bound the number of values in one statement.
_CHUNK = 500
#: Looking a word up is several times faster than asking the enumeration.
_PHASES = {phase.value: phase for phase in Phase}
_STATUSES = {status.value: status for status in Status}


@dataclass(slots=True)
class Look:
    """A snapshot, and the cards that could not be read for it, each with the reason."""

    snapshot: Snapshot
    unreadable: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FamilyProof:
    """A family whose children are all good: are these commits still on the branch?"""

    parent: str
    repository: str
    branch: str | None
    commits: Mapping[str, str]


def look(
    connection: Connection, config: BoardConfig, off_branch: Mapping[str, Collection[str]], *, whole: bool = False
) -> Look:
    """One consistent look at the board.

    `off_branch` maps a parent to those of its children whose commits are not on the branch.  A family that is due for
    its synthesis and is not named there was not asked about, and is left out until it was.  `whole` takes in every
    waiting card and every family, for explanations; else only what could move.
    """
    unreadable: dict[str, str] = {}
    busy = {str(lane): int(count) for lane, count in connection.execute(_BUSY)}
    room = whole or has_room(config, busy)
    waiting = _waiting(connection, room, whole, unreadable)
    leases = _leases(connection, unreadable) if room else ()
    families = _families(connection, off_branch, whole, unreadable)
    paused = frozenset(str(runtime) for (runtime,) in connection.execute(select(paused_runtimes.c.runtime)))
    return Look(Snapshot(config, waiting, busy, leases, families, paused), unreadable)


def strays(connection: Connection) -> list[str]:
    """Cards in a phase that there is not; found between the known words of the index."""
    return [str(slug) for (slug,) in connection.execute(_STRAYS)]


def to_prove(connection: Connection) -> list[FamilyProof]:
    """Families whose children are all good and that have no synthesis yet."""
    grouped: dict[str, list[Sequence[Any]]] = defaultdict(list)
    for parent, *rest in connection.execute(_TO_PROVE):
        grouped[parent].append(rest)
    return [
        FamilyProof(parent, found[0][0], found[0][1], {slug: commit for _, _, slug, commit in found})
        for parent, found in grouped.items()
    ]


# --- waiting cards and leases ------------------------------------------------------------------------------------


def _waiting(connection: Connection, room: bool, whole: bool, unreadable: dict[str, str]) -> tuple[Waiting, ...]:
    found = list(connection.execute(_UNPLACED if whole else _NEWLY_READY))
    if room:
        found += connection.execute(_IN_LINE)
    blockers = _blockers(connection, [row[0] for row in found], unreadable)
    archived = _Ancestors(connection)

    def one(row: Sequence[Any]) -> Waiting:
        slug, repository, lane, line, scope, parent = row
        return Waiting(
            rows.text(slug),
            rows.text(repository),
            rows.text(lane),
            line if line is None else rows.number(line),
            rows.texts(scope),
            blockers.get(slug, ()),
            parent is not None and archived.any_above(parent),
        )

    return tuple(_readable(found, one, unreadable))


def _readable(
    found: Iterable[Sequence[Any]], decode: Callable[[Sequence[Any]], T], unreadable: dict[str, str]
) -> Iterator[T]:
    """Decode row after row; one that can't be is noted under its slug, the first column, and left out."""
    for row in found:
        try:
            yield decode(row)
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            unreadable[str(row[0])] = f"its stored row can't be read ({error})"


def _blockers(
    connection: Connection, slugs: Sequence[str], unreadable: dict[str, str]
) -> dict[str, tuple[Member, ...]]:
    found: dict[str, list[Member]] = defaultdict(list)
    for chunk in _chunks(slugs):
        for waiting, *row in connection.execute(_BLOCKERS, {"slugs": chunk}):
            found[waiting] += _readable([row], _member, unreadable)
    return {slug: tuple(members) for slug, members in found.items()}


def _member(row: Sequence[Any]) -> Member:
    slug, phase, status, good, reason = row[:5]
    return Member(rows.text(slug), _PHASES[phase], _STATUSES[status], good == 1, rows.text(reason))


class _Ancestors:
    """Whether a card or anything above it is archived; each is asked once."""

    def __init__(self, connection: Connection) -> None:
        self._connection, self._known = connection, dict[str, bool]()

    def any_above(self, slug: str) -> bool:
        if slug not in self._known:
            self._known[slug] = False  # ends a cycle, which only a damaged store has
            row = self._connection.execute(_PARENT, {"of": slug}).first()
            if row is not None:
                phase, parent = row
                above = parent is not None and self.any_above(parent)
                self._known[slug] = phase == Phase.ARCHIVIERT.value or above
        return self._known[slug]


def _leases(connection: Connection, unreadable: dict[str, str]) -> tuple[Lease, ...]:
    def one(row: Sequence[Any]) -> Lease:
        return Lease(rows.text(row[0]), rows.text(row[1]), rows.texts(row[2]))

    return tuple(_readable(connection.execute(_LEASES), one, unreadable))


# --- families ------------------------------------------------------------------------------------------------------


def _families(
    connection: Connection, off_branch: Mapping[str, Collection[str]], whole: bool, unreadable: dict[str, str]
) -> tuple[Family, ...]:
    parents = {str(slug): _PHASES[phase] for slug, phase in connection.execute(_PARENTS if whole else _MOVING_PARENTS)}
    blocking = _blocking(connection, [slug for slug, phase in parents.items() if phase is Phase.DURCH_KINDER_BLOCKIERT])
    members: dict[str, list[tuple[Member, Kind]]] = defaultdict(list)
    damaged: set[str] = set()
    for chunk in _chunks(list(parents)):
        for parent, kind, *row in connection.execute(_MEMBERS, {"parents": chunk}):
            try:
                members[parent].append((_member(row), Kind(kind)))
            except (ValueError, TypeError, KeyError) as error:
                # Without this member the family would look better than it is.
                damaged.add(parent)
                unreadable[str(row[0])] = f"its stored row can't be read ({error})"
    families = [
        _family(slug, phase, members[slug], blocking.get(slug, ()), tuple(off_branch.get(slug, ())))
        for slug, phase in parents.items()
        if slug not in damaged
    ]
    return tuple(family for family in families if whole or family.parent in off_branch or not _due(family))


def _family(
    parent: str,
    phase: Phase,
    members: Sequence[tuple[Member, Kind]],
    blocking: tuple[str, ...],
    off_branch: tuple[str, ...],
) -> Family:
    children = tuple(member for member, kind in members if kind is not Kind.SYNTHESIS)
    synthesis = next((member for member, kind in members if kind is Kind.SYNTHESIS), None)
    return Family(parent, phase, children, synthesis, blocking, off_branch)


def _due(family: Family) -> bool:
    """Only the proof that its commits are on the branch stands between this family and its synthesis."""
    return family.synthesis is None and bool(family.children) and all(child.good for child in family.children)


def _blocking(connection: Connection, parents: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """What each blocked parent was last said to be blocked by, from the audit."""
    found: dict[str, tuple[str, ...]] = {}
    for chunk in _chunks(parents):
        for slug, data in connection.execute(_LAST_BLOCKED, {"parents": chunk}):
            try:
                found[slug] = tuple(rows.text(one["slug"]) for one in rows.document(data)["blocking"])
            except (ValueError, TypeError, KeyError):
                found[slug] = ()  # then it is said once more, which mends it
    return found


def _chunks(values: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(values), _CHUNK):
        yield values[start : start + _CHUNK]


# --- the statements, made once so that their compiled form is found again -------------------------------------------


def _words(phases: Iterable[Phase]) -> list[str]:
    return sorted(phase.value for phase in phases)


_BUSY = (
    select(func.coalesce(cards.c.lane, ""), func.count())
    .where(cards.c.phase.in_(_words(BUILDING)))
    .group_by(cards.c.lane)
)
_FAMILY_PHASES = _words((Phase.WARTET_AUF_KINDER, Phase.DURCH_KINDER_BLOCKIERT))
_WAITING_COLUMNS = (
    cards.c.slug,
    cards.c.repository,
    cards.c.lane,
    cards.c.line,
    cards.c.write_scope,
    cards.c.parent,
)
_UNPLACED = (
    select(*_WAITING_COLUMNS).where(cards.c.phase == Phase.GEPLANT.value, cards.c.line.is_(None)).order_by(cards.c.slug)
)
_blocker = cards.alias("blocker")
_NEWLY_READY = _UNPLACED.where(
    ~exists(
        select(1)
        .select_from(dependencies.join(_blocker, _blocker.c.slug == dependencies.c.blocker))
        .where(dependencies.c.slug == cards.c.slug, _blocker.c.good == 0)
    )
)
_IN_LINE = (
    select(*_WAITING_COLUMNS)
    .where(cards.c.phase == Phase.GEPLANT.value, cards.c.line.is_not(None))
    .order_by(cards.c.line, cards.c.slug)
)
_MEMBER_COLUMNS = (cards.c.slug, cards.c.phase, cards.c.status, cards.c.good, cards.c.reason)
_BLOCKERS = (
    select(dependencies.c.slug, *_MEMBER_COLUMNS)
    .select_from(dependencies.join(cards, cards.c.slug == dependencies.c.blocker))
    .where(dependencies.c.slug.in_(bindparam("slugs", expanding=True)))
    .order_by(dependencies.c.slug, dependencies.c.place)
)
_PARENT = select(cards.c.phase, cards.c.parent).where(cards.c.slug == bindparam("of"))
_LEASES = select(cards.c.slug, cards.c.repository, cards.c.write_scope).where(
    or_(
        cards.c.phase.in_(_words((*BUILDING, Phase.IN_REVIEW, Phase.COMMITFREIGABE))),
        and_(
            cards.c.phase == Phase.KLAERUNG_REPARATUR.value,
            cards.c.status.in_([Status.QUEUED.value, Status.RUNNING.value]),
        ),
    )
)
_PARENTS = select(cards.c.slug, cards.c.phase).where(cards.c.phase.in_(_FAMILY_PHASES)).order_by(cards.c.slug)
_child = cards.alias("child")
_not_good = select(1).select_from(_child).where(_child.c.parent == cards.c.slug, _child.c.good == 0)
_MOVING_PARENTS = _PARENTS.where(
    or_(
        cards.c.phase == Phase.DURCH_KINDER_BLOCKIERT.value,
        exists(_not_good.where(_child.c.phase.in_(_words(PARKED | SUCCESS)))),
        ~exists(_not_good.where(_child.c.kind != Kind.SYNTHESIS.value)),
    )
)
_MEMBERS = (
    select(cards.c.parent, cards.c.kind, *_MEMBER_COLUMNS)
    .where(cards.c.parent.in_(bindparam("parents", expanding=True)))
    .order_by(cards.c.parent, cards.c.slug)
)
_newest = (
    select(func.max(events.c.id))
    .where(events.c.slug.in_(bindparam("parents", expanding=True)), events.c.event == "family_blocked")
    .group_by(events.c.slug)
)
_LAST_BLOCKED = select(events.c.slug, events.c.data).where(events.c.id.in_(_newest))
_synthesis = cards.alias("synthesis")
_TO_PROVE = (
    select(cards.c.slug, cards.c.repository, cards.c.branch, _child.c.slug, _child.c.commit)
    .select_from(cards.join(_child, _child.c.parent == cards.c.slug))
    .where(
        cards.c.phase.in_(_FAMILY_PHASES),
        ~exists(select(1).select_from(_blocker).where(_blocker.c.parent == cards.c.slug, _blocker.c.good == 0)),
        ~exists(
            select(1)
            .select_from(_synthesis)
            .where(_synthesis.c.parent == cards.c.slug, _synthesis.c.kind == Kind.SYNTHESIS.value)
        ),
    )
    .order_by(cards.c.slug, _child.c.slug)
)


def _between() -> Select[Any]:
    words = _words(Phase)
    gaps = [cards.c.phase < words[0], cards.c.phase > words[-1]]
    gaps += [and_(cards.c.phase > low, cards.c.phase < high) for low, high in pairwise(words)]
    return select(cards.c.slug).where(or_(*gaps))


_STRAYS = _between()
