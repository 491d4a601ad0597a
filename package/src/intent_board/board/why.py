"""Why a card stands where it stands, and what gets it out: from the board's state alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from intent_board.board import schedule
from intent_board.board.changes.deployment import deploys
from intent_board.board.model import Card, Family, Job, JobState, Kind, Phase, Snapshot, Status

#: Of an Inspector's words here, so that they do not hide the rest; the whole of them is kept beside the card.
MOST_WORDS = 600


@dataclass(frozen=True, slots=True)
class Inspection:
    """The newest look of an Inspector: its job, and once that is done, when it ended and what came of it.

    `found` is the kept inspection; without one `failure` is the reason, "" after a recommendation.
    """

    job: Job
    ended: float | None = None
    found: Mapping[str, Any] | None = None
    failure: str = ""


@dataclass(frozen=True, slots=True)
class Outlook:
    """What `explain` looks at: the card, its present job, the tick's snapshot, its family, a pending route.

    `job` is what the card's phase waits for; an Inspector's look is beside it, in `inspection`.
    """

    card: Card
    snapshot: Snapshot
    job: Job | None = None
    family: Family | None = None
    route: Mapping[str, Any] | None = None
    inspection: Inspection | None = None


def explain(outlook: Outlook) -> str:
    """One or a few sentences: where the card stands, what it waits for, and the way out.

    Every phase has an answer; nobody waits without a reason.
    """
    card = outlook.card
    lines = [_PHASES[card.phase](outlook)]
    if outlook.route is not None:
        route = outlook.route
        lines.append(
            f"The Inspector recommends {route['recommendation']} (id {route['id']}): "
            f"board route apply {card.slug} {route['id']}, or dismiss."
        )
    if outlook.inspection is not None:
        lines += _inspected(outlook, outlook.inspection)
    lines += [f"Note: {warning}" for warning in card.warnings]
    return "\n".join(lines)


def _inspected(outlook: Outlook, last: Inspection) -> list[str]:
    slug, job = outlook.card.slug, last.job
    if job.state in (JobState.QUEUED, JobState.RUNNING):
        return [_under_way(outlook, job, "An Inspector looks at it")]
    when = f" of {_time(last.ended)}" if last.ended is not None else ""
    if last.found is not None:
        said = _shortened(str(last.found.get("summary") or ""))
        open_points = len(last.found.get("open_points") or ())
        more = f" Open points: {open_points}." if open_points else ""
        verdict = last.found.get("implementation")
        return [f"The inspection{when} says: {verdict}. {said}{more} board show {slug} has all of it."]
    if last.failure:
        again = "board inspect --route" if job.snapshot.get("task") == "route_next" else "board inspect"
        return [f"The inspection{when} failed: {_shortened(last.failure)} Way out: {again} {slug}."]
    return []


def _shortened(text: str) -> str:
    """A model's words as one line that ends as a sentence does, cut where it would hide the rest."""
    line = " ".join(text.split())
    line = line if len(line) <= MOST_WORDS else f"{line[:MOST_WORDS]}..."
    return line if line.endswith((".", "!", "?")) or not line else f"{line}."


def _job(outlook: Outlook, what: str) -> str:
    card, job = outlook.card, outlook.job
    if job is None or job.state in (JobState.DONE, JobState.CANCELLED):
        return f"{what}: no job is under way; the next tick of the scheduler looks again. {_reason(card)}".strip()
    text = _under_way(outlook, job, what)
    return text if job.state is JobState.RUNNING else f"{text} {_reason(card)}".strip()


def _under_way(outlook: Outlook, job: Job, what: str) -> str:
    profile = job.snapshot.get("profile") or {}
    limit = f" of {profile['iteration_limit']}" if profile.get("iteration_limit") else ""
    if job.state is JobState.RUNNING:
        return f"{what}: job {job.id} runs, attempt {job.attempt}, {job.used_iterations}{limit} iterations used."
    text = f"{what}: job {job.id} waits in queue {job.queue} for a free worker"
    if job.not_before:
        text += f", not before {_time(job.not_before)}"
    runtime = profile.get("runtime")
    if runtime in outlook.snapshot.paused_runtimes:
        text += f"; runtime {runtime} is paused, its credentials were refused: mend them, then board resume {runtime}"
    return f"{text}."


def _time(seconds: float) -> str:
    try:
        return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S} UTC"
    except (OverflowError, OSError, ValueError):
        return f"{seconds:.0f} s"  # a clock that was wrong when this was written


def _reason(card: Card) -> str:
    return f"Reason: {card.reason.rstrip('.')}." if card.reason else ""


def _geplant(outlook: Outlook) -> str:
    card = outlook.card
    for verdict in schedule.verdicts(outlook.snapshot):
        if verdict.slug == card.slug:
            if verdict.goes:
                return "Waits for its Builder: the next tick of the scheduler dispatches it."
            return f"Waits for its Builder: {verdict.reason}."
    return "Waits for its Builder, and the scheduler has not seen it yet; its next tick does."


def _klaerung(outlook: Outlook) -> str:
    card = outlook.card
    if outlook.job is not None and outlook.job.state in (JobState.QUEUED, JobState.RUNNING):
        return _job(outlook, f"A {outlook.job.role} works on it")
    if card.status is Status.NEEDS_INPUT:
        action = f" It needs: {card.human_action}." if card.human_action else ""
        question = card.question or card.reason
        return f"The {card.asked_by or 'role'} asks: {question}{action} Way out: board answer {card.slug}."
    ways = [f"board retry {card.slug}"]
    if card.status is Status.PUBLISH_FAILED:
        ways.append(f"board retry {card.slug} --afresh")
    parent = card.kind is Kind.PARENT
    if card.commit is not None and card.status not in (Status.PUBLISH_FAILED, Status.DEPLOY_FAILED) and not parent:
        ways.append(f"board repair {card.slug}")
    if card.parent is None and not parent:
        if card.status is Status.LIMIT_REACHED:
            ways.append(f"board split {card.slug}")
        ways.append("board submit --replace")
    ways.append(f"board archive {card.slug}")
    return f"Parked as {card.status}. {_reason(card)} Way out: {', '.join(ways)}."


def _feedback(outlook: Outlook) -> str:
    card = outlook.card
    ways = [f"board retry {card.slug}", f"board repair {card.slug}", f"board archive {card.slug}"]
    if card.kind is Kind.ORDINARY:
        ways.insert(2, "board submit --replace")
    return f"The review was negative. {_reason(card)} Way out: {', '.join(ways)}."


def _operator_klaerung(outlook: Outlook) -> str:
    card = outlook.card
    action = f" {card.human_action}." if card.human_action else ""
    ways = f"board answer {card.slug}, board retry {card.slug}, board submit --replace, board build {card.slug}"
    return f"The Operator needs a person.{action} {_reason(card)} Way out: {ways}."


def _kinder(outlook: Outlook) -> str:
    family = outlook.family
    if family is None:
        return "Waits for its children."
    open_ones = [f"{child.slug} ({child.phase})" for child in family.children if not child.good]
    if open_ones:
        return "Waits for its children: " + ", ".join(open_ones) + "."
    if family.synthesis is not None:
        return f"Every child is good; waits for {family.synthesis.slug} ({family.synthesis.phase})."
    return "Every child is good; the next tick makes the synthesis card."


def _blockiert(outlook: Outlook) -> str:
    blocking = schedule.blocking_members(outlook.family) if outlook.family else []
    names = "; ".join(f"{one['slug']}: {one['why']}" for one in blocking) or outlook.card.reason
    way = f"board why on each of them, or board archive {outlook.card.slug}"
    return f"Blocked by its children. {names}. Way out: {way}."


def _bereit(outlook: Outlook) -> str:
    card, config = outlook.card, outlook.snapshot.config
    if card.commit is None:
        return f"Done, and not deployed from here, since no commit of it is known. {_reason(card)}".strip()
    if not deploys(card, config):
        whose = f"its deployment comes with {card.parent}" if card.parent else "its repository is not deployed"
        return f"Done: reviewed and published as {card.commit}; {whose}."
    if config.deploy.gate == "owner" and card.released != card.commit:
        return f"Published as {card.commit}; waits for the owner: board release {card.slug}."
    if outlook.job is not None and outlook.job.role == "deploy" and outlook.job.state is not JobState.DONE:
        return _job(outlook, f"Published as {card.commit}; its deployment to {config.deploy.host} is under way")
    return f"Published as {card.commit}; deployment is not automatic: board deploy {card.slug}."


def _deployed(outlook: Outlook) -> str:
    card = outlook.card
    if card.commit is None:
        return f"Deployed, and no commit of it is known. {_reason(card)}".strip()
    return f"Deployed as {card.commit}."


_PHASES: Mapping[Phase, Callable[[Outlook], str]] = {
    Phase.GEPLANT: _geplant,
    Phase.OPERATOR_PRUEFUNG: lambda it: _job(it, "The Operator looks at it"),
    Phase.OPERATOR_KLAERUNG: _operator_klaerung,
    Phase.STARTFREIGABE: lambda it: (
        f"{it.card.requester} asked for it; waits for the owner: board accept {it.card.slug}, or decline."
    ),
    Phase.COMMITFREIGABE: lambda it: (
        _job(it, "Released, and about to be published")
        if it.card.status in (Status.QUEUED, Status.RUNNING)
        else f"Reviewed. {_reason(it.card)} Way out: board release {it.card.slug}, or discard."
    ),
    Phase.IN_UMSETZUNG: lambda it: _job(it, "A Builder works on it"),
    Phase.IN_UMSETZUNG_LEICHT: lambda it: _job(it, "A Builder works on it"),
    Phase.IN_REVIEW: lambda it: _job(it, "Under review" if it.card.reviewed is None else "Reviewed, to be published"),
    Phase.KLAERUNG_REPARATUR: _klaerung,
    Phase.PLANUNG_MIT_FEEDBACK: _feedback,
    Phase.WARTET_AUF_KINDER: _kinder,
    Phase.DURCH_KINDER_BLOCKIERT: _blockiert,
    Phase.BEREIT: _bereit,
    Phase.DEPLOYED: _deployed,
    Phase.ARCHIVIERT: lambda it: f"Archived, which is final. {_reason(it.card)}".strip(),
}
