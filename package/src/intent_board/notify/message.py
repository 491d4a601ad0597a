"""What a person reads: who says it, what happened to which card, and what to look at."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from intent_board.config import invisible
from intent_board.runtimes.credentials import Credentials
from intent_board.store.values import Notification

#: A telephone shows about this much; `board show` has the rest.
MOST_CHARACTERS = 400
#: event -> (whose word it is, what it is about)
SENDERS: Mapping[str, tuple[str, str]] = {
    "needs_human": ("Operator", "a person is needed"),
    "blocked": ("Board", "a family is blocked"),
    "limit_reached": ("Builder", "limit reached"),
    "negative_review": ("Reviewer", "negative review"),
    "approval_wanted": ("Board", "approval"),
    "question": ("Board", "a question"),
    "failed": ("Board", "a card stopped"),
    "ready": ("Board", "ready"),
    "deployed": ("Deployer", "deployed"),
    "deploy_failed": ("Deployer", "deployment failed"),
    "discrepancy": ("Inspector", "a claim differs from the evidence"),
    "runtime_paused": ("Board", "a runtime is paused"),
}
#: A sending was cut off before its end was known, so the target may have this already.
REPEATED = "(Perhaps for the second time: the board was interrupted while it sent this.) "


@dataclass(frozen=True, slots=True)
class Message:
    title: str
    body: str


def message(note: Notification, credentials: Credentials, *, repeated: bool) -> Message:
    """The text of one fact: short, without secrets, and without characters that act on whoever shows it.

    `repeated` says so in the text.  Much of a fact was written by a model, so it can neither call a whole channel nor
    look like another text.
    """
    sender, what = SENDERS.get(note.event, ("Board", note.event))
    text = _harmless(credentials.redact(note.text))
    if len(text) > MOST_CHARACTERS:
        text = text[: MOST_CHARACTERS - 1] + "…"
    again = REPEATED if repeated else ""
    return Message(f"Intent Board, {sender}: {what}", f"{again}{note.slug}: {text}\nboard why {note.slug}")


def _harmless(text: str) -> str:
    line = " ".join(text.split())
    shown = "".join(char for char in line if invisible(char) is None)
    # Chat services read @everyone and <!channel> as calls.
    return shown.replace("@", "＠").replace("<!", "‹!")
