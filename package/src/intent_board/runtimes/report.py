"""The interim report: a file that an agent keeps up to date, and that trusted code reads back."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

REPORT_BYTES = 64 * 1024


class Report(BaseModel):
    """What is done, what is open, and the next thing to do, in the agent's own words: untrusted text."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    done: tuple[str, ...]
    open: tuple[str, ...]
    next: str


def read_report(path: Path) -> Report | None:
    """The report at `path`, or None when there is none that can be used.

    The agent owns the directory: a link, a device, a pipe, a file over REPORT_BYTES or anything but the three fields
    is no report.  The parents of that directory must not be the agent's.
    """
    try:
        # Non-blocking, or opening a pipe would wait for its other end.
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        raw = os.read(fd, REPORT_BYTES + 1) if stat.S_ISREG(os.fstat(fd).st_mode) else b""
    finally:
        os.close(fd)
    if len(raw) > REPORT_BYTES:
        return None
    try:
        return Report.model_validate_json(raw)
    except ValidationError:
        return None
