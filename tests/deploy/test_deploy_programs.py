"""The exact command line of every program, what each end means, and programs that misbehave."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from pytest_subprocess import FakeProcess

from intent_board.config import Deploy
from intent_board.deploy import nix, run, switch, systemd, truth
from intent_board.deploy.host import Account, DeployRefused, Host
from intent_board.deploy.mirror import is_commit
from intent_board.deploy.run import Done

COMMIT = "0123456789abcdef0123456789abcdef01234567"
SYSTEM = "/nix/store/0c4f8qfhsykdq6qbn1xqv8zmv7jq0l1a-nixos-system-blunix-26.05"
BUILDER = Account("intent-board-deploy", 971, 972)
NOT_COMMITS = [
    COMMIT[:12], COMMIT.upper(), f"{COMMIT}\n", f" {COMMIT}", f"{COMMIT}^", "HEAD", "main", "v1.0", "--upload-pack=x",
    "-rf", "../../etc", "refs/heads/main", f"{COMMIT}&ref=x", f"{COMMIT}#x", "０" * 40, "٠" * 40, "", None, 7,
]  # fmt: skip


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(build_dir=tmp_path / "build", deploy_dir=tmp_path, busy_seconds=0.0, poll_seconds=0.0,
                switch_lock=tmp_path / "lock")  # fmt: skip


@pytest.mark.parametrize("text", NOT_COMMITS)
def test_only_a_whole_hash_is_a_commit(text: object, host: Host) -> None:
    assert not is_commit(text)
    with pytest.raises((DeployRefused, TypeError)):
        nix.build_command(host, Path("/m"), text, "blunix", Path("/l"))  # type: ignore[arg-type]


def test_the_build_is_of_this_revision_in_the_mirror_and_believes_no_flake(host: Host) -> None:
    assert nix.build_command(host, Path("/var/lib/b/mirrors/a b"), COMMIT, "blunix", Path("/var/lib/b/roots/1")) == [
        "nix", "--extra-experimental-features", "nix-command flakes", "build",
        "--option", "accept-flake-config", "false", "--option", "eval-cache", "false",
        "--option", "use-registries", "false", "--no-update-lock-file", "--print-build-logs", "--json",
        "--out-link", "/var/lib/b/roots/1",
        f"git+file:///var/lib/b/mirrors/a%20b?rev={COMMIT}#nixosConfigurations.blunix.config.system.build.toplevel",
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["blu nix", 'x"', "a#b", "", "-x", "blunix;"])
def test_no_attribute_is_made_of_what_is_no_host_name(name: str, host: Host) -> None:
    with pytest.raises(DeployRefused):
        nix.build_command(host, Path("/m"), COMMIT, name, Path("/l"))


@pytest.mark.parametrize(
    ("text", "good"),
    [
        (SYSTEM, True),
        (f"{SYSTEM}/bin", False),
        (f"{SYSTEM}\n", False),
        ("/nix/store/../../etc", False),
        ("/nix/store/eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee-x", False),
        (f"/tmp{SYSTEM}", False),
        (None, False),
    ],
)
def test_a_store_path_is_one_object_of_the_store(text: object, good: bool, host: Host) -> None:
    assert nix.is_store_path(text, host) is good


def test_a_program_of_another_user_gets_no_groups_no_capabilities_and_no_new_privileges() -> None:
    assert run.as_user(BUILDER, ["git", "--version"]) == [
        "setpriv", "--reuid=971", "--regid=972", "--clear-groups", "--no-new-privs", "--pdeathsig=KILL", "--",
        "git", "--version",
    ]  # fmt: skip


def test_the_switch_is_pinned_to_the_built_path(fp: FakeProcess, host: Host, tmp_path: Path) -> None:
    fp.register(["nixos-rebuild", "switch", "--no-reexec", "--store-path", SYSTEM], returncode=4)
    unit = f"{switch.SWITCH_UNIT}.service"
    fp.register(["systemctl", "show", "--property=ActiveState", "--value", unit], stdout="inactive\n")
    done = switch.Switch(host, tmp_path / "log", 60.0).rebuild(SYSTEM)
    assert (done.exit_code, done.ok) == (4, False)


def test_the_documented_steps_are_pinned_too(fp: FakeProcess, host: Host, tmp_path: Path) -> None:
    transient = [
        "systemd-run", "-E", "LOCALE_ARCHIVE", "-E", "NIXOS_INSTALL_BOOTLOADER", "--collect", "--no-ask-password",
        "--pipe", "--quiet", "--service-type=exec",
    ]  # fmt: skip
    unit = "--unit=nixos-rebuild-switch-to-configuration"
    profile = ["nix-env", "-p", "/nix/var/nix/profiles/system"]
    expected = [
        [*transient, "--unit=intent-board-dry-activation", f"{SYSTEM}/bin/switch-to-configuration", "dry-activate"],
        [*profile, "--set", SYSTEM],
        [*transient, unit, f"{SYSTEM}/bin/switch-to-configuration", "switch"],
        [*profile, "--switch-generation", "41"],
        [*transient, unit, f"{SYSTEM}/bin/switch-to-configuration", "boot"],
    ]
    for argv in expected:
        fp.register(argv)
    for word in ("stop", "reset-failed"):
        fp.register(["systemctl", word, "intent-board-dry-activation.service"])
    steps = switch.Switch(host, tmp_path / "log", 60.0)
    done = [
        steps.dry(SYSTEM), steps.set_profile(SYSTEM), steps.activate(SYSTEM), steps.switch_generation(41),
        steps.activate(SYSTEM, "boot"),
    ]  # fmt: skip
    assert [list(one.argv) for one in done] == expected


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (0, "done"),
        (1, "refused"),
        (2, "half switched"),
        (4, "units failed"),
        (11, "lock"),
        (100, "reboot"),
        (101, "unknown"),
        (127, "not there"),
        (3, "unknown"),
        (-9, "unknown"),
    ],
)
def test_every_exit_code_means_what_the_host_facts_say(code: int, words: str) -> None:
    assert words in switch.meaning(Done(("x",), code, "", "", 0.0, 1.0))


@pytest.mark.parametrize(
    ("words", "code", "takes"),
    [
        ("usage: nixos-rebuild [--no-reexec] [--store-path STORE_PATH]\nerror: --store-path is for switch", 2, True),
        ("usage: nixos-rebuild\nnixos-rebuild: error: unrecognized arguments: --no-reexec --store-path", 2, False),
        ("/run/current-system/sw/bin/nixos-rebuild: unknown option '--store-path'", 1, False),
        ("Generation 1", 0, False),
    ],
)
def test_an_older_nixos_rebuild_is_recognised(fp: FakeProcess, host: Host, words: str, code: int, takes: bool) -> None:
    argv = ["nixos-rebuild", "list-generations", "--no-reexec", "--store-path", "/nonexistent"]
    fp.register(argv, stderr=words, returncode=code)
    assert switch.has_store_path(host) is takes


def test_a_missing_program_is_said_and_not_raised(host: Host, tmp_path: Path) -> None:
    bare = replace(host, search_path=str(tmp_path))
    assert not switch.has_store_path(bare)
    done = switch.Switch(bare, tmp_path / "log", 5.0).rebuild(SYSTEM)
    assert done.exit_code == 127 and "nixos-rebuild" in done.log
    assert systemd.failed_units(bare) is None


def test_failed_units_are_read_by_name_and_never_guessed(fp: FakeProcess, host: Host) -> None:
    argv = ["systemctl", "list-units", "--state=failed", "--plain", "--no-legend", "--full", "--no-pager"]
    fp.register(argv, stdout="b.service loaded failed failed B\ndev-x\\x2dy.mount loaded failed failed\n\n")
    assert systemd.failed_units(host) == ("b.service", "dev-x\\x2dy.mount")
    # While systemd restarts itself it answers nobody; then it does.
    fp.register(argv, returncode=1, occurrences=3)
    fp.register(argv, stdout="c.service loaded failed failed C\n")
    assert systemd.failed_units(host) == ("c.service",)
    fp.register(argv, returncode=1, occurrences=10)
    assert systemd.failed_units(host) is None


def test_somebody_elses_switch_is_waited_for_and_then_refused(fp: FakeProcess, host: Host) -> None:
    argv = ["systemctl", "show", "--property=ActiveState", "--value", f"{switch.SWITCH_UNIT}.service"]
    fp.register(argv, stdout="activating\n")
    fp.register(argv, stdout="inactive\n")
    switch.wait_until_free(replace(host, busy_seconds=5.0))
    fp.register(argv, stdout="active\n")
    with pytest.raises(DeployRefused, match="switched by somebody else") as refused:
        switch.wait_until_free(host)
    assert refused.value.later


def test_what_an_earlier_switch_left_behind_is_cleared(fp: FakeProcess, host: Host) -> None:
    unit = f"{switch.SWITCH_UNIT}.service"
    fp.register(["systemctl", "show", "--property=ActiveState", "--value", unit], stdout="failed\n")
    reset = fp.register(["systemctl", "reset-failed", unit])
    switch.wait_until_free(host)
    assert reset.call_count() == 1


def test_the_dry_activation_is_parsed_into_units() -> None:
    text = (
        "would stop the following units: a.service, b.mount\nwould NOT stop the following changed units: c.service\n"
        "would activate the configuration...\nwould stop the following units as well: d.service\n"
        "would restart systemd\nwould reload the following units: dbus.service\n"
        "would restart the following units: e@1.service\nwould start the following user units: f.service\n"
    )
    assert switch.parse_dry(text) == {
        "stop": ["a.service", "b.mount", "d.service"],
        "start": ["f.service"],
        "restart": ["e@1.service"],
        "reload": ["dbus.service"],
    }
    assert switch.parse_dry("") == {"stop": [], "start": [], "restart": [], "reload": []}


def script(path: Path, text: str) -> list[str]:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return [str(path)]


def test_two_hundred_megabytes_of_output_are_read_and_only_their_end_is_kept(host: Host, tmp_path: Path) -> None:
    noise = "head -c 200000000 /dev/zero | tr '\\0' x"
    before = _peak_kib()
    done = run.run(script(tmp_path / "noisy", f"{noise} >&2; {noise}; echo end >&2"), host, timeout=60)
    assert done.exit_code == 0 and done.log.endswith("end\n") and len(done.log) <= run.TAIL_BYTES
    assert done.cut and len(done.answer) == run.ANSWER_BYTES
    assert _peak_kib() - before < 100_000


def test_a_log_file_that_grows_too_large_starts_again(
    host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "LOG_BYTES", 100_000)
    log = tmp_path / "a.log"
    noise = "for i in 1 2 3 4 5 6; do head -c 1000000 /dev/zero | tr '\\0' x; sleep 0.4; done; echo end"
    done = run.run(script(tmp_path / "noisy", noise), host, timeout=60, log_file=log)
    assert done.log.endswith("end\n") and log.stat().st_size < 4_000_000


def _peak_kib() -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmRSS")).split()[1])


def test_when_the_time_is_over_the_whole_group_ends(host: Host, tmp_path: Path) -> None:
    argv = script(tmp_path / "slow", f"sleep 300 & echo $! > {tmp_path}/pid; wait")
    done = run.run(argv, host, timeout=1.0)
    assert done.timed_out and not done.ok and done.seconds < 10
    assert not _lives(int((tmp_path / "pid").read_text()))


@pytest.mark.parametrize("pipes", ["", "> /dev/null 2>&1"], ids=["with its pipes", "without them"])
def test_what_a_program_leaves_behind_ends_with_it(host: Host, tmp_path: Path, pipes: str) -> None:
    argv = script(tmp_path / "leaves", f"sleep 300 {pipes} & echo $! > {tmp_path}/pid; echo done; exit 3")
    done = run.run(argv, host, timeout=30.0)
    assert (done.exit_code, done.answer, done.timed_out) == (3, "done\n", False)
    assert done.seconds < 3
    assert not _lives(int((tmp_path / "pid").read_text()))


def test_an_answer_is_not_lost_to_somebody_who_holds_its_pipe(
    host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A daemon in a session of its own is in no group of ours; its end is that of the deployer's unit."""
    monkeypatch.setattr(run, "LINGER_SECONDS", 0.5)
    argv = script(tmp_path / "daemon", f"setsid sleep 300 & echo $! > {tmp_path}/pid; echo done; echo why >&2")
    try:
        done = run.run(argv, host, timeout=30.0)
        assert (done.exit_code, done.answer, done.log) == (0, "done\n", "why\n")
        assert done.seconds < 5
    finally:
        os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to run as another user")
@pytest.mark.parametrize(("last", "timed_out"), [("wait", True), ("exit 0", False)])
def test_whatever_another_users_program_started_ends_too(
    host: Host, tmp_path: Path, last: str, timed_out: bool
) -> None:
    """Root without CAP_KILL can signal no other user's process; the ending child becomes that user."""
    pid_file = tmp_path / "pid"
    pid_file.touch()
    pid_file.chmod(0o666)
    for path in [tmp_path, *list(tmp_path.parents)[:2]]:
        path.chmod(path.stat().st_mode | 0o011)
    code = (
        "import sys; from pathlib import Path; from intent_board.deploy import run; "
        "from intent_board.deploy.host import Account, Host; "
        f"done = run.run(['sh', '-c', 'sleep 300 & echo $! > {pid_file}; {last}'], Host(), timeout=3.0, "
        f"account=Account('x', 64203, 64203)); sys.exit(0 if done.timed_out is {timed_out} else 1)"
    )
    drop = ["setpriv", "--bounding-set=-all,+setuid,+setgid", "--inh-caps=-all", "--"]
    subprocess.run([*drop, sys.executable, "-c", code], check=True, timeout=30)
    assert not _lives(int(pid_file.read_text()))


def test_no_process_but_a_child_is_ever_signalled(fp: FakeProcess, host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in has the number of somebody else's process, at worst 1: its "group" would be everybody."""
    signalled: list[int] = []
    monkeypatch.setattr(os, "killpg", lambda group, number: signalled.append(group))
    fp.register(["program"], stdout="done\n")
    assert run.run(["program"], host, timeout=5.0).answer == "done\n"
    assert signalled == []


def _lives(pid: int) -> bool:
    for _ in range(50):
        state = Path(f"/proc/{pid}/stat")
        if not state.exists() or state.read_text().rsplit(")", 1)[1].split()[0] == "Z":
            return False
        time.sleep(0.05)
    return True


def test_nothing_of_the_environment_is_inherited_but_the_path(
    host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("NIX_PATH", "GIT_DIR", "LD_PRELOAD_X", "NIXOS_CONFIG", "CREDENTIALS_DIRECTORY"):
        monkeypatch.setenv(name, "/evil")
    done = run.run(["env"], host, timeout=10)
    assert sorted(line.split("=")[0] for line in done.answer.splitlines()) == ["LC_ALL", "PATH"]


def test_a_health_check_is_asked_until_its_time_is_over(host: Host, tmp_path: Path) -> None:
    argv = script(tmp_path / "health", f"test -e {tmp_path}/up || {{ touch {tmp_path}/up; exit 1; }}")
    (done,) = truth.check_health(host, Deploy(health_checks=(tuple(argv),), health_timeout_seconds=10))
    assert done.ok
    (done,) = truth.check_health(host, Deploy(health_checks=(("false",),), health_timeout_seconds=1))
    assert not done.ok and done.exit_code == 1


def test_a_link_where_a_log_belongs_is_not_followed(host: Host, tmp_path: Path) -> None:
    (tmp_path / "target").write_text("kept")
    (tmp_path / "a.log").symlink_to(tmp_path / "target")
    with pytest.raises(OSError, match="symbolic links"):
        run.run(["true"], host, timeout=5, log_file=tmp_path / "a.log")
    assert (tmp_path / "target").read_text() == "kept"
