"""The common law, for every role: one block, strict JSON, and nothing but a value or a ContractError."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from contract_answers import INTENT, PARENT, answer, child, direct, needs_human, refusal, split
from hypothesis import given
from hypothesis import strategies as st

from intent_board.config import BoardConfig
from intent_board.contracts import Code, ContractError, builder, fixer, inspector, planner, reviewer
from intent_board.contracts.operator import Decision, parse_decision

Decide = Callable[[Any], Decision]
Refused = Callable[[Any], tuple[str, Code]]
Parse = Callable[[str], object]

MIB = 1 << 20


@pytest.fixture
def parse(config: BoardConfig) -> Callable[[str], Decision]:
    return lambda response: parse_decision(response, parent_slug=PARENT, config=config)


# --- the block ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "frame",
    [
        "{}",
        "Hier ist meine Entscheidung:\n\n{}\nFertig.",
        "\ufeff{}",
        "```json\n{}```",
        "{} Ich habe === und ===END=== vermieden.",
        '{{"schema_version": 1}}\n{}{{"a": NaN, "a": 1}}',
        "\u2028{}\u2029\x00\x1b[31m",
        "\ud800{}\udfff",
    ],
)
def test_text_around_the_block_is_ignored(parse: Callable[[str], Decision], frame: str) -> None:
    assert parse(frame.format(answer(direct()))).decision == "direct_builder"


@pytest.mark.parametrize("white", ["", " ", "\n\n", "\r\n", "\t"])
def test_white_space_inside_the_block_is_ignored(parse: Callable[[str], Decision], white: str) -> None:
    text = f"===OPERATOR-DECISION==={white}{json.dumps(direct())}{white}===END-OPERATOR-DECISION==="
    assert parse(text).decision == "direct_builder"


def test_windows_line_ends_are_white_space(parse: Callable[[str], Decision]) -> None:
    text = answer(json.dumps(split(), indent=2)).replace("\n", "\r\n")
    assert parse(text).children[0].intent_markdown == INTENT


def test_markers_within_a_text_are_text(decide: Decide) -> None:
    """A card may be about this very contract."""
    quoted = f"# Intent: Marken\n\n{answer(direct())}\n===OPERATOR-DECISION===\n"
    assert decide(split(child(intent_markdown=quoted))).children[0].intent_markdown == quoted
    assert decide(needs_human(human_action="===END-OPERATOR-DECISION===")).human_action == "===END-OPERATOR-DECISION==="


BLOCK = answer(direct())
BROKEN_FRAMES = [
    ("", Code.NO_BLOCK),
    ("Ich kann das nicht.", Code.NO_BLOCK),
    (json.dumps(direct()), Code.NO_BLOCK),
    (BLOCK.replace("===END-OPERATOR-DECISION===", ""), Code.NO_BLOCK),
    (BLOCK.replace("===OPERATOR-DECISION===", ""), Code.NO_BLOCK),
    (BLOCK.replace("===END-OPERATOR-DECISION===", "===END_OPERATOR-DECISION==="), Code.NO_BLOCK),
    (BLOCK.lower(), Code.NO_BLOCK),
    ("===END-OPERATOR-DECISION===\n{}\n===OPERATOR-DECISION===", Code.NO_BLOCK),
    ("===OPERATOR-DECISION===END-OPERATOR-DECISION===", Code.NO_BLOCK),
    (BLOCK + BLOCK, Code.MANY_BLOCKS),
    (BLOCK + answer(needs_human()), Code.MANY_BLOCKS),
    (f"Ich antworte mit ===OPERATOR-DECISION===:\n{BLOCK}", Code.MANY_BLOCKS),
    (f"{BLOCK}Das war ===END-OPERATOR-DECISION===.", Code.MANY_BLOCKS),
    (f"===OPERATOR-DECISION===\n{BLOCK}", Code.MANY_BLOCKS),
    (answer(f"```json\n{json.dumps(direct())}\n```"), Code.FENCE),
    (answer(f"```\n{json.dumps(direct())}\n```"), Code.FENCE),
    (answer(f"Gerne: {json.dumps(direct())}"), Code.NOT_JSON),
    (answer(f"{json.dumps(direct())}\nGruß"), Code.NOT_JSON),
    (answer(f"{json.dumps(direct())}{json.dumps(direct())}"), Code.NOT_JSON),
    (answer("\ufeff" + json.dumps(direct())), Code.NOT_JSON),
    (answer("\u00a0" + json.dumps(direct())), Code.NOT_JSON),
    (answer(""), Code.NOT_JSON),
    (answer("// Kommentar\n{}"), Code.NOT_JSON),
]


@pytest.mark.parametrize(("text", "code"), BROKEN_FRAMES)
def test_anything_but_one_block_of_json_is_refused(parse: Parse, text: str, code: Code) -> None:
    assert refusal(lambda: parse(text)) == ("$", code)


def test_an_answer_cut_off_anywhere_is_refused(parse: Parse) -> None:
    text = answer(split(child("a"), child("b", write_scope=["x"]))).rstrip()
    for end in range(len(text)):
        assert refusal(lambda end=end: parse(text[:end]))[0] == "$"
    # The same when the last marker is there: a model that was cut off and then closed its block.
    body = json.dumps(split())
    for end in range(len(body)):
        assert refusal(lambda end=end: parse(answer(body[:end]))) == ("$", Code.NOT_JSON)


# --- strict JSON ----------------------------------------------------------------------------------------------------


def with_value(spelled: str, key: str = "reason") -> str:
    """A direct decision whose field is spelled as given."""
    return json.dumps(direct(**{key: "@@"})).replace('"@@"', spelled)


JSON_FAULTS: list[tuple[str, str, Code]] = [
    (with_value('"a", "reason": "b"'), "$", Code.DUPLICATE_KEY),
    (with_value('"a", "\\u0072eason": "a"'), "$", Code.DUPLICATE_KEY),
    (with_value('{"x": {"y": 1, "z": 2, "y": 1}}'), "$.reason.x", Code.DUPLICATE_KEY),
    (
        json.dumps(direct(escalation=["@"])).replace('"@"', '{"model": 1, "model": 2}'),
        "$.escalation[0]",
        Code.DUPLICATE_KEY,
    ),
    (with_value("NaN"), "$.reason", Code.NOT_A_NUMBER),
    (with_value("[Infinity]"), "$.reason[0]", Code.NOT_A_NUMBER),
    (with_value("-Infinity"), "$.reason", Code.NOT_A_NUMBER),
    (with_value("9223372036854775808", "schema_version"), "$.schema_version", Code.INTEGER_TOO_LARGE),
    (with_value("-9223372036854775809", "schema_version"), "$.schema_version", Code.INTEGER_TOO_LARGE),
    (with_value("9" * 5000, "schema_version"), "$.schema_version", Code.INTEGER_TOO_LARGE),
    (with_value("-" + "9" * 500_000), "$.reason", Code.INTEGER_TOO_LARGE),
    (with_value("9223372036854775807", "schema_version"), "$.schema_version", Code.WRONG_VALUE),
    (with_value("1.0", "schema_version"), "$.schema_version", Code.WRONG_VALUE),
    (with_value("1e0", "schema_version"), "$.schema_version", Code.WRONG_VALUE),
    (with_value("1e400", "schema_version"), "$.schema_version", Code.WRONG_VALUE),
    (with_value("01", "schema_version"), "$", Code.NOT_JSON),
    (with_value("+1", "schema_version"), "$", Code.NOT_JSON),
    (with_value("0x1", "schema_version"), "$", Code.NOT_JSON),
    (with_value("True", "schema_version"), "$", Code.NOT_JSON),
    (with_value('"a\\ud800b"'), "$.reason", Code.SURROGATE),
    (with_value('"\\uDC00"'), "$.reason", Code.SURROGATE),
    (with_value('"\\ude00\\ud83d"'), "$.reason", Code.SURROGATE),
    (with_value('"\ud800"'), "$.reason", Code.SURROGATE),
    (with_value('"\ud83d\\ude00"'), "$.reason", Code.SURROGATE),
    (with_value('"a", "\\ud800": 1'), "$", Code.SURROGATE),
    (with_value('["a", "\\ud800"]'), "$.reason[1]", Code.SURROGATE),
    (with_value('"a\\u0000b"'), "$.reason", Code.INVISIBLE_CHARACTER),
    (with_value('"a\nb"'), "$", Code.NOT_JSON),
    (with_value('"a\tb"'), "$", Code.NOT_JSON),
    (with_value('"a\x00b"'), "$", Code.NOT_JSON),
    (with_value('"a\x1fb"'), "$", Code.NOT_JSON),
    (with_value('"\\x41"'), "$", Code.NOT_JSON),
    (with_value('"\\u12"'), "$", Code.NOT_JSON),
    (with_value("'a'"), "$", Code.NOT_JSON),
    (with_value('"a",'), "$", Code.NOT_JSON),
    (with_value("[" * 64 + "]" * 64), "$.reason" + "[0]" * 63, Code.NESTING),
    (with_value("[" * 900 + "]" * 900), "$.reason" + "[0]" * 63, Code.NESTING),
    (with_value('{"a":' * 64 + "1" + "}" * 64), "$.reason" + ".a" * 63, Code.NESTING),
    (with_value("[" * 500_000 + "]" * 500_000), "$", Code.NESTING),
    (with_value('{"a":' * 100_000 + "1" + "}" * 100_000), "$", Code.NESTING),
    (with_value("[" * 63 + "]" * 63), "$.reason", Code.WRONG_TYPE),
]


@pytest.mark.parametrize(("text", "path", "code"), JSON_FAULTS, ids=range(len(JSON_FAULTS)))
def test_json_that_is_not_strict_is_refused_with_its_place(refused: Refused, text: str, path: str, code: Code) -> None:
    assert refused(text) == (path, code)


@pytest.mark.parametrize(
    ("spelled", "meant"),
    [
        ('"\\ud83d\\ude80"', "🚀"),
        ('"🚀"', "🚀"),
        ('"a\u2028b\u2029c\x7f\x85"', "a\u2028b\u2029c\x7f\x85"),
        ('"\\\\ud800"', "\\ud800"),
        ('"\\\\u0000"', "\\u0000"),
        ('"a\\r\\n\\tb"', "a\r\n\tb"),
        ('"\\/"', "/"),
        ('"\\u0022:"', '":'),
    ],
)
def test_strict_json_keeps_every_text(decide: Decide, spelled: str, meant: str) -> None:
    assert decide(with_value(spelled)).reason == meant


@pytest.mark.parametrize("pad", ["x", "ü", "🚀"])
def test_a_mebibyte_is_enough(parse: Callable[[str], Decision], pad: str) -> None:
    room = MIB - len(answer(direct(reason="")).encode())
    fitting = pad * (room // len(pad.encode()))
    assert parse(answer(direct(reason=fitting))).reason == fitting
    assert refusal(lambda: parse(answer(direct(reason=fitting + pad)))) == ("$", Code.TOO_LARGE)
    assert refusal(lambda: parse(pad * MIB + answer(direct()))) == ("$", Code.TOO_LARGE)


@pytest.mark.parametrize(
    "text",
    [
        "[" * MIB,
        answer("[" * (MIB - 100)),
        answer('{"":' * 200_000),
        answer('"' * 500_000),
        answer("\\" * 500_000),
        answer('["' + "\\ud800" * 150_000 + '"]'),
        answer("[" + "0," * 400_000 + "0]"),
        answer('{"a":1' + ',"a":1' * 150_000 + "}"),
        answer("[" + "[]," * 300_000 + "[]]"),
        answer("1" * (MIB - 100)),
        answer("-" * (MIB - 100)),
        "===OPERATOR-DECISION===" * 40_000,
        "===END-OPERATOR-DECISION===" * 30_000,
        "`" * MIB,
    ],
    ids=range(14),
)
def test_a_mebibyte_of_anything_is_refused_quickly(parse: Parse, text: str) -> None:
    start = time.perf_counter()
    refusal(lambda: parse(text))
    assert time.perf_counter() - start < 5


# --- any text -------------------------------------------------------------------------------------------------------

MARKERS = [
    marker
    for module in (builder, fixer, planner, reviewer)
    for marker in (module.BEGIN, module.END)
] + [
    "===OPERATOR-DECISION===", "===END-OPERATOR-DECISION===", planner.BEGIN_CHILD, planner.END_CHILD, "slug: a", INTENT,
    inspector.BEGIN_INSPECTION, inspector.END_INSPECTION, inspector.BEGIN_ROUTING, inspector.END_ROUTING,
]  # fmt: skip
PIECES = [
    *MARKERS,
    json.dumps(direct()),
    json.dumps(split()),
    "{",
    "}",
    "[",
    "]",
    '"',
    "\n",
    "\\ud800",
    "\ud800",
    "NaN",
    "1e999",
]


def everybody(config: BoardConfig) -> list[Parse]:
    return [
        lambda text: parse_decision(text, parent_slug=PARENT, config=config),
        builder.parse_result,
        builder.parse_report,
        lambda text: reviewer.parse_report(text, commit="a" * 40, nonce="n", criteria=1),
        fixer.parse_result,
        inspector.parse_inspection,
        lambda text: inspector.parse_routing(text, config),
        lambda text: planner.parse_split(text, parent_slug=PARENT, config=config),
    ]


def check(parse: Parse, text: str) -> bool:
    try:
        parse(text)
    except ContractError as error:
        assert str(error).isprintable(), ascii(str(error))
        assert isinstance(error.code, Code)
        return False
    return True


@given(st.one_of(st.text(st.characters(codec=None)), st.lists(st.sampled_from(PIECES)).map("".join)))
def test_any_text_is_a_value_or_a_contract_error(config: BoardConfig, text: str) -> None:
    for parse in everybody(config):
        check(parse, text)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(codec=None), max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(st.sampled_from(list(direct())), json_values, st.sampled_from([direct, split, needs_human]))
def test_any_value_in_any_field_is_a_value_or_a_contract_error(
    config: BoardConfig, key: str, value: Any, make: Callable[..., dict[str, Any]]
) -> None:
    text = answer(json.dumps(make(**{key: value})))
    check(lambda text: parse_decision(text, parent_slug=PARENT, config=config), text)


@given(st.sampled_from(list(child())), json_values)
def test_any_value_in_a_child_is_a_value_or_a_contract_error(config: BoardConfig, key: str, value: Any) -> None:
    text = answer(json.dumps(split(child() | {key: value})))
    check(lambda text: parse_decision(text, parent_slug=PARENT, config=config), text)


@pytest.mark.parametrize("value", [None, True, 0, 1.5, "", "x", [], [None], {}, {"a": {}}])
@pytest.mark.parametrize("number", range(8))
def test_json_of_another_shape_is_refused_by_everybody(config: BoardConfig, number: int, value: Any) -> None:
    parse = everybody(config)[number]
    for begin, end in zip(MARKERS[::2], MARKERS[1::2], strict=True):
        assert not check(parse, f"{begin}{json.dumps(value)}{end}")
    assert not check(parse, json.dumps(value))


def test_every_code_is_documented() -> None:
    text = (Path(__file__).parents[2] / "docs" / "contracts.md").read_text()
    assert [code for code in Code if f"`{code}`" not in text] == []
