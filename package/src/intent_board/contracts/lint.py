"""What is doubtful about an intent, before anybody works on it: findings with line numbers, pure rules.

Four rules: `title` and `slug` are what `board submit` refuses, `sections`, `package-lists` and `design` are doubts.
docs/intents.md says each in words.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from intent_board.contracts import intent
from intent_board.contracts.design import untold
from intent_board.contracts.errors import ContractError
from intent_board.contracts.package_lists import PackageLists
from intent_board.contracts.package_words import unnamed
from intent_board.contracts.passages import read

#: So many findings of one document are told; nobody reads more, and they are kept on the card.
MAX_FINDINGS = 50
#: A document with one of these can't be submitted.
REFUSED = frozenset({"title", "slug"})


@dataclass(frozen=True, slots=True, order=True)
class Finding:
    """One doubt: the line it is about, the rule, and one sentence with what to do."""

    line: int
    rule: str
    text: str

    def __str__(self) -> str:
        return f"{self.text} (line {self.line})"


def check(text: str, lists: PackageLists | None = None, *, slug: str | None = None) -> tuple[Finding, ...]:
    """Everything doubtful about an intent, by line.

    `lists` is what its repository holds (None: not known, so packages are not looked for); `slug` is the name wanted
    for the card, where it is not to be made from the title.  Takes time in proportion to the text.
    """
    known = lists or PackageLists()
    passages = tuple(read(text))
    found = [*_title(text, slug), *_sections(text)]
    found += [Finding(line, "package-lists", said) for line, said in unnamed(passages, known)]
    found += [Finding(line, "design", said) for line, said in untold(passages, known.hosts)]
    found.sort()
    if len(found) > MAX_FINDINGS:
        more = len(found) - MAX_FINDINGS + 1
        found[MAX_FINDINGS - 1 :] = [Finding(found[-1].line, "more", f"{more} more findings are not shown")]
    return tuple(found)


def _title(text: str, slug: str | None) -> Iterator[Finding]:
    try:
        title = intent.title(text)
    except ContractError as error:
        yield Finding(1, "title", error.reason)
        return
    try:
        intent.submitted_slug(slug if slug is not None else intent.slugify(title))
    except ContractError as error:
        yield Finding(1, "slug", error.reason)


def _sections(text: str) -> Iterator[Finding]:
    headings: dict[str, int] = {}
    for number, name, words, bulleted in intent.outline(text):
        german, english = name, intent.SECTIONS[name]
        if name in headings:
            said = f"the section '{german}' ('{english}') is there already in line {headings[name]}; join them"
            yield Finding(number, "sections", said)
            continue
        headings[name] = number
        if not words:
            yield Finding(number, "sections", f"the section '{german}' ('{english}') is empty; say at least 'none'")
        elif name == intent.CRITERIA and not bulleted:
            yield Finding(number, "sections", f"'{german}' ('{english}') has no list; write each criterion as '- …'")
    for warning in intent.missing(headings):
        yield Finding(1, "sections", warning)
