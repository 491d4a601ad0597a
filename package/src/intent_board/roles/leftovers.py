"""What dead workers left on disk, and commits that are to be kept: the part of a tick that looks after files."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from intent_board.board.model import SUCCESS, JobState, Phase
from intent_board.boundaries import boundary
from intent_board.config import BoardConfig
from intent_board.runtimes import remove_run_dir
from intent_board.store import Store, StoreError, locks
from intent_board.workspace import Workspace, WorkspaceError

log = logging.getLogger(__name__)

#: Phases in which nobody works in a card's tree any more, and its work is on the remote or kept as a ref.
TREE_IS_OVER = SUCCESS | {Phase.ARCHIVIERT}
#: Entries of runs/ and checkouts/ are named after a job and its token, those of answers/ after a job.
_RUN, _ANSWER = re.compile(r"(\d+)-(\d+)"), re.compile(r"job-(\d+)\.json")


def look_after(config: BoardConfig, store: Store, workspace: Workspace) -> None:
    """Keep the work that cards left behind, and remove what no job or card needs any more.

    One item that can't be handled is logged and left for the next tick.
    """
    _keep_refs(config, store, workspace)
    boundary("refs kept")
    _remove_trees(config, store, workspace)
    boundary("old trees removed")
    _remove_of_jobs(config, store, workspace)
    _remove_quarantines(config, store)
    boundary("leftovers removed")


@contextmanager
def logged(what: str) -> Iterator[None]:
    """One piece of tidying up; that it can't be done now is said, and hinders nothing."""
    try:
        yield
    except (OSError, WorkspaceError, StoreError) as error:
        log.warning("%s: %s", what, error)


def _keep_refs(config: BoardConfig, store: Store, workspace: Workspace) -> None:
    for wanted in store.pending_refs():
        with logged(f"the work of {wanted.slug} can't be kept now"):
            if _is_worked_on(config, store, wanted.slug):
                continue
            if wanted.commit is None:
                workspace.save_tree(wanted.repository, wanted.slug)
            else:
                workspace.keep_ref(wanted.repository, wanted.slug, wanted.commit)
            store.ref_kept(wanted.id)


def _remove_trees(config: BoardConfig, store: Store, workspace: Workspace) -> None:
    waiting = {wanted.slug for wanted in store.pending_refs()}
    for slug in workspace.trees():
        with logged(f"the tree of {slug} can't be removed now"):
            card = store.find(slug)
            if card is None or card.phase not in TREE_IS_OVER or card.slug in waiting:
                continue
            if not _is_worked_on(config, store, card.slug):
                workspace.remove_tree(card.repository, card.slug)


def _is_worked_on(config: BoardConfig, store: Store, slug: str) -> bool:
    """Whether a worker or a sandbox still lives that may write in the card's tree, its job cancelled or not."""
    return any(_held(config, line.job.id) for line in store.jobs(slug))


def _held(config: BoardConfig, job_id: int) -> bool:
    return locks.held(config.state_dir / "locks" / f"job-{job_id}.lock")


def _remove_of_jobs(config: BoardConfig, store: Store, workspace: Workspace) -> None:
    for name, remove in (("runs", remove_run_dir), ("checkouts", workspace.remove_checkout)):
        for entry in _entries(config.state_dir / name):
            with logged(f"{entry} can't be removed now"):
                if (found := _RUN.fullmatch(entry.name)) and _is_over(config, store, int(found[1]), int(found[2])):
                    remove(entry)
    for entry in _entries(config.state_dir / "answers"):
        with logged(f"{entry} can't be removed now"):
            if (found := _ANSWER.fullmatch(entry.name)) and _is_over(config, store, int(found[1]), None):
                entry.unlink(missing_ok=True)
    for entry in _entries(config.state_dir / "reports"):
        with logged(f"{entry} can't be removed now"):
            if _card_is_over(store, entry.name.partition(".")[0]):
                remove_run_dir(entry)


def _remove_quarantines(config: BoardConfig, store: Store) -> None:
    """What a Fixer pushed and nobody took stays for a person to look at, as long as its card goes on."""
    for entry in _entries(config.state_dir / "quarantines"):
        with logged(f"{entry} can't be removed now"):
            found = _RUN.fullmatch(entry.name.removesuffix(".git"))
            line = store.job(int(found[1])) if found else None
            if line and _card_is_over(store, line.job.slug) and not _is_worked_on(config, store, line.job.slug):
                remove_run_dir(entry)


def _card_is_over(store: Store, slug: str) -> bool:
    card = store.find(slug)
    return card is None or card.phase in TREE_IS_OVER


def _is_over(config: BoardConfig, store: Store, job_id: int, token: int | None) -> bool:
    """Whether nobody needs what this job, or its run with this token, left: it is over, and its processes are gone."""
    line = store.job(job_id)
    if line is not None and line.job.state in (JobState.QUEUED, JobState.RUNNING):
        running = line.job.state is JobState.RUNNING and line.job.token == token
        if token is None or running:
            return False
    return not _held(config, job_id)


def _entries(directory: Path) -> list[Path]:
    # A name with a dot in front belongs to the workspace's own housekeeping.
    if not directory.is_dir():
        return []
    return [entry for entry in sorted(directory.iterdir()) if not entry.name.startswith(".")]
