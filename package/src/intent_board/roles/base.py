"""What every role shares: what it is given, what it gives back, and the one way to run an agent program."""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from intent_board import runtimes, sandbox
from intent_board.board.states import Event
from intent_board.boundaries import boundary
from intent_board.config import BoardConfig
from intent_board.roles.text import RoleText
from intent_board.runtimes import Credentials, MissingCredential, RunResult
from intent_board.sandbox import Mount, SandboxUnavailable
from intent_board.store import Claim, Store
from intent_board.workspace import CheckResult, Workspace

log = logging.getLogger(__name__)

#: Nothing was wrong with the work, so the job waits and no ladder is climbed.
WAITS = frozenset({runtimes.Outcome.OUTAGE, runtimes.Outcome.RATE_LIMITED, runtimes.Outcome.QUOTA})
#: The end of a check's output is where the error stands.
CHECK_OUTPUT_SHOWN = 8 * 1024


class Stopped(Exception):
    """The worker was told to end; the run is ended, and recovery queues the job again."""


@dataclass(slots=True)
class Signals:
    """Whether the worker was told to end, and whether that may interrupt what it is doing now."""

    stopping: bool = False
    interruptible: bool = False

    def stop(self) -> None:
        """Called by the signal handler: an effect is finished, a run is ended."""
        self.stopping = True
        if self.interruptible:
            # Once only: a second signal must not break off the run's own ending.
            self.interruptible = False
            raise Stopped

    @contextmanager
    def running(self) -> Iterator[None]:
        """A run that may be interrupted at any moment."""
        self.interruptible = True
        try:
            # Looked at after the switch, so that a signal just before it is not missed.
            if self.stopping:
                raise Stopped
            yield
        finally:
            self.interruptible = False

    @contextmanager
    def effect(self) -> Iterator[None]:
        """An effect inside a run, which a signal must not tear."""
        before, self.interruptible = self.interruptible, False
        try:
            yield
        finally:
            self.interruptible = before
        if self.stopping:
            raise Stopped


@dataclass(frozen=True, slots=True)
class Context:
    """What a role works with."""

    config: BoardConfig
    store: Store
    workspace: Workspace
    credentials: Credentials
    signals: Signals = field(default_factory=Signals)
    now: Callable[[], float] = time.time


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a job came to: an event with its data for the store, the raw answer, and what is kept about the run."""

    event: Event
    data: Mapping[str, Any]
    raw: str = ""
    result: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PutBack:
    """The job waits: its phase stays, no rung is climbed.  `runtime_paused` names a runtime with bad credentials."""

    not_before: float
    reason: str
    runtime_paused: str | None = None
    result: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Engine:
    """What a run is driven by: the attempt's snapshot or the queue's profile, and the queue's limits."""

    runtime: str
    model: str | None
    reasoning_effort: str | None
    iteration_limit: int
    timeout_seconds: float


def engine(claim: Claim, config: BoardConfig) -> Engine:
    """The engine of a job.

    A builder uses its own snapshot, a review and a repair that of their builder; other roles use their queue's profile.
    How many steps and how much time a review or repair has is its queue's matter.
    """
    job = claim.job
    seconds = queue_seconds(job.queue, config)
    queue, profile = config.queues.get(job.queue), job.snapshot.get("profile")
    if profile is not None:
        limit = profile["iteration_limit"] if queue is None else queue.iteration_limit
        return Engine(profile["runtime"], profile["model"], profile["reasoning_effort"], limit, seconds)
    if queue is None or queue.runtime is None:
        raise ValueError(f"neither job {job.id} of {job.slug} nor its queue {job.queue!r} names a runtime")
    return Engine(queue.runtime, queue.model, queue.reasoning_effort, queue.iteration_limit, seconds)


def queue_seconds(queue: str, config: BoardConfig) -> float:
    """How long one run of a queue may take."""
    lane = next((lane for name, lane in config.lanes.items() if config.lane_queue(name) == queue), None)
    return (lane.timeout_minutes if lane else config.queues[queue].timeout_minutes) * 60.0


def remaining(claim: Claim, config: BoardConfig) -> int:
    """Steps that are left of this attempt; those of interrupted runs are counted on."""
    return engine(claim, config).iteration_limit - claim.job.used_iterations


# --- the run ---------------------------------------------------------------------------------------------------


def run(
    claim: Claim,
    context: Context,
    text: str,
    tree: Path,
    *,
    writes: bool,
    mounts: Sequence[Mount] = (),
    report: Path | None = None,
    nix_daemon: bool = False,
) -> RunResult | PutBack:
    """One run of the job's agent program with an order, or its kept answer when an earlier worker died after it.

    Returns what it came to, or that the job waits.  Raises StaleClaim when the job was taken away, Stopped when the
    worker was told to end.
    """
    chosen = engine(claim, context.config)
    runtime = context.config.runtimes.get(chosen.runtime)
    if runtime is None:
        reason = f"there is no runtime {chosen.runtime!r} any more; declare it, then board retry {claim.card.slug}"
        return _not_run(runtimes.Outcome.FAILED, reason)
    if kept := _kept_answer(claim, context.config):
        return kept
    left = chosen.iteration_limit - claim.job.used_iterations
    if left <= 0:
        reason = f"all {chosen.iteration_limit} steps were used by runs of this attempt that were interrupted"
        return _not_run(runtimes.Outcome.LIMIT_REACHED, reason)
    try:
        secrets = {variable: context.credentials.get(name) for variable, name in runtime.credentials.items()}
        # A host that can't protect itself is nobody's fault on the board: the job waits, and no card is parked.
        sandbox.sandboxed(context.config.board.sandbox)
    except MissingCredential as error:
        return PutBack(retry_time(claim, context, None), str(error), chosen.runtime)
    except SandboxUnavailable as error:
        return PutBack(retry_time(claim, context, None), str(error))
    role = context.config.roles.get(claim.job.role)
    order = runtimes.Order(
        runtime=chosen.runtime,
        config=context.config,
        model=chosen.model,
        reasoning_effort=chosen.reasoning_effort,
        text=text,
        tree=tree,
        writes=writes,
        extra_mounts=tuple(mounts),
        iteration_limit=left,
        timeout_seconds=chosen.timeout_seconds,
        idle_seconds=runtime.idle_timeout_minutes * 60.0,
        run_dir=run_dir(claim, context.config),
        report_path=report,
        secrets=secrets,
        allowed_commands=role.allowed_commands if role else (),
        nix_daemon=nix_daemon,
        lock_fd=claim.lock_fd,
    )
    result = _run(claim, context, order)
    boundary("run ended")
    return _judge(claim, context, chosen, result)


def _run(claim: Claim, context: Context, order: runtimes.Order) -> RunResult:
    used = claim.job.used_iterations

    def on_step(number: int) -> None:
        # The count is stored before the step's work goes on, so that no kill gives a step for free.
        with context.signals.effect():
            context.store.progress(claim, used + number)

    with context.signals.running():
        return runtimes.run(order, on_step=on_step)


def _judge(claim: Claim, context: Context, chosen: Engine, result: RunResult) -> RunResult | PutBack:
    if result.outcome is runtimes.Outcome.ANSWERED:
        _keep_answer(claim, context.config, result)
        return result
    if result.outcome in WAITS:
        return PutBack(retry_time(claim, context, result.retry_at), result.reason, result=_spent(result))
    if result.outcome is runtimes.Outcome.BAD_CREDENTIALS:
        return PutBack(retry_time(claim, context, None), result.reason, chosen.runtime, _spent(result))
    if result.outcome is runtimes.Outcome.REFUSED_CONFIGURATION:
        return failed(result, result.reason)
    return result


def _not_run(outcome: runtimes.Outcome, reason: str) -> RunResult:
    """What stands for the result of a run that was not made."""
    return RunResult(
        outcome=outcome,
        text="",
        last_texts=(),
        iterations=0,
        usage={},
        cost_usd=None,
        reason=reason,
        retry_at=None,
        sandboxed=True,
        cut=False,
        exit_code=None,
        seconds=0.0,
    )


def failed(result: RunResult, reason: str) -> RunResult:
    """The same run, but what it answered counts for nothing."""
    return replace(result, outcome=runtimes.Outcome.FAILED, reason=reason)


def retry_time(claim: Claim, context: Context, retry_at: float | None) -> float:
    """When a job that met an outage may run again: at the provider's own time, else after a doubling pause.

    A provider whose time came and that refuses again is not believed alone any more: the pause holds then, too, so
    that one who always says "in a second" is not asked every second.
    """
    scheduler, now = context.config.scheduler, context.now()
    line = context.store.job(claim.job.id)
    # Bounded before it is used as an exponent: the count only grows.
    doublings = min(line.outages if line else 0, 20)
    own = retry_at if retry_at is not None and retry_at > now else None
    if own is not None and not doublings:
        return own
    pause: int = scheduler.outage_backoff_initial_seconds * 2**doublings
    return max(own or 0.0, now + min(pause, scheduler.outage_backoff_max_seconds))


def run_dir(claim: Claim, config: BoardConfig) -> Path:
    """The directory of one run: job and token, so that a run started again never meets the old one's files."""
    return config.state_dir / "runs" / f"{claim.job.id}-{claim.token}"


def report_file(claim: Claim, config: BoardConfig) -> Path:
    """Where the agent keeps its report: not with the run, so that one whose worker died leaves it to the next."""
    return config.state_dir / "reports" / f"{claim.card.slug}.{claim.job.id}" / "report.json"


# --- the kept answer -------------------------------------------------------------------------------------------
#
# A run costs money and its steps can't be had again: once it has answered, a worker that dies in the trusted work after
# it must find the answer, and not have an attempt at its last step come out as "limit reached".


def answer_file(claim: Claim, config: BoardConfig) -> Path:
    return config.state_dir / "answers" / f"job-{claim.job.id}.json"


def _keep_answer(claim: Claim, config: BoardConfig, result: RunResult) -> None:
    file = answer_file(claim, config)
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    part = file.with_suffix(f".{claim.token}.part")
    with part.open("w", encoding="utf-8", errors="surrogatepass") as stream:
        json.dump(asdict(result), stream)
        stream.flush()
        os.fsync(stream.fileno())
    part.replace(file)
    boundary("answer kept")


def _kept_answer(claim: Claim, config: BoardConfig) -> RunResult | None:
    try:
        raw = json.loads(answer_file(claim, config).read_text(encoding="utf-8", errors="surrogatepass"))
        outcome, last_texts = runtimes.Outcome(raw["outcome"]), tuple(raw["last_texts"])
        return RunResult(**{**raw, "outcome": outcome, "last_texts": last_texts})
    except FileNotFoundError:
        return None
    except (ValueError, TypeError, KeyError) as error:
        # Another version of the package wrote it, or a disk lost part of it: the run is made again.
        log.warning("the kept answer of job %s can't be read: %s", claim.job.id, error)
        return None


# --- what is stored --------------------------------------------------------------------------------------------


def _spent(result: RunResult) -> dict[str, Any]:
    return {"usage": dict(result.usage), "cost_usd": result.cost_usd, "sandboxed": result.sandboxed}


def record(claim: Claim, config: BoardConfig, text: RoleText, result: RunResult) -> dict[str, Any]:
    """What a job keeps about its run: which role text, which engine, what it used."""
    chosen = engine(claim, config)
    return {
        "role_version": f"{text.version}/{text.shared_version}",
        "role_hash": text.hash,
        "runtime": chosen.runtime,
        "model": chosen.model,
        "reasoning_effort": chosen.reasoning_effort,
        "iterations": claim.job.used_iterations + result.iterations,
        "seconds": round(result.seconds, 1),
        **_spent(result),
        "cut": result.cut,
        "exit_code": result.exit_code,
        "ended": str(result.outcome),
        "reason": result.reason,
    }


def run_checks(claim: Claim, context: Context, commit: str) -> list[CheckResult]:
    """The repository's checks of a commit; a worker that is told to end ends them too, and they run again."""
    with context.signals.running():
        checks = context.workspace.run_checks(claim.card.repository, commit, lock_fd=claim.lock_fd)
    boundary("checks run")
    return checks


def checks_data(checks: Sequence[CheckResult]) -> list[dict[str, Any]]:
    """The results of checks as plain values, with the end of each output."""
    return [
        {
            "argv": list(check.argv),
            "exit_code": check.exit_code,
            "timed_out": check.timed_out,
            "seconds": round(check.seconds, 1),
            "output": check.output[-CHECK_OUTPUT_SHOWN:],
        }
        for check in checks
    ]


def failed_checks(checks: Sequence[CheckResult]) -> str | None:
    """One clause that names the checks that did not come out 0, or None."""
    bad = [check for check in checks if check.exit_code != 0 or check.timed_out]
    if not bad:
        return None
    words = [f"`{' '.join(c.argv)}` " + ("ran too long" if c.timed_out else f"exited with {c.exit_code}") for c in bad]
    return "checks of the commit failed: " + ", ".join(words)


def brief(text: str, limit: int = 500) -> str:
    """A text as one line for a card's reason; the whole of it is kept elsewhere."""
    line = " ".join(text.split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


def trailers(claim: Claim) -> dict[str, str]:
    """What a commit of the board says about its origin."""
    return {"Intent": claim.card.slug, "Board-Job": str(claim.job.id)}
