"""Write scopes: whether two of them can name the same file."""

from __future__ import annotations

from collections.abc import Sequence


def overlaps(a: Sequence[str], b: Sequence[str]) -> bool:
    """Whether a file can lie in both scopes.  What can't be told apart overlaps: a glob reaches as far as the
    literal directories before it."""
    return any(_meets(_literal(one), _literal(two)) for one in a for two in b)


def _literal(path: str) -> list[str]:
    parts: list[str] = []
    for part in path.split("/"):
        if any(letter in part for letter in "*?["):
            break
        if part not in ("", "."):
            parts.append(part)
    return parts


def _meets(a: list[str], b: list[str]) -> bool:
    shared = min(len(a), len(b))
    return a[:shared] == b[:shared]
