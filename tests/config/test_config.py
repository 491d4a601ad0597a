"""The TOML: every fault at once and by its key, and a complete example that survives being written."""

from __future__ import annotations

import copy
import tomllib
from pathlib import Path
from typing import Any

import pytest

from intent_board import config
from intent_board.config import BoardConfig, ConfigError


@pytest.fixture
def raw() -> dict[str, Any]:
    """The example as a reader of TOML gives it."""
    return tomllib.loads(config.to_toml(config.example()))


def faults(raw: dict[str, Any]) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        config.parse(raw)
    for fault in caught.value.faults:
        assert fault.isprintable(), ascii(fault)
    return caught.value.faults


def keys(raw: dict[str, Any]) -> set[str]:
    return {fault.split(": ")[0] for fault in faults(raw)}


def put(raw: dict[str, Any], key: str, value: Any) -> dict[str, Any]:
    """`raw` with a value at a dotted key; tables on the way are made."""
    changed = copy.deepcopy(raw)
    *way, last = key.split(".")
    table = changed
    for part in way:
        table = table.setdefault(part, {})
    table[last] = value
    return changed


def test_the_example_survives_being_written(tmp_path: Path) -> None:
    file = tmp_path / "board.toml"
    file.write_text(config.to_toml(config.example()))
    assert config.load(file) == config.example()


def test_a_changed_example_survives_being_written(raw: dict[str, Any]) -> None:
    raw["deploy"]["window"] = "22:00-06:00"
    raw["board"]["intent_dir"] = "/srv/intents"
    raw["roles"] = {"builder": {"allowed_commands": ["nix flake check", "umlaut ä"]}}
    raw["runtimes"]["script"] = {
        "kind": "command",
        "command": ["/bin/x", "--y"],
        "environment": {"A": "b"},
        "network": False,
    }
    raw["notifications"]["events"] = []
    changed = config.parse(raw)
    assert config.parse(tomllib.loads(config.to_toml(changed))) == changed


@pytest.mark.parametrize(
    "command", ["graphify query", "git log --format=%h", "nix flake check", "./scripts/test", "a b:c"]
)
def test_a_command_of_plain_words_may_be_allowed(raw: dict[str, Any], command: str) -> None:
    raw["roles"] = {"operator": {"allowed_commands": [command]}}
    assert config.parse(raw).roles["operator"].allowed_commands == (command,)


@pytest.mark.parametrize(
    "command",
    [
        "a; b", "a && b", "a | b", "a & b", "a $(b)", "a `b`", "a\nb", "a > b", "a < b", "a $HOME", "a *", "a:*",
        "a (b)", "a) Bash(b", "a, Bash", "a 'b'", 'a "b"', "a \\b", "{a,b}", "~/a", "a  b", " a", "a ", "", "a\tb",
        "-a", "X=y a", "a\u2028b", "a\u200bb", "! a", "a # b",
    ],
)  # fmt: skip
def test_a_command_that_a_shell_would_join_or_expand_is_refused(raw: dict[str, Any], command: str) -> None:
    raw["roles"] = {"operator": {"allowed_commands": ["graphify query", command]}}
    assert keys(raw) == {"roles.operator.allowed_commands.1"}


def test_a_file_with_only_an_owner_has_the_defaults() -> None:
    small = config.parse({"board": {"owner": "lukas"}})
    assert {name: lane.phase for name, lane in small.lanes.items()} == {
        "schwer": "in_umsetzung",
        "leicht": "in_umsetzung_leicht",
    }
    assert (small.limits.max_children, small.limits.max_escalation_steps) == (10, 2)
    assert (small.limits.iteration_limit_min, small.limits.iteration_limit_max) == (5, 40)
    assert small.repair.automatic_rounds == 0 and small.split.automatic is False
    assert (small.deploy.host, small.deploy.locked_hosts) == ("blunix", ("tnix", "pinix"))
    assert small.database_url == "sqlite:////var/lib/intent-board/board.sqlite3"
    assert small.intent_dir == Path("/var/lib/intent-board/intents")
    assert list(small.queue_slots()) == ["builder-schwer", "builder-leicht", *config.QUEUE_ROLES]


def test_the_values_are_frozen() -> None:
    with pytest.raises(ValueError, match="frozen"):
        config.example().board.owner = "somebody"  # type: ignore[misc]


WRONG: list[tuple[str, Any]] = [
    ("board.owner", ""),
    ("board.owner", "Lukas"),
    ("board.owner", "a\n"),
    ("board.owner", None),
    ("board.group", 7),
    ("board.state_dir", "var/lib"),
    ("board.state_dir", "/var/../lib"),
    ("board.database", "postgres://host/x"),
    ("board.database", "sqlite:///relative"),
    ("board.sandbox", "never"),
    ("board.default_repository", "nowhere"),
    ("limits.max_children", 0),
    ("limits.max_children", 11),
    ("limits.max_children", True),
    ("limits.max_children", "3"),
    ("limits.max_children", 3.0),
    ("limits.max_children", float("nan")),
    ("limits.max_escalation_steps", 3),
    ("limits.iteration_limit_min", 4),
    ("limits.iteration_limit_max", 41),
    ("scheduler.synthesis_lane", "mittel"),
    ("scheduler.max_concurrent_builders", 0),
    ("scheduler.outage_backoff_initial_seconds", 3601),
    ("lanes.schwer.phase", "im_review"),
    ("lanes.schwer.runtime", "gemini"),
    ("lanes.schwer.model", "gpt-2"),
    ("lanes.schwer.model", "gpt 5"),
    ("lanes.schwer.reasoning_effort", "bogus"),
    ("lanes.schwer.iteration_limit", 41),
    ("lanes.schwer.concurrency", 0),
    ("lanes.schwer.timeout_minutes", None),
    ("lanes.Mittel", {"phase": "in_umsetzung", "runtime": "codex", "model": "gpt-5.6-luna"}),
    ("model_pools.codex", []),
    ("model_pools.codex.0", "x"),
    ("model_pools.claude", ["opus", "opus"]),
    ("runtimes.codex.kind", "gemini"),
    ("runtimes.codex.command", []),
    ("runtimes.codex.command", "codex"),
    ("runtimes.codex.environment.A=B", "x"),
    ("runtimes.codex.environment.A", 1),
    ("runtimes.codex.credentials.OPENAI_API_KEY", "../key"),
    ("runtimes.codex.network", "yes"),
    ("runtimes.codex.network", 1),
    ("queues.operator.role", "reviewer"),
    ("queues.operator.slots", 0),
    ("queues.operator.model", "opus"),
    ("queues.review.runtime", "codex"),
    ("queues.review.model", "gpt-5.6-sol"),
    ("queues.repair.reasoning_effort", "low"),
    ("queues.publish.runtime", "codex"),
    ("queues.builder-schwer", {"role": "operator"}),
    ("queues.extra", {"role": "operator", "runtime": "codex", "model": "gpt-5.6-sol"}),
    ("roles.publish", {}),
    ("roles.operator.contract", "texts/operator.md"),
    ("repositories.nixos-config.remote_url", ""),
    ("repositories.nixos-config.remote_url", "--upload-pack=x"),
    ("repositories.nixos-config.remote_url", "ext::sh -c x"),
    ("repositories.nixos-config.remote_url", "https://me:secret@forge.example.org/x.git"),
    ("repositories.nixos-config.remote_url", "ssh://git@forge\u202e.example.org/x"),
    ("repositories.nixos-config.remote_url", "svn://forge.example.org/x"),
    ("repositories.nixos-config.remote_url", "HTTPS://forge.example.org/x"),
    ("repositories.nixos-config.remote_url", "FILE:///srv/x"),
    ("repositories.nixos-config.remote_url", "srv/x"),
    *(("repositories.nixos-config.branch", bad) for bad in ("a..b", "-a", "a b", "refs/heads/a", "a.lock", "HEAD", "")),
    ("repositories.nixos-config.checks", [[]]),
    ("repositories.nixos-config.checks", ["nix flake check"]),
    *(
        ("repositories.nixos-config.protected_paths", [bad])
        for bad in ("/etc", "../x", "a\\b", "~/x", ".git/config", " a")
    ),
    ("repair.budget", -1),
    ("repair.automatic_rounds", 11),
    ("split.automatic", "no"),
    ("deploy.host", "tnix"),
    ("deploy.host", "PiNix"),
    ("deploy.host", "blunix.example.org"),
    ("deploy.host", "root@blunix"),
    ("deploy.repository", "nowhere"),
    ("deploy.gate", "nobody"),
    ("deploy.window", "22:00"),
    ("deploy.window", "24:00-06:00"),
    ("deploy.health_checks", [["true"], []]),
    ("notifications.events", ["ready", "everything"]),
    ("notifications.credential", "a/b"),
]


@pytest.mark.parametrize(("key", "value"), WRONG)
def test_a_wrong_value_is_named_by_its_key(raw: dict[str, Any], key: str, value: Any) -> None:
    if key == "model_pools.codex.0":
        raw["model_pools"]["codex"][0] = " x"
    else:
        raw = put(raw, key, value)
    found = keys(raw)
    # An entry of a list is named with its place.
    assert any(name == key or name.startswith(f"{key}.") for name in found), found


@pytest.mark.parametrize(
    "key",
    [
        "extra",
        "board.colour",
        "limits.max_cards",
        "lanes.schwer.colour",
        "runtimes.codex.home",
        "deploy.ssh",
        "scheduler.x",
    ],
)
def test_an_unknown_key_is_named(raw: dict[str, Any], key: str) -> None:
    assert keys(put(raw, key, 1)) == {key}


@pytest.mark.parametrize("table", list(BoardConfig.model_fields))
def test_a_table_that_is_none_is_named(raw: dict[str, Any], table: str) -> None:
    for value in (None, 3, "x", []):
        assert table in keys(put(raw, table, value))


@pytest.mark.parametrize(
    "table", ["lanes.schwer", "runtimes.codex", "queues.split", "repositories.nixos-config", "roles.operator"]
)
def test_an_entry_that_is_null_is_named_alone(raw: dict[str, Any], table: str) -> None:
    assert keys(put(raw, table, None)) == {table}


def test_every_fault_of_a_file_is_said_at_once(raw: dict[str, Any]) -> None:
    for key, value in (
        ("board.owner", "No"),
        ("limits.max_children", 11),
        ("lanes.schwer.model", "gpt-2"),
        ("lanes.leicht.runtime", "gemini"),
        ("runtimes.codex.command", []),
        ("queues.review.model", "x"),
        ("deploy.host", "tnix"),
        ("extra", 1),
    ):
        raw = put(raw, key, value)
    assert keys(raw) == {
        "board.owner",
        "limits.max_children",
        "lanes.schwer.model",
        "lanes.leicht.runtime",
        "runtimes.codex.command",
        "queues.review.model",
        "deploy.host",
        "extra",
    }


def test_a_faulty_pool_is_not_also_said_of_every_user(raw: dict[str, Any]) -> None:
    assert keys(put(raw, "model_pools.codex", None)) == {"model_pools.codex"}


@pytest.mark.parametrize("queue", list(config.QUEUE_ROLES))
def test_every_queue_must_be_there(raw: dict[str, Any], queue: str) -> None:
    del raw["queues"][queue]
    assert keys(raw) == {f"queues.{queue}"}


def test_a_missing_board_is_named() -> None:
    assert keys({}) == {"board"}
    assert keys({"board": {}}) == {"board.owner"}


@pytest.mark.parametrize(
    "url",
    [
        "/srv/x.git",
        "file:///srv/x.git",
        "git@forge.example.org:team/x.git",
        "forge:x",
        "git@[2001:db8::1]:team/x.git",
        "[::1]:x",
        "ssh://git@forge.example.org:2222/x.git",
        "ssh://git@[::1]:2222/x.git",
        "https://forge.example.org:8443/x.git",
        "https://me@forge.example.org/x.git",
    ],
)
def test_an_address_that_git_takes_is_taken(raw: dict[str, Any], url: str) -> None:
    raw["repositories"]["other"] = {"remote_url": url}
    assert config.parse(raw).repositories["other"].remote_url == url


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("/srv/a", "/srv/a/"),
        ("/srv/a", "/srv//./a"),
        ("/srv/a.git", "file:///srv/a"),
        ("git@host:team/a.git", "ssh://git@host/team/a"),
        ("https://host/a", "https://host/a.git/"),
    ],
)
def test_two_repositories_in_one_place_are_refused(raw: dict[str, Any], one: str, other: str) -> None:
    raw["repositories"] |= {"one": {"remote_url": one}, "other": {"remote_url": other}}
    assert keys(raw) == {"repositories.other.remote_url"}
    raw["repositories"]["other"]["remote_url"] = f"{other.removesuffix('/').removesuffix('.git')}b"
    assert set(config.parse(raw).repositories) == {"nixos-config", "one", "other"}


def test_a_host_that_is_also_locked_is_refused(raw: dict[str, Any]) -> None:
    assert keys(put(raw, "deploy.locked_hosts", ["BLUNIX"])) == {"deploy.host"}
    raw = put(raw, "deploy.locked_hosts", [])
    assert keys(put(raw, "deploy.host", "pinix")) == {"deploy.host"}, "leaving the list empty unlocks nobody"


def test_only_the_deployed_repository_deploys(raw: dict[str, Any]) -> None:
    raw["repositories"]["other"] = {"remote_url": "/srv/other", "deploy": True}
    assert keys(raw) == {"repositories.other.deploy"}


def test_limits_can_only_be_narrowed(raw: dict[str, Any]) -> None:
    raw["limits"] = {"max_children": 1, "max_escalation_steps": 0, "iteration_limit_min": 10, "iteration_limit_max": 20}
    narrow = config.parse(raw).limits
    assert (narrow.max_children, narrow.max_escalation_steps) == (1, 0)
    raw["limits"] = {"iteration_limit_min": 21, "iteration_limit_max": 20}
    assert "limits.iteration_limit_min" in keys(raw)
    raw["limits"] = {"iteration_limit_max": 15}
    assert keys(raw) == {"lanes.schwer.iteration_limit"}, "a lane outside the limits is said"


def test_a_runtime_without_models_needs_none_and_others_do(raw: dict[str, Any]) -> None:
    raw["runtimes"]["script"] = {"kind": "command", "command": ["x"]}
    raw["lanes"]["leicht"] = {"phase": "in_umsetzung_leicht", "runtime": "script", "reasoning_effort": "any-word"}
    assert config.parse(raw).lanes["leicht"].model is None
    del raw["lanes"]["schwer"]["model"]
    assert keys(raw) == {"lanes.schwer.model"}


def test_an_effort_fits_what_its_program_takes() -> None:
    raw: dict[str, Any] = {
        "board": {"owner": "lukas"},
        "runtimes": {
            "codex": {"kind": "codex", "command": ["codex"]},
            "claude": {"kind": "claude", "command": ["claude"]},
            "script": {"kind": "command", "command": ["x"]},
        },
    }
    loaded = config.parse(raw)
    assert loaded.effort_fits("codex", "none") and not loaded.effort_fits("claude", "none")
    assert loaded.effort_fits("claude", "max") and not loaded.effort_fits("codex", "bogus")
    assert loaded.effort_fits("script", "bogus") and not loaded.effort_fits("script", "two words")


@pytest.mark.parametrize(
    "content",
    [
        b"\xff",
        b"\xef\xbb\xbf[board]\n",
        b"[board",
        b"a = " + b"9" * 5000,
        b"a = " + b"[" * 100_000,
        b"[board]\nowner = 'a'\nowner = 'b'\n",
    ],
)
def test_a_file_that_is_not_toml_is_one_sentence(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "board.toml"
    file.write_bytes(content)
    with pytest.raises(ConfigError, match="is not TOML") as caught:
        config.load(file)
    assert str(caught.value).startswith(f"{file}: ")


def test_a_file_that_cannot_be_read_says_why(tmp_path: Path) -> None:
    for path in (tmp_path / "missing.toml", tmp_path):
        with pytest.raises(ConfigError, match="cannot be read"):
            config.load(path)


def test_the_path_comes_from_the_environment_or_is_the_modules(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(config.PATH_VARIABLE, "/run/x.toml")
    assert config.default_path() == Path("/run/x.toml")
    monkeypatch.setenv(config.PATH_VARIABLE, "")
    assert config.default_path() == config.DEFAULT_PATH


def test_an_invisible_character_is_found_in_any_text() -> None:
    zero_width = "\xad\u034f\u115f\u180e\u200b\u200d\u2060\u3164\ufe0f\ufeff\ufff9\U000e0041"
    for bad in "\x00\n\x7f\x85\u2028\ud800" + "\u061c\u202e\u2066" + zero_width:
        assert config.invisible(f"a{bad}b") == f"the invisible character U+{ord(bad):04X}"
    for good in ("", "plain", "Größe – „ja“", "日本語", "🚀", "naïve"):
        assert config.invisible(good) is None
