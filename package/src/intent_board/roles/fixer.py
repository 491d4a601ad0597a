"""The Fixer: the smallest repair of a proved defect, pushed to a quarantine of its own, and taken only when proved."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from intent_board.board.model import Card
from intent_board.board.states import Event
from intent_board.boundaries import boundary
from intent_board.contracts import ContractError
from intent_board.contracts.fixer import Result, parse_result
from intent_board.roles import base, order
from intent_board.roles.base import Context, Outcome, PutBack
from intent_board.roles.history import left_behind, negative_reviews
from intent_board.roles.text import RoleText, load
from intent_board.runtimes import Outcome as Ended
from intent_board.runtimes import RunResult
from intent_board.sandbox import Mount
from intent_board.store import Claim
from intent_board.workspace import Commit, WorkspaceError

#: What a run without an answer means for the card; anything else is a failed repair.
ENDINGS = {Ended.LIMIT_REACHED: Event.FIX_LIMIT, Ended.TIMED_OUT: Event.FIX_TIMEOUT}
#: Who a commit in the clone says it is by; git would not commit without a name.
IDENTITY = "[user]\n\tname = Intent Board Fixer\n\temail = fixer@intent-board.invalid\n"


@dataclass(frozen=True, slots=True)
class Bench:
    """Where a repair works: its own clone at the refused commit, and the one repository that it may push to."""

    name: str
    clone: Path
    quarantine: Path
    branch: str


def work(claim: Claim, context: Context) -> Outcome | PutBack:
    """One repair of exactly the job's commit; what was pushed counts only when it is proved."""
    text = load("fixer", context.config)
    context.workspace.fetch(claim.card.repository)
    bench = _bench(claim, context)
    try:
        return _repair(claim, context, text, bench)
    finally:
        context.workspace.remove_checkout(bench.clone)


def _bench(claim: Claim, context: Context) -> Bench:
    repository, run = claim.card.repository, f"{claim.job.id}-{claim.token}"
    clone = context.workspace.checkout(repository, claim.job.snapshot["commit"], run)
    # The clone is fresh, so this is our own file still.
    with (clone / ".git" / "config").open("a") as config:
        config.write(IDENTITY)
    answered = _answered_in(claim, context)
    name = run if answered is None else answered.stem
    quarantine = context.workspace.quarantine(repository, name) if answered is None else answered
    boundary("repair ready")
    return Bench(name, clone, quarantine, f"repair/{claim.card.slug}/{claim.job.attempt}")


def _answered_in(claim: Claim, context: Context) -> Path | None:
    """The quarantine of this job's run that answered before its worker died; what it pushed is in there."""
    if not base.answer_file(claim, context.config).exists():
        return None
    runs = (context.config.state_dir / "quarantines").glob(f"{claim.job.id}-*.git")
    return max(runs, key=lambda path: int(path.stem.partition("-")[2]), default=None)


def _repair(claim: Claim, context: Context, text: RoleText, bench: Bench) -> Outcome | PutBack:
    repository = claim.card.repository
    objects = context.workspace.objects(repository)
    result = base.run(
        claim,
        context,
        _order(claim, context, text, bench),
        bench.clone,
        writes=True,
        mounts=[Mount(objects, objects), Mount(bench.quarantine, bench.quarantine, writable=True)],
        nix_daemon=context.config.repositories[repository].nix_daemon,
    )
    if isinstance(result, PutBack):
        context.workspace.remove_quarantine(repository, bench.name)
        return result
    kept = base.record(claim, context.config, text, result) | {"quarantine": bench.name}
    event, data = _judged(claim, context, bench, result)
    if event in (Event.FIX_REPAIRED, Event.FIX_NEEDS_INPUT, Event.FIX_NOT_APPLICABLE):
        # What failed or could not be proved stays for a person to look at.
        context.workspace.remove_quarantine(repository, bench.name)
    return Outcome(event, data, result.text, kept)


def _judged(claim: Claim, context: Context, bench: Bench, result: RunResult) -> tuple[Event, dict[str, Any]]:
    if result.outcome is not Ended.ANSWERED:
        event = ENDINGS.get(result.outcome, Event.FIX_FAILED)
        return event, {"reason": result.reason}
    try:
        answer = parse_result(result.text)
    except ContractError as error:
        return Event.FIX_FAILED, {"reason": f"the Fixer's answer was refused: {error}"}
    if answer.outcome == "repaired":
        return _proved(claim, context, bench, answer)
    if context.workspace.pushed(claim.card.repository, bench.name):
        return Event.FIX_FAILED, {"reason": f"the Fixer answered {answer.outcome}, but pushed something all the same"}
    if answer.outcome == "needs_input":
        return Event.FIX_NEEDS_INPUT, {"question": answer.question, "required_action": answer.required_action}
    if answer.outcome == "not_applicable":
        return Event.FIX_NOT_APPLICABLE, {"reason": base.brief(f"the Fixer sees no defect: {answer.summary}")}
    return Event.FIX_FAILED, {"reason": base.brief(f"the Fixer failed: {answer.failure}")}


def _proved(claim: Claim, context: Context, bench: Bench, answer: Result) -> tuple[Event, dict[str, Any]]:
    """Exactly the pushed object, one commit on the refused one, in scope, with good checks; then a fresh review."""
    # A worker whose job was taken away while its agent answered takes nothing any more.
    context.store.progress(claim, claim.job.used_iterations)
    try:
        commit = _taken(claim, context, bench, answer)
    except WorkspaceError as error:
        if error.kind == "outage":
            raise
        findings = {"reason": str(error), "detail": list(error.detail)}
        return Event.FIX_FAILED, {"reason": f"the repair can't be proved: {error}", "findings": findings}
    checks = base.run_checks(claim, context, commit.hash)
    shown = base.checks_data(checks)
    if reason := base.failed_checks(checks):
        return Event.FIX_FAILED, {"reason": f"after the repair the {reason}", "findings": {"checks": shown}}
    snapshot, repository = claim.job.snapshot, claim.card.repository
    paths = list(context.workspace.paths_changed(repository, snapshot["base"], commit.hash))
    data = {"commit": commit.hash, "base": snapshot["base"], "branch": snapshot["branch"], "paths": paths}
    return Event.FIX_REPAIRED, {**data, "summary": answer.summary, "checks": shown}


def _taken(claim: Claim, context: Context, bench: Bench, answer: Result) -> Commit:
    if answer.pushed_branch != bench.branch:
        raise WorkspaceError("check_failed", f"it names the branch {answer.pushed_branch}, not {bench.branch}")
    return context.workspace.take(
        claim.card.repository,
        bench.name,
        bench.branch,
        str(answer.commit_hash),
        parent=claim.job.snapshot["commit"],
        scope=claim.card.write_scope or (".",),
        forbidden_values=context.credentials.values(),
    )


def _order(claim: Claim, context: Context, text: RoleText, bench: Bench) -> str:
    card = claim.card
    facts: dict[str, Any] = {
        "commit": claim.job.snapshot["commit"],
        "base": claim.job.snapshot["base"],
        "branch": bench.branch,
        "quarantine": str(bench.quarantine),
        "defect": _defect(card, context),
        "write_scope": list(card.write_scope),
        "checks": [list(argv) for argv in context.config.repositories[card.repository].checks],
    }
    data = [
        order.criteria(card),
        *negative_reviews(card.slug, context),
        *left_behind(card.slug, context, "findings", "answer"),
    ]
    return order.of_role(claim, context, text, facts, data)


def _defect(card: Card, context: Context) -> str:
    """In one word what the commit was refused for; the details are in the data, since others wrote them."""
    reviews = [one for one in context.store.reviews(card.slug) if one.commit == card.commit]
    if reviews and reviews[-1].decision == "planung_mit_feedback":
        return "negative_review"
    return "failed_checks" if context.store.attachments(card.slug, "findings") else "as_the_owner_says"
