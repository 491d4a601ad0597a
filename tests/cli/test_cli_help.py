"""What `board` says about itself, and what it costs to ask."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

import intent_board
from intent_board.cli.board import ALIASES, COMMANDS, main

SOURCE = Path(intent_board.__file__).parent
DOCUMENTS = [Path(__file__).parents[2] / name for name in ("README.md", "docs/operations.md", "docs/decisions.md")]
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


def loaded_by(*lines: str) -> set[str]:
    """The modules that a fresh process has loaded after running these commands."""
    runs = "\n".join(f"main({line.split()!r}, standalone_mode=False)" for line in lines)
    program = f"import sys\nfrom intent_board.cli.board import main\n{runs}\nprint(*sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return set(done.stderr.split())


def test_help_loads_nothing_heavy() -> None:
    assert loaded_by("--help") & set(HEAVY) == set()


def test_the_help_of_no_command_opens_a_store_or_draws() -> None:
    assert loaded_by(*(f"{name} --help" for name in COMMANDS)) & {"sqlalchemy", "alembic", "rich", "apprise"} == set()


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


def test_every_command_that_the_board_tells_people_to_use_exists() -> None:
    """`board WORD` in backticks, or in a message as something to do with a slug."""
    known = {*COMMANDS, *ALIASES, "--help", "COMMAND", "--config"}
    told = {
        (path.name, word)
        for path in [*SOURCE.rglob("*.py"), *DOCUMENTS]
        for found in re.findall(
            r"`board (--?[a-z]+|[a-zA-Z]+)|(?:with|use|see|then|or|[:;,(]) board ([a-z]+) \{", path.read_text()
        )
        for word in found
        if word
    }
    assert len(told) > 20
    assert {pair for pair in told if pair[1] not in known} == set()
