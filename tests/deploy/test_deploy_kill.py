"""`kill -9` between any two effects of a deployment, a power cut, and what `--recover` makes of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from scratch_host import SYSTEMCTL, FakeBoard, Machine

from intent_board import boundaries
from intent_board.deploy import DeployRefused, Flags, Outcome, deploy_blunix, recover, service
from intent_board.deploy.record import records

pytestmark = pytest.mark.faults
SCRIPT = Path(__file__).with_name("scratch_host.py")


def run(machine: Machine, *what: str, kill_at: int = 0) -> tuple[int, list[str], list[str]]:
    """One deployer in a process of its own.  Returns its exit code, what it reported and the boundaries it passed."""
    passed = machine.root / "boundaries"
    passed.unlink(missing_ok=True)
    variables = {boundaries.FILE_VARIABLE: str(passed), boundaries.KILL_VARIABLE: str(kill_at)}
    done = subprocess.run(
        [sys.executable, str(SCRIPT), str(machine.root), *what],
        env=os.environ | variables, check=False, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode in (0, -9), done.stderr
    names = passed.read_text().splitlines() if passed.exists() else []
    return done.returncode, json.loads(done.stdout) if done.returncode == 0 else [], names


def prove_consistent(machine: Machine) -> None:
    """Every record has exactly one end, which the store knows, and the host is not between two systems."""
    for record in records(machine.host()):
        kinds = [line["kind"] for line in record.lines()]
        assert kinds.count("end") == 1 and "reported" in kinds and "damaged" not in kinds, kinds
    assert machine.current == machine.profile


def prepare(machine: Machine, board: FakeBoard, **behaviour: str) -> str:
    """A host with a known system and a card to deploy.  Returns the path that runs."""
    commit = machine.commit()
    board.card("base", commit)
    code, reports, _ = run(machine, "deploy", "base", "first")
    assert (code, reports) == (0, ["deployed"])
    return machine.current


@pytest.mark.parametrize(("power_cut", "first"), [(False, 1), (True, 8)], ids=["killed", "power cut in the switch"])
def test_a_good_deployment_that_is_killed_anywhere_gets_there(
    machine: Machine, board: FakeBoard, power_cut: bool, first: int
) -> None:
    old = prepare(machine, board)
    met, kill_at = [], first - 1
    while True:
        kill_at += 1
        slug = f"card-{kill_at}"
        board.card(slug, machine.commit())
        code, _, names = run(machine, "deploy", slug, kill_at=kill_at)
        if code == 0:
            break
        met.append(names[-1])
        if power_cut:
            machine.reboot()
        _, reports, _ = run(machine, "recover")
        prove_consistent(machine)
        card = board.read()["cards"][slug]
        if card["phase"] != "deployed":
            # Nothing had been changed, so it begins anew.
            assert reports == ["interrupted"] and machine.current == old, (names, reports)
            assert run(machine, "deploy", slug)[1] == ["deployed"]
        switches = [line for line in machine.activations() if line == f"switch {machine.current}"]
        assert machine.current != old and len(switches) <= 2, (names, switches)
        old = machine.current
    assert len(met) == len(set(met)) == 14 - first, met
    assert {"deploy: switch announced", "deploy: switched", "deploy: end recorded"} <= set(met)


def test_a_bad_deployment_that_is_killed_anywhere_goes_back(machine: Machine, board: FakeBoard) -> None:
    old = prepare(machine, board)
    generation = machine.generation
    met, kill_at = [], 0
    while True:
        kill_at += 1
        slug = f"card-{kill_at}"
        board.card(slug, machine.commit(SICK="1"))
        code, _, names = run(machine, "deploy", slug, kill_at=kill_at)
        if code == 0:
            break
        met.append(names[-1])
        _, reports, _ = run(machine, "recover")
        prove_consistent(machine)
        assert machine.current == old and machine.generation == generation, names
        if reports == ["interrupted"]:
            assert run(machine, "deploy", slug)[1] == ["rolled_back"]
        assert board.read()["cards"][slug]["status"] == "deploy_failed", (names, reports)
    assert {"deploy: rollback announced", "deploy: profile put back", "deploy: rolled back"} <= set(met)


def test_a_recovery_that_is_killed_is_recovered(machine: Machine, board: FakeBoard) -> None:
    prepare(machine, board)
    board.card("card", machine.commit())
    names = run(machine, "deploy", "card", kill_at=9)[2]
    assert names[-1] == "deploy: switched", names
    for kill_at in (1, 2):
        assert run(machine, "recover", kill_at=kill_at)[0] == -9
    assert run(machine, "recover")[1] == ["deployed"]
    prove_consistent(machine)


def test_a_switch_that_is_interrupted_again_and_again_goes_back(machine: Machine, board: FakeBoard) -> None:
    old = prepare(machine, board)
    board.card("card", machine.commit())
    assert run(machine, "deploy", "card", kill_at=9)[2][-1] == "deploy: switched"
    for _ in range(3):
        code, _, names = run(machine, "recover", kill_at=2)
        assert (code, names[-1]) == (-9, "deploy: switched")
    assert run(machine, "recover")[1] == ["rolled_back"]
    assert machine.current == machine.profile == old


def test_an_activation_that_outlived_its_deployer_is_waited_for(machine: Machine, board: FakeBoard) -> None:
    prepare(machine, board)
    board.card("card", machine.commit())
    assert run(machine, "deploy", "card", kill_at=9)[2][-1] == "deploy: switched"
    unit = machine.root / "switch-unit"
    # It is over after the third look.
    unit.write_text("active\n")
    machine.script("systemctl", SYSTEMCTL.format(root=machine.root).replace(
        f"show) cat {unit}", f"show) cat {unit}; echo >> {unit}.asked; "
        f"test $(wc -l < {unit}.asked) -lt 3 || echo inactive > {unit}"))  # fmt: skip
    assert run(machine, "recover")[1] == ["deployed"]
    assert len(Path(f"{unit}.asked").read_text()) >= 4
    prove_consistent(machine)


def test_a_deployment_that_never_gets_anywhere_fails(machine: Machine, board: FakeBoard) -> None:
    prepare(machine, board)
    board.card("card", machine.commit())
    found = []
    for _ in range(4):
        assert run(machine, "deploy", "card", kill_at=4)[0] == -9
        found += run(machine, "recover")[1]
    assert found == ["interrupted"] * 3 + ["failed"]
    assert board.read()["cards"]["card"]["status"] == "deploy_failed"


def test_somebody_elses_switch_in_between_is_not_undone(machine: Machine, board: FakeBoard) -> None:
    prepare(machine, board)
    board.card("card", machine.commit())
    assert run(machine, "deploy", "card", kill_at=9)[2][-1] == "deploy: switched"
    machine.nix("nix-env", "-p", str(machine.root / "profiles/system"), "--set", machine.old_path)
    machine.reboot()
    reports = recover(machine.config, host=machine.host())
    assert [report.outcome for report in reports] == [Outcome.FAILED] and "somebody else" in reports[0].sentence
    assert machine.current == machine.old_path


def test_a_line_that_the_power_cut_off_is_recovered_from(machine: Machine, board: FakeBoard) -> None:
    prepare(machine, board)
    board.card("card", machine.commit())
    assert run(machine, "deploy", "card", kill_at=10)[0] == -9
    record = records(machine.host())[-1]
    record.path.write_bytes(record.path.read_bytes()[:-40])
    machine.reboot()
    assert run(machine, "recover")[1] == ["deployed"]
    assert "damaged" in [line["kind"] for line in record.lines()]


def test_what_the_store_was_not_told_is_told_later(
    machine: Machine, board: FakeBoard, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A generation that migrated the store: the old deployer records, and whoever comes next hands it over."""
    board.card("card", machine.commit())

    def deaf(*words: object) -> None:
        raise DeployRefused("the store needs a newer package")

    with monkeypatch.context() as patch:
        patch.setattr(service, "tell", deaf)
        (report,) = deploy_blunix(machine.config, "card", flags=Flags(first=True), host=machine.host())
    assert report.outcome is Outcome.DEPLOYED and board.told() == []
    assert "newer package" in records(machine.host())[-1].lines()[-1]["why"]
    assert recover(machine.config, host=machine.host()) == []
    assert [told["outcome"] for told in board.told()] == ["deployed"]
    prove_consistent(machine)


def test_recover_with_nothing_to_do_does_nothing(machine: Machine, board: FakeBoard) -> None:
    prepare(machine, board)
    before = machine.activations()
    assert run(machine, "recover")[1] == []
    assert machine.activations() == before
    assert deploy_blunix(machine.config, host=machine.host()) == []
