"""A repository's checks, on a fresh checkout of one commit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from intent_board import sandbox
from intent_board.workspace.errors import WorkspaceError

OUTPUT_LIMIT = 256 * 1024


@dataclass(frozen=True)
class CheckResult:
    """One check: its exit code and the end of what it printed."""

    argv: tuple[str, ...]
    exit_code: int
    output: str
    seconds: float
    timed_out: bool


def run_check(
    argv: Sequence[str], box: sandbox.Box, *, mode: sandbox.Mode, timeout: float, lock_fd: int | None
) -> CheckResult:
    """Run one check in its box.  Raises WorkspaceError when there can't be a box; a check that fails is a result."""
    try:
        done = sandbox.run(argv, box, mode=mode, timeout=timeout, output_limit=OUTPUT_LIMIT, lock_fd=lock_fd)
    except sandbox.SandboxError as error:
        raise WorkspaceError("failed", str(error)) from error
    text = done.output.decode(errors="backslashreplace")
    start = "[the beginning was cut]\n" if done.cut else ""
    return CheckResult(tuple(argv), done.exit_code, start + text, done.seconds, done.timed_out)


def box(checkout: Path, objects: Path, *, network: bool, nix_daemon: bool) -> sandbox.Box:
    """What a check sees: its own checkout to write in, the objects that checkout borrows, and no credential."""
    mounts = (sandbox.Mount(checkout, checkout, writable=True), sandbox.Mount(objects, objects))
    return sandbox.Box(cwd=checkout, mounts=mounts, environment={}, network=network, nix_daemon=nix_daemon)
