"""`board deployments` and `board roles`: what was deployed, and what the roles are told and allowed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from intent_board.cli.context import example, json_option, load_config, print_json
from intent_board.cli.desk import desk, plain
from intent_board.cli.table import table
from intent_board.cli.times import stamp

if TYPE_CHECKING:
    from intent_board.config import BoardConfig


@click.command(epilog=example("board deployments", "board deployments --last 5 --json"))
@click.option("--last", type=click.IntRange(1, 10**9), default=20, show_default=True, help="Only the newest so many.")
@json_option
@click.pass_context
def deployments(context: click.Context, last: int, as_json: bool) -> None:
    """List the deployments that were recorded, the newest first; board show SLUG has each whole."""
    with desk(context) as board:
        found = board.store.deployments(limit=last)
        if as_json:
            print_json([{"slug": slug, **plain(one)} for slug, one in found])
            return
        rows = [(stamp(one.created_at), slug, *_outcome(one.data)) for slug, one in found]
        click.echo(table(("WHEN", "CARD", "COMMIT", "OUTCOME", "WHAT"), rows) if rows else "nothing was deployed yet")


def _outcome(data: Any) -> tuple[object, ...]:
    known = data if isinstance(data, dict) else {}
    return (str(known.get("commit") or "")[:12], known.get("outcome"), known.get("sentence"))


@click.command(epilog=example("board roles", "board roles --json"))
@json_option
@click.pass_context
def roles(context: click.Context, as_json: bool) -> None:
    """List the roles: version and hash of their texts, what they may touch, how they run, allowed commands."""
    from intent_board.config import MODEL_ROLES

    config = load_config(context)
    found = [*(_role(name, config) for name in MODEL_ROLES), _dialogue(config)]
    if as_json:
        print_json(found)
        return
    head = ("ROLE", "VERSION", "HASH", "TEXT", "ACCESS", "RUNS WITH", "COMMANDS")
    rows = [
        (
            role["role"],
            role["version"],
            role["sha256"][:12],
            role["text"],
            role["access"],
            "; ".join(f"{queue}: {with_}" for queue, with_ in role["runs_with"].items()),
            ", ".join(role["allowed_commands"]) + _unheld(role),
        )
        for role in found
    ]
    click.echo(table(head, rows))


def _unheld(role: dict[str, Any]) -> str:
    """What has to be said about a list of commands that a queue's agent program does not hold."""
    queues = [queue for queue, held in role["commands_held"].items() if held is False]
    return f" (not held in {', '.join(queues)})" if role["allowed_commands"] and queues else ""


def _role(name: str, config: BoardConfig) -> dict[str, Any]:
    from intent_board.roles.text import load

    override = config.roles[name].contract if name in config.roles else None
    allowed = config.roles[name].allowed_commands if name in config.roles else ()
    return {
        **load(name, config).record(),
        "text": "packaged" if override is None else f"changed: {override}",
        "access": "writes its own clone" if name in ("builder", "fixer") else "reads one commit",
        "runs_with": dict(_settings(name, config)),
        "allowed_commands": list(allowed),
        "commands_held": _held(name, config),
    }


def _dialogue(config: BoardConfig) -> dict[str, Any]:
    """The Planner that a person talks to with board plan: no job runs it, and no text on the host replaces its own."""
    from intent_board.roles.dialogue import program
    from intent_board.roles.text import load

    return {
        **load("planner-dialogue", config).record(),
        "text": "packaged",
        "access": "reads a person's checkout, writes docs/intent/SLUG.md",
        "runs_with": {"board plan": program(config, None)},
        "allowed_commands": [],
        "commands_held": {},
    }


def _held(role: str, config: BoardConfig) -> dict[str, bool | None]:
    """For each queue of a role, whether its agent program keeps to the allowed commands (docs/runtimes.md).

    None where the attempt's profile decides.
    """
    if role == "builder":
        runtimes = {config.lane_queue(name): lane.runtime for name, lane in config.lanes.items()}
    else:
        queues = {name: queue for name, queue in config.queues.items() if queue.role == role}
        runtimes = {name: queue.runtime or "" for name, queue in queues.items()}
    return {queue: config.runtimes[name].kind == "claude" if name else None for queue, name in runtimes.items()}


def _settings(role: str, config: BoardConfig) -> list[tuple[str, str]]:
    """The queues that a role serves, each with its runtime settings in words."""
    if role == "builder":
        return [(config.lane_queue(name), _profile(lane)) for name, lane in config.lanes.items()]
    queues = [(name, queue) for name, queue in config.queues.items() if queue.role == role]
    return [(name, _profile(queue) if queue.runtime else "the attempt's own profile") for name, queue in queues]


def _profile(given: Any) -> str:
    words = (given.runtime, given.model, given.reasoning_effort, f"at most {given.iteration_limit} iterations")
    return " ".join(word for word in words if word)
