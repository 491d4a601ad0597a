"""`board init` and `board backup`: the store's making, and a copy of it."""

from __future__ import annotations

from datetime import UTC, datetime

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


@click.command(epilog=example("board backup"))
@click.pass_context
def backup(context: click.Context) -> None:
    """Copy the store, while the board goes on, to `backups` in the state directory; print the copy's path (owner)."""
    with desk(context) as board:
        board.require_owner("copy the store")
        name = f"{datetime.now(UTC):%Y%m%dT%H%M%S.%fZ}.sqlite3"
        target = board.config.state_dir / "backups" / name
        board.store.backup(target)
        click.echo(str(target))
