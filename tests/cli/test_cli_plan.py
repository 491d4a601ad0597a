"""`board plan`: a conversation in a real terminal with a scripted agent program, and what is proved after it."""

from __future__ import annotations

import json
import os
import pty
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

BOARD = Path(sys.executable).parent / "board"
TEXT = (
    "# Intent: Nightly backup\n\n## Goal\n\nSave it.\n\n## Scope\n\nall\n\n## Out of scope\n\nnone\n\n"
    "## Assumptions\n\nnone\n\n## Open risks\n\nnone\n\n## Success criteria\n\n- runs nightly\n"
)
#: The agent: writes down how it was started, then does what the test says.
AGENT = """#!{python}
import json, os, pathlib, subprocess, sys
pathlib.Path({told!r}).write_text(json.dumps([sys.argv[1:], os.getcwd(), os.isatty(0), dict(os.environ)]))
def write(text, path="docs/intent/backup.md"):
    pathlib.Path(path).write_text(text)
def git(*words):
    subprocess.run(["git", "-c", "user.name=t", "-c", "user.email=t@t", *words], check=True, capture_output=True)
{does}
"""


class Talk:
    """A board, a checkout, and an agent program that does what it is told."""

    def __init__(self, board: Any, directory: Path) -> None:
        self.board, self.directory = board, directory
        self.checkout, self.told = directory / "checkout", directory / "told.json"
        self.checkout.mkdir()
        (self.checkout / ".gitignore").write_text("ignored\n")
        for words in (["init", "-q", "-b", "main"], ["add", "-A"], ["commit", "-qm", "one"]):
            subprocess.run(["git", "-c", "user.name=t", "-c", "user.email=t@t", *words], cwd=self.checkout, check=True)
        agent = f'[runtimes.claude]\nkind = "claude"\ncommand = ["{directory}/agent"]\n'
        board.write(agent + '[runtimes.codex]\nkind = "codex"\ncommand = ["codex"]\n')

    def __call__(self, does: str, *options: str, answers: str = "", slug: str | None = "backup") -> tuple[int, str]:
        """(exit code, all that the terminal showed) of one `board plan`."""
        agent = self.directory / "agent"
        agent.write_text(AGENT.format(python=sys.executable, told=str(self.told), does=does))
        agent.chmod(0o755)
        named = ["--slug", slug] if slug else []
        return terminal(
            [BOARD, "--config", self.board.file, "plan", "--runtime", "claude", self.checkout, *named, *options],
            answers,
        )

    @property
    def started(self) -> Any:
        return json.loads(self.told.read_text())


def terminal(argv: list[Any], answers: str) -> tuple[int, str]:
    master, slave = pty.openpty()
    environment = {name: value for name, value in os.environ.items() if name != "SUDO_UID"} | {"CLAUDECODE": "1"}
    process = subprocess.Popen(argv, stdin=slave, stdout=slave, stderr=slave, env=environment, start_new_session=True)
    os.close(slave)
    os.write(master, answers.encode())
    shown, deadline = b"", time.monotonic() + 60
    while time.monotonic() < deadline:
        if select.select([master], [], [], 0.2)[0]:
            try:
                shown += os.read(master, 65536)
            except OSError:  # the last writer is gone
                break
        elif process.poll() is not None:
            break
    os.close(master)
    return process.wait(5), shown.decode(errors="replace").replace("\r\n", "\n")


@pytest.fixture
def talk(board: Any, tmp_path: Path) -> Talk:
    return Talk(board, tmp_path)


WRITES = f"write({TEXT!r})"


def test_an_intent_is_written_in_dialogue_and_handed_over_on_the_persons_word(talk: Talk) -> None:
    code, shown = talk(WRITES, answers="y\n")
    assert code == 0, shown
    assert "backup: operator_pruefung" in shown
    assert talk.board.card("backup").title == "Nightly backup"
    argv, directory, terminal_there, environment = talk.started
    assert (directory, terminal_there, "CLAUDECODE" in environment) == (str(talk.checkout), True, False)
    assert argv[argv.index("--permission-mode") + 1] == "auto"
    assert argv[argv.index("--tools") + 1] == "Read,Grep,Glob,AskUserQuestion,Edit,Write"
    allowed = argv[argv.index("--allowedTools") + 1 : argv.index("--append-system-prompt")]
    assert allowed == ["Read", "Grep", "Glob", "AskUserQuestion", "Edit(docs/intent/backup.md)"]
    assert argv[-2] == "--" and str(talk.checkout / "docs/intent/backup.md") in argv[-1]
    assert "Planner, in dialogue" in argv[argv.index("--append-system-prompt") + 1]


@pytest.mark.parametrize("answers", ["n\n", "\n"])
def test_without_the_persons_word_nothing_is_handed_over(talk: Talk, answers: str) -> None:
    code, shown = talk(WRITES, answers=answers)
    assert (code, "Not handed over" in shown) == (0, True)
    assert talk.board.json("list", "--all") == []


def test_the_intent_is_looked_over_first(talk: Talk) -> None:
    _, shown = talk("write('# Intent: Nightly backup\\n\\n## Goal\\n\\nx\\n')", answers="n\n")
    assert "docs/intent/backup.md:1: the section 'Umfang' ('Scope') is missing" in shown
    code, shown = talk("write('just a note\\n')", answers="y\n")
    assert (code, "can't be handed over like this" in shown) == (1, True)


@pytest.mark.parametrize(
    ("does", "named"),
    [
        ("write('x', 'other.md')", "other.md"),
        ("write('x', 'docs/intent/second.md')", "docs/intent/second.md"),
        ("write('x', '.gitignore'); os.utime('.gitignore', ns=(0, 0))", ".gitignore"),
        ("write('secret', 'ignored')", "ignored"),
        ("os.remove('.gitignore')", ".gitignore"),
        ("os.chmod('.gitignore', 0o755)", ".gitignore"),
        ("git('add', '-A'); git('commit', '-qm', 'mine')", "refs/heads/main"),
        ("git('branch', 'mine')", "refs/heads/mine"),
        ("git('update-ref', 'refs/remotes/origin/main', 'HEAD')", "refs/remotes/origin/main"),
        ("git('config', 'core.fsmonitor', 'touch /tmp/x')", ".git/config"),
        ("write('#!/bin/sh\\n', '.git/hooks/pre-commit')", ".git/hooks/pre-commit"),
        ("os.mkfifo('pipe')", "pipe"),
        ("os.symlink('/etc/passwd', 'link')", "link"),
    ],
)
def test_what_else_changed_is_named_and_nothing_is_handed_over(talk: Talk, does: str, named: str) -> None:
    code, shown = talk(f"{WRITES}\n{does}", answers="y\n")
    assert (code, named in shown, "while you talked" in shown) == (1, True, True), shown
    assert talk.board.json("list", "--all") == []


def test_no_program_of_the_checkout_runs_in_the_check(talk: Talk, tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    (talk.checkout / ".gitattributes").write_text("* filter=evil\n")
    for key in ("core.fsmonitor", "filter.evil.clean", "filter.evil.process"):
        subprocess.run(["git", "config", key, f"touch {mark}"], cwd=talk.checkout, check=True)
    (talk.checkout / ".gitignore").write_text("other\n")
    assert talk(WRITES, answers="n\n")[0] == 0
    assert not mark.exists()


@pytest.mark.parametrize(
    "does", ["pass", "os.symlink('/etc/passwd', 'docs/intent/backup.md')", "os.mkdir('docs/intent/backup.md')"]
)
def test_where_no_intent_was_written_nothing_is_handed_over(talk: Talk, does: str) -> None:
    code, shown = talk(does, answers="y\n")
    assert code == 1 and "board: " in shown
    assert talk.board.json("list", "--all") == []


def test_an_intent_that_is_there_may_be_made_better(talk: Talk) -> None:
    assert talk(WRITES, answers="n\n")[0] == 0
    assert "was not written" in talk("pass")[1]
    assert talk("write(open('docs/intent/backup.md').read() + '- and weekly\\n')", answers="y\n")[0] == 0
    assert talk.board.card("backup").acceptance_criteria == ("runs nightly", "and weekly")


def test_the_slug_is_made_from_what_it_is_about(talk: Talk) -> None:
    does = f"write({TEXT!r}, 'docs/intent/naechtliche-sicherung.md')"
    code, shown = talk(does, answers="Nächtliche Sicherung\ny\n", slug=None)
    assert code == 0, shown
    assert talk.board.card("naechtliche-sicherung").title == "Nightly backup"


def test_a_linked_worktree_is_watched_with_what_it_shares(talk: Talk, tmp_path: Path) -> None:
    main, talk.checkout = talk.checkout, tmp_path / "linked"
    subprocess.run(["git", "worktree", "add", "-q", str(talk.checkout)], cwd=main, check=True, capture_output=True)
    code, shown = talk(f"{WRITES}\ngit('branch', 'mine')", answers="y\n")
    assert (code, "refs/heads/mine" in shown) == (1, True)


@pytest.mark.parametrize(
    ("prepare", "said"),
    [
        ("rm -rf .git", "not the top of a git checkout"),
        ("ln -s /tmp docs", "leads somewhere else"),
        ("mkdir -p docs/intent; ln -s /etc/passwd docs/intent/backup.md", "leads somewhere else"),
    ],
)
def test_a_place_that_is_no_place_for_an_intent_is_refused(talk: Talk, prepare: str, said: str) -> None:
    subprocess.run(prepare, shell=True, cwd=talk.checkout, check=True)
    code, shown = talk(WRITES)
    assert (code, said in shown, talk.told.exists()) == (1, True, False)


def test_codex_can_write_nothing_but_the_directory_of_intents(talk: Talk) -> None:
    from intent_board.roles.dialogue import begin, command

    argv = command(begin(talk.checkout, "backup"), talk.board.config, "codex")
    assert argv[argv.index("-C") + 1] == str(talk.checkout / "docs/intent")
    assert argv[argv.index("-s") + 1] == "workspace-write" and argv[argv.index("-a") + 1] == "never"
    assert "sandbox_workspace_write.exclude_slash_tmp=true" in argv and argv[-2] == "--"
    assert argv[argv.index("-m") + 1] == talk.board.config.queues["split"].model


def test_it_needs_a_terminal_and_is_refused_under_sudo(board: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "needs a terminal" in board.refused("plan", "--slug", "x")
    monkeypatch.setenv("SUDO_UID", "0")
    assert "leave sudo out" in board.refused("plan")


def test_a_program_that_is_missing_is_named(talk: Talk) -> None:
    claude, codex = 'kind = "claude"\ncommand = ["/nonexistent/claude"]', 'kind = "codex"\ncommand = ["codex"]'
    talk.board.write(f"[runtimes.claude]\n{claude}\n[runtimes.codex]\n{codex}\n")
    code, shown = talk(WRITES)
    assert (code, "/nonexistent/claude cannot be started" in shown) == (1, True)


# --- Herdr ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def herdr(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A herdr that writes down each command, and answers as its documentation says."""
    programs, told = tmp_path / "bin", tmp_path / "herdr.log"
    programs.mkdir()
    answer = json.dumps({"result": {"tab": {"tab_id": "1:2"}, "root_pane": {"pane_id": "1-2"}}})
    program = programs / "herdr"
    program.write_text(f"#!/bin/sh\nprintf '%s\\n' \"$*\" >> {told}\n[ \"$1\" = tab ] && echo '{answer}'\nexit 0\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    return told


def test_a_tab_is_made_without_focus_and_the_same_command_typed_there(board: Any, herdr: Path, tmp_path: Path) -> None:
    place = tmp_path / "my 'repo'; touch evil"
    place.mkdir()
    assert "pane 1-2" in board.ok("plan", str(place), "--pane", "--slug=x", "--runtime", "codex")
    made, typed = herdr.read_text().splitlines()
    assert made == f"tab create --cwd {place} --label board plan --no-focus"
    assert typed.startswith("pane run 1-2 ")
    import shlex

    words = shlex.split(typed.removeprefix("pane run 1-2 "))
    assert words[-6:] == ["plan", "--runtime=codex", "--slug=x", "--", str(place)][-6:] or words[-1] == str(place)
    assert "--pane" not in words and words[words.index("--config") + 1] == str(board.file)


def test_without_herdr_or_its_tab_the_reason_is_said(board: Any, herdr: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = herdr.parent / "bin/herdr"
    program.write_text("#!/bin/sh\necho 'no server' >&2\nexit 1\n")
    assert "herdr made no tab (no server)" in board.refused("plan", "--pane")
    monkeypatch.setenv("PATH", "/nonexistent")
    assert shutil.which("herdr") is None
    assert "no herdr on PATH" in board.refused("plan", "--pane")


# --- the gate -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ({"file_path": "docs/intent/a.md"}, 0),
        ({"file_path": "{top}/docs/intent/a.md"}, 0),
        ({"file_path": "docs/../docs/intent/a.md"}, 0),
        ({"file_path": "docs/intent/b.md"}, 2),
        ({"file_path": "docs/intent/a.md/../b.md"}, 2),
        ({"file_path": "link/a.md"}, 0),
        ({"file_path": "link/../a.md"}, 2),
        ({"file_path": "/etc/passwd"}, 2),
        ({"file_path": ""}, 2),
        ({"notebook_path": "docs/intent/b.ipynb"}, 2),
        ({}, 2),
        ("x", 2),
    ],
)
def test_the_gate_lets_one_file_through_and_every_fault_of_its_own_is_a_no(
    tmp_path: Path, given: Any, code: int
) -> None:
    from intent_board.roles import dialogue_gate

    (tmp_path / "docs/intent").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "docs/intent")
    call = json.dumps({"tool_input": given, "cwd": str(tmp_path)}).replace("{top}", str(tmp_path))
    command = f"{sys.executable} -I {dialogue_gate.__file__} {tmp_path}/docs/intent/a.md || exit 2"
    done = subprocess.run(command, shell=True, input=call, text=True, capture_output=True, check=False)
    assert done.returncode == code
