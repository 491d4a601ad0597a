"""The units: whether systemd takes them, what they may do, and what a switch does to a running job."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

needs_systemd_analyze = pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd-analyze on PATH")


class Unit:
    """One rendered unit: its keys with all their values."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.values: dict[str, list[str]] = {}
        for line in text.splitlines():
            if "=" in line:
                key, value = line.split("=", 1)
                self.values.setdefault(key, []).append(value)

    def __getitem__(self, key: str) -> str:
        """The one value of a key."""
        (value,) = self.values[key]
        return value

    def all(self, key: str) -> list[str]:
        return self.values.get(key, [])


@pytest.fixture(scope="module")
def everything(nix: Any, full: str) -> dict[str, Any]:
    result: dict[str, Any] = nix.host(full)
    return result


@pytest.fixture(scope="module")
def units(everything: dict[str, Any]) -> dict[str, Unit]:
    return {name: Unit(text) for name, text in everything["units"].items()}


def matching(units: dict[str, Unit], pattern: str) -> dict[str, Unit]:
    found = {name: unit for name, unit in units.items() if re.fullmatch(pattern, name)}
    assert found, pattern
    return found


WORKERS = r"intent-board-worker-.*\.service"
LOCAL = r"intent-board-(scheduler|migrate|failed@)\.service"
DEPLOYERS = r"intent-board-deploy(-recover)?\.service"
TELLING = r"intent-board-notify\.service"
MAY_HOLD_A_JOB = f"{WORKERS}|{DEPLOYERS}|{TELLING}"


# --- what there is -------------------------------------------------------------------------------------------------


def test_every_slot_has_a_worker_and_a_bell(units: dict[str, Unit]) -> None:
    slots = {
        name.removeprefix("intent-board-worker-").removesuffix(".service") for name in units if re.match(WORKERS, name)
    }
    assert slots == {
        *("builder-schwer-0", "builder-leicht-0", "builder-mittel-0", "builder-mittel-1", "operator-0", "operator-1"),
        *("review-0", "publish-0", "repair-0", "inspect-0", "split-0"),
    }
    for slot in slots:
        queue, number = slot.rsplit("-", 1)
        service, path = units[f"intent-board-worker-{slot}.service"], units[f"intent-board-worker-{slot}.path"]
        assert path["PathExists"] == f"/srv/board/doorbells/{slot}"
        assert path["Unit"] == f"intent-board-worker-{slot}.service"
        assert service["ExecStart"].endswith(f" {queue} --slot {number}")
        assert f"intent-board-worker-{slot}.path" in units["intent-board.target"].all("Upholds")


def test_the_store_and_the_workers_agree_on_the_bells(everything: dict[str, Any], units: dict[str, Unit]) -> None:
    from intent_board import config

    slots = config.parse(everything["settings"]).queue_slots()
    assert slots.pop("deploy") == 1
    expected = {f"/srv/board/doorbells/{queue}-{n}" for queue, number in slots.items() for n in range(number)}
    watched = {unit["PathExists"] for unit in matching(units, r".*\.path").values()}
    assert watched == expected | {"/srv/board/doorbells/deploy-0", "/srv/board/doorbells/notify-0"}


def test_doorbells_are_made_by_tmpfiles(everything: dict[str, Any]) -> None:
    rules = everything["tmpfiles"]["10-intent-board"]
    mine = {"user": "intent-board", "group": "board", "mode": "0700"}
    assert rules["/srv/board"]["d"] == mine
    assert rules["/srv/board/doorbells"]["d"] == mine
    assert rules["/srv/intents"]["d"]["mode"] == "0750"


def test_a_board_without_a_deployed_repository_has_no_deployer(minimal: dict[str, Any]) -> None:
    assert not [name for name in minimal["units"] if "deploy" in name]
    assert "intent-board-deploy" not in minimal["users"]["users"]


def test_every_program_of_a_unit_is_there(everything: dict[str, Any], units: dict[str, Unit]) -> None:
    from importlib.metadata import entry_points

    ours = {script.name for script in entry_points(group="console_scripts") if script.value.startswith("intent_board.")}
    package = everything["packages"][0]
    called = set()
    for unit in units.values():
        for line in unit.all("ExecStart"):
            program = Path(shlex.split(line)[0])
            if program.is_relative_to(package):
                called.add(program.name)
    assert called <= ours
    assert called == {"board", "board-worker", "board-scheduler", "board-deploy"}


# --- a running job survives -----------------------------------------------------------------------------------------


def test_nothing_that_may_hold_a_job_is_ended_by_a_switch(units: dict[str, Unit]) -> None:
    for name, unit in matching(units, MAY_HOLD_A_JOB).items():
        assert unit["X-RestartIfChanged"] == "false", name
        assert unit["X-StopIfChanged"] == "false", name
        assert unit["X-StopOnRemoval"] == "false", name
        # Requires= or BindsTo= would pass the stop of another unit on, and so would PartOf=.
        assert not unit.all("Requires") + unit.all("BindsTo") + unit.all("PartOf"), name


def test_what_a_bell_starts_has_no_start_limit(units: dict[str, Unit]) -> None:
    for name, unit in matching(units, rf"{MAY_HOLD_A_JOB}|{LOCAL.replace('migrate|', '')}|.*\.path").items():
        if not name.startswith("intent-board-failed"):
            assert unit["StartLimitIntervalSec"] == "0", name


def test_jobs_are_exec_services_with_both_ends(units: dict[str, Unit]) -> None:
    for name, unit in matching(units, f"{MAY_HOLD_A_JOB}|intent-board-scheduler.service").items():
        assert unit["Type"] == "exec", name
        assert re.fullmatch(r"\d+min", unit["RuntimeMaxSec"]), name
        assert unit["TimeoutStopSec"], name
        assert unit["KillMode"] == ("control-group" if "deploy" in name else "mixed"), name
    assert units["intent-board-worker-publish-0.service"]["TimeoutStopSec"] == "120"
    assert units["intent-board-worker-review-0.service"]["TimeoutStopSec"] == "60"
    for name, unit in matching(units, MAY_HOLD_A_JOB).items():
        assert unit["OOMPolicy"] == "continue", name


def test_a_queues_longest_run_fits_into_its_unit(everything: dict[str, Any], units: dict[str, Unit]) -> None:
    settings = everything["settings"]
    minutes = {f"builder-{name}": lane["timeout_minutes"] for name, lane in settings["lanes"].items()}
    minutes |= {name: queue["timeout_minutes"] for name, queue in settings["queues"].items()}
    checks = max(len(r["checks"]) * r["check_timeout_minutes"] for r in settings["repositories"].values())
    for name, unit in matching(units, WORKERS).items():
        queue = name.removeprefix("intent-board-worker-").rsplit("-", 1)[0]
        assert int(unit["RuntimeMaxSec"].removesuffix("min")) >= minutes[queue] + checks, name


def test_a_failure_is_written_down_and_handed_on(units: dict[str, Unit]) -> None:
    for name, unit in matching(units, f"{MAY_HOLD_A_JOB}|intent-board-(scheduler|migrate).service").items():
        assert unit.all("OnFailure") == ["intent-board-failed@%n.service", "page@intent-board.service"], name
    assert not units["intent-board-failed@.service"].all("OnFailure")


# --- secrets --------------------------------------------------------------------------------------------------------


def credentials(unit: Unit) -> set[str]:
    return {line.split(":")[0] for line in unit.all("LoadCredential")}


def test_each_unit_holds_the_keys_of_its_own_queue_and_no_other(units: dict[str, Unit]) -> None:
    held = {
        name.removeprefix("intent-board-worker-").removesuffix(".service"): credentials(unit)
        for name, unit in matching(units, WORKERS).items()
    }
    keys = {
        "builder-schwer-0": {"openai-api-key"},
        "builder-leicht-0": {"openai-api-key"},
        "builder-mittel-0": {"anthropic"},
        "builder-mittel-1": {"anthropic"},
        "operator-0": {"anthropic"},
        "operator-1": {"anthropic"},
        "review-0": {"openai-api-key", "anthropic"},
        "repair-0": {"openai-api-key", "anthropic"},
        "inspect-0": {"openrouter"},
        "split-0": {"openai-api-key"},
        "publish-0": {"forge"},
    }
    # Each of them fetches, with a key that may only read.
    assert held == {slot: names | {"forge-read"} for slot, names in keys.items()}


def test_push_keys_are_in_publish_units_alone(units: dict[str, Unit]) -> None:
    assert {name for name, unit in units.items() if "forge" in credentials(unit)} == {
        "intent-board-worker-publish-0.service"
    }


def test_a_remote_on_this_host_is_written_by_publish_units_alone(units: dict[str, Unit]) -> None:
    for name, unit in matching(units, WORKERS).items():
        assert ("-/srv/git/here.git" in unit.all("ReadWritePaths")) == ("publish" in name), name


def test_only_the_telling_unit_knows_the_addresses(units: dict[str, Unit], minimal: dict[str, Any]) -> None:
    assert {name for name, unit in units.items() if "apprise" in credentials(unit)} == {"intent-board-notify.service"}
    assert not [name for name in minimal["units"] if "notify" in name]


# --- nothing of a user's text acts in a unit ------------------------------------------------------------------------


def test_no_specifier_reaches_a_unit(units: dict[str, Unit]) -> None:
    allowed = {"%n", "%i"}
    for name, unit in units.items():
        for line in unit.text.splitlines():
            percents = set(re.findall("%.?", line)) - allowed
            # A percentage ends its value: MemoryMax=90%.
            assert not percents or re.fullmatch(r"(MemoryHigh|MemoryMax|CPUQuota)=\d+%", line), f"{name}: {line}"


# --- what systemd says ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tree(make_tree: Callable[[dict[str, str]], Path], everything: dict[str, Any]) -> Path:
    return make_tree(everything["units"])


@needs_systemd_analyze
def test_systemd_takes_every_unit_without_a_word(
    verify: Callable[[Path, list[str]], list[str]], tree: Path, everything: dict[str, Any]
) -> None:
    assert verify(tree, everything["units"]) == []


@needs_systemd_analyze
def test_a_key_that_systemd_does_not_know_would_be_noticed(tree: Path, everything: dict[str, Any]) -> None:
    """The test above would see a typo: systemd itself only warns."""
    text = everything["units"]["intent-board-scheduler.service"]
    (tree / "etc/systemd/system/typo.service").write_text(text.replace("NoNewPrivileges", "NoNewPrivilege"))
    said = subprocess.run(
        ["systemd-analyze", "verify", f"--root={tree}", "--man=no", "typo.service"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "NoNewPrivilege" in said.stderr


def exposure(tree: Path, name: str) -> tuple[float, str]:
    command = ["systemd-analyze", "security", "--offline=true", f"--root={tree}", "--no-pager", name]
    said = subprocess.run(command, capture_output=True, text=True, check=False)
    found = re.search(r"Overall exposure level for .*: ([\d.]+)", said.stdout)
    assert found, said.stderr + said.stdout
    return float(found.group(1)), said.stdout


@needs_systemd_analyze
@pytest.mark.parametrize(("pattern", "most"), [(WORKERS, 2.8), (LOCAL, 0.5), (TELLING, 1.1), (DEPLOYERS, 2.3)])
def test_exposure(tree: Path, units: dict[str, Unit], pattern: str, most: float) -> None:
    for name in matching(units, pattern):
        figure, table = exposure(tree, name.replace("@.", "@example."))
        assert figure <= most, f"{name}: {figure}\n{table}"


ABSENT = {
    WORKERS: {
        "ProtectKernelTunables",
        "ProtectKernelLogs",
        "ProtectHostname",
        "ProcSubset",
        "RestrictSUIDSGID",
        "MemoryDenyWriteExecute",
        "InaccessiblePaths",
        "PrivateNetwork",
    },
    LOCAL: set[str](),
    TELLING: {"PrivateNetwork", "IPAddressDeny"},
    DEPLOYERS: {"User", "PrivateUsers", "PrivateNetwork", "IPAddressDeny"},
}


KINDS = {"worker": WORKERS, "local": LOCAL, "telling": TELLING, "deployer": DEPLOYERS}


@pytest.mark.parametrize("kind", KINDS)
def test_directives_that_would_break_the_product_are_absent_with_a_reason(
    nix: Any, units: dict[str, Unit], kind: str
) -> None:
    pattern = KINDS[kind]
    reasons = nix.json("(import ../../nix/hardening.nix).absent")[kind]
    assert set(reasons) == ABSENT[pattern]
    assert all(len(reason) > 20 for reason in reasons.values())
    for name, unit in matching(units, pattern).items():
        for directive in reasons:
            assert not unit.all(directive), f"{name} has {directive}: {reasons[directive]}"


HARDENING = """
    NoNewPrivileges PrivateTmp PrivateDevices DevicePolicy ProtectHome ProtectSystem ProtectControlGroups ProtectClock
    ProtectKernelModules ProtectKernelTunables ProtectKernelLogs ProtectHostname ProtectProc ProcSubset LockPersonality
    RestrictRealtime RestrictSUIDSGID RestrictNamespaces RestrictAddressFamilies MemoryDenyWriteExecute PrivateUsers
    SystemCallArchitectures SystemCallFilter CapabilityBoundingSet PrivateMounts PrivateIPC PrivateNetwork KeyringMode
    IPAddressDeny RemoveIPC UMask User
"""


@pytest.mark.parametrize("pattern", [WORKERS, LOCAL, TELLING, DEPLOYERS])
def test_what_is_neither_set_nor_excused_is_missing(units: dict[str, Unit], pattern: str) -> None:
    """Every directive of HARDENING stands in a unit or in ABSENT: nothing is left out by oversight."""
    wanted = set(HARDENING.split())
    for name, unit in matching(units, pattern).items():
        assert {key for key in wanted if not unit.all(key)} == ABSENT[pattern] - {"InaccessiblePaths"}, name


def test_workers_keep_what_the_sandboxes_need(units: dict[str, Unit]) -> None:
    for name, unit in matching(units, WORKERS).items():
        assert {"user", "mnt", "pid", "ipc", "uts", "net"} <= set(unit["RestrictNamespaces"].split()), name
        assert "AF_NETLINK" in unit.all("RestrictAddressFamilies"), name
        # The last word on a group counts.
        assert unit.all("SystemCallFilter").index("@mount capset") > unit.all("SystemCallFilter").index("~@privileged")
        assert unit.all("IPAddressDeny") == ["localhost", "link-local", "multicast"], name
        assert unit.all("IPAddressAllow") == ["127.0.0.1"], name


def test_workers_share_limits_and_the_deployer_has_none(units: dict[str, Unit]) -> None:
    for unit in matching(units, WORKERS).values():
        assert unit["Slice"] == "intent-board-workers.slice"
    limits = units["intent-board-workers.slice"]
    assert (limits["MemoryHigh"], limits["MemoryMax"], limits["TasksMax"]) == ("4G", "6G", "4096")
    assert (limits["CPUQuota"], limits["CPUWeight"]) == ("150%", "40")
    for unit in matching(units, DEPLOYERS).values():
        assert unit["Slice"] == "intent-board.slice"
        assert not unit.all("MemoryMax")


def test_the_deployer_has_what_its_document_says(everything: dict[str, Any], units: dict[str, Unit]) -> None:
    """docs/deployment.md, "what the unit needs"."""
    build = {"d": {"user": "intent-board-deploy", "group": "root", "mode": "0750"}}
    assert everything["tmpfiles"]["10-intent-board"]["/var/lib/intent-board-build"] == build
    for unit in matching(units, DEPLOYERS).values():
        assert credentials(unit) == {"forge-read"}
        assert unit["KillMode"] == "control-group"
        assert unit["StateDirectoryMode"] == "0700"
        assert unit.all("CapabilityBoundingSet") == ["CAP_SETUID", "CAP_SETGID"]
        assert "/nix/var/nix/profiles" in unit.all("ReadWritePaths")
        # setpriv becomes another user and drops what it does not hand on.
        assert {"@setuid", "capset"} <= set(unit.all("SystemCallFilter")[-1].split())
        (path,) = [value for value in unit.all("Environment") if value.startswith('"PATH=')]
        for package in ("nix", "gitMinimal", "openssh", "util-linux", "nixos-rebuild", "coreutils", "systemd"):
            assert f"-{package}/bin:" in path
        assert "/run/current-system/sw/bin" in path


def test_root_units_never_own_the_boards_directory(units: dict[str, Unit]) -> None:
    for unit in matching(units, DEPLOYERS).values():
        assert unit["StateDirectory"] == "intent-board-deploy"
    for name, unit in units.items():
        if "deploy" not in name:
            assert not unit.all("StateDirectory"), name
            if name.endswith(".service"):
                assert unit["User"] == "intent-board", name


# --- people -----------------------------------------------------------------------------------------------------------


def test_sudo_lets_the_group_run_board_and_nothing_else(everything: dict[str, Any]) -> None:
    (rule,) = everything["sudo"]
    assert rule["groups"] == ["board"]
    assert rule["runAs"] == "intent-board"
    package = everything["packages"][0]
    assert [c["command"] for c in rule["commands"]] == [f"{package}/bin/board", "/run/current-system/sw/bin/board"]
    assert all(c["options"] == ["NOPASSWD", "NOSETENV"] for c in rule["commands"])


def test_the_owner_is_in_the_group(everything: dict[str, Any]) -> None:
    assert everything["users"]["groups"]["board"]["members"] == ["petra"]


def test_the_file_is_checked_when_the_system_is_built(
    nix: Any, tmp_path: Path, full: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The build of the configuration runs our own check: a good file passes, a bad extra setting ends it by name."""
    store = tmp_path / "nix"
    for name in ("STORE_DIR", "STATE_DIR", "LOG_DIR", "LOCALSTATE_DIR"):
        monkeypatch.setenv(f"NIX_{name}", str(store / name.split("_")[0].lower()))
    package = f'pkgs.intent-board // {{ outPath = "{Path(sys.executable).parent.parent}"; }}'
    body = f"""imports = [ {{ {full} }} {{ services.intent-board = {{
      package = lib.mkForce ({package});
      runtimes.claude.command = lib.mkForce [ "${{pkgs.codex}}/bin/codex" ];
      %s
    }}; }} ];"""
    good = build(body % "")
    assert good.returncode == 0, good.stderr
    assert "owner" in Path(good.stdout.strip()).read_text()
    bad = build(body % "extraSettings.limits.max_children = 99;")
    assert bad.returncode != 0
    assert "limits.max_children" in bad.stderr


def build(body: str) -> subprocess.CompletedProcess[str]:
    expression = "(import ./eval.nix { host = { config, lib, pkgs, ... }: { " + body + " }; }).configFile"
    command = ["nix-build", "--no-out-link", "--option", "build-users-group", "", "--option", "sandbox", "false"]
    return subprocess.run(
        [*command, "-E", expression], capture_output=True, text=True, check=False, cwd=Path(__file__).parent
    )


@pytest.fixture
def note(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    script = Path(__file__).parents[2] / "nix/note-failure.sh"

    def run(unit: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["sh", script, unit, tmp_path],
            env={"PATH": "/usr/bin:/bin"} | environment,
            capture_output=True,
            text=True,
            check=False,
        )

    return run


def test_a_missing_credential_is_explained(note: Callable[..., Any], tmp_path: Path) -> None:
    done = note("x.service", MONITOR_SERVICE_RESULT="exit-code", MONITOR_EXIT_STATUS="243", MONITOR_EXIT_CODE="exited")
    assert done.returncode == 0
    (found,) = tmp_path.iterdir()
    assert found.name == "x.service"
    assert "services.intent-board.credentials" in found.read_text()
    assert "services.intent-board.credentials" in done.stderr


def test_a_unit_name_can_not_lead_out_of_the_directory(note: Callable[..., Any], tmp_path: Path) -> None:
    assert note("../../etc/passwd").returncode == 1
    assert list(tmp_path.iterdir()) == []


def test_units_are_valid_json_for_the_boot_test(everything: dict[str, Any]) -> None:
    assert json.loads(json.dumps(everything["units"])) == everything["units"]
