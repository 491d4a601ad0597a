"""Agent programs as subprocesses in their sandbox: an order in, events followed, a RunResult out."""

from __future__ import annotations

from intent_board.runtimes.credentials import Credentials, MissingCredential, redact
from intent_board.runtimes.driver import remove_run_dir, run
from intent_board.runtimes.order import Order, Outcome, RunResult
from intent_board.runtimes.report import read_report

__all__ = [
    "Credentials",
    "MissingCredential",
    "Order",
    "Outcome",
    "RunResult",
    "read_report",
    "redact",
    "remove_run_dir",
    "run",
]
