"""`board import`: the cards of the former, file-based board, all of them or none, and nothing started."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from intent_board.cli.asker import STDIN, under_sudo
from intent_board.cli.context import example, json_option, print_json
from intent_board.cli.desk import Desk, desk, plain
from intent_board.cli.failure import Failure, visible

if TYPE_CHECKING:
    from intent_board.board.importing import Takeover

MOST_BYTES = 64 * 1024 * 1024


@click.command(
    name="import",
    epilog=example(
        "board import --state cards.json --intents docs/intent --dry-run",
        "board import --state cards.json --intents docs/intent",
    ),
)
@click.option("--state", "file", required=True, metavar="FILE", help="The state: one JSON object with `cards` by slug.")
@click.option("--intents", metavar="DIR", help="Where the cards' intents are: <slug>.md each.")
@click.option("--dry-run", is_flag=True, help="Only say what would be done.")
@json_option
@click.pass_context
def import_(context: click.Context, file: str, intents: str | None, dry_run: bool, as_json: bool) -> None:
    """Take over the cards of a former board, all or none (owner).  Nothing starts until you say so.

    A second run imports only what is not here yet.  docs/import.md says where each card lands.
    """
    if intents is not None:
        # One text holds both, so that it can be handed over on stdin; what is read is read with the asker's own rights.
        file = _bundle(file, intents)
        context.params["intents"] = None
    with desk(context, file) as board:
        board.require_owner("import cards")
        state = _state(_read(file), file)
        takeover = _take_over(board, state)
        if takeover.cards and not takeover.broken and not dry_run:
            _carry_out(board, takeover)
        _report(takeover, dry_run, as_json)
        if takeover.broken:
            context.exit(1)


def _take_over(board: Desk, state: Any) -> Takeover:
    from intent_board.board.importing import EVENT, take_over
    from intent_board.cli.submit import _repository

    texts = state.get("intents") if type(state) is dict else None
    if texts is not None and not (type(texts) is dict and all(type(text) is str for text in texts.values())):
        raise Failure("`intents` of the state must be an object of texts by file name; use --intents DIR instead")
    imported, present = board.store.imported(EVENT)
    repository = _repository(board.config, None)
    return take_over(state, texts or {}, board.config, repository=repository, imported=imported, present=present)


def _carry_out(board: Desk, takeover: Takeover) -> None:
    from intent_board.board.importing import effects

    board.store.import_cards(effects(takeover, board.asker.name))


def _report(takeover: Takeover, dry_run: bool, as_json: bool) -> None:
    from intent_board.board.importing import summary

    rows = summary(takeover)
    done = not takeover.broken and not dry_run
    if as_json:
        cards = [dict(zip(("slug", "was", "phase", "status"), row, strict=True)) for row in rows]
        head = {"done": done, "dry_run": dry_run, "already_imported": list(takeover.already)}
        print_json({**head, "cards": cards, "broken": plain(takeover.broken)})
        return
    for one in takeover.broken:
        click.echo(visible(f"board: {f'{one.slug}: ' if one.slug else ''}{one.reason}"), err=True)
    if takeover.broken:
        click.echo("board: nothing was imported; mend the state and run the same command again", err=True)
        return
    for slug, was, phase, status in rows:
        click.echo(visible(f"{slug}: {was} -> {phase} ({status})"))
    verb = "would be imported" if dry_run else "imported"
    click.echo(f"{len(rows)} {verb}, {len(takeover.already)} were imported before")


# --- reading files -----------------------------------------------------------------------------------------------


def _bundle(file: str, intents: str) -> str:
    """A file in memory with the state and the intents in it; its path."""
    state = _state(_read(file), file)
    if type(state) is dict:
        state["intents"] = _texts(intents)
    memory = os.memfd_create("state", 0)
    with os.fdopen(os.dup(memory), "w", encoding="ascii") as target:
        json.dump(state, target)
    return f"/proc/self/fd/{memory}"


def _texts(directory: str) -> dict[str, str]:
    if under_sudo():
        raise Failure("under sudo no directory can be named; run board without sudo, it hands the intents over itself")
    found: dict[str, str] = {}
    try:
        for path in sorted(Path(directory).iterdir()):
            if path.suffix == ".md" and path.is_file():
                found[path.name] = _decode(_read(str(path)), str(path))
    except OSError as error:
        raise Failure(f"{directory} cannot be read ({error.strerror}); name the directory with the intents") from None
    return found


def _read(file: str) -> bytes:
    if file != STDIN and under_sudo():
        raise Failure(f"under sudo no file can be named; run board without sudo, or hand {file} over on stdin as '-'")
    try:
        if file == STDIN:
            raw = sys.stdin.buffer.read(MOST_BYTES + 1)
        else:
            with Path(file).open("rb") as source:
                raw = source.read(MOST_BYTES + 1)
    except OSError as error:
        raise Failure(f"{file} cannot be read ({error.strerror}); name a readable file, or '-' for stdin") from None
    if len(raw) > MOST_BYTES:
        raise Failure(f"{file} is larger than {MOST_BYTES >> 20} MiB; import a part of the cards at a time")
    return raw


def _decode(raw: bytes, where: str) -> str:
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Failure(f"{where} is not UTF-8 at byte {error.start}; save it as UTF-8") from None


def _state(raw: bytes, where: str) -> Any:
    from intent_board.contracts import ContractError, strict

    shown = "the state" if where.startswith("/proc/self/fd/") else where
    try:
        return strict.read(_decode(raw, shown), lambda value: value)
    except ContractError as error:
        raise Failure(f"{shown} can't be read at {error}; mend it there") from None
