"""Bringing a mirror up to date, also from a worker that does not hold the remote's key.

Only publish units load push keys, and a private remote needs its key for reading too.  So a worker without it asks: it
leaves a request beside the mirror, rings the publish queue, and waits until a publish worker has fetched.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

from intent_board.boundaries import boundary
from intent_board.roles.base import Context
from intent_board.workspace import WorkspaceError

#: The queue whose workers hold the keys.
PUBLISHER = "publish"
#: A large repository's first fetch takes minutes; a publish worker in the middle of its checks takes longer than this.
WAIT_SECONDS = 300.0
_LOOK_SECONDS = 0.1
_WANTED, _TAKEN, _FAILED = ".wanted", ".taken", ".failed"


def refresh(context: Context, repository: str) -> str:
    """Make or update the mirror, or have it done; returns the branch.

    Raises WorkspaceError as `Workspace.fetch` does, also (outage) when no publish worker came.
    """
    settings = context.config.repositories.get(repository)
    if settings is None or settings.credential is None or context.credentials.path(settings.credential) is not None:
        return context.workspace.fetch(repository)
    wanted = _file(context, repository, _WANTED)
    wanted.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    wanted.touch()
    boundary("fetch asked for")
    context.store.doorbells.ring(PUBLISHER)
    _wait(context, repository)
    failed = _file(context, repository, _FAILED)
    if failed.exists():
        said = json.loads(failed.read_text())
        raise WorkspaceError(said["kind"], said["sentence"], tuple(said["detail"]))
    return context.workspace.branch(repository)


def _wait(context: Context, repository: str) -> None:
    end = time.monotonic() + WAIT_SECONDS
    while any(_file(context, repository, state).exists() for state in (_WANTED, _TAKEN)):
        if time.monotonic() > end:
            raise WorkspaceError(
                "outage",
                f"no publish worker brought the mirror of {repository!r} up to date within {WAIT_SECONDS:.0f} s, and "
                "only those hold its key; look at their units",
            )
        with context.signals.running():
            time.sleep(_LOOK_SECONDS)


def answer_requests(context: Context) -> None:
    """Fetch for every worker that asked; a publish worker's duty, whether or not it has a job."""
    for repository in _asked(context):
        wanted, taken = _file(context, repository, _WANTED), _file(context, repository, _TAKEN)
        # Whoever asks from here on gets a fetch of its own: this one may have seen the remote already.
        if wanted.exists():
            wanted.replace(taken)
        failed = _file(context, repository, _FAILED)
        try:
            context.workspace.fetch(repository)
            failed.unlink(missing_ok=True)
        except WorkspaceError as error:
            said = {"kind": error.kind, "sentence": str(error), "detail": error.detail}
            part = failed.with_name(f"{failed.name}.part")
            part.write_text(json.dumps(said))
            part.replace(failed)
        taken.unlink(missing_ok=True)
        boundary("fetch answered")


def _asked(context: Context) -> Iterator[str]:
    return (name for name in context.config.repositories if any(
        _file(context, name, state).exists() for state in (_WANTED, _TAKEN)
    ))  # fmt: skip


def _file(context: Context, repository: str, state: str) -> Path:
    return context.config.state_dir / "mirrors" / f"{repository}{state}"
