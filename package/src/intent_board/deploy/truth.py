"""What really runs: links, units and health checks, looked at.  No exit code is believed here."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from intent_board.config import Deploy
from intent_board.deploy.host import Host
from intent_board.deploy.run import Done, run
from intent_board.deploy.systemd import failed_units

_GENERATION = re.compile(r"-(\d+)-link")
_HEALTH_PAUSE = 2.0


@dataclass(frozen=True, slots=True)
class Seen:
    """The host at one moment.  None is "could not be found out", which is never good news."""

    current: str | None
    profile: str | None
    generation: int | None
    failed: tuple[str, ...] | None

    def as_data(self) -> dict[str, object]:
        """The same as JSON data for a record."""
        failed = list(self.failed) if self.failed is not None else None
        return {"current": self.current, "profile": self.profile, "generation": self.generation, "failed": failed}

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Seen:
        """What `as_data` wrote."""
        failed = data["failed"]
        return cls(data["current"], data["profile"], data["generation"], None if failed is None else tuple(failed))

    def runs(self, path: str) -> bool:
        """Whether the running system and the next boot's are both this path."""
        return self.current == path and self.profile == path


def look(host: Host) -> Seen:
    """Read the links of the running system and of the profile, and ask systemd which units failed."""
    generation = _generation(host.profile)
    return Seen(_target(host.current_system), _target(host.profile), generation, failed_units(host))


def _target(link: Path) -> str | None:
    return os.path.realpath(link) if os.path.lexists(link) and link.exists() else None


def _generation(profile: Path) -> int | None:
    try:
        found = re.fullmatch(re.escape(profile.name) + _GENERATION.pattern, profile.readlink().name)
    except OSError:
        return None
    return int(found.group(1)) if found else None


def check_health(host: Host, deploy: Deploy) -> list[Done]:
    """Run every health check, in order, until it says 0 or its time is over.  One result for each."""
    return [_until_healthy(list(argv), host, deploy.health_timeout_seconds) for argv in deploy.health_checks]


def _until_healthy(argv: list[str], host: Host, seconds: float) -> Done:
    # A service that was just started needs a moment before it answers.
    deadline = time.monotonic() + seconds
    while True:
        done = run(argv, host, timeout=max(deadline - time.monotonic(), 0.1))
        if done.ok or time.monotonic() + _HEALTH_PAUSE >= deadline:
            return done
        time.sleep(_HEALTH_PAUSE)


def complaints(before: Seen, after: Seen, path: str, health: list[Done]) -> list[str]:
    """Everything that speaks against `path` running well, a sentence each; none is what "healthy" means."""
    found = []
    if after.current != path:
        found.append(f"the running system is {after.current or 'unknown'}, not {path}")
    if after.profile != path:
        found.append(f"the system profile is {after.profile or 'unknown'}, not {path}")
    if after.failed is None:
        found.append("systemd did not say which units failed")
    elif new := sorted(set(after.failed) - set(before.failed or ())):
        found.append(f"units failed: {', '.join(new)}")
    found += [f"health check {' '.join(done.argv)!r} {done.why}" for done in health if not done.ok]
    return found
