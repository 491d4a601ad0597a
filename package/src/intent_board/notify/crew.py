"""One thread for each target, so that a slow one holds up nobody but itself."""

from __future__ import annotations

import logging
import queue
import threading
import time
from dataclasses import dataclass

from intent_board.notify.message import Message
from intent_board.notify.targets import Target
from intent_board.notify.transport import deliver

log = logging.getLogger(__name__)

#: How long one sending may take as a whole; a service that answers a byte at a time is given up then.
DEADLINE_SECONDS = 30.0
#: How often a caller may look at something else while it waits.
_LOOK_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class End:
    """How one sending ended; `taken` None: it did not end in time, and nobody knows."""

    identity: int
    target: Target
    taken: bool | None


class Crew:
    """Sends in the background; at most one message at a time for each target."""

    def __init__(self, deadline: float = DEADLINE_SECONDS) -> None:
        self._deadline = deadline
        self._ends: queue.SimpleQueue[End] = queue.SimpleQueue()
        self._busy: dict[str, tuple[int, Target, float]] = {}
        self._lost: set[str] = set()

    def __len__(self) -> int:
        """How many sendings are under way."""
        return len(self._busy)

    def is_free(self, target: Target) -> bool:
        """Whether the target can be given a message: it has none, and did not run out of time before."""
        return target.key not in self._busy and target.key not in self._lost

    def send(self, identity: int, target: Target, message: Message) -> None:
        self._busy[target.key] = (identity, target, time.monotonic() + self._deadline)
        # A daemon, since a service that never answers must not keep the process.
        threading.Thread(target=self._send, args=(identity, target, message), daemon=True).start()

    def _send(self, identity: int, target: Target, message: Message) -> None:
        taken = False
        try:
            taken = deliver(target.url, message.title, message.body)
        except Exception as error:  # noqa: BLE001 - a plugin of Apprise failed, which is a failure of this target alone
            # Its text could hold the address.
            log.warning("%s: the sending failed with %s", target, type(error).__name__)
        self._ends.put(End(identity, target, taken))

    def ended(self) -> list[End]:
        """What ended since the last look; waits a moment for the first."""
        found: list[End] = []
        try:
            found.append(self._ends.get(timeout=_LOOK_SECONDS))
            while True:
                found.append(self._ends.get_nowait())
        except queue.Empty:
            pass
        # What ends after its time has been given up already.
        found = [end for end in found if self._busy.get(end.target.key, (None,))[0] == end.identity]
        for end in found:
            del self._busy[end.target.key]
        now = time.monotonic()
        for key, (identity, target, until) in list(self._busy.items()):
            if now >= until:
                del self._busy[key]
                self._lost.add(key)
                found.append(End(identity, target, None))
        return found
