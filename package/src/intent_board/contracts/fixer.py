"""The Fixer's result: the smallest repair of one proved defect, pushed to the quarantine made for this run."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Literal, cast, get_args

from intent_board.contracts import blocks, values
from intent_board.contracts.errors import Code, ContractError
from intent_board.contracts.values import Table

BEGIN, END = "===FIX_RESULT===", "===END_FIX_RESULT==="

Outcome = Literal["repaired", "needs_input", "not_applicable", "failed"]

_OUTCOMES = get_args(Outcome)
_RESULT = values.Fields(
    "schema_version", "outcome", "summary", "commit_hash", "pushed_branch", "tests", "question", "required_action",
    "review_required", "failure",
)  # fmt: skip
#: The texts that an outcome must give; all the others are null.
_TEXTS = {"needs_input": ("question", "required_action"), "failed": ("failure",)}
_CLAIM = re.compile(r"phase|review|deploy|approv|releas|publish|status", re.IGNORECASE).search


@dataclass(frozen=True, slots=True)
class Result:
    """What the Fixer says it came to.  Trusted code still proves the commit, or that nothing was pushed."""

    outcome: Outcome
    summary: str
    commit_hash: str | None
    pushed_branch: str | None
    tests: tuple[values.Test, ...]
    question: str | None
    required_action: str | None
    review_required: bool
    failure: str | None


def parse_result(response: str) -> Result:
    """Read the Fixer's whole answer, around which only white space may stand.  Raises ContractError."""
    return blocks.read(response, BEGIN, END, _result, alone=True)


def _result(value: Any) -> Result:
    table = _fields(value)
    values.version(table)
    outcome = cast(Outcome, values.word(table, "outcome", _OUTCOMES))
    summary = values.text(table, "summary")
    commit, branch = _push(table, outcome)
    tests = _tests(table, outcome)
    question, action, failure = (_text(table, name, outcome) for name in ("question", "required_action", "failure"))
    return Result(outcome, summary, commit, branch, tests, question, action, outcome == "repaired", failure)


def _fields(value: Any) -> Table:
    try:
        return _RESULT.of(value)
    except ContractError as error:
        # What a card's phase becomes, whether it is reviewed or deployed, is never the Fixer's to say.
        if error.code is Code.UNKNOWN_FIELD and _CLAIM(error.path):
            reason = "claims a phase, a review or a deployment, which a Fixer can't decide; leave the field out"
            raise ContractError(Code.CLAIM, reason, error.path) from None
        raise


def _push(table: Table, outcome: Outcome) -> tuple[str | None, str | None]:
    repaired = outcome == "repaired"
    commit = branch = None
    if repaired:
        commit, branch = values.commit(table, "commit_hash"), values.branch(table, "pushed_branch")
    else:
        values.null(table, "commit_hash", f"when outcome is {outcome}")
        values.null(table, "pushed_branch", f"when outcome is {outcome}")
    if values.truth(table, "review_required") is not repaired:
        reason = f"must be {str(repaired).lower()} when outcome is {outcome}"
        raise ContractError(Code.CONTRADICTION, reason, "$.review_required")
    return commit, branch


def _tests(table: Table, outcome: Outcome) -> tuple[values.Test, ...]:
    tests = values.tests(table)
    if outcome == "needs_input" and tests:
        raise ContractError(Code.WRONG_COUNT, "must be [] when outcome is needs_input", "$.tests")
    failed = next((number for number, test in enumerate(tests) if test.result == "failed"), None)
    if outcome == "repaired" and failed is not None:
        reason = "is failed, so the defect is not repaired; repair it, or answer with outcome failed"
        raise ContractError(Code.CONTRADICTION, reason, f"$.tests[{failed}].result")
    return tests


def _text(table: Table, name: str, outcome: Outcome) -> str | None:
    if name in _TEXTS.get(outcome, ()):
        return values.text(table, name)
    values.null(table, name, f"when outcome is {outcome}")
    return None
