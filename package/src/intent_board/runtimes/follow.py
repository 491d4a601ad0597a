"""Reading files that a running program writes, without believing in their size."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

#: A longer line is no event of any agent program; the longest seen was 3 MB.
LINE_BYTES = 16 << 20
#: What is read in one go.  A program that writes as fast as we read, or makes its file a hole of a terabyte, must not
#: keep us from looking at the clock.
TURN_BYTES = 64 << 20
_PIECE = 1 << 18


class Lines:
    """The lines of a growing file, each at most LINE_BYTES, with flat memory.

    Lines end at b"\\n" and nowhere else: agent programs write U+2028 and its like raw inside their strings.
    """

    def __init__(self, fd: int) -> None:
        self._fd, self._offset = fd, 0
        self._part, self._skipping = bytearray(), False
        self.cut = False

    @property
    def read_bytes(self) -> int:
        """How much was read so far."""
        return self._offset

    def new(self, *, at_end: bool = False) -> Iterator[bytes]:
        """The lines that were completed since the last call, from at most TURN_BYTES; `at_end` also an open one."""
        stop = self._offset + TURN_BYTES
        while self._offset < stop and (piece := os.pread(self._fd, _PIECE, self._offset)):
            self._offset += len(piece)
            yield from self._split(piece)
        if at_end and self._part:
            yield bytes(self._part)
            self._part.clear()

    def _split(self, piece: bytes) -> Iterator[bytes]:
        *whole, rest = piece.split(b"\n")
        for part in whole:
            self._add(part)
            if self._skipping:
                self._skipping = False
            else:
                yield bytes(self._part)
            self._part = bytearray()
        self._add(rest)

    def _add(self, part: bytes) -> None:
        if not self._skipping and len(self._part) + len(part) > LINE_BYTES:
            self._skipping = self.cut = True
            self._part = bytearray()
        if not self._skipping:
            self._part += part


def parse_object(line: bytes) -> dict[str, Any] | None:
    """A line as a JSON object, or None: agent programs print other things beside their events."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def tail(fd: int, limit: int) -> str:
    """The last `limit` bytes of a file as text."""
    size = os.fstat(fd).st_size
    return os.pread(fd, limit, max(0, size - limit)).decode(errors="replace").strip()
