"""What a card costs the board from submit to publish, with an agent that does nothing slow."""

from __future__ import annotations

import os
import pwd
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import tomli_w

from benchmarks.measure import Figure
from benchmarks.programs import BOXED_PYTHON
from intent_board.board.model import Phase
from intent_board.config import BoardConfig, load
from intent_board.store import Store, open_store

CARDS = 8
INTENT = "# Intent: File {number}\n\n## Ziel\nA file.\n\n## Erfolgskriterien\n- it is there\n"
AGENT = Path(__file__).with_name("agent.py")


def configuration(directory: Path) -> dict[str, Any]:
    """A board with one repository whose check is a real command."""
    python = BOXED_PYTHON if Path(BOXED_PYTHON).exists() else sys.executable
    lane = {"runtime": "agent", "model": "none", "iteration_limit": 5}
    asks = {"runtime": "agent", "model": "none"}
    return {
        "board": {
            "owner": pwd.getpwuid(os.geteuid()).pw_name,
            "state_dir": str(directory / "state"),
            "sandbox": "when_available",
        },
        "lanes": {
            "schwer": {"phase": "in_umsetzung", **lane},
            "leicht": {"phase": "in_umsetzung_leicht", **lane},
        },
        "model_pools": {"agent": ["none"]},
        "runtimes": {
            # Without site packages: what the agent's own Python takes to start is not the board's.
            "agent": {"kind": "command", "command": [python, "-I", "-S", str(AGENT)], "network": False}
        },
        "queues": {
            "operator": {"role": "operator", **asks},
            "review": {"role": "reviewer"},
            "publish": {"role": "publish"},
            "repair": {"role": "fixer"},
            "inspect": {"role": "inspector", **asks},
            "split": {"role": "planner", **asks},
            "deploy": {"role": "deploy"},
        },
        "repositories": {
            "site": {
                "remote_url": f"file://{directory}/remote.git",
                "branch": "main",
                "checks": [["sh", "-c", "test -e README.md"]],
            }
        },
    }


def make_remote(directory: Path) -> None:
    """A bare remote with one commit."""
    source = directory / "source"
    source.mkdir(parents=True)
    (source / "README.md").write_text("A site.\n")
    name = ["-c", "user.name=Bench", "-c", "user.email=bench@localhost"]
    for arguments in (
        ["init", "-q", "--bare", "-b", "main", str(directory / "remote.git")],
        ["init", "-q", "-b", "main"],
        ["add", "."],
        [*name, "commit", "-q", "-m", "A site"],
        ["push", "-q", str(directory / "remote.git"), "HEAD:refs/heads/main"],
    ):
        subprocess.run(["git", *arguments], cwd=source, check=True, capture_output=True)


class Host:
    """Starts the programs as systemd would: a worker for every bell that rings, and the timer's tick."""

    def __init__(self, config: BoardConfig, file: Path) -> None:
        self.config = config
        self.environment = {**os.environ, "INTENT_BOARD_CONFIG": str(file)}

    def run(self, *command: str, stdin: str = "") -> None:
        done = subprocess.run(command, env=self.environment, input=stdin, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}: {done.stderr or done.stdout}")

    def ringing(self, store: Store) -> list[str]:
        return [queue for queue in self.config.queue_slots() if store.doorbells.path(queue, 0).exists()]

    def until_quiet(self, store: Store) -> None:
        """Workers answer bells as long as any rings; the timer's tick comes in between."""
        for _ in range(CARDS * 4):
            self.run("board-scheduler", "tick")
            if not self.ringing(store):
                return
            while queues := self.ringing(store):
                for queue in queues:
                    self.run("board-worker", queue)
        raise RuntimeError("the board does not come to rest")


def figures(directory: Path) -> Iterator[Figure]:
    place = directory / "pipeline"
    make_remote(place)
    file = place / "board.toml"
    file.write_text(tomli_w.dumps(configuration(place)))
    config = load(file)
    host, store = Host(config, file), open_store(config)
    for number in range(CARDS):
        slug = f"file-{number}"
        # Each names what it writes, as the children of a split do, so that both lanes build side by side.
        host.run("board", "submit", "-", "--slug", slug, "--scope", f"{slug}.txt", stdin=INTENT.format(number=number))
    before = _seconds()
    host.until_quiet(store)
    spent = _seconds() - before
    for card in store.cards():
        if card.phase != Phase.BEREIT:
            raise RuntimeError(f"{card.slug} stands in {card.phase}: {card.reason}")
    store.close()
    note = f"{CARDS} cards from the Operator to the remote, every process of it counted"
    yield Figure("CPU per built, checked, reviewed and published card", spent / CARDS, 1.5, "s", note)


def _seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
