"""A figure with its bound, and how times are taken."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Figure:
    """One measured value.  `bound` is the most it may be; `note` says what it was made from."""

    name: str
    value: float
    bound: float
    unit: str
    note: str = ""

    @property
    def holds(self) -> bool:
        return self.value <= self.bound


def interleaved(
    *works: Callable[[], object],
    rounds: int,
    warm: int = 2,
    pick: Callable[[list[float]], float] = statistics.median,
) -> list[float]:
    """Seconds of each, taken in turn, so that what slows the machine down meets all of them.

    `pick` makes one number of the rounds: `min` for short pure work, as `timeit` does, else the median.  The garbage
    collector is off meanwhile, since it would charge one piece of work for what the others left.
    """
    taken: list[list[float]] = [[] for _ in works]
    for work in works:
        for _ in range(warm):
            work()
    gc.collect()
    gc.disable()
    try:
        for _ in range(rounds):
            for times, work in zip(taken, works, strict=True):
                started = time.perf_counter()
                work()
                times.append(time.perf_counter() - started)
    finally:
        gc.enable()
    return [pick(times) for times in taken]


def times_of(work: Callable[[], object], repetitions: int) -> Callable[[], None]:
    """The same work several times in a row, where one is too short for the clock."""

    def run() -> None:
        for _ in range(repetitions):
            work()

    return run


def table(figures: Sequence[Figure]) -> str:
    """The figures for people."""
    rows = [
        (
            figure.name,
            f"{figure.value:.3g} {figure.unit}",
            f"at most {figure.bound:g}",
            "" if figure.holds else "BROKEN",
            figure.note,
        )
        for figure in figures
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    return "\n".join(
        "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[4]]) for row in rows
    )
