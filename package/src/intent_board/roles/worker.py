"""Draining one queue: claim, let the role work, finish, until nothing is left; then the process ends."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable, Mapping

from intent_board.board.model import Phase
from intent_board.board.states import Event
from intent_board.boundaries import boundary
from intent_board.roles import base, builder, operator, publish, reviewer
from intent_board.roles.base import Context, Outcome, PutBack, Stopped
from intent_board.store import Claim, StaleClaim
from intent_board.workspace import WorkspaceError

log = logging.getLogger(__name__)

Role = Callable[[Claim, Context], Outcome | PutBack]
ROLES: Mapping[str, Role] = {
    "operator": operator.work,
    "builder": builder.work,
    "reviewer": reviewer.work,
    "publish": publish.work,
}


def drain(queue: str, slot: int, context: Context) -> int:
    """Serve one queue until it is empty or the worker is told to end; returns how many jobs were served.

    The ring is consumed first: one that comes while this worker drains wakes the next.
    """
    context.store.doorbells.consume(queue, slot)
    served = 0
    while not context.signals.stopping:
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
    """One job to its end.  Raises Stopped; whatever else goes wrong is this job's end and nobody else's."""
    name = f"job {claim.job.id}, {claim.job.role} of {claim.card.slug}"
    log.info("%s: begins, attempt %s", name, claim.job.attempt)
    try:
        done = _work(claim, context)
        if isinstance(done, PutBack):
            context.store.put_back(
                claim, not_before=done.not_before, reason=done.reason, runtime_paused=done.runtime_paused
            )
            log.info("%s: waits: %s", name, done.reason)
            boundary("put back")
            return
        applied = context.store.finish(claim, done.event, done.data, raw=done.raw, result=done.result)
        log.info("%s: %s%s", name, done.event, "" if applied else ", but it was taken away, so nothing was done")
        boundary("finished")
    except StaleClaim as error:
        log.info("%s: was taken away: %s", name, error)
    tidy(claim, context)


def _work(claim: Claim, context: Context) -> Outcome | PutBack:
    try:
        return ROLES[claim.job.role](claim, context)
    except (Stopped, StaleClaim):
        raise
    except WorkspaceError as error:
        if error.kind == "outage":
            return PutBack(base.retry_time(claim, context, None), str(error))
        return _broken_off(claim, str(error))
    except Exception as error:
        log.exception("job %s of %s broke off", claim.job.id, claim.card.slug)
        return _broken_off(claim, f"{type(error).__name__}: {error}")


def _broken_off(claim: Claim, reason: str) -> Outcome:
    return Outcome(Event.RUN_LOST, {"reason": f"the {claim.job.role} job {claim.job.id} broke off: {reason}"})


def tidy(claim: Claim, context: Context) -> None:
    """Remove what only this job needed; a card's clone goes once its work is on the remote."""
    base.answer_file(claim, context.config).unlink(missing_ok=True)
    shutil.rmtree(base.report_file(claim, context.config).parent, ignore_errors=True)
    if context.store.card(claim.card.slug).phase is Phase.BEREIT:
        context.workspace.remove_tree(claim.card.repository, claim.card.slug)
    boundary("tidied")
