"""What whole programs cost: a cold start, and a worker that follows a talkative agent."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from benchmarks.answers import answer
from benchmarks.measure import Figure, interleaved
from intent_board.config import example, to_toml

#: A worker's process from the inside: everything that it loads, one run, and the most memory that it ever had.
FOLLOW = """
import re, sys
from pathlib import Path
from intent_board import config
from intent_board.roles import worker
from intent_board.runtimes import Order, run
folder = Path(sys.argv[1])
board = config.Board(owner="root", state_dir=folder, sandbox="when_available")
agent = config.Runtime(kind="command", command=(sys.argv[2], str(folder / "talks.py")))
result = run(
    Order(
        runtime="agent", config=config.BoardConfig(board=board, runtimes={"agent": agent}), model=None,
        reasoning_effort=None, text="", tree=folder / "tree", writes=True, iteration_limit=40, timeout_seconds=300,
        idle_seconds=300, run_dir=folder / "run", secrets={},
    ),
    on_step=lambda step: None,
)
peak = re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]
print(result.outcome, result.text, peak)
"""
#: 300 MB of long lines and one line of 200 MB.
TALKS = """
import json, sys
line = json.dumps({"type": "text", "text": "x" * 3_000_000}) + "\\n"
for number in range(100):
    sys.stdout.write(line)
sys.stdout.write("y" * 200_000_000 + "\\n")
print(json.dumps({"type": "final", "text": "done"}))
"""
#: A Python that a sandbox shows whole.
BOXED_PYTHON = "/usr/bin/python3"


def cold_start(directory: Path) -> Iterator[Figure]:
    config = example()
    (directory / "board.toml").write_text(to_toml(config))
    (directory / "answer.txt").write_text(answer(config, 10, 2)[0])
    check = [str(Path(sys.executable).parent / "board-operator"), "--config", str(directory / "board.toml")]
    check += ["check", str(directory / "answer.txt"), "--parent", "parent"]
    floor = [sys.executable, "-c", "import pydantic, click"]
    checked, imported = interleaved(lambda: _run(check), lambda: _run(floor), rounds=15)
    note = f"{checked * 1e3:.0f} ms and {imported * 1e3:.0f} ms"
    yield Figure("board-operator check from cold / import pydantic, click", checked / imported, 2, "x", note)


def _run(command: list[str]) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def follow(directory: Path) -> Iterator[Figure]:
    folder = directory / "follow"
    (folder / "tree").mkdir(parents=True)
    (folder / "talks.py").write_text(TALKS)
    python = BOXED_PYTHON if Path(BOXED_PYTHON).exists() else sys.executable
    outcome, text, kilobytes = _run([sys.executable, "-c", FOLLOW, str(folder), python]).split()
    if (outcome, text) != ("answered", "done"):
        raise RuntimeError(f"the run that was to be followed ended as {outcome} with {text!r}")
    yield Figure("memory of a worker that follows 500 MB of output", int(kilobytes) / 1000, 150, "MB")
