"""Intent documents: title, sections, success criteria, and the slug that a title makes."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

from intent_board.config import SLUG_PATTERN, invisible
from intent_board.contracts.errors import Code, ContractError, shown
from intent_board.contracts.values import SYNTHESIS_ENDING

#: Every section that a complete intent has, by its German name, with its English one.
SECTIONS: Mapping[str, str] = {
    "Ziel": "Goal",
    "Umfang": "Scope",
    "Explizit Ausgeschlossenes": "Out of scope",
    "Annahmen": "Assumptions",
    "Offene Risiken": "Open risks",
    "Erfolgskriterien": "Success criteria",
}
CRITERIA = "Erfolgskriterien"
#: A synthesis card's slug is the parent's with an ending of nine characters, and a slug has at most 61.
MAX_SUBMITTED_SLUG = 52

_CANONICAL = {name.casefold(): german for german, english in SECTIONS.items() for name in (german, english)}
_TITLE = re.compile(r"# Intent:[ \t]+([^ \t\r\n][^\n]*)")
_HEADING = re.compile(r"#{1,6}[ \t]+(.*)")
# Every heading but one in the first line, which holds the title; the literal beginning makes the search quick.
_HEADINGS = re.compile(r"\n#{1,6}[ \t]+([^\n]*)")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_BULLET = re.compile(r" {0,3}(?:[-*+]|\d{1,9}[.)])[ \t]+(?:\[[ xX]\][ \t]+)?(.*)")
_slug = re.compile(SLUG_PATTERN).fullmatch


@dataclass(frozen=True, slots=True)
class Intent:
    """A document that says what should change.

    `sections` holds the text below each known heading, by the German name.  `criteria` are the bullets of the
    success criteria.  `warnings` name the sections that are missing.
    """

    title: str
    sections: Mapping[str, str]
    criteria: tuple[str, ...]
    warnings: tuple[str, ...]


def parse(text: str) -> Intent:
    """Read a whole document.  Raises ContractError when it has no title; missing sections are only warnings."""
    sections: dict[str, str] = {}
    for name, body in _sections(text):
        sections[name] = f"{sections[name]}\n{body}" if name in sections else body
    return Intent(title(text), sections, bullets(sections.get(CRITERIA, "")), missing(sections))


def title(text: str) -> str:
    """The title from the first line, `# Intent: <title>`.  Raises ContractError."""
    if not (begin := _TITLE.match(text)):
        first = text.partition("\n")[0]
        reason = f"must begin with the line '# Intent: <title>', not with {shown(first)}"
        raise ContractError(Code.INTENT, reason)
    found = begin[1].rstrip(" \t\r")
    if bad := invisible(found):
        raise ContractError(Code.INVISIBLE_CHARACTER, f"has {bad} in its title; write the title without it")
    return found


def warnings(text: str) -> tuple[str, ...]:
    """One sentence for each section that the document lacks."""
    if "```" in text or "~~~" in text:
        return missing(frozenset(name for name, _ in _sections(text)))
    return _headings_missing(tuple(_HEADINGS.findall(text)))


def bullets(body: str) -> tuple[str, ...]:
    """The top-level list items of a section, each with its continuation lines, without their check boxes."""
    found: list[str] = []
    for line, fenced in lines(body):
        if not fenced and (bullet := _BULLET.fullmatch(line)):
            found.append(bullet[1].strip())
        elif found and line[:1] in " \t" and line.strip():
            found[-1] = f"{found[-1]} {line.strip()}"
    return tuple(entry for entry in found if entry)


def outline(text: str) -> Iterator[tuple[int, str, bool, bool]]:
    """Each known heading: its line's number, its German name, whether any words follow, whether a list does.

    Words below a deeper heading belong to it; a list has to stand right below, where `bullets` reads it.
    """
    at, level, name, words, listed, direct = 0, 0, None, False, False, True
    for number, (line, fenced) in enumerate(lines(text), 1):
        heading = None if fenced else _HEADING.match(line)
        if not heading:
            words = words or bool(line.strip())
            listed = listed or (direct and not fenced and _BULLET.fullmatch(line) is not None)
            continue
        depth = len(line) - len(line.lstrip("#"))
        known = canonical(heading[1])
        direct = False
        if known or depth <= level:
            if name:
                yield at, name, words, listed
            at, level, name, words, listed, direct = number, depth, known, False, False, True
    if name:
        yield at, name, words, listed


def slugify(title: str) -> str:
    """The slug that a title makes, fit to be submitted.  Raises ContractError when the title leaves nothing of it."""
    composed = unicodedata.normalize("NFC", title).casefold()
    spelled = composed.translate({ord("ä"): "ae", ord("ö"): "oe", ord("ü"): "ue"})
    plain = unicodedata.normalize("NFKD", spelled).encode("ascii", errors="ignore").decode()
    slug = re.sub(r"[^a-z0-9]+", "-", plain).strip("-")
    if len(slug) > MAX_SUBMITTED_SLUG:
        whole_words = slug[: MAX_SUBMITTED_SLUG + 1].rpartition("-")[0]
        slug = whole_words or slug[:MAX_SUBMITTED_SLUG]
    while slug.endswith(SYNTHESIS_ENDING):
        slug = slug.removesuffix(SYNTHESIS_ENDING)
    if not slug:
        raise ContractError(Code.SLUG, f"the title {shown(title)} makes no slug; choose one yourself")
    return slug


def submitted_slug(slug: str) -> str:
    """The slug itself when a person may submit it.  Raises ContractError."""
    if not _slug(slug) or len(slug) > MAX_SUBMITTED_SLUG:
        reason = (
            f"{shown(slug)} is no slug; use a-z, 0-9 and '-', at most {MAX_SUBMITTED_SLUG} characters, '-' not first"
        )
        raise ContractError(Code.SLUG, reason)
    if slug.endswith(SYNTHESIS_ENDING):
        reason = f"{slug!r} ends in {SYNTHESIS_ENDING!r}, which is kept for synthesis cards; choose another"
        raise ContractError(Code.SLUG, reason)
    return slug


# The children of a split mostly have the same headings.
@lru_cache(maxsize=256)
def _headings_missing(headings: tuple[str, ...]) -> tuple[str, ...]:
    return missing(frozenset(name for heading in headings if (name := canonical(heading))))


def canonical(heading: str) -> str | None:
    """The German name of a known section; a closing colon or row of '#' is no part of it."""
    return _CANONICAL.get(heading.strip(" \t\r:#").casefold())


def missing(present: Container[str]) -> tuple[str, ...]:
    """One sentence for each section whose German name is not `present`."""
    return tuple(
        f"the section '{german}' ('{english}') is missing"
        for german, english in SECTIONS.items()
        if german not in present
    )


def _sections(text: str) -> Iterator[tuple[str, str]]:
    """The known sections with their texts, in order.  A heading inside a fence is only text."""
    name: str | None = None
    body: list[str] = []
    for line, fenced in lines(text):
        heading = None if fenced else _HEADING.match(line)
        if not heading:
            body.append(line)
            continue
        if name is not None:
            yield name, "\n".join(body)
        name, body = canonical(heading[1]), []
    if name is not None:
        yield name, "\n".join(body)


def lines(text: str) -> Iterator[tuple[str, bool]]:
    """Every line, and whether it stands in a fenced block (the fences themselves do)."""
    fence = ""
    for raw in text.split("\n"):
        line = raw.removesuffix("\r")
        mark = _FENCE.match(line)
        if not fence:
            fence = mark[1] if mark else ""
            yield line, bool(mark)
            continue
        yield line, True
        if mark and mark[1].startswith(fence) and not line[mark.end() :].strip():
            fence = ""
