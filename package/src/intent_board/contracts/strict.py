"""Strict JSON: the part of JSON that every reader understands the same way."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from intent_board.contracts.errors import Code, ContractError, step

MAX_BYTES = 1 << 20
MAX_DEPTH = 64
_INTEGERS = range(-(1 << 63), 1 << 63)

# How half a surrogate pair or a NUL must be written in JSON, if it is there at all.
_suspect = re.compile(r"\\u(?:[dD][89a-fA-F]|0000)").search

T = TypeVar("T")


class _Unlawful(ValueError):
    """JSON as Python reads it, but not strict; `_diagnose` says what and where."""


def check_size(text: str) -> None:
    """Refuse more than 1 MiB, counted in UTF-8 bytes.  Raises ContractError."""
    # A character has at most four bytes, so most texts need no counting.
    if len(text) * 4 > MAX_BYTES and (
        len(text) > MAX_BYTES or len(text.encode("utf-8", errors="surrogatepass")) > MAX_BYTES
    ):
        raise ContractError(Code.TOO_LARGE, "is larger than 1 MiB; answer with less")


def check_text(text: str) -> None:
    """Refuse what no text that others read can hold: halves of surrogate pairs, and NUL.  Raises ContractError."""
    if fault := _unfit(text):
        raise ContractError(fault.code, fault.reason)


def read(text: str, reader: Callable[[Any], T]) -> T:
    """Decode strict JSON and hand it to `reader`, which accepts the listed fields and refuses everything else.

    Returns what `reader` returns.  Raises ContractError: the reader's, or this law's own, which comes first.

    Nesting and the size of integers are only looked at in what was refused: no shape that a reader accepts is
    deeper than a few levels, and no number it accepts is beyond a hundred or so.
    """
    try:
        value = _STRICT.decode(text)
        if _suspect(text) or not _encodable(text):
            _diagnose(text)
        return reader(value)
    except (ContractError, ValueError, RecursionError):
        _diagnose(text)
        raise


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    # Python keeps the last of two equal keys, other readers the first: the same text would mean two things.
    if len(table) != len(pairs):
        raise _Unlawful
    return table


def _refuse(word: str) -> Any:
    raise _Unlawful


_STRICT = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_refuse)


def _encodable(text: str) -> bool:
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


# --- the careful second reading, for refused answers -----------------------------------------------------------


class _Fault:
    """Stands in the tree for a number that is not allowed, so that its path can be named."""

    def __init__(self, code: Code, reason: str) -> None:
        self.code, self.reason = code, reason


class _Doubled(dict[str, Any]):
    """An object that names a key twice."""

    key = ""


def _marked(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) == len(pairs):
        return table
    doubled, seen = _Doubled(table), set[str]()
    for key, _ in pairs:
        if key in seen:
            doubled.key = key
            return doubled
        seen.add(key)
    raise AssertionError("a dict is shorter than its pairs only through a repeated key")


def _integer(digits: str) -> Any:
    # The length is looked at first: Python refuses to convert thousands of digits, with an error of its own.
    if len(digits) > 20 or int(digits) not in _INTEGERS:
        return _Fault(Code.INTEGER_TOO_LARGE, "is an integer beyond 64 bits")
    return int(digits)


def _constant(word: str) -> Any:
    return _Fault(Code.NOT_A_NUMBER, f"{word} is not JSON; use null or a number")


_MARKING = json.JSONDecoder(object_pairs_hook=_marked, parse_constant=_constant, parse_int=_integer)


def _diagnose(text: str) -> None:
    """Raise the first fault in the order of the text; return when the text is strict JSON."""
    try:
        value = _MARKING.decode(text)
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno} of the block"
        raise ContractError(Code.NOT_JSON, f"is not JSON: {error.msg} ({where})") from None
    except RecursionError:
        raise ContractError(Code.NESTING, f"is nested deeper than {MAX_DEPTH} levels") from None
    for place, part in _walk(value):
        if fault := _fault(len(place), part):
            steps = (f"[{key}]" if isinstance(key, int) else step(key) for key in place)
            raise ContractError(fault.code, fault.reason, "$" + "".join(steps))


def _fault(above: int, part: Any) -> _Fault | None:
    """What is wrong with one value that stands inside `above` others."""
    if isinstance(part, str):
        return _unfit(part)
    if isinstance(part, _Fault):
        return part
    if not isinstance(part, (dict, list)):
        return None
    if above >= MAX_DEPTH:
        return _Fault(Code.NESTING, f"is nested deeper than {MAX_DEPTH} levels")
    if isinstance(part, _Doubled):
        return _Fault(Code.DUPLICATE_KEY, f"names the key {part.key[:80]!r} twice; keep one")
    keys = part if isinstance(part, dict) else ()
    return next((fault for key in keys if (fault := _unfit(key))), None)


def _unfit(text: str) -> _Fault | None:
    if not _encodable(text):
        return _Fault(Code.SURROGATE, "has half of a surrogate pair, which is no character")
    if "\0" in text:
        return _Fault(Code.INVISIBLE_CHARACTER, "has a NUL character, which ends a text for other programs")
    return None


def _walk(value: Any) -> Iterator[tuple[list[str | int], Any]]:
    """Every value in the order of the text with the keys that lead to it; without recursion."""
    place: list[str | int] = []
    yield place, value
    levels = [_entries(value)]
    while levels:
        for key, part in levels[-1]:
            place.append(key)
            yield place, part
            if isinstance(part, (dict, list)):
                levels.append(_entries(part))
                break
            place.pop()
        else:
            levels.pop()
            if place:
                place.pop()


def _entries(part: Any) -> Iterator[tuple[str | int, Any]]:
    if isinstance(part, dict):
        return iter(part.items())
    return iter(enumerate(part)) if isinstance(part, list) else iter(())
