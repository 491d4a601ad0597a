"""A box runs a command, cuts its output, and ends as a whole."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from intent_board import sandbox
from intent_board.sandbox import Box, Completed, Mode, Mount, supervisor

MODES = ["required", "when_available"]


@pytest.fixture(params=MODES)
def mode(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Mode:
    """Both ways of running.  `when_available` is taken to a host without bubblewrap."""
    if request.param == "required":
        if (reason := sandbox.available()) is not None:
            pytest.skip(reason)
        return "required"
    monkeypatch.setattr(sandbox, "available", lambda: "there is none in this test")
    return "when_available"


@pytest.fixture
def tree(tmp_path: Path) -> Iterator[Path]:
    made = tmp_path / "tree"
    made.mkdir()
    yield made
    left = marked(str(made))
    assert not left, f"processes of the box are left: {left}"


def marked(text: str) -> set[int]:
    """Every living process that has `text` on its command line, but for this one and its supervisors."""
    found = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                state = (entry / "stat").read_text().rsplit(")", 1)[1].split()[0]
            except OSError:
                continue
            if text in line and state != "Z":
                found.add(int(entry.name))
    return found


def box(tree: Path, *, network: bool = False, **environment: str) -> Box:
    return Box(cwd=tree, mounts=(Mount(tree, tree, writable=True),), environment=environment, network=network)


def run(command: str, tree: Path, mode: Mode, *, timeout: float = 20, limit: int = 100_000, **kw: object) -> Completed:
    argv = ["/bin/sh", "-c", command, "marker", str(tree)]
    return sandbox.run(argv, box(tree), mode=mode, timeout=timeout, output_limit=limit, **kw)  # type: ignore[arg-type]


def test_output_exit_code_and_input(tree: Path, mode: Mode) -> None:
    done = run("cat; echo wrong >&2; pwd; exit 7", tree, mode, stdin=b"given\n")
    assert done.output == f"given\nwrong\n{tree}\n".encode()
    assert (done.exit_code, done.timed_out, done.cut, done.sandboxed) == (7, False, False, mode == "required")


def test_a_large_input_needs_no_reader(tree: Path, mode: Mode) -> None:
    assert run("exit 0", tree, mode, stdin=b"x" * 3_000_000).exit_code == 0
    assert run("wc -c", tree, mode, stdin=b"x" * 3_000_000).output.strip() == b"3000000"


def test_the_environment_is_made_from_nothing(tree: Path, mode: Mode, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", "/nowhere")
    monkeypatch.setenv("CODEX_HOME", "/nowhere")
    argv = ["/usr/bin/env"]
    done = sandbox.run(argv, box(tree, GIVEN="yes"), mode=mode, timeout=20, output_limit=10_000)
    names = {line.split("=")[0] for line in done.output.decode().splitlines()}
    assert names - {"PWD"} == {"GIVEN", "HOME", "LANG", "PATH", "TMPDIR"}


def test_the_end_of_a_long_output_is_kept(tree: Path, mode: Mode) -> None:
    done = run("head -c 80000000 /dev/zero | tr '\\0' x; echo end", tree, mode, limit=1000)
    assert done.cut
    assert done.exit_code == 0
    assert done.output == b"x" * 996 + b"end\n"


def test_an_output_that_grows_takes_no_disk_and_loses_no_end() -> None:
    with sandbox._Tail(1000) as tail:
        for n in range(400):
            os.write(tail.fd, b"x" * 100_000 + str(n).encode())
            tail.trim()
        assert os.fstat(tail.fd).st_blocks * 512 < 3_000_000
        assert (tail.read(), tail.cut) == (b"x" * 997 + b"399", True)


def test_an_output_at_its_limit_is_not_cut(tree: Path, mode: Mode) -> None:
    done = run("printf 1234567890", tree, mode, limit=10)
    assert (done.output, done.cut) == (b"1234567890", False)


def test_timeout_ends_every_process_with_sessions_of_their_own(tree: Path, mode: Mode) -> None:
    command = (
        f"setsid sh -c 'sleep 300 # {tree}' & setsid setsid sh -c 'trap \"\" TERM; sleep 301; : {tree}' & sleep 302"
    )
    begun = time.monotonic()
    done = run(command, tree, mode, timeout=0.5)
    assert done.timed_out
    assert time.monotonic() - begun < sandbox.GRACE_SECONDS + 4


def test_a_term_gives_time_to_tidy_up(tree: Path, mode: Mode) -> None:
    command = "trap 'sleep 0.3; echo tidied; exit 3' TERM; echo ready; while :; do sleep 0.05; done"
    done = run(command, tree, mode, timeout=0.7)
    assert done.output.startswith(b"ready\n")
    assert done.output.endswith(b"tidied\n")
    assert (done.exit_code, done.timed_out) == (3, True)


def test_a_process_that_ignores_term_is_killed(tree: Path, mode: Mode, monkeypatch: pytest.MonkeyPatch) -> None:
    done = run("trap '' TERM; while :; do sleep 0.05; done", tree, mode, timeout=0.3)
    assert (done.exit_code, done.timed_out) == (128 + signal.SIGKILL, True)
    assert sandbox.GRACE_SECONDS <= done.seconds < sandbox.GRACE_SECONDS + 4


def test_daemons_end_with_a_normal_end(tree: Path, mode: Mode) -> None:
    done = run(f"setsid sh -c 'sleep 300 # {tree}' >/dev/null 2>&1 & sleep 0.2; echo started", tree, mode)
    assert done.output == b"started\n"  # the fixture looks for what is left


def test_signals_are_not_blocked_for_the_program(tree: Path, mode: Mode) -> None:
    done = run("grep -E 'SigBlk|SigIgn' /proc/self/status", tree, mode)
    ours = {signal.SIGTERM, signal.SIGUSR1, signal.SIGCHLD, signal.SIGPIPE, signal.SIGXFSZ}
    masks = [int(line.split()[1], 16) for line in done.output.splitlines()]
    assert len(masks) == 2
    assert not any(mask & (1 << (number - 1)) for mask in masks for number in ours)


def test_a_program_that_does_not_exist(tree: Path, mode: Mode) -> None:
    done = sandbox.run(["/nowhere/program"], box(tree), mode=mode, timeout=20, output_limit=1000)
    assert done.exit_code != 0
    assert b"/nowhere/program" in done.output
    assert b"No such file" in done.output


def test_ended_by_a_signal(tree: Path, mode: Mode) -> None:
    assert run("kill -9 $$", tree, mode).exit_code == 128 + 9


WORKER = """
    import os, sys
    from intent_board import sandbox
    from pathlib import Path
    if sys.argv[3] == "when_available":
        sandbox.available = lambda: "there is none in this test"
    tree, lock = Path(sys.argv[1]), os.open(sys.argv[2], os.O_RDWR)
    import fcntl; fcntl.flock(lock, fcntl.LOCK_EX)
    box = sandbox.Box(cwd=tree, mounts=(sandbox.Mount(tree, tree, True),), environment={})
    argv = ["/bin/sh", "-c", sys.argv[4], "marker", str(tree)]
    sandbox.run(argv, box, mode=sys.argv[3], timeout=60, output_limit=1000, lock_fd=lock)
"""


@pytest.mark.faults
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_the_lock_is_free_only_when_the_box_is_gone(
    tree: Path, tmp_path: Path, mode: Mode, number: signal.Signals
) -> None:
    lock = tmp_path / "job.lock"
    lock.touch()
    daemon = r"""setsid sh -c 'trap "" TERM; touch $0/up$1; sleep 300; :' """
    command = f"for i in 1 2 3 4 5 6 7 8; do {daemon} {tree} $i & done; wait"
    worker = subprocess.Popen([sys.executable, "-c", textwrap.dedent(WORKER), tree, lock, mode, command])
    while len(list(tree.iterdir())) < 8:
        assert worker.poll() is None
        time.sleep(0.02)
    with lock.open("r+") as ours:
        with pytest.raises(BlockingIOError):
            fcntl.flock(ours, fcntl.LOCK_EX | fcntl.LOCK_NB)
        assert len(marked(str(tree))) > 8
        worker.send_signal(number)
        begun = time.monotonic()
        fcntl.flock(ours, fcntl.LOCK_EX)
        left = marked(str(tree))
        assert not left - {worker.pid}
        assert time.monotonic() - begun < 10
    worker.wait()


def test_only_the_supervisor_holds_the_lock(tree: Path, tmp_path: Path, mode: Mode) -> None:
    fd = os.open(tmp_path / "job.lock", os.O_RDWR | os.O_CREAT)
    try:
        done = run("ls -l /proc/*/fd 2>/dev/null; ls /proc/self/fd", tree, mode, lock_fd=fd)
    finally:
        os.close(fd)
    inside = done.output.decode()
    if mode == "required":
        assert "job.lock" not in inside
    assert set(inside.rsplit(":", 1)[1].split()[-4:]) == {"0", "1", "2", "3"}


@pytest.mark.faults
def test_a_supervisor_that_is_killed_takes_its_box_along(tree: Path) -> None:
    if (reason := sandbox.available()) is not None:
        pytest.skip(reason)
    argv = ["/bin/sh", "-c", "touch up; setsid sleep 300 & sleep 301; :", "marker", str(tree)]
    with sandbox.readable(b"") as nothing, open(os.devnull, "w") as out:  # noqa: PTH123
        running = sandbox.start(
            argv, box(tree), mode="required", stdin=nothing, stdout=out.fileno(), stderr=out.fileno()
        )
    while not (tree / "up").exists():
        time.sleep(0.01)
    os.kill(running._supervisor.pid, signal.SIGKILL)
    assert running.wait(10) == 128 + signal.SIGKILL
    assert running.end() == 128 + signal.SIGKILL
    deadline = time.monotonic() + 5
    while marked(str(tree)) and time.monotonic() < deadline:
        time.sleep(0.01)


def test_a_process_that_is_another_users_spares_nobody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    others, told = {1, 3}, []

    def kill(pid: int, number: signal.Signals) -> None:
        if pid in others:
            raise PermissionError
        told.append((pid, number))

    monkeypatch.setattr(os, "kill", kill)
    supervisor._signal_all({1, 2, 3, 4}, signal.SIGKILL)
    assert sorted(told) == [(2, signal.SIGKILL), (4, signal.SIGKILL)]


def test_required_without_bubblewrap_refuses(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    sandbox.available.cache_clear()
    try:
        with pytest.raises(sandbox.SandboxUnavailable, match="install it"):
            run("exit 0", tree, "required")
    finally:
        sandbox.available.cache_clear()


def test_a_bubblewrap_that_does_not_work_is_noticed(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = tmp_path / "bin" / "bwrap"
    fake.parent.mkdir()
    fake.write_text("#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2; exit 1\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{fake.parent}:/usr/bin:/bin")
    sandbox.available.cache_clear()
    try:
        assert "No permissions to create new namespace" in (sandbox.available() or "")
        assert not run("exit 0", tree, "when_available").sandboxed
    finally:
        sandbox.available.cache_clear()


@pytest.mark.parametrize("kind", ["missing", "link"])
def test_a_mount_must_be_a_real_path(tree: Path, tmp_path: Path, kind: str) -> None:
    if (reason := sandbox.available()) is not None:
        pytest.skip(reason)
    source = tmp_path / "source"
    if kind == "link":
        source.symlink_to("/etc")
    wrong = Box(cwd=tree, mounts=(Mount(tree, tree), Mount(source, Path("/given"))), environment={})
    with pytest.raises(sandbox.SandboxError, match=str(source)):
        sandbox.run(["/bin/true"], wrong, mode="required", timeout=5, output_limit=100)
