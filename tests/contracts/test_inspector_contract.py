"""The Inspector's two answers."""

from __future__ import annotations

import json
from typing import Any

import pytest
from contract_answers import refusal, without

from intent_board.config import BoardConfig
from intent_board.contracts import Code
from intent_board.contracts.inspector import Routing, parse_inspection, parse_routing

COMMIT = "a" * 64


def inspection(**changes: Any) -> dict[str, Any]:
    return {
        "schema_version": 1,
        "implementation": "partial",
        "summary": "Die Option fehlt.",
        "evidence": [evidence()],
        "deployment_claim": "unknown",
        "open_points": ["Option fehlt"],
    } | changes


def evidence(kind: str = "path", reference: Any = "hosts/a.nix", **changes: Any) -> dict[str, Any]:
    return {"kind": kind, "reference": reference, "text": "Da steht es."} | changes


def routing(**changes: Any) -> dict[str, Any]:
    return {
        "schema_version": 1,
        "recommendation": "retry_builder",
        "reason": "Fast fertig.",
        "lane": "schwer",
        "question": None,
    } | changes


def inspected(value: Any) -> str:
    return f"Bericht:\n===INSPECTION_RESULT===\n{json.dumps(value)}\n===END_INSPECTION_RESULT===\n"


def routed(value: Any) -> str:
    return f"Rat:\n===ROUTING_RESULT===\n{json.dumps(value)}\n===END_ROUTING_RESULT===\n"


def test_an_inspection_keeps_its_values() -> None:
    kinds = [evidence(), evidence("commit", COMMIT), evidence("test", "make test\nmake lint")]
    result = parse_inspection(inspected(inspection(evidence=kinds)))
    assert (result.implementation, result.deployment_claim) == ("partial", "unknown")
    assert [(one.kind, one.reference) for one in result.evidence] == [(one["kind"], one["reference"]) for one in kinds]
    assert result.open_points == ("Option fehlt",)
    assert parse_inspection(inspected(inspection(evidence=[], open_points=[]))).evidence == ()


@pytest.mark.parametrize(
    ("value", "path", "code"),
    [
        (inspection(implementation="done"), "$.implementation", Code.WRONG_VALUE),
        (inspection(summary=""), "$.summary", Code.EMPTY),
        (inspection(deployment_claim=None), "$.deployment_claim", Code.WRONG_TYPE),
        (inspection(deployment_claim="yes"), "$.deployment_claim", Code.WRONG_VALUE),
        (inspection(evidence=[evidence("log")]), "$.evidence[0].kind", Code.WRONG_VALUE),
        (inspection(evidence=[evidence("commit", "abc123")]), "$.evidence[0].reference", Code.PATTERN),
        (inspection(evidence=[evidence(reference="a\nb")]), "$.evidence[0].reference", Code.INVISIBLE_CHARACTER),
        (inspection(evidence=[evidence(reference=None)]), "$.evidence[0].reference", Code.WRONG_TYPE),
        (inspection(evidence=[evidence(line=1)]), "$.evidence[0].line", Code.UNKNOWN_FIELD),
        (inspection(open_points=["a", ""]), "$.open_points[1]", Code.EMPTY),
        *((without(inspection(), name), f"$.{name}", Code.MISSING_FIELD) for name in inspection()),
    ],
)
def test_a_broken_inspection_names_its_first_fault(value: Any, path: str, code: Code) -> None:
    assert refusal(lambda: parse_inspection(inspected(value))) == (path, code)


def test_a_route_keeps_its_values(config: BoardConfig) -> None:
    assert parse_routing(routed(routing()), config) == Routing("retry_builder", "Fast fertig.", "schwer", None)
    asking = routing(recommendation="ask_human", lane=None, question="Welcher Host?")
    assert parse_routing(routed(asking), config).question == "Welcher Host?"


@pytest.mark.parametrize(
    ("value", "path", "code"),
    [
        (routing(recommendation="deploy"), "$.recommendation", Code.WRONG_VALUE),
        (routing(reason=" "), "$.reason", Code.EMPTY),
        (routing(lane="mittel"), "$.lane", Code.UNKNOWN_LANE),
        (routing(lane="schwer "), "$.lane", Code.UNKNOWN_LANE),
        (routing(lane=1), "$.lane", Code.WRONG_TYPE),
        (routing(question=""), "$.question", Code.EMPTY),
        (routing(recommendation="ask_human"), "$.question", Code.WRONG_TYPE),
        *((without(routing(), name), f"$.{name}", Code.MISSING_FIELD) for name in routing()),
    ],
)
def test_a_broken_route_names_its_first_fault(config: BoardConfig, value: Any, path: str, code: Code) -> None:
    assert refusal(lambda: parse_routing(routed(value), config)) == (path, code)


def test_one_task_is_not_answered_with_the_other(config: BoardConfig) -> None:
    assert refusal(lambda: parse_routing(inspected(inspection()), config)) == ("$", Code.NO_BLOCK)
    assert refusal(lambda: parse_inspection(routed(routing()))) == ("$", Code.NO_BLOCK)
