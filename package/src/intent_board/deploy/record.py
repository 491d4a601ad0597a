"""What the deployer did, as it did it: one file for each deployment, lines are only ever added.

Each line is on the disk before the next effect begins, so that after `kill -9` or a power cut the file says how far
it came.  A line that was cut off by the power is left as it is and closed; readers count it as damaged.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from intent_board.deploy.host import DeployRefused, Host

_NAME = re.compile(r"(\d{6,})-([a-z0-9][a-z0-9-]{0,60})\.jsonl")
_FLAGS = os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class Record:
    """One deployment's file."""

    path: Path

    @property
    def number(self) -> int:
        return int(self.path.name.split("-")[0])

    @property
    def slug(self) -> str:
        return self.path.stem.split("-", 1)[1]

    def add(self, kind: str, **data: Any) -> None:
        """Write one line and wait until it is on the disk.  Raises DeployRefused when it cannot be written."""
        line = json.dumps({"kind": kind, "time": round(time.time(), 3), **data}, ensure_ascii=True) + "\n"
        try:
            file = os.open(self.path, os.O_RDWR | _FLAGS)
            try:
                if _torn(file):
                    line = "\n" + line
                _write(file, line.encode())
                os.fsync(file)
            finally:
                os.close(file)
        except OSError as error:
            raise DeployRefused(f"{self.path} cannot be written ({error.strerror}); free space there") from None

    def lines(self) -> list[dict[str, Any]]:
        """Every whole line; one that the power cut off becomes `{"kind": "damaged"}`."""
        return [_parsed(raw) for raw in self.path.read_bytes().split(b"\n") if raw]

    def mentions(self, text: str) -> bool:
        """Whether the text stands anywhere in it; much quicker than reading its lines."""
        return text.encode() in self.path.read_bytes()

    def find(self, kind: str) -> dict[str, Any] | None:
        """The newest line of this kind."""
        return next((line for line in reversed(self.lines()) if line["kind"] == kind), None)


def _parsed(raw: bytes) -> dict[str, Any]:
    try:
        line = json.loads(raw)
    except ValueError:
        return {"kind": "damaged"}
    return line if isinstance(line, dict) and isinstance(line.get("kind"), str) else {"kind": "damaged"}


def _torn(file: int) -> bool:
    size = os.fstat(file).st_size
    return size > 0 and os.pread(file, 1, size - 1) != b"\n"


def _write(file: int, data: bytes) -> None:
    while data:
        data = data[os.write(file, data) :]


def records(host: Host) -> list[Record]:
    """Every deployment on this host, oldest first."""
    if not host.records_dir.is_dir():
        return []
    found = [Record(path) for path in host.records_dir.iterdir() if _NAME.fullmatch(path.name)]
    return sorted(found, key=lambda record: record.number)


def open_records(host: Host) -> list[Record]:
    """The records that may still lack their end, or the store's knowledge of it, oldest first."""
    settled = _settled(host)
    return [record for record in records(host) if record.number > settled]


def settle(host: Host, number: int) -> None:
    """Every record up to this number is ended and known to the store, so that nobody has to read them again."""
    new = host.deploy_dir / "settled.new"
    with new.open("w") as file:
        file.write(f"{number}\n")
        file.flush()
        os.fsync(file.fileno())
    new.replace(host.deploy_dir / "settled")


def _settled(host: Host) -> int:
    try:
        return int((host.deploy_dir / "settled").read_text())
    except (FileNotFoundError, ValueError):
        # Only a shortcut: without it every record is read.
        return 0


def begin(host: Host, slug: str, **data: Any) -> Record:
    """A new record with its first line, on the disk with its directory entry.  Call it with the lock held."""
    host.records_dir.mkdir(mode=0o700, exist_ok=True)
    known = records(host)
    number = known[-1].number + 1 if known else 1
    record = Record(host.records_dir / f"{number:06d}-{slug}.jsonl")
    os.close(os.open(record.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FLAGS, 0o600))
    record.add("begin", deployment=number, slug=slug, **data)
    directory = os.open(host.records_dir, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
    return record


@contextmanager
def lock(host: Host, who: Mapping[str, Any]) -> Iterator[int]:
    """One deployment at a time.  Gives the lock's file descriptor; a child that keeps it open holds the lock too.

    Raises DeployRefused, naming the holder, when another deployment runs.
    """
    path = host.deploy_dir / "lock"
    try:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise DeployRefused(f"{path} cannot be opened ({error.strerror}); the deployer's unit makes it") from None
    try:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(file, 4096, 0).decode(errors="replace").strip() or "nobody who said so"
            raise DeployRefused(f"another deployment is running ({holder}); wait for its end", later=True) from None
        os.ftruncate(file, 0)
        os.pwrite(file, json.dumps({"pid": os.getpid(), "since": int(time.time()), **who}).encode() + b"\n", 0)
        yield file
    finally:
        os.close(file)
