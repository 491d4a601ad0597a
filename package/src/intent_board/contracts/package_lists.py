"""Which packages stand in which package lists of a repository: a light reading of Nix, without evaluating it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

#: The directory below `hosts/` that no host has to itself.
GLOBAL = "globalServices"
#: A list is `hosts/<host>/…/packages.nix`, or `hosts/globalServices/packages.nix` for all hosts.
_LIST = re.compile(r"hosts/(?:[^/]+/)+packages\.nix")
#: A repository has a handful; more than this many are no package lists.
MAX_LISTS = 2000

# Possessive or bounded, so that no text makes the search go back or look far ahead again and again.
_TOKEN = re.compile(
    r"#[^\n]*+"
    r"|/\*(?:[^*]|\*(?!/))*+(?:\*/|\Z)"
    r'|"(?:[^"\\]|\\.)*+(?:"|\\?\Z)'
    r"|''(?:[^']|''[$'\\]|'(?!'))*+(?:''|'?\Z)"
    r"|(?:~|[\w.+-]{0,64}+)/[\w./+-]++"
    r"|(?P<name>[A-Za-z_][\w'-]*+(?:\.[A-Za-z_][\w'-]*+)*+)"
    r"|(?P<sign>[][(){};=])",
    re.DOTALL,
)
#: Attributes that change a package rather than name one: the package stands before them.
_CHANGES = frozenset({"override", "overrideAttrs", "overridePythonAttrs", "withPackages", "withPlugins", "callPackage"})


@dataclass(frozen=True, slots=True)
class PackageLists:
    """What a repository says: its hosts, and for each package (in lower case) the lists that it stands in, sorted."""

    hosts: frozenset[str] = frozenset()
    packages: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def survey(paths: Iterable[str], read: Callable[[tuple[str, ...]], Mapping[str, str]]) -> PackageLists:
    """Find every package list among the paths of a tree and what stands in it.

    `read` is asked once, for the texts of those lists; what it leaves out counts as empty.
    """
    hosts, lists = set(), []
    for path in paths:
        first, _, rest = path.partition("/")
        host, below, _ = rest.partition("/")
        if first == "hosts" and below and host != GLOBAL:
            hosts.add(host)
        if _LIST.fullmatch(path):
            lists.append(path)
    found: dict[str, set[str]] = {}
    for path, text in read(tuple(sorted(lists)[:MAX_LISTS])).items():
        for name in packages(text):
            found.setdefault(name.lower(), set()).add(path)
    return PackageLists(frozenset(hosts), {name: tuple(sorted(where)) for name, where in found.items()})


def host_of(path: str) -> str:
    """The host of a package list, GLOBAL for the one of all hosts."""
    return path.split("/", 2)[1]


def packages(nix: str) -> frozenset[str]:
    """The packages in a file: those of `systemPackages`, or of every list in a file that has no such attribute.

    A package in a longer path (`pkgs.kdePackages.kate`) is known by its last name and by the whole path.
    """
    return frozenset(name for written in _Nix(nix).written() for name in _names(written))


def _names(written: str) -> Iterator[str]:
    parts = written.split(".")
    parts = parts[1:] if parts[0] == "pkgs" else parts
    changed = next((index for index, part in enumerate(parts) if part in _CHANGES), len(parts))
    if parts := parts[:changed]:
        yield parts[-1]
        yield ".".join(parts)


class _Nix:
    """The state between two tokens of a Nix file."""

    def __init__(self, text: str) -> None:
        self._tokens = [token for token in _TOKEN.finditer(text) if token.lastgroup]
        self._only = any(_assigned(token["name"]) for token in self._tokens)
        self._depth: list[str] = []
        self._lists = 0  # how many of `_depth` are lists
        self._bound: list[int] = []  # the depths at which an assignment to systemPackages began
        self._until: int | None = None  # the depth of a `with`, whose `;` ends no assignment

    def written(self) -> Iterator[str]:
        """Each name that stands in a list, or in parentheses in one: `(lib.hiPrio vim)`."""
        last = ""
        for token in self._tokens:
            name, sign = token["name"], token["sign"]
            if not name:
                self._sign(sign, last)
            elif name in {"with", "assert", "inherit"}:
                self._until = len(self._depth) if self._until is None else self._until
            elif self._lists == 1 and (self._bound or not self._only) and self._in_list():
                yield name
            last = name or ""

    def _in_list(self) -> bool:
        return self._depth[-1] == "[" or self._depth[-2:] == ["[", "("]

    def _sign(self, sign: str, last: str) -> None:
        if sign in "[({":
            self._depth.append(sign)
            self._lists += sign == "["
        elif sign in "])}":
            self._lists -= bool(self._depth) and self._depth.pop() == "["
            while self._bound and self._bound[-1] > len(self._depth):
                self._bound.pop()
            if self._until is not None and self._until > len(self._depth):
                self._until = None
        elif sign == "=" and _assigned(last):
            self._bound.append(len(self._depth))
        elif sign == ";" and self._until == len(self._depth):
            self._until = None
        elif sign == ";" and self._bound and self._bound[-1] == len(self._depth):
            self._bound.pop()


def _assigned(name: str | None) -> bool:
    return name is not None and name.rpartition(".")[2] == "systemPackages"
