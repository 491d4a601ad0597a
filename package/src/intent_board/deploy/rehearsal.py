"""What would speak against deploying a card: looked at, nothing changed, nobody's rights needed."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from intent_board.config import BoardConfig, ConfigError
from intent_board.deploy import service
from intent_board.deploy.ending import deployed_commit
from intent_board.deploy.host import DeployRefused, Host, prove_identity
from intent_board.deploy.mirror import Mirror
from intent_board.deploy.switch import has_store_path
from intent_board.deploy.truth import look
from intent_board.deploy.window import opens_at


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at.  `ok` None: this user may not look, and `text` says who may."""

    name: str
    ok: bool | None
    text: str


def dry_run(config: BoardConfig, slug: str, *, host: Host, real: bool) -> list[Check]:
    """Every check that a deployment of `slug` makes before it builds.

    `real` means the host's own configuration; with another one the board belongs to whoever asks, and the store is
    opened as that user.
    """
    return list(_checks(config, slug, host, real))


def _checks(config: BoardConfig, slug: str, host: Host, real: bool) -> Iterator[Check]:
    yield _checked("host", lambda: f"this is {prove_identity(host, config.deploy)}")
    opening = opens_at(config.deploy.window, datetime.now())
    yield Check("window", opening is None, "open" if opening is None else f"opens at {opening:%Y-%m-%d %H:%M}")
    lacking = "lacks --store-path or is missing; its steps are taken one by one"
    yield Check("nixos-rebuild", True, "takes --store-path" if has_store_path(host) else lacking)
    commit: list[str] = []

    def evidence() -> str:
        found = service.evidence(host, slug, rehearsal=not real)
        commit.append(str(service.check_evidence(found, config)["commit"]))
        return f"{commit[0]} is reviewed, and the gate {config.deploy.gate!r} is satisfied"

    mine = os.geteuid() in (0, _owner(config.state_dir))
    if not mine:
        text = f"the board's store is open to its owner only: sudo -u {host.service_user} board-deploy --dry-run {slug}"
        yield Check("evidence", None, text)
        return
    yield _checked("evidence", evidence)
    if commit:
        yield from _commit(config, commit[0], host, real)


def _commit(config: BoardConfig, commit: str, host: Host, real: bool) -> Iterator[Check]:
    if not real or os.geteuid() != 0:
        yield _checked("commit", lambda: _on_board_branch(config, commit))
        yield Check("deployed", None, "what runs here is in the deployer's records, which only root reads")
        return
    name = str(config.deploy.repository)
    mirror = Mirror(host, host.account(host.build_user), name, config.repositories[name])

    def on_branch() -> str:
        mirror.prepare()
        branch, tip, _ = mirror.fetch()
        if not mirror.is_ancestor(commit, tip):
            raise DeployRefused(f"{commit} is not on the remote's branch {branch!r}")
        return f"it is on {branch!r}"

    def newer() -> str:
        deployed = deployed_commit(host, look(host))
        if deployed is None:
            raise DeployRefused("no record says what runs here; a person adds --first")
        if not mirror.is_ancestor(deployed, commit):
            raise DeployRefused(f"it does not contain {deployed}, which runs here; a person adds --allow-older")
        return f"it contains {deployed}, which runs here"

    yield _checked("commit", on_branch)
    yield _checked("deployed", newer)


def _on_board_branch(config: BoardConfig, commit: str) -> str:
    from intent_board.workspace import Workspace, WorkspaceError

    class NoCredentials:
        def path(self, name: str) -> Path | None:
            return None

    name = str(config.deploy.repository)
    workspace = Workspace(config, NoCredentials())
    try:
        branch = config.repositories[name].branch or workspace.fetch(name)
        tip = workspace.tip(name, branch)
        if tip is None or not workspace.is_ancestor(name, commit, tip):
            raise DeployRefused(f"{commit} is not on {branch!r} of the board's mirror")
    except WorkspaceError as error:
        raise DeployRefused(str(error)) from None
    return f"it is on {branch!r} of the board's mirror; the deployer asks the remote itself"


def _checked(name: str, look_at: Callable[[], str]) -> Check:
    try:
        return Check(name, True, look_at())
    except (DeployRefused, ConfigError) as refusal:
        return Check(name, False, str(refusal))


def _owner(directory: Path) -> int | None:
    try:
        return directory.stat().st_uid
    except OSError:
        return None
