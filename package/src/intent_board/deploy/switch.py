"""The programs that change the host: activation, dry or real, and the system profile.

The steps are those of nixos-rebuild-ng (nixpkgs, pkgs/by-name/ni/nixos-rebuild-ng, nix.py `set_profile` and
`switch_to_configuration`): `nix-env -p PROFILE --set PATH`, then `systemd-run … PATH/bin/switch-to-configuration`.
The exit codes are those of switch-to-configuration-ng (pkgs/by-name/sw/switch-to-configuration-ng, main.rs).
"""

from __future__ import annotations

import fcntl
import os
import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from intent_board.deploy.host import SWITCH_UNIT, DeployRefused, Host
from intent_board.deploy.run import NOT_FOUND, Done, read_tail, run
from intent_board.deploy.systemd import activation_state, clear_activation, stop_activation

#: switch-to-configuration: another activation holds its lock.
LOCK_BUSY = 11
#: Activated, but units failed.
UNITS_FAILED = 4
_DRY_UNIT = "intent-board-dry-activation"
_DRY_LINE = re.compile(r"would (stop|start|restart|reload) the following (?:user )?units(?: as well)?: (.*)")
_FAILED_LINE = re.compile(r"warning: the following units failed: (.*)")
_PROBE_SECONDS = 60.0
_OUTPUT_BYTES = 1024 * 1024

#: What docs/deployment.md says about each code.  None of them is believed before the host was looked at.
MEANINGS: Mapping[int, str] = {
    0: "done",
    1: "refused",
    2: "the activation script failed, half switched (or nixos-rebuild refused its arguments)",
    UNITS_FAILED: "switched, units failed",
    LOCK_BUSY: "another switch holds the lock",
    100: "needs a reboot",
    101: "unknown, its output broke",
    NOT_FOUND: "the program is not there",
}


def meaning(done: Done) -> str:
    """In words, what the end of a switch claims."""
    if done.timed_out:
        return "its time was over"
    return MEANINGS.get(done.exit_code, "unknown")


def transient(path: str, action: str, unit: str) -> list[str]:
    """The activation in a unit of its own, so that it neither dies with the deployer nor the deployer with it."""
    return [
        "systemd-run",
        "-E", "LOCALE_ARCHIVE",
        "-E", "NIXOS_INSTALL_BOOTLOADER",
        "--collect",
        "--no-ask-password",
        "--pipe",
        "--quiet",
        "--service-type=exec",
        f"--unit={unit}",
        f"{path}/bin/switch-to-configuration",
        action,
    ]  # fmt: skip


def has_store_path(host: Host) -> bool:
    """Whether this host's nixos-rebuild takes `--store-path`.

    It is asked with an action that never activates anything; one without the flag says that it does not know it.
    """
    argv = ["nixos-rebuild", "list-generations", "--no-reexec", "--store-path", "/nonexistent"]
    done = run(argv, host, timeout=_PROBE_SECONDS, environment=host.nix_environment)
    words = (done.answer + done.log).lower()
    unknown = "unrecognized arguments" in words or "unknown option" in words
    return done.exit_code != NOT_FOUND and not done.timed_out and not unknown and "--store-path" in words


def rebuild_command(path: str) -> list[str]:
    """The pinned command line of nixos-rebuild."""
    return ["nixos-rebuild", "switch", "--no-reexec", "--store-path", path]


class Switch:
    """Everything that changes the host.  `logs` begins the name of each step's log file, `keep_open` is the lock."""

    def __init__(self, host: Host, logs: Path, timeout: float, keep_open: Sequence[int] = ()) -> None:
        self._host, self._logs, self._timeout, self._keep_open = host, logs, timeout, tuple(keep_open)
        self._log_file = logs

    def output(self) -> str:
        """The output of the last step, from its end, as far as it is of use."""
        return read_tail(self._log_file, _OUTPUT_BYTES)

    def dry(self, path: str) -> Done:
        """What the activation would do; changes nothing."""
        # Nobody but a deployer runs this unit, so what an earlier one left of it is nobody's and stands in the way.
        stop_activation(self._host, _DRY_UNIT)
        clear_activation(self._host, _DRY_UNIT)
        return self._change(transient(path, "dry-activate", _DRY_UNIT), _DRY_UNIT)

    def rebuild(self, path: str) -> Done:
        """`nixos-rebuild switch` to exactly this path."""
        return self._change(rebuild_command(path), SWITCH_UNIT)

    def set_profile(self, path: str) -> Done:
        """Step one by hand: the next boot's system is this path."""
        return self._change(["nix-env", "-p", str(self._host.profile), "--set", path], None)

    def switch_generation(self, generation: int) -> Done:
        """Put the profile back on a generation that it has."""
        return self._change(["nix-env", "-p", str(self._host.profile), "--switch-generation", str(generation)], None)

    def activate(self, path: str, action: str = "switch") -> Done:
        """Step two by hand: `switch` activates a path, `boot` only writes the boot loader's entries."""
        return self._change(transient(path, action, SWITCH_UNIT), SWITCH_UNIT)

    def _change(self, argv: list[str], unit: str | None) -> Done:
        environment = {**self._host.nix_environment, "NIXOS_INSTALL_BOOTLOADER": "0", "HOME": "/var/empty"}
        self._log_file = self._logs.with_name(f"{self._logs.name}.{time.time_ns()}.log")
        done = run(argv, self._host, timeout=self._timeout, environment=environment, log_file=self._log_file,
                   keep_open=self._keep_open)  # fmt: skip
        if done.timed_out and unit is not None:
            # The activation lives in a unit of its own, which outlived the program that waited for it.
            stop_activation(self._host, unit)
        elif unit == SWITCH_UNIT and not done.ok and done.exit_code != LOCK_BUSY:
            # The program that waited for it may have died of something else, and the activation then goes on.
            wait_or_go_on(self._host, self._timeout)
        return done


def wait_until_free(host: Host, seconds: float | None = None) -> float:
    """Wait until nobody switches this host.  Returns how long that took.

    Raises DeployRefused, with `later` set, when it is still busy after `seconds`, or `host.busy_seconds`.
    """
    started = time.monotonic()
    limit = host.busy_seconds if seconds is None else seconds
    while (busy := _busy(host)) is not None:
        if time.monotonic() - started >= limit:
            raise DeployRefused(f"this host is being switched by somebody else ({busy}); wait for its end", later=True)
        time.sleep(host.poll_seconds)
    return time.monotonic() - started


def wait_or_go_on(host: Host, seconds: float | None = None) -> None:
    """Wait for a switch that goes on, but not for ever: whoever asks looks at the host afterwards."""
    try:
        wait_until_free(host, seconds)
    except DeployRefused:
        return


def _busy(host: Host) -> str | None:
    state = activation_state(host)
    if state == "failed":
        clear_activation(host)
    elif state not in ("inactive", "unknown"):
        return f"{SWITCH_UNIT}.service is {state}"
    try:
        file = os.open(host.switch_lock, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return f"{host.switch_lock} is held"
    finally:
        os.close(file)
    return None


def parse_dry(output: str) -> dict[str, list[str]]:
    """The units that an activation would stop, start, restart and reload."""
    found: dict[str, list[str]] = {"stop": [], "start": [], "restart": [], "reload": []}
    for line in output.splitlines():
        if match := _DRY_LINE.fullmatch(line.strip()):
            found[match.group(1)] += [name.strip() for name in match.group(2).split(",") if name.strip()]
    return found


def parse_failed(output: str) -> tuple[str, ...] | None:
    """The units that the activation says failed, or None when it names none."""
    found = [match.group(1) for line in output.splitlines() if (match := _FAILED_LINE.fullmatch(line.strip()))]
    return tuple(sorted({name.strip() for line in found for name in line.split(",") if name.strip()})) or None
