"""Claude Code's events, with a script in its place.  tests/agents runs the real one."""

from __future__ import annotations

import time

import pytest
from runtimes_bench import Agent

from intent_board.runtimes import Outcome

CLAUDE = """
    def assistant(name, *blocks, model="m", parent=None, **more):
        for block in blocks:
            message = {"id": name, "model": model, "content": [block]}
            say(type="assistant", message=message, parent_tool_use_id=parent, **more)
    def text(words):
        return {"type": "text", "text": words}
    def use(name):
        return {"type": "tool_use", "id": name, "name": "Read", "input": {}}
    def returned(name):
        say(type="user", message={"role": "user", "content": [{"type": "tool_result", "tool_use_id": name}]})
    def result(**fields):
        usage = {"input_tokens": 10, "cache_read_input_tokens": 5, "output_tokens": 3}
        event = {"type": "result", "subtype": "success", "is_error": False, "usage": usage, "total_cost_usd": 0.5}
        say(**event | fields)
    say(type="system", subtype="init")
"""


@pytest.fixture
def scripted(agent: Agent) -> Agent:
    agent.runtime = {"kind": "claude"}
    agent.prelude = CLAUDE
    return agent


def test_an_answer(scripted: Agent) -> None:
    result = scripted.run("""
        assistant("1", text("on the way"), use("a"), use("b")); returned("a"); returned("b")
        assistant("sub", text("of a sub-agent"), parent="a")
        assistant("1", text("of the same message"))
        assistant("2", text("the answer"))
        result(result="the answer", num_turns=17)
    """)
    assert (result.outcome, result.text, result.iterations) == (Outcome.ANSWERED, "the answer", 2)
    assert result.usage == {"input_tokens": 15, "cached_input_tokens": 5, "output_tokens": 3}
    assert result.cost_usd == 0.5


def test_its_own_limit(scripted: Agent) -> None:
    result = scripted.run("""
        for n in range(5):
            assistant(str(n), use("a")); returned("a")
        result(subtype="error_max_turns", is_error=True, errors=["Reached maximum number of turns (5)"])
        sys.exit(1)
    """)
    assert (result.outcome, result.iterations) == (Outcome.LIMIT_REACHED, 5)


def test_our_limit_when_its_own_does_not_hold(scripted: Agent) -> None:
    result = scripted.run("""
        for n in range(9):
            assistant(str(n), text("again")); time.sleep(0.05)
        result(result="too late")
    """)
    assert (result.outcome, result.text, result.iterations) == (Outcome.LIMIT_REACHED, "", 5)


@pytest.mark.parametrize(
    ("fields", "outcome"),
    [
        ("is_error=True, api_error_status=429, result='slow down'", Outcome.RATE_LIMITED),
        ("is_error=True, api_error_status=401, result='x'", Outcome.BAD_CREDENTIALS),
        ("is_error=True, api_error_status=400, result='Your credit balance is too low'", Outcome.QUOTA),
        ("is_error=True, api_error_status=529, result='x'", Outcome.OUTAGE),
        ("is_error=True, api_error_status=None, result='API Error: Connection error.'", Outcome.OUTAGE),
        ("is_error=True, result='something else'", Outcome.FAILED),
        ("is_error=True, subtype='error_during_execution', errors=['boom']", Outcome.FAILED),
        ("is_error=True, subtype='error_during_execution', errors='boom'", Outcome.FAILED),
        ("is_error=None, result='x'", Outcome.FAILED),
        ("subtype='other', result='x'", Outcome.FAILED),
        ("result=None", Outcome.FAILED),
    ],
)
def test_an_error_is_no_answer(scripted: Agent, fields: str, outcome: Outcome) -> None:
    result = scripted.run(f"""
        assistant("e", text("API Error: the provider's words"), model="<synthetic>", error="unknown")
        result({fields})
        sys.exit(1)
    """)
    assert (result.outcome, result.text, result.iterations, result.last_texts) == (outcome, "", 0, ())
    assert result.reason


def test_a_weekly_limit_with_its_time(scripted: Agent) -> None:
    result = scripted.run(
        'result(is_error=True, api_error_status=429, result="You\'ve hit your weekly limit · resets in 30 hours")'
    )
    assert result.outcome is Outcome.RATE_LIMITED
    assert result.retry_at == pytest.approx(time.time() + 30 * 3600, abs=30)


def test_a_limit_event_names_the_time(scripted: Agent) -> None:
    result = scripted.run("""
        say(type="rate_limit_event", rate_limit_info={"status": "rejected", "resetsAt": 1790000000})
        result(is_error=True, api_error_status=429, result="limit")
    """)
    assert (result.outcome, result.retry_at) == (Outcome.RATE_LIMITED, 1790000000.0)


def test_a_long_wait_is_the_boards(scripted: Agent) -> None:
    result = scripted.run("""
        say(type="system", subtype="api_retry", error_status=429, error="rate_limit", retry_delay_ms=3600_000)
        time.sleep(60)
    """)
    assert result.outcome is Outcome.RATE_LIMITED
    assert result.retry_at == pytest.approx(time.time() + 3600, abs=30)
    assert result.seconds < 10


def test_short_waits_are_its_own(scripted: Agent) -> None:
    result = scripted.run("""
        say(type="system", subtype="api_retry", error_status=529, error="overloaded", retry_delay_ms=600)
        say(type="system", subtype="api_retry", error_status="x", error=None, retry_delay_ms="soon")
        assistant("1", text("done")); result(result="done")
    """)
    assert (result.outcome, result.text) == (Outcome.ANSWERED, "done")


def test_ended_in_the_middle_of_its_retries(scripted: Agent) -> None:
    result = scripted.run("""
        say(type="system", subtype="api_retry", error_status=500, error="server_error", retry_delay_ms=600)
        sys.exit(143)
    """)
    assert result.outcome is Outcome.OUTAGE


def test_a_failure_after_the_answer_takes_nothing_back(scripted: Agent) -> None:
    result = scripted.run("result(result='done'); result(is_error=True, subtype='error_during_execution')")
    assert (result.outcome, result.text) == (Outcome.ANSWERED, "done")


def test_silence_of_a_tool_and_of_the_model(scripted: Agent) -> None:
    waiting = "assistant('1', use('a')); time.sleep(60)"
    assert scripted.run(waiting, idle_seconds=0.5).outcome is Outcome.TIMED_OUT
    waiting = "assistant('1', use('a')); returned('a'); time.sleep(60)"
    assert scripted.run(waiting, idle_seconds=0.5).outcome is Outcome.OUTAGE


@pytest.mark.parametrize(
    ("said", "outcome"),
    [
        ("error: unknown option --x", Outcome.REFUSED_CONFIGURATION),
        ("Invalid API key · Please run /login", Outcome.BAD_CREDENTIALS),
    ],
)
def test_refused(scripted: Agent, said: str, outcome: Outcome) -> None:
    scripted.runtime["command"] = ["/bin/sh", "-c", f"echo '{said}' >&2; exit 1"]
    result = scripted.run("")
    assert (result.outcome, result.exit_code) == (outcome, 1)
    assert said in result.reason


@pytest.mark.parametrize("value", ["None", "3", "[]", "'x'", "{'content': 'x'}", "{'content': [None, 3]}", "{'id': 3}"])
def test_events_of_another_shape(scripted: Agent, value: str) -> None:
    result = scripted.run(f"""
        for kind in ("assistant", "user", "system", "result", "rate_limit_event", None, 3):
            say(type=kind, message={value}, rate_limit_info={value}, subtype={value}, usage={value}, errors={value})
        result(result="fine")
    """)
    assert (result.outcome, result.text) == (Outcome.ANSWERED, "fine")
