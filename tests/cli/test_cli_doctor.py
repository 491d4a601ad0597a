"""`board doctor`: each fault in one line with what to do, and silence where nothing is wrong."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from intent_board import sandbox
from intent_board.cli import doctor

Program = Callable[[str, str], None]


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Program:
    """Programs of this test, in front of the machine's own."""
    place = tmp_path / "bin"
    place.mkdir()
    monkeypatch.setenv("PATH", f"{place}:{os.environ['PATH']}")

    def make(name: str, text: str) -> None:
        (place / name).write_text(f"#!/bin/sh\n{text}\n")
        (place / name).chmod(0o755)

    return make


@pytest.fixture
def healthy(board: Any, tmp_path: Path, programs: Program, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A board on a host where everything works."""
    programs("systemctl", "exit 1")
    programs("codex", "exit 0")
    monkeypatch.setattr(sandbox, "available", lambda: None)
    subprocess.run(["git", "init", "--quiet", "--bare", tmp_path / "remote.git"], check=True)
    board.write()
    board.file.write_text(board.file.read_text().split("[deploy]")[0].replace("deploy = true\n", ""))
    board.ok("init")
    return board


def change(board: Any, old: str, new: str) -> None:
    text = board.file.read_text()
    assert old in text
    board.file.write_text(text.replace(old, new))


def faults(board: Any) -> str:
    done = board.run("doctor")
    assert done.exit_code == 1, done.output
    return done.stdout


def test_a_healthy_host_gets_one_line(healthy: Any) -> None:
    assert healthy.ok("doctor").startswith("ok (owner, store, sandbox, programs, remotes")


def test_every_check_is_in_the_json(healthy: Any) -> None:
    assert healthy.json("doctor") == {name: [] for name in doctor.CHECKS}


def test_an_owner_who_is_no_user(healthy: Any) -> None:
    change(healthy, f'owner = "{healthy.owner}"', 'owner = "nobody-at-all"')
    assert "owner: 'nobody-at-all' is no user of this host" in faults(healthy)


def test_a_program_that_is_not_there(healthy: Any) -> None:
    with healthy.file.open("a") as file:
        file.write('[runtimes.codex]\nkind = "codex"\ncommand = ["/nowhere/codex"]\n')
    assert "programs: the program /nowhere/codex of runtime codex is not there" in faults(healthy)


def test_no_sandbox(healthy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "available", lambda: "bubblewrap can't start a box; allow user namespaces")
    assert faults(healthy) == "sandbox: bubblewrap can't start a box; allow user namespaces\n"
    change(healthy, "[board]\n", '[board]\nsandbox = "when_available"\n')
    assert "unprotected" in faults(healthy)


def test_a_remote_on_this_host_that_is_gone_or_not_ours(healthy: Any, tmp_path: Path) -> None:
    (tmp_path / "remote.git").rename(tmp_path / "away.git")
    assert "remotes: repository site: " in faults(healthy)
    assert "correct its remote_url" in faults(healthy)


def test_a_remote_that_the_board_may_not_write(healthy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    # Root, as which these tests may run, is refused nowhere.
    monkeypatch.setattr(doctor.os, "access", lambda path, mode: False)
    assert "the service user may not write to" in faults(healthy)


@pytest.fixture
def closed_port() -> int:
    """A port on which nobody listens."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return int(held.getsockname()[1])


def test_a_remote_that_cannot_be_reached(healthy: Any, tmp_path: Path, closed_port: int) -> None:
    change(healthy, f"{tmp_path}/remote.git", f"ssh://git@127.0.0.1:{closed_port}/site.git")
    assert f"remotes: repository site: 127.0.0.1 port {closed_port} cannot be reached (Connection refused)" in faults(
        healthy
    )


def test_a_remote_whose_key_nobody_knows(healthy: Any, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        known = tmp_path / "known_hosts"
        change(
            healthy,
            f'"{tmp_path}/remote.git"',
            f'"ssh://git@127.0.0.1:{port}/site.git"\nknown_hosts = "{known}"',
        )
        assert f"the host keys {known} cannot be read" in faults(healthy)
        known.write_text("elsewhere ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl\n")
        assert f"has no key of [127.0.0.1]:{port}" in faults(healthy)
        known.write_text(known.read_text().replace("elsewhere", f"[127.0.0.1]:{port}"))
        assert healthy.ok("doctor").startswith("ok")


def test_a_remote_that_asks_for_a_key(healthy: Any, tmp_path: Path, programs: Program) -> None:
    programs("git", "echo 'fatal: could not read Username' >&2; exit 128")
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"https://127.0.0.1:{server.getsockname()[1]}/site.git"
        change(healthy, f"{tmp_path}/remote.git", url)
        assert "nobody may read it without a key (fatal: could not read Username); set its fetch_" in faults(healthy)


def test_what_a_program_that_does_not_answer_started_holds_nobody_up(
    healthy: Any, tmp_path: Path, programs: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "REMOTE_SECONDS", 1.0)
    programs("git", f"sleep 300 & echo $! > {tmp_path}/pid; wait")
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"https://127.0.0.1:{server.getsockname()[1]}/site.git"
        change(healthy, f"{tmp_path}/remote.git", url)
        begun = time.monotonic()
        assert "nobody may read it without a key (git did not answer within 1 s)" in faults(healthy)
        assert time.monotonic() - begun < 15
    status = Path(f"/proc/{int((tmp_path / 'pid').read_text())}/stat")
    deadline = time.monotonic() + 5
    # A zombie has ended, too; only nobody has asked yet.
    while status.exists() and status.read_text().rsplit(")", 1)[1].split()[0] != "Z":
        assert time.monotonic() < deadline, "it still runs"
        time.sleep(0.05)


def test_a_nix_daemon_that_refuses(healthy: Any, programs: Program) -> None:
    programs("nix", "echo 'error: opening lock file: Permission denied' >&2; exit 1")
    assert healthy.ok("doctor").startswith("ok")
    change(healthy, 'branch = "main"\n', 'branch = "main"\nnix_daemon = true\n')
    assert "nix daemon: the nix daemon does not serve this user (error: opening lock file" in faults(healthy)
    programs("nix", "exit 0")
    assert healthy.ok("doctor").startswith("ok")


def test_a_host_on_which_nothing_can_be_deployed(healthy: Any) -> None:
    with healthy.file.open("a") as file:
        file.write('[deploy]\nrepository = "site"\nhost = "elsewhere-entirely"\n')
    assert "deployment: nothing can be deployed: " in faults(healthy)


UNIT = "Id=intent-board-{}\nLoadState=loaded\nActiveState={}\nSubState={}\nResult={}\nExecMainStatus={}\n"


def systemctl(programs: Program, tmp_path: Path, *blocks: str, cat: str = "") -> None:
    (tmp_path / "show").write_text("\n".join(blocks))
    (tmp_path / "cat").write_text(cat)
    programs("systemctl", f'cat "{tmp_path}/$1"')


def test_a_unit_whose_credential_is_missing(healthy: Any, programs: Program, tmp_path: Path) -> None:
    name = "worker-review-0.service"
    broken = UNIT.format(name, "activating", "auto-restart", "exit-code", 243)
    systemctl(programs, tmp_path, broken, cat="[Service]\nLoadCredential=openai:/run/secrets/openai\n")
    said = faults(healthy)
    assert f"units: intent-board-{name} fails (exit-code, status 243): a credential is missing" in said
    assert "(/run/secrets/openai)" in said
    note = tmp_path / "state/failures" / f"intent-board-{name}"
    note.parent.mkdir()
    note.write_text("0\tx\n")
    os.utime(note, (time.time() - 120, time.time() - 120))
    assert "last noted 2m" in faults(healthy)


def test_units_that_are_well(healthy: Any, programs: Program, tmp_path: Path) -> None:
    blocks = [
        UNIT.format("scheduler.timer", "active", "waiting", "success", ""),
        UNIT.format("worker-review-0.service", "active", "running", "success", 0),
        "Id=intent-board-other.service\nLoadState=not-found\nActiveState=inactive\nSubState=dead\n",
    ]
    systemctl(programs, tmp_path, *blocks)
    assert healthy.ok("doctor").startswith("ok")


def test_a_scheduler_that_nobody_starts(healthy: Any, programs: Program, tmp_path: Path) -> None:
    systemctl(programs, tmp_path, UNIT.format("scheduler.timer", "inactive", "dead", "success", ""))
    assert "systemctl start intent-board.target" in faults(healthy)


def test_a_store_that_cannot_be_opened(healthy: Any, tmp_path: Path) -> None:
    (tmp_path / "state/board.sqlite3").write_bytes(b"not a store" * 100)
    said = faults(healthy)
    assert said.startswith("store: ")
    assert len(said.splitlines()) == 1


def test_a_disk_that_is_nearly_full(healthy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "LEAST_FREE_BYTES", 1 << 62)
    assert "make room" in faults(healthy)
