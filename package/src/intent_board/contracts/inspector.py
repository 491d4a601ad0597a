"""The Inspector's two answers: what is really there, and what should happen next."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, cast, get_args

from intent_board.config import BoardConfig
from intent_board.contracts import blocks, values
from intent_board.contracts.errors import Code, ContractError, shown

BEGIN_INSPECTION, END_INSPECTION = "===INSPECTION_RESULT===", "===END_INSPECTION_RESULT==="
BEGIN_ROUTING, END_ROUTING = "===ROUTING_RESULT===", "===END_ROUTING_RESULT==="

Implementation = Literal["complete", "partial", "absent", "unclear"]
EvidenceKind = Literal["commit", "path", "test"]
DeploymentClaim = Literal["deployed", "not_deployed", "unknown"]
Recommendation = Literal["retry_builder", "repair", "replan", "split", "ask_human", "archive", "nothing"]

_IMPLEMENTATIONS, _KINDS = get_args(Implementation), get_args(EvidenceKind)
_CLAIMS, _RECOMMENDATIONS = get_args(DeploymentClaim), get_args(Recommendation)
_INSPECTION = values.Fields(
    "schema_version", "implementation", "summary", "evidence", "deployment_claim", "open_points"
)
_EVIDENCE = values.Fields("kind", "reference", "text")
_ROUTING = values.Fields("schema_version", "recommendation", "reason", "lane", "question")


@dataclass(frozen=True, slots=True)
class Evidence:
    """Something that somebody can look up."""

    kind: EvidenceKind
    reference: str
    text: str


@dataclass(frozen=True, slots=True)
class Inspection:
    """How much of an intent is there.  The deployment claim never beats what the board itself recorded."""

    implementation: Implementation
    summary: str
    evidence: tuple[Evidence, ...]
    deployment_claim: DeploymentClaim
    open_points: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Routing:
    """A recommended next step; it does nothing until the owner applies it."""

    recommendation: Recommendation
    reason: str
    lane: str | None
    question: str | None


def parse_inspection(response: str) -> Inspection:
    """Read the whole answer to the task `inspection`.  Raises ContractError with the first fault."""
    return blocks.read(response, BEGIN_INSPECTION, END_INSPECTION, _inspection)


def parse_routing(response: str, config: BoardConfig) -> Routing:
    """Read the whole answer to the task `routing`; a lane must be one of the configuration's.  Raises ContractError."""
    return blocks.read(response, BEGIN_ROUTING, END_ROUTING, lambda value: _routing(value, config))


def _inspection(value: Any) -> Inspection:
    table = _INSPECTION.of(value)
    values.version(table)
    implementation = cast(Implementation, values.word(table, "implementation", _IMPLEMENTATIONS))
    summary = values.text(table, "summary")
    evidence = tuple(values.each(table, "evidence", _evidence))
    claim = cast(DeploymentClaim, values.word(table, "deployment_claim", _CLAIMS))
    return Inspection(implementation, summary, evidence, claim, values.texts(table, "open_points", 0, None))


def _evidence(value: Any) -> Evidence:
    table = _EVIDENCE.of(value)
    kind = cast(EvidenceKind, values.word(table, "kind", _KINDS))
    # A test's reference is its command, which may have several lines.
    reference = {"commit": values.commit, "path": values.plain, "test": values.text}[kind](table, "reference")
    return Evidence(kind, reference, values.text(table, "text"))


def _routing(value: Any, config: BoardConfig) -> Routing:
    table = _ROUTING.of(value)
    values.version(table)
    recommendation = cast(Recommendation, values.word(table, "recommendation", _RECOMMENDATIONS))
    reason = values.text(table, "reason")
    lane = None if table["lane"] is None else values.string(table, "lane")
    if lane is not None and lane not in config.lanes:
        known = ", ".join(config.lanes)
        raise ContractError(Code.UNKNOWN_LANE, f"{shown(lane)} is no lane; use null or one of {known}", "$.lane")
    question: str | None = None
    if recommendation == "ask_human" or table["question"] is not None:
        question = values.text(table, "question")
    return Routing(recommendation, reason, lane, question)
