"""Records: every line on the disk, none ever changed, torn ones survived; and one deployment at a time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from intent_board.deploy.host import DeployRefused, Host
from intent_board.deploy.record import begin, lock, open_records, records, settle


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(deploy_dir=tmp_path)


def test_lines_are_only_added_and_numbers_only_grow(host: Host) -> None:
    first = begin(host, "a", boot="1")
    first.add("build", output="ü\u2028\n")
    before = first.path.read_bytes()
    first.add("end", outcome="deployed")
    assert first.path.read_bytes().startswith(before)
    assert first.path.stat().st_mode & 0o077 == 0
    second = begin(host, "b-2", boot="1")
    assert [record.number for record in records(host)] == [1, 2] and second.slug == "b-2"
    assert first.find("build") and first.lines()[1]["output"] == "ü\u2028\n"


def test_a_line_that_the_power_cut_off_hurts_nobody(host: Host) -> None:
    record = begin(host, "a", boot="1")
    with record.path.open("ab") as file:
        file.write(b'{"kind": "switch_begins", "path": "/nix/st')
    assert [line["kind"] for line in record.lines()] == ["begin", "damaged"]
    record.add("recover", tries=1)
    assert [line["kind"] for line in record.lines()] == ["begin", "damaged", "recover"]
    assert begin(host, "b", boot="1").number == 2


@pytest.mark.parametrize("raw", [b"[]\n", b"7\n", b'{"kind": 7}\n', b"\xff\xfe\n", b"{}\n", b"\x00" * 4096])
def test_what_is_no_line_is_called_damaged(host: Host, raw: bytes) -> None:
    record = begin(host, "a", boot="1")
    with record.path.open("ab") as file:
        file.write(raw)
    assert [line["kind"] for line in record.lines()] == ["begin", "damaged"]


def test_what_is_settled_is_not_read_again(host: Host) -> None:
    for slug in ("a", "b", "c"):
        begin(host, slug, boot="1")
    settle(host, 2)
    assert [record.slug for record in open_records(host)] == ["c"]
    (host.deploy_dir / "settled").write_text("rubbish")
    assert len(open_records(host)) == 3
    assert begin(host, "d", boot="1").number == 4


def test_a_planted_file_is_not_written_through(host: Host, tmp_path: Path) -> None:
    (tmp_path / "records").mkdir()
    (tmp_path / "target").touch()
    (tmp_path / "records/000001-a.jsonl").symlink_to(tmp_path / "target")
    (tmp_path / "records/notes.txt").write_text("x")
    record = begin(host, "a", boot="1")
    assert record.number == 2 and (tmp_path / "target").read_bytes() == b""


def test_a_full_disk_is_refused_before_anything_else_happens(host: Host) -> None:
    record = begin(host, "a", boot="1")
    record.path.unlink()
    record.path.symlink_to("/dev/full")
    with pytest.raises(DeployRefused, match="cannot be written"):
        record.add("switch_begins", path="x")


def test_one_deployment_at_a_time_and_the_holder_is_named(host: Host) -> None:
    refusal = pytest.raises(DeployRefused, match="neue-seite")
    with lock(host, {"slug": "neue-seite"}), refusal as refused, lock(host, {"slug": "b"}):
        pass
    assert refused.value.later and str(os.getpid()) in str(refused.value)
    with lock(host, {"slug": "b"}):
        assert json.loads((host.deploy_dir / "lock").read_text())["slug"] == "b"


def test_the_lock_of_a_killed_deployer_is_free_but_not_while_its_switch_runs(host: Host) -> None:
    code = (
        "import subprocess, sys, time\n"
        "from pathlib import Path\n"
        "from intent_board.deploy.host import Host\n"
        "from intent_board.deploy.record import lock\n"
        f"with lock(Host(deploy_dir=Path({str(host.deploy_dir)!r})), {{'slug': 'a'}}) as held:\n"
        "    child = subprocess.Popen(['sleep', '60'], pass_fds=(held,), start_new_session=True)\n"
        "    print(child.pid, flush=True)\n"
        "    time.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as deployer:
        assert deployer.stdout is not None
        switch = int(deployer.stdout.readline())
        deployer.kill()
        deployer.wait()
    with pytest.raises(DeployRefused, match="another deployment"), lock(host, {"slug": "b"}):
        pass
    os.kill(switch, 9)
    deadline = time.monotonic() + 10
    while True:
        try:
            with lock(host, {"slug": "b"}):
                return
        except DeployRefused:
            assert time.monotonic() < deadline
            time.sleep(0.05)
