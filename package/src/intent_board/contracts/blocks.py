"""The marker block of an answer.

Models put a sentence in front of their block even when told not to.  So the boundary is the strict content between
the first opening and the last closing marker, which must be one JSON document: a second block, quoted or real,
can't be part of one, while a marker inside a JSON string is only text.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from intent_board.contracts import strict
from intent_board.contracts.errors import Code, ContractError

T = TypeVar("T")

#: JSON's own white space.  A byte order mark or a no-break space is text.
WHITE_SPACE = " \t\r\n"


def read(response: str, begin: str, end: str, reader: Callable[[Any], T], *, alone: bool = False) -> T:
    """Find the block between the markers `begin` and `end`, decode it, and hand it to `reader`.

    With `alone` only white space may stand around it.  Returns what `reader` returns; raises ContractError.
    """
    inner = content(response, begin, end, alone=alone)
    try:
        return strict.read(inner, reader)
    except ContractError as error:
        if error.code is not Code.NOT_JSON:
            raise
        if begin in inner or end in inner:
            reason = f"holds {begin} or {end} more than once; answer with exactly one block"
            raise ContractError(Code.MANY_BLOCKS, reason) from None
        if inner.lstrip(WHITE_SPACE).startswith("```"):
            reason = "has a Markdown fence inside the block; only JSON may stand between the markers"
            raise ContractError(Code.FENCE, reason) from None
        raise


def content(response: str, begin: str, end: str, *, alone: bool = False) -> str:
    """The text between the first `begin` and the last `end`.  Raises ContractError."""
    strict.check_size(response)
    first, last = response.find(begin), response.rfind(end)
    if first < 0:
        raise ContractError(Code.NO_BLOCK, f"has no {begin}; answer with one block between the markers")
    if last < first + len(begin):
        raise ContractError(Code.NO_BLOCK, f"has no {end} after {begin}: the answer is cut off or out of order")
    if alone and (response[:first].strip(WHITE_SPACE) or response[last + len(end) :].strip(WHITE_SPACE)):
        raise ContractError(Code.TEXT_AROUND, f"has text around the block; nothing but {begin} … {end} is allowed")
    return response[first + len(begin) : last]
