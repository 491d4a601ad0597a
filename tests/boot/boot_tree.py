"""A Debian 13 tree with the board in it, as the NixOS module would have set it up.

Three layers, so that only the last is made for each run: the distribution (debootstrap), the package's libraries (pip),
and the host itself (units, TOML, users, a repository).  The first two are kept in a cache outside of the repository.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import tomli_w

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
SUITE = "trixie"
PACKAGES = (
    *(
        "systemd",
        "systemd-sysv",
        "dbus",
        "sudo",
        "sudo-rs",
        "bubblewrap",
        "git",
        "python3",
        "python3-venv",
        "openssh-client",
    ),
    *("util-linux", "ca-certificates", "procps", "iproute2", "passwd", "libpam-systemd"),
    # debootstrap does not find by itself what provides the perl-dbdabi that nix-bin wants.
    *("nix-bin", "libdbi-perl"),
)
STORE = Path("/nix/store")
FAKE = "00000000000000000000000000000000"
VENV = STORE / f"{FAKE}-intent-board"
CODEX = "@openai/codex@0.171.0"


INTENT = """\
# Intent: Lengths and weights

## Goal

The converter also knows lengths and weights.

## Scope

`lib/`, `tests/`, `docs/`

## Out of scope

Everything else.

## Assumptions

None.

## Open risks

None known.

## Success criteria

- `sh check.sh` exits with 0.
"""


class NotHere(Exception):
    """Why no tree can be made on this machine."""


def cache() -> Path:
    """Where the slow layers stay between runs."""
    named = os.environ.get("INTENT_BOARD_BOOT_CACHE")
    return Path(named) if named else Path("/var/cache/intent-board-boot")


def run(*command: str | Path, env: dict[str, str] | None = None, stdin: str | None = None) -> str:
    """A command to its end; its output.  Raises RuntimeError with the end of what it said."""
    done = subprocess.run(
        [str(word) for word in command], env=env, input=stdin, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        said = (done.stdout + done.stderr)[-3000:]
        raise RuntimeError(f"{shlex.join(str(word) for word in command)} ended with {done.returncode}:\n{said}")
    return done.stdout


def mirror() -> str:
    """The Debian mirror that this machine itself uses.  Raises NotHere."""
    apt = Path("/etc/apt")
    for file in sorted(apt.glob("sources.list.d/*.sources")):
        for stanza in file.read_text().split("\n\n"):
            fields = dict(re.findall(r"^(\w[\w-]*):[ \t]*(.*)$", stanza, flags=re.M))
            if "URIs" in fields and "security" not in fields.get("Suites", ""):
                return str(fields["URIs"].split()[0])
    for file in [apt / "sources.list", *sorted(apt.glob("sources.list.d/*.list"))]:
        if file.exists() and (found := re.search(r"^deb\s+(?:\[.*?\]\s+)?(\S+)", file.read_text(), flags=re.M)):
            return found.group(1)
    raise NotHere("apt has no source to take a Debian mirror from; add one to /etc/apt/sources.list.d")


@contextmanager
def locked(name: str) -> Iterator[Path]:
    """A name in the cache that one process at a time makes."""
    cache().mkdir(parents=True, exist_ok=True)
    with (cache() / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield cache() / name


@contextmanager
def held(top: Path) -> Iterator[None]:
    """A run's directory, as long as the run lives."""
    with (top / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def sweep() -> None:
    """Remove what runs left that were killed."""
    for lock in cache().glob("run-*/lock"):
        with lock.open("w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            if (lock.parent / "root").is_mount():
                run("umount", "--lazy", lock.parent / "root")
            shutil.rmtree(lock.parent)


def fingerprint(*parts: object) -> str:
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:12]


# --- the layers ----------------------------------------------------------------------------------------------------


def distribution() -> Path:
    """A plain Debian 13 with systemd."""
    with locked(f"{SUITE}-{fingerprint(PACKAGES)}") as tree:
        if not tree.exists():
            new = tree.with_suffix(".new")
            shutil.rmtree(new, ignore_errors=True)
            command = ["debootstrap", "--variant=minbase", f"--include={','.join(PACKAGES)}", SUITE, new, mirror()]
            run(*command, env=os.environ | _proxy())
            shutil.rmtree(new / "var/cache/apt", ignore_errors=True)
            new.rename(tree)
        return tree


def _proxy() -> dict[str, str]:
    told = run("apt-config", "dump", "Acquire::http::Proxy")
    found = re.search(r'^Acquire::http::Proxy "(.+)";', told, flags=re.M)
    return {"http_proxy": found.group(1)} if found else {}


@contextmanager
def overlay(lower: Sequence[Path], top: Path) -> Iterator[Path]:
    """`lower` with everything that is written going to `top`/upper."""
    upper, work, root = (top / name for name in ("upper", "work", "root"))
    for path in (upper, work, root):
        path.mkdir(parents=True, exist_ok=True)
    options = f"lowerdir={':'.join(map(str, lower))},upperdir={upper},workdir={work}"
    run("mount", "-t", "overlay", "-o", options, "overlay", root)
    try:
        yield root
    finally:
        run("umount", "--lazy", root)


def libraries(base: Path) -> Path:
    """The layer with a virtual environment that holds every library of the package, but not the package."""
    project = tomllib.loads((ROOT / "package/pyproject.toml").read_text())
    wanted = [*project["project"]["dependencies"], *project["build-system"]["requires"]]
    with locked(f"python-{fingerprint(base.name, sorted(wanted))}") as layer:
        if not layer.exists():
            with tempfile.TemporaryDirectory(dir=cache(), prefix="python-") as place:
                with overlay([base], Path(place)) as root:
                    (root / STORE.relative_to("/")).mkdir(parents=True)
                    run("chroot", root, "python3", "-m", "venv", VENV)
                    _pip(root, "install", "--quiet", "--no-warn-script-location", *wanted)
                (Path(place) / "upper").rename(layer)
        return layer


def _pip(root: Path, *arguments: str) -> None:
    """pip inside a tree, with this machine's way to its package index."""
    borrowed = {
        Path("/etc/resolv.conf"),
        Path("/etc/hosts"),
        Path("/etc/pip.conf"),
        Path("/etc/ssl/certs/ca-certificates.crt"),
    }
    own = Path.home() / ".config/pip/pip.conf"
    for path in borrowed:
        if path.exists():
            target = root / path.relative_to("/")
            target.parent.mkdir(parents=True, exist_ok=True)
            target.unlink(missing_ok=True)
            shutil.copyfile(path, target)
    if own.exists():
        (root / "root/.config/pip").mkdir(parents=True, exist_ok=True)
        shutil.copyfile(own, root / "root/.config/pip/pip.conf")
    kept = {key: value for key, value in os.environ.items() if key.startswith("PIP_") or key.lower().endswith("_proxy")}
    environment = kept | {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LANG": "C.UTF-8"}
    run("chroot", root, VENV / "bin/python", "-m", "pip", *arguments, env=environment)


# --- the host ------------------------------------------------------------------------------------------------------


def rendered() -> dict[str, Any]:
    """What the NixOS module made of host.nix."""
    found: dict[str, Any] = json.loads((HERE / "host.json").read_text())
    return found


def inside(root: Path, path: Path | str) -> Path:
    """A path of the tree as this machine sees it."""
    return root / str(path).lstrip("/")


def write(root: Path, path: Path | str, text: str, mode: int = 0o644) -> None:
    target = inside(root, path)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text)
    target.chmod(mode)


def furnish(root: Path) -> None:
    """Put a host into a tree that has the libraries: what nixos-rebuild would have done, and a repository."""
    host = rendered()
    users(root, host["users"])
    package(root)
    configuration(root, host)
    units(root, host)
    programs(root, host)
    repository(root)


def users(root: Path, wanted: dict[str, Any]) -> None:
    for group in wanted["groups"]:
        run("chroot", root, "groupadd", "--system", group)
    for name, user in wanted["users"].items():
        if user.get("isSystemUser"):
            run("chroot", root, "useradd", "--system", "--no-create-home", "--home-dir", user["home"], "--gid",
                user["group"], name)  # fmt: skip
        else:
            run("chroot", root, "useradd", "--create-home", "--shell", "/bin/bash", name)
    for group, members in wanted["groups"].items():
        extra = [name for name, user in wanted["users"].items() if group in user.get("extraGroups", [])]
        for member in [*members.get("members", []), *extra]:
            run("chroot", root, "usermod", "--append", "--groups", group, member)


def package(root: Path) -> None:
    """Install this checkout's package, as it is now."""
    source = inside(root, "/root/package")
    shutil.copytree(ROOT / "package", source, ignore=shutil.ignore_patterns("__pycache__", ".*"))
    _pip(root, "install", "--quiet", "--no-index", "--no-deps", "--no-build-isolation", "/root/package")
    shutil.rmtree(source)


def configuration(root: Path, host: dict[str, Any]) -> None:
    settings = host["settings"]
    write(root, host["configFile"], tomli_w.dumps(settings), 0o444)
    inside(root, "/etc/intent-board").mkdir()
    inside(root, "/etc/intent-board/board.toml").symlink_to(host["configFile"])
    for path, file in host["scripts"].items():
        write(root, path, (ROOT / file).read_text(), 0o444)
    rules = host["tmpfiles"]["10-intent-board"]
    lines = [f"d {path} {rule['d']['mode']} {rule['d']['user']} {rule['d']['group']} -" for path, rule in rules.items()]
    write(root, "/etc/tmpfiles.d/10-intent-board.conf", "\n".join(lines) + "\n")
    for rule in host["sudo"]:
        allowed = [
            f"%{group} ALL=({rule['runAs']}) {':'.join(command['options'])}: {command['command']}"
            for group in rule["groups"]
            for command in rule["commands"]
        ]
        write(root, "/etc/sudoers.d/intent-board", "\n".join(allowed) + "\n", 0o440)
    write(root, "/etc/secrets/openai", "sk-boot-0123456789\n", 0o400)
    write(root, "/etc/secrets/people", "json://127.0.0.1:8766/owner\n", 0o400)
    write(root, "/etc/hostname", "blunix\n")
    write(root, "/etc/hosts", "127.0.0.1 localhost blunix\n")
    write(root, "/etc/systemd/journald.conf.d/boot.conf", "[Journal]\nStorage=persistent\nRateLimitBurst=0\n")


def units(root: Path, host: dict[str, Any]) -> None:
    for name, text in host["units"].items():
        write(root, f"/etc/systemd/system/{name}", text)
    for link in host["links"]:
        path = inside(root, f"/etc/systemd/system/{link}")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(f"../{Path(link).name}")
    # What every NixOS has.
    inside(root, "/nix/var/nix/profiles").mkdir(parents=True)
    # The stub of a socket that NixOS has; nothing in this host uses the daemon.
    write(
        root,
        "/etc/systemd/system/nix-daemon.socket",
        "[Socket]\nListenStream=/run/nix-daemon-stub\nService=stub.service\n",
    )
    write(root, "/etc/systemd/system/stub.service", "[Service]\nExecStart=/bin/true\n")
    write(root, "/srv/receiver.py", (HERE / "boot_receiver.py").read_text())
    receiver = "[Service]\nExecStart=/usr/bin/python3 /srv/receiver.py 8766 /srv/told\n"
    write(root, "/etc/systemd/system/receiver.service", receiver)
    inside(root, "/etc/systemd/system/multi-user.target.wants/receiver.service").symlink_to("../receiver.service")


def programs(root: Path, host: dict[str, Any]) -> None:
    """The store paths that the units name: the agents for real, everything else from Debian."""
    agent = STORE / f"{FAKE}-scripted-agent"
    shutil.copytree(
        ROOT / "scripts/rehearsal", inside(root, agent / "lib"), ignore=shutil.ignore_patterns("__pycache__")
    )
    shutil.copy(HERE / "boot_agent.py", inside(root, agent / "lib"))
    write(root, agent / "bin/scripted-agent", f"#!/bin/sh\nexec /usr/bin/python3 {agent}/lib/boot_agent.py\n", 0o755)
    codex = inside(root, STORE / f"{FAKE}-codex")
    if (found := codex_program()) is not None:
        shutil.copytree(found, codex)
    for path in set(re.findall(rf"{STORE}/{FAKE}-[\w.-]+", json.dumps(host["units"]))):
        if not inside(root, path).exists():
            inside(root, path).mkdir(parents=True)
            (inside(root, path) / "bin").symlink_to("/usr/bin")


def codex_program() -> Path | None:
    """The directory of Codex' native program; installed with npm under CI, elsewhere only used when it is there."""
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = Path(os.environ.get("INTENT_BOARD_AGENT_PROGRAMS") or home / "intent-board/agent-programs")
    pattern = "node_modules/@openai/codex-linux-*/vendor/*"
    if not list(folder.glob(pattern)) and os.environ.get("CI") == "true" and shutil.which("npm"):
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            run("npm", "install", "--no-audit", "--no-fund", "--prefix", folder, CODEX)
    return next((path for path in sorted(folder.glob(pattern)) if (path / "bin/codex").exists()), None)


def repository(root: Path) -> None:
    """The rehearsal's repository as two remotes on this host, and an intent that its agent splits."""
    sys.path.insert(0, str(ROOT / "scripts/rehearsal"))
    import story

    with tempfile.TemporaryDirectory() as place:
        made = story.make_repository(Path(place))
        for name in ("remote", "second"):
            shutil.copytree(made, inside(root, f"/srv/{name}.git"), symlinks=True)
            run("chroot", root, "chown", "-R", "intent-board:intent-board", f"/srv/{name}.git")
    write(root, "/srv/units.md", INTENT)


def missing() -> str | None:
    """Why nothing can be booted here, or None."""
    if os.geteuid() != 0:
        return "only root can boot a tree"
    for program in ("debootstrap", "unshare", "nsenter", "git"):
        if shutil.which(program) is None:
            return f"no {program} on PATH"
    if "overlay" not in Path("/proc/filesystems").read_text():
        return "the kernel has no overlay file system"
    return None
