"""`board`, the program for people.  Each command lives in a module that is imported when the command is used."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from pathlib import Path

import click

from intent_board.cli.failure import sentences

#: Section of the help -> command -> (module of this package, what it does in one line).
SECTIONS: Mapping[str, Mapping[str, tuple[str, str]]] = {
    "The board itself": {
        "config": ("config", "Print an example configuration, check one, or show the one in force."),
    },
}
COMMANDS = {name: place for section in SECTIONS.values() for name, place in section.items()}


class Board(click.Group):
    """The commands by name.  `--help` reads SECTIONS and imports no command, so it stays quick."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"intent_board.cli.{COMMANDS[cmd_name][0]}")
        command = getattr(module, cmd_name.replace("-", "_"))
        if not isinstance(command, click.Command):
            raise TypeError(f"{module.__name__}.{cmd_name} is not a command")
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for section, commands in SECTIONS.items():
            with formatter.section(section):
                formatter.write_dl([(name, text) for name, (_, text) in commands.items()])

    def invoke(self, ctx: click.Context) -> object:
        with sentences():
            return super().invoke(ctx)


@click.command(cls=Board, epilog="board COMMAND --help shows an example of each.")
@click.option(
    "--config",
    type=click.Path(path_type=Path),
    help="The configuration.  [default: $INTENT_BOARD_CONFIG, else /etc/intent-board/board.toml]",
)
@click.version_option(package_name="intent-board", prog_name="board")
def main(config: Path | None) -> None:
    """Hand work to headless coding agents, watch it, and decide what people have to decide."""
