"""The one host: where its things are, and the proof that this is it.

Everything of the system that the deployer touches is named in `Host`, whose defaults are a real NixOS host.  Another
`Host` can only be given by code that calls the functions here; no argument of board-deploy and no environment
variable reaches it.
"""

from __future__ import annotations

import os
import pwd
import re
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from intent_board.config import DEFAULT_PATH, Deploy

#: Never deployed to, whatever a configuration says.
LOCKED_HOSTS = frozenset({"tnix", "pinix"})
#: nixos-rebuild runs the activation in a transient unit of this name.  With the same name in our own steps, systemd
#: itself refuses a second activation beside one that a person started.
SWITCH_UNIT = "nixos-rebuild-switch-to-configuration"

_LABEL = re.compile(r"[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?")


class DeployRefused(Exception):
    """A deployment that must not happen, or not now; `str()` is one sentence: what, where, what to do.

    `later` is true when nothing is wrong with the card and the same call may succeed by itself later; `not_before`
    (epoch seconds) then says when, where that is known.
    """

    def __init__(self, sentence: str, *, later: bool = False, not_before: float = 0.0) -> None:
        super().__init__(sentence)
        self.later, self.not_before = later, not_before


@dataclass(frozen=True, slots=True)
class Account:
    """A system user as the deployer needs it."""

    name: str
    uid: int
    gid: int


@dataclass(frozen=True, slots=True)
class Host:
    """The things of one host.  The defaults are those of NixOS; tests pass a scratch host."""

    hostname: Callable[[], str] = socket.gethostname
    hostname_file: Path = Path("/etc/hostname")
    nixos_marker: Path = Path("/etc/NIXOS")
    config_file: Path = DEFAULT_PATH
    profile: Path = Path("/nix/var/nix/profiles/system")
    current_system: Path = Path("/run/current-system")
    store_dir: Path = Path("/nix/store")
    switch_lock: Path = Path("/run/nixos/switch-to-configuration.lock")
    #: Made once at boot.  (The kernel's boot id is not visible in the deployer's sandbox.)
    booted_system: Path = Path("/run/booted-system")
    #: Records and the lock; owned by root, nobody else reads it.
    deploy_dir: Path = Path("/var/lib/intent-board-deploy")
    #: The build user's mirror, caches and out-links; root writes nothing there.
    build_dir: Path = Path("/var/lib/intent-board-build")
    service_user: str | Account = "intent-board"
    build_user: str | Account = "intent-board-deploy"
    search_path: str = field(default_factory=lambda: os.environ.get("PATH", os.defpath))
    #: Root would otherwise open the Nix store by itself, which the unit's sandbox forbids.
    nix_environment: Mapping[str, str] = field(default_factory=lambda: {"NIX_REMOTE": "daemon"})
    #: How long somebody else's switch is waited for, and how often it is looked at.
    busy_seconds: float = 300.0
    poll_seconds: float = 2.0

    @property
    def records_dir(self) -> Path:
        return self.deploy_dir / "records"

    def boot(self) -> str:
        """A word that differs between two boots; `unknown` when there is none, which proves no reboot."""
        try:
            status = self.booted_system.lstat()
        except OSError:
            return "unknown"
        return f"{status.st_ino}-{status.st_mtime_ns}"

    def account(self, user: str | Account) -> Account:
        """The system user of this name.  Raises DeployRefused when the host has none."""
        if isinstance(user, Account):
            return user
        try:
            entry = pwd.getpwnam(user)
        except KeyError:
            raise DeployRefused(
                f"this host has no user {user!r}; enable services.intent-board in its configuration"
            ) from None
        if entry.pw_uid == 0:
            raise DeployRefused(f"user {user!r} is root under another name; give it a uid of its own")
        return Account(user, entry.pw_uid, entry.pw_gid)


def label(name: str) -> str:
    """The first label of a host name in lower case.  Raises DeployRefused when it is not one.

    Host names compare without case and, since the configuration names none, without their domain.
    """
    first = name.strip().removesuffix(".").split(".")[0]
    if not _LABEL.fullmatch(first):
        raise DeployRefused(f"{name[:80]!r} is not a host name; set networking.hostName")
    return first.lower()


def prove_identity(host: Host, deploy: Deploy) -> str:
    """Whether this machine is the configured host, and may be deployed to.

    Returns the host's name as the configuration spells it.  Raises DeployRefused when the kernel's name, /etc/hostname
    and `[deploy] host` disagree, when the host is locked (DESIGN promise 11), or when this is no NixOS.
    """
    locked = LOCKED_HOSTS | {label(name) for name in deploy.locked_hosts}
    wanted = label(deploy.host)
    kernel = label(host.hostname())
    try:
        written = label(host.hostname_file.read_text(errors="replace"))
    except OSError as error:
        raise DeployRefused(
            f"{host.hostname_file} cannot be read ({error.strerror}); set networking.hostName"
        ) from None
    for name, source in ((wanted, "deploy.host"), (kernel, "the kernel"), (written, str(host.hostname_file))):
        if name in locked:
            raise DeployRefused(
                f"{name!r} (from {source}) is a locked host and is never deployed to; run this on {wanted!r}"
            )
    if kernel != wanted or written != wanted:
        raise DeployRefused(
            f"this host is {kernel!r} by its kernel and {written!r} by {host.hostname_file}, but deploy.host is "
            f"{wanted!r}; deploy on that host, there is no remote mode"
        )
    if not host.nixos_marker.exists():
        raise DeployRefused(f"{host.nixos_marker} is missing, so this is no NixOS; deploy on a NixOS host")
    return deploy.host


def prove_configuration(host: Host) -> None:
    """Whether only root can have written the configuration.

    Raises DeployRefused when the file, or what it links to, belongs to somebody else or others may write it.
    """
    for path in (host.config_file, host.config_file.parent):
        try:
            status = path.stat()
        except OSError as error:
            raise DeployRefused(f"{path} cannot be read ({error.strerror}); enable services.intent-board") from None
        if status.st_uid != 0 or status.st_mode & 0o022:
            raise DeployRefused(f"{path} can be written by others than root, so it is not believed; chown and chmod it")
