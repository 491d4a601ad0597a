"""The Fixer's job: only exactly the pushed and proved commit goes on, and it goes to a fresh review."""

from __future__ import annotations

import pytest
from roles_bench import OWNER, Bench, git

from intent_board import sandbox
from intent_board.board.model import Card, Refused

LOUD = 'final(review("planung_mit_feedback", [dict(severity="blocker", path=None, text="Too loud.")], False))'
#: A Fixer's program: commits what the test writes and pushes it as the role text says.
PUSH = """
import subprocess
def git(*argv):
    done = subprocess.run(["git", *argv], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()
def commit(message="Mends it"):
    git("add", "-A"); git("commit", "-q", "-m", message)
    return git("rev-parse", "HEAD")
def write(text): open("greeting.txt", "w").write(text)
def push(branch=None):
    git("push", "-q", facts["quarantine"], f"HEAD:refs/heads/{branch or facts['branch']}")
def fixed(outcome="repaired", **other):
    fields = dict(schema_version=1, outcome=outcome, summary="Mended.", commit_hash=None, pushed_branch=None, tests=[],
                  question=None, required_action=None, review_required=outcome == "repaired", failure=None)
    final(block("FIX_RESULT", "END_FIX_RESULT", **{**fields, **other}))
def repaired(hash, **other):
    fixed(commit_hash=hash, pushed_branch=facts["branch"], **other)
"""


def refused(bench: Bench) -> Card:
    """A card with a negative review, on its way to a Fixer on the owner's word."""
    bench.in_review()
    bench.agent(LOUD)
    bench.drained("review")
    return bench.store.happen("greet", "repair", actor=OWNER)


def repair(bench: Bench, program: str) -> Card:
    bench.agent(PUSH + program)
    return bench.drained("repair")


def test_a_proved_repair_goes_to_a_fresh_review_of_exactly_that_commit(bench: Bench) -> None:
    before = refused(bench)
    card = repair(bench, "write('hi\\n'); step(); hash = commit(); push(); repaired(hash)")
    assert card.phase == "im_review", card.reason
    assert card.commit != before.commit and card.reviewed is None and card.repairs == 1
    review = bench.job()
    assert (review.role, review.snapshot["commit"]) == ("reviewer", card.commit)
    assert review.snapshot["base"] == before.base
    bench.agent("final(review())")
    bench.drained("review")
    card = bench.drained("publish")
    assert card.phase == "bereit_fuer_deployment", card.reason
    assert bench.tip == card.commit
    assert git("show", "main:greeting.txt", cwd=bench.remote) == "hi"


def test_the_order_shows_the_defect_and_the_findings(bench: Bench) -> None:
    refused(bench)
    program = """
    told = dict(data).get("Negative review of an earlier commit", "")
    good = "Too loud." in told and facts["defect"] == "negative_review" and facts["commit"] == git("rev-parse", "HEAD")
    fixed("needs_input", question="seen" if good else "not seen", required_action="none")
    """
    card = repair(bench, "\n".join(line.strip() for line in program.splitlines()))
    assert (card.status, card.question, card.asked_by) == ("needs_input", "seen", "fixer")


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        ("open('other.txt', 'w').write('x'); hash = commit(); push(); repaired(hash)", "scope"),
        ("write('x'); hash = commit(); repaired(hash)", "quarantine"),
        ("write('x'); hash = commit(); push('elsewhere'); repaired(hash)", "quarantine"),
        ("repaired(facts['commit'])", "quarantine"),
        ("repaired('0' * 40)", "quarantine"),
        ("git('checkout', '-q', '--orphan', 'new'); hash = commit(); push(); repaired(hash)", "only parent"),
        ("write('a'); commit(); write('b'); hash = commit(); push(); repaired(hash)", "only parent"),
        ("write('BROKEN'); hash = commit(); push(); repaired(hash)", "check"),
        ("write('x'); hash = commit(); push(); repaired(hash, pushed_branch='main')", "branch"),
        ("write('x'); commit(); push(); fixed('failed', failure='could not')", "pushed something"),
        ("write('x'); commit(); push(); fixed('not_applicable')", "pushed something"),
        ("fixed('failed', failure='could not')", "could not"),
        ("repaired('0' * 40, TARGET_PHASE='deployed')", "$.TARGET_PHASE"),
        ("print('no json'); sys.exit(3)", "3"),
    ],
)  # fmt: skip
def test_what_is_not_proved_moves_nothing(bench: Bench, program: str, reason: str) -> None:
    before, tip = refused(bench), bench.tip
    card = repair(bench, program)
    assert (card.phase, card.status) == ("klaerung_reparatur", "failed")
    assert reason in card.reason
    assert (card.commit, bench.tip) == (before.commit, tip)
    assert bench.store.present_job("greet") is None


def test_nothing_is_wrong_is_an_answer_too(bench: Bench) -> None:
    refused(bench)
    card = repair(bench, "fixed('not_applicable', summary='It is as loud as asked for.')")
    assert (card.phase, card.status) == ("klaerung_reparatur", "not_applicable")
    assert "as loud as asked for" in card.reason


def test_a_fixers_question_is_answered_by_a_new_session(bench: Bench) -> None:
    refused(bench)
    repair(bench, "fixed('needs_input', question='How loud?', required_action='Say it.')")
    bench.store.happen("greet", "answer", actor=OWNER, data={"answer": {"text": "whisper", "by": OWNER}})
    card = repair(bench, """
heard = "whisper" in str(dict(data))
write('hi\\n' if heard else 'BROKEN'); hash = commit(); push(); repaired(hash)
""")  # fmt: skip
    assert card.phase == "im_review", card.reason


def test_a_limit_ends_the_repair_and_keeps_the_quarantine(bench: Bench) -> None:
    refused(bench)
    card = repair(bench, "while True: step(); time.sleep(0.01)")
    assert (card.phase, card.status) == ("klaerung_reparatur", "limit_reached")
    kept = list((bench.config.state_dir / "quarantines").iterdir())
    assert len(kept) == 1
    assert not any((bench.config.state_dir / "checkouts").iterdir())


def test_the_budget_is_one_for_the_chain(bench: Bench) -> None:
    refused(bench)
    for _ in range(bench.config.repair.budget - 1):
        repair(bench, "fixed('failed', failure='could not')")
        bench.store.happen("greet", "repair", actor=OWNER)
    repair(bench, "fixed('failed', failure='could not')")
    with pytest.raises(Refused, match="budget"):
        bench.store.happen("greet", "repair", actor=OWNER)


def test_a_fixer_sees_nothing_but_its_clone_and_its_quarantine(bench: Bench) -> None:
    refused(bench)
    card = repair(bench, f"""
outside = [path for path in ({str(bench.remote)!r}, {str(bench.config.state_dir / "board.sqlite3")!r})
           if os.path.exists(path)]
fixed("not_applicable", summary=f"seen: {{outside}}")
""")  # fmt: skip
    if sandbox.available() is not None:
        pytest.skip("no sandbox works here, so nothing is hidden")
    assert "seen: []" in card.reason


def test_a_pushed_repair_outlives_the_worker_that_got_its_answer(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    refused(bench)
    bench.agent(PUSH + "write('hi\\n'); [step() for _ in range(5)]; hash = commit(); push(); repaired(hash)")
    bench.die(monkeypatch, "repair", "take")
    bench.ticked()
    card = repair(bench, "sys.exit('a second run')")
    assert card.phase == "im_review", card.reason
    assert list((bench.top / "state" / "quarantines").iterdir()) == []


def test_a_quarantine_that_nobody_took_goes_with_its_card(bench: Bench) -> None:
    refused(bench)
    repair(bench, "write('x'); commit(); push(); fixed('failed', failure='gave up')")
    quarantines = bench.top / "state" / "quarantines"
    bench.ticked()
    assert len(list(quarantines.iterdir())) == 1
    bench.store.happen("greet", "archive", actor=OWNER)
    bench.ticked()
    assert list(quarantines.iterdir()) == []


def test_a_builder_after_a_repair_goes_on_from_the_repaired_commit(bench: Bench) -> None:
    refused(bench)
    fixed = repair(bench, "write('hi\\n'); hash = commit(); push(); repaired(hash)")
    bench.agent(LOUD)
    bench.drained("review")
    bench.store.happen("greet", "retry", actor=OWNER)
    bench.ticked()
    bench.agent("""
        assert open("greeting.txt").read() == "hi\\n" and facts["continues"]
        while True: step(); time.sleep(0.01)
    """)
    assert bench.drained("builder-schwer").phase == "geplant"
    bench.ticked()
    bench.agent("open('greeting.txt', 'a').write('there\\n'); built()")
    card = bench.drained("builder-schwer")
    assert (card.phase, card.base) == ("im_review", fixed.base), card.reason
    mirror = bench.top / "state" / "mirrors" / "demo.git"
    assert git("rev-parse", f"{card.commit}^", cwd=mirror) == fixed.commit
    assert bench.job().snapshot["paths"] == ["greeting.txt"]
    bench.push("Meanwhile", other__md="x")
    bench.agent("final(review())")
    bench.drained("review")
    assert bench.drained("publish").phase == "im_review"
    bench.drained("review")
    assert bench.drained("publish").phase == "bereit_fuer_deployment"
    assert git("show", "main:greeting.txt", cwd=bench.remote) == "hi\nthere"
