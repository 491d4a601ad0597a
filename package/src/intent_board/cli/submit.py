"""Handing an intent over: `board submit` to the Operator, `board build` straight to a Builder."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import click

from intent_board.cli.context import example, json_option, read_text
from intent_board.cli.desk import Desk, desk
from intent_board.cli.failure import Failure, visible
from intent_board.cli.gates import happen, report

if TYPE_CHECKING:
    from intent_board.board.model import Card
    from intent_board.config import BoardConfig

Function = TypeVar("Function", bound=Callable[..., Any])


@dataclass(frozen=True)
class Wishes:
    """What the person asked for beside the text."""

    slug: str | None = None
    repository: str | None = None
    lane: str | None = None
    iterations: int | None = None
    scope: tuple[str, ...] = ()


@dataclass(frozen=True)
class Doubts:
    """What goes on the card, and what the asker alone is told: why something was not looked for."""

    warnings: list[str]
    note: str | None


def _wishes(function: Function) -> Function:
    for option in (
        click.option("--scope", multiple=True, metavar="PATH", help="Only these paths may be written; repeatable."),
        click.option("--iterations", type=int, help="Iteration limit of an attempt, in place of the lane's."),
        click.option("--lane", help="The lane to build on, if it is built directly."),
        click.option("--repository", help="The repository it is about.  [default: the configured one]"),
        click.option("--slug", help="The card's name.  [default: made from the title]"),
    ):
        function = option(function)
    return function


@click.command(
    epilog=example(
        "board submit docs/intent/backup.md",
        "board submit - --slug backup --repository nixos-config < backup.md",
        "board submit --replace docs/intent/backup.md",
    )
)
@click.argument("file")
@click.option("--replace", is_flag=True, help="A better text for a card that waits for a person; it is planned anew.")
@_wishes
@json_option
@click.pass_context
def submit(context: click.Context, /, file: str, replace: bool, as_json: bool, **options: Any) -> None:
    """Hand over the intent in FILE (- for stdin): Markdown whose first line is `# Intent: <title>`."""
    wishes = Wishes(**options)
    if replace and (wishes.repository or wishes.lane or wishes.iterations or wishes.scope):
        raise click.UsageError("--replace takes only another text; repository, lane, limit and scope stay as they are")
    with desk(context, file) as board:
        text = read_text(file)
        report([_replace(board, text, wishes) if replace else _create(board, text, wishes, by_hand=False)], as_json)


@click.command(epilog=example("board build backup", "board build docs/intent/backup.md --lane leicht"))
@click.argument("file", metavar="SLUG|FILE")
@_wishes
@json_option
@click.pass_context
def build(context: click.Context, /, file: str, as_json: bool, **options: Any) -> None:
    """Hand one intent straight to a Builder, without an Operator (owner).

    A plain word is a card's slug; write ./word for a file in this directory.
    """
    from intent_board.config import SLUG_PATTERN

    wishes = Wishes(**options)
    is_slug = re.fullmatch(SLUG_PATTERN, file) is not None
    if is_slug and (wishes.slug or wishes.repository or wishes.scope):
        raise click.UsageError(
            "a card that exists keeps its slug, repository and scope; only --lane and --iterations apply"
        )
    with desk(context, None if is_slug else file) as board:
        board.require_owner("hand an intent straight to a Builder")
        if is_slug:
            data = {
                "lane": _lane(board.config, wishes.lane),
                "iterations": _iterations(board.config, wishes.iterations),
            }
            report([happen(board, file, "build_by_hand", data)], as_json)
        else:
            report([_create(board, read_text(file), wishes, by_hand=True)], as_json)


def _create(board: Desk, text: str, wishes: Wishes, *, by_hand: bool) -> Card:
    from intent_board.board.states import Event
    from intent_board.contracts import intent, scope

    owner = board.asker.name == board.config.board.owner
    event = Event.BUILD_BY_HAND if by_hand else Event.SUBMIT_BY_OWNER if owner else Event.SUBMIT_BY_OTHER
    with _blaming("the intent"):
        document = intent.parse(text)
    with _blaming("--slug"):
        slug = intent.submitted_slug(wishes.slug or intent.slugify(document.title))
    with _blaming("--scope"):
        write_scope = list(dict.fromkeys(scope.normalise(path) for path in wishes.scope))
    repository = _repository(board.config, wishes.repository)
    doubts = _doubts(board.config, repository, text, slug)
    card = board.store.submit(
        slug=slug,
        title=document.title,
        intent=text,
        repository=repository,
        requester=board.asker.name,
        event=event,
        data={
            "acceptance_criteria": list(document.criteria),
            "warnings": doubts.warnings,
            "lane": _lane(board.config, wishes.lane),
            "iterations": _iterations(board.config, wishes.iterations),
            "write_scope": write_scope,
        },
    )
    _warn(doubts)
    return card


@contextmanager
def _blaming(what: str) -> Iterator[None]:
    """Say what a person gave where a role's answer would have its JSON path."""
    from intent_board.contracts import ContractError

    try:
        yield
    except ContractError as error:
        raise Failure(f"{what}: {error.reason}") from error


def _replace(board: Desk, text: str, wishes: Wishes) -> Card:
    from intent_board.contracts import intent

    with _blaming("the intent"):
        document = intent.parse(text)
    with _blaming("--slug"):
        slug = wishes.slug or intent.submitted_slug(intent.slugify(document.title))
    doubts = _doubts(board.config, board.store.card(slug).repository, text, slug)
    data = {
        "intent": text,
        "title": document.title,
        "acceptance_criteria": list(document.criteria),
        "warnings": doubts.warnings,
    }
    card = happen(board, slug, "replace", data)
    _warn(doubts)
    return card


def _doubts(config: BoardConfig, repository: str, text: str, slug: str) -> Doubts:
    """What `board lint` finds in an intent of this repository, as the board last fetched it: warnings of the card."""
    from intent_board.cli.lint import mirrored
    from intent_board.contracts import lint

    lists, searched = mirrored(config, repository)
    return Doubts([str(finding) for finding in lint.check(text, lists, slug=slug)], None if lists else searched)


def _warn(doubts: Doubts) -> None:
    for warning in doubts.warnings:
        click.echo(visible(f"warning: {warning}"), err=True)
    if doubts.note:
        click.echo(visible(f"note: {doubts.note}"), err=True)


def _repository(config: BoardConfig, wanted: str | None) -> str:
    known = ", ".join(config.repositories) or "none"
    name = wanted or config.board.default_repository
    if name is None and len(config.repositories) == 1:
        name = next(iter(config.repositories))
    if name is None:
        raise Failure(f"it is not said which repository this is about; use --repository with one of: {known}")
    if name not in config.repositories:
        raise Failure(f"there is no repository {name!r}; use --repository with one of: {known}")
    return name


def _lane(config: BoardConfig, wanted: str | None) -> str | None:
    if wanted is not None and wanted not in config.lanes:
        raise Failure(f"there is no lane {wanted!r}; use one of: {', '.join(config.lanes)}")
    return wanted


def _iterations(config: BoardConfig, wanted: int | None) -> int | None:
    low, high = config.limits.iteration_limit_min, config.limits.iteration_limit_max
    if wanted is not None and not low <= wanted <= high:
        raise Failure(f"an iteration limit of {wanted} is outside {low} to {high}; use --iterations within that")
    return wanted
