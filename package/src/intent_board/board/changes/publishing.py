"""The owner's release, and the way of the reviewed commit to its branch."""

from __future__ import annotations

from dataclasses import replace

from intent_board.board.changes.building import needs_no_review
from intent_board.board.changes.deployment import deploy_jobs, deploys, unknown_commit
from intent_board.board.changes.pieces import (
    attach,
    card_snapshot,
    commit_of,
    job_snapshot,
    next_job,
    publish_job,
    reason_of,
    review_job,
    same_commit,
    update,
    with_reason,
)
from intent_board.board.model import Attach, CancelJobs, Card, Effect, Facts, KeepRef, Notify, Phase, Refused, Status


def release(card: Card, facts: Facts) -> list[Effect]:
    if card.status in (Status.QUEUED, Status.RUNNING):
        raise Refused(f"{card.slug}: {card.commit} is released already and about to be published; see board why")
    if card.commit is None or card.reviewed != card.commit:
        raise Refused(f"{card.slug}: has no reviewed commit to release; see board why {card.slug}")
    wanted = facts.data.get("commit")
    if wanted is not None and wanted != card.commit:
        raise Refused(f"{card.slug}: the commit is now {card.commit}, not {wanted}; look at it, then release that")
    return [
        Attach(card.slug, "release", {"commit": card.commit, "by": facts.actor}),
        update(card, status=Status.QUEUED, released=card.commit, reason=""),
        publish_job(card, card_snapshot(card)),
    ]


def release_deployment(card: Card, facts: Facts) -> list[Effect]:
    """Gate `owner`: the owner's word on the published hash, without which it is not deployed."""
    if facts.config.deploy.gate != "owner" or not deploys(card, facts.config):
        raise Refused(f"{card.slug}: no release is wanted for it in phase {card.phase}")
    if card.commit is None:
        raise Refused(unknown_commit(card))
    if card.released == card.commit:
        raise Refused(f"{card.slug}: {card.commit} is released already")
    released = replace(card, released=card.commit)
    return [
        Attach(card.slug, "release", {"commit": card.commit, "by": facts.actor}),
        update(card, released=card.commit),
        *deploy_jobs(released, facts.config),
    ]


def discard(card: Card, facts: Facts) -> list[Effect]:
    reason = reason_of(facts, f"discarded by {facts.actor}")
    return [
        CancelJobs(card.slug),
        KeepRef(card.slug, card.commit),
        update(card, Phase.ARCHIVIERT, Status.CANCELLED, reason=reason),
        Notify("approval_wanted", card.slug, f"{card.title}: discarded. {reason}", to_requester=True),
    ]


def published(card: Card, facts: Facts) -> list[Effect]:
    same_commit(card, facts)
    ready_card = replace(card, phase=Phase.BEREIT)
    return [
        update(card, Phase.BEREIT, Status.SUCCEEDED, reason="", line=None),
        Notify("ready", card.slug, f"{card.title}: reviewed and published as {card.commit}"),
        *deploy_jobs(ready_card, facts.config),
    ]


def rebased(card: Card, facts: Facts) -> list[Effect]:
    """A rebase is a new commit and needs a new review; a release survives when the patch is the same."""
    if facts.data.get("old") != card.commit:
        raise Refused(f"{card.slug}: the rebase is of {facts.data.get('old')}, but {commit_of(card)}")
    if card.publish_rounds >= facts.config.scheduler.publish_rounds:
        reason = "the branch moved again and again; the publish rounds are used up"
        return failed(card, with_reason(facts, reason))
    commit, base = facts.data["commit"], facts.data["base"]
    kept = commit if card.released == card.commit and facts.data.get("same_patch") else None
    values = {"commit": commit, "base": base, "reviewed": None, "released": kept}
    snapshot = {**job_snapshot(facts), **{key: facts.data.get(key) for key in ("commit", "base", "checks")}}
    snapshot.pop("second", None)
    moved = update(card, Phase.IN_REVIEW, Status.QUEUED, publish_rounds=card.publish_rounds + 1, **values)
    # One that was reviewed touches a protected path, and so does its successor.
    if needs_no_review(card, facts.config) and card.reviewed is None:
        return [moved, next_job(card, "publish", "publish", snapshot)]
    return [moved, review_job(card, facts, snapshot)]


def failed(card: Card, facts: Facts) -> list[Effect]:
    ordered = facts.job.snapshot.get("commit") if facts.job and facts.job.role == "publish" else card.commit
    if ordered != card.commit:
        raise Refused(f"{card.slug}: the job was to publish {ordered}, but {commit_of(card)} by now")
    reason = reason_of(facts, "it could not be published")
    return [
        *attach(card, facts, "findings", "findings"),
        update(card, Phase.KLAERUNG_REPARATUR, Status.PUBLISH_FAILED, reason=reason),
        Notify("failed", card.slug, f"{card.title}: {reason}"),
    ]
