"""Draining one queue: claim, let the role work, finish, until nothing is left; then the process ends."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from importlib import import_module

from intent_board.board.states import Event
from intent_board.boundaries import boundary
from intent_board.roles import base, interim
from intent_board.roles.base import Context, Outcome, PutBack, Stopped
from intent_board.roles.leftovers import logged
from intent_board.store import Claim, StaleClaim, StoreError
from intent_board.workspace import WorkspaceError

log = logging.getLogger(__name__)

Role = Callable[[Claim, Context], Outcome | PutBack]


def drain(queue: str, slot: int, context: Context) -> int:
    """Serve one queue until it is empty or the worker is told to end; returns how many jobs were served.

    The ring is consumed first: one that comes while this worker drains wakes the next.  After the time that one job
    may take no further one is begun, since systemd ends a worker at a multiple of it: the queue is rung again instead.
    """
    context.store.doorbells.consume(queue, slot)
    served, began = 0, time.monotonic()
    while not context.signals.stopping:
        if served and time.monotonic() - began > base.queue_seconds(queue, context.config):
            context.store.doorbells.ring(queue)
            break
        claim = context.store.claim(queue, slot=slot)
        if claim is None:
            break
        boundary("claimed")
        try:
            serve(claim, context)
        except Stopped:
            # The claim stays as it is: its lock goes with this process, and the next tick queues the job again.
            log.info("job %s of %s: told to end in the middle of it", claim.job.id, claim.card.slug)
            break
        served += 1
    return served


def serve(claim: Claim, context: Context) -> None:
    """One job to its end.

    Raises Stopped, and StoreError, since a store that can't be used is no job's fault: the job stays claimed, and is
    queued again when this process is gone.  Whatever else goes wrong is this job's end and nobody else's.
    """
    name = f"job {claim.job.id}, {claim.job.role} of {claim.card.slug}"
    log.info("%s: begins, attempt %s", name, claim.job.attempt)
    try:
        done = _work(claim, context)
        if isinstance(done, PutBack):
            _put_back(claim, context, done)
            log.info("%s: waits: %s", name, done.reason)
        elif context.store.finish(claim, done.event, done.data, raw=done.raw, result=done.result):
            boundary("finished")
            log.info("%s: %s", name, done.event)
            tidy(claim, context, done)
        else:
            log.info("%s: %s, which could not be applied; the card's history says why", name, done.event)
    except StaleClaim as error:
        log.info("%s: was taken away: %s", name, error)


def _work(claim: Claim, context: Context) -> Outcome | PutBack:
    try:
        return _role(claim.job.role)(claim, context)
    except (Stopped, StaleClaim, StoreError):
        raise
    except WorkspaceError as error:
        if error.kind == "outage":
            return PutBack(base.retry_time(claim, context, None), str(error))
        return _broken_off(claim, str(error))
    except Exception as error:
        log.exception("job %s of %s broke off", claim.job.id, claim.card.slug)
        return _broken_off(claim, f"{type(error).__name__}: {error}")


def _role(name: str) -> Role:
    """What plays a role; a worker serves one queue, so only that one is loaded."""
    work: Role = import_module(f"intent_board.roles.{name}").work
    return work


def _put_back(claim: Claim, context: Context, wait: PutBack) -> None:
    context.store.put_back(
        claim,
        not_before=wait.not_before,
        reason=wait.reason,
        runtime_paused=wait.runtime_paused,
        result=wait.result,
    )
    boundary("put back")


def _broken_off(claim: Claim, reason: str) -> Outcome:
    return Outcome(Event.RUN_LOST, {"reason": f"the {claim.job.role} job {claim.job.id} broke off: {reason}"})


def tidy(claim: Claim, context: Context, done: Outcome) -> None:
    """Remove what only this job needed; a card's clone goes once its work is on the remote.

    What can't be removed now is left to the next tick.
    """
    with logged(f"the answer of job {claim.job.id} can't be removed now"):
        base.answer_file(claim, context.config).unlink(missing_ok=True)
    if claim.job.role == "builder" and done.event is not Event.RUN_LOST:
        interim.remove_reports(claim, context)
    if done.event is Event.PUBLISHED:
        with logged(f"the tree of {claim.card.slug} can't be removed now"):
            context.workspace.remove_tree(claim.card.repository, claim.card.slug)
    boundary("tidied")
