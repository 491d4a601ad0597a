"""One tick: what dead workers held is taken back, what is ready is dispatched, families are settled, refs are kept."""

from __future__ import annotations

import fcntl
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from intent_board.board.model import Happen
from intent_board.boundaries import boundary
from intent_board.config import BoardConfig
from intent_board.roles.leftovers import look_after
from intent_board.store import FamilyProof, Store
from intent_board.workspace import Workspace, WorkspaceError

log = logging.getLogger(__name__)


class AlreadyRunning(Exception):
    """Another tick holds the lock."""


def tick_once(config: BoardConfig, store: Store, workspace: Workspace, now: float) -> list[str]:
    """One whole tick; returns a line per thing that it did.  Raises AlreadyRunning."""
    with _alone(config.state_dir / "locks" / "scheduler.lock"):
        recovered = store.recover()
        boundary("recovered")
        effects = store.tick(now, off_branch=proved(store, workspace))
        boundary("ticked")
        look_after(config, store, workspace)
    moves = [f"{effect.slug}: {effect.event}" for effect in effects if isinstance(effect, Happen)]
    return [f"job {job}: taken back from a worker that died" for job in recovered] + moves


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise AlreadyRunning from None
        yield
    finally:
        os.close(lock)


def proved(store: Store, workspace: Workspace) -> dict[str, list[str]]:
    """For each family that is due for its synthesis the children whose commits are not on the branch any more.

    A repository that can't be looked at now proves nothing: its families are left out, and wait for a later tick.
    """
    found: dict[str, list[str]] = {}
    for proof in store.families_to_prove():
        try:
            found[proof.parent] = off_branch(proof, workspace)
        except WorkspaceError as error:
            log.warning("family %s can't be proved now: %s", proof.parent, error)
    return found


def off_branch(proof: FamilyProof, workspace: Workspace) -> list[str]:
    """The children of a family whose commits are not ancestors of the branch as the mirror has it."""
    branch = proof.branch or workspace.fetch(proof.repository)
    tip = workspace.tip(proof.repository, branch)
    if tip is None:
        return list(proof.commits)
    return [slug for slug, commit in proof.commits.items() if not workspace.is_ancestor(proof.repository, commit, tip)]
