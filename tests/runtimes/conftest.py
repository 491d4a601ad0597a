"""The fixtures of this room; what they are made of stands in runtimes_bench.py."""

from __future__ import annotations

from pathlib import Path

import pytest
from runtimes_bench import PYTHON, Agent

from intent_board import sandbox


@pytest.fixture
def agent(tmp_path: Path) -> Agent:
    if PYTHON is None:
        pytest.skip("no python3 that a box has")
    return Agent(tmp_path)


@pytest.fixture
def boxed(agent: Agent) -> Agent:
    """An agent that is really in a sandbox."""
    if (reason := sandbox.available()) is not None:
        pytest.skip(reason)
    agent.mode = "required"
    return agent
