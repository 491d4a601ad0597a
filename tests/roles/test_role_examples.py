"""The examples in the role texts are answers that their contracts accept: a model that copies the form is right."""

from __future__ import annotations

import json
import re

from intent_board.config import BoardConfig, example, parse
from intent_board.contracts.builder import parse_result as parse_build
from intent_board.contracts.fixer import parse_result as parse_fix
from intent_board.contracts.inspector import parse_inspection, parse_routing
from intent_board.contracts.operator import parse_decision
from intent_board.contracts.planner import parse_split
from intent_board.contracts.reviewer import parse_report
from intent_board.roles.text import load


def blocks(role: str, name: str, end: str) -> list[str]:
    text = load(role, example()).own
    return [found[0] for found in re.finditer(rf"^==={name}===$.*?^==={end}===$", text, re.M | re.S)]


def made_up() -> BoardConfig:
    """A board with the lane, the runtime and the models that the Operator's text makes up."""
    lane = {"phase": "in_umsetzung", "runtime": "some-runtime", "model": "some-model"}
    return parse(
        {
            "board": {"owner": "lukas"},
            "lanes": {
                "some-lane": {**lane, "reasoning_effort": "low"},
                "other-lane": {**lane, "phase": "in_umsetzung_leicht"},
            },
            "scheduler": {"synthesis_lane": "some-lane"},
            "model_pools": {"some-runtime": ["some-model", "stronger-model"], "codex": ["gpt-5.6-sol"]},
            "runtimes": {
                "some-runtime": {"kind": "command", "command": ["agent"]},
                "codex": {"kind": "codex", "command": ["codex"]},
            },
        }
    )


def test_the_operators_examples() -> None:
    direct, person = blocks("operator", "OPERATOR-DECISION", "END-OPERATOR-DECISION")
    config = made_up()
    decision = parse_decision(direct, parent_slug="relay", config=config)
    assert (decision.decision, decision.recommended_lane) == ("direct_builder", "some-lane")
    assert parse_decision(person, parent_slug="relay", config=config).human_action


def test_the_operators_child() -> None:
    text = load("operator", example()).own
    child = json.loads(text[text.index('{"slug": "relay-docs"') :])
    child |= {"recommended_lane": "other-lane", "wave": 2}
    first = {**child, "slug": "relay-module", "wave": 1, "blocked_by": [], "write_scope": ["modules/relay.nix"]}
    fields = dict.fromkeys(["recommended_lane", "runtime", "model", "reasoning_effort", "human_action"])
    whole = {"schema_version": 1, "decision": "split", "reason": "r", **fields, "escalation": []}
    answer = json.dumps({**whole, "children": [first, child]})
    block = f"===OPERATOR-DECISION===\n{answer}\n===END-OPERATOR-DECISION==="
    decision = parse_decision(block, parent_slug="relay", config=made_up())
    assert [one.slug for one in decision.children] == ["relay-module", "relay-docs"]


def test_the_builders_example() -> None:
    (answer,) = blocks("builder", "BUILD-RESULT", "END-BUILD-RESULT")
    assert parse_build(answer).outcome == "done"


def test_the_reviewers_example() -> None:
    (answer,) = blocks("reviewer", "REVIEW-REPORT", "END-REVIEW-REPORT")
    commit = "0123456789abcdef0123456789abcdef01234567"
    report = parse_report(answer, commit=commit, nonce="from-facts", criteria=2)
    assert not report.approved
    assert [one.met for one in report.criteria] == [True, False]


def test_the_fixers_example() -> None:
    (answer,) = blocks("fixer", "FIX_RESULT", "END_FIX_RESULT")
    assert parse_fix(answer).outcome == "repaired"


def test_the_inspectors_examples() -> None:
    (inspection,) = blocks("inspector", "INSPECTION_RESULT", "END_INSPECTION_RESULT")
    (routing,) = blocks("inspector", "ROUTING_RESULT", "END_ROUTING_RESULT")
    assert parse_inspection(inspection).implementation == "partial"
    assert parse_routing(routing, example()).recommendation == "repair"


def test_the_planners_example() -> None:
    (answer,) = blocks("planner", "SPLIT-REPORT", "END-SPLIT-REPORT")
    (child,) = parse_split(answer, parent_slug="relay", config=example()).children
    assert child.acceptance_criteria == ("`relay.port` exists with default 587.",)
