"""The Operator's decision: what is accepted as what, and every rule with an answer that breaks it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from contract_answers import INTENT, PARENT, answer, child, direct, needs_human, refusal, rung, split, without

from intent_board import config as configuration
from intent_board.config import BoardConfig
from intent_board.contracts import Code
from intent_board.contracts.operator import Decision, Rung, parse_decision

Decide = Callable[[Any], Decision]
Refused = Callable[[Any], tuple[str, Code]]


def test_a_direct_build_keeps_its_values(decide: Decide) -> None:
    decision = decide(direct())
    assert decision.decision == "direct_builder"
    assert (decision.recommended_lane, decision.runtime) == ("schwer", "codex")
    assert (decision.model, decision.reasoning_effort) == ("gpt-5.6-luna", "none")
    assert decision.escalation == (Rung("gpt-5.6-terra", "medium", 20),)
    assert decision.children == () and decision.human_action is None


def test_a_split_keeps_its_children_in_order(decide: Decide) -> None:
    decision = decide(split(child("b", wave=2, blocked_by=["a"]), child("a", write_scope=["./x//y/", "z"])))
    assert [one.slug for one in decision.children] == ["b", "a"]
    assert decision.children[0].blocked_by == ("a",)
    assert decision.children[1].write_scope == ("x/y", "z")
    assert decision.children[0].intent_markdown == INTENT
    assert decision.recommended_lane is decision.runtime is decision.model is decision.reasoning_effort is None


def test_a_question_keeps_what_a_person_must_do(decide: Decide) -> None:
    decision = decide(needs_human())
    assert (decision.decision, decision.human_action) == ("needs_human", "Welcher Host?")


@pytest.mark.parametrize("make", [direct, split, needs_human])
def test_a_missing_ladder_is_not_an_empty_one(decide: Decide, make: Callable[..., dict[str, Any]]) -> None:
    assert decide(without(make(), "escalation")).escalation is None
    assert decide(make(escalation=[])).escalation == ()


def test_a_childs_missing_ladder_is_not_an_empty_one(decide: Decide) -> None:
    decision = decide(split(without(child("a"), "escalation"), child("b", escalation=[])))
    assert [one.escalation for one in decision.children] == [None, ()]


@pytest.mark.parametrize("effort", [None, ""])
def test_a_rung_without_an_effort_uses_the_default(decide: Decide, effort: str | None) -> None:
    ladder = decide(direct(escalation=[rung(reasoning_effort=effort)])).escalation
    assert ladder == (Rung("gpt-5.6-terra", None, 20),)


@pytest.mark.parametrize(("model", "effort"), [(None, None), ("", ""), (None, ""), ("", None)])
def test_null_and_the_empty_text_are_one_profile(model: str | None, effort: str | None) -> None:
    config = configuration.parse(
        {
            "board": {"owner": "lukas"},
            "runtimes": {
                "codex": {"kind": "codex", "command": ["codex"]},
                "script": {"kind": "command", "command": ["x"]},
            },
            "lanes": {"schwer": {"phase": "in_umsetzung", "runtime": "script"}},
        }
    )
    value = direct(runtime="script", model=model, reasoning_effort=effort, escalation=[])
    decision = parse_decision(answer(value), parent_slug=PARENT, config=config)
    assert (decision.model, decision.reasoning_effort) == (None, None)


def test_missing_sections_are_warnings(decide: Decide) -> None:
    decision = decide(split(child(intent_markdown="# Intent: Kurz\n\n## Goal\nx\n\n### Erfolgskriterien:\n- y\n")))
    assert [warning.split("'")[1] for warning in decision.children[0].warnings] == [
        "Umfang",
        "Explizit Ausgeschlossenes",
        "Annahmen",
        "Offene Risiken",
    ]
    assert decide(split(child())).children[0].warnings == ()


TOP_LEVEL: list[tuple[Any, str, Code]] = [
    ([], "$", Code.WRONG_TYPE),
    (None, "$", Code.WRONG_TYPE),
    (direct(schema_version=2), "$.schema_version", Code.WRONG_VALUE),
    (direct(schema_version=True), "$.schema_version", Code.WRONG_VALUE),
    (direct(schema_version=1.0), "$.schema_version", Code.WRONG_VALUE),
    (direct(schema_version="1"), "$.schema_version", Code.WRONG_VALUE),
    (direct(decision="merge"), "$.decision", Code.WRONG_VALUE),
    (direct(decision=["split"]), "$.decision", Code.WRONG_TYPE),
    (direct(reason=""), "$.reason", Code.EMPTY),
    (direct(reason=None), "$.reason", Code.WRONG_TYPE),
    (direct(lane="schwer"), "$.lane", Code.UNKNOWN_FIELD),
    (direct(**{"a\nb": 1}), "$['a\\nb']", Code.UNKNOWN_FIELD),
    *((without(direct(), name), f"$.{name}", Code.MISSING_FIELD) for name in direct() if name != "escalation"),
    (direct(recommended_lane="mittel"), "$.recommended_lane", Code.UNKNOWN_LANE),
    (direct(recommended_lane=" schwer"), "$.recommended_lane", Code.UNKNOWN_LANE),
    (direct(recommended_lane=None), "$.recommended_lane", Code.UNKNOWN_LANE),
    (direct(recommended_lane=[]), "$.recommended_lane", Code.UNKNOWN_LANE),
    (direct(runtime="claude"), "$.runtime", Code.PROFILE),
    (direct(runtime=""), "$.runtime", Code.PROFILE),
    (direct(model="gpt-5.6-terra"), "$.model", Code.PROFILE),
    (direct(model="gpt-5.6-luna "), "$.model", Code.PROFILE),
    (direct(model=None), "$.model", Code.PROFILE),
    (direct(model=7), "$.model", Code.PROFILE),
    (direct(reasoning_effort="low"), "$.reasoning_effort", Code.PROFILE),
    (direct(reasoning_effort=""), "$.reasoning_effort", Code.PROFILE),
    (direct(human_action="Bitte"), "$.human_action", Code.NOT_NULL),
    (direct(human_action=""), "$.human_action", Code.NOT_NULL),
    (direct(children=[child()]), "$.children", Code.WRONG_COUNT),
    (direct(children=None), "$.children", Code.WRONG_TYPE),
    (direct(escalation=None), "$.escalation", Code.WRONG_TYPE),
    (direct(escalation=[rung(), rung(), rung()]), "$.escalation", Code.WRONG_COUNT),
    (direct(escalation=[rung(lane="schwer")]), "$.escalation[0].lane", Code.UNKNOWN_FIELD),
    (direct(escalation=[rung(), without(rung(), "model")]), "$.escalation[1].model", Code.MISSING_FIELD),
    (direct(escalation=["gpt-5.6-terra"]), "$.escalation[0]", Code.WRONG_TYPE),
    (direct(escalation=[rung(model="sonnet")]), "$.escalation[0].model", Code.MODEL_POOL),
    (direct(escalation=[rung(model=None)]), "$.escalation[0].model", Code.WRONG_TYPE),
    (direct(escalation=[rung(model="")]), "$.escalation[0].model", Code.EMPTY),
    (direct(escalation=[rung(model="gpt-5.6-terra ")]), "$.escalation[0].model", Code.WHITE_SPACE),
    (direct(escalation=[rung(model="gpt-5.6-terra\n")]), "$.escalation[0].model", Code.INVISIBLE_CHARACTER),
    (direct(escalation=[rung(model="gpt-5.6\u200bterra")]), "$.escalation[0].model", Code.INVISIBLE_CHARACTER),
    (direct(escalation=[rung(model="a" * 129)]), "$.escalation[0].model", Code.PATTERN),
    (direct(escalation=[rung(reasoning_effort="much")]), "$.escalation[0].reasoning_effort", Code.EFFORT),
    (direct(escalation=[rung(reasoning_effort=" low")]), "$.escalation[0].reasoning_effort", Code.WHITE_SPACE),
    (direct(escalation=[rung(reasoning_effort="a" * 33)]), "$.escalation[0].reasoning_effort", Code.PATTERN),
    (direct(escalation=[rung(reasoning_effort=3)]), "$.escalation[0].reasoning_effort", Code.WRONG_TYPE),
    (direct(escalation=[rung(iteration_limit=4)]), "$.escalation[0].iteration_limit", Code.OUT_OF_RANGE),
    (direct(escalation=[rung(iteration_limit=41)]), "$.escalation[0].iteration_limit", Code.OUT_OF_RANGE),
    (direct(escalation=[rung(iteration_limit=True)]), "$.escalation[0].iteration_limit", Code.WRONG_TYPE),
    (direct(escalation=[rung(iteration_limit=20.0)]), "$.escalation[0].iteration_limit", Code.WRONG_TYPE),
    (direct(escalation=[rung(iteration_limit=None)]), "$.escalation[0].iteration_limit", Code.WRONG_TYPE),
    (split(recommended_lane="schwer"), "$.recommended_lane", Code.NOT_NULL),
    (split(model=""), "$.model", Code.NOT_NULL),
    (split(human_action="x"), "$.human_action", Code.NOT_NULL),
    (split(escalation=[rung()]), "$.escalation", Code.WRONG_COUNT),
    (split(children=[]), "$.children", Code.WRONG_COUNT),
    (split(*(child(f"c{number}") for number in range(11))), "$.children", Code.WRONG_COUNT),
    (split(children={}), "$.children", Code.WRONG_TYPE),
    (needs_human(human_action=None), "$.human_action", Code.WRONG_TYPE),
    (needs_human(human_action=" \n"), "$.human_action", Code.EMPTY),
    (needs_human(runtime="codex"), "$.runtime", Code.NOT_NULL),
    (needs_human(escalation=[rung()]), "$.escalation", Code.WRONG_COUNT),
    (needs_human(children=[child()]), "$.children", Code.WRONG_COUNT),
]


@pytest.mark.parametrize(("value", "path", "code"), TOP_LEVEL)
def test_a_broken_decision_names_its_first_fault(refused: Refused, value: Any, path: str, code: Code) -> None:
    assert refused(value) == (path, code)


CHILD: list[tuple[dict[str, Any], str, Code]] = [
    *((without(child(), name), name, Code.MISSING_FIELD) for name in child() if name != "escalation"),
    (child(status="done"), "status", Code.UNKNOWN_FIELD),
    *((child(slug), "slug", Code.SLUG) for slug in ("-a", "A", "a_b", "ä", "a" * 62, "a-synthese", PARENT)),
    (child(""), "slug", Code.EMPTY),
    (child(" a"), "slug", Code.WHITE_SPACE),
    (child("a\n"), "slug", Code.INVISIBLE_CHARACTER),
    (child() | {"slug": None}, "slug", Code.WRONG_TYPE),
    (child(title=" "), "title", Code.EMPTY),
    *(
        (child(title=f"Ein{bad}Teil"), "title", Code.INVISIBLE_CHARACTER)
        for bad in "\n\r\t\x00\x7f\x85\u200b\u202e\u2028\u2029\u2066\ufeff\u061c\u00ad\u180e"
    ),
    (child(wave=0), "wave", Code.OUT_OF_RANGE),
    (child(wave=100), "wave", Code.OUT_OF_RANGE),
    (child(wave=True), "wave", Code.WRONG_TYPE),
    (child(wave="1"), "wave", Code.WRONG_TYPE),
    (child(blocked_by=None), "blocked_by", Code.WRONG_TYPE),
    (child(blocked_by=[1]), "blocked_by[0]", Code.WRONG_TYPE),
    (child(blocked_by=["x", "x"]), "blocked_by[1]", Code.DUPLICATE),
    (child(blocked_by=["nobody"]), "blocked_by[0]", Code.UNKNOWN_CHILD),
    (child(blocked_by=["child"]), "blocked_by[0]", Code.UNKNOWN_CHILD),
    (child(blocked_by=[PARENT]), "blocked_by[0]", Code.UNKNOWN_CHILD),
    (child(recommended_lane="mittel"), "recommended_lane", Code.UNKNOWN_LANE),
    (child(runtime=None), "runtime", Code.PROFILE),
    (child(write_scope=[]), "write_scope", Code.WRONG_COUNT),
    (child(write_scope=[f"f{number}" for number in range(101)]), "write_scope", Code.WRONG_COUNT),
    (child(write_scope="a"), "write_scope", Code.WRONG_TYPE),
    (child(write_scope=["a", None]), "write_scope[1]", Code.WRONG_TYPE),
    (child(write_scope=["a", "./a/"]), "write_scope[1]", Code.DUPLICATE),
    (child(write_scope=["../a"]), "write_scope[0]", Code.PATH),
    (child(acceptance_criteria=[]), "acceptance_criteria", Code.WRONG_COUNT),
    (child(acceptance_criteria=[str(number) for number in range(51)]), "acceptance_criteria", Code.WRONG_COUNT),
    (child(acceptance_criteria=["a", " "]), "acceptance_criteria[1]", Code.EMPTY),
    (child(acceptance_criteria=["a", "b", "a"]), "acceptance_criteria[2]", Code.DUPLICATE),
    (child(intent_markdown=""), "intent_markdown", Code.EMPTY),
    (child(intent_markdown="## Ziel"), "intent_markdown", Code.INTENT),
    (child(intent_markdown="# Intent:"), "intent_markdown", Code.INTENT),
    (child(intent_markdown="# Intent:  \n## Ziel"), "intent_markdown", Code.INTENT),
    (child(intent_markdown="\n# Intent: x"), "intent_markdown", Code.INTENT),
    (child(intent_markdown="\ufeff# Intent: x"), "intent_markdown", Code.INTENT),
    (child(intent_markdown="# Intent: x\u202ey\n"), "intent_markdown", Code.INVISIBLE_CHARACTER),
    (child(escalation=[rung(model="opus")]), "escalation[0].model", Code.MODEL_POOL),
    (child(escalation=None), "escalation", Code.WRONG_TYPE),
]


@pytest.mark.parametrize(("value", "path", "code"), CHILD)
def test_a_broken_child_names_its_first_fault(refused: Refused, value: dict[str, Any], path: str, code: Code) -> None:
    assert refused(split(child("first"), value)) == (f"$.children[1].{path}", code)


def test_two_children_of_one_name_are_refused(refused: Refused) -> None:
    assert refused(split(child("a"), child("b"), child("a"))) == ("$.children[2].slug", Code.DUPLICATE)


@pytest.mark.parametrize("waves", [(1, 1), (2, 1)])
def test_a_child_waits_only_for_earlier_waves(refused: Refused, waves: tuple[int, int]) -> None:
    first, second = waves
    value = split(child("a", wave=first), child("b", wave=second, blocked_by=["a"]))
    assert refused(value) == ("$.children[1].blocked_by[0]", Code.WAVE)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("a/**", "a/b"),
        ("*.md", "README.md"),
        (".", "anything"),
        ("a", "a/b/c"),
        ("a/b", "a"),
        ("a", "a"),
        ("./a/", "a//b"),
        ("hosts/*/disk.nix", "hosts/blunix"),
        ("**/x.nix", "modules"),
        ("src/[a-c]*.py", "src/b?.py"),
        ("**", "*"),
    ],
)
def test_children_that_can_write_one_file_must_be_ordered(
    decide: Decide, refused: Refused, one: str, other: str
) -> None:
    loose = split(child("a", write_scope=["z", one]), child("b", write_scope=[other]))
    assert refused(loose) == ("$.children[1].write_scope[0]", Code.OVERLAP)
    ordered = split(child("a", write_scope=["z", one]), child("b", write_scope=[other], wave=2, blocked_by=["a"]))
    assert len(decide(ordered).children) == 2


@pytest.mark.parametrize(
    ("one", "other"), [("a", "ab"), ("a/b", "a/c"), ("*.md", "*.txt"), ("src/*.py", "src/x/a.py"), ("a/*/x", "b/*/x")]
)
def test_children_that_are_told_apart_need_no_order(decide: Decide, one: str, other: str) -> None:
    decision = decide(split(child("a", write_scope=[one]), child("b", write_scope=[other])))
    assert [list(child.write_scope) for child in decision.children] == [[one], [other]]


def test_an_order_through_other_children_is_an_order(decide: Decide, refused: Refused) -> None:
    def chain(last: list[str]) -> dict[str, Any]:
        return split(
            child("c", wave=3, blocked_by=last, write_scope=["x/y"]),
            child("a", wave=1, write_scope=["x"]),
            child("b", wave=2, blocked_by=["a"]),
        )

    assert len(decide(chain(["b"])).children) == 3
    # A later wave alone is no order: waves say what may run together, `blocked_by` says what waits.
    assert refused(chain([])) == ("$.children[1].write_scope[0]", Code.OVERLAP)


def test_the_limits_of_the_file_bind(config: BoardConfig) -> None:
    narrow = configuration.parse(
        {
            "board": {"owner": "lukas"},
            "limits": {
                "max_children": 2,
                "max_escalation_steps": 1,
                "iteration_limit_min": 10,
                "iteration_limit_max": 20,
            },
        }
    )

    def check(value: Any) -> tuple[str, Code]:
        return refusal(lambda: parse_decision(answer(value), parent_slug=PARENT, config=narrow))

    assert check(split(child("a"), child("b"), child("c"))) == ("$.children", Code.WRONG_COUNT)
    assert check(direct(escalation=[rung(), rung()])) == ("$.escalation", Code.WRONG_COUNT)
    assert check(direct(escalation=[rung(iteration_limit=9)])) == ("$.escalation[0].iteration_limit", Code.OUT_OF_RANGE)
    assert check(direct(escalation=[rung(iteration_limit=21)])) == (
        "$.escalation[0].iteration_limit",
        Code.OUT_OF_RANGE,
    )
