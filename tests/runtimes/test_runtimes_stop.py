"""A worker that is told to end in the middle of a run, at whatever moment, leaves nothing behind."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

WORKER = """
import signal, sys
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from runtimes_bench import Agent
from intent_board import sandbox
from intent_board.runtimes import run
class Stopped(Exception): pass
def stop(*_):
    raise Stopped
agent = Agent(Path(sys.argv[2]))
agent.mode = sys.argv[3]
if agent.mode == "when_available":
    sandbox.available = lambda: "there is none in this test"
order = agent.order("import subprocess; subprocess.run(['setsid', 'sh', '-c', 'sleep 300; :', sys.argv[0]])")
try:
    signal.signal(signal.SIGTERM, stop)
    print("ready", flush=True)
    run(order, on_step=print)
except Stopped:
    print("stopped", agent.run_dir.exists(), flush=True)
"""


def _left(folder: Path) -> list[str]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            except OSError:
                continue
            if str(folder) in line:
                found.append(line)
    return found


@pytest.mark.faults
@pytest.mark.parametrize("mode", ["required", "when_available"])
@pytest.mark.parametrize("milliseconds", [0, 10, 40, 400])
def test_told_to_end(boxed: object, tmp_path_factory: pytest.TempPathFactory, mode: str, milliseconds: int) -> None:
    folder = tmp_path_factory.mktemp("worker")
    command = [sys.executable, "-c", WORKER, str(Path(__file__).parent), str(folder), mode]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as worker:
        assert worker.stdout is not None
        assert worker.stdout.readline() == "ready\n"
        time.sleep(milliseconds / 1000)
        begun = time.monotonic()
        worker.send_signal(signal.SIGTERM)
        said = worker.stdout.readline()
        assert worker.wait(20) == 0
    assert said == "stopped False\n"
    assert time.monotonic() - begun < 10
    assert _left(folder) == []
    assert not (folder / "runs" / "7-1").exists()
