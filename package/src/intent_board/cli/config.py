"""`board config`: an example, a check, and what is in force."""

from __future__ import annotations

from pathlib import Path

import click

from intent_board.cli.asker import under_sudo
from intent_board.cli.context import config_path, example, json_option, load_config, print_json
from intent_board.cli.failure import Failure


@click.group()
def config() -> None:
    """Print an example configuration, check one, or show the one in force."""


@config.command("example", epilog=example("board config example > board.toml"))
def example_command() -> None:
    """Print a complete configuration with every default."""
    from intent_board.config import example as example_config
    from intent_board.config import to_toml

    click.echo(to_toml(example_config()), nl=False)


@config.command(epilog=example("board config check board.toml"))
@click.argument("file", type=Path, required=False)
@click.pass_context
def check(context: click.Context, file: Path | None) -> None:
    """Say `ok`, or list every fault of the FILE with its key (without FILE: the one in force)."""
    from intent_board.config import load

    if file is not None and under_sudo():
        raise Failure("under sudo no file can be named; run board config check without sudo")
    load(file or config_path(context))
    click.echo("ok")


@config.command(epilog=example("board config show", "board config show --json | jq .lanes"))
@json_option
@click.pass_context
def show(context: click.Context, as_json: bool) -> None:
    """Print the configuration in force, defaults included."""
    from intent_board.config import to_toml

    loaded = load_config(context)
    if as_json:
        print_json(loaded.model_dump(mode="json"))
    else:
        click.echo(to_toml(loaded), nl=False)
