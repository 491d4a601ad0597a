"""board-worker, board-scheduler and board-operator as processes: what they say, and their exit codes."""

from __future__ import annotations

import fcntl
import json
import os
import pwd
import subprocess
import sys
from pathlib import Path

import pytest
from roles_bench import Bench

from intent_board.config import to_toml

ME = pwd.getpwuid(os.geteuid()).pw_name
NEEDS_HUMAN = {
    "schema_version": 1,
    "decision": "needs_human",
    "reason": "Because.",
    "recommended_lane": None,
    "runtime": None,
    "model": None,
    "reasoning_effort": None,
    "human_action": "Say which host.",
    "escalation": [],
    "children": [],
}


@pytest.fixture
def mine(tmp_path: Path, bench: Bench) -> Bench:
    """A board of the user who runs the tests, with its file beside it."""
    made = Bench(tmp_path, {"board.owner": ME})
    (tmp_path / "board.toml").write_text(to_toml(made.config))
    return made


def run(mine: Bench, program: str, *arguments: str, text: str = "") -> subprocess.CompletedProcess[str]:
    code = f"from intent_board.cli.{program} import main; main(prog_name='board-{program}')"
    environment = {key: value for key, value in os.environ.items() if key != "SUDO_UID"}
    environment["INTENT_BOARD_CONFIG"] = str(mine.top / "board.toml")
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, env=environment, input=text, capture_output=True, text=True, check=False)


def answer(**fields: object) -> str:
    body = json.dumps({**NEEDS_HUMAN, **fields})
    return f"Here:\n===OPERATOR-DECISION===\n{body}\n===END-OPERATOR-DECISION===\n"


def test_check_accepts_and_refuses_without_a_store(mine: Bench) -> None:
    good = run(mine, "operator", "check", "-", "--parent", "greet", text=answer())
    assert (good.returncode, good.stdout) == (0, "ok: needs_human: Say which host.\n")
    shown = run(mine, "operator", "check", "-", "--parent", "greet", "--json", text=answer())
    assert json.loads(shown.stdout)["human_action"] == "Say which host."
    bad = run(mine, "operator", "check", "-", "--parent", "greet", text=answer(human_action=None))
    assert bad.returncode == 1
    assert bad.stdout == ""
    assert bad.stderr.startswith("board-operator: $.human_action")
    assert len(bad.stderr.splitlines()) == 1


def test_check_shows_what_the_intents_of_the_children_lack(mine: Bench) -> None:
    lane = mine.config.lanes["schwer"]
    profile = {"runtime": lane.runtime, "model": lane.model, "reasoning_effort": lane.reasoning_effort}
    one = {"slug": "part", "title": "Part", "wave": 1, "blocked_by": [], "recommended_lane": "schwer", **profile}
    one |= {"write_scope": ["a"], "acceptance_criteria": ["a is there"], "escalation": []}
    one |= {"intent_markdown": "# Intent: Part\n\n## Goal\nMake a.\n"}
    text = answer(decision="split", human_action=None, children=[one])
    shown = run(mine, "operator", "check", "-", "--parent", "greet", "--json", text=text)
    assert shown.returncode == 0, shown.stderr
    (child,) = json.loads(shown.stdout)["children"]
    assert any("uccess" in warning for warning in child["warnings"]), child["warnings"]
    assert child["write_scope"] == ["a"]


def test_check_imports_neither_the_store_nor_git(mine: Bench) -> None:
    code = (
        "import sys; from intent_board.cli.operator import main\n"
        "try: main(['check', '-', '--parent', 'greet'])\n"
        "except SystemExit as end: assert end.code == 0\n"
        "heavy = {'sqlalchemy', 'alembic', 'rich', 'apprise', 'intent_board.store', 'intent_board.workspace'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)"
    )
    environment = {**os.environ, "INTENT_BOARD_CONFIG": str(mine.top / "board.toml")}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, input=answer(), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_apply_takes_the_operators_place(mine: Bench) -> None:
    mine.submit()
    done = run(mine, "operator", "apply", "-", "--parent", "greet", text=answer())
    assert done.returncode == 0, done.stderr
    card = mine.store.card("greet")
    assert (card.phase, card.human_action) == ("operator_klaerung_noetig", "Say which host.")
    assert mine.last().job.state == "done"
    assert mine.last().result["by_hand"] == ME
    again = run(mine, "operator", "apply", "-", "--parent", "greet", text=answer())
    assert again.returncode == 1
    assert "no Operator job that waits" in again.stderr


def test_a_refused_answer_by_hand_leaves_the_card_waiting(mine: Bench) -> None:
    mine.submit()
    done = run(mine, "operator", "apply", "-", "--parent", "greet", text=answer(decision="maybe"))
    assert done.returncode == 1
    assert "$.decision" in done.stderr
    assert (mine.store.card("greet").phase, mine.job().state) == ("operator_pruefung", "queued")


def test_only_the_owner_applies(mine: Bench) -> None:
    (mine.top / "board.toml").write_text(to_toml(mine.config).replace(f'owner = "{ME}"', 'owner = "somebody-else"'))
    done = run(mine, "operator", "apply", "-", "--parent", "greet", text=answer())
    assert done.returncode == 1
    assert "only the owner somebody-else" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nonsense"], "there is no queue 'nonsense'"),
        (["deploy"], "there is no queue 'deploy' for a worker"),
        (["review", "--slot", "7"], "has 1 slot"),
        ([], "Missing argument"),
    ],
)
def test_a_wrong_queue_or_slot_is_wrong_usage(mine: Bench, arguments: list[str], said: str) -> None:
    done = run(mine, "worker", *arguments)
    assert done.returncode == 2
    assert said in done.stderr


def test_a_worker_serves_its_queue_as_a_process_and_logs_each_job(mine: Bench) -> None:
    mine.submit()
    mine.agent("""final(decision("needs_human", human_action="Say."))""")
    done = run(mine, "worker", "operator")
    assert done.returncode == 0, done.stderr
    assert "operator of greet: operator_needs_human" in done.stderr
    assert mine.store.card("greet").phase == "operator_klaerung_noetig"


def test_a_missing_configuration_is_one_sentence(mine: Bench) -> None:
    for program, arguments in (("worker", ["review"]), ("scheduler", ["tick"]), ("operator", ["check", "-"])):
        (mine.top / "board.toml").unlink(missing_ok=True)
        more = ["--parent", "greet"] if program == "operator" else []
        done = run(mine, program, *arguments, *more, text=answer())
        assert done.returncode == 1, program
        assert "cannot be read" in done.stderr
        assert "Traceback" not in done.stderr


def test_a_second_tick_says_that_one_is_running(mine: Bench) -> None:
    assert run(mine, "scheduler", "tick").returncode == 0
    with (mine.top / "state" / "locks" / "scheduler.lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        done = run(mine, "scheduler", "tick")
    assert done.returncode == 0
    assert "another tick is running" in done.stdout
