"""What a tick looks after on disk: work that is kept, and what nobody needs any more."""

from __future__ import annotations

import fcntl
import time
from pathlib import Path

import pytest
from roles_bench import Bench, git

from intent_board.roles.leftovers import look_after
from intent_board.roles.scheduler import AlreadyRunning, proved, tick_once
from intent_board.store import FamilyProof, StoreError
from intent_board.workspace import Workspace, WorkspaceError


def mirror(bench: Bench) -> Path:
    return bench.top / "state" / "mirrors" / "demo.git"


def test_an_archived_cards_unfinished_tree_is_kept_as_a_ref_and_goes(bench: Bench) -> None:
    bench.building()
    bench.agent("open('greeting.txt', 'w').write('half'); sys.exit(1)")
    bench.drained("builder-schwer")
    bench.store.happen("greet", "archive", actor="lukas")
    bench.ticked()
    assert git("show", "refs/board/greet:greeting.txt", cwd=mirror(bench)) == "half"
    assert not (bench.top / "state" / "trees" / "greet").exists()
    assert bench.store.pending_refs() == []


def test_a_tree_in_which_somebody_still_works_stays(bench: Bench) -> None:
    bench.building()
    bench.agent("open('greeting.txt', 'w').write('half'); sys.exit(1)")
    bench.drained("builder-schwer")
    lock = bench.top / "state" / "locks" / f"job-{bench.last().job.id}.lock"
    with lock.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        bench.store.happen("greet", "archive", actor="lukas")
        bench.ticked()
        assert (bench.top / "state" / "trees" / "greet").exists()
        assert bench.store.pending_refs() != []
    bench.ticked()
    assert not (bench.top / "state" / "trees" / "greet").exists()


def test_what_runs_of_finished_jobs_left_is_removed_and_nothing_else(bench: Bench) -> None:
    bench.in_review()
    state = bench.top / "state"
    builder, review = bench.last().job.id - 1, bench.last().job.id
    claim = bench.store.claim("review")
    assert claim is not None
    kept = [state / "runs" / f"{review}-1", state / "answers" / f"job-{review}.json", state / "runs" / "notes"]
    gone = [
        state / "runs" / f"{builder}-1",
        state / "runs" / f"{review}-0",
        state / "runs" / "999-1",
        state / "checkouts" / f"{builder}-1",
        state / "answers" / f"job-{builder}.json",
        state / "reports" / "nobody.7",
    ]
    for path in [*kept, *gone]:
        path.parent.mkdir(exist_ok=True)
        path.write_text("x") if path.suffix == ".json" else path.mkdir()
    # The lock of the claimed job is held by this very process, as its worker would.
    bench.ticked()
    assert [path for path in kept if not path.exists()] == []
    assert [path for path in gone if path.exists()] == [state / "runs" / f"{review}-0"]
    claim._let_go(None)
    bench.ticked()
    assert not gone[1].exists()


def test_a_second_tick_at_the_same_time_does_nothing(bench: Bench) -> None:
    lock = bench.top / "state" / "locks" / "scheduler.lock"
    with lock.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(AlreadyRunning):
            tick_once(bench.config, bench.store, bench.context.workspace, time.time())
    tick_once(bench.config, bench.store, bench.context.workspace, time.time())


def test_a_family_is_proved_against_the_branch(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    first = bench.tip
    second = bench.push("More", more__md="x")
    bench.context.workspace.fetch("demo")
    proof = FamilyProof("p", "demo", "main", {"a": first, "b": second, "c": "0" * 40})
    monkeypatch.setattr(bench.store, "families_to_prove", lambda: [proof])
    assert proved(bench.store, bench.context.workspace) == {"p": ["c"]}
    git("update-ref", "refs/heads/main", first, cwd=bench.remote)
    bench.context.workspace.fetch("demo")
    assert proved(bench.store, bench.context.workspace) == {"p": ["b", "c"]}


def test_a_repository_that_cannot_be_looked_at_proves_nothing(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def unreadable(self: Workspace, repository: str, branch: str) -> str:
        raise WorkspaceError("failed", "the mirror is unreadable")

    proof = FamilyProof("p", "demo", "main", {"a": "0" * 40})
    monkeypatch.setattr(bench.store, "families_to_prove", lambda: [proof])
    monkeypatch.setattr(Workspace, "tip", unreadable)
    assert proved(bench.store, bench.context.workspace) == {}


def test_an_unreadable_row_hinders_no_tidying_up(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    reports, quarantines = bench.top / "state" / "reports", bench.top / "state" / "quarantines"
    for directory in (reports / "bad.1", reports / "gone.2", quarantines / "5-1.git"):
        directory.mkdir(parents=True)

    def find(slug: str) -> None:
        if slug == "bad":
            raise StoreError("unreadable")

    def job(job_id: int) -> None:
        raise StoreError("unreadable")

    monkeypatch.setattr(bench.store, "find", find)
    monkeypatch.setattr(bench.store, "job", job)
    (bench.top / "state" / "runs" / "7-1").mkdir()
    look_after(bench.config, bench.store, bench.context.workspace)
    assert [path.name for path in reports.iterdir()] == ["bad.1"]
