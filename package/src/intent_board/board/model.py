"""The values that the rules speak about: cards, jobs, what happened, and the effects that follow.

Nothing here touches a file or a clock.  The store builds these values from its rows and applies the effects; no
other code changes a card.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from intent_board.config import BoardConfig


class Phase(StrEnum):
    """The column a card stands in.  Wire names, never translated in data."""

    GEPLANT = "geplant"
    OPERATOR_PRUEFUNG = "operator_pruefung"
    OPERATOR_KLAERUNG = "operator_klaerung_noetig"
    STARTFREIGABE = "wartet_auf_startfreigabe"
    COMMITFREIGABE = "wartet_auf_commitfreigabe"
    IN_UMSETZUNG = "in_umsetzung"
    IN_UMSETZUNG_LEICHT = "in_umsetzung_leicht"
    IN_REVIEW = "im_review"
    KLAERUNG_REPARATUR = "klaerung_reparatur"
    PLANUNG_MIT_FEEDBACK = "planung_mit_feedback"
    WARTET_AUF_KINDER = "wartet_auf_kinder"
    DURCH_KINDER_BLOCKIERT = "durch_kinder_blockiert"
    BEREIT = "bereit_fuer_deployment"
    DEPLOYED = "deployed"
    ARCHIVIERT = "archiviert"


BUILDING = frozenset({Phase.IN_UMSETZUNG, Phase.IN_UMSETZUNG_LEICHT})
FAILURE = frozenset({Phase.KLAERUNG_REPARATUR, Phase.PLANUNG_MIT_FEEDBACK})
SUCCESS = frozenset({Phase.BEREIT, Phase.DEPLOYED})
#: docs/states.md (e): a card that moves no further without a person.
PARKED = FAILURE | {Phase.OPERATOR_KLAERUNG, Phase.ARCHIVIERT}
FINAL = frozenset({Phase.DEPLOYED, Phase.ARCHIVIERT})


class Status(StrEnum):
    """What the last or present job of a card came to."""

    WAITING_FOR_BUILDER = "waiting_for_builder"
    QUEUED = "queued"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    LIMIT_REACHED = "limit_reached"
    TIMED_OUT = "timed_out"
    NEEDS_INPUT = "needs_input"
    NO_CHANGES = "no_changes"
    NOT_APPLICABLE = "not_applicable"
    CHECK_FAILED = "check_failed"
    PUBLISH_FAILED = "publish_failed"
    DEPLOY_FAILED = "deploy_failed"
    CANCELLED = "cancelled"


class Kind(StrEnum):
    """A card's place in a family."""

    ORDINARY = "ordinary"
    PARENT = "parent"
    CHILD = "child"
    SYNTHESIS = "synthesis"


class JobState(StrEnum):
    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class Profile:
    """What a builder attempt runs with.  A job stores it as its snapshot."""

    runtime: str
    model: str | None
    reasoning_effort: str | None
    iteration_limit: int


@dataclass(frozen=True, slots=True)
class Rung:
    """One step of a ladder; runtime and lane never change on it."""

    model: str
    reasoning_effort: str | None
    iteration_limit: int


@dataclass(frozen=True, slots=True)
class Card:
    """What the board remembers of one intent.

    `ladder` None means that no ladder was decided (one flat retry), `()` that no further attempt is wanted.
    `rung` counts the attempts of this round that ended at their limit.  `line` is the place in line, a number of
    the store's own sequence and not a time, so that a clock that jumps reorders nobody.  `attempts` holds the number
    of jobs made so far per role.  `commit` is the trusted commit in question, `reviewed` the hash that a positive
    review names, `released` the hash (or, after a clean rebase, its successor) that the owner released.
    `iterations` is the limit that the submitter asked for in place of the lane's.
    """

    slug: str
    title: str
    repository: str
    requester: str
    phase: Phase
    status: Status
    kind: Kind = Kind.ORDINARY
    parent: str | None = None
    lane: str | None = None
    profile: Profile | None = None
    ladder: tuple[Rung, ...] | None = None
    rung: int = 0
    round: int = 1
    attempts: Mapping[str, int] = field(default_factory=dict)
    line: int | None = None
    wave: int | None = None
    blocked_by: tuple[str, ...] = ()
    write_scope: tuple[str, ...] = ()
    acceptance_criteria: tuple[str, ...] = ()
    branch: str | None = None
    base: str | None = None
    commit: str | None = None
    reviewed: str | None = None
    released: str | None = None
    by_hand: bool = False
    iterations: int | None = None
    reason: str = ""
    human_action: str | None = None
    question: str | None = None
    asked_by: str | None = None
    publish_rounds: int = 0
    repairs: int = 0
    automatic_repairs: int = 0
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Job:
    """One atomic session of one role for one card.

    `token` is the fencing token: it grows with every claim, and only the holder of the newest may write.
    `used_iterations` counts over all runs of this attempt.  `not_before` is epoch seconds.  `snapshot` holds what the
    run was ordered to work on (a profile, hashes, a nonce); it never changes after the job was made.
    """

    id: int
    slug: str
    role: str
    queue: str
    attempt: int
    round: int
    state: JobState
    token: int
    snapshot: Mapping[str, Any]
    interruptions: int = 0
    used_iterations: int = 0
    not_before: float = 0.0


# --- effects: what the rules answer, and the store applies in one transaction ---------------------------------


@dataclass(frozen=True, slots=True)
class UpdateCard:
    """Set `values` (names of Card's fields) on a card that still stands in `expect`; else nothing is applied."""

    slug: str
    expect: Phase
    values: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class CreateCard:
    """A new card with its intent text.  A slug that is taken refuses the whole transaction."""

    card: Card
    intent: str


@dataclass(frozen=True, slots=True)
class ReplaceIntent:
    """Another text for a card's intent; the earlier ones are kept as versions."""

    slug: str
    intent: str


@dataclass(frozen=True, slots=True)
class CreateJob:
    """A queued job; (card, role, attempt) is unique, so that the same decision can't dispatch twice."""

    slug: str
    role: str
    queue: str
    attempt: int
    round: int
    snapshot: Mapping[str, Any]
    not_before: float = 0.0


@dataclass(frozen=True, slots=True)
class CancelJobs:
    """Every queued or running job of a card becomes cancelled; a running worker's token is stale from then on."""

    slug: str


@dataclass(frozen=True, slots=True)
class Notify:
    """A fact for a person: sent once, whatever restarts.  `event` is one of config.NotificationEvent."""

    event: str
    slug: str
    text: str
    to_requester: bool = False


@dataclass(frozen=True, slots=True)
class KeepRef:
    """Keep work alive in the mirror under refs/board/<slug> although its card goes no further.

    `commit` None keeps the card's tree as it stands.
    """

    slug: str
    commit: str | None


@dataclass(frozen=True, slots=True)
class Record:
    """One line of the append-only audit: what happened to a card, and by whom."""

    slug: str
    event: str
    actor: str
    data: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AddReview:
    """A reviewer's valid report about one commit; `decision` is its wire word."""

    slug: str
    job_id: int
    commit: str
    decision: str
    report: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Attach:
    """A document that stays with a card.

    `kind` is one of interim_report, answer, findings, inspection, discrepancy, route, release, deployment, notes.
    An attachment is never changed; a route is closed by `CloseRoute`.
    """

    slug: str
    kind: str
    data: Mapping[str, Any]
    job_id: int | None = None


@dataclass(frozen=True, slots=True)
class CloseRoute:
    """The pending route `id` was applied or dismissed."""

    slug: str
    id: int
    outcome: str


@dataclass(frozen=True, slots=True)
class Happen:
    """An event for one card: the store loads the card and carries out the event's own effects.

    From `plan` each is a transaction of its own, so that one bad card hurts only itself; among the effects of a
    step it belongs to that step's transaction.
    """

    slug: str
    event: str
    data: Mapping[str, Any] = field(default_factory=dict)


Effect = (
    UpdateCard
    | CreateCard
    | ReplaceIntent
    | CreateJob
    | CancelJobs
    | Notify
    | KeepRef
    | Record
    | AddReview
    | Attach
    | CloseRoute
    | Happen
)

#: In `UpdateCard.values["line"]` or `Card.line`: the store puts in the next number of its sequence.
NEXT_LINE = -1


# --- what `plan` sees --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Member:
    """A card as its relatives and dependants see it.

    `good` is success *and* a positive review of the card's own commit; a phase alone never unblocks anybody.
    """

    slug: str
    phase: Phase
    status: Status
    good: bool
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Waiting:
    """A card in `geplant`.  `line` None: its dependencies (`blockers`) were not all good at the last tick."""

    slug: str
    repository: str
    lane: str
    line: int | None
    write_scope: tuple[str, ...] = ()
    blockers: tuple[Member, ...] = ()
    ancestor_archived: bool = False


@dataclass(frozen=True, slots=True)
class Lease:
    """The write scope that a card holds in its repository from build to publish."""

    slug: str
    repository: str
    write_scope: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Family:
    """A parent in `wartet_auf_kinder` or `durch_kinder_blockiert` with its children and its synthesis card.

    `off_branch` names the children whose commits are not ancestors of the branch (empty while nobody asked).
    """

    parent: str
    phase: Phase
    children: tuple[Member, ...]
    synthesis: Member | None = None
    blocking: tuple[str, ...] = ()
    off_branch: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One consistent look at everything a tick decides from.

    `busy` counts the cards in a building phase per lane.  `waiting` is in the order of `line`; the store may leave
    it empty (but for cards with `line` None) when no lane has room, since nothing could be dispatched then.
    `paused_runtimes` are those whose credentials were refused.
    """

    config: BoardConfig
    waiting: tuple[Waiting, ...] = ()
    busy: Mapping[str, int] = field(default_factory=dict)
    leases: tuple[Lease, ...] = ()
    families: tuple[Family, ...] = ()
    paused_runtimes: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Facts:
    """What an event brings along, for `states.step`.

    `actor` is a user's name, `board` for trusted code.  `data` is the event's payload, already validated.  `taken`
    are the slugs among those the event would create that exist already.  `children` are a parent's cards, its
    synthesis included.  `intent` is the card's own text.  `nonce` is fresh and unguessable for every event: a review
    job made by it carries it.  `route` is the newest pending recommendation with its `id`, if there is one.
    """

    config: BoardConfig
    now: float
    actor: str
    data: Mapping[str, Any] = field(default_factory=dict)
    job: Job | None = None
    taken: frozenset[str] = frozenset()
    children: tuple[Card, ...] = ()
    intent: str = ""
    nonce: str = ""
    route: Mapping[str, Any] | None = None


class Refused(Exception):
    """Something that the rules do not allow now; `str()` is one sentence: what, where, what to do."""
