"""How a command fails: one sentence on stderr and exit code 1 (2 is click's own, for wrong usage)."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import click


class Failure(click.ClickException):
    """A refusal or a fault, said as one sentence: what, where, what to do."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        # Looked up now: when it is shown, click has left the context of the program.
        context = click.get_current_context(silent=True)
        self.program = (context.find_root().info_name if context else None) or "board"

    def show(self, file: object = None) -> None:
        for line in self.message.splitlines():
            click.echo(f"{self.program}: {visible(line)}", err=True)


def visible(text: str) -> str:
    """The text with every control, bidirectional and zero-width character written out.

    Much of what the board prints was written by a model, and a terminal obeys such characters.
    """
    return "".join(char if char.isprintable() or char in "\n\t" else _escaped(char) for char in text)


def _escaped(char: str) -> str:
    return f"\\x{ord(char):02x}" if ord(char) < 256 else f"\\u{ord(char):04x}"


@contextmanager
def sentences() -> Iterator[None]:
    """Turn the rooms' own refusals into a `Failure`; anything else is a defect of the board and keeps its trace."""
    _escape_what_can_not_be_printed()
    try:
        yield
    except click.ClickException:
        raise
    except Exception as error:
        if _is_refusal(error):
            raise Failure(_sentence(error)) from error
        raise


def _escape_what_can_not_be_printed() -> None:
    """A terminal that knows no umlauts gets their escapes, instead of the person a trace."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _sentence(error: Exception) -> str:
    # `$` is the JSON path of a whole answer, which says nothing to somebody who typed a slug.
    return str(error).removeprefix("$: ")


def _is_refusal(error: Exception) -> bool:
    # A room that was not imported can't have raised anything, and importing it here would make each command pay for it.
    rooms = {
        "intent_board.config": ("ConfigError",),
        "intent_board.contracts": ("ContractError",),
        "intent_board.board.model": ("Refused",),
        "intent_board.store": ("StoreError",),
        "intent_board.roles.text": ("RoleTextError",),
        "intent_board.workspace": ("WorkspaceError",),
        "intent_board.sandbox": ("SandboxUnavailable",),
        "intent_board.notify": ("NotifyError",),
        "intent_board.roles.dialogue": ("DialogueError",),
        "intent_board.deploy.host": ("DeployRefused",),
    }
    known = tuple(
        getattr(sys.modules[room], name) for room, names in rooms.items() if room in sys.modules for name in names
    )
    return isinstance(error, known)
