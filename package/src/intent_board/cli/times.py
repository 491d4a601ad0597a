"""Times for people: local time, and how long ago."""

from __future__ import annotations

from datetime import datetime


def stamp(seconds: float | None) -> str:
    """Local date and time with its zone's offset; "" for no time."""
    if seconds is None:
        return ""
    try:
        return datetime.fromtimestamp(seconds).astimezone().isoformat(sep=" ", timespec="seconds")
    except (OverflowError, OSError, ValueError):
        return f"{seconds:.0f} s"  # a clock that was wrong when this was written


def ago(seconds: float | None, now: float) -> str:
    """How long ago, in the one or two units that matter; "" for no time."""
    if seconds is None:
        return ""
    left = max(0, int(now - seconds))
    for unit, size, smaller, small in (("d", 86400, "h", 3600), ("h", 3600, "m", 60), ("m", 60, "s", 1)):
        if left >= size:
            return f"{left // size}{unit} {left % size // small}{smaller}"
    return f"{left}s"
