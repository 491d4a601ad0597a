"""Rule `design`: what crosses hosts, or the boundary of the roles, needs a design step in the intent."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence, Set

from intent_board.contracts.clauses import does, left_alone
from intent_board.contracts.passages import Passage

#: Sections whose words say where something is changed; elsewhere only a path does.
_WHERE = frozenset({"", "Ziel", "Umfang"})
_HOST_PATH = re.compile(r"(?<![\w.-])hosts/([a-z0-9][a-z0-9-]*+)/")
_SHARED = "globalservices"
_WORD = re.compile(r"[a-z0-9][a-z0-9-]*+")
_MANY = re.compile(
    r"\b(?:all|both|several|multiple|alle[nr]?|beiden?|mehreren?|sämtlichen?)\s+(?:\w+\s+)?"
    r"(?:hosts?|machines?|rechnern?|maschinen)\b"
)

_PATH = re.compile(r"[\w./-]++")
_AGENT_FILES = (".md", ".json", ".toml", ".yaml", ".yml", ".nix")
_ROLE = r"(?:operator|builder|reviewer|fixer|inspector|planner)"
_SETTING = (
    r"(?:settings?|models?|effort|runtime|permissions?|rights|limits?|texts?|profile|commands|tools"
    r"|einstellung(?:en)?|modells?|rechten?|grenzen?|profils?|befehle|werkzeuge|laufzeit)"
)
_SETTINGS = re.compile(
    rf"\broles\.[a-z]\w*|\bqueues\.(?:operator|review|repair|inspect|split)\b|\ballowed_?commands\b"
    rf"|\b{_ROLE}(?:['’]?s)?[ -](?:new |own |role )?{_SETTING}\b"
    rf"|\b{_SETTING} (?:of|for|des|der|für|vom|von) (?:the |den |die |dem )?{_ROLE}s?\b"
    r"|\b(?:role|rollen)[ -]?(?:texts?|files?|catalog(?:ue)?|settings?)\b"
    r"|\brollen-?(?:texte[sn]?|datei(?:en)?|katalogs?|einstellung(?:en)?)\b"
)
_CHANGES = re.compile(
    r"\b(?:chang\w*|sets?|rais\w*|lower\w*|increas\w*|decreas\w*|adds?|remov\w*|edit\w*|rewrit\w*|updat\w*|extend\w*"
    r"|allow\w*|forbid\w*|gives?|gets?|mov(?:e|es)|renam\w*|replac\w*|switch\w*|änder\w*|geändert|setz\w*|gesetzt|erhöh\w*"
    r"|senk\w*|anpass\w*|angepasst|passe|erweiter\w*|erlaub\w*|verbiet\w*|umstell\w*|stelle|hinzu\w*|entfern\w*|ersetz\w*"
    r"|bekomm\w*|erhalten|erhält|darf|soll)\b"
)

#: What a design step says, in the words of the finding.
_SAID = {
    "the interfaces": re.compile(r"\b(?:interfaces?|schnittstellen?)\b"),
    "who reads": re.compile(r"\b(?:reads?|readers?|reading|liest|lesen|lesend\w*|gelesen|leser)\b"),
    "who writes": re.compile(r"\b(?:writes?|written|writers?|writing|schreib\w*|geschrieben)\b"),
    "who activates": re.compile(r"\b(?:activat\w*|aktivier\w*)\b"),
}


def untold(passages: Sequence[Passage], hosts: Set[str]) -> Iterator[tuple[int, str]]:
    """(line, sentence) where an intent needs a design step and does not have all of it.

    `hosts` are the repository's; others are only known where a path names them.  Naming a role is no boundary crossed.
    """
    missing = _missing(passages)
    if not missing:
        return
    wanted = f"add a design step that says the interfaces and who reads, writes and activates (missing: {missing})"
    touched = touched_hosts(passages, hosts)
    if len(touched) > 1:
        names = ", ".join(sorted(touched)[:5]) + (", …" if len(touched) > 5 else "")
        yield sorted(touched.values())[1], f"several hosts are touched ({names}); {wanted}"
    elif line := _many(passages):
        yield line, f"several hosts are touched; {wanted}"
    if boundary := _boundary(passages):
        line, what = boundary
        yield line, f"{what} belongs to the boundary of the roles; {wanted}"


def touched_hosts(passages: Sequence[Passage], hosts: Set[str]) -> dict[str, int]:
    """The hosts that an intent changes something on, each with the line that first says so."""
    known = {host.lower(): host for host in hosts}
    found: dict[str, int] = {}
    for passage in passages:
        if not does(passage):
            continue
        text = passage.low
        places = [(path.span(1), path[1]) for path in _HOST_PATH.finditer(text)]
        if passage.section in _WHERE and not passage.fenced:
            places += [(word.span(), word[0]) for word in _WORD.finditer(text) if word[0] in known]
        line, counted = passage.line, 0  # counted on, since a passage may name thousands
        for (start, end), name in sorted(places):
            host = known.get(name, name)
            if name != _SHARED and host not in found and not left_alone(text, start, end):
                line, counted = line + text.count("\n", counted, start), start
                found[host] = line
    return found


def _many(passages: Sequence[Passage]) -> int | None:
    for passage in passages:
        if passage.section in _WHERE and not passage.fenced:
            text = passage.low
            for found in _MANY.finditer(text):
                if not left_alone(text, *found.span()):
                    return passage.line_at(found.start())
    return None


def _boundary(passages: Sequence[Passage]) -> tuple[int, str] | None:
    """The first place where an intent reaches into the role catalogue, a role's file, or a role's settings."""
    for passage in passages:
        if not does(passage):
            continue
        text = passage.low
        places = [path for path in _PATH.finditer(text) if _role_file(path[0].rstrip("."))]
        if _CHANGES.search(text) or _CHANGES.search(passage.lead):
            places += _SETTINGS.finditer(text)
        for place in places:
            if not left_alone(text, *place.span()):
                return passage.line_at(place.start()), passage.text[slice(*place.span())].rstrip(".")
    return None


def _role_file(path: str) -> bool:
    """Whether a path is the catalogue, or one where repositories keep what a role is told."""
    *directories, name = path.split("/")
    if "agents" in directories:
        return name.endswith(_AGENT_FILES)
    return name.endswith(".md") and (directories[-1:] == ["roles"] or directories[-2:] == ["roles", "texts"])


def _missing(passages: Sequence[Passage]) -> str:
    """What of a design step is nowhere said; who reads, writes and activates has to be said in one chapter."""
    chapters: dict[int, set[str]] = {}
    for passage in passages:
        if passage.fenced or not does(passage):
            continue
        text = f"{passage.lead} {passage.low}"
        said = {what for what, words in _SAID.items() if words.search(text)}
        chapters.setdefault(passage.chapter, set()).update(said)
    interfaces, *who = _SAID
    best = max(chapters.values(), key=lambda said: len(said & set(who)), default=set())
    missing = [] if any(interfaces in said for said in chapters.values()) else [interfaces]
    return ", ".join([*missing, *(what for what in who if what not in best)])
