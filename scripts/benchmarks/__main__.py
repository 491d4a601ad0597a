"""Takes the figures, prints them, and fails when a bound is broken."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path

from benchmarks import answers, pipeline, programs, ticks
from benchmarks.measure import Figure, table


def main() -> int:
    options = argparse.ArgumentParser(prog="scripts/bench", description=__doc__)
    options.add_argument("--json", action="store_true", help="print one JSON object")
    options.add_argument("groups", nargs="*", metavar="GROUP", help="only these: answers, tick, cold, follow, pipeline")
    given = options.parse_args()
    with tempfile.TemporaryDirectory(prefix="board-bench-") as directory:
        groups: dict[str, Callable[[], Iterator[Figure]]] = {
            "answers": answers.figures,
            "tick": lambda: ticks.figures(Path(directory)),
            "cold": lambda: programs.cold_start(Path(directory)),
            "follow": lambda: programs.follow(Path(directory)),
            "pipeline": lambda: pipeline.figures(Path(directory)),
        }
        if unknown := [name for name in given.groups if name not in groups]:
            options.error(f"there is no group {unknown[0]!r}; the groups are: {', '.join(groups)}")
        found = []
        for name in given.groups or groups:
            print(f"bench: {name} ...", file=sys.stderr)
            found += groups[name]()
    if given.json:
        print(json.dumps({"figures": [{**asdict(figure), "holds": figure.holds} for figure in found]}, indent=2))
    else:
        print(table(found))
    return 0 if all(figure.holds for figure in found) else 1


sys.exit(main())
