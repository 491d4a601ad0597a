"""The units under a real systemd: nothing but path units and the timer moves the board."""

from __future__ import annotations

import json
import os
import re
import statistics
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import boot_tree
import pytest
from boot_machine import BOARD, Machine, until

READY = "bereit_fuer_deployment"
#: What may fail at any time and come back by itself.
WORKER = "intent-board-worker-{}.service"


@pytest.fixture(autouse=True)
def _healthy(blunix: Machine) -> Any:
    """Each test begins and ends with a host on which nothing of the board is failed."""
    assert blunix.failed() == set()
    yield
    until(lambda: not blunix.failed(), "no failed unit", 20)
    paths = json.loads(blunix.run("systemctl", "list-units", "intent-board*.path", "--output=json"))
    assert paths
    assert {unit["active"] for unit in paths} == {"active"}


def submit(blunix: Machine, slug: str, title: str = "Lengths and weights") -> None:
    text = blunix.path("/srv/units.md").read_text().replace("Lengths and weights", title)
    blunix.board("submit", "-", "--slug", slug, stdin=text)


# --- the story -----------------------------------------------------------------------------------------------------


def test_the_store_is_made_before_the_first_worker(blunix: Machine) -> None:
    assert blunix.show("intent-board-migrate.service", "Result")["Result"] == "success"
    store = blunix.path("/var/lib/intent-board/board.sqlite3").stat()
    assert store.st_mode & 0o777 == 0o600
    assert blunix.show("intent-board-worker-operator-0.service", "NRestarts") == {"NRestarts": "0"}


def test_units_alone_carry_a_family_to_its_end(blunix: Machine) -> None:
    begun = time.monotonic()
    submit(blunix, "units")
    blunix.until_phase("units", READY, "klaerung_reparatur", "operator_klaerung_noetig")
    cards = blunix.cards()
    print(f"\nfamily: {time.monotonic() - begun:.1f} s")
    assert {slug: card["phase"] for slug, card in cards.items()} == dict.fromkeys(
        ["units", "units-length", "units-weight", "units-docs", "units-synthese"], READY
    )
    log = blunix.run("git", "-C", "/srv/remote.git", "log", "--format=%s", "main", user="intent-board")
    assert "Lengths" in log
    assert "Weights" in log


def test_agents_ran_in_their_sandbox(blunix: Machine) -> None:
    """`required` would have refused; and no process of theirs is left."""
    assert json.loads(blunix.board("config", "show", "--json"))["board"]["sandbox"] == "required"
    assert "bwrap" not in blunix.run("ps", "-e", "-o", "comm=")
    assert list(blunix.path("/var/lib/intent-board/runs").iterdir()) == []


def test_people_are_told_by_a_unit_of_its_own(blunix: Machine) -> None:
    told = blunix.path("/srv/told")
    until(lambda: told.exists() and "units" in told.read_text(), "the owner told of the family", 20)
    assert blunix.show("intent-board-notify.service", "Result")["Result"] == "success"


# --- Codex ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def model(blunix: Machine) -> Any:
    """The model server on the machine's loopback."""
    if boot_tree.codex_program() is None:
        pytest.skip("Codex is not installed; run once with CI=true to install it with npm")
    for path in (
        boot_tree.HERE / "boot_model.py",
        boot_tree.ROOT / "tests/agents/model_server.py",
        boot_tree.ROOT / "scripts/rehearsal/agent.py",
    ):
        boot_tree.write(blunix.root, f"/srv/model/{path.name}", path.read_text())
    command = ["/usr/bin/python3", "/srv/model/boot_model.py", "/srv/model", "8765"]
    blunix.run("systemd-run", "--unit=model", "--collect", *command)
    until(lambda: blunix.try_("bash", "-c", "exec 3<>/dev/tcp/127.0.0.1/8765").returncode == 0, "model server", 10)
    yield
    blunix.run("systemctl", "stop", "model")


def test_codex_builds_and_reviews_in_its_own_sandbox_inside_ours(blunix: Machine, model: None) -> None:
    intent = "# Intent: Areas\n\n## Goal\n\nlib/area.sh.\n\n## Success criteria\n\n- lib/area.sh is there.\n"
    blunix.board("build", "-", "--slug", "area", "--lane", "mitte", "--scope", "lib/area.sh", stdin=intent)
    blunix.until_phase("area", READY, "klaerung_reparatur", "planung_mit_feedback")
    why = blunix.board("why", "area")
    assert blunix.phase("area") == READY, why + blunix.journal("intent-board-worker-builder-mitte-0.service")
    shown = blunix.run("git", "-C", "/srv/remote.git", "show", "main:lib/area.sh", user="intent-board")
    assert "m2_to_cm2" in shown


# --- bells ---------------------------------------------------------------------------------------------------------


def test_a_lost_ring_costs_at_most_one_tick(blunix: Machine) -> None:
    """The bell is taken away before anybody hears it; the timer finds the work."""
    blunix.run("systemctl", "mask", "--runtime", "--now", "intent-board-worker-operator-0.path")
    blunix.run("systemctl", "stop", "intent-board-worker-operator-0.service")
    submit(blunix, "lost")
    assert blunix.bell("operator-0").exists()
    blunix.bell("operator-0").unlink()
    blunix.run("systemctl", "unmask", "--runtime", "intent-board-worker-operator-0.path")
    begun = time.monotonic()
    blunix.until_phase("lost", "wartet_auf_kinder", seconds=30)
    assert time.monotonic() - begun < 20
    blunix.board("archive", "lost")


def test_a_thousand_rings_leave_every_unit_healthy(blunix: Machine) -> None:
    loop = "for n in $(seq 1000); do : > /var/lib/intent-board/doorbells/split-0; sleep 0.005; done"
    service = WORKER.format("split-0")
    before = blunix.console().count(f"Started {service}")
    with blunix.undisturbed():
        blunix.run("chrt", "--rr", "1", "runuser", "-u", "intent-board", "--", "sh", "-c", loop)
    until(lambda: not blunix.bell("split-0").exists(), "the last ring consumed", 30)
    runs = blunix.console().count(f"Started {service}") - before
    print(f"\n1,000 rings: {runs} runs")
    # Far more than the start limit of a unit that has one (five within ten seconds).
    assert runs > 5
    assert blunix.show("intent-board-worker-split-0.path", "ActiveState")["ActiveState"] == "active"


def test_a_path_unit_that_systemd_gave_up_on_comes_back(blunix: Machine) -> None:
    blunix.run("systemctl", "stop", "intent-board-worker-split-0.path")
    until(
        lambda: blunix.show("intent-board-worker-split-0.path", "ActiveState")["ActiveState"] == "active",
        "the target upholds the path unit",
        15,
    )


def agents(blunix: Machine) -> set[int]:
    """The agent processes, by their number on this side."""
    found = set()
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            try:
                words = (process / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if words[0].startswith(b"/usr/bin/python3") and words[1].endswith(b"boot_agent.py"):
                found.add(int(process.name))
    return found


def started(pid: int) -> float:
    """When a process began, on the monotonic clock, as finely as the kernel says it (a hundredth of a second)."""
    ticks = int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[19])
    since_boot = time.clock_gettime(time.CLOCK_BOOTTIME) - time.monotonic()
    return ticks / os.sysconf("SC_CLK_TCK") - since_boot


def test_from_the_bell_to_the_agent(blunix: Machine) -> None:
    """Median of 20, from the bell to the start of the agent's process in its sandbox: below a second."""
    figures = []
    for n in range(20):
        slug = f"fast-{n}"
        with blunix.undisturbed(), ThreadPoolExecutor() as pool:
            bell = pool.submit(
                until, lambda: blunix.bell("operator-0").exists() and time.monotonic(), "bell", 20, 0.001
            )
            agent = pool.submit(until, lambda: agents(blunix), "agent", 20, 0.01)
            submit(blunix, slug)
            figures.append(started(min(agent.result())) - bell.result())
        blunix.until_phase(slug, "operator_klaerung_noetig", seconds=30)
        until(lambda: not agents(blunix), "the agent's end", 10)
        blunix.board("archive", slug)
    print(f"\nbell to agent: median {statistics.median(figures):.2f} s, worst {max(figures):.2f} s")
    assert statistics.median(figures) < 1.0


# --- accidents -----------------------------------------------------------------------------------------------------


def build(blunix: Machine, slug: str, lane: str = "leicht") -> None:
    """A card that a Builder works on for some seconds, without an Operator."""
    intent = f"# Intent: {slug}\n\n## Success criteria\n\n- `lib/{slug}.sh` is there.\n"
    blunix.board("build", "-", "--slug", slug, "--lane", lane, "--scope", f"lib/{slug}.sh", stdin=intent)


def builder_jobs(blunix: Machine, slug: str) -> list[dict[str, Any]]:
    shown = json.loads(blunix.board("show", slug, "--json"))
    return [one["job"] for one in shown["jobs"] if one["job"]["role"] == "builder"]


def until_at_work(blunix: Machine) -> None:
    until(lambda: agents(blunix), "an agent at work", 30)


def test_a_killed_worker_takes_its_agent_along_and_the_job_is_repeated(blunix: Machine) -> None:
    build(blunix, "slow-kill")
    until_at_work(blunix)
    blunix.run("systemctl", "kill", "--signal=KILL", "--kill-whom=main", WORKER.format("builder-leicht-0"))
    until(lambda: not agents(blunix), "the agent's end", 3)
    blunix.until_phase("slow-kill", READY, "klaerung_reparatur")
    assert blunix.phase("slow-kill") == READY, blunix.board("why", "slow-kill")
    (run,) = builder_jobs(blunix, "slow-kill")
    assert (run["attempt"], run["interruptions"]) == (1, 1)


def test_the_power_cut_in_the_middle_of_a_family(blunix: Machine) -> None:
    text = blunix.path("/srv/units.md").read_text()
    blunix.board("submit", "-", "--slug", "second", "--repository", "second", stdin=text)
    blunix.until_phase("second", "wartet_auf_kinder", seconds=60)
    for cut in range(3):
        until_at_work(blunix)
        time.sleep(0.2 * cut)
        blunix.power_cut()
        seconds = blunix.boot()
        print(f"\npower cut {cut + 1}: booted again in {seconds:.1f} s")
    blunix.until_phase("second", READY, "klaerung_reparatur", "durch_kinder_blockiert")
    cards = {slug: card for slug, card in blunix.cards().items() if slug.startswith("second")}
    assert {slug: card["phase"] for slug, card in cards.items()} == dict.fromkeys(
        ["second", "second-length", "second-weight", "second-docs", "second-synthese"], READY
    ), blunix.board("list", "--all") + "".join(blunix.board("why", slug) for slug in cards)


def test_units_are_replaced_and_a_slot_removed_while_its_job_runs(blunix: Machine) -> None:
    """What a switch does, by hand: new files, a reload, a stop of the units that are gone and may be stopped."""
    build(blunix, "slow-switch")
    until_at_work(blunix)
    place = blunix.path("/etc/systemd/system")
    kept = {path.name: path.read_text() for path in place.glob("intent-board*") if path.is_file()}
    slot = "intent-board-worker-builder-leicht-0"
    for name, text in kept.items():
        if name.startswith(slot):
            (place / name).unlink()
        else:
            lines = [line for line in text.splitlines() if line != f"Upholds={slot}.path"]
            (place / name).write_text("\n".join(lines).replace("Intent board:", "The new intent board:") + "\n")
    blunix.reload()
    for name, text in kept.items():
        if name.startswith(slot) and "X-StopOnRemoval=false" not in text:
            blunix.run("systemctl", "stop", name)
    blunix.run("systemctl", "restart", "intent-board-migrate.service")
    assert agents(blunix)
    blunix.until_phase("slow-switch", READY, "klaerung_reparatur")
    assert blunix.phase("slow-switch") == READY, blunix.board("why", "slow-switch")
    assert [job["interruptions"] for job in builder_jobs(blunix, "slow-switch")] == [0]
    for name, text in kept.items():
        (place / name).write_text(text)
    blunix.reload()
    blunix.run("systemctl", "start", "intent-board.target")


def test_a_worker_told_to_stop_puts_its_job_back(blunix: Machine) -> None:
    build(blunix, "slow-stop")
    until_at_work(blunix)
    begun = time.monotonic()
    blunix.run("systemctl", "stop", WORKER.format("builder-leicht-0"))
    assert time.monotonic() - begun < 20
    assert not agents(blunix)
    blunix.until_phase("slow-stop", READY, "klaerung_reparatur")
    assert blunix.phase("slow-stop") == READY, blunix.board("why", "slow-stop")


def test_a_worker_that_always_fails_is_failed_for_no_longer_than_the_fault(blunix: Machine) -> None:
    """With its bell ringing all the time; neither systemd's start limit nor its trigger limit may end it."""
    service, path = WORKER.format("split-0"), "intent-board-worker-split-0.path"
    blunix.drop_in(service, "ExecStart=\nExecStart=/bin/false\nRestartMaxDelaySec=8")
    blunix.ring("split-0")
    seen = set()
    deadline = time.monotonic() + 25
    while time.monotonic() < deadline:
        seen.add(blunix.show(path, "ActiveState")["ActiveState"])
        time.sleep(0.5)
    tries = int(blunix.show(service, "NRestarts")["NRestarts"])
    print(f"\nalways failing: {tries} restarts in 25 s, path unit {seen}")
    assert seen == {"active"}
    # Neither a hot loop nor the end of it.
    assert 2 <= tries <= 15
    assert blunix.bell("split-0").exists()
    blunix.drop_in(service, "RestartMaxDelaySec=8")
    until(lambda: not blunix.bell("split-0").exists(), "the bell heard once the fault is mended", 20)
    blunix.drop_in(service, None)


def test_a_missing_credential_is_written_down_with_its_remedy(blunix: Machine) -> None:
    """The unit ends with 243 before any code of ours runs; once the file is there, it goes on by itself."""
    service = WORKER.format("repair-0")
    blunix.drop_in(service, "LoadCredential=spare:/etc/secrets/spare")
    blunix.ring("repair-0")
    note = blunix.path(f"/var/lib/intent-board/failures/{service}")
    until(note.exists, "the note of OnFailure", 30)
    assert "243" in note.read_text()
    assert "services.intent-board.credentials" in note.read_text()
    explained = blunix.try_(BOARD, "doctor", user="lukas").stdout
    assert f"units: {service} fails (exit-code, status 243" in explained
    assert "/etc/secrets/spare" in explained
    boot_tree.write(blunix.root, "/etc/secrets/spare", "sk-spare\n", 0o400)
    until(lambda: not blunix.bell("repair-0").exists(), "the bell heard once the credential is there", 60)
    blunix.drop_in(service, None)


def test_the_deployer_hears_its_bell(blunix: Machine) -> None:
    """Root without the right to write other users' files: the service user takes the bell away for it."""
    blunix.ring("deploy-0")
    until(lambda: not blunix.bell("deploy-0").exists(), "the bell of the deployer consumed", 30)
    assert blunix.show("intent-board-deploy-recover.service", "Result")["Result"] == "success"


# --- people --------------------------------------------------------------------------------------------------------


def test_a_member_hands_over_and_only_the_owner_decides(blunix: Machine) -> None:
    text = blunix.path("/srv/units.md").read_text()
    blunix.board("submit", "-", "--slug", "theirs", stdin=text, user="petra")
    card = json.loads(blunix.board("show", "theirs", "--json", user="petra"))["card"]
    assert card["requester"] == "petra"
    assert card["phase"] == "wartet_auf_startfreigabe"
    refused = blunix.try_(BOARD, "accept", "theirs", user="petra")
    assert refused.returncode == 1
    assert "owner" in refused.stderr
    blunix.board("decline", "theirs")
    assert blunix.phase("theirs") == "archiviert"


def test_a_file_is_read_with_the_rights_of_the_one_who_names_it(blunix: Machine) -> None:
    blunix.run("sh", "-c", "umask 077; cp /srv/units.md ~petra/mine.md; chown petra ~petra/mine.md")
    blunix.board("submit", "/home/petra/mine.md", "--slug", "read", user="petra")
    refused = blunix.try_(BOARD, "submit", "/etc/secrets/openai", "--slug", "stolen", user="petra")
    assert refused.returncode != 0
    assert "sk-boot" not in refused.stdout + refused.stderr
    blunix.board("decline", "read")


def test_the_doctor_finds_only_what_this_machine_lacks(blunix: Machine) -> None:
    """It is no NixOS; the store, the sandbox, the programs, the remotes and the units are well."""
    said = blunix.try_(BOARD, "doctor", user="petra")
    assert [line.split(":")[0] for line in said.stdout.splitlines()] == ["deployment"], said
    assert "no NixOS" in said.stdout


def test_a_stranger_is_refused_with_a_reason(blunix: Machine) -> None:
    refused = blunix.try_(BOARD, "list", user="mara")
    assert refused.returncode == 1
    assert "group intent-board" in refused.stderr
    assert blunix.try_("ls", "/var/lib/intent-board", user="mara").returncode != 0


@pytest.mark.parametrize(
    "command",
    [
        ["bash", "-c", "id"],
        [str(boot_tree.VENV / "bin/python"), "-c", "print(1)"],
        [str(boot_tree.VENV / "bin/board-worker"), "operator"],
    ],
)
def test_sudo_allows_a_member_nothing_but_board(blunix: Machine, command: list[str]) -> None:
    refused = blunix.try_("sudo", "-n", "-u", "intent-board", *command, user="lukas")
    assert refused.returncode != 0
    assert refused.stdout == ""


def test_sudo_rs_takes_the_same_rule(blunix: Machine) -> None:
    """The other sudo that NixOS offers, found first on PATH."""
    first = ["env", "PATH=/usr/lib/cargo/bin:/usr/bin:/bin"]
    version = blunix.try_(*first, "sudo", "--version")
    assert "sudo-rs" in (version.stdout + version.stderr).lower()
    assert "units" in blunix.run(*first, BOARD, "list", user="petra")
    refused = blunix.try_(*first, BOARD, "list", user="mara")
    assert refused.returncode == 1
    assert "group intent-board" in refused.stderr
    assert blunix.try_(*first, "sudo", "-n", "-u", "intent-board", "bash", "-c", "id", user="petra").returncode != 0


def test_under_sudo_no_other_board_can_be_named(blunix: Machine) -> None:
    for arguments in (["--config", "/tmp/x.toml", "list"], ["config", "check", "/etc/secrets/openai"]):
        refused = blunix.try_("sudo", "-n", "-u", "intent-board", BOARD, *arguments, user="lukas")
        assert refused.returncode == 1
        assert "under sudo" in refused.stderr
    variable = blunix.try_(
        "sudo", "-n", "INTENT_BOARD_CONFIG=/tmp/x", "-u", "intent-board", BOARD, "list", user="lukas"
    )
    assert variable.returncode != 0


# --- what systemd 257 says of the units ----------------------------------------------------------------------------


def test_this_systemd_takes_every_key(blunix: Machine) -> None:
    """tests/nix asks the systemd at hand; the newer keys are known only here."""
    names = [name.replace("@.", "@example.") for name in boot_tree.rendered()["units"]]
    paths = [f"/etc/systemd/system/{name}" for name in names]
    blunix.path(paths[names.index("intent-board-failed@example.service")]).symlink_to("intent-board-failed@.service")
    said = blunix.try_("systemd-analyze", "verify", "--man=no", *paths)
    assert (said.returncode, said.stderr) == (0, "")
    assert not re.search(r"intent-board.*(Unknown|Failed to parse)", blunix.console())


def test_nothing_idles(blunix: Machine) -> None:
    until(lambda: not agents(blunix), "quiet", 30)
    running = blunix.run("systemctl", "list-units", "intent-board*.service", "--state=running", "--no-legend")
    busy = [line.split()[0] for line in running.splitlines() if "scheduler" not in line]
    assert busy == []
