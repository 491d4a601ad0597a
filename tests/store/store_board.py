"""A board in a temporary directory, and what is wanted of it again and again."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import textwrap
from contextlib import closing
from pathlib import Path
from typing import Any

from intent_board import config as configuration
from intent_board.config import BoardConfig
from intent_board.store import Claim, Store

OWNER = "lukas"
PROFILE = {"runtime": "codex", "model": "gpt-5.6-luna", "reasoning_effort": "none"}


def configured(state_dir: Path, **tables: Any) -> BoardConfig:
    """A configuration with one repository and both lanes over `state_dir`."""
    raw: dict[str, Any] = {
        "board": {"owner": OWNER, "state_dir": str(state_dir), "default_repository": "site"},
        "repositories": {"site": {"remote_url": "/srv/git/site.git", "branch": "main"}},
    }
    for name, values in tables.items():
        raw[name] = {**raw.get(name, {}), **values}
    return configuration.parse(raw)


class Board:
    """Short words for what a board goes through."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def submit(self, slug: str = "lamp", requester: str = OWNER, **data: Any) -> None:
        event = "submit_by_owner" if requester == OWNER else "submit_by_other"
        self.store.submit(
            slug=slug,
            title=f"The {slug}",
            intent=f"# Intent: The {slug}\n",
            repository="site",
            requester=requester,
            event=event,
            data=data,
        )

    def claim(self, queue: str) -> Claim:
        claim = self.store.claim(queue)
        assert claim is not None
        return claim

    def direct(self, slug: str = "lamp", lane: str = "schwer") -> None:
        """Submit and have the Operator send it to a lane."""
        self.submit(slug)
        assert self.store.finish(self.claim("operator"), "operator_direct", {"lane": lane})

    def building(self, slug: str = "lamp") -> Claim:
        """A card whose Builder has just been claimed."""
        self.direct(slug)
        self.store.tick(100.0, off_branch={})
        return self.claim("builder-schwer")

    def split(self, parent: str, children: dict[str, list[str]]) -> None:
        """A parent with children; each names what it is blocked by."""
        self.submit(parent)
        data = [child_data(slug, blocked_by) for slug, blocked_by in children.items()]
        assert self.store.finish(self.claim("operator"), "operator_split", {"children": data})


def child_data(slug: str, blocked_by: list[str] | None = None, **more: Any) -> dict[str, Any]:
    return {
        "slug": slug,
        "title": f"The {slug}",
        "lane": "schwer",
        "wave": 1,
        "blocked_by": blocked_by or [],
        "write_scope": [f"{slug}/**"],
        "acceptance_criteria": ["it works"],
        "intent": f"# Intent: The {slug}\n",
        **more,
    }


def sql(store: Store, statement: str, *values: Any) -> list[tuple[Any, ...]]:
    """What somebody with the file in hand does to it."""
    with closing(sqlite3.connect(store.path)) as connection, connection:
        return connection.execute(statement, values).fetchall()


_PRELUDE = """
import json, os, sys, time
sys.path.insert(0, {tests!r})
from store_board import configured, Board
from intent_board.store import *
store = open_store(configured(__import__("pathlib").Path({state!r})))
board = Board(store)
def say(*words): print(*words, flush=True)
def hear(): return sys.stdin.readline().strip()
"""


class Processes:
    """Real processes that open the same store; whatever still lives at the end of a test is killed."""

    def __init__(self, state_dir: Path) -> None:
        self._prelude = _PRELUDE.format(tests=str(Path(__file__).parent), state=str(state_dir))
        self._started: list[subprocess.Popen[str]] = []

    def start(self, code: str) -> subprocess.Popen[str]:
        """Run `code`, which has `store`, `board`, `say` and `hear`."""
        process = subprocess.Popen(
            [sys.executable, "-c", self._prelude + textwrap.dedent(code)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._started.append(process)
        return process

    def end(self) -> None:
        for process in self._started:
            process.kill()
            process.communicate()


def heard(process: subprocess.Popen[str]) -> str:
    """The next line that a process says."""
    assert process.stdout is not None
    return process.stdout.readline().strip()


def tell(process: subprocess.Popen[str], line: str = "") -> None:
    assert process.stdin is not None
    process.stdin.write(line + "\n")
    process.stdin.flush()
