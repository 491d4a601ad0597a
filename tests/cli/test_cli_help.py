"""What `board` says about itself, and what it costs to ask."""

from __future__ import annotations

import subprocess
import sys

import click
import pytest
from click.testing import CliRunner

from intent_board.cli.board import COMMANDS, main

HEAVY = ("sqlalchemy", "alembic", "rich", "pydantic", "apprise", "pathspec")


def every_command() -> dict[str, click.Command]:
    """All commands by their words, subcommands too."""
    context = click.Context(main)
    found: dict[str, click.Command] = {}
    for name in COMMANDS:
        command = main.get_command(context, name)
        assert command is not None
        subcommands = command.commands if isinstance(command, click.Group) else {}
        found |= {f"{name} {word}": sub for word, sub in subcommands.items()} or {name: command}
    return found


def loaded_by(*arguments: str) -> set[str]:
    program = (
        "import sys\nfrom intent_board.cli.board import main\n"
        f"main({list(arguments)!r}, standalone_mode=False)\nprint('\\n'.join(sys.modules), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return set(done.stderr.split())


def test_help_loads_nothing_heavy() -> None:
    assert loaded_by("--help") & set(HEAVY) == set()


@pytest.mark.parametrize("words", sorted(COMMANDS))
def test_help_of_a_command_opens_no_store(words: str) -> None:
    assert loaded_by(words, "--help") & {"sqlalchemy", "alembic", "rich", "apprise"} == set()


@pytest.mark.parametrize("words", sorted(every_command()))
def test_each_command_shows_an_example_of_itself(words: str) -> None:
    result = CliRunner().invoke(main, [*words.split(), "--help"], prog_name="board")
    assert result.exit_code == 0
    assert f"board {words}" in result.output.split("Example:")[1]


def test_the_help_names_every_command() -> None:
    output = CliRunner().invoke(main, ["--help"]).output
    assert all(f"\n  {name} " in output for name in COMMANDS)


def test_an_unknown_command_is_wrong_usage() -> None:
    result = CliRunner().invoke(main, ["delete"])
    assert (result.exit_code, "No such command" in result.output) == (2, True)
