"""`deploy_blunix`: the reviewed commit, on the one host, with proof.

No model runs this, decides it, or is believed about it.  Every step is written into the deployment's record before
the next one begins; what is reported is what was seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from intent_board.boundaries import boundary
from intent_board.config import BoardConfig
from intent_board.deploy import service
from intent_board.deploy.ending import close
from intent_board.deploy.host import DeployRefused, Host, prove_identity
from intent_board.deploy.mirror import Mirror
from intent_board.deploy.nix import BuildFailed
from intent_board.deploy.outcome import NO_FLAGS, Flags, Outcome, Report
from intent_board.deploy.record import Record, begin, lock
from intent_board.deploy.recovery import finish_open_records
from intent_board.deploy.steps import Deployment
from intent_board.deploy.window import opens_at


@dataclass
class _Notes:
    """The steps of a deployment whose card, and so whose record, is not known yet."""

    steps: list[tuple[str, dict[str, Any]]] = field(default_factory=list)

    def add(self, kind: str, **data: Any) -> None:
        self.steps.append((kind, data))


def deploy_blunix(
    config: BoardConfig, slug: str | None = None, *, flags: Flags = NO_FLAGS, host: Host | None = None
) -> list[Report]:
    """Deploy a card's reviewed commit on this host, or of all that wait the newest that contains the others.

    `slug` is all that a caller may choose.  Returns a report for each card that was deployed by itself (none when
    nothing waits), and before them one for each earlier deployment that had not ended.  Raises DeployRefused only
    when another deployment runs; every other refusal is a report, and is in the record.
    """
    host = host or Host()
    if slug is None:
        # Whoever rang is heard even while another deployment runs; the bell would start this again and again.
        service.ready(host)
    with lock(host, {"slug": slug}) as held:
        reports = finish_open_records(config, host, held)
        if slug is not None:
            return [*reports, _deploy(config, host, held, flags, (slug,))]
        seen: set[str] = set()
        # A card that shows up twice was told about in vain; the timer comes back to it.
        while (waiting := service.ready(host)) and not seen & set(waiting):
            reports.append(_deploy(config, host, held, flags, waiting))
            seen.add(reports[-1].slug)
        return reports


def recover(config: BoardConfig, *, host: Host | None = None) -> list[Report]:
    """Find out what is true of every deployment that has no end, complete its record, and hand over what the store
    does not know yet.  Raises DeployRefused when a deployment runs."""
    host = host or Host()
    with lock(host, {"slug": None}) as held:
        return finish_open_records(config, host, held)


# --- one deployment --------------------------------------------------------------------------------------------


def _deploy(config: BoardConfig, host: Host, held: int, flags: Flags, waiting: Sequence[str]) -> Report:
    notes = _Notes()
    slug, record = waiting[-1], None
    try:
        notes.add("host", name=prove_identity(host, config.deploy))
        _prove_window(config)
        mirror = _mirror(config, host)
        mirror.prepare()
        branch, tip, done = mirror.fetch()
        notes.add("fetch", branch=branch, tip=tip, **done.as_data())
        slug, proof = _choose(config, host, mirror, waiting, flags)
        record = _begin(host, slug, flags, notes)
        record.add("evidence", **proof)
        boundary("deploy: evidence recorded")
        return Deployment(config, host, held, record, slug).carry_out(mirror, branch, tip, proof, flags)
    except DeployRefused as refusal:
        if record is not None and record.find("switch_begins") is not None:
            # The host may have changed: only looking at it again can close this record.
            raise
        record = record or _begin(host, slug, flags, notes)
        outcome = Outcome.BUSY if refusal.later else Outcome.REFUSED
        if isinstance(refusal, BuildFailed):
            record.add("build", **refusal.done.as_data())
            outcome = Outcome.FAILED
        return close(config, host, record, slug, outcome, str(refusal), refusal.not_before)


def _begin(host: Host, slug: str, flags: Flags, notes: _Notes) -> Record:
    record = begin(host, slug, boot=host.boot(), first=flags.first, allow_older=flags.allow_older)
    boundary("deploy: record begun")
    for kind, data in notes.steps:
        record.add(kind, **data)
    return record


def _prove_window(config: BoardConfig) -> None:
    opening = opens_at(config.deploy.window, datetime.now())
    if opening is not None:
        text = f"the deployment window ({config.deploy.window}) opens at {opening:%Y-%m-%d %H:%M}; it waits until then"
        raise DeployRefused(text, later=True, not_before=opening.timestamp())


def _mirror(config: BoardConfig, host: Host) -> Mirror:
    name = config.deploy.repository
    if name is None or not config.repositories[name].deploy:
        raise DeployRefused("no repository is deployed: set deploy.repository, and deploy = true there")
    return Mirror(host, host.account(host.build_user), name, config.repositories[name])


def _choose(
    config: BoardConfig, host: Host, mirror: Mirror, waiting: Sequence[str], flags: Flags
) -> tuple[str, dict[str, Any]]:
    """The card to deploy, with its proof: of several the one whose commit contains the most of the others.

    Cards whose evidence is refused are left to their own deployment, unless no other one is left.
    """
    proofs: dict[str, dict[str, Any]] = {}
    refusal: DeployRefused | None = None
    for slug in waiting:
        try:
            found = service.evidence(host, slug)
            proofs[slug] = service.check_evidence(found, config, by_person=flags.by_person)
        except DeployRefused as error:
            refusal = error
    if not proofs:
        assert refusal is not None
        raise refusal

    def contained(slug: str) -> int:
        commit = proofs[slug]["commit"]
        return sum(mirror.is_ancestor(other["commit"], commit) for other in proofs.values())

    best = max(proofs, key=contained) if len(proofs) > 1 else next(iter(proofs))
    return best, proofs[best]
