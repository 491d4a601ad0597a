"""The Builder's job: what each end of a run makes of the card, and what the next run is told of it."""

from __future__ import annotations

import time

import pytest
from roles_bench import Bench, git

from intent_board import sandbox
from intent_board.roles import base
from intent_board.runtimes import Credentials

DONE = "open('greeting.txt', 'w').write('hello\\n'); step(); built()"


def test_a_build_becomes_one_commit_that_waits_for_its_review(bench: Bench) -> None:
    start = bench.tip
    bench.building()
    bench.agent("open('greeting.txt', 'w').write('hello\\n'); step(); built('Says hello.\\n\\nAnd why.')")
    card = bench.drained("builder-schwer")
    assert (card.phase, card.status, card.base) == ("im_review", "queued", start)
    assert card.commit is not None
    review = bench.job()
    assert review.role == "reviewer"
    assert len(review.snapshot["nonce"]) == 32
    assert review.snapshot["paths"] == ["greeting.txt"]
    assert [check["exit_code"] for check in review.snapshot["checks"]] == [0]
    message = git("log", "-1", "--format=%B", card.commit, cwd=bench.top / "state" / "mirrors" / "demo.git")
    assert message.startswith("Greet\n\nSays hello.\n\nAnd why.")
    assert "Intent: greet" in message
    assert bench.tip == start
    assert list((bench.top / "state" / "answers").iterdir()) == []
    assert list((bench.top / "state" / "reports").iterdir()) == []


def test_a_limit_keeps_the_tree_and_hands_its_report_to_the_next_session(bench: Bench) -> None:
    bench.building()
    bench.agent("""
        open("greeting.txt", "w").write("hel")
        open(os.environ["INTENT_BOARD_REPORT"], "w").write('{"done": ["hel"], "open": ["lo"], "next": "write lo"}')
        while True: step("thinking about lo"); time.sleep(0.01)
    """)
    card = bench.drained("builder-schwer")
    assert (card.phase, card.status, card.rung, card.commit) == ("geplant", "waiting_for_builder", 1, None)
    (report,) = bench.attached("interim_report")
    assert report["agent"] == {"done": ["hel"], "open": ["lo"], "next": "write lo"}
    assert report["changed_files"] == ["greeting.txt"]
    assert report["iterations"] == 5
    assert report["last_texts"][-1] == "thinking about lo"
    assert bench.ticked().phase == "in_umsetzung"
    bench.agent("""
        told = dict(data)["Report of an earlier attempt that did not get to its end"]
        good = facts["continues"] and "write lo" in told and open("greeting.txt").read() == "hel"
        open("greeting.txt", "a").write("lo\\n" if good else "BROKEN")
        step(); built()
    """)
    card = bench.drained("builder-schwer")
    assert card.phase == "im_review", card.reason
    assert bench.last().job.attempt == 1  # the review's
    assert card.attempts["builder"] == 2


def test_a_limit_without_a_rung_left_ends_at_a_person(bench: Bench) -> None:
    bench.at_its_limit()
    assert len(bench.attached("interim_report")) == 2


def test_an_answer_in_the_last_step_counts(bench: Bench) -> None:
    bench.building()
    bench.agent("[step() for _ in range(5)]; open('greeting.txt', 'w').write('x'); built()")
    assert bench.drained("builder-schwer").phase == "im_review"


@pytest.mark.parametrize("boxed", [True, False], ids=["in a sandbox", "without one"])
def test_what_an_agent_leaves_running_changes_nothing_after_its_answer(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, boxed: bool
) -> None:
    """A process in a session of its own that keeps the output open, and writes when its agent is long gone."""
    if boxed and sandbox.available() is not None:
        pytest.skip(f"no sandbox here: {sandbox.available()}")
    if not boxed:
        monkeypatch.setattr(sandbox, "available", lambda: "there is none in this test")
    bench.building()
    bench.agent("""
        import subprocess
        later = "import time; time.sleep(1.5); open('greeting.txt', 'w').write('BROKEN'); print('late', flush=True)"
        subprocess.Popen([sys.executable, "-c", later], start_new_session=True)
        open("greeting.txt", "w").write("hello\\n"); step(); built()
    """)
    card = bench.drained("builder-schwer")
    tree = bench.context.workspace.tree("greet")
    assert card.phase == "im_review" and tree is not None, card.reason
    time.sleep(2.0)
    assert (tree / "greeting.txt").read_text() == "hello\n"


@pytest.mark.parametrize(
    ("program", "status", "reason"),
    [
        ("open('other.txt', 'w').write('x'); built()", "check_failed", "outside the write scope"),
        ("open('greeting.txt', 'w').write('BROKEN'); built()", "check_failed", "`sh check.sh` exited with 1"),
        ("os.makedirs('greeting.txt/.git'); built()", "check_failed", ".git"),
        ("built()", "no_changes", "changed nothing: Greets."),
        ("final('done!')", "failed", "answer was refused"),
        ("built(outcome='needs_input')", "failed", "$.question"),
        ("step(); sys.exit(1)", "failed", "ended with 1"),
        ("built(outcome='needs_input', question='Which greeting?')", "needs_input", "Which greeting?"),
    ],
)
def test_every_other_end_is_a_persons_turn_with_the_reason(
    bench: Bench, program: str, status: str, reason: str
) -> None:
    bench.building()
    bench.agent(program)
    card = bench.drained("builder-schwer")
    assert (card.phase, card.status) == ("klaerung_reparatur", status), card.reason
    assert reason in card.reason
    assert card.reviewed is None


def test_paths_outside_the_scope_are_listed(bench: Bench) -> None:
    bench.building()
    bench.agent("[open(name, 'w').write('x') for name in ('a.txt', 'b.txt', 'greeting.txt')]; built()")
    bench.drained("builder-schwer")
    assert bench.attached("findings")[0]["detail"] == ["a.txt", "b.txt"]


def test_the_output_of_a_failed_check_is_a_finding_for_the_next_session(bench: Bench) -> None:
    bench.building()
    bench.push("A louder check", check__sh="echo the reason; exit 3")
    bench.agent(DONE)
    bench.drained("builder-schwer")
    bench.store.happen("greet", "retry", actor="lukas")
    bench.ticked()
    bench.agent("""
        told = dict(data).get("Findings about earlier work", "")
        built(outcome="needs_input", question="found" if "the reason" in told else json.dumps(data))
    """)
    assert bench.drained("builder-schwer").question == "found"


def test_one_of_our_own_secrets_in_the_diff_fails_the_build(bench: Bench) -> None:
    bench.use(Credentials(values={"openai-api-key": "sk-1234567890abcdef"}))
    bench.building()
    bench.agent("open('greeting.txt', 'w').write('sk-1234567890abcdef'); built()")
    card = bench.drained("builder-schwer")
    assert card.status == "check_failed"
    assert "sk-1234567890abcdef" not in card.reason


def test_a_card_without_a_scope_may_change_the_whole_repository(bench: Bench) -> None:
    bench.building(scope=())
    bench.agent("open('anything.md', 'w').write('x'); built()")
    assert bench.drained("builder-schwer").phase == "im_review"


def test_a_wall_clock_timeout_keeps_a_report_and_climbs_no_ladder(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(base, "queue_seconds", lambda queue, config: 0.7)
    bench.building()
    bench.agent("step('slow'); time.sleep(60)")
    card = bench.drained("builder-schwer")
    assert (card.phase, card.status, card.rung) == ("klaerung_reparatur", "timed_out", 0)
    assert bench.attached("interim_report")[0]["ended"] == "timed_out"


def test_the_builder_is_told_its_scope_its_checks_and_its_steps(bench: Bench) -> None:
    bench.building()
    bench.agent("""
        right = (facts["write_scope"] == ["greeting.txt"] and facts["checks"] == [["sh", "check.sh"]]
            and facts["iteration_limit"] == 5 and not facts["continues"]
            and json.loads(dict(data)["Acceptance criteria"])[0]["text"] == "`greeting.txt` says hello.")
        built(outcome="needs_input", question="right" if right else json.dumps([facts, data]))
    """)
    assert bench.drained("builder-schwer").question == "right"


def test_a_child_in_an_empty_repository_makes_its_first_commit(tmp_path_factory: pytest.TempPathFactory) -> None:
    top = tmp_path_factory.mktemp("empty")
    git("init", "-q", "--bare", "-b", "main", str(top / "remote.git"), cwd=top)
    bench = Bench(top, {"repositories.demo": {"remote_url": f"file://{top}/remote.git", "branch": "main"}})
    bench.building()
    bench.agent(DONE)
    card = bench.drained("builder-schwer")
    assert (card.phase, card.base) == ("im_review", None)
    bench.agent("final(review())")
    bench.drained("review")
    assert bench.drained("publish").phase == "bereit_fuer_deployment"
    assert bench.tip == card.commit


def test_a_credential_in_the_agents_report_is_redacted(bench: Bench) -> None:
    bench.use(Credentials(values={"openai-api-key": "sk-1234567890abcdef"}))
    bench.building()
    bench.agent("""
        report = {"done": ["sk-1234567890abcdef"], "open": [], "next": "use sk-1234567890abcdef"}
        open(os.environ["INTENT_BOARD_REPORT"], "w").write(json.dumps(report))
        while True: step(); time.sleep(0.01)
    """)
    bench.drained("builder-schwer")
    (report,) = bench.attached("interim_report")
    assert report["agent"] == {"done": ["[redacted]"], "open": [], "next": "use [redacted]"}
