"""The module's types and the program's models judge alike: many values on both sides of every bound, in one go.

A value that Nix takes and the program refuses would end the build of a host, or fail when a service starts.  The
opposite is only allowed where STRICTER has the reason.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin

import pytest
from option_keys import camel, fields
from pydantic import TypeAdapter, ValidationError

from intent_board import config

#: What a Nix string can't hold is left out: U+0000 and halves of surrogate pairs.
WORDS = """
    lukas codex gpt-5.6-luna moonshotai/kimi-k2-thinking cohere/north-mini-code:free none xhigh A a 0 _
    a_b _a a-b a- -a --a a.b .a a. a..b .. . a/b /a a/ a//b /a/b /a/ //a /a//b /a/../b /a/.. /a/./b ../a
    a/../b a/./b ./a / // a/.b a/b. a.lock a.lock/b lock .lock @ HEAD head @{ a@{b a@b refs/heads/main
    refs refs/ a~b ~ ~root ~/a a^b a:b a::b ext::a a?b a*b *.nix a[b a]b a\\b \\ a;b a&b a|b a$b $A a`b
    a<b a>b a(b a{b a!b a#b a'b a"b a,b a=b A=b --a=b %n a%b 100% %% .git a/.git .git/a a/.git/b
    .gitignore hosts/ /srv/%H /srv/a,b /srv/a:b blunix.example.org blunix- -blunix BLUNIX 22:00-06:00
    22:00-24:00 2:00-06:00 22:00-06:60 00:00-00:00 23:59-23:59 22:00-06:000 22:00 required when_available
    review owner commit in_umsetzung in_umsetzung_leicht bereit_fuer_deployment openrouter claude command
    operator builder needs_human lunch sqlite:////a sqlite:////a/b.sqlite3 sqlite:////a%20b sqlite:///a
    sqlite:// sqlite://// postgresql://a https://a/b.git ssh://git@a/b.git git@a:b.git file:///a ä ßß
    ＡＢ ２２:００-０６:００ 2２:0０-0６:0０ K é日本 a/ü 𝒜 🙂 a🙂
"""
#: Characters that end a line, look like another one or like none, and what Python takes for space.
ODD = [
    *(
        chr(code)
        for code in (*range(0x01, 0x21), *range(0x7F, 0xA2), 0xAD, 0xAE, 0x034E, 0x034F, 0x0350, 0x061C, 0x115E)
    ),
    *(chr(code) for code in (0x115F, 0x1160, 0x1161, 0x1680, 0x17B3, 0x17B4, 0x17B5, 0x17B6, *range(0x180A, 0x1811))),
    *(chr(code) for code in (*range(0x1FFF, 0x2012), *range(0x2027, 0x2031), *range(0x205E, 0x2071), 0x3000, 0x3001)),
    *(chr(code) for code in (0x3163, 0x3164, 0x3165, 0xFDFF, *range(0xFE00, 0xFE11), 0xFEFE, 0xFEFF, 0xFF00, 0xFF9F)),
    *(
        chr(code)
        for code in (0xFFA0, 0xFFA1, *range(0xFFEF, 0xFFFE), *range(0x1BC9F, 0x1BCA5), *range(0x1D172, 0x1D17C))
    ),
    *(chr(code) for code in (0xDFFFF, 0xE0000, 0xE0001, 0xE0041, 0xE0FFF, 0xE1000, 0x10FFFF)),
]
LENGTHS = (30, 31, 32, 60, 61, 62, 63, 64, 126, 127, 128, 129, 1024, 4095, 4096, 4097)
TEXTS = [
    "",
    *WORDS.split(),
    *(f"{word} {word}" for word in ("git", "a", "-a", "A=b")),
    *("git  log", " a", "a ", "a\n", "\na", "a b=c", "nix flake check"),
    *(f"a{odd}b" for odd in ODD),
    *(f"a{odd}" for odd in ODD),
    *(f"{odd}a" for odd in ODD),
    *(f"/a{odd}b" for odd in ODD),
    *(sign * length for length in LENGTHS for sign in ("a", "A", "ä", "/a", "a/", "a ")),
    *("sqlite:////" + "a" * length for length in LENGTHS),
]
NUMBERS: list[Any] = [*range(-1, 66), 900, 1439, 1440, 1441, 3599, 3600, 3601, 86399, 86400, 86401, 2**31, 2**63 - 1]
SCALARS = [*TEXTS, *NUMBERS, 20.0, 0.5, True, False]

#: Where the module refuses what the program takes, why, and a word that a value so refused must fit.
STRICTER: dict[str, tuple[str, Callable[[Any], bool]]] = {
    **{
        key: ("the path stands in units and in tmpfiles, where % and spaces act", lambda value: not _is_plain(value))
        for key in ("board.state_dir", "board.intent_dir", "board.database")
    },
    "repositories.*.remote_url": (
        "git would take it for an option; the program says so when it looks at the table",
        lambda value: config._wrong_remote(value) is not None,
    ),
    "runtimes.*.environment": (
        "one line of visible characters, as everything that an option holds",
        lambda value: any(not _fits(config.Line, text) for text in value.values()),
    ),
}


def _is_plain(text: str) -> bool:
    path = text.removeprefix("sqlite:///")
    plain = path.isascii() and path.replace("/", "").translate({ord(c): "a" for c in "._+@=,-"}).isalnum()
    return plain and "//" not in path and not path.endswith("/") and not {".", ".."} & set(path.split("/"))


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def _fits(kind: Any, value: Any) -> bool:
    try:
        _adapter(kind).validate_python(value)
    except ValidationError:
        return False
    return True


def _samples(kind: Any) -> list[Any]:
    """Values for a key of this type, right and wrong."""
    if get_origin(kind) is Annotated:
        return _samples(get_args(kind)[0])
    if type(None) in get_args(kind):
        return _samples(next(part for part in get_args(kind) if part is not type(None)))
    if get_origin(kind) is tuple:
        inner = _samples(get_args(kind)[0])
        return ["a", {}, [], *([value] for value in inner), [inner[1], ""], [inner[1], inner[1]]]
    if get_origin(kind) is dict:
        name = "codex" if kind is config.BoardConfig.model_fields["model_pools"].annotation else "KEY"
        names = [{text: "a"} for text in TEXTS] if name == "KEY" else []
        return ["a", [], {}, *({name: value} for value in _samples(get_args(kind)[1])), *names]
    return SCALARS


@pytest.fixture(scope="module")
def samples() -> dict[str, list[Any]]:
    return {key: _samples(_annotated(field)) for key, field in fields(config.BoardConfig).items()}


def _annotated(field: Any) -> Any:
    return Annotated[field.annotation, *field.metadata] if field.metadata else field.annotation


@pytest.fixture(scope="module")
def verdicts(
    nix: Any, samples: dict[str, list[Any]], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, list[bool]]:
    file = tmp_path_factory.mktemp("verdicts") / "samples.json"
    file.write_text(json.dumps({camel(key): values for key, values in samples.items()}))
    said = nix.json(f"import ./verdicts.nix {{ samples = {file}; }}")
    return {key: said[camel(key)] for key in samples}


KEYS = list(fields(config.BoardConfig))


@pytest.mark.parametrize("key", KEYS)
def test_the_module_and_the_program_judge_alike(
    samples: dict[str, list[Any]], verdicts: dict[str, list[bool]], key: str
) -> None:
    kind = _annotated(fields(config.BoardConfig)[key])
    _, excused = STRICTER.get(key, ("", lambda value: False))
    taken_by_nix_alone, taken_by_the_program_alone, taken = [], [], 0
    for value, by_nix in zip(samples[key], verdicts[key], strict=True):
        by_program = _fits(kind, value)
        taken += by_nix and by_program
        if by_nix and not by_program:
            taken_by_nix_alone.append(repr(value)[:60])
        if by_program and not by_nix and not excused(value):
            taken_by_the_program_alone.append(repr(value)[:60])
    assert (taken_by_nix_alone, taken_by_the_program_alone) == ([], [])
    assert taken > 0
    assert taken < len(samples[key])


#: Fewer of them, since each is an entry of its own here.
SHORT = [
    "",
    *WORDS.split(),
    *(f"a{odd}b" for odd in ODD[::5]),
    *(sign * n for n in LENGTHS[:12] for sign in ("a", "/a")),
]
NAMES = list(dict.fromkeys(SHORT))


def test_names_of_entries_are_judged_alike(nix: Any, tmp_path: Path) -> None:
    """The keys of tables are no values of an option; the module's assertions look at them."""
    file = tmp_path / "names.json"
    file.write_text(json.dumps(NAMES))
    entry = '{ phase = "in_umsetzung"; runtime = "codex"; model = "gpt-5.6-luna"; }'
    lanes = f"lib.genAttrs (builtins.fromJSON (builtins.readFile {file})) (_: {entry})"
    body = f'services.intent-board = {{ enable = true; board.owner = "lukas"; lanes = {lanes}; }};'
    faults = nix.host(body, "all.faults")
    refused = {name for name in NAMES if any(f'.lanes."{name}": the name must' in fault for fault in faults)}
    assert set(NAMES) - refused == {name for name in NAMES if _fits(config.Name, name)}


ADDRESSES = """
    https://a/b.git https://a/b https://a/b/ https://A/b https://u@a/b https://u:p@a/b https://:p@a/b
    https://a:443/b ssh://a/b ssh://git@a/b.git ssh://git@a/b git@a:b git@a:b.git git@a:/b a:b a:/b a:b/
    git+ssh://git@a/b ssh+git://git@a/b git://a/b http://a/b http://localhost/b http://localhost:80/b
    http://127.0.0.1:80/b http://[::1]:80/b http://localhost.a/b HTTP://a/b http://u@localhost/b http://a@b@c/d
    ftp://a/b svn://a/b rsync://a/b a+b://c HTTPS://a/b ext::a a::b a/b::c ://a a//b ./a ../a /srv/a /srv/a/
    /srv/a.git /srv//a /srv/./a /srv/a/. file:///srv/a file:///srv/a.git file://srv/a file:// file:/srv/a file:a
    FILE:///srv/a SSH://a/b 1a://b a-b://c [::1]:a [a:b]:c git@[::1]:a git@[a::b]:c a.b::c a_b::c
"""
REMOTES = [*(text for text in SHORT if _fits(config.Line, text)), *ADDRESSES.split()]


def test_remotes_are_judged_alike(nix: Any, tmp_path: Path) -> None:
    """Each as a repository of its own, with its keys: refused by the module and by the program, or by neither."""
    file = tmp_path / "remotes.json"
    remotes = {f"r{number}": url for number, url in enumerate(dict.fromkeys(REMOTES)) if not url.startswith("-")}
    file.write_text(json.dumps(remotes))
    said = nix.settings(
        f"""
        credentials = {{ key = "/run/secrets/key"; read = "/run/secrets/read"; }};
        repositories =
          lib.mapAttrs (_: remoteUrl: {{ inherit remoteUrl; credential = "key"; fetchCredential = "read"; }})
          (builtins.fromJSON (builtins.readFile {file}));
        """
    )
    only_nix = ("of which no unit of the board", "characters that a unit file")
    twins = "is the same place as"
    by_nix, alike_to_nix = set(), set()
    for fault in said["faults"]:
        name = fault.split(".repositories.")[1].split(".")[0]
        if twins in fault:
            alike_to_nix.add(name)
        elif not any(word in fault for word in only_nix):
            by_nix.add(name)
    with pytest.raises(config.ConfigError) as caught:
        config.parse(said["settings"])
    places = Counter(config._place(url) for url in remotes.values())
    by_program = {line.split(".")[1] for line in caught.value.faults if twins not in line}
    assert {remotes[name] for name in by_nix} == {remotes[name] for name in by_program}
    sound = set(remotes) - by_nix
    alike = {name for name in sound if places[config._place(remotes[name])] > 1}
    assert {remotes[name] for name in alike_to_nix & sound} == {remotes[name] for name in alike}
