"""How `board` calls itself through sudo: the same command, the file on stdin, and nothing that the person chose."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import click
import click.testing
import pytest

from intent_board.cli import asker, desk
from intent_board.cli.asker import ThroughSudo
from intent_board.cli.board import main
from intent_board.cli.desk import command_line


def parsed(*words: str) -> click.Context:
    """The innermost context that click makes of these words, without running anything."""
    context = main.make_context("board", list(words))
    while isinstance(context.command, click.Group):
        # Click renamed it when it stopped being public.
        words_left = getattr(context, "_protected_args", None) or context.protected_args
        name, command, rest = context.command.resolve_command(context, [*words_left, *context.args])
        assert command is not None and name is not None
        context = command.make_context(name, list(rest), parent=context)
    return context


COMMANDS = [
    ["list", "--all", "--phase=geplant", "--phase=im_review", "--json", "--"],
    ["submit", "--slug=a", "--iterations=7", "--scope=-x", "--scope=b c", "--", "a.md"],
    ["answer", "--", "backup", "--no, the \n mail host"],
    ["route", "apply", "--", "backup", "17"],
    ["status", "--once", "--interval=2.0", "--"],
    ["release", "--commit=--config=/x", "--", "backup"],
]


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: words[0])
def test_a_command_line_is_what_click_understood(words: list[str]) -> None:
    context = parsed(*words)
    assert command_line(context, {}) == words
    assert parsed(*command_line(context, {})).params == context.params


def test_an_alias_and_global_options_are_not_repeated() -> None:
    context = parsed("--config", "/x", "annehmen", "backup")
    assert command_line(context, {}) == ["accept", "--", "backup"]


def test_only_the_file_becomes_stdin() -> None:
    assert command_line(parsed("submit", "a", "--slug", "a"), {"file": "-"}) == ["submit", "--slug=a", "--", "-"]


class Exec(Exception):
    """Stands for the program that takes this process's place."""

    def __init__(self, command: list[str]) -> None:
        self.command, self.stdin = command, os.read(0, 100)


@pytest.fixture
def elsewhere(board: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The board belongs to a service user, sudo allows it, and the module's file is this board's."""

    def take_over(program: str, command: list[str]) -> None:
        raise Exec(command)

    monkeypatch.setattr("intent_board.config.DEFAULT_PATH", board.file)
    monkeypatch.setattr(desk, "who_asks", lambda state_dir: ThroughSudo("intent-board"))
    monkeypatch.setattr(asker.sys, "argv", ["/run/current-system/sw/bin/board"])
    monkeypatch.setattr(asker.os, "execvp", take_over)
    monkeypatch.setattr(subprocess, "run", lambda *a, **k: subprocess.CompletedProcess(a, board.sudo_says))
    board.sudo_says = 0
    return board


def test_a_file_is_opened_by_the_person_and_read_by_the_service_user(elsewhere: Any, tmp_path: Path) -> None:
    (tmp_path / "intent.md").write_text("# Intent: X\n")
    before = os.dup(0)
    try:
        with pytest.raises(Exec) as taken:
            elsewhere.run("submit", str(tmp_path / "intent.md"), "--slug", "x")
    finally:
        os.dup2(before, 0)
        os.close(before)
    assert taken.value.command == (
        ["sudo", "-n", "-u", "intent-board", "--", "/run/current-system/sw/bin/board", "submit", "--slug=x", "--", "-"]
    )
    assert taken.value.stdin == b"# Intent: X\n"


def test_an_import_hands_state_and_intents_over_as_one(elsewhere: Any, tmp_path: Path) -> None:
    (tmp_path / "cards.json").write_text('{"cards": {}}')
    (tmp_path / "lamp.md").write_text("# Intent: X\n")
    before = os.dup(0)
    try:
        with pytest.raises(Exec) as taken:
            elsewhere.run("import", "--state", str(tmp_path / "cards.json"), "--intents", str(tmp_path), "--dry-run")
    finally:
        os.dup2(before, 0)
        os.close(before)
    assert taken.value.command[-5:] == ["/run/current-system/sw/bin/board", "import", "--state=-", "--dry-run", "--"]
    assert json.loads(taken.value.stdin) == {"cards": {}, "intents": {"lamp.md": "# Intent: X\n"}}


def test_who_may_not_use_the_board_is_told_so(elsewhere: Any) -> None:
    elsewhere.sudo_says = 1
    assert "only members of the group intent-board" in elsewhere.refused("list")


def test_a_file_that_is_not_there_is_not_handed_over(elsewhere: Any) -> None:
    assert "cannot be opened" in elsewhere.refused("submit", "/nowhere/intent.md")


def test_another_configuration_of_somebody_elses_board_is_refused(elsewhere: Any, tmp_path: Path) -> None:
    other = tmp_path / "other.toml"
    other.write_text(elsewhere.file.read_text())
    assert "leave --config" in elsewhere.refused("--config", str(other), "list")


def test_under_sudo_files_come_on_stdin_alone(board: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "intent.md").write_text("# Intent: X\n")
    monkeypatch.setattr("intent_board.config.DEFAULT_PATH", board.file)
    monkeypatch.setenv("SUDO_UID", str(os.geteuid()))
    run = click.testing.CliRunner().invoke
    refused = run(main, ["submit", str(tmp_path / "intent.md")])
    assert (refused.exit_code, "no file can be named" in refused.stderr) == (1, True)
    assert run(main, ["submit", "-"], input="# Intent: X\n").exit_code == 0


def test_under_sudo_the_requester_is_who_called_it(board: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("intent_board.config.DEFAULT_PATH", board.file)
    monkeypatch.setenv("SUDO_UID", "1")
    made = click.testing.CliRunner().invoke(main, ["submit", "-"], input="# Intent: X\n")
    assert made.stdout == "x: wartet_auf_startfreigabe (queued)\n"
    monkeypatch.delenv("SUDO_UID")
    assert board.card("x").requester == "daemon"
