"""Who asks is what the kernel and sudo say, and nothing else."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

import pytest

from intent_board.board.changes import pieces
from intent_board.cli import asker
from intent_board.cli.asker import Asker, ThroughSudo, who_asks
from intent_board.cli.failure import Failure

ME = pwd.getpwuid(os.geteuid()).pw_name
OTHER = pwd.getpwnam("daemon")


def test_the_owner_of_the_state_directory_asks_as_himself(tmp_path: Path) -> None:
    assert who_asks(tmp_path, {"USER": "daemon", "LOGNAME": "daemon", "SUDO_USER": "daemon"}) == Asker(ME)


def test_a_state_directory_that_is_not_there_yet_is_the_askers_to_make(tmp_path: Path) -> None:
    assert who_asks(tmp_path / "new", {}) == Asker(ME)


def test_under_sudo_the_asker_is_who_called_sudo(tmp_path: Path) -> None:
    assert who_asks(tmp_path, {"SUDO_UID": str(OTHER.pw_uid), "SUDO_USER": ME}) == Asker("daemon")


@pytest.mark.parametrize("number", ["", "root", "-1", "1 ", "٣", "4294967294", "9" * 40])
def test_a_number_that_no_user_has_is_refused(tmp_path: Path, number: str) -> None:
    with pytest.raises(Failure):
        who_asks(tmp_path, {"SUDO_UID": number})


def test_a_user_with_the_name_of_the_board_itself_asks_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asker, "_name", lambda uid: pieces.TRUSTED)
    for environ in ({}, {"SUDO_UID": str(OTHER.pw_uid)}):
        with pytest.raises(Failure, match="stands for the board itself"):
            who_asks(tmp_path, environ)


def foreign(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asker, "_owner", lambda state_dir: OTHER.pw_uid)


def test_another_users_board_is_reached_through_sudo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    foreign(monkeypatch)
    assert who_asks(tmp_path, {}) == ThroughSudo("daemon")


def test_sudo_that_led_to_the_wrong_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    foreign(monkeypatch)
    with pytest.raises(Failure, match="belongs to another"):
        who_asks(tmp_path, {"SUDO_UID": "0"})
