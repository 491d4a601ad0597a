"""Runtime `command`: any program that speaks the board's own small protocol.

The order comes on standard input.  The program prints one JSON object a line:

    {"type": "step"}                      before each step it begins
    {"type": "text", "text": "..."}       something it said on the way
    {"type": "usage", "input_tokens": 1, "output_tokens": 2, "cost_usd": 0.1}     added up
    {"type": "error", "outcome": "rate_limited", "text": "...", "retry_at": 1790000000}
    {"type": "final", "text": "..."}      its answer; then it ends

`outcome` is a word of `Outcome` but `answered`.  Other lines are ignored.  It finds the model, the effort and the
number of steps it may take in INTENT_BOARD_MODEL, INTENT_BOARD_REASONING_EFFORT and INTENT_BOARD_ITERATION_LIMIT.
"""

from __future__ import annotations

from typing import Any

from intent_board.runtimes import failures
from intent_board.runtimes.order import Order, Outcome
from intent_board.runtimes.program import Launch, Places, Program, Verdict, complaint, number, short


class Command(Program):
    """A run of a program that speaks the protocol above."""

    def __init__(self, order: Order) -> None:
        super().__init__(order)
        self._final: str | None = None
        self._error: Verdict | None = None
        self._spoke = False

    def launch(self, places: Places) -> Launch:
        environment = {
            "HOME": str(places.state),
            "INTENT_BOARD_ITERATION_LIMIT": str(self.order.iteration_limit),
            "INTENT_BOARD_MODEL": self.order.model or "",
            "INTENT_BOARD_REASONING_EFFORT": self.order.reasoning_effort or "",
        }
        return Launch(self.order.profile.command, environment)

    def event(self, event: dict[str, Any]) -> None:
        self._spoke = True
        match event.get("type"):
            case "step" if not self.finished:
                self.over_limit = self.steps >= self.order.iteration_limit
                self.steps += not self.over_limit
            case "text":
                self.said(event.get("text"))
            case "usage":
                self._count(event)
            case "error":
                self._fail(event)
            case "final" if isinstance(event.get("text"), str):
                self._final, self.finished = event["text"], True
                self.said(self._final)

    def _count(self, event: dict[str, Any]) -> None:
        for name, value in event.items():
            if name.endswith("_tokens"):
                self.usage[name] = self.usage.get(name, 0) + number(value)
        cost = event.get("cost_usd")
        if isinstance(cost, (int, float)) and not isinstance(cost, bool):
            self.cost_usd = (self.cost_usd or 0.0) + cost

    def _fail(self, event: dict[str, Any]) -> None:
        text, word = str(event.get("text", "")), event.get("outcome")
        known = next((kind for kind in Outcome if kind == word and kind is not Outcome.ANSWERED), None)
        outcome = known or failures.of_text(text)
        retry_at = event.get("retry_at")
        when = float(retry_at) if isinstance(retry_at, (int, float)) and not isinstance(retry_at, bool) else None
        self._error = Verdict(outcome, short(text) or "The program reported an error.", retry_at=when)

    def verdict(self, exit_code: int, stderr: str, now: float) -> Verdict:
        if self._final is not None:
            return Verdict(Outcome.ANSWERED, "", self._final)
        if self._error is not None:
            return self._error
        said = f"{self.order.profile.command[0]} ended with {exit_code} and without an answer: {complaint(stderr)}"
        return Verdict(Outcome.FAILED if self._spoke else Outcome.REFUSED_CONFIGURATION, said)
