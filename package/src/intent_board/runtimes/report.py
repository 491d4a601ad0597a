"""The interim report: a file that an agent keeps up to date, opened safely and judged by its contract."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from intent_board.contracts import ContractError
from intent_board.contracts.builder import InterimReport, parse_report

REPORT_BYTES = 64 * 1024


def read_report(path: Path) -> InterimReport | None:
    """The report at `path`, or None when there is none that can be used.

    The agent owns the directory: a link, a device, a pipe, a file over REPORT_BYTES or a text that the contract
    refuses is no report.  The parents of that directory must not be the agent's.
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
        return parse_report(raw.decode())
    except (ContractError, UnicodeDecodeError):
        return None
