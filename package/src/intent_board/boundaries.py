"""Marks the places between two effects, so that tests can end the process at every one of them.

`kill -9` anywhere must lose nothing (docs/architecture.md), and only the code knows where "anywhere" is.  Whoever adds
an effect marks the place before the next one; tests/faults then meets it by itself.
"""

from __future__ import annotations

import fcntl
import os
import signal
from pathlib import Path

#: A file that gets one line, the boundary's name, each time any process passes one.  Its lines are the count, so that
#: a scheduler and its workers count together.
FILE_VARIABLE = "INTENT_BOARD_TEST_BOUNDARIES"
#: The number of the boundary, from 1, at which the process that reaches it kills itself.
KILL_VARIABLE = "INTENT_BOARD_TEST_KILL_AT"

_FILE = os.environ.get(FILE_VARIABLE)
_KILL_AT = int(os.environ.get(KILL_VARIABLE) or 0)


def boundary(name: str) -> None:
    """The effect before this call is complete, the one after it has not begun.

    Does nothing unless `$INTENT_BOARD_TEST_BOUNDARIES` was set when the program started.
    """
    if _FILE is not None:
        _pass(Path(_FILE), name)


def _pass(file: Path, name: str) -> None:
    with file.open("a+b") as lines:
        fcntl.flock(lines, fcntl.LOCK_EX)
        lines.seek(0)
        number = len(lines.read().splitlines()) + 1
        lines.write(f"{name}\n".encode())
        lines.flush()
        if number == _KILL_AT:
            os.kill(os.getpid(), signal.SIGKILL)
