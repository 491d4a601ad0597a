"""`board man`: every command, and where state and logs are."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest
from click.testing import CliRunner

from intent_board import config
from intent_board.cli.board import COMMANDS, main


@pytest.fixture
def page() -> str:
    done = CliRunner().invoke(main, ["man"])
    assert done.exit_code == 0
    return done.stdout


def test_it_has_every_command_and_no_other(page: str) -> None:
    body = page.split(".SH COMMANDS")[1].split(".SH OPTIONS")[0]
    assert re.findall(r"^\.TP\n\.B (\S+)\n\S", body, flags=re.M) == list(COMMANDS)


def test_it_says_where_state_and_logs_are(page: str) -> None:
    plain = page.replace("\\", "")
    assert str(config.Board(owner="lukas").state_dir) in plain
    assert str(config.DEFAULT_PATH) in plain
    assert "journalctl -u 'intent-board-*'" in plain


@pytest.mark.skipif(shutil.which("groff") is None, reason="no groff on PATH")
def test_it_is_well_formed(page: str) -> None:
    done = subprocess.run(
        ["groff", "-man", "-Tutf8", "-ww", "-z"], input=page, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
