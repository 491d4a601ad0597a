"""`board init`: the state directory and the store."""

from __future__ import annotations

import click

from intent_board.cli.context import example
from intent_board.cli.desk import desk


@click.command(epilog=example("board init", "board --config board.toml init"))
@click.pass_context
def init(context: click.Context) -> None:
    """Make the state directory and the store, or migrate the store.  Does nothing when all is there."""
    with desk(context) as board:
        # Opening made them; the projections' directory comes with the first intent.
        click.echo(f"the store {board.store.path} is ready (schema {board.store.schema})")
