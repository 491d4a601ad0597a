"""`board status`: the board at a glance, drawn again and again."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from intent_board.cli.context import example, json_option, print_json
from intent_board.cli.desk import Desk, desk, plain
from intent_board.cli.failure import visible
from intent_board.cli.times import ago

if TYPE_CHECKING:
    from rich.console import Group

    from intent_board.store.values import BoardStatus, CardLine, JobLine

#: Cards that stopped are listed up to this many, so that a bad night still leaves room for what runs.
PARKED_SHOWN = 12


@dataclass(frozen=True)
class Picture:
    """What is drawn: one look at the store."""

    now: float
    status: BoardStatus
    parked: Sequence[CardLine]


def look(board: Desk) -> Picture:
    """Take a picture of the board."""
    from intent_board.board.model import PARKED, Phase

    stopped = [*(PARKED - {Phase.ARCHIVIERT}), Phase.DURCH_KINDER_BLOCKIERT]
    waiting = [Phase.STARTFREIGABE, Phase.COMMITFREIGABE]
    return Picture(time.time(), board.store.status(), board.store.cards(phases=[*stopped, *waiting]))


@click.command(epilog=example("board status", "board status --once"))
@click.option("--once", is_flag=True, help="Print it once instead of drawing it again.")
@click.option("--interval", type=click.FloatRange(0.2, 3600), default=2.0, show_default=True, help="Seconds between.")
@json_option
@click.pass_context
def status(context: click.Context, once: bool, interval: float, as_json: bool) -> None:
    """Phases, running jobs with their iterations against the limits, what waits for a person, and cost."""
    with desk(context) as board:
        if as_json:
            picture = look(board)
            print_json({"status": plain(picture.status), "waits_for_a_person": plain(picture.parked)})
        elif once or not _is_terminal():
            from rich.console import Console

            Console(highlight=False).print(draw(look(board)))
        else:
            _live(board, interval)


def _is_terminal() -> bool:
    return sys.stdout.isatty()


def _live(board: Desk, interval: float) -> None:
    from rich.console import Console
    from rich.live import Live

    console = Console(highlight=False)
    try:
        with Live(draw(look(board)), console=console, screen=True, auto_refresh=False) as live:
            while True:
                time.sleep(interval)
                live.update(draw(look(board)), refresh=True)
    except KeyboardInterrupt:
        # Ctrl-C is how a live view is left; the last picture stays readable.
        console.print(draw(look(board)))


def draw(picture: Picture) -> Group:
    """The picture as rich draws it.  All text goes through `Text`, so that no markup of a model is obeyed."""
    from rich.console import Group
    from rich.text import Text

    parts: list[Any] = [_phases(picture), _running(picture)]
    if picture.status.queued:
        queues = ", ".join(f"{queue} {count}" for queue, count in sorted(picture.status.queued.items()))
        parts.append(Text(f"waiting in queues: {queues}"))
    parts += [
        Text(
            visible(f"runtime {one.runtime} is paused: {one.reason}; then board resume {one.runtime}"), style="bold red"
        )
        for one in picture.status.paused
    ]
    if picture.parked:
        parts.append(_parked(picture))
    parts.append(_cost(picture))
    return Group(*parts)


def _phases(picture: Picture) -> Any:
    from rich.table import Table
    from rich.text import Text

    from intent_board.board.model import PARKED, SUCCESS, Phase

    table = Table(box=None, pad_edge=False, show_header=False)
    for phase in Phase:
        if count := picture.status.phases.get(phase, 0):
            style = "green" if phase in SUCCESS else "red" if phase in PARKED - {Phase.ARCHIVIERT} else ""
            table.add_row(Text(str(count), justify="right"), Text(phase, style=style))
    if not picture.status.phases:
        table.add_row(Text(""), Text("no card yet: board submit FILE"))
    return table


def _running(picture: Picture) -> Any:
    from rich.table import Table
    from rich.text import Text

    if not picture.status.running:
        return Text("\nnothing runs")
    table = Table("job", "card", "role", "model", "iterations", "for", box=None, pad_edge=False, title_justify="left")
    for line in picture.status.running:
        table.add_row(
            str(line.job.id),
            Text(visible(line.job.slug)),
            Text(line.job.role),
            Text(visible(_model(line))),
            _iterations(line),
            ago(line.started_at, picture.now),
        )
    return table


def _model(line: JobLine) -> str:
    profile = line.job.snapshot.get("profile") or {}
    return " ".join(str(part) for part in (line.runtime, profile.get("model"), profile.get("reasoning_effort")) if part)


def _iterations(line: JobLine) -> Any:
    from rich.text import Text

    used, limit = line.job.used_iterations, line.limit
    if limit is None:
        return Text(str(used))
    # A bar of ten, since a number alone does not show how near the limit is.
    filled = min(10, used * 10 // limit) if limit else 0
    style = "red" if used >= limit else "yellow" if used * 4 >= limit * 3 else "green"
    return Text.assemble((f"{used:3}/{limit:<3}", ""), ("█" * filled, style), ("·" * (10 - filled), "dim"))


def _parked(picture: Picture) -> Any:
    from rich.table import Table
    from rich.text import Text

    table = Table("waits for a person", "phase", "status", "reason", box=None, pad_edge=False)
    for card in picture.parked[:PARKED_SHOWN]:
        reason = " ".join(card.reason.split()) or "-"
        table.add_row(Text(visible(card.slug)), Text(card.phase), Text(card.status), Text(visible(reason[:200])))
    if (more := len(picture.parked) - PARKED_SHOWN) > 0:
        table.add_row(f"and {more} more", "", "", "")
    return table


def _cost(picture: Picture) -> Any:
    from rich.text import Text

    costs = picture.status.cost_usd
    if not costs:
        return Text("no cost was reported", style="dim")
    parts = ", ".join(f"{name} ${value:.2f}" for name, value in sorted(costs.items()))
    return Text(visible(f"reported cost: ${sum(costs.values()):.2f} ({parts})"))
