"""Readers for single fields.

Each takes the object and the name of one of its fields and returns the field's value, or raises ContractError with
the path of that field below the object.  Nothing is trimmed, converted or filled in.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar, cast

from intent_board.config import EFFORT_PATTERN, MODEL_PATTERN, SLUG_PATTERN, branch_name, invisible
from intent_board.contracts.errors import Code, ContractError, shown, step
from intent_board.contracts.scope import normalise

Table = dict[str, Any]
T = TypeVar("T")

_slug = re.compile(SLUG_PATTERN).fullmatch
_effort = re.compile(EFFORT_PATTERN).fullmatch
_model = re.compile(MODEL_PATTERN).fullmatch
_commit = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}").fullmatch

#: What a synthesis card's slug ends in; no other slug may.
SYNTHESIS_ENDING = "-synthese"


class Fields:
    """The fields that an object must have, exactly; `optional` alone may be missing."""

    def __init__(self, *names: str, optional: str | None = None) -> None:
        self.names, self.optional = names, optional
        self._shapes = (frozenset((*names, optional or names[0])), frozenset(names))

    def of(self, value: Any) -> Table:
        """`value` itself.  Raises ContractError when it is no object, or one with other fields."""
        if type(value) is not dict:
            raise ContractError(Code.WRONG_TYPE, f"must be an object, not {shown(value)}")
        if value.keys() not in self._shapes:
            self._refuse(value)
        return value

    def _refuse(self, value: Table) -> None:
        for key in value:
            if key not in self.names and key != self.optional:
                known = ", ".join((*self.names, *((self.optional,) if self.optional else ())))
                reason = f"is no field of this answer; leave it out (the fields are {known})"
                raise ContractError(Code.UNKNOWN_FIELD, reason, f"${step(key)}")
        for name in self.names:
            if name not in value:
                reason = "is missing; every listed field must be there"
                raise ContractError(Code.MISSING_FIELD, reason, f"$.{name}")


def version(table: Table) -> None:
    """`schema_version` is the integer 1; `true` and `1.0` are not."""
    value = table["schema_version"]
    if type(value) is not int or value != 1:
        raise ContractError(Code.WRONG_VALUE, f"must be the integer 1, not {shown(value)}", "$.schema_version")


def word(table: Table, name: str, words: Collection[str]) -> str:
    """One of the given words."""
    value = table[name]
    if type(value) is not str:
        raise _wrong_type(name, "a string", value)
    if value not in words:
        raise ContractError(Code.WRONG_VALUE, f"must be one of {', '.join(words)}, not {shown(value)}", f"$.{name}")
    return value


def text(table: Table, name: str) -> str:
    """A string that says something: not empty, not only white space; it may have several lines."""
    value = table[name]
    if type(value) is not str:
        raise _wrong_type(name, "a string", value)
    if not value or value.isspace():
        raise ContractError(Code.EMPTY, "must not be empty", f"$.{name}")
    return value


def string(table: Table, name: str) -> str:
    """Any string, empty too."""
    value = table[name]
    if type(value) is not str:
        raise _wrong_type(name, "a string", value)
    return value


def null(table: Table, name: str, why: str) -> None:
    """Nothing but null; `why` ends the sentence."""
    if table[name] is not None:
        raise ContractError(Code.NOT_NULL, f"must be null {why}, not {shown(table[name])}", f"$.{name}")


def line(table: Table, name: str) -> str:
    """A title: one line of visible characters."""
    value = text(table, name)
    if bad := invisible(value):
        raise ContractError(Code.INVISIBLE_CHARACTER, f"has {bad}; write one line without it", f"$.{name}")
    return value


def plain(table: Table, name: str) -> str:
    """A line without white space at its ends, as a file's or a branch's name."""
    value = line(table, name)
    if value != value.strip():
        raise ContractError(Code.WHITE_SPACE, "has white space at an end; nothing is trimmed", f"$.{name}")
    return value


def slug(table: Table, name: str) -> str:
    """A card's name that is no synthesis card's."""
    value = table[name]
    if type(value) is not str:
        raise _wrong_type(name, "a string", value)
    if not _slug(value):
        reason = f"{shown(value)} is no slug; use a-z, 0-9 and '-', at most 61 characters, '-' not first"
        raise ContractError(_why(value, Code.SLUG), reason, f"$.{name}")
    if value.endswith(SYNTHESIS_ENDING):
        reason = f"{value!r} ends in {SYNTHESIS_ENDING!r}, which is kept for synthesis cards; choose another"
        raise ContractError(Code.SLUG, reason, f"$.{name}")
    return value


def model(table: Table, name: str) -> str:
    """A model's name."""
    value = table[name]
    if type(value) is not str:
        raise _wrong_type(name, "a string", value)
    if not _model(value):
        raise ContractError(_why(value, Code.PATTERN), f"{shown(value)} is no model name", f"$.{name}")
    return value


def effort(table: Table, name: str) -> str:
    """The word for a reasoning effort; whether a runtime takes it is another question."""
    value = table[name]
    if type(value) is not str:
        raise _wrong_type(name, "a string or null", value)
    if not _effort(value):
        raise ContractError(_why(value, Code.PATTERN), f"{shown(value)} is no reasoning effort", f"$.{name}")
    return value


def commit(table: Table, name: str) -> str:
    """A full hash, SHA-1 or SHA-256, in lower case."""
    value = table[name]
    if type(value) is not str:
        raise _wrong_type(name, "a string", value)
    if not _commit(value):
        raise ContractError(Code.PATTERN, f"{shown(value)} is no full lower-case commit hash", f"$.{name}")
    return value


def branch(table: Table, name: str) -> str:
    """A branch's plain name, as git takes it."""
    value = plain(table, name)
    try:
        return branch_name(value)
    except ValueError as error:
        raise ContractError(Code.PATTERN, f"{shown(value)} {error}", f"$.{name}") from None


def integer(table: Table, name: str, low: int, high: int | None) -> int:
    """An integer between two bounds, both allowed."""
    value = table[name]
    if type(value) is not int:
        raise _wrong_type(name, "an integer", value)
    if value < low or (high is not None and value > high):
        bounds = f"at least {low}" if high is None else f"{low} to {high}"
        raise ContractError(Code.OUT_OF_RANGE, f"must be {bounds}, not {shown(value)}", f"$.{name}")
    return value


def truth(table: Table, name: str) -> bool:
    """true or false."""
    value = table[name]
    if type(value) is not bool:
        raise _wrong_type(name, "true or false", value)
    return value


def items(table: Table, name: str, low: int, high: int | None) -> list[Any]:
    """A list with at least `low` and at most `high` entries."""
    value = table[name]
    if type(value) is not list:
        raise _wrong_type(name, "a list", value)
    if len(value) < low or (high is not None and len(value) > high):
        bounds = f"at least {low}" if high is None else f"{low} to {high}" if low != high else f"{low}"
        raise ContractError(Code.WRONG_COUNT, f"must have {bounds} entries, not {len(value)}", f"$.{name}")
    return value


def texts(table: Table, name: str, low: int, high: int | None) -> tuple[str, ...]:
    """A list of strings that say something."""
    entries = items(table, name, low, high)
    for number, entry in enumerate(entries):
        if type(entry) is not str or not entry or entry.isspace():
            text({f"{name}[{number}]": entry}, f"{name}[{number}]")
    return tuple(entries)


def distinct_texts(table: Table, name: str, low: int, high: int | None) -> tuple[str, ...]:
    """The same, none twice."""
    entries = texts(table, name, low, high)
    if len(entries) > 1:
        unique(entries, name)
    return entries


def paths(table: Table, name: str, low: int, high: int) -> tuple[str, ...]:
    """A write scope: each entry in its one spelling, none twice."""
    entries = items(table, name, low, high)
    normal: list[str] = []
    try:
        for entry in entries:
            if type(entry) is not str:
                raise ContractError(Code.WRONG_TYPE, f"must be a string, not {shown(entry)}")
            normal.append(normalise(entry))
    except ContractError as error:
        raise error.under(f".{name}[{len(normal)}]") from None
    if len(normal) > 1:
        unique(normal, name)
    return tuple(normal)


def each(table: Table, name: str, reader: Callable[[Any], T]) -> Iterator[T]:
    """Every entry of a list, read by `reader`."""
    for number, entry in enumerate(items(table, name, 0, None)):
        try:
            yield reader(entry)
        except ContractError as error:
            raise error.under(f".{name}[{number}]") from None


@dataclass(frozen=True, slots=True)
class Test:
    """A test that a role says it ran."""

    command: str
    result: Literal["passed", "failed"]


_TEST = Fields("command", "result")


def tests(table: Table) -> tuple[Test, ...]:
    """The list `tests`."""
    return tuple(each(table, "tests", _test))


def _test(value: Any) -> Test:
    entry = _TEST.of(value)
    result = cast(Literal["passed", "failed"], word(entry, "result", ("passed", "failed")))
    return Test(text(entry, "command"), result)


def unique(entries: Sequence[str], name: str) -> None:
    """Refuse a list that names something twice."""
    if len(set(entries)) == len(entries):
        return
    seen: set[str] = set()
    for number, entry in enumerate(entries):
        if entry in seen:
            raise ContractError(Code.DUPLICATE, f"names {shown(entry)} again; keep one", f"$.{name}[{number}]")
        seen.add(entry)


def _wrong_type(name: str, wanted: str, value: Any) -> ContractError:
    return ContractError(Code.WRONG_TYPE, f"must be {wanted}, not {shown(value)}", f"$.{name}")


def _why(value: str, otherwise: Code) -> Code:
    """The code for a string that its pattern refuses."""
    if not value:
        return Code.EMPTY
    if invisible(value):
        return Code.INVISIBLE_CHARACTER
    return Code.WHITE_SPACE if value != value.strip() else otherwise
