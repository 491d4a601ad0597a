"""Rows to values and back.  A row that can't be read names its bad columns instead of failing somewhere later."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, fields
from typing import Any

from intent_board.board.model import Card, Job, JobState, Kind, Phase, Profile, Rung, Status
from intent_board.store.errors import Unreadable
from intent_board.store.tables import cards, jobs

Decoder = Callable[[Any], Any]


def clean(text: str) -> str:
    """The text as SQLite can hold it: a lone surrogate becomes its escape."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def dump(value: Any) -> str:
    """Compact JSON.  ASCII only, so that no text in it can be one that the database refuses."""
    return json.dumps(value, separators=(",", ":"), sort_keys=True, default=_plain)


def _plain(value: Any) -> Any:
    if isinstance(value, Profile | Rung):
        return asdict(value)
    if isinstance(value, frozenset | set):
        return sorted(value)
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} can't be stored")


def text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError("is not text")
    return value


def number(value: Any) -> int:
    if not isinstance(value, int):
        raise ValueError("is not a whole number")
    return value


def real(value: Any) -> float:
    if not isinstance(value, int | float):
        raise ValueError("is not a number")
    return float(value)


def _flag(value: Any) -> bool:
    if number(value) not in (0, 1):
        raise ValueError("is neither yes nor no")
    return bool(value)


def document(value: Any) -> dict[str, Any]:
    """A JSON object."""
    loaded = json.loads(text(value))
    if not isinstance(loaded, dict):
        raise ValueError("is not a JSON object")
    return loaded


def texts(value: Any) -> tuple[str, ...]:
    """A JSON list of texts."""
    loaded = json.loads(text(value))
    if not isinstance(loaded, list):
        raise ValueError("is not a JSON list")
    return tuple(text(item) for item in loaded)


def _profile(value: Any) -> Profile:
    loaded = document(value)
    profile = Profile(**loaded)
    text(profile.runtime), number(profile.iteration_limit)
    return profile


def _ladder(value: Any) -> tuple[Rung, ...]:
    ladder = tuple(Rung(**rung) for rung in json.loads(text(value)))
    for rung in ladder:
        text(rung.model), number(rung.iteration_limit)
    return ladder


def optional(decoder: Decoder) -> Decoder:
    """`decoder`, which also takes NULL."""
    return lambda value: None if value is None else decoder(value)


_CARD: dict[str, Decoder] = {
    "slug": text,
    "title": text,
    "repository": text,
    "requester": text,
    "phase": Phase,
    "status": Status,
    "kind": Kind,
    "parent": optional(text),
    "lane": optional(text),
    "profile": optional(_profile),
    "ladder": optional(_ladder),
    "rung": number,
    "round": number,
    "line": optional(number),
    "wave": optional(number),
    "write_scope": texts,
    "acceptance_criteria": texts,
    "branch": optional(text),
    "base": optional(text),
    "commit": optional(text),
    "reviewed": optional(text),
    "released": optional(text),
    "by_hand": _flag,
    "iterations": optional(number),
    "reason": text,
    "human_action": optional(text),
    "question": optional(text),
    "asked_by": optional(text),
    "publish_rounds": number,
    "repairs": number,
    "automatic_repairs": number,
    "warnings": texts,
}
#: What takes the place of a value that can't be read, so that the parked card itself can be read again.
_MENDED: dict[str, Any] = {
    "title": "(unreadable title)",
    "repository": "",
    "requester": "",
    "rung": 0,
    "round": 1,
    "write_scope": "[]",
    "acceptance_criteria": "[]",
    "by_hand": 0,
    "reason": "",
    "publish_rounds": 0,
    "repairs": 0,
    "automatic_repairs": 0,
    "warnings": "[]",
}
_JSON = {"profile", "ladder", "write_scope", "acceptance_criteria", "warnings"}
#: Fields that other tables hold: dependencies, and the jobs themselves, so that no count can be out of step.
ELSEWHERE = frozenset({"blocked_by", "attempts"})
CARD_FIELDS = frozenset(field.name for field in fields(Card))
#: The columns that `card` decodes, in its order.
CARD_COLUMNS = tuple(cards.c[name] for name in _CARD)

_JOB: dict[str, Decoder] = {
    "id": number,
    "slug": text,
    "role": text,
    "queue": text,
    "attempt": number,
    "round": number,
    "state": JobState,
    "token": number,
    "snapshot": document,
    "interruptions": number,
    "used_iterations": number,
    "not_before": real,
}
_JOB_MENDED: dict[str, Any] = {
    **dict.fromkeys(("id", "attempt", "round", "token"), 0),
    **dict.fromkeys(("slug", "role", "queue"), "(unreadable)"),
    "state": JobState.CANCELLED,
    "snapshot": {},
}
#: The columns that `job` decodes, in its order.
JOB_COLUMNS = tuple(jobs.c[name] for name in _JOB)


def _decode(decoders: Mapping[str, Decoder], row: Sequence[Any]) -> tuple[dict[str, Any], dict[str, str]]:
    values: dict[str, Any] = {}
    faults: dict[str, str] = {}
    for (name, decoder), value in zip(decoders.items(), row, strict=True):
        try:
            values[name] = decoder(value)
        # Whatever a column holds, it must end as that column's fault: RecursionError is JSON nested too deep.
        except (ValueError, TypeError, AttributeError, KeyError, RecursionError):
            faults[name] = repr(value)[:500]
    return values, faults


def card(row: Sequence[Any], blocked_by: tuple[str, ...], attempts: Mapping[str, int]) -> Card:
    """A card from its CARD_COLUMNS and what other tables hold of it.  Raises Unreadable."""
    values, faults = _decode(_CARD, row)
    if faults:
        raise Unreadable(str(row[0]), faults)
    return Card(**values, blocked_by=blocked_by, attempts=attempts)


def job(row: Sequence[Any]) -> Job:
    """A job from its JOB_COLUMNS.  Raises Unreadable."""
    values, faults = _decode(_JOB, row)
    if faults:
        raise Unreadable(str(row[1]), faults)
    return Job(**values)


def job_as_far_as_readable(row: Sequence[Any]) -> tuple[Job, str]:
    """A job for somebody who only looks, and what of it is unreadable ("" for nothing)."""
    values, faults = _decode(_JOB, row)
    job = Job(**{**_JOB_MENDED, **values})
    return job, f"unreadable in {', '.join(sorted(faults))}" if faults else ""


def encode(values: Mapping[str, Any]) -> dict[str, Any]:
    """Fields of a card as its columns hold them; those of ELSEWHERE are left out."""
    encoded: dict[str, Any] = {}
    for name, value in values.items():
        if name in ELSEWHERE:
            continue
        if name in _JSON and value is not None:
            value = dump(value)
        elif isinstance(value, Phase | Status | Kind):
            value = value.value
        elif isinstance(value, str):
            value = clean(value)
        elif isinstance(value, bool):
            value = int(value)
        encoded[name] = value
    return encoded


def as_fields(value: Card) -> dict[str, Any]:
    """A card's fields without copying what they hold."""
    return {field.name: getattr(value, field.name) for field in fields(value)}


def mended(columns: Mapping[str, str]) -> dict[str, Any]:
    """Readable values for these columns of a card."""
    return {name: _MENDED.get(name) for name in columns if name not in {"slug", "phase", "status", "kind"}}
