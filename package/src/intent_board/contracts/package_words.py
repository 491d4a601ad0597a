"""Rule `package-lists`: where a package that is added or removed stands in several lists, the meant ones are named."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from intent_board.contracts import scope
from intent_board.contracts.clauses import does, left_alone
from intent_board.contracts.design import touched_hosts
from intent_board.contracts.package_lists import GLOBAL, PackageLists, host_of
from intent_board.contracts.passages import Passage

_CHANGES = re.compile(
    r"\b(?:add(?:s|ed|ing)?|remov\w*|delet\w*|drop(?:s|ped|ping)?|(?:un)?install\w*|includ\w*|mov(?:e|es|ed|ing)|replac\w*"
    r"|deinstall\w*|entfern\w*|lösch\w*|gelöscht\w*|streich\w*|gestrichen\w*|hinzu\w*|füg\w*|ergänz\w*|aufnehm\w*"
    r"|aufgenommen\w*|nimm\w*|ersetz\w*|verschieb\w*|verschoben\w*|entfall\w*|entfällt|wegfall\w*|raus\w*|heraus\w*"
    r"|tak(?:e|es|en|ing)|put|purg\w*|get rid|available|verfügbar\w*|weg|bekomm\w*|fehl(?:t|en)|nicht mehr|no longer)\b"
)
_LISTS = re.compile(r"\bsystempackages\b|\bpackages\.nix\b")
_PACKAGE = re.compile(r"systempackages|packages?\b|\bpaket\w*|\bprogram\w*|\btools?\b|\bwerkzeug\w*|install")
_WORD = re.compile(r"[a-z0-9_][\w.+'’-]*+")
_PATH = re.compile(r"[\w.*?/-]++")
_COMPOUND = re.compile(r"-(?:pakets?|packages?)$|['’]s$")
#: A word in these is meant as a name, so that `file` or `time` is no longer an ordinary word.
_QUOTES = frozenset("`\"'„“”»«")
#: Globs are compared with every list, so only so many are looked at.
_MAX_GLOBS = 20


def unnamed(passages: Sequence[Passage], lists: PackageLists) -> Iterator[tuple[int, str]]:
    """(line, sentence) for each package whose lists an intent leaves open."""
    several = _in_several(lists, touched_hosts(passages, lists.hosts))
    if not several:
        return
    sure = any(_LISTS.search(passage.low) for passage in passages)
    named = _named({path for paths in several.values() for path in paths}, passages)
    told: set[str] = set()
    # A line of the body says more than the title, which often says the same.
    for passage in sorted(passages, key=lambda passage: passage.line == 1):
        for name, offset in _changed(passage, several, sure=sure) if does(passage) else ():
            if name not in told and named.isdisjoint(several[name]):
                paths = several[name]
                told.add(name)
                shown = ", ".join(paths[:4]) + (f" and {len(paths) - 4} more" if len(paths) > 4 else "")
                said = (
                    f"{name} stands in {len(paths)} package lists ({shown}); name those that are meant by their paths"
                )
                yield passage.line_at(offset), said


def _in_several(lists: PackageLists, touched: Mapping[str, int]) -> dict[str, tuple[str, ...]]:
    """The packages in more than one list that matters: any, or the touched hosts' own and the global one."""
    wanted = {GLOBAL, *touched}
    relevant = {
        name: tuple(path for path in paths if not touched or host_of(path) in wanted)
        for name, paths in lists.packages.items()
    }
    return {name: paths for name, paths in relevant.items() if len(paths) > 1}


def _changed(passage: Passage, names: Mapping[str, object], *, sure: bool) -> Iterator[tuple[str, int]]:
    """The packages that a passage adds or removes, with their offsets.

    `sure`: the document speaks of package lists, so a bare name is a package.  Else the passage itself has to.
    """
    text, lead = passage.low, passage.lead
    # "`htop` in `environment.systemPackages`" is an order also without a verb.
    changes = bool(_LISTS.search(text) or _CHANGES.search(text) or _CHANGES.search(lead))
    sure = sure or bool(_PACKAGE.search(text) or _PACKAGE.search(lead))
    for word in _WORD.finditer(text):
        start, end = word.span()
        if "/" in (text[start - 1 : start], text[end : end + 1]) or text[start - 1 : start] in {".", "-", "@", "\\"}:
            continue  # part of a path, an option, an address
        written = word[0].rstrip(".'’-")
        name = _COMPOUND.sub("", written).removeprefix("pkgs.")
        if name not in names or not (sure or text[start - 1 : start] in _QUOTES or written.startswith("pkgs.")):
            continue
        if (changes or (passage.fenced and _in_diff(text, start))) and not left_alone(text, start, start + len(name)):
            yield name, start


def _in_diff(text: str, offset: int) -> bool:
    """Whether the line around an offset is one of a diff that adds or removes."""
    begin = text.rfind("\n", max(0, offset - 200), offset) + 1
    return text[begin : begin + 1] in {"+", "-"}


def _named(paths: set[str], passages: Sequence[Passage]) -> set[str]:
    """Which lists the document names: by the path, an end of it that no other list has, or a glob."""
    ends: dict[str, list[str]] = {}
    for path in paths:
        parts = path.split("/")
        for index in range(len(parts) - 1):
            ends.setdefault("/".join(parts[index:]), []).append(path)
    named: set[str] = set()
    globs: set[str] = set()
    for passage in passages:
        for found in _PATH.finditer(passage.text):
            token = found[0].rstrip(".").removeprefix("./")
            if "/" not in token or ("packages" not in token and "*" not in token):
                continue
            if "*" in token or "?" in token:
                globs.add(token)
            # Somebody may write where the checkout lies, /etc/nixos/hosts/….
            whole = "hosts/" + token.rpartition("/hosts/")[2] if "/hosts/" in token else token
            if len(meant := ends.get(whole, [])) == 1 or whole in paths:
                named |= {whole} if whole in paths else set(meant)
    patterns = [glob for glob in sorted(globs)[:_MAX_GLOBS] if not glob.startswith("/") and ".." not in glob]
    return named | {path for path in paths for glob in patterns if scope.matches((glob,), path)}
