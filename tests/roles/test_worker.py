"""The worker around the roles: waiting jobs, lost workers, signals, and one bad item that hurts only itself."""

from __future__ import annotations

import os
import signal
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest
from roles_bench import Bench

from intent_board import sandbox
from intent_board.roles import base, builder, operator, worker
from intent_board.roles.base import Signals
from intent_board.runtimes import Credentials
from intent_board.store import Claim, StoreError

DONE = "open('greeting.txt', 'w').write('hello\\n'); step(); built()"


# --- a run that is not the work's fault ------------------------------------------------------------------------


def test_the_providers_own_time_wins(bench: Bench) -> None:
    bench.building()
    when = int(time.time()) + 4000
    bench.agent(f"say(type='error', outcome='rate_limited', text='slow down', retry_at={when})")
    card = bench.drained("builder-schwer")
    assert (card.phase, card.status, card.rung) == ("in_umsetzung", "queued", 0)
    assert bench.job().not_before == when
    assert bench.store.claim("builder-schwer") is None


def test_outages_wait_longer_each_time_up_to_the_bound(bench: Bench) -> None:
    bench.building()
    bench.agent("say(type='error', outcome='outage', text='overloaded')")
    waits = []
    for _ in range(9):
        now = time.time() + sum(waits) + len(waits)
        bench.context = replace(bench.context, now=lambda now=now: now)
        claim = bench.store.claim("builder-schwer", only="greet")
        assert claim is not None
        worker.serve(claim, bench.context)
        waits.append(round(bench.job().not_before - now))
    assert waits == [60, 120, 240, 480, 960, 1920, 3600, 3600, 3600]
    assert bench.job().attempt == 1


@pytest.mark.parametrize(
    ("own", "waits"), [(1, [1, 120, 240, 480]), (300, [300, 300, 300, 480])], ids=["always soon", "a while"]
)
def test_a_provider_whose_own_time_does_not_hold_is_asked_less_and_less(
    bench: Bench, own: int, waits: list[int]
) -> None:
    bench.building()
    now, found = time.time() + 1000, []
    for _ in waits:
        bench.agent(f"say(type='error', outcome='rate_limited', text='slow down', retry_at={now + own})")
        bench.context = replace(bench.context, now=lambda now=now: now)
        claim = bench.store.claim("builder-schwer", only="greet")
        assert claim is not None
        worker.serve(claim, bench.context)
        found.append(round(bench.job().not_before - now))
        now = bench.job().not_before + 1
    assert found == waits


def test_bad_credentials_pause_the_runtime_and_say_so(bench: Bench) -> None:
    bench.building()
    bench.agent("say(type='error', outcome='bad_credentials', text='401')")
    card = bench.drained("builder-schwer")
    assert card.phase == "in_umsetzung"
    assert [(one.runtime, one.reason) for one in bench.store.paused()] == [("command", "401")]


def test_a_missing_credential_pauses_the_runtime(tmp_path: Path, bench: Bench) -> None:
    other = Bench(tmp_path, {"runtimes.command.credentials": {"API_KEY": "some-key"}})
    other.use(Credentials(values={}))
    other.building()
    other.agent(DONE)
    assert other.drained("builder-schwer").phase == "in_umsetzung"
    assert "some-key" in other.store.paused()[0].reason
    other.use(Credentials(values={"some-key": "sk-abcdefgh"}))
    other.store.resume("command", actor="lukas")
    other.agent("open('greeting.txt', 'w').write(str(len(os.environ['API_KEY']))); built()")
    claim = other.store.claim("builder-schwer", only="greet")
    assert claim is not None
    worker.serve(claim, other.context)
    assert other.store.card("greet").phase == "im_review"


def test_a_host_without_its_sandbox_parks_no_card(
    tmp_path: Path, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = Bench(tmp_path, {"board.sandbox": "required"})
    monkeypatch.setattr(sandbox, "available", lambda: "bubblewrap is gone")
    other.building()
    other.agent(DONE)
    card = other.drained("builder-schwer")
    assert (card.phase, card.status) == ("in_umsetzung", "queued")
    assert "bubblewrap is gone" in card.reason


# --- a worker that dies ----------------------------------------------------------------------------------------


def test_an_answer_outlives_the_worker_that_got_it(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run used its last step; were it run again, the attempt would come out as limit reached."""
    bench.building()
    bench.agent("[step() for _ in range(5)]; open('greeting.txt', 'w').write('once\\n'); built('Once.')")
    bench.die(monkeypatch, "builder-schwer", "commit_tree")
    assert bench.store.card("greet").status == "running"
    card = bench.ticked()
    assert (card.phase, card.status, bench.job().interruptions) == ("in_umsetzung", "queued", 1)
    bench.agent("raise SystemExit('a second run')")
    card = bench.drained("builder-schwer")
    assert card.phase == "im_review", card.reason
    assert bench.last().job.snapshot["summary"] == "Once."
    assert list((bench.top / "state" / "answers").iterdir()) == []


def test_steps_of_an_interrupted_run_are_counted_on_and_its_report_goes_to_the_next(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.building()
    bench.agent("""
        open("greeting.txt", "w").write("hel")
        open(os.environ["INTENT_BOARD_REPORT"], "w").write('{"done": ["hel"], "open": [], "next": "lo"}')
        step(); step(); step(); time.sleep(0.3); sys.exit(1)
    """)
    bench.die(monkeypatch, "builder-schwer", "tree_report")
    bench.ticked()
    assert bench.job().used_iterations == 3
    bench.agent("""
        told = dict(data).get("Report of a run that was interrupted before this one", "")
        right = facts["iteration_limit"] == 2 and facts["continues"] and '"next": "lo"' in told
        while right: step(); time.sleep(0.01)
    """)
    card = bench.drained("builder-schwer")
    assert (card.phase, card.rung) == ("geplant", 1), card.reason
    assert bench.attached("interim_report")[0]["iterations"] == 5
    assert bench.last().result["interrupted"][0]["agent"]["next"] == "lo"


def test_an_attempt_whose_steps_are_used_up_is_not_run_again(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.building()
    bench.agent("[step() for _ in range(5)]; sys.exit(1)")
    bench.die(monkeypatch, "builder-schwer", "tree_report")
    bench.ticked()
    bench.agent(DONE)
    card = bench.drained("builder-schwer")
    assert (card.phase, card.rung) == ("geplant", 1)
    assert "interrupted" in card.reason


def test_an_interrupted_run_is_repeated_three_times_and_no_more(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.building()
    bench.agent("step(); sys.exit(1)")
    for _ in range(4):
        assert bench.store.card("greet").phase == "in_umsetzung"
        bench.die(monkeypatch, "builder-schwer", "tree_report")
        bench.ticked()
    card = bench.store.card("greet")
    assert (card.phase, card.status) == ("klaerung_reparatur", "failed")
    assert "interrupted 4 times" in card.reason


# --- being told to end -----------------------------------------------------------------------------------------


def test_sigterm_ends_the_run_and_leaves_the_job_to_the_next_tick(bench: Bench) -> None:
    bench.building()
    bench.agent("step(); time.sleep(60)")
    signals = Signals()
    bench.context = replace(bench.context, signals=signals)
    before = signal.signal(signal.SIGTERM, lambda *_: signals.stop())
    timer = threading.Timer(1.5, os.kill, (os.getpid(), signal.SIGTERM))
    timer.start()
    began = time.monotonic()
    try:
        card = bench.drained("builder-schwer")
    finally:
        timer.join()
        signal.signal(signal.SIGTERM, before)
    assert time.monotonic() - began < 20
    assert card.status == "running"
    assert signals.stopping
    line = bench.last()
    assert (line.job.state, line.job.used_iterations) == ("running", 1)


def test_a_worker_that_was_told_to_end_begins_nothing(bench: Bench) -> None:
    bench.building()
    bench.agent(DONE)
    bench.context = replace(bench.context, signals=Signals(stopping=True))
    assert worker.drain("builder-schwer", 0, bench.context) == 0
    assert bench.job().state == "queued"


def test_a_signal_never_tears_an_effect() -> None:
    signals, done = Signals(), []
    with pytest.raises(base.Stopped), signals.running():
        with signals.effect():
            signals.stop()
            done.append("the effect")
        done.append("the run went on")
    assert done == ["the effect"]
    assert not signals.interruptible


def test_a_worker_leaves_in_time_and_rings_for_the_next(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "queue_seconds", lambda queue, config: 0.0)
    monkeypatch.setattr(operator, "work", lambda claim, context: base.PutBack(0.0, "never mind"))
    for slug in ("one", "two"):
        bench.submit(slug)
    assert worker.drain("operator", 0, bench.context) == 1
    assert bench.store.doorbells.path("operator", 0).exists()


def test_the_ring_is_consumed_before_the_work(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bell = bench.store.doorbells.path("operator", 0)
    rang: list[bool] = []

    def look(claim: Claim, context: base.Context) -> base.Outcome:
        rang.append(bell.exists())
        raise RuntimeError("broken")

    monkeypatch.setattr(operator, "work", look)
    bench.submit()
    assert bell.exists()
    bench.drained("operator")
    assert rang == [False]


@pytest.mark.parametrize("left", ["running", "held"])
def test_a_job_that_nobody_may_take_is_asked_for_once_and_not_again_before_the_next_tick(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, left: str
) -> None:
    """A worker died and left its row, or its sandbox is still there: neither makes the next worker run in circles."""
    bench.submit()
    bench.agent("final(decision('needs_human', human_action='Which?'))")
    taken = bench.store.claim("operator")
    assert taken is not None
    heir = os.dup(taken.lock_fd)
    taken._let_go(None)
    if left == "running":
        os.close(heir)
    bell, claim, asked = bench.store.doorbells.path("operator", 0), bench.store.claim, []

    def counted(queue: str, *, slot: int = 0) -> Claim | None:
        asked.append(queue)
        return claim(queue, slot=slot)

    monkeypatch.setattr(bench.store, "claim", counted)
    assert worker.drain("operator", 0, bench.context) == 0
    assert (asked, bell.exists()) == (["operator"], False)
    if left == "held":
        bench.ticked()
        assert not bell.exists(), "it still lives, so there is nothing to do"
        os.close(heir)
    bench.ticked()
    assert bell.exists()
    assert bench.drained("operator").phase == "operator_klaerung_noetig"


# --- one bad item ----------------------------------------------------------------------------------------------


def test_a_defect_fails_its_own_card_with_the_reason_and_the_next_is_served(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = builder.work

    def sometimes(claim: Claim, context: base.Context) -> base.Outcome | base.PutBack:
        if claim.card.slug == "bad":
            raise RuntimeError("broken inside")
        return work(claim, context)

    monkeypatch.setattr(builder, "work", sometimes)
    bench.agent(DONE)
    bench.building("bad", ("bad.txt",))
    bench.drained("builder-schwer", "bad")
    bench.building()
    assert bench.drained("builder-schwer").phase == "im_review"
    bad = bench.store.card("bad")
    assert (bad.phase, bad.status) == ("klaerung_reparatur", "failed")
    assert "RuntimeError: broken inside" in bad.reason


def test_a_vanished_repository_fails_its_card_only(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.building()
    bench.agent(DONE)
    monkeypatch.delitem(bench.config.repositories, "demo")
    card = bench.drained("builder-schwer")
    assert (card.phase, card.status) == ("klaerung_reparatur", "failed")
    assert "there is no repository 'demo'" in card.reason


def test_a_model_that_is_gone_from_the_file_still_runs_from_its_snapshot(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.building()
    bench.agent("open('greeting.txt', 'w').write(os.environ['INTENT_BOARD_MODEL']); built()")
    monkeypatch.setitem(bench.config.model_pools, "command", ("large",))
    assert bench.drained("builder-schwer").phase == "im_review"


def test_a_runtime_that_is_gone_from_the_file_fails_the_card(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.building()
    monkeypatch.delitem(bench.config.runtimes, "command")
    card = bench.drained("builder-schwer")
    assert (card.phase, card.status) == ("klaerung_reparatur", "failed")
    assert "no runtime 'command'" in card.reason


def test_a_card_archived_during_its_run_gets_nothing_of_it(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.building()
    bench.agent("open('greeting.txt', 'w').write('x'); step(); time.sleep(0.5); step(); time.sleep(60)")
    progress, calls = bench.store.progress, []

    def archive_at_the_second_step(claim: Claim, used: int) -> None:
        calls.append(used)
        if used == 2:
            bench.store.happen("greet", "archive", actor="lukas")
        progress(claim, used)

    monkeypatch.setattr(bench.store, "progress", archive_at_the_second_step)
    began = time.monotonic()
    card = bench.drained("builder-schwer")
    assert time.monotonic() - began < 20
    assert (card.phase, card.commit) == ("archiviert", None)
    assert calls == [1, 2]
    assert bench.store.attachments("greet", "interim_report") == []


def test_a_store_that_fails_ends_the_worker_and_not_the_card(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.building()
    bench.agent(DONE)

    def full(claim: Claim, used: int) -> None:
        raise StoreError("the disk is full")

    monkeypatch.setattr(bench.store, "progress", full)
    with pytest.raises(StoreError):
        bench.drained("builder-schwer")
    assert bench.store.card("greet").status == "running"


def test_a_kept_answer_that_can_not_be_read_is_no_answer(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.building()
    bench.agent(DONE)
    bench.die(monkeypatch, "builder-schwer", "commit_tree")
    (answer,) = (bench.top / "state" / "answers").iterdir()
    for text in ('{"outcome": "answ', '{"outcome": "answered"}', '{"outcome": "answered", "last_texts": [], "new": 1}'):
        answer.write_text(text)
        bench.ticked()
        bench.agent("open('greeting.txt', 'w').write('again'); step(); built()")
    assert bench.drained("builder-schwer").phase == "im_review"


def test_a_second_signal_does_not_break_off_the_ending() -> None:
    signals = Signals()
    with pytest.raises(base.Stopped), signals.running():
        try:
            signals.stop()
        finally:
            signals.stop()
    assert signals.stopping


def test_a_signal_just_before_a_run_is_not_missed() -> None:
    signals = Signals()
    signals.stop()
    with pytest.raises(base.Stopped), signals.running():
        pytest.fail("the run began")
