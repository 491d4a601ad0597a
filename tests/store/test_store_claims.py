"""Who may do a job, and what becomes of it when its worker dies, sleeps or comes back too late."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from typing import TYPE_CHECKING

import pytest
from store_board import heard, sql, tell

from intent_board.board.model import JobState, Phase, Refused, Status
from intent_board.store import StaleClaim, Store
from intent_board.store.working import RAW_LIMIT, lock_path

if TYPE_CHECKING:
    from store_board import Board, Processes


def job_of(store: Store, slug: str, role: str = "builder") -> object:
    return [line.job for line in store.jobs(slug) if line.job.role == role][-1]


# --- one job, one worker ----------------------------------------------------------------------------------------


def test_a_claim_says_what_is_to_be_done_and_that_it_runs(store: Store, board: Board) -> None:
    claim = board.building()
    assert (claim.job.slug, claim.job.role, claim.job.state, claim.token) == ("lamp", "builder", JobState.RUNNING, 1)
    assert claim.job.snapshot["profile"]["model"] == "gpt-5.6-luna"
    assert claim.card.status is store.card("lamp").status is Status.RUNNING
    assert store.claim("builder-schwer") is None


def test_the_lock_is_closed_on_exec_and_can_be_handed_on(store: Store, board: Board) -> None:
    claim = board.building()
    assert not os.get_inheritable(claim.lock_fd)
    heir = subprocess.Popen(["sleep", "30"], pass_fds=[claim.lock_fd])
    try:
        claim._let_go(None)  # the worker is gone, its sandbox is not
        assert store.recover() == []
    finally:
        heir.kill()
        heir.wait()
    assert store.recover() == [claim.job.id]


def test_jobs_go_in_the_order_in_which_they_were_made(store: Store, board: Board) -> None:
    for slug in ("zebra", "ant", "bee"):
        board.submit(slug)
    assert [board.claim("operator").job.slug for _ in range(3)] == ["zebra", "ant", "bee"]


def test_a_card_whose_branch_moved_goes_first_to_review_and_publish_alone(store: Store, board: Board) -> None:
    for slug in ("zebra", "ant", "bee"):
        board.submit(slug)
    sql(store, "UPDATE cards SET publish_rounds = 2 WHERE slug = 'bee'")
    for queue, first in (("review", "bee"), ("publish", "bee"), ("operator", "zebra"), ("builder-schwer", "zebra")):
        sql(store, "UPDATE jobs SET queue = ?", queue)
        claim = board.claim(queue)
        assert claim.job.slug == first
        store.put_back(claim, not_before=0.0, reason="another try")


def test_two_processes_never_get_one_job(store: Store, board: Board, processes: Processes) -> None:
    for number in range(12):
        board.submit(f"card-{number}")
    code = """
        hear()
        mine = []
        while (claim := store.claim("operator")) is not None:
            mine.append(claim.job.slug)
        say(*mine)
        hear()
    """
    workers = [processes.start(code) for _ in range(2)]
    for worker in workers:
        tell(worker)
    claimed = [slug for worker in workers for slug in heard(worker).split()]
    assert sorted(claimed) == sorted(f"card-{number}" for number in range(12))


def test_only_one_publish_job_runs_in_a_repository(store: Store, board: Board) -> None:
    for slug in ("lamp", "desk"):
        board.submit(slug)
    sql(store, "UPDATE jobs SET queue = 'publish', role = 'publish'")
    first = board.claim("publish")
    assert store.claim("publish") is None
    store.put_back(first, not_before=time.time() + 100, reason="the remote is away")
    second = board.claim("publish")
    assert second.job.slug == "desk"
    board.submit("chair")
    sql(store, "UPDATE jobs SET queue = 'publish', role = 'publish' WHERE slug = 'chair'")
    assert store.claim("publish") is None
    sql(store, "UPDATE cards SET repository = 'other' WHERE slug = 'chair'")
    assert board.claim("publish").job.slug == "chair"


# --- results ----------------------------------------------------------------------------------------------------


def test_the_same_result_twice_does_nothing_the_second_time(store: Store, board: Board) -> None:
    claim = board.building()
    for _ in range(2):
        assert store.finish(claim, "build_limit", {"reason": "20 of 20"}, raw="so far", result={"iterations": 20})
    assert store.card("lamp").rung == 1
    assert [event.event for event in store.events("lamp")].count("build_limit") == 1
    assert len(store.answers("lamp")) == 2  # the Operator's, and the Builder's once
    assert store.raw(claim.job.id) == "so far"


def test_a_second_finish_closes_no_strangers_file(store: Store, board: Board) -> None:
    claim = board.building()
    store.finish(claim, "build_limit", {})
    stranger = os.open("/dev/null", os.O_RDONLY)
    assert stranger == claim.lock_fd  # the number is given out again at once
    store.finish(claim, "build_limit", {})
    os.fstat(stranger)
    os.close(stranger)


def test_what_a_run_used_is_kept(store: Store, board: Board) -> None:
    claim = board.building()
    result = {"usage": {"input": 5}, "cost_usd": 0.25, "iterations": 7, "reason": "spent", "sandboxed": True}
    store.finish(claim, "build_limit", {}, result={**result, "role_version": "3", "role_hash": "ab", "seconds": 1.5})
    line = store.job(claim.job.id)
    assert line is not None
    assert (line.cost_usd, line.job.used_iterations, line.usage, line.result) == (
        0.25,
        7,
        {"input": 5},
        {"seconds": 1.5},
    )
    assert (line.outcome, line.reason, line.sandboxed, line.role_version) == ("build_limit", "spent", True, "3")
    assert line.limit == 20
    assert store.status().cost_usd == {"codex": 0.25}


def test_an_answer_is_cut_at_its_limit_and_says_so(store: Store, board: Board) -> None:
    claim = board.building()
    raw = "ä" * RAW_LIMIT + "\ud800"
    store.finish(claim, "build_failed", {}, raw=raw)
    answer = store.answers("lamp", claim.job.id)[0]
    assert (answer.cut, answer.size) == (True, 2 * RAW_LIMIT + len("\\ud800"))
    assert answer.text == "ä" * (RAW_LIMIT // 2)


def test_a_result_that_does_not_fit_the_phase_is_kept_as_stale(store: Store, board: Board) -> None:
    claim = board.building()
    assert not store.finish(claim, "published", {"commit": "a" * 40}, raw="done!")
    assert not store.finish(claim, "published", {"commit": "a" * 40}, raw="done!")
    (answer,) = store.answers("lamp", claim.job.id)
    assert (answer.stale, answer.text) == (True, "done!")
    assert store.card("lamp").phase is Phase.IN_UMSETZUNG
    assert [event.event for event in store.events("lamp")].count("stale_answer") == 1


def test_a_card_left_without_a_job_is_parked_by_the_next_tick(store: Store, board: Board) -> None:
    store.finish(board.building(), "published", {"commit": "a" * 40})
    store.tick(time.time(), off_branch={})
    card = store.card("lamp")
    assert (card.phase, card.status) == (Phase.KLAERUNG_REPARATUR, Status.FAILED)
    assert "no job" in card.reason


def test_a_result_that_lacks_what_its_event_needs_parks_the_card(store: Store, board: Board) -> None:
    claim = board.building()
    assert not store.finish(claim, "built", {"base": "b" * 40})
    card = store.card("lamp")
    assert card.phase is Phase.KLAERUNG_REPARATUR
    assert "KeyError" in card.reason


def test_progress_only_grows_and_is_counted_over_runs(store: Store, board: Board) -> None:
    claim = board.building()
    for used in (3, 2, 5):
        store.progress(claim, used)
    claim._let_go(None)
    assert store.recover() == [claim.job.id]
    again = board.claim("builder-schwer")
    assert (again.job.used_iterations, again.job.attempt, again.job.interruptions, again.token) == (5, 1, 1, 2)
    assert store.status().running[0].job.used_iterations == 5


# --- cancelled, dead, asleep -------------------------------------------------------------------------------------


def test_a_cancelled_run_can_write_nothing(store: Store, board: Board) -> None:
    claim = board.building()
    store.happen("lamp", "archive", actor="lukas")
    with pytest.raises(StaleClaim):
        store.progress(claim, 4)
    with pytest.raises(StaleClaim):
        store.put_back(claim, not_before=0.0, reason="an outage")
    assert not store.finish(claim, "build_limit", {}, raw="too late")
    assert store.card("lamp").phase is Phase.ARCHIVIERT
    assert store.answers("lamp", claim.job.id)[0].stale


def test_a_late_result_of_a_cancelled_run_does_not_end_the_run_that_took_its_place(store: Store, board: Board) -> None:
    old = board.building()
    sql(store, "UPDATE jobs SET state = 'cancelled' WHERE id = ?", old.job.id)
    sql(store, "UPDATE cards SET phase = 'geplant', status = 'waiting_for_builder' WHERE slug = 'lamp'")
    store.tick(time.time(), off_branch={})
    before = store.card("lamp")
    assert before.phase is Phase.IN_UMSETZUNG
    assert not store.finish(old, "build_limit", {}, raw="too late")
    assert store.card("lamp") == before
    assert store.answers("lamp", old.job.id)[0].stale


def test_nobody_works_in_a_tree_in_which_a_cancelled_worker_still_lives(store: Store, board: Board) -> None:
    old = board.building()
    sql(store, "UPDATE jobs SET state = 'cancelled' WHERE id = ?", old.job.id)
    sql(store, "UPDATE cards SET phase = 'geplant', status = 'waiting_for_builder' WHERE slug = 'lamp'")
    store.tick(time.time(), off_branch={})
    assert store.claim("builder-schwer") is None
    os.close(old.lock_fd)
    assert board.claim("builder-schwer").job.attempt == 2


def test_nobody_works_in_a_tree_in_which_a_sandbox_outlived_its_job(store: Store, board: Board) -> None:
    first = board.building()
    heir = subprocess.Popen(["sleep", "30"], pass_fds=[first.lock_fd])
    try:
        assert store.finish(first, "build_limit", {})
        assert lock_path(store.config, first.job.id).exists()
        store.tick(time.time(), off_branch={})
        assert store.claim("builder-schwer") is None
    finally:
        heir.kill()
        heir.wait()
    assert board.claim("builder-schwer").job.attempt == 2
    store.recover()
    assert not lock_path(store.config, first.job.id).exists()


def test_the_job_of_a_killed_worker_comes_back(store: Store, board: Board, processes: Processes) -> None:
    board.direct()
    store.tick(100.0, off_branch={})
    worker = processes.start("say(board.claim('builder-schwer').job.id); hear()")
    job_id = int(heard(worker))
    assert store.recover() == []
    worker.send_signal(signal.SIGKILL)
    worker.wait()
    assert store.recover() == [job_id]
    assert store.card("lamp").status is Status.QUEUED
    claim = board.claim("builder-schwer")
    assert (claim.job.id, claim.job.attempt, claim.job.interruptions) == (job_id, 1, 1)
    assert store.config.state_dir.joinpath("doorbells", "builder-schwer-0").exists()


def test_an_attempt_is_interrupted_three_times_and_then_fails(store: Store, board: Board) -> None:
    board.direct()
    store.tick(100.0, off_branch={})
    for _ in range(4):
        claim = board.claim("builder-schwer")
        claim._let_go(None)
        assert store.recover() == [claim.job.id]
    card = store.card("lamp")
    assert (card.phase, card.status) == (Phase.KLAERUNG_REPARATUR, Status.FAILED)
    assert "interrupted 4 times" in card.reason
    line = store.job(claim.job.id)
    assert line is not None
    assert (line.job.state, line.outcome) == (JobState.DONE, "run_lost")
    assert store.recover() == []


def test_a_lost_run_that_its_card_has_no_use_for_ends_all_the_same(store: Store, board: Board) -> None:
    board.building()._let_go(None)
    sql(store, "UPDATE jobs SET interruptions = 3")
    sql(store, "UPDATE cards SET phase = 'planung_mit_feedback', status = 'succeeded'")
    (job_id,) = store.recover()
    line = store.job(job_id)
    assert line is not None
    assert line.job.state is JobState.DONE
    assert store.recover() == []
    assert store.card("lamp").phase is Phase.PLANUNG_MIT_FEEDBACK


def test_an_answer_that_parked_its_card_answers_the_same_twice(store: Store, board: Board) -> None:
    claim = board.building()
    assert [store.finish(claim, "built", {"base": "b" * 40}) for _ in range(2)] == [False, False]


def test_a_sleeping_worker_keeps_its_job(store: Store, board: Board, processes: Processes) -> None:
    board.direct()
    store.tick(100.0, off_branch={})
    worker = processes.start(
        "claim = board.claim('builder-schwer'); say('got'); hear(); store.progress(claim, 3); say('ok')"
    )
    heard(worker)
    worker.send_signal(signal.SIGSTOP)
    assert store.recover() == []
    worker.send_signal(signal.SIGCONT)
    tell(worker)
    assert heard(worker) == "ok"


def test_a_sleeper_whose_job_was_given_away_can_write_nothing(store: Store, board: Board, processes: Processes) -> None:
    board.direct()
    store.tick(100.0, off_branch={})
    code = """
        claim = board.claim('builder-schwer')
        say(claim.job.id)
        hear()
        for write in (lambda: store.progress(claim, 19), lambda: store.put_back(claim, not_before=0, reason='x')):
            try:
                write()
            except StaleClaim:
                say('stale')
        say(store.finish(claim, 'build_limit', {'reason': 'mine'}, raw='from the grave'))
    """
    sleeper = processes.start(code)
    job_id = int(heard(sleeper))
    sleeper.send_signal(signal.SIGSTOP)
    lock_path(store.config, job_id).unlink()  # a state directory put back from a backup, say
    assert store.recover() == [job_id]
    newer = board.claim("builder-schwer")
    before = store.card("lamp")
    sleeper.send_signal(signal.SIGCONT)
    tell(sleeper)
    assert [heard(sleeper) for _ in range(3)] == ["stale", "stale", "False"]
    assert store.card("lamp") == before
    line = store.job(job_id)
    assert line is not None
    assert (line.job.state, line.job.token, line.job.used_iterations) == (JobState.RUNNING, newer.token, 0)
    assert [(answer.token, answer.stale) for answer in store.answers("lamp", job_id)] == [(1, True)]
    assert lock_path(store.config, job_id).exists()  # the newer worker's, not the sleeper's to remove
    assert store.recover() == []
    assert store.finish(newer, "build_limit", {"reason": "of the newer"})
    assert store.card("lamp").reason == "of the newer"


def test_four_workers_and_two_schedulers_at_once(store: Store, board: Board, processes: Processes) -> None:
    for number in range(10):
        board.submit(f"card-{number}")
    worker = """
        hear()
        count, idle = 0, 0
        while idle < 25:
            claim = store.claim('operator') or store.claim('builder-schwer')
            if claim is None:
                idle += 1
                time.sleep(0.01)
                continue
            idle = 0
            count += 1
            store.progress(claim, 1)
            if claim.job.role == 'operator':
                store.finish(claim, 'operator_direct', {'lane': 'schwer', 'escalation': []})
            else:
                store.finish(claim, 'build_limit', {})
        say(count)
    """
    ticker = """
        hear()
        for _ in range(60):
            store.recover()
            store.tick(time.time(), off_branch={})
            time.sleep(0.01)
        say('done')
    """
    workers = [processes.start(worker) for _ in range(4)]
    tickers = [processes.start(ticker) for _ in range(2)]
    for process in workers + tickers:
        tell(process)
    assert [heard(process) for process in tickers] == ["done", "done"]
    done = sum(int(heard(process)) for process in workers)
    lines = [line for number in range(10) for line in store.jobs(f"card-{number}")]
    assert done == len([line for line in lines if line.job.state is JobState.DONE])
    assert all(line.job.token <= 1 and line.job.interruptions == 0 for line in lines)
    building = [card for card in store.cards() if card.phase == "in_umsetzung"]
    assert len(building) <= 1
    assert all(len(store.jobs(card.slug)) <= 2 for card in store.cards())


# --- waiting ------------------------------------------------------------------------------------------------------


def test_an_outage_puts_the_job_back_and_climbs_no_rung(store: Store, board: Board) -> None:
    claim = board.building()
    store.progress(claim, 4)
    store.put_back(claim, not_before=time.time() + 60, reason="the provider is away")
    card = store.card("lamp")
    assert (card.phase, card.status, card.rung, card.reason) == (
        Phase.IN_UMSETZUNG, Status.QUEUED, 0, "the provider is away",
    )  # fmt: skip
    assert store.claim("builder-schwer") is None
    assert store.recover() == []
    sql(store, "UPDATE jobs SET not_before = ?", time.time() - 1)
    again = board.claim("builder-schwer")
    assert (again.job.attempt, again.job.used_iterations, again.job.interruptions) == (1, 4, 0)


def test_a_long_quota_is_waited_for(store: Store, board: Board) -> None:
    store.put_back(board.building(), not_before=time.time() + 6 * 86400, reason="weekly limit")
    assert store.claim("builder-schwer") is None


def test_a_clock_that_was_set_back_holds_nobody(store: Store, board: Board, monkeypatch: pytest.MonkeyPatch) -> None:
    real = time.time
    claim = board.building()
    monkeypatch.setattr(time, "time", lambda: real() + 10 * 365 * 86400)
    store.put_back(claim, not_before=time.time() + 60, reason="away")
    monkeypatch.setattr(time, "time", real)
    assert board.claim("builder-schwer").job.id == claim.job.id


def test_refused_credentials_pause_the_runtime_until_a_person_resumes_it(store: Store, board: Board) -> None:
    claim = board.building()
    board.submit("desk")
    store.put_back(claim, not_before=0.0, reason="401 from the provider", runtime_paused="codex")
    assert [(one.runtime, one.reason) for one in store.paused()] == [("codex", "401 from the provider")]
    assert store.claim("builder-schwer") is None
    assert store.claim("operator") is None  # its runtime is the queue's, which is the same one
    store.tick(time.time(), off_branch={})
    assert not store.doorbells.consume("builder-schwer", 0) or store.claim("builder-schwer") is None
    (note,) = [note for note in store.due_notifications(time.time()) if note.event == "runtime_paused"]
    assert "board resume codex" in note.text
    assert store.resume("codex", actor="lukas")
    assert not store.resume("codex", actor="lukas")
    assert board.claim("builder-schwer").job.id == claim.job.id
    assert board.claim("operator").job.slug == "desk"


def test_a_job_aside_leaves_phase_and_status_alone(store: Store, board: Board) -> None:
    store.finish(board.building(), "build_failed", {"reason": "broke"})
    store.happen("lamp", "inspect", actor="lukas", data={"task": "implementation"})
    claim = board.claim("inspect")
    assert store.card("lamp").status is Status.FAILED
    store.put_back(claim, not_before=0.0, reason="an outage")
    assert (store.card("lamp").status, store.card("lamp").reason) == (Status.FAILED, "broke")
    store.finish(board.claim("inspect"), "inspection_failed", {})
    assert (store.card("lamp").status, store.card("lamp").reason) == (Status.FAILED, "broke")


def test_lock_files_of_jobs_that_are_over_are_removed(store: Store, board: Board) -> None:
    claim = board.building()
    assert lock_path(store.config, claim.job.id).exists()
    store.finish(claim, "build_failed", {})
    assert not list(store.config.state_dir.glob("locks/job-*.lock"))
    other = board.building("desk")
    store.happen("desk", "archive", actor="lukas")
    store.recover()
    assert lock_path(store.config, other.job.id).exists()
    os.close(other.lock_fd)
    store.recover()
    assert not list(store.config.state_dir.glob("locks/job-*.lock"))


def test_a_lock_whose_file_was_removed_meanwhile_is_taken_anew(store: Store, board: Board) -> None:
    from intent_board.store import locks

    path = store.config.state_dir / "locks" / "job-77.lock"
    first = locks.acquire(path)
    assert first is not None
    path.unlink()
    second = locks.acquire(path)
    assert second is not None
    locks.discard(path, first)  # not its file any more
    assert path.exists()
    assert locks.held(path)
    os.close(second)
    assert not locks.held(path)
    with pytest.raises(Refused):
        board.submit("No Slug")
