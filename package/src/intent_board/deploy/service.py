"""The deployer's questions to the board, asked through a child that runs as the service user.

Root opens no store and no path in the board's directories.  The child gets one JSON line on stdin and answers with
one; the answer is checked here like any stranger's.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from intent_board.config import SLUG_PATTERN, BoardConfig
from intent_board.deploy.host import DeployRefused, Host
from intent_board.deploy.mirror import COMMIT
from intent_board.deploy.run import run

Slug = Annotated[str, StringConstraints(pattern=SLUG_PATTERN)]
Hash = Annotated[str, StringConstraints(pattern=f"^{COMMIT.pattern}$")]
Answer = TypeVar("Answer", bound=BaseModel)
#: docs/contracts.md: the reviewer's word for "approved".
APPROVED = "bereit_fuer_deployment"
_SECONDS = 120.0


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Review(_Strict):
    """One reviewer's report about one commit, as the store has it."""

    id: int
    slug: Slug
    commit: str
    decision: str


class Evidence(_Strict):
    """What the store says about one card."""

    slug: Slug
    phase: str
    status: str
    kind: str
    repository: str
    requester: str
    by_hand: bool
    commit: str | None
    released: str | None
    #: Every review that names this card's commit, oldest first: the card's own, or its family's for a parent.
    reviews: Annotated[tuple[Review, ...], Field(strict=False)] = ()


class Ready(_Strict):
    """The cards whose deploy jobs wait."""

    slugs: Annotated[tuple[Slug, ...], Field(strict=False)] = ()


class Published(_Strict):
    """Which card published which commit of a repository, and in which phase it stands."""

    cards: Annotated[tuple[tuple[Slug, Hash, str], ...], Field(strict=False)] = ()


class Told(_Strict):
    """What became of a result that was handed to the store: a word and, if it was refused, why."""

    applied: bool
    why: str = ""


def evidence(host: Host, slug: str, *, rehearsal: bool = False) -> Evidence:
    """What the store says about `slug`.  Raises DeployRefused when there is no such card or no answer.

    In a rehearsal the board belongs to whoever asks, root included.
    """
    found = _ask(host, Evidence, {"do": "evidence", "slug": slug, "rehearsal": rehearsal})
    if found.slug != slug:
        raise DeployRefused(f"the board was asked about {slug} and answered about {found.slug}; look at its store")
    return found


def ready(host: Host) -> tuple[str, ...]:
    """The cards that wait for their deployment, oldest first; the doorbell is consumed before they are read."""
    return _ask(host, Ready, {"do": "ready"}).slugs


def published(host: Host, repository: str) -> dict[str, tuple[str, str]]:
    """Commit -> (slug, phase) of every card whose commit was published in this repository."""
    answer = _ask(host, Published, {"do": "published", "repository": repository})
    return {commit: (slug, phase) for slug, commit, phase in answer.cards}


def tell(host: Host, result: Mapping[str, Any]) -> Told:
    """Hand a deployment's result to the store; the same result twice does nothing."""
    return _ask(host, Told, {"do": "tell", "result": dict(result)})


def _ask(host: Host, answer: type[Answer], question: Mapping[str, Any]) -> Answer:
    as_self = os.geteuid() != 0 or question.get("rehearsal")
    account = None if as_self else host.account(host.service_user)
    # A wrapped program finds its libraries through sys.path, which a new interpreter would not know.
    environment = {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-P", "-m", "intent_board.deploy.evidence"]
    line = json.dumps({"config": str(host.config_file), **question}).encode() + b"\n"
    done = run(command, host, timeout=_SECONDS, account=account, environment=environment, stdin=line,
               umask=0o077)  # fmt: skip
    what = f"the board's answer to {question['do']!r}"
    if not done.ok:
        raise DeployRefused(f"{what} failed: the child of {host.service_user} {done.why}")
    if done.cut or done.answer.count("\n") != 1 or not done.answer.endswith("\n"):
        raise DeployRefused(f"{what} is not one line; look at its store")
    try:
        return answer.model_validate_json(done.answer)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "it"
        raise DeployRefused(f"{what} is not believed: {where}: {first['msg']}; look at its store") from None


def check_evidence(found: Evidence, config: BoardConfig, *, by_person: bool = False) -> dict[str, Any]:
    """What speaks for deploying a card, as data for the record.

    A card that was refused here before stands in klaerung_reparatur; a person who names it together with the flag
    that the refusal asked for (`by_person`) deploys it from there.

    Raises DeployRefused, with every reason, unless the card is ready, its repository is the deployed one, and the
    gate of `[deploy]` is satisfied for exactly its commit.
    """
    reasons = [*_repository_faults(found.repository, config)]
    tried_before = found.phase == "klaerung_reparatur" and found.status == "deploy_failed"
    if found.phase != "bereit_fuer_deployment" and not (by_person and tried_before):
        reasons.append(f"it stands in {found.phase}, not in bereit_fuer_deployment")
    if found.kind in ("child", "synthesis"):
        reasons.append("it belongs to a family and is deployed with its parent")
    gate = config.deploy.gate
    by_hand = gate == "commit" and found.by_hand and found.requester == config.board.owner
    reviews = [review for review in found.reviews if review.commit == found.commit]
    if found.commit is None or not COMMIT.fullmatch(found.commit):
        reasons.append(f"its commit {str(found.commit)[:80]!r} is no full hash")
    elif not by_hand:
        if not reviews:
            reasons.append(f"no review names {found.commit}")
        elif reviews[-1].decision != APPROVED:
            reasons.append(f"the newest review of {found.commit} says {reviews[-1].decision!r}")
    if gate == "owner" and found.released != found.commit:
        reasons.append(f"gate owner wants a release of {found.commit}: board release {found.slug}")
    if reasons:
        raise DeployRefused(f"{found.slug} is not deployed: " + "; ".join(reasons))
    review = reviews[-1].model_dump() if reviews else None
    return {"commit": found.commit, "review": review, "released": found.released, "gate": gate, "by_hand": by_hand}


def _repository_faults(name: str, config: BoardConfig) -> list[str]:
    repository = config.repositories.get(name)
    if repository is None:
        return [f"its repository {name!r} is not configured"]
    if name != config.deploy.repository:
        deployed = f"{config.deploy.repository!r} is" if config.deploy.repository else "none is"
        return [f"its repository {name!r} is not the deployed one ({deployed} named by deploy.repository)"]
    return [] if repository.deploy else [f"repositories.{name}.deploy is false"]
