"""The gate before each step of an agent program that can't count for itself.

The program runs a hook before every request to its model.  The hook tells the request's id to the board and waits; the
board counts, records, and lets it go on, or ends the run.  Two named pipes in a directory that is read-only for the
agent carry it: nothing that an agent does makes the count smaller, and no step begins before the last one is recorded.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

#: /bin/sh and its own words only: a box need not have more.
_HOOK = """#!/bin/sh
IFS= read -r event
id=${{event#*\\"request_id\\":\\"}}
id=${{id%%\\"*}}
printf '%.64s\\n' "$id" >{inside}/asks
IFS= read -r answer <{inside}/grants
"""


class Gate:
    """Both ends of the gate, outside of the box."""

    def __init__(self, outside: Path, inside: Path) -> None:
        hook = outside / "hook"
        hook.write_text(_HOOK.format(inside=inside))
        self.command = ("/bin/sh", str(inside / "hook"))
        self._asks, self._grants = (self._pipe(outside / name) for name in ("asks", "grants"))
        self._ids: set[str] = set()
        self._waiting, self._read = 0, 0

    @staticmethod
    def _pipe(path: Path) -> int:
        os.mkfifo(path, 0o600)
        # Both directions, so that neither side ever sees the other's absence as an end.
        return os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)

    @property
    def requests(self) -> int:
        """How many requests have asked so far; a repeated try of one counts once."""
        return len(self._ids)

    def poll(self) -> int:
        """Take in what was asked; returns how many bytes of it there were so far."""
        with contextlib.suppress(BlockingIOError):
            # A line is shorter than what a pipe writes at once, so lines are whole.
            asked = os.read(self._asks, 65536)
            self._read += len(asked)
            for line in asked.decode(errors="replace").splitlines():
                self._ids.add(line)
                self._waiting += 1
        return self._read

    def open(self) -> None:
        """Let everyone go on who asked."""
        with contextlib.suppress(BlockingIOError):
            while self._waiting:
                os.write(self._grants, b"go\n")
                self._waiting -= 1

    def close(self) -> None:
        """Let go of the pipes."""
        os.close(self._asks)
        os.close(self._grants)
