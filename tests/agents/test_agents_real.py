"""The real Codex and Claude Code, in our sandbox, against a scripted model."""

from __future__ import annotations

import json
import socket
import time
from typing import Any

import pytest

from intent_board import sandbox
from intent_board.contracts.builder import InterimReport
from intent_board.runtimes import Outcome, codex, read_report

#: conftest.Real, which importlib mode does not let a test import.
Real = Any


def test_final_text_only(real: Real) -> None:
    server = real.model({"text": "Let me look.", "tools": [real.look()]}, {"text": "The answer.\nIt is hello."})
    result = real.run()
    assert (result.outcome, result.reason) == (Outcome.ANSWERED, "")
    assert result.text == "The answer.\nIt is hello."
    assert result.last_texts == ("Let me look.", "The answer.\nIt is hello.")
    assert (result.iterations, len(server.calls), real.steps) == (2, 2, [1, 2])
    assert result.usage["output_tokens"] == 100
    assert result.usage["input_tokens"] == 2000
    assert (result.exit_code, result.cut) == (0, False)
    assert "hello" in json.dumps(server.calls[1])
    assert any("sk-test-0123456789" in key for key in server.keys)


def test_an_edit_through_a_tool(real: Real) -> None:
    real.model(
        {"tools": [real.shell("echo changed > hello.txt; mkdir -p .git/objects; echo ok > .git/mine")]},
        {"text": "Done."},
    )
    result = real.run(writes=True)
    assert (result.outcome, result.text) == (Outcome.ANSWERED, "Done.")
    assert (real.tree / "hello.txt").read_text() == "changed\n"
    assert (real.tree / ".git" / "mine").read_text() == "ok\n"
    assert sorted(path.name for path in real.tree.iterdir()) == [".git", "hello.txt"]


@pytest.mark.parametrize("limit", [1, 3])
def test_the_limit_in_the_middle(real: Real, limit: int) -> None:
    step = {"text": "Again.", "tools": [real.shell("echo again >> hello.txt"), real.shell("echo twice >> hello.txt")]}
    server = real.model(step)
    result = real.run(writes=True, iteration_limit=limit)
    assert (result.outcome, result.text) == (Outcome.LIMIT_REACHED, "")
    assert (result.iterations, real.steps) == (limit, list(range(1, limit + 1)))
    assert len(server.calls) == limit
    # The tools of the last step ran to their end.
    assert (real.tree / "hello.txt").read_text().count("again") == limit
    assert (real.tree / "hello.txt").read_text().count("twice") == limit


def test_an_answer_at_the_last_step_counts(real: Real) -> None:
    server = real.model({"tools": [real.look()]}, {"text": "In time."})
    result = real.run(iteration_limit=2)
    assert (result.outcome, result.text, result.iterations) == (Outcome.ANSWERED, "In time.", 2)
    assert len(server.calls) == 2


def test_no_step_begins_before_the_last_one_is_recorded(real_codex: Real) -> None:
    server = real_codex.model({"tools": [real_codex.look()]})
    seen = []

    def record(step: int) -> None:
        time.sleep(0.3)
        seen.append((step, len(server.calls)))

    assert real_codex.run(iteration_limit=3, on_step=record).outcome is Outcome.LIMIT_REACHED
    assert seen == [(1, 1), (2, 2), (3, 3)]


@pytest.mark.parametrize(
    ("step", "outcome"),
    [
        ({"status": 429}, Outcome.RATE_LIMITED),
        ({"status": 401, "message": "Incorrect API key"}, Outcome.BAD_CREDENTIALS),
        ({"status": 404, "message": "model: some-model"}, Outcome.REFUSED_CONFIGURATION),
        ({"status": 500}, Outcome.OUTAGE),
        ({"text": "half of", "drop": True}, Outcome.OUTAGE),
    ],
    ids=lambda value: str(value.get("status", "broken stream")) if isinstance(value, dict) else "",
)
def test_a_provider_in_trouble(real: Real, step: dict[str, Any], outcome: Outcome) -> None:
    real.environment = {"CLAUDE_CODE_MAX_RETRIES": "1"}
    server = real.model(step)
    result = real.run()
    assert (result.outcome, result.text) == (outcome, "")
    assert result.reason
    assert len(server.calls) < 10
    assert result.seconds < 30


def test_a_quota_that_is_used_up(real: Real) -> None:
    text = "You exceeded your current quota" if not real.claude else "Your credit balance is too low"
    kind = "insufficient_quota" if not real.claude else "invalid_request_error"
    real.model({"status": 429 if not real.claude else 400, "kind": kind, "message": text})
    assert real.run().outcome is Outcome.QUOTA


def test_a_limit_of_many_minutes_is_not_waited_for(real: Real, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codex, "RECONNECT_SECONDS", 0.5)
    real.model({"status": 429, "headers": {"retry-after": "3000"}})
    result = real.run()
    assert result.outcome is Outcome.RATE_LIMITED
    assert result.seconds < 20


def test_connection_refused(real: Real) -> None:
    real.environment = {"CLAUDE_CODE_MAX_RETRIES": "1"}
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    result = real.run(url=f"http://127.0.0.1:{port}")
    assert (result.outcome, result.iterations) == (Outcome.OUTAGE, 0)


def test_a_stalled_stream(real: Real) -> None:
    real.model({"text": "thinking about", "stall": 20})
    result = real.run(idle_seconds=4)
    assert (result.outcome, result.text) == (Outcome.OUTAGE, "")
    assert result.seconds < 15


def test_a_long_answer(real: Real) -> None:
    text = "".join(f"line {n} ä\u2028\n" for n in range(200_000))
    assert len(text.encode()) > 3_000_000
    real.model({"text": text})
    result = real.run()
    assert result.outcome is Outcome.ANSWERED
    assert result.text.strip() == text.strip()


def test_a_long_order(real: Real) -> None:
    server = real.model({"text": "Read."})
    assert real.run(text="- a line of the order\n" * 15_000).text == "Read."
    assert json.dumps(server.calls[0]).count("a line of the order") >= 15_000


def test_a_reading_role_cannot_write(real: Real) -> None:
    write: dict[str, Any] = real.shell("echo changed > hello.txt; echo new > new.txt")
    if real.claude:
        write = {"name": "Write", "arguments": {"file_path": str(real.tree / "hello.txt"), "content": "changed"}}
    server = real.model({"tools": [write]}, {"tools": [real.shell("touch new.txt")]}, {"text": "Refused."})
    result = real.run()
    assert result.text == "Refused."
    assert (real.tree / "hello.txt").read_text() == "hello\n"
    assert [path.name for path in real.tree.iterdir()] == ["hello.txt"]
    said = json.dumps(server.calls[-1])
    assert "Read-only file system" in said or "No such tool" in said or "not available" in said


def test_a_reading_role_has_no_shell_but_the_allowed_commands(real_claude: Real) -> None:
    # What only reads, as `head`, it runs without asking in any case.
    calls = [real_claude.shell("python3 -m this"), real_claude.shell("python3 -m antigravity")]
    server = real_claude.model({"tools": calls}, {"text": "Done."})
    result = real_claude.run(allowed_commands=("python3 -m this",))
    assert result.outcome is Outcome.ANSWERED
    results = {
        block["tool_use_id"]: block
        for message in server.calls[1]["messages"]
        if isinstance(message["content"], list)
        for block in message["content"]
        if block["type"] == "tool_result"
    }
    assert not results["toolu_1_0"].get("is_error")
    assert results["toolu_1_1"]["is_error"]


def test_an_allowed_command_opens_no_way_to_another(real_claude: Real) -> None:
    joined = ["{}; {}", "{} && {}", "{} | {}", "{} $({})", "{} `{}`", "{}\n{}", "{} & {}", "{} > out.txt", "X=1 {}; {}"]
    evil = 'python3 -c \'open("out.txt", "w")\''
    calls = [real_claude.shell(form.format("python3 -m this", evil)) for form in joined]
    server = real_claude.model({"tools": calls}, {"text": "Done."})
    real_claude.run(allowed_commands=("python3 -m this",))
    results = [
        block
        for message in server.calls[1]["messages"]
        if isinstance(message["content"], list)
        for block in message["content"]
        if block["type"] == "tool_result"
    ]
    assert [block.get("is_error") for block in results] == [True] * len(joined)
    assert [path.name for path in real_claude.tree.iterdir()] == ["hello.txt"]


def test_sub_agents_are_off(real: Real) -> None:
    server = real.model({"text": "Done."})
    real.run(writes=True)
    names = {tool.get("name", "") for tool in server.calls[0]["tools"]}
    assert not {name for name in names if "agent" in name.lower() or name in ("Task", "Agent")}


def test_the_report_can_be_written(real: Real) -> None:
    path = real.folder / "report" / "report.json"
    text = '{"done": ["this"], "open": [], "next": "that"}'
    real.model({"tools": [real.shell(f"echo '{text}' > $INTENT_BOARD_REPORT")]}, {"text": "Done."})
    result = real.run(writes=True, report_path=path)
    assert result.outcome is Outcome.ANSWERED
    assert read_report(path) == InterimReport(("this",), (), "that")


def test_the_key_of_a_reading_role_is_hidden_from_its_tools(real_codex: Real) -> None:
    find = "cat /proc/*/environ | tr '\\0' '\\n' | grep -c sk-test; env | grep -c sk-test; echo end"
    server = real_codex.model({"tools": [real_codex.shell(find)]}, {"text": "Done."})
    assert real_codex.run().outcome is Outcome.ANSWERED
    said = json.dumps(server.calls[1])
    assert "0\\n0\\nend" in said


def test_a_configuration_that_is_refused(real: Real) -> None:
    real.model({"text": "Done."})
    real.command = "/bin/false"
    result = real.run()
    assert (result.outcome, result.iterations) == (Outcome.REFUSED_CONFIGURATION, 0)
    assert "refused to start" in result.reason


def test_openrouter_is_codex_with_another_provider(real_codex: Real) -> None:
    real_codex.kind = "openrouter"
    server = real_codex.model({"tools": [real_codex.look()]}, {"text": "Done."})
    result = real_codex.run(model="vendor/some-model:free")
    assert (result.text, result.iterations) == ("Done.", 2)
    assert server.calls[0]["model"] == "vendor/some-model:free"
    assert server.keys == {"Bearer sk-test-0123456789"}


def test_without_bubblewrap(real: Real, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "available", lambda: "there is none in this test")
    real.mode = "when_available"
    server = real.model({"tools": [real.shell("echo changed > hello.txt")]}, {"text": "Done."})
    (real.tree / ".git").mkdir()
    result = real.run(writes=True)
    assert (result.outcome, result.text, result.iterations) == (Outcome.ANSWERED, "Done.", 2)
    assert (real.tree / "hello.txt").read_text() == "changed\n", json.dumps(server.calls[-1])
    assert len(server.calls) == 2
    assert real.run(writes=False, iteration_limit=1).outcome in (Outcome.ANSWERED, Outcome.LIMIT_REACHED)
