"""Publish: trusted code alone.  A reviewed commit goes to its branch by fast-forward, or is rebased for a review."""

from __future__ import annotations

from typing import Any

from intent_board.board.changes.building import needs_no_review
from intent_board.board.changes.pieces import commit_of
from intent_board.board.states import Event
from intent_board.boundaries import boundary
from intent_board.roles import base
from intent_board.roles.base import Context, Outcome, PutBack
from intent_board.store import Claim
from intent_board.workspace import Moved, WorkspaceError


def work(claim: Claim, context: Context) -> Outcome | PutBack:
    """Bring exactly the job's commit to the remote's branch, or say what stands in the way."""
    card, snapshot, workspace = claim.card, claim.job.snapshot, context.workspace
    commit = snapshot["commit"]
    if reason := _not_publishable(claim, context):
        return Outcome(Event.PUBLISH_FAILED, {"reason": reason})
    try:
        pushed = workspace.publish(
            card.repository,
            snapshot.get("branch") or workspace.fetch(card.repository),
            commit,
            base=snapshot["base"],
            # The push is the one effect that leaves this host: a stale worker makes none.
            last_look=lambda: context.store.progress(claim, claim.job.used_iterations),
        )
        boundary("published")
        if not isinstance(pushed, Moved):
            return Outcome(Event.PUBLISHED, {"commit": commit})
        return _rebase(claim, context, commit, pushed.tip)
    except WorkspaceError as error:
        if error.kind == "outage":
            raise
        findings = {"reason": str(error), "detail": list(error.detail)}
        return Outcome(Event.PUBLISH_FAILED, {"reason": str(error), "findings": findings})


def _not_publishable(claim: Claim, context: Context) -> str | None:
    """Reviewed = published: one clause why this commit may not go out, or None."""
    commit, card = claim.job.snapshot["commit"], claim.card
    if commit != card.commit:
        return f"the job is for {commit}, but {commit_of(card)}"
    if card.reviewed != commit and not needs_no_review(card, context.config):
        return f"{commit} has no positive review"
    return None


def _rebase(claim: Claim, context: Context, commit: str, onto: str) -> Outcome:
    """The branch moved: the same change on its new tip is a new commit, whose checks and review begin anew."""
    card, workspace, base_commit = claim.card, context.workspace, claim.job.snapshot["base"]
    if card.publish_rounds >= context.config.scheduler.publish_rounds:
        reason = f"the branch moved again after {card.publish_rounds} rebases; board retry {card.slug} begins anew"
        return Outcome(Event.PUBLISH_FAILED, {"reason": reason})
    rebased = workspace.rebase(card.repository, commit, onto, base=base_commit)
    boundary("rebased")
    checks = base.run_checks(claim, context, rebased)
    shown = base.checks_data(checks)
    if failed := base.failed_checks(checks):
        reason = f"the branch moved to {onto}, and on it the {failed}"
        return Outcome(Event.PUBLISH_FAILED, {"reason": reason, "findings": {"reason": reason, "checks": shown}})
    before = workspace.patch_id(card.repository, commit, base=base_commit)
    same = before == workspace.patch_id(card.repository, rebased, base=onto)
    data: dict[str, Any] = {"old": commit, "commit": rebased, "base": onto, "checks": shown, "same_patch": same}
    return Outcome(Event.REBASED, data)
