"""A mirror's many small files are rolled up, and nothing that anybody may still need is let go."""

from __future__ import annotations

import hashlib
import os
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from workspace_bench import Bench, git

from intent_board.workspace import WorkspaceError, mirror
from intent_board.workspace.files import lock
from intent_board.workspace.git import Git, Output
from intent_board.workspace.objects import moving


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """A handful of files counts as many."""
    monkeypatch.setattr(mirror, "PACKS", 3)


def packs(bench: Bench) -> list[Path]:
    return sorted((bench.mirror / "objects" / "pack").glob("*.pack"))


def loose(bench: Bench) -> list[Path]:
    return list((bench.mirror / "objects").glob("[0-9a-f][0-9a-f]/*"))


def objects(bench: Bench) -> set[str]:
    listing = git("cat-file", "--batch-all-objects", "--batch-check=%(objectname)", cwd=bench.mirror)
    return set(listing.splitlines())


def small_packs(bench: Bench, count: int) -> None:
    """Packs as many fetches leave them, each with one object that nothing reaches."""
    for number in range(count):
        text = f"{bench.mirror}{number}\n{time.time_ns()}"
        made = subprocess.run(
            ["git", "--git-dir", str(bench.mirror), "hash-object", "-w", "--stdin"],
            input=text, capture_output=True, text=True, check=True,
        ).stdout.strip()  # fmt: skip
        subprocess.run(
            ["git", "--git-dir", str(bench.mirror), "pack-objects", "-q", str(bench.mirror / "objects/pack/pack")],
            input=made, capture_output=True, text=True, check=True,
        )  # fmt: skip
        (bench.mirror / "objects" / made[:2] / made[2:]).unlink()


def test_small_packs_become_few_and_every_object_stays(bench: Bench) -> None:
    base = bench.write({"a": "a\n"})
    tree, tip = bench.clone()
    (tree / "b").write_text("work\n")
    made = bench.commit(base)  # accepted, not published: no ref of the mirror reaches it
    small_packs(bench, 5)
    before = objects(bench)
    reader = subprocess.Popen(
        ["git", "--git-dir", str(tree / ".git"), "cat-file", "--batch"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert reader.stdin is not None and reader.stdout is not None
    reader.stdin.write(f"{tip}\n".encode())
    reader.stdin.flush()
    assert tip.encode() in reader.stdout.readline()
    bench.workspace.fetch("code")
    assert objects(bench) == before and made.hash in before
    assert len(packs(bench)) <= 2 and loose(bench) == []
    # One that had begun to read before goes on, also with what it had not read yet.
    out, _ = reader.communicate(f"{made.hash}\n{base}\n".encode(), timeout=20)
    assert b"missing" not in out
    assert git("fsck", "--full", "--strict", "--no-dangling", cwd=bench.mirror) == ""
    assert git("log", "-1", "--format=%H", cwd=tree) == tip and git("fsck", "--no-dangling", cwd=tree) == ""
    assert bench.workspace.publish("code", "main", made.hash, base=base).tip == made.hash


def test_a_mirror_of_few_files_stays_as_it_is_and_one_of_many_is_rolled_up_once_a_day(bench: Bench) -> None:
    bench.write({"a": "a\n"})
    bench.workspace.fetch("code")
    small_packs(bench, 2)
    before = packs(bench)
    bench.workspace.fetch("code")
    assert packs(bench) == before and not (bench.mirror / "rolled-up").exists()
    small_packs(bench, 4)
    bench.workspace.fetch("code")
    assert len(packs(bench)) <= 2
    small_packs(bench, 4)
    bench.workspace.fetch("code")
    assert len(packs(bench)) > 3
    # Yesterday's time, and one that a clock that was set back since has left.
    for stamp in (1, 4_000_000_000):
        small_packs(bench, 4)
        os.utime(bench.mirror / "rolled-up", (stamp, stamp))
        bench.workspace.fetch("code")
        assert len(packs(bench)) <= 2


def test_a_mirror_that_takes_no_stamp_is_fetched_all_the_same(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(self: Path, *_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    bench.write({"a": "a\n"})
    bench.workspace.fetch("code")
    small_packs(bench, 4)
    monkeypatch.setattr(Path, "touch", full)
    assert bench.workspace.fetch("code") == "main"
    assert "No space left on device" in caplog.text


def test_many_loose_objects_are_packed(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mirror, "LOOSE", 0)
    bench.write({f"file-{number}": f"{number}\n" for number in range(90)})
    tip = bench.workspace.tip("code", bench.workspace.fetch("code"))
    text = next(f"{number}" for number in range(10_000) if _name(f"{number}").startswith("17"))
    git("hash-object", "-w", str(_file(bench.root / "text", text)), cwd=bench.mirror)
    before = objects(bench)
    assert len(loose(bench)) > 50
    bench.workspace.fetch("code")
    assert loose(bench) == [] and objects(bench) == before and tip in before


def _name(text: str) -> str:
    return hashlib.sha1(b"blob %d\0%b" % (len(text), text.encode())).hexdigest()


def _file(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def test_a_mirror_that_can_not_be_rolled_up_is_said_and_holds_up_nothing(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    tip = bench.write({"a": "a\n"})
    bench.workspace.fetch("code")
    small_packs(bench, 4)
    broken = packs(bench)[0]
    broken.chmod(0o644)
    broken.write_bytes(b"no pack")
    assert bench.workspace.fetch("code") == "main"
    assert bench.workspace.tip("code", "main") == tip
    assert "stays in many small files" in caplog.text
    left = bench.mirror / "objects" / "pack" / ".tmp-17-pack-abc.pack"
    left.write_bytes(b"of one that was killed")
    os.utime(left, (1, 1))
    bench.workspace.fetch("code")
    assert not left.exists()


def test_the_files_do_not_stand_still_while_a_packer_outlives_its_worker(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.write({"a": "a\n"})
    bench.workspace.fetch("code")
    small_packs(bench, 4)
    left: list[subprocess.Popen[bytes]] = []
    run = Git.run

    def outlived(self: Git, *argv: str, **more: Any) -> Output:
        if argv[0] != "repack":
            return run(self, *argv, **more)
        left.append(subprocess.Popen(["sleep", "60"], pass_fds=self.held))
        raise WorkspaceError("failed", "its worker is gone")

    monkeypatch.setattr(Git, "run", outlived)
    bench.workspace.fetch("code")
    try:
        with pytest.raises(WorkspaceError, match="is held by"), lock(bench.mirror / "moving", timeout=0):
            pass
    finally:
        for process in left:
            process.kill()
            process.wait()
    with lock(bench.mirror / "moving", timeout=5):
        assert len(left) == 1


def test_a_commit_waits_until_the_files_stand_still(bench: Bench) -> None:
    base = bench.write({"a": "a\n"})
    tree, _ = bench.clone()
    (tree / "b").write_text("work\n")
    done: list[str] = []
    worker = threading.Thread(target=lambda: done.append(bench.commit(base).hash))
    with moving(bench.mirror):
        worker.start()
        worker.join(0.5)
        assert done == []
    worker.join(20)
    assert done and done[0] in objects(bench)
