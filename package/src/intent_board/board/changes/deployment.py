"""From a ready card to a deployed one."""

from __future__ import annotations

from intent_board.board.changes.pieces import attach, next_job, reason_of, update
from intent_board.board.model import (
    CancelJobs,
    Card,
    Effect,
    Facts,
    Happen,
    Kind,
    Notify,
    Phase,
    Refused,
    Status,
    UpdateCard,
)
from intent_board.config import BoardConfig


def deploys(card: Card, config: BoardConfig) -> bool:
    """Whether this card may start a deployment: its repository is the deployed one, and it stands for itself."""
    repository = config.repositories.get(card.repository)
    if repository is None or not repository.deploy or config.deploy.repository != card.repository:
        return False
    return card.kind not in (Kind.CHILD, Kind.SYNTHESIS)


def deploy_jobs(card: Card, config: BoardConfig) -> list[Effect]:
    """The deployment of a card that got ready, or the call for the release that its gate wants; else nothing."""
    if not deploys(card, config) or not config.deploy.automatic:
        return []
    if config.deploy.gate == "owner" and card.released != card.commit:
        text = f"{card.title}: published. board release {card.slug} lets it be deployed"
        return [Notify("approval_wanted", card.slug, text)]
    if config.deploy.gate != "commit" and card.reviewed != card.commit:
        return []
    return [next_job(card, "deploy", "deploy", {"commit": card.commit})]


def deploy(card: Card, facts: Facts) -> list[Effect]:
    """The owner's word, where `[deploy] automatic` is off or an earlier job was cancelled."""
    if not deploys(card, facts.config):
        what = f"{card.slug} is not deployed by itself"
        if card.kind in (Kind.CHILD, Kind.SYNTHESIS):
            raise Refused(f"{what}, because it belongs to a family; use board deploy {card.parent}")
        name = card.repository
        raise Refused(f"{what}, because its repository is not; see deploy.repository and repositories.{name}.deploy")
    if card.commit is None:
        raise Refused(unknown_commit(card))
    if facts.config.deploy.gate == "owner" and card.released != card.commit:
        raise Refused(f"{card.slug}: gate owner wants a release first; board release {card.slug}")
    return [
        CancelJobs(card.slug),
        update(card, status=Status.QUEUED),
        next_job(card, "deploy", "deploy", {"commit": card.commit}),
    ]


def unknown_commit(card: Card) -> str:
    """Why a card that was ready on a former board is not deployed by this one."""
    return f"{card.slug}: was imported, and this board knows no commit of it; deploy it by hand"


def deployed(card: Card, facts: Facts) -> list[Effect]:
    """A generation runs the commit and is healthy; what it contains is deployed with it."""
    family: list[Effect] = [
        UpdateCard(child.slug, child.phase, {"phase": Phase.DEPLOYED, "status": Status.SUCCEEDED})
        for child in facts.children
        if child.phase is Phase.BEREIT
    ]
    contained: list[Effect] = [
        Happen(slug, "deployed", {"with": card.slug, "deployment": facts.data.get("deployment")})
        for slug in facts.data.get("contained") or ()
    ]
    return [
        *attach(card, facts, "deployment", "deployment"),
        update(card, Phase.DEPLOYED, Status.SUCCEEDED, reason=""),
        Notify("deployed", card.slug, f"{card.title}: deployed as {card.commit}"),
        *family,
        *contained,
    ]


def busy(card: Card, facts: Facts) -> list[Effect]:
    return [update(card, status=Status.QUEUED, reason=reason_of(facts, "another switch is running"))]


def failed(card: Card, facts: Facts) -> list[Effect]:
    reason = reason_of(facts, "the deployment failed")
    return [
        *attach(card, facts, "deployment", "deployment"),
        update(card, Phase.KLAERUNG_REPARATUR, Status.DEPLOY_FAILED, reason=reason),
        Notify("deploy_failed", card.slug, f"{card.title}: {reason}"),
    ]
