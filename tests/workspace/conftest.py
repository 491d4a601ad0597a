"""Fixtures of the workspace tests."""

from __future__ import annotations

from pathlib import Path

import pytest
from workspace_bench import Bench, make_bench


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    """A remote with one commit on main."""
    made = make_bench(tmp_path)
    made.write({"README.md": "hello\n", "src/a.txt": "a\n", "run.sh": "#!/bin/sh\n"}, message="First")
    return made
