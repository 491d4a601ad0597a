"""Secrets, as systemd hands them to a unit: one file each in `$CREDENTIALS_DIRECTORY`."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

VARIABLE = "CREDENTIALS_DIRECTORY"
CREDENTIAL_BYTES = 1 << 20
#: Shorter values stand by chance in innocent text, and protect nothing anyway.
REDACTED_LENGTH = 6
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


class MissingCredential(Exception):
    """A credential that this unit does not have; `str()` is one sentence: what, where, what to do."""


class Credentials:
    """The credentials of this unit.  Values are read once and never appear in an error or a representation."""

    def __init__(self, directory: Path | None = None, values: Mapping[str, str] | None = None) -> None:
        """`directory` stands in for `$CREDENTIALS_DIRECTORY`; `values` are credentials that are known already."""
        named = os.environ.get(VARIABLE)
        self._directory = directory or (Path(named) if named else None)
        self._values = dict(values or {})

    def get(self, name: str) -> str:
        """The value of a credential, without the newline at its end.  Raises MissingCredential."""
        if name not in self._values:
            self._values[name] = self._read(name)
        return self._values[name]

    def path(self, name: str) -> Path | None:
        """The file of a credential, for programs that read it themselves; None when this unit doesn't have it."""
        path = self._directory / name if self._directory is not None and _NAME.fullmatch(name) else None
        return path if path is not None and path.is_file() else None

    def values(self) -> tuple[str, ...]:
        """Every value this unit holds, for redaction: those in its directory and those given."""
        if self._directory is not None and self._directory.is_dir():
            for path in sorted(self._directory.iterdir()):
                if path.name not in self._values and path.is_file():
                    # What is no text can't stand in a text either.
                    with contextlib.suppress(MissingCredential):
                        self.get(path.name)
        return tuple(value for value in self._values.values() if value)

    def redact(self, text: str) -> str:
        """`text` without any of the values."""
        return redact(text, self.values())

    def _read(self, name: str) -> str:
        if self._directory is None:
            raise MissingCredential(
                f"The credential {name} is needed, but this process has none; start it as its systemd unit with "
                f"LoadCredential={name}:FILE."
            )
        if not _NAME.fullmatch(name):
            raise MissingCredential(f"{name!r} can't be the name of a credential; correct it in board.toml.")
        try:
            with (self._directory / name).open("rb") as file:
                raw = file.read(CREDENTIAL_BYTES + 1)
        except OSError as error:
            raise MissingCredential(
                f"The credential {name} can't be read in {self._directory} ({error.strerror}); add "
                f"LoadCredential={name}:FILE to the unit."
            ) from None
        try:
            value = raw.decode().removesuffix("\n").removesuffix("\r")
        except UnicodeDecodeError:
            value = ""
        if not value or len(raw) > CREDENTIAL_BYTES:
            raise MissingCredential(f"The credential {name} is empty, too long or not text; write it anew.")
        return value

    def __repr__(self) -> str:
        return f"Credentials({', '.join(sorted(self._values))})"


def redact(text: str, values: Iterable[str]) -> str:
    """`text` with every secret value, and every long line of one (a key file's), replaced by `[redacted]`."""
    parts = {part for value in values for part in (value, value.strip(), *_lines(value))}
    for part in sorted(parts, key=len, reverse=True):
        if len(part) >= REDACTED_LENGTH:
            text = text.replace(part, "[redacted]")
    return text


def _lines(value: str) -> list[str]:
    lines = value.splitlines()
    return [line for line in lines if len(line) >= 20 and not line.startswith("-----")] if len(lines) > 1 else []
