"""Whom to tell: the credential's lines as targets.  An address is a secret and appears in no text made here."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field

from intent_board.config import BoardConfig
from intent_board.notify.transport import usable
from intent_board.runtimes.credentials import Credentials, MissingCredential

#: More than this was not meant to be a list of people.
MOST_TARGETS = 50
_TAGGED = re.compile(r"([a-z_][a-z0-9_-]{0,30})[ \t]*=[ \t]*(\S.*)")
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]{0,30})://")


class NotifyError(Exception):
    """Nobody can be told; `str()` is one sentence: what, where, what to do."""


@dataclass(frozen=True, slots=True)
class Target:
    """One address.  `user` None is the owner's; `key` names it in the store without giving it away."""

    line: int
    user: str | None
    scheme: str
    key: str
    url: str = field(repr=False)

    def __str__(self) -> str:
        whose = f", for {self.user}" if self.user else ""
        return f"line {self.line} ({self.scheme}{whose})"


@dataclass(frozen=True, slots=True)
class Fault:
    """A line that can't be used, and why, without what stands in it."""

    line: int
    reason: str

    def __str__(self) -> str:
        return f"line {self.line} {self.reason}"


@dataclass(frozen=True, slots=True)
class Targets:
    """Every usable address, and the lines that are none."""

    all: tuple[Target, ...]
    faults: tuple[Fault, ...]

    def of_owner(self) -> tuple[Target, ...]:
        return tuple(target for target in self.all if target.user is None)

    def of_user(self, name: str) -> tuple[Target, ...]:
        return tuple(target for target in self.all if target.user == name)


def addresses(config: BoardConfig, credentials: Credentials) -> Targets:
    """The targets of the credential that `[notifications] credential` names.

    Raises NotifyError when none is named, or it can't be read.
    """
    name = config.notifications.credential
    if name is None:
        raise NotifyError(
            "Nobody is told anything, because board.toml names no [notifications] credential; set it to the name of "
            "the credential with the Apprise URLs."
        )
    try:
        text = credentials.get(name)
    except MissingCredential as error:
        raise NotifyError(str(error)) from None
    return read(text, owner=config.board.owner)


def read(text: str, *, owner: str) -> Targets:
    """One target a line: `URL` for the owner, `user=URL` for a requester; `#` begins a comment line."""
    found: dict[tuple[str | None, str], Target] = {}
    faults: list[Fault] = []
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.strip()
        if not line or line.startswith("#"):
            continue
        tagged = _TAGGED.fullmatch(line)
        user, url = (tagged[1], tagged[2]) if tagged else (None, line)
        user = None if user == owner else user
        if fault := _fault(url, len(found)):
            faults.append(Fault(number, fault))
        elif (user, url) not in found:
            scheme = _SCHEME.match(url)
            found[user, url] = Target(number, user, scheme[1].lower() if scheme else "", _key(user, url), url)
    return Targets(tuple(found.values()), tuple(faults))


def _fault(url: str, before: int) -> str | None:
    if not _SCHEME.match(url):
        return "has no URL; write one like mailto://user:password@example.org"
    if before >= MOST_TARGETS:
        return f"is beyond the {MOST_TARGETS} targets that the board tells; leave some out"
    if not usable(url):
        return "is no URL that Apprise can use; compare it with Apprise's documentation of that service"
    return None


def _key(user: str | None, url: str) -> str:
    """A name that stays the same for the same address of the same person.

    Slow on purpose: the store must not be a way to guess a short password by trying.
    """
    whose = f"{user or ''}={url}".encode("utf-8", "surrogatepass")
    return hashlib.scrypt(whose, salt=b"intent-board", n=2**14, r=8, p=1, dklen=10).hex()
