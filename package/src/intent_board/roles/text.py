"""Role texts: our own Markdown with front matter, loaded whole or not at all.

A text is the packaged one unless `[roles.<role>] contract` names another file.  The shared text stands in front of
every role's own; a job records the versions and one hash over both, so that a later reader knows what was said.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from intent_board.config import BoardConfig

FIELDS = ("role-id", "role-version", "status", "owner")
#: Far above any text that a model still follows; a wrong path (a log, an image) is found early.
LIMIT_BYTES = 256 * 1024


class RoleTextError(Exception):
    """A role text that can't be used; `str()` is one sentence with the file and what to do."""


@dataclass(frozen=True, slots=True)
class RoleText:
    """What a run is told about its role: the shared text and the role's own, without front matter."""

    role: str
    version: str
    shared_version: str
    hash: str
    shared: str
    own: str

    def record(self) -> dict[str, str]:
        """What a job stores about the text it ran with."""
        return {"role": self.role, "version": self.version, "shared_version": self.shared_version, "sha256": self.hash}


def load(role: str, config: BoardConfig) -> RoleText:
    """The text of a role (one of config.MODEL_ROLES) with the shared text.

    Raises RoleTextError when a file is missing or unreadable, or when its front matter lacks a field, names another
    role, or has a status other than `active`.
    """
    override = config.roles[role].contract if role in config.roles else None
    shared_raw, own_raw = _read("shared", None), _read(role, override)
    shared_version, shared = _parse("shared", shared_raw, "the packaged shared.md")
    version, own = _parse(role, own_raw, str(override or f"the packaged {role}.md"))
    digest = hashlib.sha256(shared_raw + b"\0" + own_raw).hexdigest()
    return RoleText(role, version, shared_version, digest, shared, own)


def _read(role: str, override: Path | None) -> bytes:
    where = override or files("intent_board.roles") / "texts" / f"{role}.md"
    try:
        raw = where.read_bytes()
    except OSError as error:
        hint = f"correct roles.{role}.contract" if override else "install the package anew"
        raise RoleTextError(f"role text {where}: cannot be read ({error.strerror}); {hint}") from None
    if len(raw) > LIMIT_BYTES:
        raise RoleTextError(f"role text {where}: is larger than {LIMIT_BYTES // 1024} KiB; name the right file")
    return raw


def _parse(role: str, raw: bytes, where: str) -> tuple[str, str]:
    """(version, body) of one file."""
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        raise RoleTextError(f"role text {where}: is not UTF-8; save it as UTF-8") from None
    values, body = _front_matter(text, where)
    if values["role-id"] != role:
        reason = f"role-id is {values['role-id']!r}, but the board loads it as {role!r}"
        raise RoleTextError(f"role text {where}: {reason}; use the right file or correct role-id")
    if values["status"] != "active":
        reason = f"status is {values['status']!r}, only 'active' is used"
        raise RoleTextError(f"role text {where}: {reason}; activate it or name another file")
    if not body.strip():
        raise RoleTextError(f"role text {where}: has no text after the front matter; write it")
    return values["role-version"], body.strip() + "\n"


def _front_matter(text: str, where: str) -> tuple[dict[str, str], str]:
    lines = text.splitlines()
    end = next((i for i, line in enumerate(lines[1:], 1) if line == "---"), None)
    if not lines or lines[0] != "---" or end is None:
        wanted = ", ".join(FIELDS)
        raise RoleTextError(f"role text {where}: has no front matter; begin it with '---', {wanted}, '---'")
    values: dict[str, str] = {}
    for line in lines[1:end]:
        key, colon, value = line.partition(":")
        if not colon or key not in FIELDS or key in values or not value.strip():
            wanted = ", ".join(FIELDS)
            raise RoleTextError(f"role text {where}: front matter line {line!r} is wrong; give once each: {wanted}")
        values[key] = value.strip()
    if missing := [key for key in FIELDS if key not in values]:
        raise RoleTextError(f"role text {where}: front matter lacks {', '.join(missing)}; add it")
    return values, "\n".join(lines[end + 1 :])
