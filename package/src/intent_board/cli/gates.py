"""What a person decides about one card: each command is one event, and the rules say who may cause it when."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
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


def _given(**options: Any) -> dict[str, Any]:
    """The options that were used."""
    return {key: value for key, value in options.items() if value is not None}


def report(cards: list[Card], as_json: bool) -> None:
    """Say where the cards stand now."""
    if as_json:
        print_json(plain(cards[0] if len(cards) == 1 else cards))
        return
    for card in cards:
        click.echo(visible(f"{card.slug}: {card.phase} ({card.status})"))


def gate(
    *examples: str, of: click.Group | None = None, note: str = ""
) -> Callable[[Callable[..., Card | list[Card]]], click.Command]:
    """A command on the card SLUG, with `--json`: its body makes the event happen and returns where that leaves cards.

    The body gets the open desk, the slug and its own options.  `of` is the group that it belongs to, `note` a line for
    people below the answer, about {slug}.
    """

    def command(body: Callable[..., Card | list[Card]]) -> click.Command:
        @functools.wraps(body)
        @click.pass_context
        def run(context: click.Context, /, slug: str, as_json: bool, **options: Any) -> None:
            with desk(context) as board:
                found = body(board, slug, **options)
                report(found if isinstance(found, list) else [found], as_json)
            if note and not as_json:
                click.echo(visible(note.format(slug=slug)))

        make = of.command if of is not None else click.command
        # Put on the finished command, --json comes behind the options of the body.
        return json_option(make(epilog=example(*examples))(slug_argument(run)))

    return command


@gate('board answer backup "The mail host, not the web host."', "board answer backup - < answer.txt")
@click.argument("text")
def answer(board: Desk, slug: str, text: str) -> Card:
    """Answer the question that a card waits with (TEXT, or - for stdin); a new session gets it."""
    words = read_text("-") if text == "-" else text
    if not words.strip():
        raise Failure("the answer is empty; say what the question on the card asks for")
    return happen(board, slug, "answer", {"answer": {"text": words, "by": board.asker.name}})


@gate("board retry backup", "board retry backup --afresh")
@click.option("--afresh", is_flag=True, help="Build again from the branch's tip; the work so far is kept as a ref.")
def retry(board: Desk, slug: str, afresh: bool) -> Card:
    """Try again: a new round with the whole ladder; reports and findings go along."""
    return happen(board, slug, "retry", _given(afresh=afresh or None))


@gate("board archive backup --reason 'solved by hand'")
@reason_option
def archive(board: Desk, slug: str, reason: str | None) -> Card:
    """Put a card away for good, a parent with its unfinished children (owner).  There is no delete."""
    return happen(board, slug, "archive", _given(reason=reason))


@gate("board accept backup")
def accept(board: Desk, slug: str) -> Card:
    """Let an intent that somebody else handed over start (owner)."""
    return happen(board, slug, "accept")


@gate("board decline backup --reason 'the host goes away next month'")
@reason_option
def decline(board: Desk, slug: str, reason: str | None) -> Card:
    """Decline an intent that somebody else handed over; no agent ever runs (owner)."""
    return happen(board, slug, "decline", _given(reason=reason))


@gate("board release backup", "board release --family mail-move")
@click.option("--commit", metavar="HASH", help="Refuse if the card's commit is another one by now.")
@click.option("--family", is_flag=True, help="SLUG is a parent: release every child's commit that waits.")
def release(board: Desk, slug: str, commit: str | None, family: bool) -> Card | list[Card]:
    """Release a reviewed commit: to be published, or with gate owner to be deployed (owner)."""
    if family and commit:
        raise click.UsageError("--commit names one commit and --family means several; use one of them")
    if not family:
        return happen(board, slug, "release", _given(commit=commit))
    board.require_owner("release a family's commits")
    board.store.card(slug)  # a slug that does not exist is another mistake than one without waiting children
    waiting = [card for card in board.store.family(slug) if card.phase == "wartet_auf_commitfreigabe"]
    if not waiting:
        raise Failure(f"no commit of the family of {slug} waits for a release; see board why {slug}")
    # The hash that was just seen goes along, so that nothing newer is released by accident.
    return [happen(board, card.slug, "release", {"commit": card.commit}) for card in waiting]


@gate("board discard backup --reason 'wrong host'")
@reason_option
def discard(board: Desk, slug: str, reason: str | None) -> Card:
    """Don't publish a reviewed commit; it is kept as a ref and the card is put away (owner)."""
    return happen(board, slug, "discard", _given(reason=reason))


@gate("board repair backup")
def repair(board: Desk, slug: str) -> Card:
    """Let a Fixer make the smallest change for a proved defect or a negative review (owner)."""
    return happen(board, slug, "repair")


@gate("board split backup")
def split(board: Desk, slug: str) -> Card:
    """Let the Planner split a card that ran into its limit on its last attempt (owner)."""
    return happen(board, slug, "split")


@gate(
    "board inspect backup",
    "board inspect backup --route",
    note="An Inspector looks at it; board why {slug} says what comes of it.",
)
@click.option("--route", is_flag=True, help="Ask what should be done next, instead of what is done.")
def inspect(board: Desk, slug: str, route: bool) -> Card:
    """Let an Inspector look, read-only: what is really implemented, or what should happen next."""
    return happen(board, slug, "inspect", {"task": "route_next" if route else "implementation_status"})


@gate("board deploy backup")
def deploy(board: Desk, slug: str) -> Card:
    """Queue the deployment of a ready card, where that does not happen by itself (owner)."""
    return happen(board, slug, "deploy")


@click.group()
def route() -> None:
    """Apply or dismiss what an Inspector recommends for a card (owner)."""


@gate("board route apply backup 17", of=route)
@click.argument("id", type=int)
def apply(board: Desk, slug: str, id: int) -> Card:
    """Do what the recommendation ID says.  A newer recommendation makes it unappliable."""
    return happen(board, slug, "route_apply", {"id": id})


@gate("board route dismiss backup 17", of=route)
@click.argument("id", type=int)
def dismiss(board: Desk, slug: str, id: int) -> Card:
    """Close the recommendation ID without doing it."""
    return happen(board, slug, "route_dismiss", {"id": id})


@click.command(epilog=example("board resume codex"))
@click.argument("runtime")
@click.pass_context
def resume(context: click.Context, runtime: str) -> None:
    """Let the jobs of a paused runtime run again, once its credential is mended (owner)."""
    with desk(context) as board:
        board.require_owner("resume a runtime")
        if not board.store.resume(runtime, actor=board.asker.name):
            if runtime not in board.config.runtimes:
                known = ", ".join(board.config.runtimes)
                raise Failure(f"there is no runtime {runtime!r}; the runtimes are: {known}")
            raise Failure(f"the runtime {runtime!r} is not paused; board status shows those that are")
        click.echo(f"{runtime}: resumed")
