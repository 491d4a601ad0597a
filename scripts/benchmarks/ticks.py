"""What a tick of the scheduler costs on boards of different sizes."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from benchmarks.measure import Figure, interleaved
from intent_board import config as configuration
from intent_board.config import BoardConfig
from intent_board.store import Store, open_store
from intent_board.store.projections import digest

HASH = "a" * 40
PROFILE = {"runtime": "codex", "model": "gpt-5.6-luna", "reasoning_effort": "none", "iteration_limit": 20}


class Filling:
    """Writes a board of many cards as the years would have left it: rows, audit, intent files."""

    def __init__(self, directory: Path) -> None:
        self.config = configured(directory)
        self.now = time.time()
        self.cards: list[dict[str, Any]] = []
        self.blocked: list[tuple[str, str]] = []

    def card(self, slug: str, phase: str, status: str, **values: Any) -> None:
        self.cards.append({"slug": slug, "phase": phase, "status": status, **values})

    def closed(self, number: int) -> None:
        """Cards that are over: most deployed, many archived, some ready."""
        for index in range(number):
            phase = ("deployed", "archiviert", "deployed", "bereit_fuer_deployment", "archiviert")[index % 5]
            good = phase != "archiviert"
            commit = HASH if good else None
            self.card(
                f"closed-{index:06d}", phase, "succeeded" if good else "cancelled", commit=commit, reviewed=commit
            )

    def in_line(self, number: int, lane: str, prefix: str, scope: str = "") -> None:
        for index in range(number):
            slug = f"{prefix}-{index:04d}"
            self.card(slug, "geplant", "waiting_for_builder", lane=lane, write_scope=[scope or slug])

    def others(self, number: int) -> None:
        """Open cards that no tick can move: blocked by a parked one, parked, waiting for a person, and families."""
        self.card("parked", "klaerung_reparatur", "failed", lane="schwer")
        for index in range(number - 1):
            slug = f"other-{index:04d}"
            kind = index % 4
            if kind == 0:
                self.card(slug, "geplant", "waiting_for_builder", lane="schwer", line=False)
                self.blocked.append((slug, "parked"))
            elif kind == 1:
                self.card(slug, "klaerung_reparatur", "limit_reached", lane="leicht")
            elif kind == 2:
                self.card(slug, "wartet_auf_startfreigabe", "queued", requester="mara")
            else:
                self.card(slug, "planung_mit_feedback", "succeeded", lane="schwer", commit=HASH)

    def open(self) -> Store:
        store = open_store(self.config)
        with closing(sqlite3.connect(store.path)) as connection, connection:
            self._insert(connection)
        self.config.intent_dir.mkdir(exist_ok=True)
        for card in self.cards:
            (self.config.intent_dir / f"{card['slug']}.md").write_text(_intent(card["slug"]))
        return store

    def _insert(self, connection: sqlite3.Connection) -> None:
        columns = (
            "slug phase status kind lane line repository commit reviewed branch requester title profile write_scope"
        )
        common = "by_hand created_at updated_at phase_since"
        names = [*columns.split(), *common.split()]
        quoted = ", ".join(f'"{name}"' for name in names)
        connection.executemany(
            f"INSERT INTO cards ({quoted}) VALUES ({', '.join('?' * len(names))})",
            [self._row(number, card) for number, card in enumerate(self.cards)],
        )
        connection.execute("UPDATE meta SET value = ? WHERE key = 'line'", (len(self.cards),))
        connection.executemany("INSERT INTO dependencies VALUES (?, ?, 0)", self.blocked)
        texts = [(card["slug"], _intent(card["slug"])) for card in self.cards]
        connection.executemany(
            "INSERT INTO intents (slug, version, hash, created_at, text) VALUES (?, 1, ?, ?, ?)",
            [(slug, digest(text), self.now, text) for slug, text in texts],
        )
        connection.executemany(
            "INSERT INTO events (at, slug, event, actor, data) VALUES (?, ?, ?, 'board', ?)",
            [(self.now, slug, event, '{"reason":"as it was"}') for slug, _ in texts for event in ("built", "approved")],
        )
        connection.executemany(
            "INSERT INTO jobs (slug, role, queue, attempt, round, state, token, created_at, runtime, snapshot) "
            "VALUES (?, 'builder', 'builder-schwer', 1, 1, 'done', 1, ?, 'codex', ?)",
            [(slug, self.now, json.dumps({"profile": PROFILE})) for slug, _ in texts if slug.startswith("closed")],
        )

    def _row(self, number: int, card: dict[str, Any]) -> tuple[Any, ...]:
        waits = card["phase"] == "geplant" and card.get("line", True)
        profile = json.dumps(PROFILE) if card.get("lane") else None
        return (
            card["slug"], card["phase"], card["status"], "ordinary", card.get("lane"), number if waits else None,
            "site", card.get("commit"), card.get("reviewed"), "main", card.get("requester", "lukas"),
            f"The {card['slug']}", profile, json.dumps(card.get("write_scope", [])), 0, self.now, self.now, self.now,
        )  # fmt: skip


def configured(directory: Path) -> BoardConfig:
    return configuration.parse(
        {
            "board": {"owner": "lukas", "state_dir": str(directory)},
            "repositories": {"site": {"remote_url": "/srv/git/site.git", "branch": "main"}},
        }
    )


def _intent(slug: str) -> str:
    return f"# Intent: The {slug}\n\n## Ziel\n" + "What should be different afterwards, in a few words.\n" * 20


def build(store: Store, slug: str, lane: str, scope: str) -> None:
    """A card that is being built: claimed by this process, so that its worker is alive."""
    store.submit(
        slug=slug,
        title=slug,
        intent=_intent(slug),
        repository="site",
        requester="lukas",
        event="build_by_hand",
        data={"lane": lane, "write_scope": [scope]},
    )
    store.happen(slug, "dispatch", actor="board")
    if store.claim(f"builder-{lane}") is None:
        raise RuntimeError(f"the job of {slug} could not be taken")


def tick(store: Store) -> None:
    """What one run of `board-scheduler tick` does with the store."""
    store.recover()
    store.families_to_prove()
    done = store.tick(time.time(), off_branch={})
    if done:
        raise RuntimeError(f"the tick was to have nothing to do, and did {done[:3]}")


def busy_board(directory: Path, *, cards: int, ready: int, others: int) -> Store:
    """Both lanes build, `ready` cards wait behind them."""
    filling = Filling(directory)
    filling.in_line(ready // 2, "schwer", "heavy")
    filling.in_line(ready - ready // 2, "leicht", "light")
    filling.others(others)
    filling.closed(cards - ready - others - 2)
    store = filling.open()
    build(store, "busy-heavy", "schwer", "busy-heavy")
    build(store, "busy-light", "leicht", "busy-light")
    _settle(store)
    return store


def held_board(directory: Path, *, cards: int, open_cards: int) -> Store:
    """One lane is free, and everything that waits for it would write where the busy card writes: the hardest look."""
    filling = Filling(directory)
    ready = open_cards * 8 // 10
    filling.in_line(ready // 2, "schwer", "heavy")
    filling.in_line(ready - ready // 2, "leicht", "light", "shared/*.nix")
    filling.others(open_cards - ready - 1)
    filling.closed(cards - open_cards)
    store = filling.open()
    build(store, "busy-heavy", "schwer", "shared")
    _settle(store)
    return store


def _settle(store: Store) -> None:
    # The first ticks after such a filling look at every intent file once.
    for _ in range(3):
        tick(store)


def figures(directory: Path) -> Iterator[Figure]:
    few = busy_board(directory / "few", cards=1_000, ready=70, others=28)
    many = busy_board(directory / "many", cards=100_000, ready=70, others=28)
    small, large = interleaved(lambda: tick(few), lambda: tick(many), rounds=60)
    note = f"{large * 1e3:.2f} ms and {small * 1e3:.2f} ms"
    yield Figure("tick: 100 open among 100,000 cards / among 1,000", large / small, 1.3, "x", note)
    few.close()
    many.close()
    ready = busy_board(directory / "ready", cards=10_000, ready=800, others=100)
    held = held_board(directory / "held", cards=10_000, open_cards=1_000)
    behind, looked = interleaved(lambda: tick(ready), lambda: tick(held), rounds=30)
    yield Figure("tick: 10,000 cards, 800 ready, both lanes busy", behind * 1e3, 15, "ms")
    yield Figure("tick: 1,000 open, a lane free, all of it held", looked * 1e3, 30, "ms")
