"""The .gitignore files of a tree, read as data.

What the tree itself says now decides, as with git: a changed .gitignore is a change like any other, in scope and
under review.  An agent's .git/info/exclude and every configuration count for nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

from pathspec import GitIgnoreSpec


@dataclass(frozen=True)
class Rules:
    """The rules of one directory on top of those above it."""

    spec: GitIgnoreSpec
    directory: str
    above: Rules | None

    def ignored(self, path: str, *, is_dir: bool) -> bool:
        """Whether an untracked path, none of whose parents is ignored, is ignored; the nearest file decides."""
        rules: Rules | None = self
        while rules is not None:
            relative = path[len(rules.directory) :] + ("/" if is_dir else "")
            decision = rules.spec.check_file(relative).include
            if decision is not None:
                return decision
            rules = rules.above
        return False


def parse(text: bytes, directory: str, above: Rules | None) -> Rules:
    """The rules of a .gitignore in `directory` ("" or ending in a slash).  A line that is no pattern is left out."""
    lines = text.removeprefix(b"\xef\xbb\xbf").decode(errors="surrogateescape").split("\n")
    return Rules(_spec([line.removesuffix("\r") for line in lines]), directory, above)


def _spec(lines: list[str]) -> GitIgnoreSpec:
    try:
        return GitIgnoreSpec.from_lines(lines)
    except ValueError:
        return GitIgnoreSpec.from_lines([line for line in lines if _valid(line)])


def _valid(line: str) -> bool:
    try:
        GitIgnoreSpec.from_lines([line])
    except ValueError:
        return False
    return True
