"""Changes valid answers at random and holds every parser to: a value, or a ContractError, and soon.

Run it by hand, `python tests/contracts/fuzz_answers.py --seconds 120 --seed 1`; the suite's own tests use hypothesis.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

from contract_answers import PARENT, answer, child, direct, needs_human, rung, split
from test_fixer_contract import answer as fix_answer
from test_fixer_contract import failed, needs_input, not_applicable, repaired
from test_inspector_contract import inspected, inspection, routed, routing
from test_planner_contract import block
from test_planner_contract import report as split_report
from test_reviewer_contract import COMMIT, NONCE
from test_reviewer_contract import report as review
from test_strict_answers import MARKERS

from intent_board import config as configuration
from intent_board.contracts import ContractError, builder, fixer, inspector, planner, reviewer
from intent_board.contracts.operator import Decision, parse_decision
from intent_board.contracts.scope import matches

CONFIG = configuration.example()
Parse = Callable[[str], object]


def reviewed(value: Any) -> str:
    return f"===REVIEW-REPORT===\n{json.dumps(value)}\n===END-REVIEW-REPORT==="


def built(value: Any) -> str:
    return f"===BUILD-RESULT===\n{json.dumps(value)}\n===END-BUILD-RESULT==="


FAMILY = split(
    child("a", write_scope=["a/**", "*.md"]),
    child("b", wave=2, blocked_by=["a"], write_scope=["a/b", "src/[ab]*.py"]),
    child("c", write_scope=["hosts/*/disk.nix", "x"], escalation=[rung(), rung(reasoning_effort=None)]),
)
BUILD = {"schema_version": 1, "outcome": "done", "summary": "x", "question": None, "tests": []}
KINDS: dict[str, tuple[Parse, list[str]]] = {
    "operator": (
        lambda text: parse_decision(text, parent_slug=PARENT, config=CONFIG),
        [answer(direct()), answer(FAMILY), answer(json.dumps(FAMILY, indent=2)), answer(needs_human())],
    ),
    "builder": (builder.parse_result, [built(BUILD), built(BUILD | {"outcome": "needs_input", "question": "?"})]),
    "interim": (builder.parse_report, [json.dumps({"done": ["a"], "open": ["b"], "next": "c"})]),
    "reviewer": (
        lambda text: reviewer.parse_report(text, commit=COMMIT, nonce=NONCE, criteria=2),
        [reviewed(review()), reviewed(review(decision="planung_mit_feedback"))],
    ),
    "fixer": (fixer.parse_result, [fix_answer(make()) for make in (repaired, failed, needs_input, not_applicable)]),
    "inspection": (inspector.parse_inspection, [inspected(inspection())]),
    "routing": (lambda text: inspector.parse_routing(text, CONFIG), [routed(routing())]),
    "planner": (
        lambda text: planner.parse_split(text, parent_slug=PARENT, config=CONFIG),
        [split_report(block("a"), block("b"))],
    ),
}
TOKENS = [
    *MARKERS, "{", "}", "[", "]", '"', ":", ",", "\\", "\\u0000", "\\ud800", "\\u202e", "\ud800", "\ufeff", "\u2028",
    "\u200b", "NaN", "-Infinity", "1e999", "-0", "9" * 5000, "true", "null", "[" * 100, '"slug":', '"slug":"a",', "0",
    "```json\n", "\r\n", " ", "**", "../", "[!", "]", "~", "/", ".git", "-synthese",
    "# Intent:", "slug: ", "\x00", "1.0",
]  # fmt: skip
VALUES: list[Any] = [
    None,
    True,
    False,
    0,
    1,
    1.0,
    -1,
    1 << 63,
    "",
    " ",
    "a",
    "a\n",
    "..",
    "**",
    [],
    [[]],
    {},
    {"a": 1},
    ["a"] * 101,
]


def change_text(text: str, dice: random.Random) -> str:
    for _ in range(dice.choice([1, 1, 1, 2, 3, 8])):
        start = dice.randrange(len(text) + 1)
        end = min(len(text), start + dice.choice([0, 0, 1, 2, 10, 200]))
        new = dice.choice(
            [dice.choice(TOKENS), "", text[end : end + dice.randrange(200)], chr(dice.randrange(0x11000))]
        )
        text = text[:start] + new + text[end:]
    return text


def change_value(value: Any, dice: random.Random) -> Any:
    """The same JSON with one value somewhere inside it replaced, left out, or doubled."""
    if isinstance(value, dict) and value and dice.random() < 0.9:
        key = dice.choice(list(value))
        if dice.random() < 0.1:
            return {name: part for name, part in value.items() if name != key}
        return value | {dice.choice([key, key, key, key + "x"]): change_value(value[key], dice)}
    if isinstance(value, list) and value and dice.random() < 0.8:
        place = dice.randrange(len(value))
        middle = dice.choice([[], [value[place]] * 2, [change_value(value[place], dice)]])
        return value[:place] + middle + value[place + 1 :]
    if isinstance(value, str) and dice.random() < 0.6:
        return change_text(value, dice)
    return dice.choice(VALUES)


def changed(text: str, dice: random.Random) -> str:
    first, last = text.find("{"), text.rfind("}") + 1
    if first >= 0 and dice.random() < 0.5:
        try:
            return text[:first] + json.dumps(change_value(json.loads(text[first:last]), dice)) + text[last:]
        except json.JSONDecodeError:
            pass
    return change_text(text, dice)


def hold(value: object) -> None:
    """What must be true of every accepted decision, said in other words than the parser's."""
    if not isinstance(value, Decision):
        return
    for one in value.children:
        for other in value.children:
            ordered = one.slug == other.slug or waits(value, one.slug, other.slug) or waits(value, other.slug, one.slug)
            shared = [path for path in PATHS if matches(one.write_scope, path) and matches(other.write_scope, path)]
            assert ordered or not shared, (one.slug, other.slug, shared)


PATHS = [
    "a",
    "a/b",
    "a/b/c",
    "README.md",
    "src/a.py",
    "src/ab.py",
    "hosts/x/disk.nix",
    "hosts/a",
    "hosts/b/c",
    "x",
    "x/y",
]


def waits(decision: Decision, slug: str, other: str) -> bool:
    child = next(child for child in decision.children if child.slug == slug)
    return other in child.blocked_by or any(waits(decision, name, other) for name in child.blocked_by)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--seconds", type=float, default=60)
    arguments.add_argument("--seed", type=int, default=0)
    options = arguments.parse_args()
    dice, end = random.Random(options.seed), time.monotonic() + options.seconds
    seen: Counter[str] = Counter()
    slowest = 0.0
    while time.monotonic() < end:
        kind = dice.choice(list(KINDS))
        parse, seeds = KINDS[kind]
        text = changed(dice.choice(seeds), dice)
        start = time.perf_counter()
        try:
            value = parse(text)
        except ContractError as error:
            assert str(error).isprintable() and error.path.startswith("$"), ascii(text)
            seen[f"refused: {error.code}"] += 1
        except BaseException:
            print("BROKEN", kind, ascii(text))
            raise
        else:
            hold(value)
            seen[f"accepted: {kind}"] += 1
        slowest = max(slowest, time.perf_counter() - start)
    print(f"{sum(seen.values())} answers, seed {options.seed}, the slowest {slowest * 1000:.1f} ms")
    for what, number in seen.most_common():
        print(f"{number:9} {what}")


if __name__ == "__main__":
    main()
