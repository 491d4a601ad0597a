"""Write scopes: which repository paths a card may write, and whether two cards could write the same one.

A scope is a list of relative paths or globs.  An entry names paths, and a directory that is named covers everything
below it; `.` is everything.  In a segment `*` is any text, `?` one character, `[..]` one of a set; a segment `**` is
any number of directories.  Two questions are asked of a scope, `matches` (the proof on a diff) and `overlaps` (leases,
and the children of a split), and one reading of the globs answers both: when both scopes match a path, they overlap.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache

from intent_board.config import invisible
from intent_board.contracts.errors import Code, ContractError, shown

#: Linux's own limits for a path and a name; nothing longer can be checked out.
MAX_PATH, MAX_NAME = 4096, 255
#: Steps that one question about overlap may take.  Beyond them scopes count as not told apart, so they overlap.
_MAX_STEPS = 2_000_000

# Most entries look like this and need no closer look: no dot first, no end in '/', nothing empty.
_clean = re.compile(r"[\w*?+@=,-][\w*?+@=,.-]*(?:/[\w*?+@=,-][\w*?+@=,.-]*)*", re.ASCII).fullmatch
_wild = re.compile(r"[*?[]").search
# The directories before the first segment with a wildcard.
_directories = re.compile(r"(?:[^*?[/]+/)*").match


def normalise(path: str) -> str:
    """One entry of a scope in its one spelling: `./a`, `a//b` and `a/` become `a`, `a/b` and `a`.

    Raises ContractError for what is no relative POSIX path or glob inside the work tree (docs/contracts.md).
    """
    short = path.removesuffix("/")
    if len(short) <= MAX_NAME and _clean(short):
        return short
    _check_text(path)
    segments = [segment for segment in path.split("/") if segment not in {"", "."}]
    for segment in segments:
        if segment == "..":
            raise ContractError(Code.PATH, f"{shown(path)} has '..'; name the path from the repository's root")
        if segment.casefold() == ".git":
            raise ContractError(Code.PATH, f"{shown(path)} is inside .git; name files of the work tree")
        if len(segment.encode()) > MAX_NAME:
            raise ContractError(Code.PATH, f"{shown(path)} has a name of more than {MAX_NAME} bytes")
    plain = "/".join(segments)
    if plain.startswith("~"):
        raise ContractError(Code.PATH, f"{shown(path)} begins with '~'; name the path from the repository's root")
    return plain or "."


def _check_text(path: str) -> None:
    if not path:
        raise ContractError(Code.EMPTY, "must not be empty; '.' is the whole repository")
    if bad := invisible(path):
        raise ContractError(Code.INVISIBLE_CHARACTER, f"has {bad}; write the path without it")
    if path != path.strip():
        raise ContractError(Code.WHITE_SPACE, f"{shown(path)} has white space at an end; nothing is trimmed")
    if "\\" in path:
        raise ContractError(Code.PATH, f"{shown(path)} has a backslash; separate directories with '/'")
    if path.startswith("/"):
        raise ContractError(Code.PATH, f"{shown(path)} is absolute; name the path from the repository's root")
    if len(path.encode(errors="replace")) > MAX_PATH:
        raise ContractError(Code.PATH, f"is longer than {MAX_PATH} bytes")


# --- segments ---------------------------------------------------------------------------------------------------

# One place of a segment: None is `*`, else the ranges of the characters that may stand there.
_Place = tuple[tuple[int, int], ...] | None
_ANY: _Place = ((0, ord("/") - 1), (ord("/") + 1, 0x10FFFF))


@lru_cache(maxsize=2048)
def _places(segment: str) -> tuple[_Place, ...]:
    places: list[_Place] = []
    position = 0
    while position < len(segment):
        character = segment[position]
        position += 1
        if character == "*":
            if not places or places[-1] is not None:
                places.append(None)
        elif character == "?":
            places.append(_ANY)
        elif (
            character == "["
            and (close := segment.find("]", position + 1 + (segment[position : position + 1] in set("!^")))) > 0
        ):
            places.append(_set(segment[position:close]))
            position = close + 1
        else:
            places.append(((ord(character), ord(character)),))
    return tuple(places)


def _set(inner: str) -> _Place:
    """The ranges of `[inner]`; never the slash."""
    negated = inner[0] in "!^"
    ranges: list[tuple[int, int]] = []
    position = int(negated)
    while position < len(inner):
        low = high = ord(inner[position])
        position += 1
        if inner[position : position + 1] == "-" and position + 1 < len(inner):
            high = ord(inner[position + 1])
            position += 2
        ranges.append((low, high))
    if negated:
        ranges = list(_complement(ranges))
    slash = ord("/")
    split = [part for low, high in ranges for part in ((low, min(high, slash - 1)), (max(low, slash + 1), high))]
    return tuple((low, high) for low, high in split if low <= high)


def _complement(ranges: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    start = 0
    for low, high in sorted(entry for entry in ranges if entry[0] <= entry[1]):
        if low > start:
            yield start, low - 1
        start = max(start, high + 1)
    if start <= 0x10FFFF:
        yield start, 0x10FFFF


@lru_cache(maxsize=2048)
def _name(segment: str) -> re.Pattern[str]:
    """A segment as a regular expression for a whole name.

    What stands between two stars is taken at its first place and kept (an atomic group), as a later one can't help:
    so no name and no glob takes more than quadratic time.
    """
    chunks: list[str] = [""]
    for place in _places(segment):
        if place is None:
            chunks.append("")
        else:
            chunks[-1] += (
                f"[{''.join(f'{_spelled(low)}-{_spelled(high)}' for low, high in place)}]" if place else r"(?!)"
            )
    first, *rest = chunks
    if not rest:
        return re.compile(first)
    middle = "".join(f"(?>[^/]*?{chunk})" for chunk in rest[:-1])
    return re.compile(f"{first}{middle}[^/]*{rest[-1]}")


def _spelled(number: int) -> str:
    return f"\\U{number:08x}"


@lru_cache(maxsize=2048)
def _meet(left: str, right: str) -> bool:
    """Whether one name can fit both segments: they are walked together, and row[n] says that what was read of `left`
    and the first n places of `right` can still be the same text."""
    if left == right:
        return True
    across = _places(right)
    row = [True]
    for place in across:
        row.append(row[-1] and place is None)
    for down in _places(left):
        above, row = row, [down is None and row[0]]
        for column, place in enumerate(across):
            if down is None or place is None:  # a star takes nothing, or one more place of the other side
                row.append(above[column + 1] or row[column])
            else:
                row.append(above[column] and _common(down, place))
    return row[-1]


def _common(left: tuple[tuple[int, int], ...], right: tuple[tuple[int, int], ...]) -> bool:
    return any(low <= top and bottom <= high for low, high in left for bottom, top in right)


# --- matches ------------------------------------------------------------------------------------------------------


def matches(scope: Sequence[str], path: str) -> bool:
    """Whether a path of the repository, as git spells it, is inside the scope.

    An empty scope and an entry that `normalise` refuses name nothing; nothing is ever inside `.git`.
    """
    segments = path.split("/")
    if any(segment in {"", ".", ".."} or segment.casefold() == ".git" for segment in segments):
        return False
    everything, literals, globs = _matcher(tuple(scope))
    if everything or path in literals:
        return True
    if literals and any("/".join(segments[:depth]) in literals for depth in range(1, len(segments))):
        return True
    return any(_covers(chunks, segments) for chunks in globs)


@lru_cache(maxsize=512)
def _matcher(scope: tuple[str, ...]) -> tuple[bool, frozenset[str], tuple[list[list[str]], ...]]:
    entries = [entry for entry in map(_entry, scope) if entry is not None]
    literals = frozenset(entry for entry in entries if not _wild(entry))
    return "." in literals, literals, tuple(_chunks(entry) for entry in entries if entry not in literals)


def _entry(path: str) -> str | None:
    """A stored entry in its one spelling; None for one that was never accepted."""
    try:
        return normalise(path)
    except ContractError:
        return None


def _chunks(entry: str) -> list[list[str]]:
    """The runs of segments between the entry's `**`; the first begins at the root."""
    chunks: list[list[str]] = [[]]
    for segment in entry.split("/"):
        if segment == "**":
            chunks.append([])
        else:
            chunks[-1].append(segment)
    return chunks


def _covers(chunks: list[list[str]], segments: list[str]) -> bool:
    """Whether the glob names the path or a directory above it.

    Each run after a `**` is taken at its first place, as a later one leaves less for the rest.
    """
    position = 0
    for number, chunk in enumerate(chunks):
        last = len(segments) - len(chunk)
        starts = range(position, last + 1) if number else range(min(1, last + 1))
        found = next((start for start in starts if _fits(chunk, segments, start)), None)
        if found is None:
            return False
        position = found + len(chunk)
    # `a/**` names what is below `a`, and not `a` itself.
    return bool(chunks[-1]) or position < len(segments)


def _fits(chunk: list[str], segments: list[str], start: int) -> bool:
    return all(
        segment == name or (_wild(segment) is not None and _name(segment).fullmatch(name) is not None)
        for segment, name in zip(chunk, segments[start : start + len(chunk)], strict=True)
    )


# --- overlaps -----------------------------------------------------------------------------------------------------


def overlaps(a: Sequence[str], b: Sequence[str]) -> bool:
    """Whether two scopes can name the same file.

    What can't be told apart overlaps: a scope without entries and an entry that `normalise` refuses count as
    everything.
    """
    return _overlaps(tuple(a), tuple(b))


@lru_cache(maxsize=4096)
def _overlaps(a: tuple[str, ...], b: tuple[str, ...]) -> bool:
    scopes = [[_entry(path) or "." for path in scope] or ["."] for scope in (a, b)]
    return first_overlap(scopes, (0b10, 0b01)) is not None


def first_overlap(scopes: Sequence[Sequence[str]], apart: Sequence[int]) -> tuple[int, int] | None:
    """The first two of several scopes that overlap although they must not.

    The entries are normalised.  `apart[n]` has a bit for each scope that scope n must not overlap.
    """
    if not _near(scopes, apart):
        return None
    tree = _Tree()
    for owner, scope in enumerate(scopes):
        for entry in scope:
            if found := tree.owners(_stem(entry)) & apart[owner] & ((1 << owner) - 1):
                return (found & -found).bit_length() - 1, owner
        for entry in scope:
            tree.add(_stem(entry), 1 << owner)
    return None


def _near(scopes: Sequence[Sequence[str]], apart: Sequence[int]) -> bool:
    """Whether any two scopes that must be apart come into each other's directories; globs count as all below their
    literal beginning.  In sorted order everything below a directory follows it directly."""
    bases = sorted([(_base(entry), owner) for owner, scope in enumerate(scopes) for entry in scope])
    above: list[tuple[str, int]] = []
    for base, owner in bases:
        while above and not base.startswith(above[-1][0]):
            above.pop()
        owners = above[-1][1] if above else 0
        if owners & apart[owner]:
            return True
        above.append((base, owners | 1 << owner))
    return False


def _base(entry: str) -> str:
    """The directory that an entry is, or lies in; with a slash at its end, the root being empty."""
    if "*" in entry or "?" in entry or "[" in entry:
        directories = _directories(entry)
        return directories[0] if directories else ""
    return "" if entry == "." else entry + "/"


@lru_cache(maxsize=2048)
def _stem(entry: str) -> tuple[str, ...]:
    """The segments of an entry up to its first `**`.

    Below a `**` any path can be continued to fit both entries, as a named directory covers everything below it.  In a
    segment with other text `**` is a `*` for `matches`; whoever wrote it may have meant more, so here it is `**`.
    """
    if entry == ".":
        return ()
    segments = entry.split("/")
    for number, segment in enumerate(segments):
        if "**" in segment:
            begin = segment[: segment.index("**")]
            return tuple(segments[:number]) + ((f"{begin}*",) if begin else ())
    return tuple(segments)


class _Node:
    """A segment of the tree: the scopes that end here, those that end here or below, and what follows."""

    __slots__ = ("below", "ends", "globs", "literals")

    def __init__(self) -> None:
        self.ends = self.below = 0
        self.literals: dict[str, _Node] = {}
        self.globs: dict[str, _Node] = {}


class _Tree:
    """The entries of many scopes by their segments; a set of scopes is a number with a bit for each."""

    def __init__(self) -> None:
        self.root = _Node()
        self.steps = 0

    def add(self, stem: tuple[str, ...], owner: int) -> None:
        node = self.root
        node.below |= owner
        for segment in stem:
            children = node.globs if _wild(segment) else node.literals
            node = children.get(segment) or children.setdefault(segment, _Node())
            node.below |= owner
        node.ends |= owner

    def owners(self, stem: tuple[str, ...]) -> int:
        """The scopes with an entry that can name a path of this one; all of them once the steps are used up."""
        found, nodes = 0, [self.root]
        for segment in stem:
            for node in nodes:
                found |= node.ends
            nodes = [child for node in nodes for child in self._fitting(node, segment)]
            if self.steps > _MAX_STEPS:
                return -1
        for node in nodes:
            found |= node.below
        return found

    def _fitting(self, node: _Node, segment: str) -> list[_Node]:
        """The children of a node that can be the same name as the segment."""
        self.steps += len(node.globs) + 1
        if not _wild(segment):
            fitting = [child for glob, child in node.globs.items() if self._is(glob, segment)]
            return [*fitting, node.literals[segment]] if segment in node.literals else fitting
        self.steps += len(node.literals)
        fitting = [child for name, child in node.literals.items() if self._is(segment, name)]
        return fitting + [child for glob, child in node.globs.items() if self._both(glob, segment)]

    def _is(self, glob: str, name: str) -> bool:
        self.steps += len(glob) * len(name) // 64
        return _name(glob).fullmatch(name) is not None

    def _both(self, left: str, right: str) -> bool:
        if _unlike(left, right):
            return False
        self.steps += len(left) * len(right) // 4
        return _meet(left, right)


def _unlike(left: str, right: str) -> bool:
    """Whether the literal beginnings or ends of two globs already differ; most pairs need no closer look."""
    (begin, end), (other_begin, other_end) = _affixes(left), _affixes(right)
    return not (
        (begin.startswith(other_begin) or other_begin.startswith(begin))
        and (end.endswith(other_end) or other_end.endswith(end))
    )


@lru_cache(maxsize=2048)
def _affixes(segment: str) -> tuple[str, str]:
    begin = re.match(r"[^*?[]*", segment)
    end = re.search(r"[^*?\[\]]*\Z", segment)
    assert begin and end, "both match the empty text"
    return begin[0], end[0]
