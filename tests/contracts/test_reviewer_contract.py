"""The Reviewer's report: bound to one commit and one order, and never approving what it faults."""

from __future__ import annotations

import json
from typing import Any

import pytest
from contract_answers import refusal, without

from intent_board.contracts import Code
from intent_board.contracts.reviewer import Report, parse_report

COMMIT, OTHER, NONCE = "a" * 40, "b" * 40, "n-1"


def report(**changes: Any) -> dict[str, Any]:
    return {
        "schema_version": 1,
        "decision": "bereit_fuer_deployment",
        "commit_hash": COMMIT,
        "nonce": NONCE,
        "summary": "Gelesen und geprüft.",
        "findings": [finding()],
        "criteria": [criterion(1), criterion(0)],
    } | changes


def finding(**changes: Any) -> dict[str, Any]:
    return {"severity": "minor", "path": "hosts/a.nix", "text": "Kommentar veraltet."} | changes


def criterion(index: Any, **changes: Any) -> dict[str, Any]:
    return {"index": index, "met": True, "reason": "Geprüft."} | changes


def parse(value: Any, count: int = 2) -> Report:
    text = f"Urteil:\n===REVIEW-REPORT===\n{json.dumps(value)}\n===END-REVIEW-REPORT==="
    return parse_report(text, commit=COMMIT, nonce=NONCE, criteria=count)


def test_an_approval_keeps_its_values() -> None:
    accepted = parse(report())
    assert accepted.approved and accepted.commit_hash == COMMIT
    assert [one.index for one in accepted.criteria] == [0, 1]
    assert accepted.findings[0].path == "hosts/a.nix"


def test_a_refusal_may_have_blockers_and_unmet_criteria() -> None:
    value = report(
        decision="planung_mit_feedback",
        findings=[finding(severity="blocker", path=None)],
        criteria=[criterion(0, met=False), criterion(1)],
    )
    refusing = parse(value)
    assert not refusing.approved
    assert refusing.findings[0].path is None and not refusing.criteria[0].met


def test_a_card_without_criteria_needs_none() -> None:
    assert parse(report(criteria=[]), count=0).criteria == ()
    assert refusal(lambda: parse(report(criteria=[criterion(0)]), count=0)) == ("$.criteria[0].index", Code.CRITERIA)


BROKEN: list[tuple[Any, str, Code]] = [
    (report(decision="approved"), "$.decision", Code.WRONG_VALUE),
    (report(commit_hash=OTHER), "$.commit_hash", Code.WRONG_COMMIT),
    (report(commit_hash=COMMIT[:12]), "$.commit_hash", Code.WRONG_COMMIT),
    (report(commit_hash=COMMIT.upper()), "$.commit_hash", Code.WRONG_COMMIT),
    (report(commit_hash=None), "$.commit_hash", Code.WRONG_TYPE),
    (report(nonce="n-2"), "$.nonce", Code.WRONG_NONCE),
    (report(nonce=""), "$.nonce", Code.EMPTY),
    (report(summary=" "), "$.summary", Code.EMPTY),
    (report(findings=[finding(severity="blocker")]), "$.findings[0].severity", Code.CONTRADICTION),
    (report(findings=[finding(), finding(severity="fatal")]), "$.findings[1].severity", Code.WRONG_VALUE),
    (report(findings=[finding(path=" a")]), "$.findings[0].path", Code.WHITE_SPACE),
    (report(findings=[finding(path="a\u202eb")]), "$.findings[0].path", Code.INVISIBLE_CHARACTER),
    (report(findings=[finding(text="")]), "$.findings[0].text", Code.EMPTY),
    (report(findings=[finding(line=3)]), "$.findings[0].line", Code.UNKNOWN_FIELD),
    (report(findings=None), "$.findings", Code.WRONG_TYPE),
    (report(criteria=[criterion(0)]), "$.criteria", Code.CRITERIA),
    (report(criteria=[]), "$.criteria", Code.CRITERIA),
    (report(criteria=[criterion(0), criterion(0)]), "$.criteria[1].index", Code.CRITERIA),
    (report(criteria=[criterion(0), criterion(1), criterion(2)]), "$.criteria[2].index", Code.CRITERIA),
    (report(criteria=[criterion(-1), criterion(1)]), "$.criteria[0].index", Code.OUT_OF_RANGE),
    (report(criteria=[criterion(False), criterion(1)]), "$.criteria[0].index", Code.WRONG_TYPE),
    (report(criteria=[criterion(0), criterion(1, met=1)]), "$.criteria[1].met", Code.WRONG_TYPE),
    (report(criteria=[criterion(0), criterion(1, met=False)]), "$.criteria[1].met", Code.CONTRADICTION),
    *((without(report(), name), f"$.{name}", Code.MISSING_FIELD) for name in report()),
]


@pytest.mark.parametrize(("value", "path", "code"), BROKEN)
def test_a_broken_report_names_its_first_fault(value: Any, path: str, code: Code) -> None:
    assert refusal(lambda: parse(value)) == (path, code)


def test_a_quoted_report_beside_the_real_one_refuses_both() -> None:
    quoted = f"===REVIEW-REPORT===\n{json.dumps(report())}\n===END-REVIEW-REPORT===\n"
    real = f"===REVIEW-REPORT===\n{json.dumps(report(decision='planung_mit_feedback'))}\n===END-REVIEW-REPORT===\n"
    for text in (quoted + real, real + quoted, f"> {quoted}\n{real}"):
        found = refusal(lambda text=text: parse_report(text, commit=COMMIT, nonce=NONCE, criteria=2))
        assert found == ("$", Code.MANY_BLOCKS)


def test_the_nonce_stays_out_of_the_message() -> None:
    with pytest.raises(Exception, match="nonce") as caught:
        parse_report(
            f"===REVIEW-REPORT==={json.dumps(report(nonce='x'))}===END-REVIEW-REPORT===",
            commit=COMMIT,
            nonce="secret-nonce",
            criteria=2,
        )
    assert "secret-nonce" not in str(caught.value)
