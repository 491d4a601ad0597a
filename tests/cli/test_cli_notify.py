"""`board notify`, as the owner and as the unit use it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from click.testing import Result
from serving import serving

SECRET = "tOkEn-of-the-service"


class Service(HTTPServer):
    taken: list[str]


class Takes(BaseHTTPRequestHandler):
    server: Service

    def do_POST(self) -> None:
        self.server.taken.append(json.loads(self.rfile.read(int(self.headers["Content-Length"])))["message"])
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Keeps the test's output clean."""


@pytest.fixture
def service() -> Iterator[Service]:
    server = Service(("127.0.0.1", 0), Takes)
    server.taken = []
    with serving(server):
        yield server


@pytest.fixture
def people(board, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):  # type: ignore[no-untyped-def]
    """Writes the list of addresses, as systemd would hand it over."""
    board.write('[notifications]\ncredential = "people"')
    directory = tmp_path / "credentials"
    directory.mkdir()
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(directory))

    def write(*lines: str) -> None:
        (directory / "people").write_text("\n".join(lines) + "\n")

    return write


def says_no_secret(result: Result) -> Result:
    assert SECRET not in result.output
    return result


def test_the_test_message_goes_to_everybody_and_shows_nobody(board, people, service: Service) -> None:  # type: ignore[no-untyped-def]
    good = f"json://127.0.0.1:{service.server_address[1]}/{SECRET}"
    people(good, f"eva={good}?x=1")
    result = says_no_secret(board.run("notify", "test"))
    assert (result.exit_code, result.stdout) == (0, "line 1 (json): taken\nline 2 (json, for eva): taken\n")
    assert len(service.taken) == 2


def test_one_failure_is_exit_code_1_and_the_others_are_told_all_the_same(board, people, service: Service) -> None:  # type: ignore[no-untyped-def]
    people(f"json://127.0.0.1:1/{SECRET}", f"json://127.0.0.1:{service.server_address[1]}/{SECRET}", f"no {SECRET}")
    result = says_no_secret(board.run("notify", "test", "--json"))
    assert result.exit_code == 1
    assert [(one["line"], one["ok"]) for one in json.loads(result.stdout)] == [(1, False), (2, True), (3, False)]
    assert len(service.taken) == 1


@pytest.mark.parametrize("command", ["test", "send"])
def test_without_the_credential_it_is_one_sentence(board, people, command: str) -> None:  # type: ignore[no-untyped-def]
    assert "people" in board.refused("notify", command)


def test_without_a_configured_one_too(board) -> None:  # type: ignore[no-untyped-def]
    assert "[notifications] credential" in board.refused("notify", "test")


def test_only_the_owner_may(board, people) -> None:  # type: ignore[no-untyped-def]
    board.owned_by("somebody-else")
    assert "only the owner" in board.refused("notify", "list")


@pytest.mark.parametrize("command", ["test", "send"])
def test_a_member_of_the_group_may_not_send(  # type: ignore[no-untyped-def]
    board, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    from intent_board.cli import notify

    board.owned_by("somebody-else")
    monkeypatch.setattr(notify, "under_sudo", lambda: True)
    assert "only the owner" in board.refused("notify", command)


def test_sending_consumes_the_bell_and_the_list_shows_what_is_left(board, people, service: Service) -> None:  # type: ignore[no-untyped-def]
    people(f"json://127.0.0.1:1/{SECRET}")
    board.submit("lamp")
    board.work("operator", "operator_needs_human", human_action="look", reason="unclear")
    bell = board.directory / "state/doorbells/notify-0"
    assert bell.exists()
    result = says_no_secret(board.run("notify", "send"))
    assert result.exit_code == 0
    assert not bell.exists()
    (waiting,) = board.json("notify", "list")
    assert (waiting["slug"], waiting["event"], waiting["state"], waiting["tries"]) == ("lamp", "needs_human", "due", 1)
    assert waiting["error"] == "not taken by line 1 (json)"
    assert "not taken by line 1 (json)" in board.ok("notify", "list")
    assert board.json("notify", "list", "--all") == [waiting]


def test_a_person_without_the_credential_asks_the_unit(  # type: ignore[no-untyped-def]
    board, people, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    from intent_board.cli import notify
    from intent_board.notify import asking

    people(f"json://127.0.0.1:{service.server_address[1]}/{SECRET}", f"nonsense {SECRET}")
    board.ok("list")
    monkeypatch.setattr(notify, "under_sudo", lambda: True)
    credentials = os.environ.pop("CREDENTIALS_DIRECTORY")
    environment = {**os.environ, "CREDENTIALS_DIRECTORY": credentials}
    bell = board.directory / "state/doorbells/notify-0"

    def unit(_: float) -> None:
        """The path unit: it starts the program as soon as the bell rings."""
        assert bell.exists()
        script = "import sys; from intent_board.cli.board import main; main(sys.argv[1:])"
        command = [sys.executable, "-c", script, "--config", str(board.file), "notify", "send"]
        ran = subprocess.run(command, env=environment, capture_output=True, check=True)
        assert SECRET.encode() not in ran.stdout + ran.stderr

    monkeypatch.setattr(asking.time, "sleep", unit)
    result = says_no_secret(board.run("notify", "test"))
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", credentials)
    assert result.exit_code == 1
    assert result.stdout.splitlines()[0] == "line 1 (json): taken"
    assert len(service.taken) == 1
    assert list((board.directory / "state/notify").iterdir()) == []


def test_a_unit_that_does_not_answer_is_one_sentence(tmp_path: Path) -> None:
    from intent_board.notify import NotifyError, answer_all, ask

    with pytest.raises(NotifyError, match="did not answer"):
        ask(tmp_path, "lukas", lambda: None, patience=0.3)
    assert list((tmp_path / "notify").iterdir()) == []
    (tmp_path / "notify" / f"{'a' * 16}.ask").write_text('"lukas"')
    assert answer_all(tmp_path, lambda asker: [], now=4e9) == 0, "its asker has gone"
    assert list((tmp_path / "notify").iterdir()) == []


def test_an_empty_list_says_so(board) -> None:  # type: ignore[no-untyped-def]
    assert board.ok("notify", "list") == "nothing is waiting to be sent\n"
    assert board.json("notify", "list") == []
    assert "no credential is named in [notifications]" in board.run("notify", "list").stderr
