"""One run of one agent program: started in its box, followed, and ended, with nothing left of it."""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from intent_board import sandbox
from intent_board.runtimes import programs
from intent_board.runtimes.credentials import redact
from intent_board.runtimes.follow import Lines, parse_object, tail
from intent_board.runtimes.order import Order, Outcome, RunResult
from intent_board.runtimes.program import LAST_TEXT_CHARACTERS, Launch, Places, Program, Verdict, short
from intent_board.sandbox import Box, Mount, Running

#: Standard output and error together.  The files are on disk; a run that writes more is ended.
OUTPUT_BYTES = 1 << 30
STDERR_BYTES = 64 << 10
#: How long a program may take to leave after its last word.  Claude Code was seen to hang then.
LEAVE_SECONDS = 5.0
#: What a run must leave free where the board keeps its state: the store needs it to go on.
FREE_BYTES = 512 << 20
_POLL_SECONDS = 0.05
#: Where the run's own directories are in the box.  Not below /tmp: Codex refuses its home there.
_INSIDE = Path("/run/agent")

_log = logging.getLogger(__name__)


def run(order: Order, *, on_step: Callable[[int], None]) -> RunResult:
    """Run one agent program to its end and say what it came to.

    `on_step(n)` is called as soon as step n is known, at most `iteration_limit` times; when it raises, the run is
    ended and the exception comes back.  Nothing is tried again here.  Raises SandboxUnavailable and SandboxError;
    every fault of the program or its provider is an outcome instead.  The calling thread must live as long as the
    run, since the kernel ends the run when it dies.
    """
    try:
        with contextlib.closing(_Run(order, on_step)) as going:
            return going.result()
    finally:
        with sandbox.undisturbed():
            remove_run_dir(order.run_dir)


def remove_run_dir(path: Path) -> None:
    """Remove a run's directory, whatever rights its agent gave the files in it.  Links in it are not followed."""
    for folder, names, _ in os.walk(path):
        for name in names:
            inner = Path(folder, name)
            if not inner.is_symlink():
                with contextlib.suppress(OSError):
                    inner.chmod(0o700)
    shutil.rmtree(path, ignore_errors=True)
    if path.exists():
        _log.warning("%s can't be removed; remove it by hand.", path)


class _Run:
    def __init__(self, order: Order, on_step: Callable[[int], None]) -> None:
        self._order, self._on_step = order, on_step
        self._program: Program = programs.of(order)
        self._boxed = sandbox.sandboxed(order.config.board.sandbox)
        self._files: list[int] = []
        self._running: Running | None = None
        self._told = 0
        self._cut = False
        self._begun = time.monotonic()

    def close(self) -> None:
        """End what is left, and let go of everything."""
        if self._running is not None:
            self._running.kill()
        self._program.close()
        for fd in self._files:
            os.close(fd)

    def result(self) -> RunResult:
        places = self._make_places()
        if self._full():
            return self._report(Verdict(Outcome.OUTAGE, self._full_reason("The run did not start")), None, cut=False)
        try:
            with sandbox.undisturbed():
                self._running = self._start(places, self._program.launch(places))
        except programs.ProgramMissing as error:
            return self._report(Verdict(Outcome.REFUSED_CONFIGURATION, str(error)), None, cut=False)
        lines, stderr = Lines(self._reader("stdout")), self._reader("stderr")
        verdict = self._follow(self._running, lines, stderr)
        code = self._running.end()
        self._drain(lines)
        said = self._program.verdict(code, tail(stderr, STDERR_BYTES), time.time())
        if verdict is None or said.outcome is Outcome.ANSWERED:
            verdict = said
        return self._report(verdict, code, cut=self._cut or lines.cut)

    # --- before --------------------------------------------------------------------------------------------------

    def _make_places(self) -> Places:
        order = self._order
        for name in ("state", "gate"):
            (order.run_dir / name).mkdir(parents=True, exist_ok=True, mode=0o700)
        if order.report_path is not None:
            if order.report_path.parent == order.run_dir or order.report_path.is_relative_to(order.tree):
                raise ValueError(f"{order.report_path}: the report needs a directory of its own outside of the tree")
            order.report_path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        inside = _INSIDE if self._boxed else order.run_dir
        return Places(order.run_dir, inside / "state", inside / "gate", order.report_path)

    def _start(self, places: Places, launch: Launch) -> Running:
        order = self._order
        environment = {**order.profile.environment, **order.secrets, **launch.environment}
        mounts = [Mount(order.tree, order.tree, writable=order.writes), *order.extra_mounts, *launch.mounts]
        mounts += [Mount(places.state_outside, places.state, writable=True), Mount(places.gate_outside, places.gate)]
        if places.report is not None:
            environment["INTENT_BOARD_REPORT"] = str(places.report)
            mounts.append(Mount(places.report.parent, places.report.parent, writable=True))
        argv = programs.absolute(launch.argv)
        box = Box(
            cwd=order.tree,
            mounts=(*mounts, *programs.mounts(argv)),
            environment=environment,
            network=order.profile.network,
            nix_daemon=order.nix_daemon,
        )
        with sandbox.readable(order.text.encode(errors="replace")) as stdin:
            return sandbox.start(
                argv,
                box,
                mode=order.config.board.sandbox,
                stdin=stdin,
                stdout=self._writer("stdout"),
                stderr=self._writer("stderr"),
                lock_fd=order.lock_fd,
            )

    def _writer(self, name: str) -> int:
        # A regular file, not a pipe: Claude Code ends without waiting for a pipe's reader, and loses the rest.
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
        return self._keep(os.open(self._order.run_dir / name, flags, 0o600))

    def _reader(self, name: str) -> int:
        return self._keep(os.open(self._order.run_dir / name, os.O_RDONLY | os.O_CLOEXEC))

    def _keep(self, fd: int) -> int:
        self._files.append(fd)
        return fd

    # --- while it runs -------------------------------------------------------------------------------------------

    def _follow(self, running: Running, lines: Lines, stderr: int) -> Verdict | None:
        """Follow it until it ended (None) or must end (why)."""
        seen, heard, left_at = (0, 0, 0), time.monotonic(), None
        while running.wait(_POLL_SECONDS) is None:
            self._take(lines)
            now = time.monotonic()
            progress = (lines.read_bytes, os.fstat(stderr).st_size, self._program.poll())
            if progress != seen:
                seen, heard = progress, now
            self._tell_steps()
            if verdict := self._must_end(now, heard, seen):
                return verdict
            self._program.grant()
            if self._program.finished:
                left_at = left_at or now
                if now - left_at > LEAVE_SECONDS:
                    return None
        return None

    def _take(self, lines: Lines, *, at_end: bool = False) -> None:
        for line in lines.new(at_end=at_end):
            # What it says after step N+1 began is not part of the run any more.
            if not self._program.over_limit and (event := parse_object(line)) is not None:
                self._program.event(event)
            self._tell_steps()

    def _drain(self, lines: Lines) -> None:
        """Take in what it wrote between our last look and its end."""
        before = -1
        while before < lines.read_bytes <= OUTPUT_BYTES:
            before = lines.read_bytes
            self._take(lines)
        self._take(lines, at_end=True)
        self._program.poll()
        self._tell_steps()

    def _tell_steps(self) -> None:
        while self._told < min(self._program.steps, self._order.iteration_limit):
            self._told += 1
            self._on_step(self._told)

    def _must_end(self, now: float, heard: float, seen: tuple[int, int, int]) -> Verdict | None:
        order, program = self._order, self._program
        if program.over_limit:
            return Verdict(Outcome.LIMIT_REACHED, f"The limit of {order.iteration_limit} steps was reached.")
        if program.trouble is not None:
            return program.trouble
        if now - self._begun > order.timeout_seconds:
            return Verdict(Outcome.TIMED_OUT, f"The run took longer than {order.timeout_seconds:g} seconds.")
        if sum(seen) > OUTPUT_BYTES:
            self._cut = True
            return Verdict(Outcome.FAILED, f"The program wrote more than {OUTPUT_BYTES >> 20} MiB of output.")
        if self._full():
            self._cut = True
            return Verdict(Outcome.FAILED, self._full_reason("The run was ended"))
        if now - heard > order.idle_seconds and not program.finished:
            if program.waiting_for_model:
                return Verdict(Outcome.OUTAGE, f"The model said nothing for {order.idle_seconds:g} seconds.")
            return Verdict(Outcome.TIMED_OUT, f"The run did nothing visible for {order.idle_seconds:g} seconds.")
        return None

    def _full(self) -> bool:
        space = os.statvfs(self._order.run_dir)
        return space.f_bavail * space.f_frsize < FREE_BYTES

    def _full_reason(self, what: str) -> str:
        return f"{what}: less than {FREE_BYTES >> 20} MiB are free at {self._order.run_dir.parent}; make room there."

    # --- after ---------------------------------------------------------------------------------------------------

    def _report(self, verdict: Verdict, code: int | None, *, cut: bool) -> RunResult:
        order, program = self._order, self._program
        secrets = tuple(order.secrets.values())
        return RunResult(
            outcome=verdict.outcome,
            text=redact(_storable(verdict.text), secrets),
            last_texts=tuple(_shown(program.last_texts, secrets)),
            iterations=self._told,
            usage=dict(program.usage),
            cost_usd=program.cost_usd,
            reason=short(redact(_storable(verdict.reason), secrets), 1000),
            retry_at=verdict.retry_at,
            sandboxed=self._boxed,
            cut=cut,
            exit_code=code,
            seconds=time.monotonic() - self._begun,
        )


def _shown(texts: Iterable[str], secrets: tuple[str, ...]) -> Iterator[str]:
    for text in texts:
        shown = redact(_storable(text), secrets)
        yield shown if len(shown) <= LAST_TEXT_CHARACTERS else shown[: LAST_TEXT_CHARACTERS - 1] + "…"


def _storable(text: str) -> str:
    """Text without lone surrogates, which JSON can carry and neither a database nor a terminal can."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
