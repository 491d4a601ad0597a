"""What every agent program has in common: how the driver starts it, and what it learns from it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from intent_board.runtimes.order import Order, Outcome
from intent_board.sandbox import Mount

#: What of the last texts is kept for the interim report.
LAST_TEXTS, LAST_TEXT_CHARACTERS = 5, 4000


@dataclass(frozen=True, slots=True)
class Places:
    """Where the run's own directories are: `outside` on the host, the others as the program sees them.

    `state` is writable scratch (the program's home and transcripts), `gate` is read-only for it.
    """

    outside: Path
    state: Path
    gate: Path
    report: Path | None

    @property
    def state_outside(self) -> Path:
        return self.outside / "state"

    @property
    def gate_outside(self) -> Path:
        return self.outside / "gate"


@dataclass(frozen=True, slots=True)
class Launch:
    """How a program is started.  The driver adds the tree, the state and what the order mounts."""

    argv: tuple[str, ...]
    environment: Mapping[str, str]
    mounts: tuple[Mount, ...] = ()


@dataclass(frozen=True, slots=True)
class Verdict:
    """How a run ended, as far as the program tells."""

    outcome: Outcome
    reason: str
    text: str = ""
    retry_at: float | None = None


class Program(ABC):
    """One agent program in one run.  The driver feeds it every event line and asks it after each."""

    def __init__(self, order: Order) -> None:
        self.order = order
        #: Steps that are known to have been taken; may pass the limit, the driver cuts it.
        self.steps = 0
        #: Step N+1 begins: the driver ends the run now.
        self.over_limit = False
        #: It said its last word; it gets a few seconds to leave.
        self.finished = False
        #: Something that it will not get out of by itself: the driver ends the run with it.
        self.trouble: Verdict | None = None
        #: It waits for an answer of the model, and not for a tool.
        self.waiting_for_model = True
        self.usage: dict[str, int] = {}
        self.cost_usd: float | None = None
        self.last_texts: deque[str] = deque(maxlen=LAST_TEXTS)

    @abstractmethod
    def launch(self, places: Places) -> Launch:
        """How to start it."""

    @abstractmethod
    def event(self, event: dict[str, Any]) -> None:
        """Take in one line of its standard output."""

    @abstractmethod
    def verdict(self, exit_code: int, stderr: str, now: float) -> Verdict:
        """What it came to, after its end and all its events."""

    def poll(self) -> int:
        """Look at what it tells beside its standard output; returns how much of that there is so far."""
        return 0

    def grant(self) -> None:  # noqa: B027 - most programs need none
        """Called when the steps so far are recorded and the run may go on."""

    def close(self) -> None:  # noqa: B027
        """Release what `launch` opened."""

    def said(self, text: Any) -> None:
        """Remember one of its texts."""
        if isinstance(text, str) and text.strip():
            self.last_texts.append(text)


def number(value: Any) -> int:
    """A count from an event; whatever is no count is 0."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else 0


def short(text: str, limit: int = 500) -> str:
    """An error text as one line for a reason."""
    line = " ".join(text.split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


def complaint(stderr: str) -> str:
    """What a program that ended without an answer said of it, as one line; a reason must not end in a bare colon."""
    return short(stderr) or "it wrote nothing to standard error"
