"""Hosts as people write them: what the module takes, the program takes too, and systemd takes its units."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tomli_w

from intent_board import config

PUBLIC = 'repositories.website = { remoteUrl = "https://forge.example.org/website.git"; deploy = true; };'
DEPLOYED = PUBLIC + 'deploy.repository = "website";'
PRIVATE = """
    credentials = { push = "/run/secrets/push"; read = "/run/agenix/read.key"; };
    repositories.private = {
      remoteUrl = "git@forge.example.org:group/private.git"; branch = "dev/next";
      credential = "push"; fetchCredential = "read"; knownHosts = ./eval.nix;
      checks = [ [ "sh" "-c" "make test && echo 100%" ] [ "nix" "flake" "check" ] ]; nixDaemon = true;
      protectedPaths = [ "hosts/*.nix" "/flake.lock" ];
    };
""".replace('"/flake.lock"', '"flake.lock"')
SCRIPTED = """
    lanes = lib.mkForce {
      eine = { phase = "in_umsetzung_leicht"; runtime = "script"; };
    };
    scheduler.synthesisLane = "eine";
    runtimes.script = { kind = "command"; command = [ "${pkgs.jq}/bin/jq" "--arg" "a b" "100%" ]; network = false; };
    queues = { operator = script; inspect = script; split = script; };
"""

#: What a person wrote: (into services.intent-board, beside it).
HOSTS: dict[str, tuple[str, str]] = {
    "the least": ("", ""),
    "another host of the same flake": (PUBLIC.replace("deploy = true;", ""), 'networking.hostName = "tnix";'),
    "one lane": (
        'lanes = lib.mkForce { bau = { phase = "in_umsetzung"; runtime = "codex"; model = "gpt-5.6-luna"; }; };'
        'scheduler.synthesisLane = "bau";',
        "",
    ),
    "lanes of other names": (
        "lanes = lib.mkForce { "
        + "".join(
            f'{name} = {{ phase = "in_umsetzung"; runtime = "codex"; model = "gpt-5.6-sol"; concurrency = 16; }}; '
            for name in ("a", "a-0", "builder", "x" * 31)
        )
        + '}; scheduler.synthesisLane = "a-0";',
        "",
    ),
    "a lane switched off by nobody": ("lanes.leicht.concurrency = 1; lanes.leicht.reasoningEffort = null;", ""),
    "many slots": ("queues.review.slots = 16; queues.publish.slots = 3; queues.operator.slots = 2;", ""),
    "several repositories": (
        PRIVATE + PUBLIC.replace("deploy = true;", "") + 'repositories.here.remoteUrl = "file:///srv/git/here.git";'
        'repositories.there = { remoteUrl = "/srv/git/there.git"; branch = "main"; };',
        "",
    ),
    "every null": (
        "board = { intentDir = null; database = null; defaultRepository = null; };"
        "units = { memoryHigh = null; memoryMax = null; cpuQuota = null; }; deploy.window = null;"
        "lanes.schwer.reasoningEffort = null; notifications.credential = null;",
        "",
    ),
    "a group that the host declares": ('board.group = "board";', "users.groups.board.gid = 4711;"),
    "everybody of wheel": ('board.group = "wheel";', 'nix.settings.trusted-users = [ "root" "lukas" ];'),
    "sudo-rs": ("", "security.sudo.enable = false; security.sudo-rs.enable = true;"),
    "a disk of its own": ('board.stateDir = "/data/intent-board"; board.intentDir = "/data/intents";', ""),
    "state, intents and store apart": (
        'board = { stateDir = "/srv/board"; intentDir = "/srv/intents"; database = "sqlite:////srv/store/b.sqlite3"; };'
        + DEPLOYED,
        "",
    ),
    "the store in a directory of the state": ('board.database = "sqlite:////var/lib/intent-board/db/b.sqlite3";', ""),
    "a program without a model": (SCRIPTED.replace("= script;", '= { runtime = "script"; model = null; };'), ""),
    "a runtime that is only declared": ('runtimes.claude.kind = "claude";', ""),
    "no network for agents": ("runtimes.codex.network = false;", 'networking.nameservers = [ "192.168.1.1" ];'),
    "deployed": (DEPLOYED + 'deploy = { gate = "owner"; window = "22:00-06:00"; rollback = false; };', ""),
    "deployed by hand": (DEPLOYED + 'deploy = { automatic = false; gate = "commit"; };', ""),
    "deployed elsewhere": (DEPLOYED + 'deploy.host = "atlas";', 'networking.hostName = "Atlas";'),
    "health checks": (
        DEPLOYED + 'deploy.healthChecks = [ [ "systemctl" "is-active" "a@%i.service" ] [ "curl" "http://[::1]/" ] ];',
        "",
    ),
    "people are told": ('credentials.urls = "/run/secrets/urls"; notifications.credential = "urls";', ""),
    "systemd-resolved": ("", 'services.resolved.enable = true; networking.nameservers = [ "127.0.0.1" ];'),
    "a resolver and a model server on this host": (
        'units.allowedAddresses = [ "127.0.0.1" "::1" "169.254.0.0/16" "fe80::1/64" ];',
        "networking.resolvconf.useLocalResolver = true;",
    ),
    "small": (
        'units = { memoryHigh = "1G"; memoryMax = "99%"; tasksMax = 64; cpuQuota = 5; };',
        "",
    ),
    "hooks": (
        'units.onFailure = [ "page@board.service" "page@%n.service" "mail@on\\\\x2dcall.service" "rescue.target" ];',
        "",
    ),
    "a file of one's own": (
        "extraSettings = { limits.max_children = 3; roles.builder.contract = null; };",
        "",
    ),
    "a daemon that lets few in": (
        PRIVATE + DEPLOYED,
        'nix.settings = { allowed-users = [ "@wheel" "intent-board" ]; extra-allowed-users = "intent-board-deploy"; };',
    ),
    "no nix": ("", "nix.enable = false;"),
}


@pytest.fixture(scope="module")
def hosts(host: Callable[[str], dict[str, Any]]) -> Callable[[str], dict[str, Any]]:
    def said(what: str) -> dict[str, Any]:
        board, beside = HOSTS[what]
        return host(f"services.intent-board = {{ {board} }}; {beside}")

    return said


@pytest.mark.parametrize("what", HOSTS)
def test_what_the_module_takes_the_program_takes(
    hosts: Callable[[str], dict[str, Any]], tmp_path: Path, what: str
) -> None:
    said = hosts(what)
    assert said["faults"] == []
    file = tmp_path / "board.toml"
    file.write_text(tomli_w.dumps(said["settings"]))
    loaded = config.load(file)
    bells = {f"{queue}-{n}" for queue, slots in loaded.queue_slots().items() for n in range(slots)}
    watched = {text.split("PathExists=")[1].split()[0] for text in said["units"].values() if "PathExists=" in text}
    kept = {str(loaded.state_dir / "doorbells" / bell) for bell in bells if not bell.startswith("deploy")}
    assert kept <= watched


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd-analyze on PATH")
@pytest.mark.parametrize("what", HOSTS)
def test_systemd_takes_its_units(
    hosts: Callable[[str], dict[str, Any]],
    make_tree: Callable[[dict[str, str]], Path],
    verify: Callable[[Path, dict[str, str]], list[str]],
    what: str,
) -> None:
    units = hosts(what)["units"]
    assert verify(make_tree(units), units) == []


@pytest.mark.parametrize("what", HOSTS)
def test_every_directory_that_a_unit_needs_is_made(hosts: Callable[[str], dict[str, Any]], what: str) -> None:
    """systemd ends a unit with 226/NAMESPACE when a directory is missing that the unit may write."""
    said = hosts(what)
    made = set(said["tmpfiles"]["10-intent-board"])
    of_the_system = {"/nix/var/nix/profiles"}
    for name, text in said["units"].items():
        written = {line.split("=", 1)[1] for line in text.splitlines() if line.startswith("ReadWritePaths=")}
        assert {path for path in written if not path.startswith("-")} <= made | of_the_system, name


def test_the_deployer_writes_where_the_store_is(hosts: Callable[[str], dict[str, Any]]) -> None:
    units = hosts("state, intents and store apart")["units"]
    for name in ("intent-board-deploy.service", "intent-board-deploy-recover.service"):
        for place in ("/srv/board", "/srv/store", "/srv/intents"):
            assert f"ReadWritePaths={place}\n" in units[name]


def test_units_wait_for_the_mounts_of_all_their_directories(hosts: Callable[[str], dict[str, Any]]) -> None:
    units = hosts("state, intents and store apart")["units"]
    for name, text in units.items():
        if name.endswith((".service", ".path")) and not name.startswith("intent-board-failed"):
            assert "RequiresMountsFor=/srv/board /srv/intents /srv/store\n" in text, name
