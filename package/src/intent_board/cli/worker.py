"""`board-worker QUEUE`: serve one queue until it is empty, then end.  Started by systemd when the slot's bell rings."""

from __future__ import annotations

import logging
import signal
from pathlib import Path

import click

from intent_board.cli.failure import sentences


@click.command(epilog="\b\nExample:\n  board-worker builder-schwer --slot 0")
@click.argument("queue")
@click.option("--slot", type=click.IntRange(0, 10**9), default=0, show_default=True, help="Which of the queue's slots.")
@click.option(
    "--config",
    type=click.Path(path_type=Path),
    help="The configuration.  [default: $INTENT_BOARD_CONFIG, else /etc/intent-board/board.toml]",
)
def main(queue: str, slot: int, config: Path | None) -> None:
    """Serve QUEUE until no job of it is ready, then end.

    A job that fails is still a job done: its card says why, and the exit code is 0.
    """
    # systemd's journal has the time and the unit; what is said here is said of a job.
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    with sentences():
        _drain(queue, slot, config)


def _drain(queue: str, slot: int, path: Path | None) -> None:
    from intent_board.config import default_path, load

    loaded = load(path or default_path())
    slots = loaded.queue_slots()
    if queue not in slots or queue == "deploy":
        known = ", ".join(name for name in slots if name != "deploy")
        raise click.BadParameter(f"there is no queue {queue!r} for a worker; use one of: {known}", param_hint="QUEUE")
    if slot >= slots[queue]:
        raise click.BadParameter(f"queue {queue!r} has {slots[queue]} slot(s), counted from 0", param_hint="--slot")
    from intent_board.roles.base import Context
    from intent_board.roles.worker import drain
    from intent_board.runtimes import Credentials
    from intent_board.store import open_store
    from intent_board.workspace import Workspace

    credentials = Credentials()
    context = Context(loaded, open_store(loaded), Workspace(loaded, credentials), credentials)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: context.signals.stop())
    drain(queue, slot, context)
