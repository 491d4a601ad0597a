"""`board notify test`: one message to everybody, and who took it."""

from __future__ import annotations

from dataclasses import dataclass

from intent_board.notify.crew import DEADLINE_SECONDS, Crew
from intent_board.notify.message import Message
from intent_board.notify.targets import Targets


@dataclass(frozen=True, slots=True)
class Result:
    """What came of one line of the credential; `target` shows no address."""

    line: int
    target: str
    ok: bool
    reason: str


def try_all(targets: Targets, asker: str, *, deadline: float = DEADLINE_SECONDS) -> list[Result]:
    """Send a test message to every target now, at once; one result for each line, in order."""
    words = Message("Intent Board, Board: a test", f"{asker} asked for this test message. Nothing is to be done.")
    found = [Result(fault.line, f"line {fault.line}", False, fault.reason) for fault in targets.faults]
    crew = Crew(deadline)
    for target in targets.all:
        crew.send(target.line, target, words)
    while len(crew):
        for end in crew.ended():
            reason = "" if end.taken else "did not take it" if end.taken is False else "did not answer in time"
            found.append(Result(end.target.line, str(end.target), bool(end.taken), reason))
    return sorted(found, key=lambda one: one.line)
