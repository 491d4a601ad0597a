"""The Builder: a run in the card's own clone, then the trusted commit of what it left, and that commit's checks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from intent_board.board.model import Card, Kind
from intent_board.board.states import Event
from intent_board.boundaries import boundary
from intent_board.contracts import ContractError
from intent_board.contracts.builder import Result, parse_result
from intent_board.roles import base, interim, order
from intent_board.roles.base import Context, Outcome, PutBack
from intent_board.roles.history import left_behind, negative_reviews
from intent_board.roles.text import RoleText, load
from intent_board.runtimes import Outcome as Ended
from intent_board.runtimes import RunResult
from intent_board.sandbox import Mount
from intent_board.store import Claim
from intent_board.workspace import WorkspaceError

#: What a run without an answer means for the card; anything else is a failed build.
ENDINGS = {Ended.LIMIT_REACHED: Event.BUILD_LIMIT, Ended.TIMED_OUT: Event.BUILD_TIMEOUT}


@dataclass(frozen=True, slots=True)
class Place:
    """Where an attempt works: its tree, the branch and its tip, and whether work of an earlier attempt is in the tree.

    `base` is the commit that the tree was made at, `start` the one that the card's whole change begins from: the same,
    unless the tree continues a commit of the card that is not on the branch yet.
    """

    tree: Path
    branch: str
    tip: str | None
    base: str | None
    start: str | None
    continues: bool


def work(claim: Claim, context: Context) -> Outcome | PutBack:
    """One attempt: the run, its answer, the commit, its scope and its checks; the tree stays whatever comes of it."""
    text = load("builder", context.config)
    place = _place(claim, context)
    interrupted = interim.of_interrupted_runs(claim, context)
    result = _run(claim, context, place, _order(claim, context, text, place, interrupted))
    if isinstance(result, PutBack):
        return result
    kept = base.record(claim, context.config, text, result) | {"interrupted": interrupted}
    if result.outcome is not Ended.ANSWERED:
        event = ENDINGS.get(result.outcome, Event.BUILD_FAILED)
        report = interim.interim_report(claim, context, result)
        return Outcome(event, {"reason": result.reason, "report": report}, result.text, kept)
    try:
        answer = parse_result(result.text)
    except ContractError as error:
        reason = f"the Builder's answer was refused: {error}"
        return Outcome(Event.BUILD_FAILED, {"reason": reason}, result.text, kept)
    if answer.outcome == "needs_input":
        return Outcome(Event.BUILD_NEEDS_INPUT, {"question": answer.question}, result.text, kept)
    event, data = _prove(claim, context, place, answer)
    return Outcome(event, data, result.text, kept)


def _place(claim: Claim, context: Context) -> Place:
    """The card's clone, made now or left by an earlier attempt."""
    card, workspace = claim.card, context.workspace
    branch = workspace.fetch(card.repository)
    tip = workspace.tip(card.repository, branch)
    if _is_afresh(claim, context):
        workspace.remove_tree(card.repository, card.slug)
    continues = workspace.tree(card.slug) is not None
    from_commit = tip
    if continues and card.commit is not None and not workspace.holds(card.slug, card.commit):
        # A Fixer's or a rebased commit: built on in the old tree, the next commit would undo it without a word.
        workspace.remove_tree(card.repository, card.slug)
        from_commit = card.commit
    tree = workspace.clone(card.repository, card.slug, from_commit)
    boundary("tree ready")
    base = workspace.base(card.slug)
    on_branch = base is None or tip is None or workspace.is_ancestor(card.repository, base, tip)
    return Place(tree, branch, tip, base, base if on_branch else card.base, continues)


def _is_afresh(claim: Claim, context: Context) -> bool:
    """Whether a person gave up the work so far, and nothing was done since; what the tree held is kept as a ref."""
    begun = claim.job.used_iterations > 0 or claim.job.snapshot["rung"] > 0
    notes = context.store.attachments(claim.card.slug, "notes")
    return not begun and any(note.data.get("afresh") == claim.job.round for note in notes)


def _run(claim: Claim, context: Context, place: Place, text: str) -> RunResult | PutBack:
    repository = claim.card.repository
    objects = context.workspace.objects(repository)
    report = base.report_file(claim, context.config)
    report.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    return base.run(
        claim,
        context,
        text,
        place.tree,
        writes=True,
        mounts=[Mount(objects, objects)],
        report=report,
        nix_daemon=context.config.repositories[repository].nix_daemon,
    )


def _order(
    claim: Claim, context: Context, text: RoleText, place: Place, interrupted: Sequence[Mapping[str, Any]]
) -> str:
    card = claim.card
    facts: dict[str, Any] = {
        "kind": card.kind.value,
        "attempt": claim.job.attempt,
        "continues": place.continues,
        "branch": place.branch,
        "base": place.base,
        "write_scope": list(card.write_scope),
        "checks": [list(argv) for argv in context.config.repositories[card.repository].checks],
    }
    data = [
        order.criteria(card),
        *left_behind(card.slug, context, "interim_report", "findings", "answer"),
        *negative_reviews(card.slug, context),
        *order.documents("Report of a run that was interrupted before this one", interrupted),
    ]
    return order.of_role(claim, context, text, facts, data)


def _prove(claim: Claim, context: Context, place: Place, answer: Result) -> tuple[Event, dict[str, Any]]:
    """The run says it is done: trusted code makes the commit, proves its scope, and runs the checks on it."""
    card, workspace = claim.card, context.workspace
    # A worker whose job was taken away while its agent answered makes no commit any more.
    context.store.progress(claim, claim.job.used_iterations)
    try:
        commit = workspace.commit_tree(
            card.repository,
            card.slug,
            base=place.base,
            # No scope was decided: the whole repository.
            scope=card.write_scope or (".",),
            title=card.title,
            body=answer.summary,
            trailers=base.trailers(claim),
            forbidden_values=context.credentials.values(),
            when=_made_at(claim, context),
        )
    except WorkspaceError as error:
        if error.kind == "outage":
            raise
        event = Event.BUILD_CHECK_FAILED if error.kind == "check_failed" else Event.BUILD_FAILED
        return event, {"reason": str(error), "findings": {"reason": str(error), "detail": list(error.detail)}}
    boundary("commit made")
    if commit is not None:
        paths = list(workspace.paths_changed(card.repository, place.start, commit.hash))
        data = {"commit": commit.hash, "base": place.start, "paths": paths}
        return _checked(claim, context, place, answer, Event.BUILT, data)
    if card.kind is Kind.SYNTHESIS and place.tip is not None:
        # Nothing is missing between the children: the branch as they left it is what is to be judged.
        start = _family_base(card, context) or place.base
        paths = list(workspace.paths_changed(card.repository, start, place.tip))
        data = {"commit": place.tip, "base": start, "paths": paths}
        return _checked(claim, context, place, answer, Event.BUILD_NO_CHANGES, data)
    return Event.BUILD_NO_CHANGES, {"reason": base.brief(f"the Builder changed nothing: {answer.summary}")}


def _checked(
    claim: Claim, context: Context, place: Place, answer: Result, event: Event, data: Mapping[str, Any]
) -> tuple[Event, dict[str, Any]]:
    """The checks of the commit decide between the event and a failed build."""
    checks = base.run_checks(claim, context, data["commit"])
    shown = base.checks_data(checks)
    data = {**data, "branch": place.branch, "summary": answer.summary, "checks": shown}
    reason = base.failed_checks(checks)
    if reason is None:
        return event, data
    return Event.BUILD_CHECK_FAILED, {**data, "reason": reason, "findings": {"reason": reason, "checks": shown}}


def _family_base(card: Card, context: Context) -> str | None:
    """The commit that the family began from: the one base of its children that all the others contain."""
    children = [one for one in context.store.family(card.parent or "") if one.kind is Kind.CHILD]
    bases = list(dict.fromkeys(child.base for child in children if child.base))
    is_ancestor = context.workspace.is_ancestor
    return next((one for one in bases if all(is_ancestor(card.repository, one, other) for other in bases)), None)


def _made_at(claim: Claim, context: Context) -> int:
    """When the job was made: a commit dated so has the same hash when it is made again."""
    line = context.store.job(claim.job.id)
    return int(line.created_at) if line else int(context.now())
