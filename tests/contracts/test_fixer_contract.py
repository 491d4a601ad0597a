"""The Fixer's result: each outcome with exactly what belongs to it, and nothing around the block."""

from __future__ import annotations

import json
from typing import Any

import pytest
from contract_answers import refusal, without

from intent_board.contracts import Code
from intent_board.contracts.fixer import parse_result

COMMIT = "0123456789abcdef0123456789abcdef01234567"


def repaired(**changes: Any) -> dict[str, Any]:
    return {
        "schema_version": 1,
        "outcome": "repaired",
        "summary": "Der Port kam aus einer Konstante.",
        "commit_hash": COMMIT,
        "pushed_branch": "repair/druck-3",
        "tests": [test()],
        "question": None,
        "required_action": None,
        "review_required": True,
        "failure": None,
    } | changes


def test(**changes: Any) -> dict[str, Any]:
    return {"command": "nix flake check", "result": "passed"} | changes


test.__test__ = False  # type: ignore[attr-defined]


def nothing_pushed(outcome: str, **changes: Any) -> dict[str, Any]:
    return repaired(outcome=outcome, commit_hash=None, pushed_branch=None, review_required=False) | changes


def needs_input(**changes: Any) -> dict[str, Any]:
    texts = {"question": "Welcher Port?", "required_action": "Den Port nennen.", "tests": []}
    return nothing_pushed("needs_input", **texts) | changes


def failed(**changes: Any) -> dict[str, Any]:
    return nothing_pushed("failed", failure="Der Fehler zeigt sich nicht.", tests=[test(result="failed")]) | changes


def not_applicable(**changes: Any) -> dict[str, Any]:
    return nothing_pushed("not_applicable") | changes


def answer(value: Any) -> str:
    return f"\r\n\t ===FIX_RESULT===\n{json.dumps(value)}\n===END_FIX_RESULT===\n\n"


@pytest.mark.parametrize("make", [repaired, needs_input, failed, not_applicable])
def test_each_outcome_keeps_its_values(make: Any) -> None:
    value = make()
    result = parse_result(answer(value))
    for name in without(without(value, "schema_version"), "tests"):
        assert getattr(result, name) == value[name]
    assert [(one.command, one.result) for one in result.tests] == [
        (one["command"], one["result"]) for one in value["tests"]
    ]


BROKEN: list[tuple[Any, str, Code]] = [
    (repaired(outcome="done"), "$.outcome", Code.WRONG_VALUE),
    (repaired(commit_hash=None), "$.commit_hash", Code.WRONG_TYPE),
    (repaired(commit_hash=COMMIT[:-1]), "$.commit_hash", Code.PATTERN),
    (repaired(commit_hash=COMMIT.upper()), "$.commit_hash", Code.PATTERN),
    (repaired(commit_hash=COMMIT + "\n"), "$.commit_hash", Code.PATTERN),
    (repaired(pushed_branch=None), "$.pushed_branch", Code.WRONG_TYPE),
    *(
        (repaired(pushed_branch=bad), "$.pushed_branch", Code.PATTERN)
        for bad in (
            "-f",
            "a..b",
            "a b",
            "a.lock",
            "refs/heads/a",
            "a~1",
            "a:b",
            "HEAD",
            "/a",
            "a//b",
            "a@{1}",
            ".a",
            "a/",
        )
    ),
    (repaired(pushed_branch="a\u200bb"), "$.pushed_branch", Code.INVISIBLE_CHARACTER),
    (repaired(pushed_branch=" a"), "$.pushed_branch", Code.WHITE_SPACE),
    (repaired(review_required=False), "$.review_required", Code.CONTRADICTION),
    (repaired(review_required=1), "$.review_required", Code.WRONG_TYPE),
    (repaired(tests=[test(), test(result="failed")]), "$.tests[1].result", Code.CONTRADICTION),
    (repaired(question="Welcher?"), "$.question", Code.NOT_NULL),
    (repaired(required_action="x"), "$.required_action", Code.NOT_NULL),
    (repaired(failure=""), "$.failure", Code.NOT_NULL),
    (repaired(TARGET_PHASE="deployed"), "$.TARGET_PHASE", Code.CLAIM),
    (repaired(target_phase=None), "$.target_phase", Code.CLAIM),
    (repaired(review="approved"), "$.review", Code.CLAIM),
    (repaired(deployed=False), "$.deployed", Code.CLAIM),
    (repaired(note="x"), "$.note", Code.UNKNOWN_FIELD),
    (needs_input(question=None), "$.question", Code.WRONG_TYPE),
    (needs_input(required_action=""), "$.required_action", Code.EMPTY),
    (needs_input(tests=[test()]), "$.tests", Code.WRONG_COUNT),
    (needs_input(failure="x"), "$.failure", Code.NOT_NULL),
    (failed(failure=None), "$.failure", Code.WRONG_TYPE),
    (failed(failure=" "), "$.failure", Code.EMPTY),
    (failed(question="x"), "$.question", Code.NOT_NULL),
    (not_applicable(summary="\n"), "$.summary", Code.EMPTY),
    (not_applicable(failure="x"), "$.failure", Code.NOT_NULL),
    *((make(commit_hash=COMMIT), "$.commit_hash", Code.NOT_NULL) for make in (needs_input, failed, not_applicable)),
    *((make(pushed_branch="a"), "$.pushed_branch", Code.NOT_NULL) for make in (needs_input, failed, not_applicable)),
    *((make(review_required=True), "$.review_required", Code.CONTRADICTION) for make in (needs_input, failed)),
    *((without(repaired(), name), f"$.{name}", Code.MISSING_FIELD) for name in repaired()),
]


@pytest.mark.parametrize(("value", "path", "code"), BROKEN)
def test_a_broken_result_names_its_first_fault(value: Any, path: str, code: Code) -> None:
    assert refusal(lambda: parse_result(answer(value))) == (path, code)


@pytest.mark.parametrize(
    "text",
    [
        f"Repariert:\n{answer(repaired())}",
        f"{answer(repaired())}TARGET_PHASE: deployed",
        f"```\n{answer(repaired())}```\n",
        f"\ufeff{answer(repaired())}",
        f"\u00a0{answer(repaired())}",
        f"{answer(repaired())}\u2028",
    ],
)
def test_only_white_space_may_stand_around_it(text: str) -> None:
    assert refusal(lambda: parse_result(text)) == ("$", Code.TEXT_AROUND)


def test_two_results_are_none() -> None:
    assert refusal(lambda: parse_result(answer(repaired()) + answer(failed()))) == ("$", Code.MANY_BLOCKS)
