"""Which program an order names, and where its files are."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

from intent_board.runtimes.claude import Claude
from intent_board.runtimes.codex import Codex
from intent_board.runtimes.command import Command
from intent_board.runtimes.order import Order
from intent_board.runtimes.program import Program
from intent_board.sandbox import Mount

_IN_EVERY_BOX = ("/usr", "/nix/store", "/bin", "/sbin", "/lib", "/lib64", "/run/current-system")


class ProgramMissing(Exception):
    """An agent program that isn't installed; `str()` is one sentence: what, where, what to do."""


def of(order: Order) -> Program:
    """The program of the order's runtime, ready to be launched."""
    kinds: dict[str, type[Program]] = {"codex": Codex, "openrouter": Codex, "claude": Claude, "command": Command}
    return kinds[order.profile.kind](order)


def absolute(argv: Sequence[str]) -> tuple[str, ...]:
    """`argv` with its program as an absolute path.  Raises ProgramMissing.

    It is looked up on the board's own PATH, since an agent's PATH inside a box has no npm prefix or profile.
    """
    found = shutil.which(argv[0])
    if found is None:
        raise ProgramMissing(f"{argv[0]} is not on PATH; install it or correct the runtime's command in board.toml.")
    path = Path(found).absolute()
    # npm's links are resolved, since a program in node_modules looks for its parts beside itself; others are kept,
    # since programs like a virtual environment's Python look at the name they were called by.
    return (str(path.resolve() if "node_modules" in path.resolve().parts else path), *argv[1:])


def mounts(argv: Sequence[str]) -> tuple[Mount, ...]:
    """What a box needs beside its root to run `argv`: files outside of /usr that it names, read-only.

    A program of an npm package brings its whole `node_modules` along.
    """
    return tuple(dict.fromkeys(mount for word in argv for mount in _mounts(Path(word))))


def _mounts(path: Path) -> Iterator[Mount]:
    if not path.is_absolute() or not path.is_file() or path.is_relative_to("/usr"):
        return
    real = path.resolve()
    if not any(path.is_relative_to(root) for root in _IN_EVERY_BOX):
        yield Mount(real, path)
    if not any(real.is_relative_to(root) for root in _IN_EVERY_BOX) and "node_modules" in real.parts:
        modules = Path(*real.parts[: real.parts.index("node_modules") + 1])
        yield Mount(modules, modules)
