"""What the store shows to its readers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from intent_board.board.model import Job


@dataclass(frozen=True, slots=True)
class CardLine:
    """A card as a list shows it.  Times are epoch seconds."""

    slug: str
    title: str
    phase: str
    status: str
    kind: str
    parent: str | None
    repository: str
    lane: str | None
    requester: str
    reason: str
    created_at: float
    updated_at: float
    phase_since: float


@dataclass(frozen=True, slots=True)
class JobLine:
    """A job with what came of it."""

    job: Job
    created_at: float
    started_at: float | None
    finished_at: float | None
    outcome: str | None
    reason: str
    runtime: str | None
    slot: int | None
    sandboxed: bool | None
    cost_usd: float | None
    outages: int
    role_version: str | None
    role_hash: str | None
    usage: Mapping[str, Any]
    result: Mapping[str, Any]

    @property
    def limit(self) -> int | None:
        """The attempt's iteration limit, where its snapshot fixes one."""
        profile = self.job.snapshot.get("profile")
        return profile.get("iteration_limit") if isinstance(profile, Mapping) else None


@dataclass(frozen=True, slots=True)
class Review:
    id: int
    job_id: int | None
    commit: str
    decision: str
    created_at: float
    report: Any


@dataclass(frozen=True, slots=True)
class Attachment:
    id: int
    kind: str
    job_id: int | None
    created_at: float
    data: Any


@dataclass(frozen=True, slots=True)
class Route:
    """A recommendation; `outcome` is pending, applied or dismissed."""

    id: int
    outcome: str
    closed_at: float | None
    created_at: float
    data: Any


@dataclass(frozen=True, slots=True)
class Answer:
    """What a run answered, word for word; `size` counts its bytes before it was cut."""

    job_id: int
    token: int
    event: str
    stale: bool
    cut: bool
    size: int
    created_at: float
    text: str


@dataclass(frozen=True, slots=True)
class AuditLine:
    id: int
    at: float
    slug: str | None
    event: str
    actor: str
    data: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Notification:
    """A fact that is still to be sent."""

    id: int
    slug: str
    event: str
    text: str
    to_requester: bool
    requester: str
    created_at: float
    tries: int


@dataclass(frozen=True, slots=True)
class NotificationLine:
    """A fact as a list shows it; `state` is due, sent, unwanted or expired."""

    note: Notification
    state: str
    retry_at: float
    sent_at: float | None
    error: str


@dataclass(frozen=True, slots=True)
class Delivery:
    """What became of one fact at one target; `state` is sending (its end is unknown), sent or failed."""

    state: str
    tries: int
    retry_at: float


@dataclass(frozen=True, slots=True)
class TargetHealth:
    """How often in a row a target failed, and until when it is left alone."""

    failures: int
    retry_at: float


@dataclass(frozen=True, slots=True)
class WantedRef:
    """A commit (None: the card's tree as it stands) to keep alive under refs/board/<slug>."""

    id: int
    slug: str
    repository: str
    commit: str | None


@dataclass(frozen=True, slots=True)
class PausedRuntime:
    runtime: str
    since: float
    reason: str


@dataclass(frozen=True, slots=True)
class BoardStatus:
    """The board at a glance: what runs, what waits per queue, cards per phase, money per runtime."""

    running: tuple[JobLine, ...]
    queued: Mapping[str, int]
    phases: Mapping[str, int]
    cost_usd: Mapping[str, float] = field(default_factory=dict)
    paused: tuple[PausedRuntime, ...] = ()
