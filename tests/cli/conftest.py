"""A board of one's own, and ways to bring its cards where a test needs them."""

from __future__ import annotations

import getpass
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from intent_board.board.model import Card
from intent_board.cli.board import main
from intent_board.config import BoardConfig, load
from intent_board.store import Store, open_store

ME = getpass.getuser()
HASH = "a" * 40
INTENT = "# Intent: Nightly backup\n\n## Ziel\nSave it.\n\n## Erfolgskriterien\n- runs nightly\n"


@dataclass
class Board:
    """A board below `directory`, used as a person uses it."""

    directory: Path
    owner: str = ME

    @property
    def file(self) -> Path:
        return self.directory / "board.toml"

    @property
    def config(self) -> BoardConfig:
        return load(self.file)

    def write(self, extra: str = "") -> None:
        self.file.write_text(
            f'[board]\nowner = "{self.owner}"\nstate_dir = "{self.directory}/state"\n{extra}\n'
            f'[repositories.site]\nremote_url = "{self.directory}/remote.git"\nbranch = "main"\ndeploy = true\n'
            '[deploy]\nrepository = "site"\nautomatic = false\n'
        )

    def owned_by(self, name: str) -> None:
        """From now on the board's owner is somebody else, and the asker is a guest."""
        self.owner = name
        self.write()

    def run(self, *arguments: str, stdin: str | bytes = "") -> Result:
        given = ["--config", str(self.file), *arguments]
        return CliRunner().invoke(main, given, prog_name="board", input=stdin, catch_exceptions=False)

    def ok(self, *arguments: str, stdin: str = "") -> str:
        result = self.run(*arguments, stdin=stdin)
        assert result.exit_code == 0, result.output
        return result.stdout

    def refused(self, *arguments: str, stdin: str | bytes = "", code: int = 1) -> str:
        """The one sentence with which a command refuses."""
        result = self.run(*arguments, stdin=stdin)
        assert result.exit_code == code, result.output
        assert result.stdout == ""
        if code == 1:
            assert len(result.stderr.splitlines()) == 1 and result.stderr.startswith("board: "), result.stderr
        return result.stderr

    def json(self, *arguments: str) -> Any:
        return json.loads(self.ok(*arguments, "--json"))

    def submit(self, slug: str, text: str = INTENT, *more: str) -> None:
        self.ok("submit", "-", "--slug", slug, *more, stdin=text)

    def store(self) -> Store:
        return open_store(self.config)

    def card(self, slug: str) -> Card:
        store = self.store()
        try:
            return store.card(slug)
        finally:
            store.close()

    def work(self, queue: str, event: str, raw: str = "", **data: Any) -> None:
        """Be the worker of a queue: take its first job and come back with a result."""
        store = self.store()
        try:
            claim = store.claim(queue)
            assert claim is not None, f"nothing waits in {queue}"
            assert store.finish(claim, event, data, raw=raw)
        finally:
            store.close()

    def happen(self, slug: str, event: str, **data: Any) -> None:
        """Be the scheduler."""
        store = self.store()
        try:
            store.happen(slug, event, actor="board", data=data)
        finally:
            store.close()

    def built(self, slug: str) -> None:
        """Bring a card that waits for the Operator to its review."""
        self.work("operator", "operator_direct", lane="leicht", reason="small")
        self.happen(slug, "dispatch")
        self.work("builder-leicht", "built", commit=HASH, base="b" * 40, branch="main", summary="done", paths=["a"])

    def approved(self, slug: str) -> None:
        self.built(slug)
        self.work("review", "approved", commit=HASH, report={"summary": "good"})


@pytest.fixture
def board(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Board]:
    monkeypatch.delenv("SUDO_UID", raising=False)
    made = Board(tmp_path)
    made.write()
    yield made
