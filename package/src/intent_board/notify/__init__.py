"""Telling people: the store's outbox goes to the addresses of an Apprise URL list, each fact once at each of them.

Nothing here runs inside a job or a tick.  `board notify send` is a program of its own with its own bell, so an address
that is dead or slow holds nobody up.
"""

from __future__ import annotations

from intent_board.notify.asking import answer_all, ask
from intent_board.notify.message import Message, message
from intent_board.notify.sending import AlreadySending, Report, send_due
from intent_board.notify.targets import Fault, NotifyError, Target, Targets, addresses
from intent_board.notify.trial import Result, try_all

__all__ = [
    "AlreadySending",
    "Fault",
    "Message",
    "NotifyError",
    "Report",
    "Result",
    "Target",
    "Targets",
    "addresses",
    "answer_all",
    "ask",
    "message",
    "send_due",
    "try_all",
]
