"""The configuration of a small board whose one agent is a script."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def scripted_board(
    owner: str, state_dir: Path, agent: list[str], repository: str, remote: Path, check: list[str]
) -> dict[str, Any]:
    """Both lanes and every queue, with few steps for a build; the repository's one check is `check`."""
    builds = {"runtime": "command", "model": "small", "iteration_limit": 5}
    asks = {"runtime": "command", "model": "small"}
    return {
        "board": {
            "owner": owner,
            "state_dir": str(state_dir),
            "sandbox": "when_available",
            "default_repository": repository,
        },
        "lanes": {
            "schwer": {"phase": "in_umsetzung", **builds},
            "leicht": {"phase": "in_umsetzung_leicht", **builds},
        },
        "model_pools": {"command": ["small", "large"]},
        "runtimes": {"command": {"kind": "command", "command": agent}},
        "queues": {
            "operator": {"role": "operator", **asks},
            "review": {"role": "reviewer"},
            "publish": {"role": "publish"},
            "repair": {"role": "fixer"},
            "inspect": {"role": "inspector", **asks},
            "split": {"role": "planner", **asks},
            "deploy": {"role": "deploy"},
        },
        "repositories": {repository: {"remote_url": f"file://{remote}", "branch": "main", "checks": [check]}},
    }
