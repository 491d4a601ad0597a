"""The Planner's dialogue with the real Claude Code: its permissions, tried through `-p`, which takes the same ones."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

from intent_board.config import Runtime, example
from intent_board.roles.dialogue import begin, changes, command, picture


def write(path: Path) -> dict[str, Any]:
    return {"name": "Write", "arguments": {"file_path": str(path), "content": "# Intent: x\n"}}


def test_claude_can_write_the_one_file_and_nothing_else(real_claude: Any, tmp_path: Path) -> None:
    checkout = tmp_path / "checkout"
    (checkout / ".git").mkdir(parents=True)
    dialogue = begin(checkout, "backup")
    # What a hostile checkout would say for itself.
    (checkout / ".claude").mkdir()
    (checkout / ".claude/settings.json").write_text('{"permissions": {"allow": ["Bash", "Edit"]}}')
    before = picture(dialogue)
    calls = [
        write(dialogue.file),
        write(checkout / "other.md"),
        write(checkout / "docs/intent/second.md"),
        write(checkout / ".git/hooks/pre-commit"),
        write(tmp_path / "outside.md"),
        real_claude.shell("touch shell.txt"),
        {"name": "Edit", "arguments": {"file_path": str(dialogue.file), "old_string": "x", "new_string": "y"}},
    ]
    server = real_claude.model({"tools": calls}, {"text": "Done."})
    runtime = Runtime(kind="claude", command=(real_claude.command,))
    config = example().model_copy(update={"runtimes": {"claude": runtime}})
    argv = command(dialogue, config, "claude")
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "ANTHROPIC_BASE_URL": server.url,
        "ANTHROPIC_API_KEY": "sk-test-0123456789",
        "DISABLE_TELEMETRY": "1",
        "DISABLE_AUTOUPDATER": "1",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    }
    at = argv.index("--permission-mode")
    argv = [*argv[:at], "-p", "--output-format", "json", "--model", "sonnet", *argv[at:]]
    done = subprocess.run(
        argv, cwd=checkout, env=environment, stdin=subprocess.DEVNULL, capture_output=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    asked = next(call for call in server.calls if call.get("tools"))
    assert "Bash" not in {tool["name"] for tool in asked["tools"]}
    refused = [
        block["tool_use_id"]
        for message in server.calls[-1]["messages"]
        if isinstance(message["content"], list)
        for block in message["content"]
        if block["type"] == "tool_result" and block.get("is_error")
    ]
    assert dialogue.file.read_text() == "# Intent: y\n", json.dumps(server.calls[-1]["messages"])[-3000:]
    assert len(refused) == 5
    assert changes(before, picture(dialogue), dialogue) == ()
    assert not (tmp_path / "outside.md").exists()


def test_codex_can_write_the_directory_of_intents_and_nothing_else(real_codex: Any, tmp_path: Path) -> None:
    checkout, home = tmp_path / "checkout", tmp_path / "home"
    (checkout / ".git").mkdir(parents=True)
    home.mkdir()
    # A person's own settings must not make more writable.
    (home / "config.toml").write_text(f"[sandbox_workspace_write]\nwritable_roots = [{json.dumps(str(checkout))}]\n")
    dialogue = begin(checkout, "backup")
    argv = command(dialogue, example(), "codex")
    settings = [word for at, name in enumerate(argv) if name == "-c" for word in (name, argv[at + 1])]
    writes = "echo x > backup.md; echo x > ../../other.md; echo x > ../../.git/HEAD; echo x > $TMPDIR/outside.md; true"
    outside = tmp_path / "outside"
    outside.mkdir()
    done = subprocess.run(
        [
            real_codex.command,
            "sandbox",
            *settings,
            "-c",
            'sandbox_mode="workspace-write"',
            "--",
            "/bin/sh",
            "-c",
            writes,
        ],
        cwd=dialogue.file.parent,
        env={"PATH": os.environ["PATH"], "HOME": str(home), "CODEX_HOME": str(home), "TMPDIR": str(outside)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert dialogue.file.exists(), done.stderr
    assert [path.name for path in checkout.iterdir() if path.is_file()] == []
    assert not (outside / "outside.md").exists()  # what Codex itself puts into TMPDIR may stand there
    assert list((checkout / ".git").iterdir()) == []
