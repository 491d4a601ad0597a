"""Who asks: proved by the kernel or by sudo, never by an argument or a variable that the asker can set.

Three ways lead into `board`:

- **under sudo**, as the service user: sudo itself wrote `$SUDO_UID`, and the rule that allowed it allows nothing
  else, so the asker is that user.  Nothing that the asker chooses may name a file then: the service user can read
  and write what the asker can't.
- **as the owner of the state directory**, without sudo (a rehearsal, a board for one person): the asker is that
  user, who could write the store by hand anyway.
- **as anybody else**: `board` runs itself again the first way.  A file that was named is opened here, with the
  person's own rights, and handed over on stdin.
"""

from __future__ import annotations

import os
import pwd
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from intent_board.cli.failure import Failure

#: Exists only in a process that sudo started; sudo overwrites whatever its caller had set.
SUDO_VARIABLE = "SUDO_UID"
STDIN = "-"


@dataclass(frozen=True)
class Asker:
    """The user who asks."""

    name: str


@dataclass(frozen=True)
class ThroughSudo:
    """The store is another user's: run again as `user`."""

    user: str


def under_sudo(environ: Mapping[str, str] = os.environ) -> bool:
    """Whether sudo started this process, so that paths and the configuration are not the asker's to choose."""
    return SUDO_VARIABLE in environ


def who_asks(state_dir: Path, environ: Mapping[str, str] = os.environ) -> Asker | ThroughSudo:
    """Find out who asks, from the process's user, the owner of the state directory, and sudo.

    A state directory that does not exist yet is this user's to make.  Raises Failure when sudo's word is unusable or
    sudo led to a user who does not own the store.
    """
    owner = _owner(state_dir)
    mine = owner is None or owner == os.geteuid()
    if under_sudo(environ):
        if not mine:
            raise Failure(
                f"sudo led to the user {_name(os.geteuid())}, but {state_dir} belongs to another one; "
                "run board without sudo, it finds the right user itself"
            )
        return _asker(_number(environ[SUDO_VARIABLE]))
    return _asker(os.geteuid()) if mine else ThroughSudo(_name(owner))


def _asker(uid: int) -> Asker:
    from intent_board.board.changes.pieces import TRUSTED  # whoever asks is about to need the rules anyway

    name = _name(uid)
    if name == TRUSTED:
        raise Failure(f"the name {name!r} stands for the board itself in every rule; use another user than {name!r}")
    return Asker(name)


def _owner(state_dir: Path) -> int:
    try:
        return state_dir.stat().st_uid
    except FileNotFoundError:
        return os.geteuid()
    except OSError as error:
        reason = f"{state_dir} cannot be examined ({error.strerror}); name the right board with --config"
        raise Failure(reason) from None


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise Failure(f"{SUDO_VARIABLE} is not a user's number; run board without sudo, it calls sudo itself")
    return int(text)


def _name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except (KeyError, OverflowError):
        raise Failure(f"there is no user with the number {uid}, so nobody can be named as the asker") from None


def run_again(user: str, arguments: Sequence[str], file: Path | None, *, group: str) -> NoReturn:
    """Replace this process by `board` as the service user, with `file` (if any) as its stdin.

    `arguments` already say `-` where they named the file.  Raises Failure when sudo's rules do not allow it.
    """
    import subprocess  # seldom needed, and slow to load

    command = ["sudo", "-n", "-u", user, "--", str(Path(sys.argv[0]).absolute()), *arguments]
    try:
        # `-l` asks the rules without running anything, so that a refusal is ours to explain.
        allowed = subprocess.run(
            ["sudo", "-n", "-l", *command[2:]], stdin=subprocess.DEVNULL, capture_output=True, check=False
        )
    except FileNotFoundError:
        raise Failure(f"the board belongs to the user {user} and sudo is not installed; ask the host's owner") from None
    if allowed.returncode != 0:
        raise Failure(
            f"you may not use the board of the user {user}; only members of the group {group} may, "
            "ask the board's owner to add you"
        )
    if file is not None:
        with file.open("rb") as handed_over:
            os.dup2(handed_over.fileno(), 0)
    sys.stdout.flush()
    os.execvp(command[0], command)
