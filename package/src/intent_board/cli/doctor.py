"""`board doctor`: what is wrong with this host that no configuration shows."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO, TYPE_CHECKING

import click

from intent_board.cli.context import example, json_option, print_json
from intent_board.cli.desk import admitted
from intent_board.cli.failure import visible
from intent_board.cli.times import ago

if TYPE_CHECKING:
    from intent_board.config import BoardConfig, Repository

#: A store that can't grow stops the whole board; this much is left for the owner to notice in time.
LEAST_FREE_BYTES = 1024**3
REMOTE_SECONDS = 20.0
TIMER = "intent-board-scheduler.timer"
#: systemd's own exit codes, for what goes wrong before a program of ours runs.
BEFORE_OUR_CODE: Mapping[str, str] = {
    "203": "its program cannot be started; rebuild the system",
    "217": "its user does not exist; rebuild the system",
    "226": "a directory that it needs is missing; systemd-tmpfiles --create",
    "243": "a credential is missing or cannot be read; put its file where the configuration says",
}


@click.command(epilog=example("board doctor", "board doctor --json"))
@json_option
@click.pass_context
def doctor(context: click.Context, as_json: bool) -> None:
    """Look for what keeps this host from working: a line each, with what to do.

    Exits with 1 when there is something.
    """
    config, _ = admitted(context)
    found = {name: list(check(config)) for name, check in CHECKS.items()}
    if as_json:
        print_json(found)
    else:
        for name, faults in found.items():
            for fault in faults:
                click.echo(visible(f"{name}: {fault}"))
    if any(found.values()):
        context.exit(1)
    if not as_json:
        click.echo(f"ok ({', '.join(CHECKS)})")


# --- the checks: each yields one sentence a fault ------------------------------------------------------------------


def _owner(config: BoardConfig) -> Iterator[str]:
    try:
        pwd.getpwnam(config.board.owner)
    except KeyError:
        yield f"{config.board.owner!r} is no user of this host, so nobody can decide anything; correct board.owner"


def _store(config: BoardConfig) -> Iterator[str]:
    from intent_board.store import StoreError, open_store

    try:
        open_store(config).close()
    except StoreError as error:
        yield str(error)
        return
    if (free := shutil.disk_usage(config.state_dir).free) < LEAST_FREE_BYTES:
        yield f"only {free // 1024**2} MiB are free below {config.state_dir}; make room before the board stops"


def _sandbox(config: BoardConfig) -> Iterator[str]:
    from intent_board import sandbox

    if (reason := sandbox.available()) is not None:
        unprotected = "" if config.board.sandbox == "required" else "; agents run unprotected until then"
        yield f"{reason}{unprotected}"


def _programs(config: BoardConfig) -> Iterator[str]:
    used = {lane.runtime for lane in config.lanes.values()} | {q.runtime for q in config.queues.values() if q.runtime}
    for name in sorted(used):
        command = config.runtimes[name].command[0]
        if shutil.which(command) is None:
            yield f"the program {command} of runtime {name} is not there or not executable; install it, or correct it"
    for name, role in config.roles.items():
        if role.contract is not None and not os.access(role.contract, os.R_OK):
            yield f"the text {role.contract} of role {name} cannot be read; correct roles.{name}.contract"


def _remotes(config: BoardConfig) -> Iterator[str]:
    # Side by side: one that does not answer takes its whole time.
    with ThreadPoolExecutor(max_workers=8) as pool:
        answers = pool.map(lambda item: list(_remote(*item)), config.repositories.items())
        for faults in answers:
            yield from faults


def _remote(name: str, repository: Repository) -> Iterator[str]:
    from intent_board.workspace import WorkspaceError
    from intent_board.workspace.remote import scheme

    url = repository.remote_url
    try:
        kind = scheme(url)
    except WorkspaceError as error:
        yield f"repository {name}: {error}"
        return
    if kind == "file":
        yield from _local(name, Path(url.removeprefix("file://")))
        return
    host, port = _address(url, kind)
    if (reason := _unreachable(host, port)) is not None:
        yield f"repository {name}: {host} port {port} cannot be reached ({reason}); look at the network and remote_url"
    elif kind == "ssh":
        yield from _host_key(name, repository, host, port)
    elif repository.fetch_credential is None and (reason := _unreadable(url)) is not None:
        yield f"repository {name}: nobody may read it without a key ({reason}); set its fetch_credential"


def _local(name: str, path: Path) -> Iterator[str]:
    if not path.is_dir():
        yield f"repository {name}: {path} is no directory that the service user sees; correct its remote_url"
    elif not os.access(path / "objects" if (path / "objects").is_dir() else path / ".git/objects", os.W_OK):
        yield f"repository {name}: the service user may not write to {path}; give it the directory's group or owner"


def _address(url: str, kind: str) -> tuple[str, int]:
    from urllib.parse import urlsplit

    usual = {"ssh": 22, "https": 443, "http": 80, "git": 9418}[kind]
    if "://" not in url:
        return url.split(":")[0].rsplit("@", 1)[-1], usual
    parts = urlsplit(url)
    return parts.hostname or "", parts.port or usual


def _unreachable(host: str, port: int) -> str | None:
    import socket

    try:
        socket.create_connection((host, port), timeout=REMOTE_SECONDS / 2).close()
    except OSError as error:
        return error.strerror or str(error)
    return None


def _unreadable(url: str) -> str | None:
    environment = {"PATH": os.environ.get("PATH", os.defpath), "GIT_TERMINAL_PROMPT": "0", "GIT_CONFIG_NOSYSTEM": "1"}
    code, said = _run(["git", "ls-remote", "--heads", "--", url], environment)
    return None if code == 0 else said


def _host_key(name: str, repository: Repository, host: str, port: int) -> Iterator[str]:
    file = repository.known_hosts or Path("/etc/ssh/ssh_known_hosts")
    if not os.access(file, os.R_OK):
        yield f"repository {name}: the host keys {file} cannot be read, so ssh trusts nobody; set its known_hosts"
        return
    wanted = host if port == 22 else f"[{host}]:{port}"
    code, _ = _run(["ssh-keygen", "-F", wanted, "-f", str(file)])
    if code == 1:
        yield f"repository {name}: {file} has no key of {wanted}, so ssh does not trust it; add it to known_hosts"


def _nix(config: BoardConfig) -> Iterator[str]:
    if not any(repository.nix_daemon for repository in config.repositories.values()):
        return
    command = ["nix", "--extra-experimental-features", "nix-command", "store", "ping", "--store", "daemon"]
    code, said = _run(command)
    if code != 0:
        yield f"the nix daemon does not serve this user ({said}); start it, or add the user to its allowed-users"


def _deployer(config: BoardConfig) -> Iterator[str]:
    if config.deploy.repository is None:
        return
    from intent_board.deploy.host import DeployRefused, Host, prove_configuration, prove_identity
    from intent_board.deploy.switch import has_store_path

    host = Host()
    try:
        prove_identity(host, config.deploy)
        prove_configuration(host)
    except DeployRefused as error:
        yield f"nothing can be deployed: {error}"
        return
    if not has_store_path(host):
        yield "nixos-rebuild is missing or too old for --store-path; take nixos-rebuild-ng of a newer nixpkgs"


def _units(config: BoardConfig) -> Iterator[str]:
    properties = "Id,LoadState,ActiveState,SubState,Result,ExecMainStatus"
    code, told = _run(["systemctl", "show", f"--property={properties}", TIMER, "intent-board*"], keep=True)
    if code != 0:
        return  # no systemd here: whoever starts the programs looks after them
    for block in told.split("\n\n"):
        unit = dict(line.split("=", 1) for line in block.splitlines() if "=" in line)
        if unit.get("LoadState") != "loaded":
            continue
        if unit["ActiveState"] == "failed" or unit["SubState"] == "auto-restart":
            yield _failing(config, unit["Id"], unit.get("Result", ""), unit.get("ExecMainStatus", ""))
        if unit["Id"] == TIMER and unit["ActiveState"] != "active":
            yield "the scheduler's timer does not run, so nothing is dispatched; systemctl start intent-board.target"


def _failing(config: BoardConfig, unit: str, result: str, status: str) -> str:
    advice = BEFORE_OUR_CODE.get(status, f"journalctl --unit {unit} says more")
    if status == "243":
        _, text = _run(["systemctl", "cat", unit], keep=True)
        files = [line.split(":", 1)[-1] for line in text.splitlines() if line.startswith("LoadCredential=")]
        advice += f" ({', '.join(files)})" if files else ""
    # OnFailure= leaves a note, since a unit whose credential is missing never reaches a program of ours.
    note = config.state_dir / "failures" / unit
    noted = f", last noted {ago(note.stat().st_mtime, time.time())} ago" if note.is_file() else ""
    return f"{unit} fails ({result}, status {status}{noted}): {advice}"


def _run(
    command: Sequence[str], environment: Mapping[str, str] | None = None, *, keep: bool = False
) -> tuple[int, str]:
    """A program's exit code and the last line it said, or with `keep` its whole output; 127 when it is not there."""
    from intent_board.sandbox import end_session

    # Files and not pipes, since whatever it started may hold a pipe open for ever.
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        try:
            process = subprocess.Popen(
                list(command), env=environment, stdin=subprocess.DEVNULL, stdout=out, stderr=err, start_new_session=True
            )
        except FileNotFoundError:
            return 127, f"there is no {command[0]} on PATH"
        try:
            process.wait(REMOTE_SECONDS)
        except subprocess.TimeoutExpired:
            return 124, f"{command[0]} did not answer within {REMOTE_SECONDS:.0f} s"
        finally:
            end_session(process)
        told, complaint = (_text(file) for file in (out, err))
    if keep:
        return process.returncode, told
    lines = (complaint or told).strip().splitlines()
    return process.returncode, lines[-1] if lines else f"exit code {process.returncode}"


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode(errors="replace")


CHECKS: Mapping[str, Callable[[BoardConfig], Iterator[str]]] = {
    "owner": _owner,
    "store": _store,
    "sandbox": _sandbox,
    "programs": _programs,
    "remotes": _remotes,
    "nix daemon": _nix,
    "deployment": _deployer,
    "units": _units,
}
