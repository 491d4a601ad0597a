"""A person's test, done by the unit that has the addresses: a question left in the state directory, and its answer.

`board` runs without any credential when a person calls it, so it asks the unit through its bell.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from intent_board.notify.targets import NotifyError
from intent_board.notify.trial import Result

#: How long a person waits, and how long a question counts.
PATIENCE_SECONDS = 75.0
_LOOK_SECONDS = 0.2
_QUESTION = re.compile(r"[0-9a-f]{16}\.ask")


def ask(state_dir: Path, asker: str, ring: Callable[[], None], *, patience: float = PATIENCE_SECONDS) -> list[Result]:
    """Have the unit send the test message.  Raises NotifyError: the unit's own, or that it did not answer."""
    directory = _directory(state_dir)
    identity = secrets.token_hex(8)
    question, answer = directory / f"{identity}.ask", directory / f"{identity}.json"
    _write(question, json.dumps(asker))
    try:
        ring()
        until = time.monotonic() + patience
        while not answer.exists():
            if time.monotonic() >= until:
                raise NotifyError(
                    f"The unit that tells people did not answer within {patience:.0f} s; look at it with "
                    "journalctl -u intent-board-notify."
                )
            time.sleep(_LOOK_SECONDS)
        said = json.loads(answer.read_text(encoding="ascii"))
    finally:
        question.unlink(missing_ok=True)
        answer.unlink(missing_ok=True)
    if "error" in said:
        raise NotifyError(said["error"])
    return [Result(**one) for one in said["results"]]


def answer_all(state_dir: Path, test: Callable[[str], list[Result]], *, now: float | None = None) -> int:
    """Do the tests that were asked for; how many.  A question whose asker has gone is taken away."""
    answered = 0
    for question in sorted(_directory(state_dir).iterdir()):
        if not _QUESTION.fullmatch(question.name):
            if question.suffix != ".ask" and _age(question, now) > 2 * PATIENCE_SECONDS:
                question.unlink(missing_ok=True)  # an answer that nobody waited for
            continue
        if _age(question, now) <= PATIENCE_SECONDS:
            try:
                said: dict[str, object] = {"results": [asdict(one) for one in test(_asker(question))]}
            except NotifyError as error:
                said = {"error": str(error)}
            _write(question.with_suffix(".json"), json.dumps(said))
            answered += 1
        question.unlink(missing_ok=True)
    return answered


def _directory(state_dir: Path) -> Path:
    directory = state_dir / "notify"
    directory.mkdir(mode=0o700, exist_ok=True)
    return directory


def _age(path: Path, now: float | None) -> float:
    try:
        return abs((time.time() if now is None else now) - path.stat().st_mtime)
    except FileNotFoundError:
        return 0.0


def _asker(question: Path) -> str:
    try:
        return str(json.loads(question.read_text(encoding="ascii")))
    except (OSError, ValueError):
        return "Somebody"


def _write(path: Path, text: str) -> None:
    """Whole or not at all: the other side may look at any moment."""
    half = path.with_suffix(".half")
    with os.fdopen(os.open(half, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600), "w") as target:
        target.write(text)
    half.replace(path)
