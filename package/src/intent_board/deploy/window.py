"""The hours in which a deployment may begin."""

from __future__ import annotations

from datetime import datetime, time, timedelta


def opens_at(window: str | None, now: datetime) -> datetime | None:
    """None when the window is open at `now` (local time), else when it opens next.

    `window` looks like 22:00-06:00 and may span midnight; its end is outside, and equal ends mean the whole day.
    """
    if window is None:
        return None
    start, end = (time.fromisoformat(part) for part in window.split("-"))
    clock = now.time()
    is_open = start == end or (start <= clock < end if start < end else clock >= start or clock < end)
    if is_open:
        return None
    opening = now.replace(hour=start.hour, minute=start.minute, second=0, microsecond=0)
    return opening if opening > now else opening + timedelta(days=1)
