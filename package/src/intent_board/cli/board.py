"""`board`, the program for people.  Each command lives in a module that is imported when the command is used."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType

import click

from intent_board.cli.failure import sentences

#: Section of the help -> command -> (module of this package, what it does in one line).
SECTIONS: Mapping[str, Mapping[str, tuple[str, str]]] = {
    "Handing work over": {
        "submit": ("submit", "Hand over an intent, or a better text for a card that waits."),
        "build": ("submit", "Hand an intent straight to a Builder (owner)."),
        "plan": ("plan", "Write an intent with an interactive agent."),
        "lint": ("lint", "Say what is doubtful about an intent."),
    },
    "Looking": {
        "status": ("status", "Phases, running jobs, limits, cost: live."),
        "list": ("view", "List the cards, families together."),
        "show": ("view", "Show everything about a card."),
        "why": ("view", "Say why a card stands where it stands, and the way out."),
        "log": ("view", "Print the audit of a card or of the board."),
        "deployments": ("records", "List what was deployed, the newest first."),
        "roles": ("records", "List the roles: texts, access, settings, allowed commands."),
    },
    "Going on": {
        "answer": ("gates", "Answer the question that a card waits with."),
        "retry": ("gates", "Try again, with the whole ladder."),
        "repair": ("gates", "Let a Fixer mend a proved defect (owner)."),
        "split": ("gates", "Let the Planner split a card that is too large (owner)."),
        "inspect": ("gates", "Let an Inspector look at what is there."),
        "route": ("gates", "Apply or dismiss an Inspector's recommendation (owner)."),
        "archive": ("gates", "Put a card away for good (owner)."),
    },
    "Approving": {
        "accept": ("gates", "Let somebody else's intent start (owner)."),
        "decline": ("gates", "Decline somebody else's intent (owner)."),
        "release": ("gates", "Release a reviewed commit (owner)."),
        "discard": ("gates", "Don't publish a reviewed commit (owner)."),
        "deploy": ("gates", "Queue the deployment of a ready card (owner)."),
    },
    "The board itself": {
        "init": ("init", "Make the state directory and the store."),
        "backup": ("init", "Copy the store while the board goes on (owner)."),
        "config": ("config", "Print an example configuration, check one, or show the one in force."),
        "resume": ("gates", "Let a paused runtime work again (owner)."),
        "import": ("importing", "Take over the cards of a former, file-based board (owner)."),
        "notify": ("notify", "Try the notifications, or see what is still to be sent (owner)."),
        "doctor": ("doctor", "Look for what keeps this host from working, and say how to mend it."),
        "completion": ("completion", "Print the completion script for a shell."),
        "man": ("man", "Print the manual page."),
    },
}
COMMANDS = {name: place for section in SECTIONS.values() for name, place in section.items()}
#: The words that people of the first board know.
ALIASES: Mapping[str, str] = {
    "annehmen": "accept",
    "ablehnen": "decline",
    "freigeben": "release",
    "verwerfen": "discard",
}


EPILOG = """board COMMAND --help shows an example of each.

State: [board] state_dir of the configuration, /var/lib/intent-board by default.  Logs: journalctl -u 'intent-board-*'
"""


class Board(click.Group):
    """The commands by name.  `--help` reads SECTIONS and imports no command, so it stays quick."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        name = ALIASES.get(cmd_name, cmd_name)
        if name not in COMMANDS:
            return None
        module = importlib.import_module(f"intent_board.cli.{COMMANDS[name][0]}")
        return _named(module, name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for section, commands in SECTIONS.items():
            with formatter.section(section):
                formatter.write_dl([(name, text) for name, (_, text) in commands.items()])

    def invoke(self, ctx: click.Context) -> object:
        with sentences():
            return super().invoke(ctx)


def _named(module: ModuleType, name: str) -> click.Command:
    for value in vars(module).values():
        if isinstance(value, click.Command) and value.name == name:
            return value
    raise LookupError(f"{module.__name__} has no command {name!r}")


@click.command(cls=Board, epilog=EPILOG)
@click.option(
    "--config",
    type=Path,  # click's own Path looks at the file before it is known whether the asker may name one
    help="The configuration.  [default: $INTENT_BOARD_CONFIG, else /etc/intent-board/board.toml]",
)
@click.version_option(package_name="intent-board", prog_name="board")
def main(config: Path | None) -> None:
    """Hand work to headless coding agents, watch it, and decide what people have to decide."""
