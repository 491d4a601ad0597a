"""The Builder's result, and the report it keeps while it works."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, cast, get_args

from intent_board.contracts import blocks, strict, values

BEGIN, END = "===BUILD-RESULT===", "===END-BUILD-RESULT==="

Outcome = Literal["done", "needs_input"]

_OUTCOMES = get_args(Outcome)
_RESULT = values.Fields("schema_version", "outcome", "summary", "question", "tests")
_REPORT = values.Fields("done", "open", "next")


@dataclass(frozen=True, slots=True)
class Result:
    """What the Builder says it came to.  `question` is set when, and only when, it needs input."""

    outcome: Outcome
    summary: str
    question: str | None
    tests: tuple[values.Test, ...]


@dataclass(frozen=True, slots=True)
class InterimReport:
    """What the Builder had done and left open when it last wrote its report file."""

    done: tuple[str, ...]
    open: tuple[str, ...]
    next: str


def parse_result(response: str) -> Result:
    """Read the Builder's whole answer.  Raises ContractError with the first fault."""
    return blocks.read(response, BEGIN, END, _result)


def _result(value: Any) -> Result:
    table = _RESULT.of(value)
    values.version(table)
    outcome = cast(Outcome, values.word(table, "outcome", _OUTCOMES))
    summary = values.text(table, "summary")
    question: str | None = None
    if outcome == "needs_input":
        question = values.text(table, "question")
    else:
        values.null(table, "question", "when outcome is done")
    return Result(outcome, summary, question, values.tests(table))


def parse_report(text: str) -> InterimReport:
    """Read the file `$INTENT_BOARD_REPORT`.

    It is strict JSON without markers.  `next` may be empty, as may both lists.  Raises ContractError.
    """
    strict.check_size(text)
    return strict.read(text, _report)


def _report(value: Any) -> InterimReport:
    table = _REPORT.of(value)
    done, left = values.texts(table, "done", 0, None), values.texts(table, "open", 0, None)
    return InterimReport(done, left, values.string(table, "next"))
