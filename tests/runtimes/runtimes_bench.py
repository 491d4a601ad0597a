"""An order for a scripted agent, and the run of it."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

from intent_board import config
from intent_board.runtimes import Order, RunResult, run

PYTHON = shutil.which("python3", path="/usr/bin:/run/current-system/sw/bin")
PRELUDE = """
    import json, os, sys, time
    def say(**event):
        print(json.dumps(event), flush=True)
"""


class Agent:
    """Runs a Python script as the agent of an order; `steps` are the numbers that the board was told."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.tree, self.run_dir = folder, folder / "tree", folder / "runs" / "7-1"
        self.tree.mkdir()
        self.steps: list[int] = []
        self.mode, self.prelude = "when_available", ""
        self.runtime: dict[str, Any] = {}

    def order(self, script: str, **changes: Any) -> Order:
        path = self.folder / "agent.py"
        path.write_text("".join(textwrap.dedent(part) for part in (PRELUDE, self.prelude, script)))
        runtime = {"kind": "command", "command": [PYTHON, str(path)], **self.runtime}
        board = config.Board.model_validate({"owner": "root", "state_dir": self.folder, "sandbox": self.mode})
        runtimes = {"agent": config.Runtime.model_validate(runtime)}
        values: dict[str, Any] = {
            "runtime": "agent",
            "config": config.BoardConfig(board=board, runtimes=runtimes),
            "model": "some-model",
            "reasoning_effort": "low",
            "text": "the order",
            "tree": self.tree,
            "writes": True,
            "iteration_limit": 5,
            "timeout_seconds": 30,
            "idle_seconds": 20,
            "run_dir": self.run_dir,
            "secrets": {},
        }
        return Order(**values | changes)

    def run(self, script: str, *, on_step: Callable[[int], None] | None = None, **changes: Any) -> RunResult:
        result = run(self.order(script, **changes), on_step=on_step or self.steps.append)
        assert not self.run_dir.exists()
        return result
