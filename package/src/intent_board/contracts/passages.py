"""An intent document as passages: paragraphs, list items and fenced blocks, each with its place in the document."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from intent_board.contracts.intent import canonical, lines

#: So much of what leads to a list belongs to each of its items; a longer one is no sentence that leads anywhere.
_LEAD_LIMIT = 400
_HEADING = re.compile(r"(#{1,6})[ \t]+(.*)")
_ITEM = re.compile(r"([ \t]*)(?:[-*+]|\d{1,9}[.)])[ \t]+")


@dataclass(frozen=True, slots=True)
class Passage:
    """A paragraph, a list item with its continuation, or a fenced block.

    `line` is the number of its first line, `low` the text in lower case with the same offsets.  `section` is the German
    name of the known section it stands in, `""` in any other, `chapter` the number of the heading of the second level
    that it is below.  `lead` is what introduces it, in lower case: the unknown heading right above, the sentence with a
    colon before a list, the item above a nested one.
    """

    line: int
    text: str
    low: str
    section: str
    chapter: int
    lead: str = ""
    fenced: bool = False

    def line_at(self, offset: int) -> int:
        """The number of the line that an offset in `text` stands in."""
        return self.line + self.text.count("\n", 0, offset)


def read(text: str) -> Iterator[Passage]:
    """Every passage of a document in order, the title's line first; headings are only leads."""
    return _Reader().read(text)


class _Reader:
    """The state between two lines of a document."""

    def __init__(self) -> None:
        self._block: list[str] = []
        self._start, self._fenced, self._indent = 1, False, 0
        self._section, self._chapter, self._heading = "", 0, ""
        #: What leads to the next items: (indentation, text), the paragraph's own at -1.
        self._leads: list[tuple[int, str]] = []

    def read(self, text: str) -> Iterator[Passage]:
        for number, (line, fenced) in enumerate(lines(text), 1):
            heading = None if fenced or number == 1 else _HEADING.match(line)
            item = None if fenced else _ITEM.match(line)
            if heading or item or fenced != self._fenced or not (fenced or line.strip()):
                yield from self._end()
                self._start, self._fenced = number, fenced
            if heading:
                self._enter(len(heading[1]), heading[2])
                self._start = number + 1
                continue
            if item:
                self._indent = len(item[1].expandtabs(4))
            if number == 1:
                yield Passage(1, line, _lower(line), "", 0)
                self._start = 2
            elif fenced or line.strip():
                if not self._block:
                    self._start = number
                    self._indent = self._indent if item else -1
                self._block.append(line)
        yield from self._end()

    def _enter(self, level: int, heading: str) -> None:
        known = canonical(heading)
        if level <= 2 or known:
            self._chapter += 1
            self._section = known or ""
        self._heading, self._leads = "" if known else _lower(heading[:_LEAD_LIMIT]), []

    def _end(self) -> Iterator[Passage]:
        if not self._block:
            return
        text, self._block = "\n".join(self._block), []
        while self._leads and self._indent >= 0 and self._leads[-1][0] >= self._indent:
            self._leads.pop()
        if self._indent < 0 and not self._fenced:
            self._leads = []
        lead = " ".join([self._heading, *(words for _, words in self._leads[-2:])]).strip()
        yield Passage(self._start, text, _lower(text), self._section, self._chapter, lead, self._fenced)
        if text.rstrip().endswith(":") and not self._fenced:
            self._leads.append((self._indent, _lower(text[-_LEAD_LIMIT:])))


def _lower(text: str) -> str:
    # The one letter whose small form is two characters.
    return text.replace("\u0130", "i").lower()
