"""`board-scheduler tick`: one look at the whole board.  Started by systemd's timer and by bells."""

from __future__ import annotations

import time
from pathlib import Path

import click

from intent_board.cli.failure import sentences


@click.group()
@click.option(
    "--config",
    type=click.Path(path_type=Path),
    help="The configuration.  [default: $INTENT_BOARD_CONFIG, else /etc/intent-board/board.toml]",
)
@click.pass_context
def main(context: click.Context, config: Path | None) -> None:
    """Decide what happens next on the board."""
    context.obj = config


@main.command()
@click.pass_obj
def tick(config: Path | None) -> None:
    """Take back what dead workers held, dispatch what is ready, settle families, ring the bells, then end."""
    with sentences():
        _tick(config)


def _tick(path: Path | None) -> None:
    from intent_board.config import default_path, load
    from intent_board.roles.scheduler import AlreadyRunning, tick_once
    from intent_board.runtimes import Credentials
    from intent_board.store import open_store
    from intent_board.workspace import Workspace

    loaded = load(path or default_path())
    store = open_store(loaded)
    try:
        done = tick_once(loaded, store, Workspace(loaded, Credentials()), time.time())
    except AlreadyRunning:
        click.echo("another tick is running; it sees what this one would")
        return
    for line in done:
        click.echo(line)
