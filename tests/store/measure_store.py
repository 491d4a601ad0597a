"""How long a tick takes on large boards, the store included: `python tests/store/measure_store.py`.

The ratio is of processor time, since that is the same on a busy machine.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from sqlalchemy import insert
from store_board import PROFILE, configured, sql

from intent_board.store import Store, open_store, tables
from intent_board.store.projections import digest

Rows = dict[str, list[dict[str, Any]]]


def card(slug: str, phase: str, status: str = "waiting_for_builder", **values: Any) -> dict[str, Any]:
    """A row as wide as real ones are."""
    plain: dict[str, Any] = dict.fromkeys(
        ("parent", "lane", "line", "commit", "reviewed", "released", "base", "branch", "wave", "iterations")
    )
    plain |= {"human_action": None, "question": None, "asked_by": None, "ladder": None}
    plain |= {"slug": slug, "phase": phase, "status": status, "kind": "ordinary", "repository": "site"}
    plain |= {"by_hand": False, "requester": "lukas", "created_at": 1.0, "updated_at": 1.0, "phase_since": 1.0}
    plain |= {
        "title": f"Title of {slug}",
        "reason": "r" * 200,
        "profile": json.dumps({**PROFILE, "iteration_limit": 20}),
    }
    plain |= {"write_scope": json.dumps([f"{slug}/**", f"docs/{slug}.md"])}
    plain |= {"acceptance_criteria": json.dumps(["it does what it says"] * 5), "lane": "schwer"}
    return {**plain, **values}


def job(slug: str, role: str, queue: str, state: str = "queued") -> dict[str, Any]:
    values = {"slug": slug, "role": role, "queue": queue, "attempt": 1, "round": 1, "state": state}
    return {**values, "created_at": 1.0, "snapshot": json.dumps({"profile": {**PROFILE, "iteration_limit": 20}})}


def fill(store: Store, rows: Rows) -> None:
    with store._writing() as work:
        for name in ("cards", "dependencies", "jobs"):
            if rows.get(name):
                work.connection.execute(insert(tables.metadata.tables[name]), rows[name])
        intents = [
            {"slug": row["slug"], "version": 1, "hash": digest(row["title"]), "text": row["title"], "created_at": 1.0}
            for row in rows["cards"]
        ]
        work.connection.execute(insert(tables.intents), intents)
    store.config.intent_dir.mkdir()
    for intent in intents:
        (store.config.intent_dir / f"{intent['slug']}.md").write_text(intent["text"])
    sql(store, "UPDATE meta SET value = 1000000 WHERE key = 'line'")


def busy(rows: Rows) -> None:
    """Both lanes at work."""
    for slug, lane, phase in (("busy-1", "schwer", "in_umsetzung"), ("busy-2", "leicht", "in_umsetzung_leicht")):
        rows["cards"].append(card(slug, phase, "running", lane=lane))
        rows["jobs"].append(job(slug, "builder", f"builder-{lane}", "running"))


def closed(number: int) -> Iterable[dict[str, Any]]:
    for at in range(number):
        yield card(f"closed-{at:06d}", "deployed" if at % 2 else "archiviert", "succeeded", line=None)


def open_among(total: int) -> Rows:
    """100 open cards of all sorts among `total`."""
    rows: Rows = {
        "cards": list(closed(total - 100)),
        "jobs": [job(f"closed-{at:06d}", "builder", "builder-schwer", "done") for at in range(total - 100)],
    }
    busy(rows)
    for at in range(98):
        slug = f"open-{at:03d}"
        phase, status = [("geplant", "waiting_for_builder"), ("im_review", "queued"), ("klaerung_reparatur", "failed")][
            at % 3
        ]
        rows["cards"].append(card(slug, phase, status, line=at if phase == "geplant" else None))
        if phase == "im_review":
            rows["jobs"].append(job(slug, "reviewer", "review"))
    return rows


def ready_of_many(total: int, ready: int, *, families: bool) -> Rows:
    """`total` waiting cards of which `ready` have a place in line, and both lanes busy."""
    rows: Rows = {"cards": [], "jobs": [], "dependencies": []}
    busy(rows)
    for at in range(total):
        slug, parent = f"card-{at:05d}", f"card-{at // 11 * 11:05d}"
        if families and at % 11 == 0:
            rows["cards"].append(card(slug, "wartet_auf_kinder", "succeeded", kind="parent"))
            continue
        family = {"parent": parent, "kind": "child"} if families else {}
        has_place = at % (total // ready) == 0 or (families and at % 11 == 1 and at < 11 * ready)
        rows["cards"].append(card(slug, "geplant", line=at if has_place else None, **family))
        if not has_place:
            before = max(0, at - 2) if not families else max(at // 11 * 11 + 1, at - 1)
            for place, other in enumerate(range(before, at)):
                rows["dependencies"].append({"slug": slug, "blocker": f"card-{other:05d}", "place": place})
    return rows


def one_thousand_open() -> Rows:
    rows = ready_of_many(990, 80, families=True)
    rows["cards"] = [row for row in rows["cards"] if row["slug"] != "busy-2"]
    rows["jobs"] = [row for row in rows["jobs"] if row["slug"] != "busy-2"]
    for row in rows["cards"]:
        if row["line"] is not None:
            row["write_scope"] = '["busy-1/**"]'  # there is room, but nobody may go: the dearest case
    next(row for row in rows["cards"] if row["slug"] == "busy-1")["write_scope"] = '["busy-1/**"]'
    return rows


def all_ready(number: int) -> Rows:
    rows: Rows = {"cards": [], "jobs": []}
    busy(rows)
    rows["cards"] += [card(f"card-{at:05d}", "geplant", line=at) for at in range(number)]
    return rows


def filled(directory: str, rows: Rows) -> Store:
    store = open_store(configured(Path(directory) / "state"))
    fill(store, rows)
    store.tick(10.0, off_branch={})
    return store


def measure(boards: dict[str, Callable[[], Rows]], repeat: int = 30) -> list[float]:
    """Print the times of ticks, of all these boards in turn so that a busy machine is the same for each.

    Returns each board's median processor time in milliseconds.
    """
    with ExitStack() as stack:
        stores = [filled(stack.enter_context(TemporaryDirectory()), rows()) for rows in boards.values()]
        times: list[list[tuple[float, float]]] = [[] for _ in stores]
        for store, taken in [*zip(stores, times, strict=True)] * repeat:
            start, begun = time.perf_counter(), time.process_time()
            done = store.tick(10.0, off_branch={})
            taken.append(((time.perf_counter() - start) * 1000, (time.process_time() - begun) * 1000))
            assert done == [], done[:3]
    for name, taken in zip(boards, times, strict=True):
        wall, cpu = (statistics.median(column) for column in zip(*taken, strict=True))
        fastest = min(took for took, _ in taken)
        print(f"{name:45} median {wall:6.2f} ms ({cpu:.2f} of the processor), fastest {fastest:.2f} ms", flush=True)
    return [statistics.median(cpu for _, cpu in taken) for taken in times]


def main() -> None:
    small, large = measure(
        {"100 open among 1,000": lambda: open_among(1_000), "100 open among 100,000": lambda: open_among(100_000)}
    )
    print(f"    ratio {large / small:.2f} (at most 1.3)")
    measure({"10,000 waiting, 800 ready, both lanes busy": lambda: ready_of_many(10_000, 800, families=False)})
    measure({"the same in families of ten": lambda: ready_of_many(10_000, 800, families=True)})
    measure({"1,000 open, room, nobody may go": one_thousand_open})
    measure({"10,000 ready, both lanes busy": lambda: all_ready(10_000)})


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    main()
