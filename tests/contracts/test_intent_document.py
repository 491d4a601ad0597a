"""Intent documents: titles, sections in two languages, criteria, slugs."""

from __future__ import annotations

import re

import pytest
from contract_answers import INTENT, refusal
from hypothesis import given
from hypothesis import strategies as st

from intent_board.contracts import Code, ContractError, intent


def test_a_german_document_is_read_whole() -> None:
    document = intent.parse(INTENT)
    assert document.title == "Der Druckserver ist nur im LAN erreichbar"
    assert list(document.sections) == list(intent.SECTIONS)
    assert document.sections["Ziel"].strip() == "Port 631 ist von außen zu."
    assert document.criteria == ("`nix flake check` ist grün", "Drucken geht")
    assert document.warnings == ()


def test_an_english_document_is_read_as_the_same_sections() -> None:
    text = "# Intent: Close the port\n" + "".join(
        f"\n### {name.upper()}: ##\n- x\n" for name in intent.SECTIONS.values()
    )
    document = intent.parse(text.replace("\n", "\r\n"))
    assert document.title == "Close the port"
    assert list(document.sections) == list(intent.SECTIONS)
    assert document.criteria == ("x",)


def test_each_missing_section_is_named_in_both_languages() -> None:
    assert intent.parse("# Intent: x\n\n## Ziel\ny\n").warnings == tuple(
        f"the section '{german}' ('{english}') is missing"
        for german, english in intent.SECTIONS.items()
        if german != "Ziel"
    )


def test_a_heading_in_a_fence_is_no_heading() -> None:
    fenced = "# Intent: x\n\n````md\n## Ziel\n```\n## Umfang\n````\n## Annahmen\n"
    assert list(intent.parse(fenced).sections) == ["Annahmen"]
    assert intent.warnings(fenced) == intent.parse(fenced).warnings


def test_criteria_are_the_bullets_with_their_continuations() -> None:
    body = (
        "Davor steht Text.\n\n- [ ] eins\n  geht weiter\n* [x] zwei\n    - mit Unterpunkt\n1. drei\n2) vier\n"
        "```\n- kein Punkt\n```\nDanach auch.\n-\n- \n-ohne Abstand\n"
    )
    assert intent.bullets(body) == ("eins geht weiter", "zwei - mit Unterpunkt", "drei", "vier")


@pytest.mark.parametrize(
    "text", ["", "# Intent:", "# Intent: ", "#Intent: x", "# intent: x", "x\n# Intent: y", " # Intent: y"]
)
def test_a_document_without_a_title_is_refused(text: str) -> None:
    assert refusal(lambda: intent.parse(text)) == ("$", Code.INTENT)


def test_a_title_is_one_visible_line() -> None:
    assert intent.title("# Intent: \t a b \t\r\nx") == "a b"
    assert intent.title("# Intent: nur das") == "nur das"
    for bad in "\x1b\x0b\u2028\u202e\u200b\u2066":
        assert refusal(lambda bad=bad: intent.title(f"# Intent: a{bad}b\n"))[1] == Code.INVISIBLE_CHARACTER


@pytest.mark.parametrize(
    ("title", "slug"),
    [
        ("Öl für Äpfel, Straße 7", "oel-fuer-aepfel-strasse-7"),
        ("O\u0308l", "oel"),
        ("Crème brûlée!", "creme-brulee"),
        ("--a--b--", "a-b"),
        ("-synthese", "synthese"),
        ("Die Synthese", "die"),
        ("x-synthese-synthese", "x"),
        ("a" * 60, "a" * 52),
        ("a" * 51 + " b", "a" * 51),
        ("ab " * 30, "-".join(["ab"] * 17)),
    ],
)
def test_a_title_makes_a_slug(title: str, slug: str) -> None:
    assert intent.slugify(title) == slug
    assert intent.submitted_slug(slug) == slug


@pytest.mark.parametrize("title", ["", "!!!", "日本", "\u202e"])
def test_a_title_without_letters_makes_none(title: str) -> None:
    assert refusal(lambda: intent.slugify(title)) == ("$", Code.SLUG)


@pytest.mark.parametrize("slug", ["", "A", "-a", "a" * 53, "x-synthese", "a\n", " a", "a/b"])
def test_a_wrong_slug_is_refused(slug: str) -> None:
    assert refusal(lambda: intent.submitted_slug(slug)) == ("$", Code.SLUG)


@given(st.text())
def test_any_title_makes_a_slug_that_may_be_submitted_or_none(title: str) -> None:
    try:
        slug = intent.slugify(title)
    except ContractError:
        return
    assert intent.submitted_slug(slug) == slug
    assert not re.search(r"--|-$", slug)


@given(st.text(alphabet="#`~ \t\r\n-*1.[]xZielGoal"))
def test_both_readings_of_headings_agree(body: str) -> None:
    text = f"# Intent: x\n{body}"
    assert intent.warnings(text) == intent.parse(text).warnings
