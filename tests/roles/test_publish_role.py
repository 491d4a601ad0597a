"""Publishing: exactly the reviewed commit, fast-forward only; a branch that moved means a new review."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from roles_bench import OWNER, Bench, git

from intent_board.board.model import Refused
from intent_board.roles import publish
from intent_board.roles.base import Outcome
from intent_board.workspace import WorkspaceError
from intent_board.workspace.git import Git
from intent_board.workspace.mirror import Mirror


def test_the_reviewed_commit_is_what_the_remote_has(bench: Bench) -> None:
    card = bench.approved()
    ready = bench.drained("publish")
    assert (ready.phase, ready.status, ready.commit) == ("bereit_fuer_deployment", "succeeded", card.commit)
    assert bench.tip == card.commit
    assert list((bench.top / "state" / "trees").iterdir()) == []


def test_a_branch_that_moved_gets_a_rebased_commit_and_a_fresh_review(bench: Bench) -> None:
    card = bench.approved()
    other = bench.push("Meanwhile", other__md="x")
    moved = bench.drained("publish")
    assert (moved.phase, moved.reviewed, moved.base, moved.publish_rounds) == ("im_review", None, other, 1)
    assert moved.commit not in (None, card.commit)
    assert bench.job().snapshot["commit"] == moved.commit
    assert bench.tip == other
    bench.agent("final(review() if facts['commit'] != %r else 'old')".replace("%r", repr(card.commit)))
    bench.drained("review")
    assert bench.drained("publish").phase == "bereit_fuer_deployment"
    assert bench.tip == moved.commit
    assert git("show", "main:other.md", cwd=bench.remote) == "x"


def test_a_conflict_goes_to_a_person_with_its_paths(bench: Bench) -> None:
    bench.approved()
    other = bench.push("Meanwhile", greeting__txt="goodbye\n")
    card = bench.drained("publish")
    assert (card.phase, card.status) == ("klaerung_reparatur", "publish_failed")
    assert "greeting.txt" in card.reason
    assert bench.attached("findings")[0]["detail"] == ["greeting.txt"]
    assert bench.tip == other


@pytest.mark.parametrize("end", ["echo 'fatal: disk error' >&2; exit 128", "kill -9 $$", "exit 1"])
def test_a_rebase_that_fails_without_a_conflict_is_said_and_loses_nothing(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    card = bench.approved()
    tip = bench.push("Elsewhere", other__txt="x")
    programs = bench.top / "programs"
    programs.mkdir()
    broken = f'#!/bin/sh\ncase $1 in merge-tree) {end};; esac\nexec {shutil.which("git")} "$@"\n'
    (programs / "git").write_text(broken)
    (programs / "git").chmod(0o755)
    with monkeypatch.context() as patched:
        patched.setenv("PATH", f"{programs}:{os.environ['PATH']}")
        after = bench.drained("publish")
    assert (after.phase, after.status) == ("klaerung_reparatur", "publish_failed")
    assert "conflict" not in after.reason and "git merge-tree failed" in after.reason, after.reason
    assert (bench.tip, after.commit) == (tip, card.commit)
    assert bench.context.workspace.tree("greet") is not None, "the work is still there"
    bench.store.happen("greet", "retry", actor=OWNER)
    after = bench.drained("publish")
    assert after.phase == "im_review" and after.base == tip, after.reason


def test_after_a_conflict_the_card_is_built_afresh_from_the_tip(bench: Bench) -> None:
    refused = bench.approved()
    bench.push("Meanwhile", greeting__txt="goodbye\n")
    bench.drained("publish")
    card = bench.store.happen("greet", "retry", actor="lukas", data={"afresh": True})
    assert (card.phase, card.commit, card.round) == ("geplant", None, 2)
    bench.ticked()
    bench.agent("""
        text = open("greeting.txt").read()
        open("greeting.txt", "w").write(text + "hello\\n")
        step(); built("Greets after the farewell." if not facts["continues"] else "continues")
    """)
    bench.drained("builder-schwer")
    bench.agent("final(review())")
    bench.drained("review")
    card = bench.drained("publish")
    assert card.phase == "bereit_fuer_deployment", card.reason
    assert git("show", "main:greeting.txt", cwd=bench.remote) == "goodbye\nhello"
    assert git("log", "-1", "--format=%b", "main", cwd=bench.remote).startswith("Greets after the farewell.")
    bench.ticked()
    mirror = bench.config.state_dir / "mirrors" / "demo.git"
    assert refused.commit in git("for-each-ref", "--format=%(objectname)", "refs/board", cwd=mirror).split()


def test_a_rebased_commit_whose_checks_fail_is_not_published(bench: Bench) -> None:
    bench.approved()
    bench.push("Meanwhile", check__sh="test ! -e greeting.txt")
    card = bench.drained("publish")
    assert (card.phase, card.status) == ("klaerung_reparatur", "publish_failed")
    assert "`sh check.sh` exited with 1" in card.reason


def test_publish_rounds_are_bounded(bench: Bench) -> None:
    bench.approved()
    bench.agent("final(review())")
    for number in range(bench.config.scheduler.publish_rounds):
        bench.push("Meanwhile", other__md=str(number))
        assert bench.drained("publish").phase == "im_review"
        bench.drained("review")
    bench.push("Meanwhile", other__md="once more")
    card = bench.drained("publish")
    assert (card.phase, card.status) == ("klaerung_reparatur", "publish_failed")
    assert "moved again" in card.reason


def test_what_the_remote_refuses_is_told_in_its_own_words(bench: Bench) -> None:
    bench.approved()
    hook = bench.remote / "hooks" / "pre-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\necho 'frozen until Monday' >&2\nexit 1\n")
    hook.chmod(0o755)
    before = bench.tip
    card = bench.drained("publish")
    assert (card.phase, card.status) == ("klaerung_reparatur", "publish_failed")
    assert any("frozen until Monday" in line for line in bench.attached("findings")[0]["detail"])
    assert bench.tip == before


def test_a_commit_without_a_review_of_its_own_is_not_pushed(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.approved()
    claim = bench.store.claim("publish")
    assert claim is not None
    object.__setattr__(claim.card, "reviewed", "0" * 40)
    before = bench.tip
    done = publish.work(claim, bench.context)
    assert isinstance(done, Outcome)
    assert done.event == "publish_failed"
    assert "no positive review" in done.data["reason"]
    assert bench.tip == before


def test_gate_commit_publishes_the_owners_own_build_without_a_review(tmp_path: Path, bench: Bench) -> None:
    quick = Bench(tmp_path, {"deploy.gate": "commit"})
    quick.building()
    quick.agent("open('greeting.txt', 'w').write('hello\\n'); built()")
    card = quick.drained("builder-schwer")
    assert quick.job().role == "publish"
    hook = quick.remote / "hooks" / "pre-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\nexit 1\n")
    hook.chmod(0o755)
    assert quick.drained("publish").status == "publish_failed"
    hook.unlink()
    quick.store.happen("greet", "retry", actor="lukas")
    ready = quick.drained("publish")
    assert (ready.phase, ready.reviewed) == ("bereit_fuer_deployment", None), ready.reason
    assert quick.tip == card.commit


def test_gate_commit_lets_no_protected_path_past_the_owners_release(tmp_path: Path, bench: Bench) -> None:
    quick = Bench(tmp_path, {"deploy.gate": "commit", "repositories.demo.protected_paths": ["greeting.txt"]})
    before = quick.tip
    quick.building()
    quick.agent("open('greeting.txt', 'w').write('hello\\n'); built()")
    quick.drained("builder-schwer")
    assert quick.drained("publish").phase == "im_review" and quick.tip == before
    quick.agent("final(review())")
    assert quick.drained("review").phase == "wartet_auf_commitfreigabe"
    quick.store.happen("greet", "release", actor="lukas")
    with pytest.raises(Refused, match="released already"):
        quick.store.happen("greet", "release", actor="lukas")
    # The branch moves meanwhile: the rebased commit is protected too, and the release of the same patch stays.
    quick.push("Somebody else", other__md="x")
    assert quick.drained("publish").phase == "im_review"
    rebased = quick.drained("review")
    assert (rebased.phase, rebased.reviewed) == ("im_review", rebased.commit)
    assert quick.drained("publish").phase == "bereit_fuer_deployment"
    assert quick.tip == rebased.commit


def test_a_worker_whose_job_was_taken_away_pushes_nothing(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.approved()
    before, update = bench.tip, Mirror.update

    def fetch_and_lose_the_job(self: Mirror, git: Git) -> None:
        update(self, git)
        bench.store.happen("greet", "archive", actor="lukas")

    monkeypatch.setattr(Mirror, "update", fetch_and_lose_the_job)
    assert bench.drained("publish").phase == "archiviert"
    assert bench.tip == before


def test_a_lost_remote_makes_the_job_wait_and_nobody_fail(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.approved()

    def gone(self: Mirror, git: Git) -> None:
        raise WorkspaceError("outage", "the remote can't be reached; try again")

    with monkeypatch.context() as patched:
        patched.setattr(Mirror, "update", gone)
        card = bench.drained("publish")
    assert (card.phase, card.status) == ("im_review", "queued")
    assert "can't be reached" in card.reason
    assert bench.job().not_before > 0
    assert bench.store.claim("publish") is None
