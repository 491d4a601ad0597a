"""The credentials of this process: files that systemd put into a directory of its own for it."""

from __future__ import annotations

import os
from pathlib import Path

DIRECTORY_VARIABLE = "CREDENTIALS_DIRECTORY"


class MissingCredential(Exception):
    """A credential that this process was not given; `str()` is one sentence with what to do."""


class Credentials:
    """What `$CREDENTIALS_DIRECTORY` holds, and nothing from any other place."""

    def __init__(self) -> None:
        directory = os.environ.get(DIRECTORY_VARIABLE)
        self._directory = Path(directory) if directory else None

    def path(self, name: str) -> Path | None:
        """The file of a credential, or None when this process was not given it."""
        if self._directory is None or not (self._directory / name).is_file():
            return None
        return self._directory / name

    def read(self, name: str) -> str:
        """The value of a credential, without the line end that editors add.  Raises MissingCredential."""
        path = self.path(name)
        if path is None:
            raise MissingCredential(f"credential {name!r} is not loaded here; add it to the unit's credentials")
        return path.read_text().rstrip("\r\n")

    def values(self) -> tuple[str, ...]:
        """Every value that this process was given: what may show up in no diff, log or answer."""
        if self._directory is None:
            return ()
        files = sorted(path for path in self._directory.iterdir() if path.is_file())
        return tuple(path.read_text(errors="replace").strip() for path in files)
