"""What an intent says about a word: the clause it stands in, and whether that says "leave it alone"."""

from __future__ import annotations

import re

from intent_board.contracts.passages import Passage

#: Sections that say what an intent does not do.
NOT_TOUCHED = frozenset({"Explizit Ausgeschlossenes", "Annahmen", "Offene Risiken"})
#: A clause is looked for so far around a word.
_AROUND = 200
_END = re.compile(r"[,;:.!?](?=\s|$)|\n\s*\n")
_KEPT = re.compile(
    r"\b(?:bleib\w*|unverändert\w*|unberührt\w*|behalten|behält|keep|keeps|kept|stay|stays|remain|remains|unchanged"
    r"|untouched)\b"
)
_NOT = re.compile(r"\b(?:nicht|kein\w*|ohne|außer|not|no|without|except|never|nie)\b(?!\s+(?:mehr|longer)\b)")


def does(passage: Passage) -> bool:
    """Whether a passage is among those that say what the intent does."""
    return passage.section not in NOT_TOUCHED


def left_alone(text: str, start: int, end: int) -> bool:
    """Whether the clause around `text[start:end]` (in lower case) says that this stays, or a "not" stands before it."""
    before, after = text[max(0, start - _AROUND) : start], text[end : end + _AROUND]
    before, after = _END.split(before)[-1], _END.split(after, maxsplit=1)[0]
    return bool(_NOT.search(before) or _KEPT.search(before) or _KEPT.search(after))
