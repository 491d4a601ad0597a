"""Codex's events, its gate and its rollout file, with a script in its place.  tests/agents runs the real one."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import pytest
from runtimes_bench import Agent

from intent_board.runtimes import Outcome, codex
from intent_board.runtimes.codex import Codex
from intent_board.runtimes.gate import Gate

#: What a run of Codex does, as functions: ask() for the next request, record() its answer.
CODEX = """
    import pathlib, re, subprocess
    home = pathlib.Path(os.environ["CODEX_HOME"])
    rollout = home / "sessions/2026/10/07/rollout-1-a.jsonl"
    rollout.parent.mkdir(parents=True)
    out = rollout.open("w")
    hook = next(re.search(r'"command" = "([^"]+)"', word)[1] for word in sys.argv if word.startswith("hooks."))
    asked = 0
    def ask(name=None):
        global asked
        asked += name is None
        event = '{"kind":"sampling","request_id":"%s","attempt_number":1}' % (name or f"request-{asked}")
        subprocess.run(hook.split(), input=event.encode(), check=True)
    def record(*calls):
        for call in calls:
            out.write(json.dumps({"type": "response_item", "payload": {"type": call}}) + "\\n")
        usage = {"input_tokens": 10, "output_tokens": 5}
        out.write(json.dumps({"type": "token_usage_record", "payload": {"thread_token_usage": usage}}) + "\\n")
        out.flush()
    def message(text):
        say(type="item.completed", item={"id": text, "type": "agent_message", "text": text})
    def tool(name="t", kind="item.completed"):
        say(type=kind, item={"id": name, "type": "command_execution"})
    def done():
        say(type="turn.completed", usage={"input_tokens": 1, "cached_input_tokens": 2, "output_tokens": 3})
    say(type="thread.started", thread_id="a")
"""


@pytest.fixture
def scripted(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> Agent:
    agent.runtime = {"kind": "codex", "credentials": {"OPENAI_API_KEY": "key"}}
    monkeypatch.setattr(codex, "_nests", lambda command: False)
    agent.prelude = CODEX
    return agent


def test_an_answer(scripted: Agent) -> None:
    result = scripted.run("""
        ask(); message("on the way"); record("function_call"); tool(kind="item.started"); tool()
        ask(); message("the answer"); record(); done()
    """)
    assert (result.outcome, result.text, result.iterations) == (Outcome.ANSWERED, "the answer", 2)
    assert result.usage == {
        "input_tokens": 1,
        "cached_input_tokens": 2,
        "output_tokens": 3,
        "reasoning_output_tokens": 0,
    }


def test_what_was_said_before_a_tool_is_no_answer(scripted: Agent) -> None:
    result = scripted.run("ask(); message('on the way'); tool(); record(); ask(); record(); done()")
    assert (result.outcome, result.text) == (Outcome.ANSWERED, "")
    assert result.last_texts == ("on the way",)


def test_the_gate_stays_shut_at_the_limit(scripted: Agent) -> None:
    result = scripted.run(
        """
        for n in range(9):
            ask(); open(f"step-{n + 1}", "w").close(); record("function_call"); tool()
        message("too late"); done()
        """,
        iteration_limit=3,
    )
    assert (result.outcome, result.text, result.iterations) == (Outcome.LIMIT_REACHED, "", 3)
    assert scripted.steps == [1, 2, 3]
    assert sorted(path.name for path in scripted.tree.iterdir()) == ["step-1", "step-2", "step-3"]


def test_a_request_that_is_tried_again_is_one_step(scripted: Agent) -> None:
    result = scripted.run(
        """
        ask(); ask("request-1"); ask("request-1"); record("function_call"); tool()
        ask(); message("done"); record(); done()
        """,
        iteration_limit=2,
    )
    assert (result.outcome, result.iterations) == (Outcome.ANSWERED, 2)


def test_without_a_gate_the_rollout_file_decides(scripted: Agent) -> None:
    result = scripted.run(
        """
        for n in range(9):
            record("function_call"); tool(); time.sleep(0.3)
        done()
        """,
        iteration_limit=3,
    )
    assert (result.outcome, result.iterations) == (Outcome.LIMIT_REACHED, 3)
    result = scripted.run("record('function_call'); record(); message('done'); done()", iteration_limit=2)
    assert (result.outcome, result.text, result.iterations) == (Outcome.ANSWERED, "done", 2)


def test_a_rollout_file_that_the_agent_spoils_makes_no_step_free(scripted: Agent) -> None:
    result = scripted.run(
        """
        for n in range(9):
            ask(); record("function_call"); tool()
            out.truncate(0)
            if n == 1:
                rollout.unlink(); rollout.symlink_to("/nowhere")
        """,
        iteration_limit=4,
    )
    assert (result.outcome, result.iterations) == (Outcome.LIMIT_REACHED, 4)


@pytest.mark.parametrize("trick", ["rollout.symlink_to('/proc/version')", "os.mkfifo(rollout)", "rollout.mkdir()"])
def test_a_rollout_file_that_is_none(scripted: Agent, trick: str) -> None:
    result = scripted.run(f"rollout.unlink(); {trick}; time.sleep(0.2); ask(); message('done'); done()")
    assert (result.outcome, result.text, result.iterations) == (Outcome.ANSWERED, "done", 1)


def test_the_agent_cannot_open_the_gate_itself(boxed: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codex, "_nests", lambda command: False)
    boxed.runtime, boxed.prelude = {"kind": "codex"}, CODEX
    result = boxed.run(
        """
        gate = pathlib.Path(hook.split()[1]).parent
        ask(); record("function_call")
        tried = []
        for attack in (lambda: (gate / "hook").write_text(""), lambda: (gate / "grants").unlink(),
                       lambda: (gate / "asks").rename(gate / "x"), lambda: (gate / "new").touch()):
            try:
                attack(); tried.append(0)
            except OSError as error:
                tried.append(error.errno)
        message(json.dumps(tried)); done()
        """
    )
    assert result.text == "[30, 30, 30, 30]"


def test_asking_for_more_than_it_needs_only_costs(scripted: Agent) -> None:
    result = scripted.run("ask('a'); ask('b'); ask('c'); ask('d'); open('beyond', 'w')", iteration_limit=3)
    assert (result.outcome, result.iterations) == (Outcome.LIMIT_REACHED, 3)
    assert not (scripted.tree / "beyond").exists()


def test_a_passing_fault_does_not_spoil_the_answer(scripted: Agent) -> None:
    result = scripted.run("""
        ask(); say(type="error", message="Reconnecting... 1/1 (stream disconnected before completion: x)")
        ask("request-1"); message("done"); record(); done()
    """)
    assert (result.outcome, result.text, result.iterations) == (Outcome.ANSWERED, "done", 1)


@pytest.mark.parametrize(
    ("message", "outcome"),
    [
        ("Reconnecting... waiting for network (Connection failed: error sending request)", Outcome.OUTAGE),
        ("Reconnecting... 1/1 (exceeded retry limit, last status: 429 Too Many Requests)", Outcome.RATE_LIMITED),
    ],
)
def test_waiting_for_ever_is_ended(
    scripted: Agent, monkeypatch: pytest.MonkeyPatch, message: str, outcome: Outcome
) -> None:
    monkeypatch.setattr(codex, "RECONNECT_SECONDS", 0.3)
    result = scripted.run(f"ask(); say(type='error', message='{message}'); time.sleep(60)")
    assert (result.outcome, result.reason) == (outcome, message)
    assert result.seconds < 10


def test_a_failed_turn(scripted: Agent) -> None:
    text = "You've hit your usage limit. Try again in 2 hours."
    before = time.time()
    result = scripted.run(
        f"ask(); message('partial'); say(type='turn.failed', error={{'message': {text!r}}}); sys.exit(1)"
    )
    assert (result.outcome, result.text, result.exit_code) == (Outcome.RATE_LIMITED, "", 1)
    assert result.retry_at == pytest.approx(before + 7200, abs=20)


def test_a_silent_tool_is_not_an_outage(scripted: Agent) -> None:
    script = "ask(); record('function_call'); tool(kind='item.started'); time.sleep(60)"
    assert scripted.run(script, idle_seconds=0.5).outcome is Outcome.TIMED_OUT


def test_refused(scripted: Agent) -> None:
    missing = "echo 'Missing environment variable: `OPENAI_API_KEY`.' >&2; exit 1"
    scripted.runtime["command"] = ["/bin/sh", "-c", missing]
    assert scripted.run("").outcome is Outcome.BAD_CREDENTIALS
    scripted.runtime["command"] = ["/bin/sh", "-c", "echo 'unexpected argument' >&2; exit 2"]
    result = scripted.run("")
    assert (result.outcome, result.exit_code) == (Outcome.REFUSED_CONFIGURATION, 2)
    assert "unexpected argument" in result.reason


def test_no_secret_on_its_command_line(scripted: Agent) -> None:
    program = Codex(scripted.order("", secrets={"OPENAI_API_KEY": "sk-unseen"}))
    try:
        provider = program._provider()
        assert provider["env_key"] == "OPENAI_API_KEY"
        assert "sk-unseen" not in str(provider)
    finally:
        program.close()


def test_values_as_toml() -> None:
    import tomllib

    value = {"a b": {'quoted"\\': [1, 2.5, True, "ü😀\n"]}, "empty": {}}
    assert tomllib.loads(f"value = {codex._toml(value)}")["value"] == value


def test_the_hook_speaks_for_any_event(tmp_path: Path) -> None:
    gate = Gate(tmp_path, tmp_path)
    try:
        events = ['{"request_id":"abc","x":1}', '{"request_id":"abc"}\n', "garbage " * 100, ""]
        hooks = [subprocess.Popen(gate.command, stdin=subprocess.PIPE) for _ in events]
        for hook, event in zip(hooks, events, strict=True):
            assert hook.stdin is not None
            hook.stdin.write(event.encode())
            hook.stdin.close()
        deadline = time.monotonic() + 10
        while gate._waiting < len(events) and time.monotonic() < deadline:
            gate.poll()
            time.sleep(0.01)
        assert all(hook.poll() is None for hook in hooks)
        assert gate.requests == 3
        gate.open()
        assert [hook.wait(10) for hook in hooks] == [0, 0, 0, 0]
    finally:
        gate.close()
