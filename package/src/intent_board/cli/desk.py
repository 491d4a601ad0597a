"""The open store, and a proved asker in front of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import click

from intent_board.cli.asker import STDIN, Asker, ThroughSudo, run_again, who_asks
from intent_board.cli.context import config_path, load_config
from intent_board.cli.failure import Failure

if TYPE_CHECKING:
    from intent_board.board.why import Inspection
    from intent_board.config import BoardConfig
    from intent_board.store import Store

Function = TypeVar("Function", bound=Callable[..., Any])


@dataclass(frozen=True)
class Desk:
    """A command's working place: the open store and the proved asker."""

    config: BoardConfig
    asker: Asker
    store: Store

    def why(self, slug: str) -> str:
        """Why a card stands where it stands, and the way out.  Raises UnknownCard."""
        from intent_board.board.why import Outlook, explain

        store, card = self.store, self.store.card(slug)
        snapshot = store.snapshot()
        family = next((family for family in snapshot.families if family.parent == slug), None)
        job = store.present_job(slug)
        ours = None if job is not None and job.role == "inspector" else job
        return explain(Outlook(card, snapshot, ours, family, store.pending_route(slug), self._inspection(slug)))

    def _inspection(self, slug: str) -> Inspection | None:
        """The newest inspection of a card that was not cancelled."""
        from intent_board.board.model import JobState
        from intent_board.board.why import Inspection

        jobs = [line for line in self.store.jobs(slug) if line.job.role == "inspector"]
        last = next((line for line in reversed(jobs) if line.job.state is not JobState.CANCELLED), None)
        if last is None:
            return None
        kept = self.store.attachments(slug, "inspection")
        found = next((one.data for one in kept if one.job_id == last.job.id), None)
        if found is not None or last.outcome == "routed":
            return Inspection(last.job, last.finished_at, found)
        # A refused answer's reason and a lost run's are in the audit alone.
        failed = [line.data for line in self.store.events(slug) if line.event == "inspection_failed"]
        return Inspection(last.job, last.finished_at, failure=str(failed[-1].get("reason") or "") if failed else "")

    def require_owner(self, what: str) -> None:
        """Raise Failure unless the asker is the board's owner; `what` completes the sentence."""
        if self.asker.name != self.config.board.owner:
            raise Failure(f"only the owner {self.config.board.owner} may {what}, and you are {self.asker.name}")


@contextmanager
def desk(context: click.Context, file: str | None = None) -> Iterator[Desk]:
    """Open the store as somebody who may, running `board` again through sudo where that is another user.

    `file` is the value of this command's parameter named `file`, which is handed over on stdin then.
    """
    config, asker = admitted(context, file)
    from intent_board.store import open_store

    store = open_store(config)
    try:
        yield Desk(config, asker, store)
    finally:
        store.close()


def admitted(context: click.Context, file: str | None = None) -> tuple[BoardConfig, Asker]:
    """The configuration and the proved asker, in a process of the user whom the board belongs to."""
    config = load_config(context)
    asker = who_asks(config.state_dir)
    if isinstance(asker, ThroughSudo):
        _hand_over(context, config, asker.user, file)
    return config, asker


def _hand_over(context: click.Context, config: BoardConfig, user: str, file: str | None) -> NoReturn:
    from intent_board.config import DEFAULT_PATH

    if (path := config_path(context)) != DEFAULT_PATH:
        raise Failure(
            f"the board of {path} belongs to the user {user}, whose board is always that of {DEFAULT_PATH}; "
            "leave --config and $INTENT_BOARD_CONFIG out, or run as that user"
        )
    arguments = command_line(context, {"file": STDIN} if file is not None else {})
    named = Path(file) if file is not None and file != STDIN else None
    try:
        run_again(user, arguments, named, group=config.board.group)
    except OSError as error:
        raise Failure(f"{named or 'sudo'} cannot be opened ({error.strerror}); name a readable file") from None


def command_line(context: click.Context, replaced: Mapping[str, str]) -> list[str]:
    """The arguments that run this command again, made from what click understood rather than from the raw words.

    So a value that looks like the file's name stays what it is.  Global options are left out.
    """
    chain: list[str] = []
    step: click.Context | None = context
    while step is not None and step.parent is not None:
        chain.insert(0, str(step.command.name))
        step = step.parent
    options: list[str] = []
    arguments: list[str] = []
    for parameter in context.command.params:
        value = replaced.get(str(parameter.name), context.params.get(str(parameter.name)))
        if isinstance(parameter, click.Argument):
            arguments += [str(item) for item in _items(value)]
        elif isinstance(parameter, click.Option) and value is not None:
            options += _option(parameter, value)
    return [*chain, *options, "--", *arguments]


def _option(option: click.Option, value: Any) -> list[str]:
    if option.is_flag:
        return [option.opts[0]] if value else []
    # One word, so that a value with a leading dash is not taken for an option.
    return [f"{option.opts[0]}={item}" for item in _items(value)]


def _items(value: Any) -> Sequence[Any]:
    if value is None:
        return ()
    return value if isinstance(value, (tuple, list)) else (value,)


def slug_argument(function: Function) -> Function:
    """The argument SLUG: a card's name."""
    return click.argument("slug")(function)


def plain(value: Any) -> Any:
    """Values of the store as what JSON knows."""
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(item) for item in value]
    return value
