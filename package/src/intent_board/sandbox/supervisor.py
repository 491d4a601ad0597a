"""The supervisor: runs one program and returns only when no process of its tree is left.

It stands between the board and the box, outside of it.  It is where orphans go, so that it can wait for every
process; it holds the job's lock until then; and it ends the box when the board's process is gone.

It is started as a script for every box, without site packages: each module that it loads costs every run.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import time

#: How long a process may tidy up after SIGTERM before everything is killed.  Claude Code needs about 1.5 s.
GRACE_SECONDS = 4.0
#: Tells the supervisor to end everything without grace; the kernel sends it when the board's process is gone.
KILL_NOW = signal.SIGUSR1
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36


def _supervise(parent: int, lock_fd: int, boxed: bool, argv: list[str]) -> int:
    """Run `argv` and return its exit code once no process of its tree is left.  Ends when `parent` does."""
    watched: set[signal.Signals] = {signal.SIGCHLD, signal.SIGTERM, KILL_NOW}
    signal.pthread_sigmask(signal.SIG_BLOCK, watched)
    prctl = ctypes.CDLL(None).prctl
    prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    prctl(_PR_SET_PDEATHSIG, KILL_NOW, 0, 0, 0)
    if os.getppid() != parent:
        return 128 + signal.SIGKILL
    if lock_fd >= 0:
        os.set_inheritable(lock_fd, False)
    try:
        # What Python blocks and ignores for itself is not the program's business.
        ignored = (signal.SIGPIPE, signal.SIGXFSZ)
        child = os.posix_spawnp(argv[0], argv, os.environ, setsigmask=(), setsigdef=ignored)
    except OSError as error:
        print(f"{argv[0]}: {error.strerror}", file=sys.stderr)
        return 127
    try:
        return _watch(child, boxed, watched)
    finally:
        _kill_below()


def _watch(child: int, boxed: bool, watched: set[signal.Signals]) -> int:
    """Wait for `child`, or until it is time to kill it; its exit code."""
    deadline: float | None = None
    while True:
        seconds = 3600.0 if deadline is None else deadline - time.monotonic()
        told = signal.sigtimedwait(watched, max(0.0, seconds))
        if (code := _reap(child)) is not None:
            return code
        if told is None and deadline is not None:
            return 128 + signal.SIGKILL
        if told is not None and told.si_signo == KILL_NOW:
            return 128 + signal.SIGKILL
        if told is not None and told.si_signo == signal.SIGTERM:
            # bubblewrap passes no signal on, and would die of this one with everything below it; tools of the
            # agent programs have sessions of their own, so a process group would miss them.
            spared = {child} | _children().get(child, set()) if boxed else set()
            _signal_all(_descendants(os.getpid()) - spared, signal.SIGTERM)
            deadline = time.monotonic() + GRACE_SECONDS


def _reap(child: int) -> int | None:
    """Collect every process that ended, orphans too; the exit code of `child` when it is among them."""
    code = None
    with contextlib.suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0] != 0:
            if ended[0] == child:
                code = os.waitstatus_to_exitcode(ended[1])
    return code if code is None or code >= 0 else 128 - code


def _kill_below() -> None:
    # Whoever loses its parent becomes our child: without a child there is nobody below.
    pause = 0.002
    while _has_children():
        _signal_all(_descendants(os.getpid()), signal.SIGKILL)
        time.sleep(pause)
        # One that can't be killed now may take long, and this looks through the whole host.
        pause = min(pause * 2, 0.1)


def _has_children() -> bool:
    """Collect every process that ended; whether one is left."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0] != 0:
            pass
    except ChildProcessError:
        return False
    return True


def _children() -> dict[int, set[int]]:
    """The processes of this host, by parent."""
    children: dict[int, set[int]] = {}
    for name in os.listdir("/proc"):  # noqa: PTH208 - pathlib takes longer to load than all of this
        if name.isdigit():
            with contextlib.suppress(OSError), open(f"/proc/{name}/stat", "rb") as file:  # noqa: PTH123 - the same
                stat = file.read()
                # The command stands in parentheses and may hold any character: the last one closes it.
                children.setdefault(int(stat[stat.rindex(b")") + 2 :].split()[1]), set()).add(int(name))
    return children


def _descendants(root: int) -> set[int]:
    """Every process below `root`, whatever session or process group it made for itself."""
    children, found, waiting = _children(), set[int](), [root]
    while waiting:
        below = children.get(waiting.pop(), set()) - found
        found |= below
        waiting += below
    return found


def _signal_all(pids: set[int], number: signal.Signals) -> None:
    for pid in pids:
        # Without a box, a program such as sudo may be another user's by now: it is waited for, and spares nobody else.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


if __name__ == "__main__":
    if len(sys.argv) < 5:
        sys.exit("This file is the board's own supervisor; it is started by the board.")
    sys.exit(_supervise(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3] == "boxed", sys.argv[4:]))
