"""`kill -9` between any two effects: start again, and nothing is lost, half done or done twice."""

from __future__ import annotations

import os
import signal
import sqlite3
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest
from store_board import Board, child_data, configured, sql

from intent_board import boundaries
from intent_board.board.model import Phase
from intent_board.config import BoardConfig
from intent_board.store import Store, open_store

pytestmark = pytest.mark.faults
HASH = "d" * 40
BUILT = {"commit": HASH, "base": "b" * 40, "branch": "main", "summary": "s", "checks": [], "paths": []}
#: Every job's result by its role: what a worker that never fails would answer.
RESULTS = {
    "operator": lambda slug: ("operator_split", {"children": [child_data("roof", ["wall"]), child_data("wall")]}),
    "builder": lambda slug: ("built", BUILT),
    "reviewer": lambda slug: ("approved", {"commit": HASH, "report": {"summary": "good"}}),
    "publish": lambda slug: ("published", {"commit": HASH}),
    "deploy": lambda slug: ("deployed", {"deployment": {"generation": 1}}),
}


def work(config: BoardConfig) -> None:
    """What scheduler and workers do, over and over, from whatever state the store is in, until nothing is left."""
    store = open_store(config)
    if store.find("house") is None:
        Board(store).submit("house")
    for _ in range(60):
        store.recover()
        store.tick(1_000.0, off_branch={proof.parent: [] for proof in store.families_to_prove()})
        moved = False
        for queue in config.queue_slots():
            while (claim := store.claim(queue)) is not None:
                moved = True
                store.progress(claim, claim.job.used_iterations + 1)
                event, data = RESULTS[claim.job.role](claim.job.slug)
                assert store.finish(claim, event, data, raw="answer", result={"iterations": 1})
        if not moved and store.card("house").phase is Phase.DEPLOYED:
            return
    raise AssertionError("the board did not come to an end")


def in_a_child(deed: Callable[[], None], places: Path, kill_at: int) -> int:
    """Run `deed` in a process that dies at its boundary number `kill_at`; its wait status."""
    child = os.fork()
    if child == 0:  # pragma: no cover - in another process
        boundaries._FILE, boundaries._KILL_AT = str(places), kill_at
        status = 1
        try:
            deed()
            status = 0
        finally:
            os._exit(status)
    return os.waitpid(child, 0)[1]


def the_board(state_dir: Path) -> BoardConfig:
    site = {"remote_url": "/srv/git/site.git", "branch": "main", "deploy": True}
    return configured(state_dir, repositories={"site": site}, deploy={"repository": "site"})


def outcome(store: Store) -> dict[str, object]:
    """Everything that may not differ, however often it was interrupted."""
    slugs = sorted(card.slug for card in store.cards())
    return {
        "cards": {slug: store.card(slug).phase for slug in slugs},
        "jobs": {
            slug: [(line.job.role, line.job.attempt, line.job.state) for line in store.jobs(slug)] for slug in slugs
        },
        "reviews": {slug: len(store.reviews(slug)) for slug in slugs},
        "answers": {slug: [(answer.event, answer.stale) for answer in store.answers(slug)] for slug in slugs},
        "audit": Counter((line.slug, line.event) for line in store.events() if line.event != "interrupted"),
        "told": Counter((note.slug, note.event) for note in store.due_notifications(2e9)),
        "files": {slug: (store.config.intent_dir / f"{slug}.md").read_text() for slug in slugs},
        "integrity": sql(store, "PRAGMA integrity_check") + sql(store, "PRAGMA foreign_key_check"),
        "left": (sql(store, "SELECT * FROM unprojected"), list(store.config.state_dir.glob("locks/job-*"))),
    }


def test_killed_again_and_again_it_comes_to_the_same_end(tmp_path: Path) -> None:
    """Each board dies at its n-th boundary whenever it is started, until what is left to do is less than that."""
    plain = the_board(tmp_path / "plain")
    assert in_a_child(lambda: work(plain), tmp_path / "plain-places", 0) == 0
    expected = outcome(open_store(plain))
    assert expected["cards"] == dict.fromkeys(("house", "house-synthese", "roof", "wall"), Phase.DEPLOYED)
    met = (tmp_path / "plain-places").read_text().splitlines()
    died_at: set[str] = set()

    # Fewer than 60 are not always enough to get from the start to a job's result, and then its run counts as lost.
    for every in range(60, 120, 7):
        config = the_board(tmp_path / f"killed-{every}")
        for start in range(len(met)):
            places = tmp_path / f"places-{every}-{start}"
            status = in_a_child(partial(work, config), places, every)
            if status == 0:
                break
            assert status == signal.SIGKILL, "it died of something else than the kill"
            died_at.add(places.read_text().splitlines()[-1])
        assert start > 1
        store = open_store(config)
        store.recover()
        assert outcome(store) == expected
        store.close()
    assert len(died_at) > 8, died_at


def test_killed_at_each_boundary_of_a_decision_it_is_whole_or_not_there(tmp_path: Path) -> None:
    config = the_board(tmp_path / "state")
    store = open_store(config)
    Board(store).submit("house")
    store.close()

    def decide() -> None:
        opened = open_store(config)
        opened.recover()
        claim = opened.claim("operator")
        if claim is not None:
            opened.finish(claim, *RESULTS["operator"]("house"), raw="answer")

    seen = set()
    for place in range(1, 60):
        with closing(sqlite3.connect(config.state_dir / "board.sqlite3")) as file, file:
            file.execute("UPDATE jobs SET interruptions = 0")
        status = in_a_child(decide, tmp_path / f"places-{place}", place)
        store = open_store(config)
        children = {card.slug for card in store.cards(parent="house")}
        seen.add(len(children))
        assert children in (set(), {"roof", "wall"})
        assert (store.card("house").phase is Phase.WARTET_AUF_KINDER) == (len(children) == 2)
        assert len([line for line in store.events("house") if line.event == "operator_split"]) == len(children) // 2
        store.close()
        if status == 0:
            break
    assert seen == {0, 2}
    assert place > 12
