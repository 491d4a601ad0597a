"""`board-operator`: an Operator's answer by hand, judged by the same contract and applied the same way as a model's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from intent_board.cli.asker import ThroughSudo, who_asks
from intent_board.cli.context import load_config, print_json, read_text
from intent_board.cli.failure import Failure, sentences, visible

if TYPE_CHECKING:
    from intent_board.contracts.operator import Decision

Function = TypeVar("Function", bound=Callable[..., Any])


class Group(click.Group):
    """Turns every room's refusal into one sentence."""

    def invoke(self, ctx: click.Context) -> object:
        with sentences():
            return super().invoke(ctx)


@click.group(cls=Group)
@click.option(
    "--config",
    type=click.Path(path_type=Path),
    help="The configuration.  [default: $INTENT_BOARD_CONFIG, else /etc/intent-board/board.toml]",
)
def main(config: Path | None) -> None:
    """Judge or apply an Operator's answer without a model."""


def _answer(function: Function) -> Function:
    function = click.option("--parent", required=True, metavar="SLUG", help="The card that the answer is for.")(
        function
    )
    return click.argument("file", metavar="FILE")(function)


@main.command(epilog="\b\nExample:\n  board-operator check answer.txt --parent new-relay")
@_answer
@click.option("--json", "as_json", is_flag=True, help="Print the decision as one JSON document.")
@click.pass_context
def check(context: click.Context, file: str, parent: str, as_json: bool) -> None:
    """Say whether the contract accepts the answer in FILE ('-' for stdin).  Needs no store and changes nothing."""
    from intent_board.contracts.operator import parse_decision

    config = load_config(context)
    decision = parse_decision(read_text(file), parent_slug=parent, config=config)
    if as_json:
        print_json(_document(decision))
    else:
        click.echo(visible(_summary(decision)))


def _document(decision: Decision) -> dict[str, Any]:
    """The decision with what is only made of it: the sections that a child's intent lacks."""
    children = [asdict(child) | {"warnings": child.warnings} for child in decision.children]
    return asdict(decision) | {"children": children}


def _summary(decision: Decision) -> str:
    if decision.decision == "needs_human":
        return f"ok: needs_human: {decision.human_action}"
    if decision.decision == "split":
        lines = [
            f"  {child.slug} (wave {child.wave}, {child.recommended_lane}): {', '.join(child.write_scope)}"
            for child in decision.children
        ]
        return "\n".join([f"ok: split into {len(lines)}", *lines])
    return f"ok: direct_builder in lane {decision.recommended_lane}"


@main.command(epilog="\b\nExample:\n  board-operator apply answer.txt --parent new-relay")
@_answer
@click.pass_context
def apply(context: click.Context, file: str, parent: str) -> None:
    """Give the answer in FILE ('-' for stdin) to a card that waits for its Operator, in the Operator's place.

    Only the owner may.  The card's waiting job ends with this answer, and no model runs for it.
    """
    from intent_board.contracts.operator import parse_decision
    from intent_board.roles.operator import judge
    from intent_board.store import open_store

    config = load_config(context)
    asker = who_asks(config.state_dir)
    if isinstance(asker, ThroughSudo):
        reason = f"the board belongs to the user {asker.user}; run this as that user, with the answer on stdin ('-')"
        raise Failure(reason)
    if asker.name != config.board.owner:
        raise Failure(f"only the owner {config.board.owner} may apply an answer, and you are {asker.name}")
    answer = read_text(file)
    # Refused here, an answer typed by hand leaves the card where it is; a model's would end its job.
    parse_decision(answer, parent_slug=parent, config=config)
    store = open_store(config)
    claim = store.claim("operator", only=parent)
    if claim is None:
        raise Failure(f"{parent} has no Operator job that waits; board why {parent} says what it does")
    outcome = judge(parent, answer, config, {"by_hand": asker.name})
    if not store.finish(claim, outcome.event, outcome.data, raw=outcome.raw, result=outcome.result):
        raise Failure(f"{parent} could not take the answer; board show {parent} says why")
    card = store.card(parent)
    click.echo(visible(f"{parent}: {card.phase}, {card.status}. {card.reason}"))
