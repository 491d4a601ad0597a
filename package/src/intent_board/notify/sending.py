"""One run: what is due goes out, each fact once at each target.

Before a sending the store gets the word that it begins, after it the word how it ended.  A process that is killed in
between leaves a sending whose end nobody knows.  It is sent again, and the message says that it may be the second
time: a fact that nobody hears of would leave a card waiting for a person who was never asked.
"""

from __future__ import annotations

import os
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from intent_board.boundaries import boundary
from intent_board.config import BoardConfig
from intent_board.notify.crew import DEADLINE_SECONDS, Crew
from intent_board.notify.message import message
from intent_board.notify.targets import NotifyError, Target, Targets, addresses
from intent_board.runtimes.credentials import Credentials
from intent_board.store import Store, locks
from intent_board.store.values import Delivery, Notification, TargetHealth

#: A failed sending is repeated after this, doubling up to the most.
FIRST_RETRY, MOST_RETRY = 60.0, 3600.0
#: What is older than this is no news any more; the card itself still says it.
EXPIRES_SECONDS = 3 * 86400.0
#: A run ends after this long even when more is due; the next bell goes on.
RUN_SECONDS = 240.0
_BATCH = 100


class AlreadySending(Exception):
    """Another process holds the lock."""


@dataclass(slots=True)
class Report:
    """What a run did.  `failures` has one sentence for each target that failed, and one for each unusable line."""

    sent: int = 0
    unwanted: int = 0
    expired: int = 0
    failures: list[str] = field(default_factory=list)


def backoff(tries: int) -> float:
    """Seconds until the next try after `tries` that failed."""
    return float(min(FIRST_RETRY * 2 ** min(tries - 1, 16), MOST_RETRY))


def send_due(
    config: BoardConfig,
    store: Store,
    credentials: Credentials,
    *,
    stop: Callable[[], bool] = lambda: False,
    deadline: float = DEADLINE_SECONDS,
    clock: Callable[[], float] = time.time,
) -> Report:
    """Send what is due until nothing is, the run's time is over, or `stop` says so.

    A sending that is under way then is waited for, at most `deadline` seconds.  Raises NotifyError when nobody can be
    told at all (the facts wait then), and AlreadySending.
    """
    targets = addresses(config, credentials)
    if not targets.all:
        faults = "; ".join(map(str, targets.faults)) or "it has only comments"
        raise NotifyError(
            f"The credential {config.notifications.credential} names nobody to tell ({faults}); write one Apprise URL "
            "a line into it."
        )
    lock = locks.acquire(config.state_dir / "locks" / "notify.lock")
    if lock is None:
        raise AlreadySending("another process sends already; it sees what this one would")
    try:
        return _send(config, store, credentials, targets, stop, deadline, clock)
    finally:
        os.close(lock)


def _send(
    config: BoardConfig,
    store: Store,
    credentials: Credentials,
    targets: Targets,
    stop: Callable[[], bool],
    deadline: float,
    clock: Callable[[], float],
) -> Report:
    report = Report(failures=[str(fault) for fault in targets.faults])
    report.expired = store.expire_notifications(clock() - EXPIRES_SECONDS)
    until = time.monotonic() + RUN_SECONDS
    crew = Crew(deadline)
    while not stop() and time.monotonic() < until:
        notes = store.due_notifications(clock(), limit=_BATCH)
        if not notes:
            break
        batch = _Batch(config, store, credentials, targets, crew, report, clock)
        if not batch.run(notes, lambda: stop() or time.monotonic() >= until):
            break  # what is left is for targets that this run has given up
    return report


class _Batch:
    """Some facts on their way to every target that they are for."""

    def __init__(
        self,
        config: BoardConfig,
        store: Store,
        credentials: Credentials,
        targets: Targets,
        crew: Crew,
        report: Report,
        clock: Callable[[], float],
    ) -> None:
        self._config, self._store, self._credentials = config, store, credentials
        self._targets, self._crew, self._report, self._clock = targets, crew, report, clock
        self._health = store.target_health()
        self._told: dict[int, dict[str, Delivery]] = defaultdict(dict)
        self._wanted: dict[int, dict[str, Target]] = {}
        self._waiting: dict[str, list[Notification]] = defaultdict(list)

    def run(self, notes: Sequence[Notification], over: Callable[[], bool]) -> bool:
        """Whether any of them is settled or put off now."""
        self._told.update(self._store.deliveries([note.id for note in notes]))
        for note in notes:
            self._wanted[note.id] = {target.key: target for target in self._recipients(note)}
            for key in self._wanted[note.id]:
                self._waiting[key].append(note)
        for key, line in self._waiting.items():
            # One fact that a target never takes must not stand before all others for ever.
            line.sort(key=partial(self._turn, key))
        while self._begin(over) or len(self._crew):
            for end in self._crew.ended():
                self._settle(end.identity, end.target, end.taken)
        concluded = [self._conclude(note.id) for note in notes]
        return any(concluded)

    def _recipients(self, note: Notification) -> tuple[Target, ...]:
        if note.event not in self._config.notifications.events:
            return ()
        if not note.to_requester:
            return self._targets.of_owner()
        # The owner has the owner's copy of it, or has just done it.
        return () if note.requester == self._config.board.owner else self._targets.of_user(note.requester)

    # --- what may go now --------------------------------------------------------------------------------------------

    def _tries(self, identity: int, key: str) -> int:
        known = self._told[identity].get(key)
        return known.tries if known else 0

    def _turn(self, key: str, note: Notification) -> tuple[int, int]:
        return self._tries(note.id, key), note.id

    def _not_before(self, identity: int, key: str) -> float:
        known = self._told[identity].get(key)
        health = self._health.get(key)
        times = [known.retry_at if known else 0.0, health.retry_at if health else 0.0]
        # A time that is further away than any backoff comes from a clock that has jumped.
        return max(at if at <= self._clock() + MOST_RETRY else 0.0 for at in times)

    def _may_go(self, identity: int, key: str) -> bool:
        known = self._told[identity].get(key)
        return (known is None or known.state != "sent") and self._not_before(identity, key) <= self._clock()

    def _begin(self, over: Callable[[], bool]) -> bool:
        """Give every free target its next fact; whether there was one to give."""
        begun = False
        for key, line in self._waiting.items():
            while line and not over():
                target = self._wanted[line[0].id][key]
                if not self._crew.is_free(target):
                    break
                note = line.pop(0)
                if self._may_go(note.id, key):
                    self._send(note, target)
                    begun = True
        return begun

    def _send(self, note: Notification, target: Target) -> None:
        before = self._told[note.id].get(target.key)
        repeated = before is not None and before.state == "sending"
        tries = self._tries(note.id, target.key) + 1
        retry_at = self._clock() + backoff(tries)
        self._store.delivery_begun(note.id, target.key, retry_at)
        self._told[note.id][target.key] = Delivery("sending", tries, retry_at)
        boundary("notify.begun")
        self._crew.send(note.id, target, message(note, self._credentials, repeated=repeated))

    # --- what came of it --------------------------------------------------------------------------------------------

    def _settle(self, identity: int, target: Target, taken: bool | None) -> None:
        boundary("notify.sent")
        known = self._told[identity][target.key]
        if taken:
            self._store.delivery_done(identity, target.key)
            self._told[identity][target.key] = Delivery("sent", known.tries, known.retry_at)
            self._health.pop(target.key, None)
            self._report.sent += 1
        else:
            error = f"{target} did not take it" if taken is False else f"{target} did not answer in time"
            failures = self._health[target.key].failures + 1 if target.key in self._health else 1
            self._health[target.key] = TargetHealth(failures, self._clock() + backoff(failures))
            self._store.delivery_failed(
                identity, target.key, error, certain=taken is False, health=self._health[target.key]
            )
            self._told[identity][target.key] = Delivery("failed", known.tries, known.retry_at)
            self._report.failures.append(error)
        boundary("notify.settled")

    def _conclude(self, identity: int) -> bool:
        """Say of the fact itself that it is done, or when to look at it again; False: it is due as before."""
        told, wanted = self._told[identity], self._wanted[identity]
        left = [key for key in wanted if key not in told or told[key].state != "sent"]
        if not wanted:
            self._store.notification_unwanted(identity)
            self._report.unwanted += 1
        elif not left:
            self._store.notification_sent(identity)
        else:
            again = min(self._not_before(identity, key) for key in left)
            if again <= self._clock():
                return False
            tried = ", ".join(str(wanted[key]) for key in left if key in told)
            if tried:
                self._store.notification_failed(identity, again, f"not taken by {tried}")
            else:
                self._store.notification_put_off(identity, again)
        return True
