"""What a change may touch, and what it must not carry."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

from intent_board.contracts.scope import matches
from intent_board.workspace.errors import WorkspaceError
from intent_board.workspace.names import shown

#: Shorter values would be found by accident.
MIN_SECRET = 8
_KEY = re.compile(rb"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----|AGE-SECRET-KEY-|PuTTY-User-Key-File-")


def prove_scope(paths: Iterable[bytes], scope: Sequence[str]) -> None:
    """Raises WorkspaceError (check_failed) with every path that no entry of the write scope names."""
    outside = tuple(shown(path) for path in paths if not matches(scope, shown(path)))
    if outside:
        raise WorkspaceError(
            "check_failed",
            f"{len(outside)} changed path(s) lie outside the write scope, first {outside[0]}; widen it or undo them",
            outside,
        )


def prove_no_secret(
    old: Callable[[Iterable[bytes]], Mapping[bytes, bytes]],
    new: Mapping[bytes, bytes],
    message: bytes,
    forbidden: Iterable[str],
) -> None:
    """Raises WorkspaceError (check_failed) with the paths whose change adds a private key or one of our credentials.

    `new` has the content of changed files by path, links' targets included; `old` gives, for some of these paths, what
    was there before.  The values themselves are in no message.
    """
    values = list(_pieces(forbidden))
    suspicious = [path for path, text in new.items() if _KEY.search(text) or _holds(text, values)]
    before = old(suspicious) if suspicious else {}
    found = [
        f"{shown(path)}: {what}" for path in suspicious for what in _added(before.get(path, b""), new[path], values)
    ]
    found += [f"{shown(path)}: its name holds a credential of the board" for path in new if _holds(path, values)]
    if _holds(message, values):
        found.append("the commit message: a credential of the board")
    if found:
        raise WorkspaceError(
            "check_failed", f"the change carries a secret, {found[0]}; remove it and use a new one", tuple(found)
        )


def _added(old: bytes, new: bytes, values: list[bytes]) -> Iterable[str]:
    if Counter(_key_lines(new)) - Counter(_key_lines(old)):
        yield "a private key"
    if any(new.count(value) > old.count(value) for value in values):
        yield "a credential of the board"


def _key_lines(text: bytes) -> Iterable[bytes]:
    return (line for line in text.split(b"\n") if _KEY.search(line))


def _holds(text: bytes, values: list[bytes]) -> bool:
    return any(value in text for value in values)


def _pieces(forbidden: Iterable[str]) -> Iterable[bytes]:
    """Each value whole and, of a value with several lines, each line by itself but comments."""
    for value in forbidden:
        lines = (line.strip() for line in value.splitlines())
        pieces = {value.strip(), *(line for line in lines if not line.startswith("#"))}
        yield from (piece.encode() for piece in pieces if len(piece) >= MIN_SECRET)
