"""The Planner's split: whole documents between marker lines, all of them or none."""

from __future__ import annotations

import pytest
from contract_answers import INTENT, PARENT, refusal

from intent_board.config import BoardConfig
from intent_board.contracts import Code
from intent_board.contracts.planner import Split, parse_split


def block(slug: str = "teil", document: str = INTENT) -> str:
    return f"===CHILD===\nslug: {slug}\n{document}===END-CHILD===\n"


def report(*blocks: str) -> str:
    return f"Ich teile:\n\n===SPLIT-REPORT===\n{''.join(blocks)}===END-SPLIT-REPORT===\nFertig.\n"


@pytest.fixture
def parse(config: BoardConfig):  # type: ignore[no-untyped-def]
    def run(text: str) -> Split:
        return parse_split(text, parent_slug=PARENT, config=config)

    return run


def test_children_keep_their_documents_and_criteria(parse) -> None:  # type: ignore[no-untyped-def]
    split = parse(report(block("a"), "\n", block("b", INTENT.replace("## Annahmen", "## Anmerkung"))))
    assert [child.slug for child in split.children] == ["a", "b"]
    first, second = split.children
    assert first.intent_markdown == INTENT
    assert first.title == "Der Druckserver ist nur im LAN erreichbar"
    assert first.acceptance_criteria == ("`nix flake check` ist grün", "Drucken geht")
    assert first.warnings == ()
    assert len(second.warnings) == 1 and "Annahmen" in second.warnings[0]


def test_windows_line_ends_are_line_ends(parse) -> None:  # type: ignore[no-untyped-def]
    split = parse(report(block("a")).replace("\n", "\r\n"))
    assert split.children[0].slug == "a"
    assert split.children[0].acceptance_criteria == ("`nix flake check` ist grün", "Drucken geht")


def test_a_document_may_speak_of_markers_within_a_line(parse) -> None:  # type: ignore[no-untyped-def]
    spoken = INTENT.replace("alte Treiber", "`===CHILD===` und ===END-SPLIT-REPORT=== im Text")
    assert parse(report(block("a", spoken))).children[0].intent_markdown == spoken


def test_ten_children_are_accepted(parse) -> None:  # type: ignore[no-untyped-def]
    assert len(parse(report(*(block(f"c{number}") for number in range(10)))).children) == 10


NO_CRITERIA = INTENT[: INTENT.index("## Erfolgskriterien")]
BROKEN = [
    ("nichts", "$", Code.NO_BLOCK),
    (report(), "$.children", Code.WRONG_COUNT),
    (report(*(block(f"c{number}") for number in range(11))), "$.children", Code.WRONG_COUNT),
    (report(block("a"), block("a")), "$.children[1].slug", Code.DUPLICATE),
    (report(block("a"), block(PARENT)), "$.children[1].slug", Code.SLUG),
    (report(block("Groß")), "$.children[0].slug", Code.SLUG),
    (report(block(" a")), "$.children[0].slug", Code.WHITE_SPACE),
    (report(block("a ")), "$.children[0].slug", Code.WHITE_SPACE),
    (report(block("a-synthese")), "$.children[0].slug", Code.SLUG),
    (report(block("")), "$.children[0].slug", Code.EMPTY),
    (report(f"===CHILD===\n{INTENT}===END-CHILD===\n"), "$.children[0]", Code.MALFORMED_BLOCK),
    (report(block("a"), "===CHILD===\nslug: b\n"), "$.children[1]", Code.MALFORMED_BLOCK),
    (report("===CHILD===\n", block("a")), "$.children[0]", Code.MALFORMED_BLOCK),
    (report(block("a"), "===END-CHILD===\n"), "$.children[1]", Code.MALFORMED_BLOCK),
    (report("```\n", block("a"), "```\n"), "$.children[0]", Code.MALFORMED_BLOCK),
    (report(block("a"), "und\n", block("b")), "$.children[1]", Code.MALFORMED_BLOCK),
    (report(block("a")) + report(block("b")), "$.children[1]", Code.MALFORMED_BLOCK),
    (report(block("a", "## Ziel\n")), "$.children[0].intent_markdown", Code.INTENT),
    (report(block("a", "# Intent: \n")), "$.children[0].intent_markdown", Code.INTENT),
    (report(block("a"), block("b", NO_CRITERIA)), "$.children[1].acceptance_criteria", Code.WRONG_COUNT),
    (report(block("a", INTENT + "- x\n" * 2)), "$.children[0].acceptance_criteria[3]", Code.DUPLICATE),
    (report(block("a", INTENT + "\ud800\n")), "$", Code.SURROGATE),
    (report(block("a", INTENT + "\0\n")), "$", Code.INVISIBLE_CHARACTER),
    (report(block("a", INTENT + "x" * (1 << 20))), "$", Code.TOO_LARGE),
    (report(block("a")).replace("===END-SPLIT-REPORT===", ""), "$", Code.NO_BLOCK),
]


@pytest.mark.parametrize(("text", "path", "code"), BROKEN)
def test_a_broken_split_names_its_first_fault(parse, text: str, path: str, code: Code) -> None:  # type: ignore[no-untyped-def]
    assert refusal(lambda: parse(text)) == (path, code)
