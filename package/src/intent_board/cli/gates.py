"""What a person decides about one card: each command is one event, and the rules say who may cause it when."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from intent_board.cli.context import example, json_option, print_json, read_text
from intent_board.cli.desk import Desk, desk, plain, slug_argument
from intent_board.cli.failure import Failure, visible

if TYPE_CHECKING:
    from intent_board.board.model import Card

reason_option = click.option("--reason", metavar="TEXT", help="Kept on the card and told to the requester.")


def happen(board: Desk, slug: str, event: str, data: Mapping[str, Any] | None = None) -> Card:
    """Let an event happen to a card on the asker's word; the rules may refuse it."""
    from intent_board.board.states import Event

    return board.store.happen(slug, Event(event), actor=board.asker.name, data=dict(data or {}))


def report(cards: list[Card], as_json: bool) -> None:
    """Say where the cards stand now."""
    if as_json:
        print_json(plain(cards[0] if len(cards) == 1 else cards))
        return
    for card in cards:
        click.echo(visible(f"{card.slug}: {card.phase} ({card.status})"))


def _once(context: click.Context, slug: str, event: str, as_json: bool, **data: Any) -> None:
    given = {key: value for key, value in data.items() if value is not None}
    with desk(context) as board:
        report([happen(board, slug, event, given)], as_json)


@click.command(
    epilog=example('board answer backup "The mail host, not the web host."', "board answer backup - < answer.txt")
)
@slug_argument
@click.argument("text")
@json_option
@click.pass_context
def answer(context: click.Context, slug: str, text: str, as_json: bool) -> None:
    """Answer the question that a card waits with (TEXT, or - for stdin); a new session gets it."""
    with desk(context) as board:
        words = read_text("-") if text == "-" else text
        if not words.strip():
            raise Failure("the answer is empty; say what the question on the card asks for")
        given = {"answer": {"text": words, "by": board.asker.name}}
        report([happen(board, slug, "answer", given)], as_json)


@click.command(epilog=example("board retry backup", "board retry backup --afresh"))
@slug_argument
@click.option("--afresh", is_flag=True, help="Build again from the branch's tip; the work so far is kept as a ref.")
@json_option
@click.pass_context
def retry(context: click.Context, slug: str, afresh: bool, as_json: bool) -> None:
    """Try again: a new round with the whole ladder; reports and findings go along."""
    _once(context, slug, "retry", as_json, afresh=afresh or None)


@click.command(epilog=example("board archive backup --reason 'solved by hand'"))
@slug_argument
@reason_option
@json_option
@click.pass_context
def archive(context: click.Context, slug: str, reason: str | None, as_json: bool) -> None:
    """Put a card away for good, a parent with its unfinished children (owner).  There is no delete."""
    _once(context, slug, "archive", as_json, reason=reason)


@click.command(epilog=example("board accept backup"))
@slug_argument
@json_option
@click.pass_context
def accept(context: click.Context, slug: str, as_json: bool) -> None:
    """Let an intent that somebody else handed over start (owner)."""
    _once(context, slug, "accept", as_json)


@click.command(epilog=example("board decline backup --reason 'the host goes away next month'"))
@slug_argument
@reason_option
@json_option
@click.pass_context
def decline(context: click.Context, slug: str, reason: str | None, as_json: bool) -> None:
    """Decline an intent that somebody else handed over; no agent ever runs (owner)."""
    _once(context, slug, "decline", as_json, reason=reason)


@click.command(epilog=example("board release backup", "board release --family mail-move"))
@slug_argument
@click.option("--commit", metavar="HASH", help="Refuse if the card's commit is another one by now.")
@click.option("--family", is_flag=True, help="SLUG is a parent: release every child's commit that waits.")
@json_option
@click.pass_context
def release(context: click.Context, slug: str, commit: str | None, family: bool, as_json: bool) -> None:
    """Release a reviewed commit: to be published, or with gate owner to be deployed (owner)."""
    if family and commit:
        raise click.UsageError("--commit names one commit and --family means several; use one of them")
    if not family:
        _once(context, slug, "release", as_json, commit=commit)
        return
    with desk(context) as board:
        board.require_owner("release a family's commits")
        board.store.card(slug)  # a slug that does not exist is another mistake than one without waiting children
        waiting = [card for card in board.store.family(slug) if card.phase == "wartet_auf_commitfreigabe"]
        if not waiting:
            raise Failure(f"no commit of the family of {slug} waits for a release; see board why {slug}")
        # The hash that was just seen goes along, so that nothing newer is released by accident.
        report([happen(board, card.slug, "release", {"commit": card.commit}) for card in waiting], as_json)


@click.command(epilog=example("board discard backup --reason 'wrong host'"))
@slug_argument
@reason_option
@json_option
@click.pass_context
def discard(context: click.Context, slug: str, reason: str | None, as_json: bool) -> None:
    """Don't publish a reviewed commit; it is kept as a ref and the card is put away (owner)."""
    _once(context, slug, "discard", as_json, reason=reason)


@click.command(epilog=example("board repair backup"))
@slug_argument
@json_option
@click.pass_context
def repair(context: click.Context, slug: str, as_json: bool) -> None:
    """Let a Fixer make the smallest change for a proved defect or a negative review (owner)."""
    _once(context, slug, "repair", as_json)


@click.command(epilog=example("board split backup"))
@slug_argument
@json_option
@click.pass_context
def split(context: click.Context, slug: str, as_json: bool) -> None:
    """Let the Planner split a card that ran into its limit twice (owner)."""
    _once(context, slug, "split", as_json)


@click.command(epilog=example("board inspect backup", "board inspect backup --route"))
@slug_argument
@click.option("--route", is_flag=True, help="Ask what should be done next, instead of what is done.")
@json_option
@click.pass_context
def inspect(context: click.Context, slug: str, route: bool, as_json: bool) -> None:
    """Let an Inspector look, read-only: what is really implemented, or what should happen next."""
    _once(context, slug, "inspect", as_json, task="route_next" if route else "implementation_status")
    if not as_json:
        click.echo(visible(f"An Inspector looks at it; board why {slug} says what comes of it."))


@click.command(epilog=example("board deploy backup"))
@slug_argument
@json_option
@click.pass_context
def deploy(context: click.Context, slug: str, as_json: bool) -> None:
    """Queue the deployment of a ready card, where that does not happen by itself (owner)."""
    _once(context, slug, "deploy", as_json)


@click.group()
def route() -> None:
    """Apply or dismiss what an Inspector recommends for a card (owner)."""


@route.command(epilog=example("board route apply backup 17"))
@slug_argument
@click.argument("id", type=int)
@json_option
@click.pass_context
def apply(context: click.Context, slug: str, id: int, as_json: bool) -> None:
    """Do what the recommendation ID says.  A newer recommendation makes it unappliable."""
    _once(context, slug, "route_apply", as_json, id=id)


@route.command(epilog=example("board route dismiss backup 17"))
@slug_argument
@click.argument("id", type=int)
@json_option
@click.pass_context
def dismiss(context: click.Context, slug: str, id: int, as_json: bool) -> None:
    """Close the recommendation ID without doing it."""
    _once(context, slug, "route_dismiss", as_json, id=id)


@click.command(epilog=example("board resume codex"))
@click.argument("runtime")
@click.pass_context
def resume(context: click.Context, runtime: str) -> None:
    """Let the jobs of a paused runtime run again, once its credential is mended (owner)."""
    with desk(context) as board:
        board.require_owner("resume a runtime")
        if not board.store.resume(runtime, actor=board.asker.name):
            raise Failure(f"the runtime {runtime!r} is not paused; board status shows those that are")
        click.echo(f"{runtime}: resumed")
