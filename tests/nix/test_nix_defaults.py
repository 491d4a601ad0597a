"""The module's options are board.toml's keys, with its defaults and its bounds, both ways."""

from __future__ import annotations

import re
from typing import Any, get_args, get_origin

import pytest
from option_keys import ONLY_NIX, fields, snake

from intent_board import config


@pytest.fixture(scope="module")
def options(nix: Any) -> dict[str, dict[str, Any]]:
    """The leaves of services.intent-board by path, `*` for a user's own name."""
    found = {}
    for option in nix.host("", "options"):
        path = option["name"].removeprefix("services.intent-board.").replace("<name>", "*")
        if path.split(".")[0] not in ONLY_NIX and path not in ONLY_NIX:
            found[path] = option
    tables = {path.rsplit(".*.", 1)[0] for path in found if ".*." in path}
    return {path: option for path, option in found.items() if path not in tables}


def test_every_option_is_a_key_and_every_key_an_option(options: dict[str, Any]) -> None:
    assert {snake(path) for path in options} == set(fields(config.BoardConfig))


def test_the_modules_defaults_are_the_programs(minimal: dict[str, Any]) -> None:
    said = minimal["settings"]
    said["runtimes"]["codex"]["command"] = ["codex"]  # the program's own default can't know a store path
    assert minimal["faults"] == []
    assert config.parse(said) == config.parse({"board": {"owner": "lukas"}})


def test_the_programs_defaults_are_the_modules(minimal: dict[str, Any]) -> None:
    expected = config.parse({"board": {"owner": "lukas"}}).model_dump(mode="json", exclude_none=True)
    expected["runtimes"]["codex"]["command"] = minimal["settings"]["runtimes"]["codex"]["command"]
    assert minimal["settings"] == expected


def test_a_new_entry_of_a_table_has_the_programs_defaults(nix: Any) -> None:
    said = nix.settings(
        """
        lanes.mittel = { phase = "in_umsetzung"; runtime = "codex"; model = "gpt-5.6-luna"; };
        runtimes.claude = { kind = "claude"; package = pkgs.claude-code; };
        roles.builder = { };
        repositories.website.remoteUrl = "https://forge.example.org/website.git";
        """
    )
    parsed = config.parse(said["settings"]).model_dump(mode="json", exclude_none=True)
    assert said["faults"] == []
    assert said["settings"] == parsed
    lane = config.Lane(phase="in_umsetzung", runtime="codex", model="gpt-5.6-luna")
    assert config.Lane(**said["settings"]["lanes"]["mittel"]) == lane
    repository = config.Repository(remote_url="https://forge.example.org/website.git")
    assert config.Repository(**said["settings"]["repositories"]["website"]) == repository
    assert config.Role(**said["settings"]["roles"]["builder"]) == config.Role()


def test_bounds_are_the_same(options: dict[str, Any]) -> None:
    by_key = {snake(path): option for path, option in options.items()}
    compared = 0
    for key, field in fields(config.BoardConfig).items():
        bounds = {type(m).__name__: getattr(m, type(m).__name__.lower()) for m in field.metadata if _is_bound(m)}
        if bounds:
            text = by_key[key]["type"]
            assert f"between {bounds['Ge']} and {bounds['Le']} " in text, f"{key}: {text} is not {bounds}"
            compared += 1
    assert compared >= 20


def _is_bound(metadata: object) -> bool:
    return type(metadata).__name__ in {"Ge", "Le"}


def test_choices_are_the_same(options: dict[str, Any]) -> None:
    by_key = {snake(path): option for path, option in options.items()}
    compared = 0
    for key, field in fields(config.BoardConfig).items():
        words = _choices(field.annotation)
        if words:
            said = set(re.findall(r'"([^"]*)"', by_key[key]["type"]))
            assert said == words, key
            compared += 1
    assert compared >= 6


def _choices(kind: Any) -> set[str]:
    if get_origin(kind) is tuple:
        return _choices(get_args(kind)[0])
    arguments = get_args(kind)
    return set(arguments) if arguments and all(isinstance(word, str) for word in arguments) else set()


def test_every_option_says_what_it_is(options: dict[str, Any], nix: Any) -> None:
    for option in nix.host("", "options"):
        path = option["name"]
        assert option["description"].strip(), path
        assert option["type"], path
        assert "example" in option, path
        required = path.removeprefix("services.intent-board.") in {"board.owner", "configFile"}
        required |= path.endswith(("<name>.phase", "<name>.runtime", "<name>.kind", "<name>.role", "<name>.remoteUrl"))
        assert required or path.endswith(".package") or "default" in option, path
