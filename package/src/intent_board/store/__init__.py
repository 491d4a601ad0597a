"""The one memory of the board.

Everything that changes a card goes through `board.states.step`, and its effects are applied here in one transaction:
all of them, or none.  Only the service user may open the store.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, bindparam, delete, select

from intent_board.board import schedule
from intent_board.board.model import (
    FINAL,
    Card,
    Effect,
    Family,
    Happen,
    Job,
    JobState,
    Lease,
    Phase,
    Record,
    Refused,
    Snapshot,
)
from intent_board.board.states import Event
from intent_board.boundaries import boundary
from intent_board.config import BoardConfig
from intent_board.store import applying, happening, locks, opening, outbox, reading, snapshots, tables, values, working
from intent_board.store.applying import Work
from intent_board.store.backups import copy_to
from intent_board.store.doorbells import Doorbells
from intent_board.store.engine import reading as reading_transaction
from intent_board.store.engine import writing as writing_transaction
from intent_board.store.errors import StaleClaim, StoreError, UnknownCard, Unreadable
from intent_board.store.projections import Projections
from intent_board.store.snapshots import FamilyProof
from intent_board.store.working import Claim

log = logging.getLogger(__name__)

__all__ = ["Claim", "FamilyProof", "StaleClaim", "Store", "StoreError", "UnknownCard", "open_store"]

#: How many cards' intent files are looked at in one tick beside those that changed.
_FILES_PER_TICK = 32
#: How often a tick looks again after it parked a card.
_LOOKS = 10


def open_store(config: BoardConfig) -> Store:
    """The board's store, made on first use and migrated when it is older than this code.

    Raises StoreError, before anything is touched, when this is not the service user, when the store needs newer code,
    or when the file can't be read.
    """
    engine, schema = opening.open_engine(config)
    return Store(config, engine, schema)


class Store:
    """An open store.  Every method is one transaction, and safe against every other process that does the same."""

    def __init__(self, config: BoardConfig, engine: Engine, schema: int) -> None:
        self.config = config
        self.path = opening.database_path(config)
        self.schema = schema
        self.doorbells = Doorbells(config)
        self._engine = engine
        self._projections = Projections(config.intent_dir, config.state_dir / "locks" / "intents.json")

    def close(self) -> None:
        """Let go of the file."""
        self._engine.dispose()

    # --- what happens to cards ------------------------------------------------------------------------------------

    def submit(
        self,
        *,
        slug: str,
        title: str,
        intent: str,
        repository: str,
        requester: str,
        event: str,
        data: Mapping[str, Any] | None = None,
    ) -> Card:
        """A new card by one of the submit events.  Raises Refused (a slug that is taken, say)."""
        known = {"slug": slug, "title": title, "repository": repository, "requester": requester}
        if repository not in self.config.repositories:
            raise Refused(f"There is no repository {repository!r}; the configuration declares those there are.")
        with self._writing() as work:
            if work.connection.execute(_HAS_CARD, {"of": slug}).first() is not None:
                raise Refused(f"The slug {slug!r} is taken; choose another one, since no card is ever deleted.")
            happening.carry_out(work, self.config, None, Event(event), requester, {**(data or {}), **known}, intent)
            return happening.load(work.connection, slug)

    def happen(self, slug: str, event: str, *, actor: str, data: Mapping[str, Any] | None = None) -> Card:
        """Let an event happen to a card, all of it or nothing.

        Returns the card as it is then.  Raises Refused when the rules do not allow it, UnknownCard, and StoreError when
        the card's row is unreadable; the card is parked with that reason then.
        """
        unreadable: Unreadable | None = None
        with self._writing() as work:
            try:
                with work.connection.begin_nested():
                    happening.happen(work, self.config, slug, Event(event), actor, data or {})
                card = happening.load(work.connection, slug)
            except Unreadable as error:
                unreadable = error
                happening.fault(work, self.config, error.slug, str(error))
        if unreadable is not None:
            raise StoreError(
                f"The card {unreadable.slug!r} was parked instead: {unreadable}; look at it with "
                f"`board show {unreadable.slug}`."
            )
        return card

    def import_cards(self, effects: Collection[Effect]) -> None:
        """Cards of another board with what belongs to them, all of them or none.

        Raises Refused when a slug was taken meanwhile.
        """
        with self._writing() as work:
            applying.apply(work, effects)

    def imported(self, event: str) -> tuple[set[str], set[str]]:
        """The slugs whose audit has this event of an import, and the slugs of all cards."""
        with self._reading() as connection:
            had = select(tables.events.c.slug).where(tables.events.c.event == event).distinct()
            return (
                {str(slug) for slug in connection.execute(had).scalars()},
                {str(slug) for slug in connection.execute(select(tables.cards.c.slug)).scalars()},
            )

    # --- jobs -----------------------------------------------------------------------------------------------------

    def claim(self, queue: str, *, slot: int = 0, only: str | None = None) -> Claim | None:
        """The first job of a queue that may run now, for this process alone; None: nothing to do.

        `only` asks for one card's waiting job instead, be it due or not: a person does its work.
        """
        taken: Claim | None = None
        try:
            with self._writing() as work:
                taken = working.claim(work, self.config, queue, slot, self.schema, only)
        except BaseException:
            if taken is not None:
                taken._let_go(None)
            raise
        boundary("store.claim.committed")
        return taken

    def progress(self, claim: Claim, used_iterations: int) -> None:
        """Count what the attempt has used so far, over all its runs; it never goes down.

        Raises StaleClaim when the job is not this worker's any more: the run is to be ended.
        """
        with self._writing() as work:
            working.progress(work, claim, used_iterations)

    def finish(
        self,
        claim: Claim,
        event: str,
        data: Mapping[str, Any],
        *,
        raw: str = "",
        result: Mapping[str, Any] | None = None,
    ) -> bool:
        """Apply a job's result, once.

        `raw` is the answer word for word.  `result` may hold usage, cost_usd, iterations (of the whole attempt),
        reason, sandboxed, role_version, role_hash; anything else in it is kept as it is.  False: the answer was kept,
        and nothing applied, because the job is not this worker's any more, the card does not stand where the event
        belongs, or the card had to be parked.  The same finish again does nothing and answers the same.
        """
        with self._writing() as work:
            applied = working.finish(work, self.config, claim, Event(event), data, raw, result or {})
            over = work.connection.execute(_JOB_STATE, {"of": claim.job.id}).scalar() == JobState.DONE.value
        boundary("store.finish.committed")
        claim._let_go(working.lock_path(self.config, claim.job.id) if over else None)
        return applied

    def put_back(
        self,
        claim: Claim,
        *,
        not_before: float,
        reason: str,
        runtime_paused: str | None = None,
        result: Mapping[str, Any] | None = None,
    ) -> None:
        """The run could not be made (an outage, a rate limit, refused credentials): the job waits, no rung is climbed.

        `runtime_paused` also stops every job of that runtime until `resume`.  Raises StaleClaim.
        """
        with self._writing() as work:
            working.put_back(work, claim, not_before, reason, runtime_paused, result or {})
        boundary("store.put_back.committed")
        claim._let_go(None)

    def resume(self, runtime: str, *, actor: str) -> bool:
        """Let the jobs of a paused runtime run again; whether it was paused."""
        with self._writing() as work:
            paused = tables.paused_runtimes
            if work.connection.execute(delete(paused).where(paused.c.runtime == runtime)).rowcount == 0:
                return False
            applying.record(work, Record("", "runtime_resumed", actor, {"runtime": runtime}))
            work.rung.update(working.due_queues(work.connection, self.config, work.now))
            return True

    def recover(self) -> list[int]:
        """Queue the jobs again whose workers died; returns their ids.

        Each at most `interrupted_runs` times in its attempt, with its iterations counted on; then it counts as failed.
        """
        held: list[int] = []
        try:
            with self._writing() as work:
                dead = working.recover(work, self.config, held)
        finally:
            for lock in held:
                os.close(lock)
        with self._reading() as connection:
            working.remove_old_locks(connection, self.config)
        return dead

    # --- the scheduler's tick ---------------------------------------------------------------------------------------

    def tick(self, now: float, *, off_branch: Mapping[str, Collection[str]]) -> list[Effect]:
        """Plan and carry out what is due, in one transaction; a bad card is parked and hurts nobody else.

        `off_branch` has an entry for every family of `families_to_prove`: those of its children whose commits are not
        on the branch.  A family without an entry gets its synthesis at a later tick.  Returns what was carried out.
        Rings the bell of every queue with something to do, and writes intent files that are missing.
        """
        done: list[Effect] = []
        with self._writing(now) as work:
            self._park_what_can_not_go_on(work)
            for _ in range(_LOOKS):
                planned = self._planned(work, off_branch)
                carried_out = [effect for effect in planned if self._carry_out(work, effect)]
                done += carried_out
                # A card that was parked leaves its slot to the next one, who shall not wait for another tick.
                if len(carried_out) == len(planned):
                    break
            work.rung.update(working.due_queues(work.connection, self.config, now))
            if outbox.is_due(work.connection, now):
                work.rung.add(outbox.BELL)
        with self._afterwards("the intent files"):
            self._project_missing()
        return done

    def _park_what_can_not_go_on(self, work: Work) -> None:
        for slug in snapshots.strays(work.connection):
            happening.fault(work, self.config, slug, "it stood in a phase that there is not")
        for slug, queue in list(working.unserved(work.connection, self.config)):
            reason = f"its job waits in the queue {queue!r}, which is not configured any more"
            happening.fault(work, self.config, slug, reason)
        for slug in working.orphans(work.connection):
            happening.fault(work, self.config, slug, "no job is under way for it, and its last one led nowhere")

    def _planned(self, work: Work, off_branch: Mapping[str, Collection[str]]) -> list[Effect]:
        parked: set[str] = set()
        while True:
            seen = snapshots.look(work.connection, self.config, off_branch)
            bad = seen.unreadable
            # One that stays unreadable although it was parked is left out, and everybody else goes on.
            if bad.keys() <= parked:
                try:
                    return schedule.plan(seen.snapshot, work.now)
                except Exception as error:
                    log.exception("The plan failed")
                    bad = _culprits(seen.snapshot, work.now)
                    if bad.keys() <= parked:
                        raise StoreError(f"The tick can't be planned ({error}); the log has the details.") from error
            for slug in bad.keys() - parked:
                happening.fault(work, self.config, slug, bad[slug])
            parked |= bad.keys()

    def _carry_out(self, work: Work, effect: Effect) -> bool:
        if not isinstance(effect, Happen):
            raise TypeError(f"a plan consists of events, not of {type(effect).__name__}")

        def deed() -> None:
            happening.happen(work, self.config, effect.slug, Event(effect.event), happening.BOARD, effect.data)

        def refused(refusal: Refused) -> None:
            # Nothing moved since the look, so the next tick would plan the same and be refused again.
            happening.fault(work, self.config, effect.slug, f"{effect.event} was refused: {refusal}")

        done = happening.guarded(work, self.config, effect.slug, deed, refused=refused)
        boundary("store.tick.effect")
        return done

    def families_to_prove(self) -> list[FamilyProof]:
        """Families that get their synthesis next if their children's commits are still on the branch."""
        with self._reading() as connection:
            return snapshots.to_prove(connection)

    # --- reading ----------------------------------------------------------------------------------------------------

    def card(self, slug: str) -> Card:
        """Raises UnknownCard, and StoreError when its row is unreadable."""
        with self._reading() as connection:
            return happening.load(connection, slug)

    def find(self, slug: str) -> Card | None:
        """The card, or None."""
        try:
            return self.card(slug)
        except UnknownCard:
            return None

    def cards(
        self,
        *,
        phases: Collection[Phase | str] | None = None,
        repository: str | None = None,
        parent: str | None = None,
        requester: str | None = None,
        limit: int | None = None,
    ) -> list[values.CardLine]:
        """Cards as a list shows them, those that moved last first."""
        with self._reading() as connection:
            return reading.card_lines(
                connection,
                phases=None if phases is None else [str(phase) for phase in phases],
                repository=repository,
                parent=parent,
                requester=requester,
                limit=limit,
            )

    def slugs(self, *, limit: int) -> tuple[list[str], int]:
        """The names of the cards that moved last, at most `limit` of them, and how many cards there are."""
        with self._reading() as connection:
            return reading.slugs(connection, limit)

    def family(self, parent: str) -> tuple[Card, ...]:
        """A parent's children and its synthesis."""
        with self._reading() as connection:
            return reading.family(connection, parent)

    def intent(self, slug: str) -> str:
        """The newest text of a card's intent.  Raises UnknownCard."""
        with self._reading() as connection:
            reading.require(connection, slug)
            return happening.intent(connection, slug)

    def jobs(self, slug: str) -> list[values.JobLine]:
        """A card's jobs in the order in which they were made."""
        with self._reading() as connection:
            return reading.job_lines(connection, reading.jobs_query().where(tables.jobs.c.slug == slug))

    def job(self, job_id: int) -> values.JobLine | None:
        with self._reading() as connection:
            found = reading.job_lines(connection, reading.jobs_query().where(tables.jobs.c.id == job_id))
        return found[0] if found else None

    def present_job(self, slug: str) -> Job | None:
        """The card's open job, the newest if there are several; a job aside only when there is no other."""
        found = [line.job for line in self.jobs(slug) if line.job.state in (JobState.QUEUED, JobState.RUNNING)]
        return max(found, key=lambda job: (job.role not in happening.ASIDE, job.id), default=None)

    def reviews(self, slug: str) -> list[values.Review]:
        with self._reading() as connection:
            return reading.reviews(connection, slug)

    def commits(self, repository: str) -> list[tuple[str, str, str]]:
        """(slug, commit, phase) of every card of a repository that has a commit."""
        with self._reading() as connection:
            return reading.commits(connection, repository)

    def attachments(self, slug: str, kind: str | None = None) -> list[values.Attachment]:
        with self._reading() as connection:
            return reading.attachments(connection, slug, kind)

    def deployments(self, *, limit: int | None = None) -> list[tuple[str, values.Attachment]]:
        """Every recorded deployment with its card's slug, the newest first."""
        with self._reading() as connection:
            return reading.deployments(connection, limit)

    def routes(self, slug: str) -> list[values.Route]:
        with self._reading() as connection:
            return reading.routes(connection, slug)

    def pending_route(self, slug: str) -> dict[str, Any] | None:
        """The newest recommendation with its `id`, unless it was applied or dismissed."""
        with self._reading() as connection:
            return happening.pending_route(connection, slug)

    def answers(self, slug: str, job_id: int | None = None) -> list[values.Answer]:
        """What the card's runs answered, stale ones too."""
        with self._reading() as connection:
            return reading.answers(connection, slug, job_id)

    def raw(self, job_id: int) -> str | None:
        """The kept text of a job's newest answer, word for word as far as it was kept."""
        line = self.job(job_id)
        found = self.answers(line.job.slug, job_id) if line else []
        return found[-1].text if found else None

    def events(self, slug: str | None = None, *, after: int = 0, limit: int | None = None) -> list[values.AuditLine]:
        """The audit of one card or of all, in the order in which it happened; with `limit` the newest of it."""
        with self._reading() as connection:
            return reading.audit(connection, slug, after, limit)

    def status(self) -> values.BoardStatus:
        with self._reading() as connection:
            return reading.status(connection)

    def paused(self) -> list[values.PausedRuntime]:
        with self._reading() as connection:
            return reading.paused(connection)

    def snapshot(self, *, off_branch: Mapping[str, Collection[str]] | None = None) -> Snapshot:
        """The whole board as the scheduler sees it, for explanations."""
        with self._reading() as connection:
            return snapshots.look(connection, self.config, off_branch or {}, whole=True).snapshot

    def family_of(self, parent: str) -> Family | None:
        """A family as the scheduler sees it; None when its parent waits for no children."""
        return next((family for family in self.snapshot().families if family.parent == parent), None)

    # --- the outbox -------------------------------------------------------------------------------------------------

    def due_notifications(self, now: float, *, limit: int = 100) -> list[values.Notification]:
        """Facts to be sent now, oldest first."""
        with self._reading() as connection:
            return outbox.due(connection, now, limit)

    def notification_sent(self, identity: int) -> None:
        with self._writing() as work:
            outbox.sent(work.connection, identity, work.now)

    def notification_failed(self, identity: int, retry_at: float, error: str = "") -> None:
        with self._writing() as work:
            outbox.failed(work.connection, identity, retry_at, error)

    def notification_put_off(self, identity: int, until: float) -> None:
        """Nothing was tried; the fact is due again then."""
        with self._writing() as work:
            outbox.put_off(work.connection, identity, until)

    def notification_unwanted(self, identity: int) -> None:
        """The configuration or the fact itself says that nobody is to be told."""
        with self._writing() as work:
            outbox.unwanted(work.connection, identity)

    def expire_notifications(self, before: float) -> int:
        """Let go of facts that were made before then and still did not get through; how many."""
        with self._writing() as work:
            return outbox.expire(work.connection, before)

    def notifications(self, *, limit: int = 1000, settled: bool = False) -> list[values.NotificationLine]:
        """The outbox, newest first: what is still to be sent, or with `settled` everything."""
        with self._reading() as connection:
            return outbox.lines(connection, limit, settled)

    def deliveries(self, identities: Collection[int]) -> dict[int, dict[str, values.Delivery]]:
        """What each target got of these facts."""
        with self._reading() as connection:
            return outbox.told(connection, sorted(identities))

    def target_health(self) -> dict[str, values.TargetHealth]:
        """Targets that failed since they last took something."""
        with self._reading() as connection:
            return outbox.health(connection)

    def delivery_begun(self, identity: int, target: str, retry_at: float) -> None:
        """Before the sending, so that a process that dies in it leaves word that the end is unknown."""
        with self._writing() as work:
            outbox.begin(work.connection, identity, target, work.now, retry_at)

    def delivery_done(self, identity: int, target: str) -> None:
        with self._writing() as work:
            outbox.delivered(work.connection, identity, target)

    def delivery_failed(
        self, identity: int, target: str, error: str, *, certain: bool, health: values.TargetHealth
    ) -> None:
        """The try came to nothing (not `certain`: the target may have it all the same), and so the target fares."""
        with self._writing() as work:
            outbox.not_delivered(work.connection, identity, target, error, certain=certain)
            outbox.unwell(work.connection, target, health.failures, health.retry_at, error)

    def pending_refs(self) -> list[values.WantedRef]:
        """Commits to be kept alive in a mirror."""
        with self._reading() as connection:
            return outbox.wanted(connection)

    def ref_kept(self, identity: int) -> None:
        with self._writing() as work:
            outbox.kept(work.connection, identity, work.now)

    # --- the rest ---------------------------------------------------------------------------------------------------

    def backup(self, target: Path) -> None:
        """Copy the whole store to a new file while others go on.  Raises StoreError."""
        copy_to(self.path, target)

    @contextmanager
    def _reading(self) -> Iterator[Connection]:
        try:
            with reading_transaction(self._engine, self.path) as connection:
                yield connection
        except Unreadable as error:
            raise StoreError(
                f"The card {error.slug!r} can't be shown: {error}; the next tick parks it, or look at a backup."
            ) from error

    @contextmanager
    def _writing(self, now: float | None = None) -> Iterator[Work]:
        with writing_transaction(self._engine, self.path) as connection:
            work = Work(connection, time.time() if now is None else now)
            yield work
            boundary("store.before_commit")
        boundary("store.committed")
        with self._afterwards("the intent files"):
            self._project(work.intents)
        with self._afterwards("the doorbells"):
            for queue in sorted(work.rung):
                self.doorbells.ring(queue)

    @contextmanager
    def _afterwards(self, what: str) -> Iterator[None]:
        """What follows a commit: the commit stays true, and the next tick makes good what fails now."""
        try:
            yield
        except (OSError, StoreError) as error:
            log.warning("A transaction is committed, but %s could not follow: %s", what, error)

    def _project(self, slugs: Collection[str]) -> None:
        if not slugs:
            return
        with locks.waiting(self.config.state_dir / "locks" / "intents.lock"):
            with self._reading() as connection:
                intents = reading.intents(connection, sorted(slugs))
                reminded = set(connection.execute(_UNPROJECTED).scalars())
            done = self._projections.write(intents)
            boundary("store.projected")
            # A file that was only missing has no reminder, and costs no transaction.
            if done & reminded:
                with writing_transaction(self._engine, self.path) as connection:
                    connection.execute(_PROJECTED, [{"of": slug} for slug in sorted(done & reminded)])

    def _project_missing(self) -> None:
        with self._reading() as connection:
            waiting = connection.execute(_UNPROJECTED).scalars().all()
            missing = self._projections.missing(
                lambda: connection.execute(_OPEN_CARDS).scalars().all(),
                lambda cursor: list(connection.execute(_NEXT_CARDS, {"after": cursor}).scalars()),
            )
        self._project({*waiting, *missing})


def _culprits(snapshot: Snapshot, now: float) -> dict[str, str]:
    """The cards and families over which the plan fails, each tried by itself."""
    alone = replace(snapshot, waiting=(), leases=(), families=())
    tries: list[tuple[str, Snapshot]] = [
        (family.parent, replace(alone, families=(family,))) for family in snapshot.families
    ]
    for card in snapshot.waiting:
        meets_itself = (Lease(card.slug, card.repository, card.write_scope),)
        tries.append((card.slug, replace(alone, waiting=(card,), busy={}, leases=meets_itself)))
    found: dict[str, str] = {}
    for slug, one in tries:
        try:
            schedule.plan(one, now)
        except Exception as error:
            log.exception("The plan fails over %s", slug)
            found[slug] = f"the scheduler can't handle it ({type(error).__name__}: {error})"
    return found


_HAS_CARD = select(tables.cards.c.slug).where(tables.cards.c.slug == bindparam("of"))
_JOB_STATE = select(tables.jobs.c.state).where(tables.jobs.c.id == bindparam("of"))
_PROJECTED = delete(tables.unprojected).where(tables.unprojected.c.slug == bindparam("of"))
_UNPROJECTED = select(tables.unprojected.c.slug).order_by(tables.unprojected.c.slug).limit(500)
_INTENTS = select(tables.intents.c.slug).where(tables.intents.c.version == 1)
_OPEN_CARDS = _INTENTS.where(
    tables.intents.c.slug.in_(
        select(tables.cards.c.slug).where(
            tables.cards.c.phase.in_(sorted(phase for phase in Phase if phase not in FINAL))
        )
    )
)
_NEXT_CARDS = (
    _INTENTS.where(tables.intents.c.slug > bindparam("after")).order_by(tables.intents.c.slug).limit(_FILES_PER_TICK)
)
