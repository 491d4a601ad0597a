"""A booted tree: commands in it, its units and its cards, and the power cut."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import boot_tree

Value = TypeVar("Value")
HERE = Path(__file__).parent
BOARD = boot_tree.VENV / "bin/board"
CONFIG = "/etc/intent-board/board.toml"


class Machine:
    """One machine: `boot` it, run things in it, cut its power, boot it again."""

    def __init__(self, root: Path, log: Path) -> None:
        self.root, self.log = root, log
        self._outer: subprocess.Popen[bytes] | None = None
        self._pid = 0
        # Of this machine alone: another one of the same test run may be up.
        self._cgroup = _cgroups() / f"intent-board-boot-{os.getpid()}-{log.parent.name}"

    # --- power -------------------------------------------------------------------------------------------------------

    def boot(self) -> float:
        """Start systemd and wait until it has; the seconds that took."""
        begun = time.monotonic()
        # Whatever ends this test run ends the machine.
        command = ["setpriv", "--pdeathsig=KILL", "bash", HERE / "namespace.sh", self.root, self.log, self._cgroup]
        self._outer = subprocess.Popen(command)
        self._pid = until(self._init, "systemd as PID 1", 30)
        until(lambda: self.try_("systemctl", "is-system-running").stdout.strip() in ("running", "degraded"), "boot", 90)
        return time.monotonic() - begun

    def _init(self) -> int:
        assert self._outer is not None
        if self._outer.poll() is not None:
            raise AssertionError(f"the machine did not start:\n{self.log.read_text()[-2000:]}")
        children = Path(f"/proc/{self._outer.pid}/task/{self._outer.pid}/children").read_text().split()
        if not children:
            return 0
        name = Path(f"/proc/{children[0]}/comm").read_text().strip()
        return int(children[0]) if name == "systemd" else 0

    def power_cut(self) -> None:
        """End every process at once, as a power cut would.  What was not on the disk is gone."""
        if self._outer is not None:
            os.kill(self._pid or self._outer.pid, signal.SIGKILL)
            self._outer.wait()
            self._outer = None
            _remove_cgroup(self._cgroup)

    # --- commands ----------------------------------------------------------------------------------------------------

    def try_(self, *command: str | Path, user: str | None = None, stdin: str | None = None) -> Any:
        """A command in the machine, as root or as a user with a clean environment; whatever came of it."""
        if user is not None:
            command = ("runuser", "-u", user, "--", *command)
        environment = {"PATH": f"{boot_tree.VENV}/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8", "HOME": "/"}
        enter = ["nsenter", "-t", str(self._pid), "--all", "env", "--chdir=/", *map(str, command)]
        # In a session of its own: `kill 0` in the machine must not mean the test run outside of it.
        return subprocess.run(
            enter,
            env=environment,
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
            start_new_session=True,
        )

    def run(self, *command: str | Path, user: str | None = None, stdin: str | None = None) -> str:
        """The same; fails when the command does."""
        done = self.try_(*command, user=user, stdin=stdin)
        assert done.returncode == 0, f"{command} ended with {done.returncode}:\n{done.stdout}{done.stderr}"
        return str(done.stdout)

    def path(self, path: str) -> Path:
        """A file of the machine, as this one sees it."""
        return boot_tree.inside(self.root, path)

    # --- units -------------------------------------------------------------------------------------------------------

    def show(self, unit: str, *properties: str) -> dict[str, str]:
        told = self.run("systemctl", "show", unit, f"--property={','.join(properties)}")
        return dict(line.split("=", 1) for line in told.splitlines())

    def failed(self) -> set[str]:
        """The board's units that are failed now."""
        listed = self.run("systemctl", "list-units", "intent-board*", "--all", "--output=json")
        return {unit["unit"] for unit in json.loads(listed) if unit["active"] == "failed"}

    def console(self) -> str:
        """What systemd itself said since the last boot."""
        return self.run("journalctl", "--no-pager", "--boot", "--output=cat", "_PID=1")

    def journal(self, *units: str, lines: int = 60) -> str:
        return self.run("journalctl", "--no-pager", f"--lines={lines}", *(f"--unit={unit}" for unit in units))

    @contextmanager
    def undisturbed(self) -> Iterator[None]:
        """Before all other processes of this machine, so that a figure is about the product and not about them."""
        subprocess.run(["chrt", "--rr", "--pid", "1", str(self._pid)], check=True)
        try:
            yield
        finally:
            subprocess.run(["chrt", "--other", "--pid", "0", str(self._pid)], check=True)

    def reload(self) -> None:
        self.run("systemctl", "daemon-reload")

    def drop_in(self, unit: str, text: str | None) -> None:
        """Change a unit's [Service]; None takes the change away again."""
        place = self.path(f"/etc/systemd/system/{unit}.d")
        if text is None:
            shutil.rmtree(place)
        else:
            place.mkdir(exist_ok=True)
            (place / "test.conf").write_text(f"[Service]\n{text}\n")
        self.reload()

    # --- the board ---------------------------------------------------------------------------------------------------

    def board(self, *arguments: str, user: str = "lukas", stdin: str | None = None) -> str:
        return self.run(BOARD, *arguments, user=user, stdin=stdin)

    def cards(self) -> dict[str, dict[str, Any]]:
        listed = json.loads(self.board("list", "--all", "--json"))
        return {card["slug"]: card for card in listed}

    def phase(self, slug: str) -> str:
        return str(self.cards().get(slug, {}).get("phase", ""))

    def until_phase(self, slug: str, *phases: str, seconds: float = 180) -> str:
        """Wait until a card stands in one of the phases.  Fails with what the board says about it."""
        try:
            return until(lambda: (now := self.phase(slug)) in phases and now, f"{slug} in {phases}", seconds)
        except AssertionError as error:
            why = self.try_(BOARD, "why", slug, user="lukas").stdout
            listed = self.try_(BOARD, "list", "--all", user="lukas").stdout
            log = self.run("journalctl", "--no-pager", "--lines=80", "--unit=intent-board*")
            raise AssertionError(f"{error}\n{why}\n{listed}\n{log}") from None

    def bell(self, slot: str) -> Path:
        return self.path(f"/var/lib/intent-board/doorbells/{slot}")

    def ring(self, slot: str) -> None:
        """Ring as the store does: an empty file of the service user."""
        self.run("touch", f"/var/lib/intent-board/doorbells/{slot}", user="intent-board")


def until(look: Callable[[], Value], what: str, seconds: float, every: float = 0.05) -> Value:
    """The first true answer.  Fails after `seconds`."""
    deadline = time.monotonic() + seconds
    while True:
        if found := look():
            return found
        assert time.monotonic() < deadline, f"{what}: not within {seconds:.0f} s"
        time.sleep(every)


def _cgroups() -> Path:
    """Where this machine has cgroups v2."""
    for line in Path("/proc/self/mounts").read_text().splitlines():
        _, target, kind, *_ = line.split()
        if kind == "cgroup2":
            return Path(target)
    raise boot_tree.NotHere("no cgroup v2 hierarchy is mounted")


def _remove_cgroup(top: Path) -> None:
    # The kernel lets go of the processes that died with PID 1 a moment after it: a cgroup is busy until then.
    deadline = time.monotonic() + 10
    while True:
        try:
            for directory, _, _ in os.walk(top, topdown=False):
                Path(directory).rmdir()
            return
        except OSError as error:
            if error.errno != errno.EBUSY or time.monotonic() > deadline:
                raise
        time.sleep(0.05)


@contextmanager
def machine() -> Iterator[Machine]:
    """A furnished machine, not yet booted.  Its tree is gone afterwards."""
    base = boot_tree.distribution()
    layer = boot_tree.libraries(base)
    boot_tree.sweep()
    with tempfile.TemporaryDirectory(dir=boot_tree.cache(), prefix="run-") as place:
        top = Path(place)
        with boot_tree.held(top), boot_tree.overlay([layer, base], top) as root:
            boot_tree.furnish(root)
            made = Machine(root, top / "boot.log")
            try:
                yield made
            finally:
                made.power_cut()
