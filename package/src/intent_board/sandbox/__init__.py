"""The sandbox: one process tree that sees an allow-list of the host, and ends as a whole.

Everything that an agent program or a check may touch is listed in a `Box`; nothing else of the host exists for it.
The boundary is bubblewrap.  Where a board allows running without it (`when_available`), the environment and the end
of every process stay the same, but nothing is hidden, and the result says so.  Between the board and the box stands
a supervisor, a process of its own (supervisor.py).
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from intent_board.sandbox import supervisor
from intent_board.sandbox.supervisor import GRACE_SECONDS, KILL_NOW

Mode = Literal["required", "when_available"]

#: After SIGKILL only the kernel is left to wait for, e.g. for a slow disk.
KILL_SECONDS = 30.0
#: /tmp of a box is memory; without a limit it could take half of the host's.
TMP_BYTES = 4 << 30
SHM_BYTES = 256 << 20
#: The user inside the box.  It maps to the one who runs the board, so files keep their owner, and nobody is root.
BOX_UID = 1000

_PROGRAMS = ("/usr", "/nix/store", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc/static")
_ETC = Path(__file__).parent / "etc"
_TRIM_BYTES = 1 << 20
#: FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE
_PUNCH_HOLE = 3


class SandboxError(Exception):
    """A box that can't be made; `str()` is one sentence: what, where, what to do."""


class SandboxUnavailable(SandboxError):
    """bubblewrap is required and does not work here."""


@dataclass(frozen=True, slots=True)
class Mount:
    """One file or directory of the host at `target` inside the box."""

    source: Path
    target: Path
    writable: bool = False


@dataclass(frozen=True, slots=True)
class Box:
    """What one process may see; everything else does not exist for it.

    `environment` is complete but for PATH, HOME, TMPDIR and LANG, which get defaults when they are left out.
    `network` shares the host's network; without it there is only a loopback of its own.  `nix_daemon` brings in the
    daemon's socket.  Without bubblewrap nothing is mounted: a mount whose target is not its source is then simply
    not there.
    """

    cwd: Path
    mounts: tuple[Mount, ...]
    environment: Mapping[str, str]
    network: bool = False
    nix_daemon: bool = False


@dataclass(frozen=True, slots=True)
class Completed:
    """What a finished process left.  `output` is the end of it; `cut` says that its beginning was dropped."""

    argv: tuple[str, ...]
    exit_code: int
    output: bytes
    timed_out: bool
    cut: bool
    sandboxed: bool
    seconds: float


# --- is there a sandbox --------------------------------------------------------------------------------------------


@functools.cache
def available() -> str | None:
    """Whether bubblewrap works here: None, or one sentence why not.

    It really starts a box (with its own network namespace, the most demanding kind), once per process.
    """
    if shutil.which("bwrap") is None:
        return "bubblewrap (bwrap) is not on PATH; install it, or set [board] sandbox to when_available"
    box = Box(cwd=Path("/"), mounts=(), environment={})
    try:
        tried = subprocess.run(
            _bubblewrap(["/bin/sh", "-c", "exit 0"], box),
            env=environment(box, sandboxed=True),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=30,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"bubblewrap can't start a box: {error}"
    if tried.returncode != 0:
        said = tried.stderr.decode(errors="replace").strip() or f"exit code {tried.returncode}"
        return f"bubblewrap can't start a box ({said.splitlines()[-1]}); allow user namespaces for this service"
    return None


def sandboxed(mode: Mode) -> bool:
    """Whether a box of this mode will really be one.  Raises SandboxUnavailable when it must and can't be."""
    reason = available()
    if reason is not None and mode == "required":
        raise SandboxUnavailable(f"The sandbox is required: {reason}.")
    return reason is None


# --- the command line ----------------------------------------------------------------------------------------------


def command_line(argv: Sequence[str], box: Box, *, mode: Mode, lock_fd: int | None = None) -> tuple[list[str], bool]:
    """The command that runs `argv` in `box`, and whether it is really sandboxed.

    Start it with `environment(box, sandboxed=...)` as its environment, so that no secret stands on a command line
    that other users can read, and hand on no file descriptor but `lock_fd`.  Raises SandboxUnavailable (mode
    `required`, no bubblewrap) and SandboxError (a mount that isn't there).
    """
    boxed = sandboxed(mode)
    # -I and -S: no site packages and no PYTHON* variable of the box's environment reach the supervisor.
    command = [sys.executable, "-I", "-S", supervisor.__file__, str(os.getpid())]
    command += [str(-1 if lock_fd is None else lock_fd), "boxed" if boxed else "open"]
    return [*command, *(_bubblewrap(argv, box) if boxed else argv)], boxed


def environment(box: Box, *, sandboxed: bool) -> dict[str, str]:
    """The whole environment of a process in `box`; nothing of our own is inherited."""
    defaults = {"PATH": _search_path(), "LANG": "C.UTF-8"}
    if sandboxed:
        defaults |= {"HOME": "/tmp/home", "TMPDIR": "/tmp"}
    if box.nix_daemon:
        defaults |= {"NIX_REMOTE": "daemon", "NIX_CONFIG": "experimental-features = nix-command flakes"}
    return defaults | dict(box.environment)


def _search_path() -> str:
    # A unit's PATH names store paths, which a box has; directories that it does not have are of no use there.
    own = [part for part in os.environ.get("PATH", "").split(":") if part.startswith(("/nix/store/", "/usr/"))]
    usual = ["/run/current-system/sw/bin", "/usr/local/bin", "/usr/bin", "/bin", "/usr/sbin", "/sbin"]
    return ":".join(dict.fromkeys([*own, *usual]))


def _bubblewrap(argv: Sequence[str], box: Box) -> list[str]:
    command = [shutil.which("bwrap") or "bwrap", "--die-with-parent", "--new-session", "--cap-drop", "ALL"]
    # Every namespace but cgroup: that one hides nothing here (/sys is not there) and a unit would have to allow it.
    command += ["--unshare-user", "--uid", str(BOX_UID), "--gid", str(BOX_UID)]
    command += ["--unshare-ipc", "--unshare-pid", "--unshare-uts"]
    if not box.network:
        command.append("--unshare-net")
    command += [*_root(box), *_mounts(box), "--remount-ro", "/", "--chdir", str(box.cwd)]
    return [*command, "--", *argv]


def _root(box: Box) -> Iterator[str]:
    """The allow-list that every box has: programs, name resolution, certificates, fresh /proc, /dev and /tmp."""
    for path in map(Path, _PROGRAMS):
        if path.is_symlink():
            yield from ("--symlink", str(path.readlink()), str(path))
        elif path.is_dir():
            yield from ("--ro-bind", str(path), str(path))
    if (system := Path("/run/current-system/sw")).exists():
        yield from ("--symlink", str(system.resolve()), str(system))
    names = ["alternatives", "ld.so.cache", "localtime", "ssl/certs", "ssl/openssl.cnf"]
    names += ["resolv.conf", "hosts"] if box.network else []
    for path in (Path("/etc", name) for name in names):
        # Some are links to places that a box does not have (resolv.conf to /run): the file itself is mounted.
        if path.exists():
            yield from ("--ro-bind", str(path.resolve()), str(path))
    for name in ("passwd", "group", "nsswitch.conf", *(() if box.network else ("hosts",))):
        yield from ("--ro-bind", str(_ETC / name), f"/etc/{name}")
    yield from ("--proc", "/proc", "--dev", "/dev", "--size", str(SHM_BYTES), "--tmpfs", "/dev/shm")
    yield from ("--remount-ro", "/dev", "--size", str(TMP_BYTES), "--tmpfs", "/tmp", "--dir", "/tmp/home")


def _mounts(box: Box) -> Iterator[str]:
    mounts = list(box.mounts)
    if box.nix_daemon:
        daemon = Path("/nix/var/nix/daemon-socket")
        mounts.append(Mount(daemon, daemon))
    # Outer targets first: mounted later, they would hide the inner ones.
    for mount in sorted(mounts, key=lambda mount: len(mount.target.parts)):
        if mount.source.is_symlink() or not mount.source.exists():
            wrong = "is a link" if mount.source.is_symlink() else "does not exist"
            raise SandboxError(f"{mount.source} {wrong}, so it can't be mounted into a sandbox; name the real path.")
        yield from ("--bind" if mount.writable else "--ro-bind", str(mount.source), str(mount.target))


# --- one running box -----------------------------------------------------------------------------------------------


class Running:
    """A started box.  Wait for it, or `end` it; either way no process of it is left afterwards.

    The thread that started it must live as long as it: the kernel's death signal follows the thread.
    """

    def __init__(self, supervisor: subprocess.Popen[bytes], *, sandboxed: bool, scratch: Path | None) -> None:
        self._supervisor, self._scratch, self.sandboxed = supervisor, scratch, sandboxed
        self._fd = os.pidfd_open(supervisor.pid)
        self.exit_code: int | None = None

    def wait(self, seconds: float) -> int | None:
        """The exit code (128+N: ended by signal N), or None when the process still runs after `seconds`."""
        if self.exit_code is None and _ended(self._fd, seconds):
            code = self._supervisor.wait()
            os.close(self._fd)
            if self._scratch is not None:
                shutil.rmtree(self._scratch, ignore_errors=True)
            self.exit_code = code if code >= 0 else 128 - code
        return self.exit_code

    def end(self) -> int:
        """End every process: SIGTERM, GRACE_SECONDS, SIGKILL.  Returns the exit code."""
        return self._signal(signal.SIGTERM, GRACE_SECONDS + KILL_SECONDS)

    def kill(self) -> int:
        """SIGKILL to every process, at once.  Returns the exit code."""
        with undisturbed():
            return self._signal(KILL_NOW, KILL_SECONDS)

    def _signal(self, number: signal.Signals, seconds: float) -> int:
        if self.exit_code is None:
            self._supervisor.send_signal(number)
        code = self.wait(seconds)
        if code is None:
            pid = self._supervisor.pid
            raise SandboxError(f"A process below {pid} can't be ended; look at what it waits for with ps.")
        return code


def start(
    argv: Sequence[str], box: Box, *, mode: Mode, stdin: int, stdout: int, stderr: int, lock_fd: int | None = None
) -> Running:
    """Start `argv` in `box` with these three descriptors and no other.  Raises SandboxError.

    `lock_fd` is held open until no process of the box is left, also when the caller is killed; the box itself never
    has it, since whoever holds a lock's descriptor can release the lock.
    """
    command, boxed = command_line(argv, box, mode=mode, lock_fd=lock_fd)
    env = environment(box, sandboxed=boxed)
    scratch = None
    if not boxed:
        scratch = Path(tempfile.mkdtemp(prefix="intent-board-"))
        env = {"HOME": str(scratch), "TMPDIR": str(scratch)} | env
    supervisor = subprocess.Popen(
        command,
        env=env,
        cwd="/" if boxed else _outside(box),
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        pass_fds=() if lock_fd is None else (lock_fd,),
        start_new_session=True,
    )
    return Running(supervisor, sandboxed=boxed, scratch=scratch)


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """Put off SIGTERM and SIGINT, whose handlers may raise: no started box may get lost between two statements."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _outside(box: Box) -> Path:
    """The working directory of a box that isn't one: where its mount lies on the host."""
    for mount in sorted(box.mounts, key=lambda mount: -len(mount.target.parts)):
        if box.cwd.is_relative_to(mount.target):
            return mount.source / box.cwd.relative_to(mount.target)
    return box.cwd


def run(
    argv: Sequence[str],
    box: Box,
    *,
    mode: Mode,
    timeout: float,
    stdin: bytes = b"",
    output_limit: int,
    lock_fd: int | None = None,
) -> Completed:
    """Run `argv` in `box` to its end; its output is stdout and stderr together, the last `output_limit` bytes of it.

    After `timeout` seconds every process is ended.  An output beyond the limit loses its beginning (`cut`) while the
    process goes on, so neither memory nor disk grows with it.  Raises SandboxError and SandboxUnavailable.
    """
    begun, timed_out = time.monotonic(), False
    running: Running | None = None
    with readable(stdin) as source, _Tail(output_limit) as tail:
        try:
            with undisturbed():
                running = start(argv, box, mode=mode, stdin=source, stdout=tail.fd, stderr=tail.fd, lock_fd=lock_fd)
            while running.wait(0.1) is None:
                tail.trim()
                if time.monotonic() - begun > timeout:
                    timed_out = True
                    running.end()
        except BaseException:
            if running is not None:
                running.kill()
            raise
        output, cut = tail.read(), tail.cut
    assert running.exit_code is not None
    seconds = time.monotonic() - begun
    return Completed(tuple(argv), running.exit_code, output, timed_out, cut, running.sandboxed, seconds)


@contextlib.contextmanager
def readable(data: bytes) -> Iterator[int]:
    """A descriptor that reads `data` and then ends.  A file, since a pipe would need a writer beside the reader."""
    with tempfile.TemporaryFile() as file:
        file.write(data)
        file.flush()
        fd = os.open(f"/proc/self/fd/{file.fileno()}", os.O_RDONLY | os.O_CLOEXEC)
        try:
            yield fd
        finally:
            os.close(fd)


class _Tail:
    """An unnamed output file that keeps only its end on the disk."""

    def __init__(self, limit: int) -> None:
        self._limit, self._freed = limit, 0
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 - closed by __exit__
        # Append mode, since stdout and stderr share it.
        self.fd = os.open(f"/proc/self/fd/{self._file.fileno()}", os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)

    def __enter__(self) -> _Tail:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.fd)
        self._file.close()

    @property
    def cut(self) -> bool:
        return self._size() > self._limit

    def trim(self) -> None:
        """Give the disk back what is older than the last `limit` bytes.

        The file's length stays: a truncation would lose what is written just then.
        """
        old = self._size() - self._limit
        if old - self._freed >= _TRIM_BYTES:
            libc = ctypes.CDLL(None, use_errno=True)
            length = ctypes.c_longlong(old - self._freed)
            if libc.fallocate(self._file.fileno(), _PUNCH_HOLE, ctypes.c_longlong(self._freed), length) != 0:
                reason = os.strerror(ctypes.get_errno())
                raise SandboxError(f"Output in {tempfile.gettempdir()} can't be cut ({reason}); use another TMPDIR.")
            self._freed = old

    def read(self) -> bytes:
        return os.pread(self._file.fileno(), self._limit, max(0, self._size() - self._limit))

    def _size(self) -> int:
        return os.fstat(self.fd).st_size


# --- processes -----------------------------------------------------------------------------------------------------


def _ended(pidfd: int, seconds: float) -> bool:
    waiting = select.poll()
    waiting.register(pidfd, select.POLLIN)
    return bool(waiting.poll(max(0, int(seconds * 1000))))


def is_child(pid: int) -> bool:
    """Whether this process is our child that nobody has waited for: only then its number surely is its own."""
    try:
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def end_session(process: subprocess.Popen[bytes]) -> None:
    """Kill a process that was started in a session of its own with everybody who is left in it, and wait for it."""
    if is_child(process.pid):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
