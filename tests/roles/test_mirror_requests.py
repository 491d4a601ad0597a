"""A worker that lacks the remote's key has a publish worker fetch for it."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from roles_bench import Bench, git

from intent_board.roles import mirrors, worker
from intent_board.runtimes import Credentials
from intent_board.workspace import WorkspaceError


@pytest.fixture
def guarded(tmp_path: Path, bench: Bench) -> Bench:
    """A board whose repository has a key, seen by a worker that was not given it."""
    return Bench(tmp_path, {"repositories.demo.credential": "push-key"})


def publisher(guarded: Bench, tmp_path: Path) -> Bench:
    """The same board as a publish worker sees it."""
    keys = tmp_path / "keys"
    keys.mkdir(exist_ok=True)
    (keys / "push-key").write_text("secret-push-key")
    other = Bench(tmp_path, guarded.changes)
    other.use(Credentials(keys))
    return other


def serve_when_rung(other: Bench) -> threading.Thread:
    """What systemd does: start a publish worker as soon as its bell rings."""
    bell = other.store.doorbells.path("publish", 0)

    def serve() -> None:
        while not bell.exists():
            stop.wait(0.02)
        worker.drain("publish", 0, other.context)

    stop = threading.Event()
    thread = threading.Thread(target=serve)
    thread.start()
    return thread


def test_a_builder_without_the_key_works_on_what_a_publish_worker_fetched(guarded: Bench, tmp_path: Path) -> None:
    thread = serve_when_rung(publisher(guarded, tmp_path))
    guarded.building()
    guarded.agent("open('greeting.txt', 'w').write('hello'); built()")
    card = guarded.drained("builder-schwer")
    thread.join()
    assert card.phase == "im_review", card.reason
    assert card.base == guarded.tip
    assert list((tmp_path / "state" / "mirrors").glob("demo.[wtf]*")) == []


def test_the_publish_workers_failure_is_the_askers_too(guarded: Bench, tmp_path: Path) -> None:
    other = publisher(guarded, tmp_path)
    git("branch", "-m", "main", "trunk", cwd=guarded.remote)
    thread = serve_when_rung(other)
    with pytest.raises(WorkspaceError, match="no branch 'main'"):
        mirrors.refresh(guarded.context, "demo")
    thread.join()
    git("branch", "-m", "trunk", "main", cwd=guarded.remote)
    thread = serve_when_rung(other)
    assert mirrors.refresh(guarded.context, "demo") == "main"
    thread.join()


def test_without_a_publish_worker_the_job_waits(guarded: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mirrors, "WAIT_SECONDS", 0.2)
    guarded.building()
    card = guarded.drained("builder-schwer")
    assert (card.phase, card.status) == ("in_umsetzung", "queued")
    assert "only those hold its key" in card.reason
    assert guarded.store.doorbells.path("publish", 0).exists()


def test_a_request_that_a_dead_publish_worker_took_is_answered_by_the_next(guarded: Bench, tmp_path: Path) -> None:
    other = publisher(guarded, tmp_path)
    taken = tmp_path / "state" / "mirrors" / "demo.taken"
    taken.touch()
    worker.drain("publish", 0, other.context)
    assert not taken.exists()
    assert (tmp_path / "state" / "mirrors" / "demo.git").is_dir()
