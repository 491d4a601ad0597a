"""`board notify`: whether people are told, and what they are still to be told."""

from __future__ import annotations

import signal
import time
from typing import TYPE_CHECKING

import click

from intent_board.cli.asker import under_sudo
from intent_board.cli.context import example, json_option, print_json
from intent_board.cli.desk import Desk, desk, plain
from intent_board.cli.failure import visible
from intent_board.cli.table import table
from intent_board.cli.times import ago, stamp

if TYPE_CHECKING:
    from intent_board.notify import Result
    from intent_board.store.values import NotificationLine


@click.group()
def notify() -> None:
    """Try the notifications, or see what is still to be sent (owner)."""


@notify.command(epilog=example("board notify test"))
@json_option
@click.pass_context
def test(context: click.Context, as_json: bool) -> None:
    """Send one test message to every address now, and say which took it.  Shows no address."""
    with desk(context) as board:
        _may_send(board)
        results = _try(board)
        if as_json:
            print_json(plain(results))
        else:
            for one in results:
                click.echo(visible(f"{one.target}: {'taken' if one.ok else one.reason}"))
        if not all(one.ok for one in results):
            context.exit(1)


def _may_send(board: Desk) -> None:
    # Without sudo it is the service user itself, whose units have the credential.
    if under_sudo():
        board.require_owner("send notifications")


def _try(board: Desk) -> list[Result]:
    from intent_board.notify import ask
    from intent_board.runtimes.credentials import Credentials

    name = board.config.notifications.credential
    if name is not None and under_sudo() and Credentials().path(name) is None:
        # A person's board has no credential; the unit has.
        doorbells = board.store.doorbells
        return ask(board.config.state_dir, board.asker.name, lambda: doorbells.ring("notify"))
    return _try_here(board, board.asker.name)


def _try_here(board: Desk, asker: str) -> list[Result]:
    from intent_board.notify import NotifyError, addresses, try_all
    from intent_board.runtimes.credentials import Credentials

    results = try_all(addresses(board.config, Credentials()), asker)
    if not results:
        name = board.config.notifications.credential
        raise NotifyError(f"The credential {name} names nobody to tell; write one Apprise URL a line into it.")
    return results


@notify.command(name="list", epilog=example("board notify list", "board notify list --all --json"))
@click.option("--all", "settled", is_flag=True, help="Also what was sent, or is not to be sent any more.")
@json_option
@click.pass_context
def list_(context: click.Context, settled: bool, as_json: bool) -> None:
    """List what is still to be sent, newest first, and why it was not sent yet."""
    with desk(context) as board:
        board.require_owner("see the notifications")
        lines = board.store.notifications(settled=settled)
        if as_json:
            print_json([{**plain(line.note), **_without_note(line)} for line in lines])
            return
        if board.config.notifications.credential is None:
            click.echo("nobody is told anything: no credential is named in [notifications]", err=True)
        if not lines:
            click.echo("nothing is waiting to be sent")
        else:
            now = time.time()
            head = ("ID", "AGE", "STATE", "TO", "EVENT", "CARD", "TRIES", "NEXT", "WHY")
            click.echo(table(head, (_row(line, now) for line in lines)))


def _without_note(line: NotificationLine) -> dict[str, object]:
    return {"state": line.state, "retry_at": line.retry_at, "sent_at": line.sent_at, "error": line.error}


def _row(line: NotificationLine, now: float) -> tuple[object, ...]:
    note = line.note
    to = note.requester if note.to_requester else "owner"
    again = stamp(line.retry_at) if line.state == "due" and line.retry_at > now else ""
    return (
        note.id,
        ago(note.created_at, now),
        line.state,
        to,
        note.event,
        note.slug,
        note.tries,
        again,
        line.error,
    )


@notify.command(hidden=True, epilog=example("board notify send"))
@click.pass_context
def send(context: click.Context) -> None:
    """Send what is due, then end.  Started by a unit of its own, which has the credential."""
    with desk(context) as board:
        _may_send(board)
        board.store.doorbells.consume("notify", 0)
        _send(board)


def _send(board: Desk) -> None:
    from intent_board.notify import AlreadySending, answer_all, send_due
    from intent_board.runtimes.credentials import Credentials

    asked: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT):
        # What is under way is finished, so that an ordinary stop leaves no sending whose end is unknown.
        signal.signal(number, lambda got, _: asked.append(got))
    answer_all(board.config.state_dir, lambda asker: _try_here(board, asker))
    try:
        report = send_due(board.config, board.store, Credentials(), stop=lambda: bool(asked))
    except AlreadySending as error:
        click.echo(str(error))
        return
    for failure in report.failures:
        click.echo(visible(failure), err=True)
    click.echo(f"{report.sent} sent, {report.unwanted} for nobody, {report.expired} too old")
