"""board-deploy as people and units call it: what it takes, what it refuses, and the dry run for everybody."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from scratch_host import PRELUDE, SERVICE, FakeBoard, Machine, git

from intent_board.cli import deploy as command
from intent_board.deploy import Flags, Host, Outcome, Report, deploy_blunix
from intent_board.deploy.host import DeployRefused
from intent_board.deploy.rehearsal import dry_run


def call(*arguments: str) -> Result:
    return CliRunner().invoke(command.main, list(arguments))


@pytest.mark.parametrize(
    "arguments",
    [
        ("--config", "/tmp/board.toml", "card"),
        ("--config", "/tmp/board.toml"),
        ("--first",),
        ("--allow-older",),
        ("--dry-run",),
        ("--recover", "card"),
        ("card", "another"),
        ("--host", "tnix", "card"),
        ("--target-host", "root@tnix", "card"),
        ("HEAD~1/x",),
        ("card\n",),
        ("../card",),
        ("a" * 62,),
        ("",),
        ("--rollback",),
    ],
)
def test_nothing_but_a_slug_can_be_said(arguments: tuple[str, ...]) -> None:
    result = call(*arguments)
    assert result.exit_code == 2, result.output


def test_only_root_deploys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    for arguments in (("card",), (), ("--recover",)):
        result = call(*arguments)
        assert result.exit_code == 1 and "only root deploys" in result.output


def test_the_environment_names_no_configuration(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    if Path("/etc/intent-board/board.toml").exists():
        pytest.skip("this machine has a board of its own")
    other = tmp_path / "board.toml"
    other.write_text('[board]\nowner = "x"\n')
    monkeypatch.setenv("INTENT_BOARD_CONFIG", str(other))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    result = call("card")
    assert result.exit_code == 1 and "/etc/intent-board/board.toml" in result.output


def answered(monkeypatch: pytest.MonkeyPatch, outcome: Outcome | DeployRefused, *arguments: str) -> int:
    """The exit code when a deployment comes to this."""

    def deploy(config: object, slug: str | None = None, **more: Any) -> list[Report]:
        if isinstance(outcome, DeployRefused):
            raise outcome
        return [Report("card", outcome, "a\x1b[31m sentence", 7)]

    monkeypatch.setattr(command, "deploy_blunix", deploy)
    monkeypatch.setattr(command, "recover", deploy)
    monkeypatch.setattr(command, "prove_configuration", lambda host: None)
    monkeypatch.setattr(command, "load", lambda path: None)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    result = call(*arguments)
    assert "\x1b" not in result.output
    return result.exit_code


@pytest.mark.parametrize(
    ("outcome", "alone", "named"),
    [
        (Outcome.DEPLOYED, 0, 0),
        (Outcome.ALREADY, 0, 0),
        (Outcome.BUSY, 0, 1),
        (Outcome.INTERRUPTED, 0, 1),
        (Outcome.REFUSED, 1, 1),
        (Outcome.FAILED, 1, 1),
        (Outcome.ROLLED_BACK, 1, 1),
        (Outcome.ROLLBACK_FAILED, 1, 1),
    ],
)
def test_exit_codes(monkeypatch: pytest.MonkeyPatch, outcome: Outcome, alone: int, named: int) -> None:
    assert answered(monkeypatch, outcome) == alone
    assert answered(monkeypatch, outcome, "card") == named
    assert answered(monkeypatch, outcome, "--json", "card") == named


def test_a_deployment_that_runs_is_no_failure_of_a_unit(monkeypatch: pytest.MonkeyPatch) -> None:
    busy = DeployRefused("another deployment is running", later=True)
    assert answered(monkeypatch, busy) == 0
    assert answered(monkeypatch, busy, "--recover") == 0
    assert answered(monkeypatch, busy, "card") == 1
    assert answered(monkeypatch, DeployRefused("no user")) == 1


# --- the dry run -----------------------------------------------------------------------------------------------


def checks(machine: Machine, slug: str = "card", **host: Any) -> dict[str, tuple[bool | None, str]]:
    found = dry_run(machine.config, slug, host=machine.host(**host), real=True)
    return {check.name: (check.ok, check.text) for check in found}


def test_a_dry_run_says_what_speaks_for_it_and_changes_nothing(machine: Machine, board: FakeBoard) -> None:
    commit = machine.commit()
    board.card("card", commit)
    found = checks(machine)
    assert {name: ok for name, (ok, _) in found.items()} == {
        "host": True, "window": True, "nixos-rebuild": True, "evidence": True, "commit": True, "deployed": False,
    }  # fmt: skip
    assert commit in found["evidence"][1] and "--first" in found["deployed"][1]
    assert not (machine.root / "deploy/records").exists() and board.told() == []
    assert machine.current == machine.profile == machine.old_path and machine.activations() == []

    deploy_blunix(machine.config, "card", flags=Flags(first=True), host=machine.host())
    board.card("next", machine.commit())
    assert all(ok for ok, _ in checks(machine, "next").values())


def test_a_dry_run_gives_every_reason_at_once(machine: Machine, board: FakeBoard) -> None:
    board.card("card", "1" * 40, reviews=[], phase="im_review")
    found = checks(machine, hostname=lambda: "pinix")
    assert [name for name, (ok, _) in found.items() if ok is False] == ["host", "evidence"]
    assert "locked" in found["host"][1] and "im_review" in found["evidence"][1] and "no review" in found["evidence"][1]


def test_a_dry_run_by_anybody_says_what_they_may_not_see(machine: Machine) -> None:
    (machine.root / "board").mkdir(mode=0o700)
    os.chown(machine.root / "board", SERVICE.uid, SERVICE.gid)
    code = (
        "import json, sys; from pathlib import Path; from scratch_host import Machine; "
        "from intent_board.deploy.rehearsal import dry_run; "
        "machine = Machine(Path(sys.argv[1]), Path(sys.argv[2])); "
        "found = dry_run(machine.config, 'card', host=machine.host(), real=True); "
        "print(json.dumps([[check.name, check.ok, check.text] for check in found]))"
    )
    drop = ["setpriv", "--reuid=64210", "--regid=64210", "--clear-groups", "--"]
    done = subprocess.run(
        [*drop, sys.executable, "-c", code, str(machine.root), str(machine.store.root)],
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parent)}, check=False, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    host, *_, evidence = json.loads(done.stdout)
    assert host[:2] == ["host", True]
    assert evidence[:2] == ["evidence", None] and "sudo -u" in evidence[2]


def test_a_rehearsal_has_a_board_of_its_own(machine: Machine) -> None:
    """What scripts/rehearse ends with: another configuration, and a store that belongs to whoever asks."""
    (machine.root / "board").mkdir(mode=0o700)
    found = {
        check.name: (check.ok, check.text)
        for check in dry_run(machine.config, "card", host=machine.host(hostname=lambda: "laptop"), real=False)
    }
    assert found["host"][0] is False and "laptop" in found["host"][1]
    assert found["evidence"][0] is False and "no card" in found["evidence"][1]


def test_a_rehearsal_finds_the_commit_on_the_branch_of_its_own_mirror(machine: Machine) -> None:
    commit = machine.commit()
    fetch = PRELUDE + (
        "from intent_board.workspace import Workspace\n"
        "class Nothing:\n    def path(self, name): return None\n"
        "Workspace(store.config, Nothing()).fetch('nixos')\n"
    )
    (machine.root / "board").mkdir(mode=0o700)
    toml = str(machine.root / "etc/intent-board/board.toml")
    subprocess.run([sys.executable, "-c", f"{fetch}ready('card', {commit!r})", toml], check=True)
    found = {check.name: check for check in dry_run(machine.config, "card", host=machine.host(), real=False)}
    assert found["commit"].ok is True and "the board's mirror" in found["commit"].text
    assert found["deployed"].ok is None

    git(machine.root / "remote", "reset", "--quiet", "--hard", "HEAD~1")
    subprocess.run([sys.executable, "-c", fetch, toml], check=True)
    found = {check.name: check for check in dry_run(machine.config, "card", host=machine.host(), real=False)}
    assert found["commit"].ok is False and "is not on" in found["commit"].text


def test_the_command_prints_each_check(monkeypatch: pytest.MonkeyPatch, machine: Machine, board: FakeBoard) -> None:
    board.card("card", machine.commit())
    monkeypatch.setattr(command, "Host", lambda: machine.host())
    result = call("--dry-run", "card")
    assert result.exit_code == 1
    assert "host: ok: this is blunix" in result.output and "deployed: REFUSED" in result.output
    result = call("--dry-run", "--json", "card")
    assert [check["name"] for check in json.loads(result.output)][:2] == ["host", "window"]


def test_help_is_quick_and_opens_no_store() -> None:
    code = "import sys; from intent_board.cli import deploy; print('sqlalchemy' in sys.modules, 'rich' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.split() == ["False", "False"]


def test_the_real_host_is_the_default() -> None:
    host = Host()
    assert str(host.profile) == "/nix/var/nix/profiles/system"
    assert str(host.current_system) == "/run/current-system"
    assert (host.service_user, host.build_user) == ("intent-board", "intent-board-deploy")
    assert replace(host).nix_environment == {"NIX_REMOTE": "daemon"}
