"""The Builder's result and its interim report."""

from __future__ import annotations

import json
from typing import Any

import pytest
from contract_answers import refusal, without

from intent_board.contracts import Code
from intent_board.contracts.builder import parse_report, parse_result


def result(**changes: Any) -> dict[str, Any]:
    tests = [{"command": "nix flake check", "result": "passed"}]
    return {"schema_version": 1, "outcome": "done", "summary": "Fertig.", "question": None, "tests": tests} | changes


def answer(value: Any) -> str:
    return f"Ich bin fertig.\n===BUILD-RESULT===\n{json.dumps(value)}\n===END-BUILD-RESULT===\nGruß"


def test_a_result_keeps_its_values() -> None:
    done = parse_result(answer(result()))
    assert (done.outcome, done.summary, done.question) == ("done", "Fertig.", None)
    assert [(test.command, test.result) for test in done.tests] == [("nix flake check", "passed")]
    asking = parse_result(answer(result(outcome="needs_input", question="Welcher Port?", tests=[])))
    assert (asking.outcome, asking.question, asking.tests) == ("needs_input", "Welcher Port?", ())


BROKEN: list[tuple[Any, str, Code]] = [
    (7, "$", Code.WRONG_TYPE),
    (result(outcome="failed"), "$.outcome", Code.WRONG_VALUE),
    (result(summary=""), "$.summary", Code.EMPTY),
    (result(question="Welcher?"), "$.question", Code.NOT_NULL),
    (result(outcome="needs_input"), "$.question", Code.WRONG_TYPE),
    (result(outcome="needs_input", question=" "), "$.question", Code.EMPTY),
    (result(tests=None), "$.tests", Code.WRONG_TYPE),
    (result(tests=[{"command": "x", "result": "skipped"}]), "$.tests[0].result", Code.WRONG_VALUE),
    (result(tests=[{"command": "", "result": "passed"}]), "$.tests[0].command", Code.EMPTY),
    (result(tests=[{"command": "x"}]), "$.tests[0].result", Code.MISSING_FIELD),
    (result(commit_hash="a" * 40), "$.commit_hash", Code.UNKNOWN_FIELD),
    *((without(result(), name), f"$.{name}", Code.MISSING_FIELD) for name in result()),
]


@pytest.mark.parametrize(("value", "path", "code"), BROKEN)
def test_a_broken_result_names_its_first_fault(value: Any, path: str, code: Code) -> None:
    assert refusal(lambda: parse_result(answer(value))) == (path, code)


def test_an_interim_report_keeps_its_values() -> None:
    report = parse_report('{"done": ["a"], "open": [], "next": ""}\n')
    assert (report.done, report.open, report.next) == (("a",), (), "")


@pytest.mark.parametrize(
    ("text", "path", "code"),
    [
        ("", "$", Code.NOT_JSON),
        ('{"done": [], "open": [', "$", Code.NOT_JSON),
        ('{"done": [], "open": []}', "$.next", Code.MISSING_FIELD),
        ('{"done": [], "open": [1], "next": ""}', "$.open[0]", Code.WRONG_TYPE),
        ('{"done": [], "open": [], "next": "", "next": "x"}', "$", Code.DUPLICATE_KEY),
        ('{"done": [], "open": [], "next": "' + "x" * (1 << 20) + '"}', "$", Code.TOO_LARGE),
    ],
)
def test_a_broken_interim_report_is_refused(text: str, path: str, code: Code) -> None:
    assert refusal(lambda: parse_report(text)) == (path, code)
