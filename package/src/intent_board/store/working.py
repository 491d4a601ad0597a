"""Jobs under way: who may do one, and what becomes of it.

Liveness is a lock that the kernel frees (see `locks`), and never a clock; the right to write is the fencing token,
which grows with every claim.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Select, and_, bindparam, case, exists, func, insert, or_, select, update

from intent_board.board.model import BUILDING, Card, Job, JobState, Notify, Phase, Record, Refused, Status
from intent_board.board.states import Event
from intent_board.boundaries import boundary
from intent_board.config import BoardConfig
from intent_board.store import applying, happening, locks, rows
from intent_board.store.applying import Work
from intent_board.store.errors import StaleClaim
from intent_board.store.tables import answers, cards, jobs, meta, paused_runtimes

log = logging.getLogger(__name__)

#: A raw answer longer than this is cut, and the cut recorded.
RAW_LIMIT = 1024 * 1024
#: A clock may be set back by this much without a job's wait losing its meaning.
_CLOCK_SLACK = 60.0
_END_OF_TIME = 1e12
#: How many waiting jobs one claim looks at; those it can't take are held by processes that still live.
_CANDIDATES = 200

_OPEN = (JobState.QUEUED.value, JobState.RUNNING.value)


@dataclass(frozen=True, slots=True)
class Claim:
    """The right to do one job.

    `lock_fd` is the held lock; the sandbox inherits it, so that the job counts as running until both are gone.
    `card` is the card as it stood when the job was claimed.
    """

    job: Job
    card: Card
    lock_fd: int
    _open: list[int] = field(repr=False, compare=False)

    @property
    def token(self) -> int:
        """The fencing token: only the holder of a job's newest may write."""
        return self.job.token

    def _let_go(self, path: Path | None) -> None:
        # Once only: a closed number may belong to another file by now.
        while self._open:
            lock = self._open.pop()
            if path is None:
                os.close(lock)
            else:
                locks.discard(path, lock)


def lock_path(config: BoardConfig, job_id: int) -> Path:
    """The lock of a job."""
    return config.state_dir / "locks" / f"job-{job_id}.lock"


# --- claiming -----------------------------------------------------------------------------------------------------


def claim(work: Work, config: BoardConfig, queue: str, slot: int, schema: int, only: str | None = None) -> Claim | None:
    """The first job of the queue that may run now, given to this process; None: there is none.

    `only` names the one card whose job is wanted, be it due or not: a person does its work.  Also None when the store
    was migrated since it was opened: the process is to end and a newer one to come.
    """
    if work.connection.execute(_SCHEMA).scalar() != schema:
        return None
    values: dict[str, Any] = {"of": queue, "now": work.now, "default_runtime": _queue_runtime(config, queue)}
    query = _CLAIMABLE.limit(_CANDIDATES)
    if only is not None:
        values, query = {"of": queue, "card": only}, _WAITING_FOR_CARD
    for job_id, slug in work.connection.execute(query, values).all():
        taken = _claim_one(work, config, int(job_id), str(slug), slot)
        if taken is not None:
            return taken
    return None


def _claim_one(work: Work, config: BoardConfig, job_id: int, slug: str, slot: int) -> Claim | None:
    lock = _lock(work.connection, config, job_id, slug)
    if lock is None:
        return None
    taken: list[Claim] = []

    def take() -> None:
        taken.append(_take(work, job_id, slot, lock))

    try:
        done = happening.guarded(work, config, slug, take, refused=_refuse(work, slug))
    except BaseException:
        os.close(lock)
        raise
    if done:
        return taken[-1]
    os.close(lock)
    return None


def _queue_runtime(config: BoardConfig, queue: str) -> str:
    """The runtime of a job whose snapshot fixes none."""
    found = config.queues.get(queue)
    return (found.runtime if found else None) or ""


def _lock(connection: Connection, config: BoardConfig, job_id: int, slug: str) -> int | None:
    """The job's lock, unless a worker or sandbox lives that still works on this job or in this card's tree."""
    lock = locks.acquire(lock_path(config, job_id))
    if lock is None:
        return None
    over = connection.execute(_OVER, {"of": slug}).scalars().all()
    if any(locks.held(lock_path(config, other)) for other in over):
        os.close(lock)
        return None
    return lock


def _take(work: Work, job_id: int, slot: int, lock: int) -> Claim:
    work.connection.execute(_START, {"of": job_id, "at": work.now, "in_slot": slot})
    boundary("store.claim.job")
    job = happening.load_job(work.connection, job_id)
    if job is None:
        raise LookupError(f"job {job_id} is not there any more")
    happening.start(work, job)
    return Claim(job, happening.load(work.connection, job.slug), lock, [lock])


def _refuse(work: Work, slug: str) -> Any:
    def refused(refusal: Refused) -> None:
        applying.record(work, Record(slug, "refused", happening.BOARD, {"reason": str(refusal)}))

    return refused


def due_queues(connection: Connection, config: BoardConfig, now: float) -> list[str]:
    """The queues in which a job could be claimed now."""
    waiting = connection.execute(_QUEUES).scalars().all()
    return [
        queue
        for queue in waiting
        if connection.execute(
            _CLAIMABLE.limit(1), {"of": queue, "now": now, "default_runtime": _queue_runtime(config, queue)}
        ).first()
    ]


def unserved(connection: Connection, config: BoardConfig) -> Iterator[tuple[str, str]]:
    """Cards (with the queue) whose job waits in a queue that the configuration does not have any more."""
    served = config.queue_slots()
    for queue in connection.execute(_QUEUES).scalars().all():
        if queue not in served:
            for slug in connection.execute(_WAITING_IN, {"of": queue}).scalars().all():
                yield str(slug), str(queue)


def orphans(connection: Connection) -> list[str]:
    """Cards in a phase that a job leads out of, without one that is open."""
    return [str(slug) for slug in connection.execute(_ORPHANS).scalars()]


# --- a worker's own writing -----------------------------------------------------------------------------------------


def progress(work: Work, claim: Claim, used_iterations: int) -> None:
    """Count the iterations of the attempt, over all its runs.  Raises StaleClaim."""
    done = work.connection.execute(
        _PROGRESS, {"of": claim.job.id, "mine": claim.token, "used": min(used_iterations, 2**31)}
    )
    if done.rowcount == 0:
        raise _stale(claim)


def _stale(claim: Claim) -> StaleClaim:
    return StaleClaim(
        f"Job {claim.job.id} of {claim.job.slug!r} is not this worker's any more (token {claim.token}); stop the run "
        "and write nothing."
    )


def finish(
    work: Work,
    config: BoardConfig,
    claim: Claim,
    event: Event,
    data: Mapping[str, Any],
    raw: str,
    result: Mapping[str, Any],
) -> bool:
    """Apply a job's result once; see Store.finish."""
    row = work.connection.execute(_HOLDER, {"of": claim.job.id}).first()
    state, token = (row[0], row[1]) if row else (None, None)
    if token == claim.token and state == JobState.DONE.value:
        return not work.connection.execute(_WAS_STALE, {"of": claim.job.id, "mine": token}).scalar()
    if token != claim.token or state != JobState.RUNNING.value:
        _keep_answer(work, claim, event, raw, stale=True)
        why = "cancelled" if token == claim.token else "given to another worker"
        _record_stale(work, claim, event, f"the job was {why}")
        return False
    work.job = happening.load_job(work.connection, claim.job.id)
    work.connection.execute(update(jobs).where(jobs.c.id == claim.job.id).values(_ended(work.now, event, result)))
    happening.stop(work, claim.job)
    boundary("store.finish.job")
    _keep_answer(work, claim, event, raw, stale=False)

    def apply() -> None:
        happening.happen(work, config, claim.job.slug, event, happening.BOARD, data)

    def refused(refusal: Refused) -> None:
        _record_stale(work, claim, event, str(refusal))

    applied = happening.guarded(work, config, claim.job.slug, apply, refused=refused)
    if not applied:
        work.connection.execute(_MARK_STALE, {"of": claim.job.id, "mine": claim.token})
    return applied


def _ended(now: float, event: Event, result: Mapping[str, Any]) -> dict[str, Any]:
    """A finished job's columns; what of `result` has none of its own is kept as JSON."""
    known = {"usage", "cost_usd", "iterations", "reason", "sandboxed", "role_version", "role_hash"}
    values: dict[str, Any] = {
        "state": JobState.DONE.value,
        "finished_at": now,
        "outcome": event.value,
        "reason": rows.clean(str(result.get("reason") or "")),
        "usage": rows.dump(result.get("usage") or {}),
        "result": rows.dump({key: value for key, value in result.items() if key not in known}),
    }
    values |= {key: result[key] for key in ("sandboxed", "role_version", "role_hash") if result.get(key) is not None}
    if result.get("cost_usd") is not None:
        values["cost_usd"] = func.coalesce(jobs.c.cost_usd, 0) + float(result["cost_usd"])
    if result.get("iterations") is not None:
        used = int(result["iterations"])
        values["used_iterations"] = _at_least(used)
    return values


def _at_least(used: Any) -> Any:
    return case((jobs.c.used_iterations < used, used), else_=jobs.c.used_iterations)


def _keep_answer(work: Work, claim: Claim, event: Event, raw: str, *, stale: bool) -> None:
    same = {"of": claim.job.id, "mine": claim.token}
    if work.connection.execute(_HAS_ANSWER, same).first() is not None:
        return
    encoded = raw.encode("utf-8", "backslashreplace")
    values = {
        "slug": claim.job.slug,
        "job_id": claim.job.id,
        "token": claim.token,
        "stale": stale,
        "cut": len(encoded) > RAW_LIMIT,
        "size": len(encoded),
        "created_at": work.now,
        "event": event.value,
        "text": encoded[:RAW_LIMIT].decode("utf-8", "ignore"),
    }
    work.connection.execute(insert(answers), values)


def _record_stale(work: Work, claim: Claim, event: Event, reason: str) -> None:
    data = {"job": claim.job.id, "token": claim.token, "event": event.value, "reason": reason}
    applying.record(work, Record(claim.job.slug, "stale_answer", happening.BOARD, data))


def put_back(
    work: Work, claim: Claim, not_before: float, reason: str, runtime_paused: str | None, result: Mapping[str, Any]
) -> None:
    """The run could not be made: the same job waits; see Store.put_back.  Raises StaleClaim."""
    values = {
        "state": JobState.QUEUED.value,
        "not_before": not_before,
        "waiting_since": work.now,
        "outages": jobs.c.outages + 1,
        "reason": rows.clean(reason),
    }
    if result.get("cost_usd") is not None:
        values["cost_usd"] = func.coalesce(jobs.c.cost_usd, 0) + float(result["cost_usd"])
    mine = and_(jobs.c.id == claim.job.id, jobs.c.token == claim.token, jobs.c.state == JobState.RUNNING.value)
    if work.connection.execute(update(jobs).where(mine).values(values)).rowcount == 0:
        raise _stale(claim)
    happening.stop(work, claim.job)
    slug = claim.job.slug
    if claim.job.role not in happening.ASIDE:
        work.connection.execute(update(cards).where(cards.c.slug == slug).values(reason=rows.clean(reason)))
    data = {"job": claim.job.id, "not_before": not_before, "reason": reason}
    applying.record(work, Record(slug, "put_back", happening.BOARD, data))
    if runtime_paused is not None:
        _pause(work, slug, runtime_paused, reason)


def _pause(work: Work, slug: str, runtime: str, reason: str) -> None:
    if work.connection.execute(_IS_PAUSED, {"of": runtime}).first() is not None:
        return
    reason = rows.clean(reason)
    work.connection.execute(insert(paused_runtimes), {"runtime": runtime, "since": work.now, "reason": reason})
    applying.record(work, Record(slug, "runtime_paused", happening.BOARD, {"runtime": runtime, "reason": reason}))
    text = f"runtime {runtime} is paused: {reason}. Mend its credentials, then: board resume {runtime}"
    applying.apply(work, [Notify("runtime_paused", slug, text)])


# --- dead workers ---------------------------------------------------------------------------------------------------


def recover(work: Work, config: BoardConfig, held: list[int]) -> list[int]:
    """Take running jobs whose lock is free away from their dead workers.

    Runs under the write lock, and a claim takes its job's lock under it too: so a running job with a free lock is
    nobody's.  The locks taken here go to `held`, to be closed after the commit.
    """
    dead: list[int] = []
    for job_id, slug in work.connection.execute(_RUNNING).all():
        lock = locks.acquire(lock_path(config, job_id))
        if lock is None:
            continue
        held.append(lock)
        dead.append(int(job_id))

        happening.guarded(
            work, config, str(slug), partial(_interrupted, work, config, int(job_id)), refused=log.warning
        )
        boundary("store.recover.job")
    return dead


def _interrupted(work: Work, config: BoardConfig, job_id: int) -> None:
    job = happening.load_job(work.connection, job_id)
    if job is None:
        return
    happening.stop(work, job)
    times = job.interruptions + 1
    if times > config.scheduler.interrupted_runs:
        _lost(work, config, replace(job, state=JobState.DONE, interruptions=times))
        return
    values: dict[str, Any] = {"state": JobState.QUEUED.value, "interruptions": times}
    work.connection.execute(update(jobs).where(jobs.c.id == job.id).values(values))
    data = {"job": job.id, "interruptions": times, "used_iterations": job.used_iterations}
    applying.record(work, Record(job.slug, "interrupted", happening.BOARD, data))
    work.rung.add(job.queue)


def _lost(work: Work, config: BoardConfig, job: Job) -> None:
    """An attempt that was interrupted too often ends, whatever its card makes of that."""
    reason = (
        f"the run of job {job.id} was interrupted {job.interruptions} times (the worker died or the host went down)"
    )
    ended = _ended(work.now, Event.RUN_LOST, {"reason": reason}) | {"interruptions": job.interruptions}
    work.connection.execute(update(jobs).where(jobs.c.id == job.id).values(ended))

    def apply() -> None:
        happening.happen(work, config, job.slug, Event.RUN_LOST, happening.BOARD, {"reason": reason})

    work.job = job
    happening.guarded(work, config, job.slug, apply, refused=_refuse(work, job.slug))
    work.job = None


def remove_old_locks(connection: Connection, config: BoardConfig) -> None:
    """Remove the lock files of jobs that are over and held by nobody."""
    for path in (config.state_dir / "locks").glob("job-*.lock"):
        number = path.stem.removeprefix("job-")
        state = connection.execute(_HOLDER, {"of": int(number)}).first() if number.isdecimal() else None
        if (state is None or state[0] not in _OPEN) and (lock := locks.acquire(path)) is not None:
            locks.discard(path, lock)


# --- the statements, made once so that their compiled form is found again -------------------------------------------

_SCHEMA = select(meta.c.value).where(meta.c.key == "schema")
_due = or_(
    jobs.c.not_before <= bindparam("now"),
    jobs.c.waiting_since > bindparam("now") + _CLOCK_SLACK,
    # No time that there is, or no number at all: whoever claims it parks its card with that reason.
    jobs.c.not_before > _END_OF_TIME,
)
_paused = (
    select(paused_runtimes.c.runtime)
    .where(paused_runtimes.c.runtime == func.coalesce(jobs.c.runtime, bindparam("default_runtime")))
    .correlate(jobs)
)
_other, _other_card = jobs.alias("other"), cards.alias("other_card")
_publishing = (
    select(_other.c.id)
    .select_from(_other.join(_other_card, _other_card.c.slug == _other.c.slug))
    .where(
        _other.c.state == JobState.RUNNING.value,
        _other.c.queue == "publish",
        _other_card.c.repository == cards.c.repository,
    )
    .correlate(cards)
)
_CLAIMABLE: Select[Any] = (
    select(jobs.c.id, jobs.c.slug)
    .select_from(jobs.join(cards, cards.c.slug == jobs.c.slug))
    .where(
        jobs.c.state == JobState.QUEUED.value,
        jobs.c.queue == bindparam("of"),
        _due,
        ~exists(_paused),
        # Two at once would only move the branch under one another.
        or_(jobs.c.queue != "publish", ~exists(_publishing)),
    )
    # A card whose branch moved is reviewed and published first: behind others, each of them would move it again, until
    # it has no round left.  Everywhere else it waits its turn.
    .order_by(case((jobs.c.queue.in_(("review", "publish")), cards.c.publish_rounds), else_=0).desc(), jobs.c.id)
)
_WAITING_FOR_CARD: Select[Any] = select(jobs.c.id, jobs.c.slug).where(
    jobs.c.state == JobState.QUEUED.value, jobs.c.queue == bindparam("of"), jobs.c.slug == bindparam("card")
)
_QUEUES = select(jobs.c.queue).where(jobs.c.state == JobState.QUEUED.value).distinct()
_WAITING_IN = select(jobs.c.slug).where(jobs.c.state == JobState.QUEUED.value, jobs.c.queue == bindparam("of"))
_OVER = select(jobs.c.id).where(
    jobs.c.slug == bindparam("of"),
    jobs.c.state.in_([JobState.CANCELLED.value, JobState.DONE.value]),
    jobs.c.role.not_in(sorted(happening.ASIDE)),
    jobs.c.token > 0,
)
_START = (
    update(jobs)
    .where(jobs.c.id == bindparam("of"))
    .values(
        state=JobState.RUNNING.value,
        token=jobs.c.token + 1,
        started_at=bindparam("at"),
        slot=bindparam("in_slot"),
    )
)
_PROGRESS = (
    update(jobs)
    .where(jobs.c.id == bindparam("of"), jobs.c.token == bindparam("mine"), jobs.c.state == JobState.RUNNING.value)
    .values(used_iterations=_at_least(bindparam("used")))
)
_HOLDER = select(jobs.c.state, jobs.c.token).where(jobs.c.id == bindparam("of"))
_WAS_STALE = select(answers.c.stale).where(answers.c.job_id == bindparam("of"), answers.c.token == bindparam("mine"))
_HAS_ANSWER = select(answers.c.id).where(answers.c.job_id == bindparam("of"), answers.c.token == bindparam("mine"))
_MARK_STALE = (
    update(answers).where(answers.c.job_id == bindparam("of"), answers.c.token == bindparam("mine")).values(stale=True)
)
_IS_PAUSED = select(paused_runtimes.c.runtime).where(paused_runtimes.c.runtime == bindparam("of"))
_RUNNING = select(jobs.c.id, jobs.c.slug).where(jobs.c.state == JobState.RUNNING.value).order_by(jobs.c.id)
_ORPHANS = select(cards.c.slug).where(
    or_(
        cards.c.phase.in_(sorted((*BUILDING, Phase.OPERATOR_PRUEFUNG, Phase.IN_REVIEW))),
        and_(
            cards.c.phase.in_(sorted((Phase.KLAERUNG_REPARATUR, Phase.COMMITFREIGABE))),
            cards.c.status.in_(sorted((Status.QUEUED, Status.RUNNING))),
        ),
    ),
    ~exists(
        select(1)
        .select_from(jobs)
        .where(jobs.c.slug == cards.c.slug, jobs.c.state.in_(_OPEN), jobs.c.role.not_in(sorted(happening.ASIDE)))
    ),
)
