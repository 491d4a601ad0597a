"""`board config`: example, check, show."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from intent_board.cli.board import main
from intent_board.config import PATH_VARIABLE, example, load


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments), prog_name="board")


def test_the_example_is_a_file_that_the_check_accepts(tmp_path: Path) -> None:
    file = tmp_path / "board.toml"
    file.write_text(run("config", "example").output)
    assert load(file) == example()
    assert run("config", "check", str(file)).output == "ok\n"


def test_the_check_lists_every_fault_with_file_and_key(tmp_path: Path) -> None:
    file = tmp_path / "board.toml"
    file.write_text('[board]\nowner = "lukas"\nshade = 1\n[limits]\nmax_children = 11\n')
    result = run("config", "check", str(file))
    assert result.exit_code == 1
    assert result.stdout == ""
    assert [line.split(": ")[:3] for line in result.stderr.splitlines()] == [
        ["board", str(file), "board.shade"],
        ["board", str(file), "limits.max_children"],
    ]


def test_without_a_file_the_configuration_in_force_is_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PATH_VARIABLE, str(tmp_path / "missing.toml"))
    result = run("config", "check")
    assert (result.exit_code, "missing.toml: cannot be read" in result.stderr) == (1, True)


def test_show_prints_what_was_loaded(tmp_path: Path) -> None:
    file = tmp_path / "board.toml"
    file.write_text('[board]\nowner = "lukas"\n')
    shown = json.loads(run("--config", str(file), "config", "show", "--json").output)
    assert shown == load(file).model_dump(mode="json")
    (tmp_path / "again.toml").write_text(run("--config", str(file), "config", "show").output)
    assert load(tmp_path / "again.toml") == load(file)


def test_under_sudo_no_other_configuration_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "board.toml"
    file.write_text('[board]\nowner = "mallory"\n')
    monkeypatch.setenv("SUDO_UID", "1000")
    for arguments in (["--config", str(file), "config", "show"], ["config", "check", str(file)]):
        result = run(*arguments)
        assert (result.exit_code, result.stdout) == (1, "")
        assert "under sudo" in result.stderr
    monkeypatch.setenv(PATH_VARIABLE, str(file))
    assert "under sudo the configuration is always" in run("config", "show").stderr
