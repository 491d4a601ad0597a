"""What the world does to a board: full disks, locked files, jumping clocks, gone trees, sleeping workers, crowds."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from faults_stage import OWNER, Stage, git

from intent_board.board.model import JobState, Phase, Status
from intent_board.roles.worker import serve
from intent_board.store import StoreError

pytestmark = pytest.mark.faults


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage.make(tmp_path / "stage")


def wait_for(what: Callable[[], bool], seconds: float = 20.0) -> None:
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, "it never happened"
        time.sleep(0.05)


def ended(pid: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def to_builder(stage: Stage, *slugs: str) -> None:
    """Cards that wait in their builder queue."""
    for slug in slugs:
        stage.store().submit(
            slug=slug, title=slug, intent=f"# Intent: {slug}\n", repository="repo", requester=OWNER,
            event="build_by_hand", data={"acceptance_criteria": ["it is there"], "write_scope": [f"{slug}.txt"]},
        )  # fmt: skip
    assert stage.run(stage.tick) == 0


def serve_one(stage: Stage, queue: str) -> None:
    context = stage.context()
    claim = context.store.claim(queue)
    if claim is not None:
        serve(claim, context)


def phase(stage: Stage, slug: str) -> Phase:
    return stage.store().card(slug).phase


@pytest.mark.parametrize(("reviewed", "rounds"), [(0, [0, 1, 1, 1, 1, 1]), (6, [0, 1, 2, 2, 2, 2])])
def test_cards_that_wait_together_do_not_use_up_one_anothers_rounds(
    stage: Stage, reviewed: int, rounds: list[int]
) -> None:
    slugs = ("a", "b", "c", "d", "e", "f")
    to_builder(stage, *slugs)
    while any(phase(stage, slug) is not Phase.IN_REVIEW for slug in slugs):
        assert stage.run(lambda: stage.work("builder-schwer")) == 0
        assert stage.run(stage.tick) == 0
    # So many are approved while the remote can't be reached.
    for _ in range(reviewed):
        stage.run(lambda: serve_one(stage, "review"))
    # A reviewer as slow as a model: the publisher is always done before the next review begins.
    for _ in range(4 * len(slugs)):
        stage.run(lambda: serve_one(stage, "review"))
        stage.run(lambda: stage.work("publish"))
    cards = [stage.store().card(slug) for slug in slugs]
    assert [card.phase for card in cards] == [Phase.BEREIT] * len(slugs)
    assert [card.publish_rounds for card in cards] == rounds


def test_crowds_of_schedulers_and_workers_do_everything_once(stage: Stage) -> None:
    for slug in ("a", "b", "c"):
        stage.submit(slug)

    def everybody() -> list[int]:
        queues = ("operator", "builder-schwer", "review", "publish")
        workers = [stage.fork(lambda queue=queue: stage.work(queue)) for queue in queues for _ in range(2)]
        return [stage.fork(stage.tick), stage.fork(stage.tick), *workers]

    for _ in range(40):
        assert {ended(pid) for pid in everybody()} == {0}, (stage.top / "log").read_text()
        if stage.quiet():
            break
    remains = stage.remains()
    assert {slug: state[0] for slug, state in remains["phases"].items()} == dict.fromkeys("abc", Phase.BEREIT)
    assert [job[:3] for job in remains["jobs"]] == [
        (slug, role, 1) for slug in "abc" for role in ("builder", "operator", "publish", "reviewer")
    ]
    assert len(remains["branch"]) == 4


def test_a_worker_killed_with_its_agent_leaves_nobody_behind_and_loses_nothing(stage: Stage) -> None:
    to_builder(stage, "asleep")
    worker = stage.fork(lambda: stage.work("builder-schwer"))
    tree = stage.config.state_dir / "trees" / "asleep" / "asleep.txt"
    wait_for(lambda: tree.exists() and stage.store().jobs("asleep")[-1].job.used_iterations == 1)
    os.kill(worker, signal.SIGKILL)
    assert ended(worker) == -signal.SIGKILL
    wait_for(lambda: not stage.processes())
    assert stage.run(stage.tick) == 0
    job = stage.store().jobs("asleep")[-1].job
    assert (job.state, job.interruptions, job.attempt, job.used_iterations) == (JobState.QUEUED, 1, 1, 1)
    assert tree.exists()


def test_a_run_is_interrupted_three_times_and_then_counts_as_failed(stage: Stage) -> None:
    to_builder(stage, "asleep")
    for _ in range(4):
        worker = stage.fork(lambda: stage.work("builder-schwer"))
        wait_for(lambda: stage.store().jobs("asleep")[-1].job.state is JobState.RUNNING)
        os.kill(worker, signal.SIGKILL)
        ended(worker)
        wait_for(lambda: not stage.processes())
        assert stage.run(stage.tick) == 0
    card = stage.store().card("asleep")
    assert (card.phase, card.status) == (Phase.KLAERUNG_REPARATUR, Status.FAILED)


def test_a_stale_worker_that_wakes_up_writes_and_pushes_nothing(stage: Stage) -> None:
    to_builder(stage, "note")
    worker = stage.fork(lambda: stage.work("builder-schwer"))
    wait_for(lambda: stage.store().jobs("note")[-1].job.state is JobState.RUNNING)
    os.kill(worker, signal.SIGSTOP)
    stage.store().happen("note", "archive", actor=OWNER)
    os.kill(worker, signal.SIGCONT)
    assert ended(worker) == 0
    assert phase(stage, "note") is Phase.ARCHIVIERT
    assert len(git("log", "--format=%h", "main", cwd=stage.remote).splitlines()) == 1
    assert not stage.store().reviews("note")


@pytest.mark.parametrize("days", [1, -1])
def test_a_clock_that_jumps_a_day_holds_nobody_up(stage: Stage, days: int, monkeypatch: pytest.MonkeyPatch) -> None:
    stage.submit("note")
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() + days * 86400)
    stage.until_quiet(lambda: None)
    assert phase(stage, "note") is Phase.BEREIT


def test_a_corrupted_row_parks_its_card_and_nobody_else(stage: Stage) -> None:
    to_builder(stage, "bad")
    stage.store().submit(
        slug="good", title="good", intent="# Intent: good\n", repository="repo", requester=OWNER,
        event="build_by_hand", data={"write_scope": ["good.txt"], "acceptance_criteria": []},
    )  # fmt: skip
    with sqlite3.connect(stage.config.state_dir / "board.sqlite3") as file:
        file.execute("UPDATE cards SET write_scope = '{broken' WHERE slug = 'bad'")
    stage.until_quiet(lambda: None)
    assert phase(stage, "good") is Phase.BEREIT
    assert phase(stage, "bad") is Phase.KLAERUNG_REPARATUR


def test_a_deleted_clone_and_a_deleted_mirror_come_back(stage: Stage) -> None:
    to_builder(stage, "slow")
    assert stage.run(lambda: serve_one(stage, "builder-schwer")) == 0
    assert phase(stage, "slow") is Phase.GEPLANT  # at its limit, the flat retry is next
    shutil.rmtree(stage.config.state_dir / "trees")
    shutil.rmtree(stage.config.state_dir / "mirrors")
    stage.until_quiet(lambda: None)
    # The half that was written is gone with the tree, and the retry begins in a new one.
    assert (phase(stage, "slow"), stage.store().card("slow").rung) == (Phase.BEREIT, 1)
    assert git("show", "main:slow.txt", cwd=stage.remote) == "whole\n"


def test_a_remote_that_refuses_parks_only_the_card_that_wanted_to_publish(stage: Stage) -> None:
    hook = stage.remote / "hooks" / "pre-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\necho 'the office is closed'\nexit 1\n")
    hook.chmod(0o755)
    stage.submit("note")
    stage.until_quiet(lambda: None)
    card = stage.store().card("note")
    assert (card.phase, card.status) == (Phase.KLAERUNG_REPARATUR, Status.PUBLISH_FAILED)
    assert any("the office is closed" in str(one.data) for one in stage.store().attachments("note", "findings"))
    hook.unlink()
    stage.store().happen("note", "retry", actor=OWNER)
    stage.until_quiet(lambda: None)
    assert phase(stage, "note") is Phase.BEREIT


def test_a_remote_that_is_away_makes_the_job_wait_and_climbs_no_ladder(tmp_path: Path) -> None:
    # Nothing listens on the discard port of this machine.
    away = {"repo": {"remote_url": "http://127.0.0.1:9/repo.git", "branch": "main"}}
    stage = Stage.make(tmp_path / "stage", repositories=away)
    to_builder(stage, "note")
    assert stage.run(lambda: stage.work("builder-schwer")) == 0
    job, card = stage.store().jobs("note")[-1].job, stage.store().card("note")
    assert job.state is JobState.QUEUED and job.not_before > time.time()
    assert (card.phase, card.rung, job.attempt) == (Phase.IN_UMSETZUNG, 0, 1)


def test_a_locked_database_is_one_sentence_and_then_works(stage: Stage) -> None:
    stage.submit("note")
    with sqlite3.connect(stage.config.state_dir / "board.sqlite3") as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreError) as refused:
            stage.store().happen("note", "archive", actor=OWNER)
        assert "\n" not in str(refused.value)
        other.rollback()
    stage.until_quiet(lambda: None)
    assert phase(stage, "note") is Phase.BEREIT


def test_a_full_disk_loses_nothing(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root, to mount a small file system")
    small = tmp_path / "small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=768m", "tmpfs", str(small)], check=True)
    try:
        # A run does not start with little room left, and waits; a second is enough here.
        soon = {"outage_backoff_initial_seconds": 1, "outage_backoff_max_seconds": 1}
        stage = Stage.make(small / "stage", scheduler=soon)
        stage.submit("note")
        with (small / "filler").open("wb") as filler, pytest.raises(OSError, match="No space"):
            while True:
                filler.write(b"x" * 65536)
                filler.flush()
        for queue in ("operator", "builder-schwer"):
            stage.run(stage.tick)
            stage.run(lambda queue=queue: stage.work(queue))
        (small / "filler").unlink()
        stage.until_quiet(lambda: None)
        assert phase(stage, "note") is Phase.BEREIT
        assert len(git("log", "--format=%h", "main", cwd=stage.remote).splitlines()) == 2
    finally:
        subprocess.run(["umount", "-l", str(small)], check=True)


def test_a_read_only_state_directory_is_one_sentence(stage: Stage) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root, to mount something read-only")
    stage.submit("note")
    state = str(stage.config.state_dir)
    subprocess.run(["mount", "--bind", state, state], check=True)
    subprocess.run(["mount", "-o", "remount,bind,ro", state], check=True)
    try:
        assert stage.run(stage.tick) == 1
        said = (stage.top / "log").read_text().strip().splitlines()[-1]
        assert "StoreError" in said or "Read-only" in said
    finally:
        subprocess.run(["umount", "-l", state], check=True)
    stage.until_quiet(lambda: None)
    assert phase(stage, "note") is Phase.BEREIT
