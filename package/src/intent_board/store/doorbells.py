"""Doorbells: empty files that systemd's path units watch.  A file that exists rings."""

from __future__ import annotations

import os
from pathlib import Path

from intent_board.config import BoardConfig


class Doorbells:
    """The bells of every slot of every queue; `deploy` has one, `deploy-0`, and so has `notify` where it has a use."""

    def __init__(self, config: BoardConfig) -> None:
        self._directory = config.state_dir / "doorbells"
        self._slots = config.queue_slots() | {"deploy": 1}
        if config.notifications.credential is not None:
            self._slots["notify"] = 1

    def path(self, queue: str, slot: int) -> Path:
        """The file that rings this slot."""
        return self._directory / f"{queue}-{slot}"

    def ring(self, queue: str) -> None:
        """Ring every slot of a queue; one that rings already, or a queue that nobody serves, is no fault."""
        for slot in range(self._slots.get(queue, 0)):
            bell = os.open(self.path(queue, slot), os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            os.close(bell)

    def consume(self, queue: str, slot: int) -> bool:
        """Take the ring away, before the work and whatever comes of it; whether there was one."""
        try:
            self.path(queue, slot).unlink()
        except FileNotFoundError:
            return False
        return True
