"""How a deployment can end."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Outcome(StrEnum):
    """How a deployment ended."""

    DEPLOYED = "deployed"
    ALREADY = "already_deployed"
    REFUSED = "refused"
    BUSY = "busy"
    FAILED = "failed"
    ROLLED_BACK = "rolled_back"
    ROLLBACK_FAILED = "rollback_failed"
    INTERRUPTED = "interrupted"


GOOD = frozenset({Outcome.DEPLOYED, Outcome.ALREADY})


@dataclass(frozen=True, slots=True)
class Report:
    """What came of one deployment: `sentence` for a person, the rest for the record."""

    slug: str
    outcome: Outcome
    sentence: str
    deployment: int | None = None
    commit: str | None = None


@dataclass(frozen=True, slots=True)
class Flags:
    """What only a person may ask for; both are recorded."""

    first: bool = False
    allow_older: bool = False

    @property
    def by_person(self) -> bool:
        """Whether a person said anything; the units say nothing."""
        return self.first or self.allow_older


NO_FLAGS = Flags()
