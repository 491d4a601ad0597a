"""What a run is asked for, and what it came to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from intent_board.config import BoardConfig, Runtime
from intent_board.sandbox import Mount


class Outcome(StrEnum):
    """How a run ended.  Only ANSWERED carries an answer; what it is worth is for a contract to say."""

    ANSWERED = "answered"
    LIMIT_REACHED = "limit_reached"
    TIMED_OUT = "timed_out"
    OUTAGE = "outage"
    RATE_LIMITED = "rate_limited"
    QUOTA = "quota"
    BAD_CREDENTIALS = "bad_credentials"
    REFUSED_CONFIGURATION = "refused_configuration"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Order:
    """One run of one agent program.

    `text` goes to its standard input.  `tree` is mounted at its own path, writable only when the role `writes`.
    `iteration_limit` is the number of steps this run may still take.  `run_dir` is made and removed by the run;
    nothing else may live in it but the directory of `report_path`.  That directory is mounted writable, becomes
    `$INTENT_BOARD_REPORT`, and must be the report's alone.  `secrets` maps environment variables to values.
    """

    runtime: str
    config: BoardConfig
    model: str | None
    reasoning_effort: str | None
    text: str
    tree: Path
    writes: bool
    iteration_limit: int
    timeout_seconds: float
    idle_seconds: float
    run_dir: Path
    secrets: Mapping[str, str]
    report_path: Path | None = None
    extra_mounts: tuple[Mount, ...] = ()
    allowed_commands: tuple[str, ...] = ()
    nix_daemon: bool = False
    lock_fd: int | None = None

    @property
    def profile(self) -> Runtime:
        """The configured runtime this order names."""
        return self.config.runtimes[self.runtime]


@dataclass(frozen=True, slots=True)
class RunResult:
    """What a run left.  `text` is empty unless it ANSWERED; `last_texts` are its last words in any case.

    `iterations` is what the program really did, never more than the order's limit.  `cut` says that a line or the
    whole output was longer than allowed.  `retry_at` is epoch seconds, where the provider named a time.  No text
    contains a secret of the order.
    """

    outcome: Outcome
    text: str
    last_texts: tuple[str, ...]
    iterations: int
    usage: Mapping[str, int]
    cost_usd: float | None
    reason: str
    retry_at: float | None
    sandboxed: bool
    cut: bool
    exit_code: int | None
    seconds: float
