"""The Reviewer's report about one commit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, cast, get_args

from intent_board.contracts import blocks, values
from intent_board.contracts.errors import Code, ContractError, shown
from intent_board.contracts.values import Table

BEGIN, END = "===REVIEW-REPORT===", "===END-REVIEW-REPORT==="

Verdict = Literal["bereit_fuer_deployment", "planung_mit_feedback"]
Severity = Literal["blocker", "major", "minor"]

_VERDICTS, _SEVERITIES = get_args(Verdict), get_args(Severity)
_REPORT = values.Fields("schema_version", "decision", "commit_hash", "nonce", "summary", "findings", "criteria")
_FINDING = values.Fields("severity", "path", "text")
_CRITERION = values.Fields("index", "met", "reason")


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing the Reviewer found, where it is about a file with its path."""

    severity: Severity
    path: str | None
    text: str


@dataclass(frozen=True, slots=True)
class Criterion:
    """Whether one acceptance criterion is met; `index` counts from 0, as the order numbers them."""

    index: int
    met: bool
    reason: str


@dataclass(frozen=True, slots=True)
class Report:
    """An accepted report.  `criteria` are in the order of their index, each exactly once."""

    decision: Verdict
    commit_hash: str
    summary: str
    findings: tuple[Finding, ...]
    criteria: tuple[Criterion, ...]

    @property
    def approved(self) -> bool:
        return self.decision == "bereit_fuer_deployment"


def parse_report(response: str, *, commit: str, nonce: str, criteria: int) -> Report:
    """Read the Reviewer's whole answer about `commit`, with the order's `nonce` and its number of criteria.

    Raises ContractError with the first fault: a report about another commit or without this order's nonce is none.
    """
    return blocks.read(response, BEGIN, END, lambda value: _report(value, commit, nonce, criteria))


def _report(value: Any, commit: str, nonce: str, count: int) -> Report:
    table = _REPORT.of(value)
    values.version(table)
    verdict = cast(Verdict, values.word(table, "decision", _VERDICTS))
    if values.text(table, "commit_hash") != commit:
        reason = f"must be {commit}, the commit under review, not {shown(table['commit_hash'])}"
        raise ContractError(Code.WRONG_COMMIT, reason, "$.commit_hash")
    # The nonce itself stays out of the message, which other sessions may read.
    if values.text(table, "nonce") != nonce:
        raise ContractError(Code.WRONG_NONCE, "must be the nonce of this order", "$.nonce")
    summary = values.text(table, "summary")
    findings = tuple(values.each(table, "findings", _finding))
    criteria = _criteria(table, count)
    if verdict == "bereit_fuer_deployment":
        _check_approval(table)
    return Report(verdict, commit, summary, findings, criteria)


def _finding(value: Any) -> Finding:
    table = _FINDING.of(value)
    severity = cast(Severity, values.word(table, "severity", _SEVERITIES))
    path = None if table["path"] is None else values.plain(table, "path")
    return Finding(severity, path, values.text(table, "text"))


def _criteria(table: Table, count: int) -> tuple[Criterion, ...]:
    found: dict[int, Criterion] = {}
    for number, criterion in enumerate(values.each(table, "criteria", lambda value: _criterion(value, count))):
        if criterion.index in found:
            reason = f"judges criterion {criterion.index} again; judge each exactly once"
            raise ContractError(Code.CRITERIA, reason, f"$.criteria[{number}].index")
        found[criterion.index] = criterion
    if missing := [str(index) for index in range(count) if index not in found]:
        reason = f"has no judgement of criterion {', '.join(missing)}; judge each exactly once"
        raise ContractError(Code.CRITERIA, reason, "$.criteria")
    return tuple(found[index] for index in sorted(found))


def _criterion(value: Any, count: int) -> Criterion:
    table = _CRITERION.of(value)
    index = values.integer(table, "index", 0, None)
    if index >= count:
        reason = f"there is no criterion {shown(index)}; the order numbers {count} of them from 0"
        raise ContractError(Code.CRITERIA, reason, "$.index")
    return Criterion(index, values.truth(table, "met"), values.text(table, "reason"))


def _check_approval(table: Table) -> None:
    for number, finding in enumerate(table["findings"]):
        if finding["severity"] == "blocker":
            reason = "is a blocker, so the commit can't be approved; decide planung_mit_feedback"
            raise ContractError(Code.CONTRADICTION, reason, f"$.findings[{number}].severity")
    for number, criterion in enumerate(table["criteria"]):
        if not criterion["met"]:
            reason = f"criterion {criterion['index']} is not met, so the commit can't be approved"
            raise ContractError(Code.CONTRADICTION, reason, f"$.criteria[{number}].met")
