"""Looking at cards: list, show, why, log."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import click

from intent_board.cli.context import example, json_option, print_json
from intent_board.cli.desk import Desk, desk, plain, slug_argument
from intent_board.cli.failure import Failure, visible
from intent_board.cli.table import facts, table
from intent_board.cli.times import ago, stamp

if TYPE_CHECKING:
    from intent_board.store.values import AuditLine, CardLine, JobLine


#: What is left out where people read; --json has it.
EMPTY: tuple[Any, ...] = (None, "", [], {})


@click.command("list", epilog=example("board list", "board list --phase klaerung_reparatur", "board list --all --json"))
@click.option("--all", "everything", is_flag=True, help="Archived and deployed cards too.")
@click.option("--phase", "phases", multiple=True, help="Only cards in this phase; repeatable.")
@click.option("--repository", help="Only cards of this repository.")
@click.option("--parent", metavar="SLUG", help="Only this card's children and synthesis.")
@click.option("--mine", is_flag=True, help="Only cards that you handed over.")
@json_option
@click.pass_context
def list_(
    context: click.Context,
    everything: bool,
    phases: tuple[str, ...],
    repository: str | None,
    parent: str | None,
    mine: bool,
    as_json: bool,
) -> None:
    """List the cards, families together."""
    from intent_board.board.model import FINAL, Phase

    known = [phase.value for phase in Phase]
    if unknown := [phase for phase in phases if phase not in known]:
        raise click.UsageError(f"there is no phase {unknown[0]!r}; the phases are: {', '.join(known)}")
    wanted = phases or (known if everything else [phase for phase in Phase if phase not in FINAL])
    with desk(context) as board:
        requester = board.asker.name if mine else None
        _known_repository(board, repository)
        cards = board.store.cards(phases=wanted, repository=repository, parent=parent, requester=requester)
        if as_json:
            print_json(plain(cards))
            return
        now = time.time()
        rows = [
            (f"{'  ' * nested}{card.slug}", card.phase, card.status, card.lane, ago(card.phase_since, now), card.title)
            for card, nested in in_families(cards)
        ]
        click.echo(table(("CARD", "PHASE", "STATUS", "LANE", "SINCE", "TITLE"), rows) if rows else "no card")


def _known_repository(board: Desk, name: str | None) -> None:
    """Refuse a mistyped name, which would look like an empty board; a card may outlive its repository's table."""
    if name is None or name in board.config.repositories or board.store.cards(repository=name, limit=1):
        return
    raise click.UsageError(f"there is no repository {name!r}; use one of: {', '.join(board.config.repositories)}")


def in_families(cards: Sequence[CardLine]) -> Iterable[tuple[CardLine, bool]]:
    """Every card once, a parent's followed by its children, else the order kept."""
    here = {card.slug for card in cards}
    children: dict[str, list[CardLine]] = {}
    for card in cards:
        if card.parent in here:
            children.setdefault(str(card.parent), []).append(card)
    for card in cards:
        if card.parent not in here:
            yield card, False
            for child in sorted(children.get(card.slug, []), key=lambda child: (child.created_at, child.slug)):
                yield child, True


@click.command(epilog=example("board why backup"))
@slug_argument
@json_option
@click.pass_context
def why(context: click.Context, slug: str, as_json: bool) -> None:
    """Say why a card stands where it stands, and what gets it out."""
    with desk(context) as board:
        text = board.why(slug)
        if as_json:
            print_json({"slug": slug, "why": text})
        else:
            click.echo(visible(text))


@click.command(epilog=example("board log backup", "board log --last 50"))
@click.argument("slug", required=False)
@click.option("--last", type=click.IntRange(1, 10**9), help="Only the newest so many lines.")
@json_option
@click.pass_context
def log(context: click.Context, slug: str | None, last: int | None, as_json: bool) -> None:
    """Print the audit of a card (without SLUG: of the board), oldest first: what happened, when, by whom."""
    with desk(context) as board:
        if slug is not None:
            board.store.card(slug)  # a card that does not exist is a mistake, not an empty log
        lines = board.store.events(slug, limit=last)
        if as_json:
            print_json(plain(lines))
            return
        for line in lines:
            click.echo(visible(_audit_line(line, with_slug=slug is None)))


def _audit_line(line: AuditLine, *, with_slug: bool) -> str:
    data = ", ".join(f"{key}={_short(value)}" for key, value in line.data.items() if value not in EMPTY)
    where = f"{line.slug}  " if with_slug and line.slug else ""
    return f"{stamp(line.at)}  {where}{line.event}  by {line.actor}" + (f"  {data}" if data else "")


def _short(value: Any) -> str:
    text = " ".join(_words(value).split())
    return text if len(text) <= 160 else text[:157] + "..."


def _words(value: Any) -> str:
    """A JSON value within a line; what is empty is left out."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}={_words(item)}" for key, item in value.items() if item not in EMPTY) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_words(item) for item in value if item not in EMPTY) + "]"
    return str(value)


@click.command(epilog=example("board show backup", "board show backup --intent", "board show backup --raw operator"))
@slug_argument
@click.option("--intent", "intent_only", is_flag=True, help="Only the intent's text.")
@click.option("--raw", metavar="ROLE", help="Only the newest raw answer of this role, word for word.")
@json_option
@click.pass_context
def show(context: click.Context, slug: str, intent_only: bool, raw: str | None, as_json: bool) -> None:
    """Show everything about a card: attempts, reviews, findings, reports, questions, its intent."""
    with desk(context) as board:
        if intent_only:
            click.echo(visible(board.store.intent(slug)))
        elif raw is not None:
            click.echo(visible(_newest_raw(board, slug, raw)))
        elif as_json:
            print_json(_everything(board, slug))
        else:
            click.echo("\n\n".join(part for part in _parts(board, slug) if part))


def _newest_raw(board: Desk, slug: str, role: str) -> str:
    roles = {line.job.id: line.job.role for line in board.store.jobs(slug)}
    texts = {roles[one.job_id]: one.text for one in board.store.answers(slug) if one.job_id in roles and one.text}
    if role not in texts:
        raise Failure(f"{slug} has no answer of the role {role!r}; it has answers of: {', '.join(texts) or 'none'}")
    return texts[role]


def _everything(board: Desk, slug: str) -> dict[str, Any]:
    store = board.store
    return {
        "card": plain(store.card(slug)),
        "why": board.why(slug),
        "intent": store.intent(slug),
        "jobs": plain(store.jobs(slug)),
        "reviews": plain(store.reviews(slug)),
        "attachments": plain(store.attachments(slug)),
        "routes": plain(store.routes(slug)),
    }


def _parts(board: Desk, slug: str) -> Iterable[str]:
    store = board.store
    card = store.card(slug)
    yield visible(f"{card.slug}: {card.title}")
    yield visible(board.why(slug))
    yield facts(
        (
            ("phase", f"{card.phase} ({card.status})"),
            ("repository", f"{card.repository}, branch {card.branch or 'of the remote'}"),
            ("handed over by", card.requester),
            ("family", f"{card.kind} of {card.parent}" if card.parent else card.kind if card.kind == "parent" else ""),
            ("lane", f"{card.lane}, round {card.round}, rung {card.rung}" if card.lane else ""),
            ("profile", _profile(card.profile)),
            ("waits for", ", ".join(card.blocked_by)),
            ("may write", "\n".join(card.write_scope)),
            ("accepted when", "\n".join(f"{index}. {text}" for index, text in enumerate(card.acceptance_criteria))),
            ("commit", card.commit),
            ("reviewed", card.reviewed),
            ("released", card.released),
            ("reason", card.reason),
            ("needs a person", card.human_action),
            ("question", card.question),
        )
    )
    if jobs := store.jobs(slug):
        yield "Jobs\n" + table(
            ("JOB", "ROLE", "ATTEMPT", "STATE", "ITERATIONS", "COST", "STARTED", "OUTCOME"), map(_job, jobs)
        )
    for review in store.reviews(slug):
        yield _document(f"Review of {review.commit} at {stamp(review.created_at)}: {review.decision}", review.report)
    for attachment in store.attachments(slug):
        yield _document(f"{attachment.kind} {attachment.id} at {stamp(attachment.created_at)}", attachment.data)
    yield f"board show {slug} --intent prints its text, --raw ROLE the newest answer of a role."


def _profile(profile: Any) -> str:
    if profile is None:
        return ""
    parts = (profile.runtime, profile.model, profile.reasoning_effort, f"limit {profile.iteration_limit}")
    return " ".join(str(part) for part in parts if part)


def _job(line: JobLine) -> tuple[object, ...]:
    job = line.job
    limit = f"{job.used_iterations}/{line.limit}" if line.limit else job.used_iterations
    cost = "" if line.cost_usd is None else f"${line.cost_usd:.2f}"
    unsafe = " (no sandbox)" if line.sandboxed is False else ""
    outcome = " ".join(part for part in (line.outcome or "", line.reason) if part) + unsafe
    return (job.id, job.role, job.attempt, job.state, limit, cost, stamp(line.started_at), outcome)


def _document(head: str, value: Any) -> str:
    """A JSON document as indented text: what people read, without the quotes and braces."""
    return visible(head) + "\n" + visible("\n".join(f"  {line}" for line in _lines(value)))


def _lines(value: Any) -> Iterable[str]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _entry(f"{key}:", item)
    elif isinstance(value, list):
        for item in value:
            yield from _entry("-", item)
    elif value is not None:
        yield from str(value).splitlines() or [""]


def _entry(head: str, item: Any) -> Iterable[str]:
    lines = [] if item in EMPTY else list(_lines(item))
    if not lines:
        return
    if len(lines) == 1 and not isinstance(item, dict | list):
        yield f"{head} {lines[0]}"
    elif head == "-":
        yield f"- {lines[0]}"
        yield from (f"  {line}" for line in lines[1:])
    else:
        yield head
        yield from (f"  {line}" for line in lines)
