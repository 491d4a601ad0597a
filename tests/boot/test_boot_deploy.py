"""The deployer in its own unit, under a real systemd and with a real Nix: the switch that it makes replaces its unit,
restarts systemd, and ends neither it nor anybody's work; a power cut in the middle is made good.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from typing import Any

import boot_deploy
import boot_tree
import pytest
from boot_machine import Machine, machine, until

UNIT = "intent-board-deploy.service"
WORKER = "intent-board-worker-operator-0.service"
SWITCH = "nixos-rebuild-switch-to-configuration.service"
PYTHON = boot_tree.VENV / "bin/python"
PROGRAM = boot_tree.VENV / "bin/board-deploy"


class Deployed:
    """A booted host with a first deployment, and short words for more."""

    def __init__(self, host: Machine) -> None:
        self.host = host
        self.count = 0

    def card(self, behaviour: str = "") -> tuple[str, str]:
        """A card whose commit behaves so, ready; its bell rings.  Returns the slug and the mark of its units."""
        self.count += 1
        slug, mark = f"card-{self.count}", str(self.count)
        commit = self.host.run("/srv/commit", behaviour, mark).strip()
        self.host.run(PYTHON, "/srv/board.py", "ready", slug, commit, user="intent-board")
        return slug, mark

    def of(self, slug: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.host.run(PYTHON, "/srv/board.py", "card", slug, user="intent-board"))
        return found

    def until(self, slug: str, phase: str, seconds: float = 90) -> dict[str, Any]:
        try:
            until(lambda: self.of(slug)["phase"] == phase, f"{slug} in {phase}", seconds, every=0.5)
        except AssertionError:
            print(self.of(slug), self.host.journal(UNIT, "intent-board-deploy-recover.service"))
            raise
        return self.of(slug)

    def links(self) -> set[str]:
        told = self.host.run("readlink", "-f", "/run/current-system", "/nix/var/nix/profiles/system")
        return set(told.split())

    def switches(self, path: str) -> int:
        return self.host.path("/var/log/activations").read_text().count(f"switch {path}\n")

    def switching(self) -> None:
        """Wait for the middle of a switch: the new system is activated, its units are not yet restarted."""
        until(lambda: self.host.try_("systemctl", "is-active", SWITCH).returncode == 0, "the switch", 60)
        until(lambda: len(self.links()) == 1, "the link of the running system", 30)
        # systemd restarts itself, and is asked nothing meanwhile.
        time.sleep(1)

    def records(self) -> list[list[dict[str, Any]]]:
        folder = self.host.path("/var/lib/intent-board-deploy/records")
        return [[json.loads(line) for line in file.read_text().splitlines()] for file in sorted(folder.glob("*.jsonl"))]


@pytest.fixture(scope="module")
def blunix_to_deploy() -> Iterator[Deployed]:
    if os.environ.get("CI") != "true" and not os.environ.get("INTENT_BOARD_BOOT"):
        pytest.skip("A REAL SYSTEMD: takes minutes and root; tests/boot/run boots it")
    if reason := boot_tree.missing():
        pytest.skip(f"A REAL SYSTEMD: {reason}")
    with machine() as host:
        boot_deploy.furnish(host.root)
        host.boot()
        made = Deployed(host)
        slug, _ = made.card()
        # The unit refuses a host of which nothing is known; a person begins.
        assert "--first" in made.until(slug, "klaerung_reparatur")["reason"]
        host.run(PROGRAM, "--first", slug)
        assert made.of(slug)["phase"] == "deployed"
        yield made


def test_the_switch_replaces_the_deployers_own_unit_and_ends_neither_it_nor_a_worker(
    blunix_to_deploy: Deployed,
) -> None:
    it, host = blunix_to_deploy, blunix_to_deploy.host
    job = "ExecStart=\nExecStart=/bin/sh -c 'sleep 20; touch /var/lib/intent-board/worker-done'"
    host.drop_in(WORKER, job)
    host.run("systemctl", "start", WORKER)
    worker = host.show(WORKER, "MainPID")["MainPID"]
    slug, mark = it.card("SLEEP=3")

    it.switching()
    deployer = host.show(UNIT, "MainPID", "ActiveState", "NRestarts")
    card = it.until(slug, "deployed")

    assert deployer["ActiveState"] == "active" and deployer["MainPID"] != "0"
    assert (card["status"], card["jobs"]) == ("succeeded", ["done"])
    # Not 0 when this bell came while the unit was about to be started again after the refusal before.
    assert host.show(UNIT, "Description", "Result", "NRestarts") == {
        "Description": f"generation {mark}", "Result": "success", "NRestarts": deployer["NRestarts"],
    }  # fmt: skip
    assert host.show(WORKER, "Description", "MainPID") == {"Description": f"generation {mark}", "MainPID": worker}
    until(lambda: host.path("/var/lib/intent-board/worker-done").exists(), "the worker's job", 30)
    host.drop_in(WORKER, None)
    kinds = [line["kind"] for line in it.records()[-1]]
    assert kinds.count("switch_begins") == 1 and kinds[-2:] == ["end", "reported"]


def test_a_bad_generation_goes_back_within_the_unit(blunix_to_deploy: Deployed) -> None:
    it, host = blunix_to_deploy, blunix_to_deploy.host
    good = it.links()
    host.run("sh", "-c", "cp /srv/nixos/units/web.service /srv/web")
    host.run("sed", "-i", "s/^ExecStart=.*/ExecStart=false/", "/srv/nixos/units/web.service")
    slug, _ = it.card()
    card = it.until(slug, "klaerung_reparatur")
    host.run("cp", "/srv/web", "/srv/nixos/units/web.service")
    assert card["status"] == "deploy_failed" and "web.service" in card["reason"], card
    assert it.links() == good
    assert it.records()[-1][-2]["outcome"] == "rolled_back"
    assert host.try_("systemctl", "is-active", "web.service").stdout.strip() == "active"


def test_a_deployer_that_is_killed_in_its_switch_finishes_it(blunix_to_deploy: Deployed) -> None:
    it, host = blunix_to_deploy, blunix_to_deploy.host
    slug, mark = it.card("SLEEP=8")
    it.switching()
    host.run("systemctl", "kill", "--signal=KILL", UNIT)
    # The activation is a unit of its own and goes on.
    assert host.try_("systemctl", "is-active", SWITCH).returncode == 0
    it.until(slug, "deployed")
    (path,) = it.links()
    assert host.show(UNIT, "Description")["Description"] == f"generation {mark}"
    assert it.switches(path) == 2, "nobody saw the first one end, so the same path was switched to again, once"


def test_after_a_power_cut_in_the_switch_the_boot_is_judged(blunix_to_deploy: Deployed) -> None:
    it, host = blunix_to_deploy, blunix_to_deploy.host
    slug, _ = it.card("SLEEP=60")
    it.switching()
    time.sleep(1)
    host.power_cut()
    host.boot()
    card = it.until(slug, "deployed")
    (path,) = it.links()
    assert card["jobs"] == ["done"] and it.switches(path) == 1
    record = it.records()[-1]
    assert [line["kind"] for line in record if line["kind"] in ("recover", "switch", "truth", "end")] == [
        "recover", "truth", "end",
    ]  # fmt: skip


def test_root_owns_nothing_among_the_boards_files(blunix_to_deploy: Deployed) -> None:
    host = blunix_to_deploy.host
    for folder, user in (("intent-board", "intent-board"), ("intent-board-build", "intent-board-deploy")):
        told = host.run("find", f"/var/lib/{folder}", "!", "-user", user)
        assert told == ""
    assert host.run("stat", "-c", "%a %U", "/var/lib/intent-board-deploy").split() == ["700", "root"]


def test_the_deployers_exposure_stays_low(blunix_to_deploy: Deployed) -> None:
    told = blunix_to_deploy.host.try_("systemd-analyze", "security", "--no-pager", "--threshold=23", UNIT)
    assert told.returncode == 0, told.stdout[-300:]
