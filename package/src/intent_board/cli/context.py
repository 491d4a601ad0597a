"""What the commands of `board` share: the configuration, files that people name, and how things are printed."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from intent_board.cli.asker import STDIN, under_sudo
from intent_board.cli.failure import Failure

if TYPE_CHECKING:
    from intent_board.config import BoardConfig

Function = TypeVar("Function", bound=Callable[..., Any])
#: An intent is a page or two; what is longer than this was not meant to be one.
MAX_FILE = 1024 * 1024


def config_path(context: click.Context) -> Path:
    """The configuration's path: `--config`, else `$INTENT_BOARD_CONFIG`, else the module's file.

    Under sudo only the last; raises Failure when another was named.
    """
    from intent_board.config import DEFAULT_PATH, PATH_VARIABLE, default_path

    chosen: Path | None = context.find_root().params.get("config")
    if under_sudo():
        if chosen is not None or PATH_VARIABLE in os.environ:
            raise Failure(f"under sudo the configuration is always {DEFAULT_PATH}; leave --config and sudo out")
        return DEFAULT_PATH
    return chosen or default_path()


def load_config(context: click.Context) -> BoardConfig:
    """Read the configuration that this command was given.  Raises ConfigError or Failure."""
    from intent_board.config import load

    return load(config_path(context))


def read_text(file: str) -> str:
    """The text of a named file or, for `-`, of stdin; UTF-8, at most 1 MiB, a BOM dropped.

    Raises Failure when it can't be read, and for a path under sudo (the caller's files are not this user's).
    """
    if file == STDIN:
        raw = stdin_bytes(MAX_FILE + 1)
    elif under_sudo():
        raise Failure(f"under sudo no file can be named; run board without sudo, or hand {file} over on stdin as '-'")
    else:
        try:
            with Path(file).open("rb") as source:
                raw = source.read(MAX_FILE + 1)
        except OSError as error:
            raise Failure(f"{file} cannot be read ({error.strerror}); name a readable file, or '-' for stdin") from None
    where = "stdin" if file == STDIN else file
    if len(raw) > MAX_FILE:
        raise Failure(f"{where} is larger than 1 MiB; shorten it, details belong into the repository")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Failure(f"{where} is not UTF-8 at byte {error.start}; save it as UTF-8") from None


def stdin_bytes(most: int) -> bytes:
    """At most so many bytes of stdin.  Raises Failure when there is no stdin or it can't be read."""
    if sys.stdin is None:  # Python's way to say that it was closed
        raise Failure("there is no standard input to read from; name a file, or hand the text over with '<'")
    try:
        return sys.stdin.buffer.read(most)
    except OSError as error:
        raise Failure(f"the standard input cannot be read ({error.strerror}); name a file instead") from None


def print_json(value: Any) -> None:
    """One JSON document on stdout.  ASCII only, so that no character in it can act on a terminal."""
    click.echo(json.dumps(value, indent=2, default=str))


def example(*lines: str) -> str:
    """An epilog that shows examples below a command's help text."""
    return "\b\nExample:\n" + "\n".join(f"  {line}" for line in lines)


def json_option(function: Function) -> Function:
    """`--json`, which every command that prints a table has."""
    return click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead of text.")(function)
