"""What systemd is asked, and the few things that it is told."""

from __future__ import annotations

import re
import time

from intent_board.deploy.host import SWITCH_UNIT, Host
from intent_board.deploy.run import NOT_FOUND, Done, run

_SECONDS = 60.0
#: While systemd restarts itself, as a switch may make it do, nobody can ask it anything.
_TRIES = 10
_UNIT = re.compile(r"[A-Za-z0-9:_.\\@-]+\.[a-z]+")


def failed_units(host: Host) -> tuple[str, ...] | None:
    """The units that systemd calls failed, or None when it did not answer."""
    done = _ask(host, "list-units", "--state=failed", "--plain", "--no-legend", "--full", "--no-pager")
    if not done.ok or done.cut:
        return None
    names = [line.split()[0] for line in done.answer.splitlines() if line.strip()]
    return tuple(sorted(name for name in names if _UNIT.fullmatch(name)))


def activation_state(host: Host) -> str:
    """The ActiveState of the unit in which activations run; `unknown` when systemd did not say."""
    done = _ask(host, "show", "--property=ActiveState", "--value", f"{SWITCH_UNIT}.service")
    return (done.answer.strip() if done.ok else "") or "unknown"


def stop_activation(host: Host, unit: str = SWITCH_UNIT) -> None:
    """End an activation that took too long.  What it left is looked at by whoever asked for this."""
    run(["systemctl", "stop", f"{unit}.service"], host, timeout=_SECONDS)


def clear_activation(host: Host, unit: str = SWITCH_UNIT) -> None:
    """Forget an activation that failed and that nobody collected: it would keep the next one from starting."""
    run(["systemctl", "reset-failed", f"{unit}.service"], host, timeout=_SECONDS)


def _ask(host: Host, *words: str) -> Done:
    for _ in range(_TRIES):
        done = run(["systemctl", *words], host, timeout=_SECONDS)
        if done.ok or done.exit_code == NOT_FOUND:
            break
        time.sleep(host.poll_seconds)
    return done
