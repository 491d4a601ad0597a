"""The Operator's job: what each answer makes of the card, and that a refused one makes nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from roles_bench import Bench, git

from intent_board import sandbox
from intent_board.roles import base


def test_a_direct_decision_gives_the_card_its_lane_and_ladder(bench: Bench) -> None:
    bench.submit()
    bench.agent("""
        step()
        final("Sure, here it is: " + decision("direct_builder", "leicht",
            escalation=[{"model": "large", "reasoning_effort": None, "iteration_limit": 9}]))
    """)
    card = bench.drained("operator")
    assert (card.phase, card.lane) == ("geplant", "leicht")
    assert card.ladder is not None
    assert [rung.model for rung in card.ladder] == ["large"]
    line = bench.last()
    assert line.job.used_iterations == 1
    assert line.role_version == "1/1"
    assert len(line.role_hash) == 64
    assert line.result["commit"] == bench.tip


def test_a_decision_without_a_ladder_is_not_an_empty_ladder(bench: Bench) -> None:
    bench.submit()
    bench.agent("""
        import json
        answer = decision("direct_builder", "leicht")
        head, body, end = answer.split("\\n")
        fields = json.loads(body); del fields["escalation"]
        final("\\n".join([head, json.dumps(fields), end]))
    """)
    assert bench.drained("operator").ladder is None


def test_a_split_makes_every_child_at_once(bench: Bench) -> None:
    bench.submit()
    bench.agent("""
        final(decision("split", children=[child("greet-a", ["a.txt"]), child("greet-b", ["b"], 2, ["greet-a"])]))
    """)
    assert bench.drained("operator").phase == "wartet_auf_kinder"
    children = {child.slug: child for child in bench.store.family("greet")}
    assert set(children) == {"greet-a", "greet-b"}
    assert children["greet-b"].blocked_by == ("greet-a",)
    assert children["greet-a"].write_scope == ("a.txt",)
    assert bench.store.intent("greet-a") == "# Intent: greet-a\n"
    assert any("Goal" in warning for warning in children["greet-a"].warnings)


def test_a_split_with_a_slug_that_is_taken_makes_nothing(bench: Bench) -> None:
    bench.submit("other")
    bench.submit()
    bench.agent("""
        if facts["card"] == "other": final(decision("needs_human", human_action="Say."))
        else: final(decision("split", children=[child("greet-a", ["a"]), child("other", ["b"])]))
    """)
    card = bench.drained("operator")
    assert (card.phase, card.status) == ("operator_klaerung_noetig", "failed")
    assert "other" in card.reason
    assert bench.store.family("greet") == ()


def test_a_question_goes_to_a_person_and_its_answer_to_the_next_operator(bench: Bench) -> None:
    bench.submit()
    bench.agent("""final(decision("needs_human", human_action="Which host?"))""")
    card = bench.drained("operator")
    assert (card.phase, card.human_action) == ("operator_klaerung_noetig", "Which host?")
    bench.store.happen("greet", "answer", actor="lukas", data={"answer": {"text": "mx1"}})
    bench.agent("""
        labels = dict(data)
        good = "mx1" in labels["Answer of a person to an earlier question"] and "# Intent: Greet" in labels["Intent"]
        final(decision("direct_builder", "leicht") if good else "no")
    """)
    assert bench.drained("operator").phase == "geplant"


@pytest.mark.parametrize(
    ("program", "status", "reason"),
    [
        ("final('I would say: build it.')", "failed", "was refused"),
        ("""final(decision("direct_builder", "leicht", model="gpt-9"))""", "failed", "$.model"),
        ("while True: step(); time.sleep(0.01)", "limit_reached", "limit of 5 steps"),
        ("step(); sys.exit(3)", "failed", "ended with 3"),
    ],
)
def test_what_is_no_decision_creates_nothing_and_says_why(bench: Bench, program: str, status: str, reason: str) -> None:
    bench.submit()
    bench.agent(program)
    card = bench.drained("operator")
    assert (card.phase, card.status) == ("operator_klaerung_noetig", status)
    assert reason in card.reason
    assert bench.store.family("greet") == ()


def test_a_refused_answer_is_kept_word_for_word(bench: Bench) -> None:
    bench.submit()
    bench.agent("final('nonsense\\n===OPERATOR-DECISION===')")
    bench.drained("operator")
    assert bench.store.raw(bench.last().job.id) == "nonsense\n===OPERATOR-DECISION==="


def test_a_run_out_of_time_is_timed_out(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "queue_seconds", lambda queue, config: 0.5)
    bench.submit()
    bench.agent("step(); time.sleep(60)")
    card = bench.drained("operator")
    assert (card.phase, card.status) == ("operator_klaerung_noetig", "timed_out")


def test_the_checkout_is_read_only(bench: Bench) -> None:
    if reason := sandbox.available():
        pytest.skip(reason)
    bench.submit()
    bench.agent("""
        try: open("README.md", "a").write("x"); final("wrote")
        except OSError: final(decision("direct_builder", "leicht"))
    """)
    assert bench.drained("operator").phase == "geplant"


def test_a_run_that_changed_its_checkout_is_void(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "available", lambda: "no sandbox in this test")
    bench.submit()
    bench.agent("""open("README.md", "a").write("x"); final(decision("direct_builder", "leicht"))""")
    card = bench.drained("operator")
    assert (card.phase, card.status) == ("operator_klaerung_noetig", "failed")
    assert "void" in card.reason


def test_an_empty_repository_can_be_decided_about(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    git("init", "-q", "--bare", "-b", "main", str(bench.remote), cwd=tmp_path)
    bench.submit()
    bench.agent("""
        empty = facts["commit"] is None and os.listdir() == []
        final(decision("direct_builder", "leicht") if empty else "not empty")
    """)
    assert bench.drained("operator").phase == "geplant"
    assert list((tmp_path / "state" / "checkouts").iterdir()) == []


def test_the_operator_is_told_what_it_may_choose_from(bench: Bench) -> None:
    bench.submit("other")
    bench.submit()
    bench.agent("""
        right = (facts["role"] == "operator" and facts["iteration_limit"] == 5 and facts["max_children"] == 10
            and set(facts["lanes"]) == {"schwer", "leicht"} and facts["model_pools"] == {"command": ["small", "large"]}
            and {"other", "greet"} <= set(facts["taken_slugs"]) and len(facts["commit"]) == 40)
        final(decision("direct_builder", "schwer") if right else json.dumps(facts))
    """)
    assert bench.drained("operator").phase == "geplant", bench.store.raw(bench.last().job.id)
