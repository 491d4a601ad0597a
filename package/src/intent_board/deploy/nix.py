"""Evaluate and build the configuration of one commit, as the build user."""

from __future__ import annotations

import json
import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from intent_board.deploy.host import Account, DeployRefused, Host, label
from intent_board.deploy.mirror import git_environment, is_commit
from intent_board.deploy.run import Done, run

#: The ways on which nix may fetch the mirror and a flake's git inputs; `ext` would run what an address names.
_INPUTS = tuple((f"protocol.{name}.allow", "always") for name in ("file", "ssh", "https", "http", "git"))
_PATH_NAME = re.compile(r"[0-9a-df-np-sv-z]{32}-[A-Za-z0-9+._?=-]{1,211}")


@dataclass(frozen=True, slots=True)
class Built:
    """A system that was built: its store path, and how nix ended."""

    path: str
    done: Done


def is_store_path(text: object, host: Host) -> bool:
    """Whether this is the path of one object in the store, not of something inside it."""
    prefix = f"{host.store_dir}/"
    return isinstance(text, str) and text.startswith(prefix) and _PATH_NAME.fullmatch(text[len(prefix) :]) is not None


def build_command(host: Host, mirror: Path, commit: str, name: str, out_link: Path) -> list[str]:
    """The whole command line.  Raises DeployRefused for a commit that is no full hash, or a name that is no host's."""
    if not is_commit(commit):
        raise DeployRefused(f"{commit[:80]!r} is no full commit hash; only a reviewed commit is built")
    label(name)
    attribute = f"nixosConfigurations.{name}.config.system.build.toplevel"
    return [
        "nix",
        "--extra-experimental-features", "nix-command flakes",
        "build",
        # The repository's own nixConfig could name another substituter, or a hook.
        "--option", "accept-flake-config", "false",
        # An answer of an earlier evaluation is not what this commit evaluates to.
        "--option", "eval-cache", "false",
        "--option", "use-registries", "false",
        # An input that the lock file does not pin would make the system differ from what was reviewed.
        "--no-update-lock-file",
        "--print-build-logs",
        "--json",
        "--out-link", str(out_link),
        f"git+file://{quote(str(mirror))}?rev={commit}#{attribute}",
    ]  # fmt: skip


def build(host: Host, account: Account, mirror: Path, commit: str, name: str, *, link: str, timeout: float) -> Built:
    """Build that commit's system for `name`; `link` is the out-link's name, the GC root.

    Raises DeployRefused when nix fails, when its answer and the out-link disagree, or when the result is no NixOS
    system for this host.
    """
    roots = host.build_dir / "roots"
    environment = git_environment(host, _INPUTS) | {
        **host.nix_environment,
        "XDG_CACHE_HOME": str(host.build_dir / "cache"),
        # Where a user's own nix.conf and the settings he trusts would be.
        "XDG_CONFIG_HOME": "/nonexistent",
        "XDG_DATA_HOME": "/nonexistent",
        "XDG_STATE_HOME": "/nonexistent",
        "NIX_USER_CONF_FILES": "/dev/null",
    }
    made = run(["mkdir", "-p", "-m", "755", str(roots)], host, timeout=60, account=account)
    if not made.ok:
        raise DeployRefused(f"{roots} cannot be made: mkdir {made.why}; look at {host.build_dir}")
    command = build_command(host, mirror, commit, name, roots / link)
    done = run(command, host, timeout=timeout, account=account, environment=environment)
    if not done.ok:
        raise BuildFailed(f"{name!r} of {commit} was not built: nix {done.why}; mend the repository and retry", done)
    path = _answered_path(done, roots / link, host)
    _prove_system(Path(path), name, host)
    return Built(path, done)


class BuildFailed(DeployRefused):
    """The commit does not build; `done` is how nix ended."""

    def __init__(self, sentence: str, done: Done) -> None:
        super().__init__(sentence)
        self.done = done


def _answered_path(done: Done, link: Path, host: Host) -> str:
    try:
        (result,) = json.loads(done.answer)
        path = result["outputs"]["out"]
        linked = str(link.readlink())
    except (ValueError, KeyError, TypeError, RecursionError, OSError):
        raise BuildFailed("nix did not name the one path it built; run its command by hand and look", done) from None
    if not is_store_path(path, host) or linked != path:
        raise BuildFailed(f"nix says it built {str(path)[:200]!r}, the out-link says {linked[:200]!r}; look", done)
    return str(path)


def _prove_system(path: Path, name: str, host: Host) -> None:
    """The checks that nixos-rebuild makes of a path, and one of its own: whose system it is."""
    status = path.lstat() if os.path.lexists(path) else None
    if status is None or not stat.S_ISDIR(status.st_mode):
        raise DeployRefused(f"{path} is no directory in the store; the attribute is no NixOS system")
    for part in ("nixos-version", "bin/switch-to-configuration"):
        if not (path / part).exists():
            raise DeployRefused(f"{path} has no {part}; the attribute is no NixOS system")
    said = _first_line(path / "etc/hostname")
    if said is not None and label(said) != label(name):
        raise DeployRefused(f"the system built for {name!r} calls itself {said!r}; set networking.hostName to {name!r}")


def _first_line(path: Path) -> str | None:
    """The first line of a small file of the built system, which may link to anything; None when there is none."""
    if not path.is_file():
        return None
    with path.open("rb") as file:
        return file.read(256).decode(errors="replace").split("\n")[0][:80]
