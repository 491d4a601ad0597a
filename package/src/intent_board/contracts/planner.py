"""The Planner's split of a card that ran into its limit.

The report is no JSON but marker lines with whole Markdown documents between them.  A marker counts only on a line of
its own, so that a document may speak of one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from intent_board.config import BoardConfig
from intent_board.contracts import blocks, intent, strict, values
from intent_board.contracts.errors import Code, ContractError, shown
from intent_board.contracts.operator import MAX_CRITERIA

BEGIN, END = "===SPLIT-REPORT===", "===END-SPLIT-REPORT==="
BEGIN_CHILD, END_CHILD = "===CHILD===", "===END-CHILD==="


@dataclass(frozen=True, slots=True)
class Child:
    """One independent part; it takes the card's lane and write scope.  `warnings` name missing sections."""

    slug: str
    title: str
    acceptance_criteria: tuple[str, ...]
    intent_markdown: str
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Split:
    """An accepted split, its children in the order of the answer."""

    children: tuple[Child, ...]


def parse_split(response: str, *, parent_slug: str, config: BoardConfig) -> Split:
    """Read the Planner's whole answer.

    `parent_slug` is the card that is split.  Raises ContractError with the first fault: one malformed child refuses
    the whole.
    """
    inner = blocks.content(response, BEGIN, END)
    strict.check_text(inner)
    texts = list(_texts(inner))
    if not 1 <= len(texts) <= config.limits.max_children:
        reason = f"must have 1 to {config.limits.max_children} entries, not {len(texts)}"
        raise ContractError(Code.WRONG_COUNT, reason, "$.children")
    children: list[Child] = []
    for number, text in enumerate(texts):
        try:
            children.append(_child(text, parent_slug, {child.slug for child in children}))
        except ContractError as error:
            raise error.under(f".children[{number}]") from None
    return Split(tuple(children))


def _texts(inner: str) -> Iterator[str]:
    """What stands between each pair of child markers.  Anything else between them is malformed."""
    body: list[str] | None = None
    number = 0
    for line in inner.split("\n"):
        mark = line.strip(blocks.WHITE_SPACE)
        path = f"$.children[{number}]"
        if mark in {BEGIN, END} or (mark == BEGIN_CHILD and body is not None) or (mark == END_CHILD and body is None):
            raise ContractError(Code.MALFORMED_BLOCK, f"has {mark} where it has no place", path)
        if mark == BEGIN_CHILD:
            body = []
        elif mark == END_CHILD:
            yield "\n".join(body or [])
            body, number = None, number + 1
        elif body is not None:
            body.append(line)
        elif mark:
            reason = f"{shown(mark)} stands outside {BEGIN_CHILD} … {END_CHILD}; nothing may"
            raise ContractError(Code.MALFORMED_BLOCK, reason, path)
    if body is not None:
        raise ContractError(Code.MALFORMED_BLOCK, f"has no {END_CHILD}", f"$.children[{number}]")


def _child(text: str, parent: str, taken: set[str]) -> Child:
    first, _, rest = text.lstrip("\r\n").partition("\n")
    if not first.startswith("slug: "):
        reason = f"must begin with the line 'slug: <slug>', not with {shown(first)}"
        raise ContractError(Code.MALFORMED_BLOCK, reason)
    table = {"slug": first.removeprefix("slug: ").removesuffix("\r")}
    slug = values.slug(table, "slug")
    if slug == parent:
        raise ContractError(Code.SLUG, f"{slug!r} is the parent's slug; choose another", "$.slug")
    if slug in taken:
        raise ContractError(Code.DUPLICATE, f"{slug!r} is another child's slug too; give each its own", "$.slug")
    markdown = rest.strip("\r\n") + "\n"
    try:
        document = intent.parse(markdown)
    except ContractError as error:
        raise error.under(".intent_markdown") from None
    criteria = document.criteria
    values.distinct_texts({"acceptance_criteria": list(criteria)}, "acceptance_criteria", 1, MAX_CRITERIA)
    return Child(slug, document.title, criteria, markdown, document.warnings)
