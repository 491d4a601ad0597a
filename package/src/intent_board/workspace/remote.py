"""How a repository's remote is reached: transport, credential and known hosts, as settings and environment of git."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Protocol
from urllib.parse import urlsplit

from intent_board.config import Repository
from intent_board.workspace.errors import WorkspaceError

Settings = tuple[tuple[str, str], ...]
#: The other side checks by itself who owns a repository on this machine.  This one was configured, so its owner is
#: meant; a setting of ours does not reach that process, its command line does.
UPLOAD_PACK = "git -c safe.directory=* upload-pack"
FETCH = "+refs/heads/*:refs/heads/*"


class Credentials(Protocol):
    """Where this process finds its credentials; the worker unit decides which it has."""

    def path(self, name: str) -> Path | None:
        """The file that holds a credential, or None when this process was not given it."""


def scheme(url: str) -> str:
    """The transport that git takes for an address: file, ssh, https, http or git.

    Raises WorkspaceError for any other; `host:path` means ssh, as git has it.
    """
    if match := re.match(r"([A-Za-z][A-Za-z0-9+.-]*)://", url):
        found = match.group(1).lower().replace("git+ssh", "ssh").replace("ssh+git", "ssh")
        if found not in {"file", "ssh", "https", "http", "git"}:
            raise WorkspaceError(
                "failed", f"the remote's transport {found!r} is not supported; use ssh, https or a path"
            )
        return found
    return "ssh" if ":" in url.split("/")[0] else "file"


def access(
    name: str, repository: Repository, credentials: Credentials, *, push: bool = False
) -> tuple[Settings, dict[str, str]]:
    """Settings and environment with which git reaches the remote of the repository `name` as `origin`.

    Reading uses the key that may only read; where there is none, the one that may push if this process was given it
    (only publish units are), else no key at all.  No secret is in either, only the name of the file that holds it.
    Raises WorkspaceError when the credential is missing here or would travel unprotected.
    """
    url = repository.remote_url
    kind = scheme(url)
    settings: Settings = (
        ("remote.origin.url", url),
        ("remote.origin.fetch", FETCH),
        (f"protocol.{kind}.allow", "always"),
    )
    secret = _secret(name, repository, credentials, push)
    if kind == "file":
        return (
            *settings,
            ("remote.origin.uploadpack", UPLOAD_PACK),
            ("remote.origin.receivepack", "git -c safe.directory=* receive-pack"),
        ), {}
    if kind == "ssh":
        return settings, {"GIT_SSH_COMMAND": _ssh(repository.known_hosts, secret), "GIT_SSH_VARIANT": "ssh"}
    if secret is None:
        return settings, {}
    return settings + _helper(name, url, kind, secret), {}


def _secret(name: str, repository: Repository, credentials: Credentials, push: bool) -> Path | None:
    wanted = repository.credential if push else repository.fetch_credential
    if wanted is None:
        return None if push or repository.credential is None else credentials.path(repository.credential)
    path = credentials.path(wanted)
    if path is None or not path.is_file():
        raise WorkspaceError(
            "failed",
            f"credential {wanted!r} of repository {name!r} is not loaded here; add it to the unit's credentials",
        )
    return path


def _ssh(known_hosts: Path | None, key: Path | None) -> str:
    # No configuration and no agent of the host: the key and the known hosts that the board's file names, or none.
    options = {
        "BatchMode": "yes",
        "StrictHostKeyChecking": "yes",
        "UpdateHostKeys": "no",
        "UserKnownHostsFile": str(known_hosts) if known_hosts else "/dev/null",
        "GlobalKnownHostsFile": "/dev/null" if known_hosts else "/etc/ssh/ssh_known_hosts",
        "IdentitiesOnly": "yes",
        "IdentityAgent": "none",
        "PasswordAuthentication": "no",
        "ForwardAgent": "no",
        "ClearAllForwardings": "yes",
        "PermitLocalCommand": "no",
        "ControlMaster": "no",
        "ControlPath": "none",
        "ConnectTimeout": "30",
        "ServerAliveInterval": "30",
        "ServerAliveCountMax": "4",
    }
    words = ["ssh", "-F", "/dev/null", "-i", str(key or "/dev/null").replace("%", "%%")]
    for option, value in options.items():
        # ssh splits a value at spaces unless it stands in quotes, and fills in what follows a percent sign.
        value = value.replace("%", "%%")
        words += ["-o", f'{option}="{value}"' if " " in value else f"{option}={value}"]
    return shlex.join(words)


def _helper(name: str, url: str, kind: str, secret: Path) -> Settings:
    address = urlsplit(url)
    if kind != "https" and address.hostname not in {"localhost", "127.0.0.1", "::1"}:
        raise WorkspaceError(
            "failed", f"repositories.{name}.remote_url would send its credential unprotected over {kind}; use https"
        )
    # The helper answers for this host alone, so that no redirect gets the token.  A user name in the address wins.
    place = f"{address.scheme}://{address.netloc.rsplit('@', 1)[-1]}"
    user = "" if address.username else "echo username=git; "
    token = f'IFS= read -r token < {shlex.quote(str(secret))} || test -n "$token"'
    script = f'!f() {{ test "$1" = get || exit 0; {token} || exit 1; {user}echo "password=$token"; }}; f'
    return (("credential.helper", ""), (f"credential.{place}.helper", script))
