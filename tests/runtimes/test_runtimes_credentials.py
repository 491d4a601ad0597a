"""Credentials as systemd hands them over, and their removal from text."""

from __future__ import annotations

from pathlib import Path

import pytest

from intent_board.runtimes import Credentials, MissingCredential, redact
from intent_board.runtimes.credentials import VARIABLE

KEY = """-----BEGIN OPENSSH PRIVATE KEY-----
b3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQ
QyNTUxOQAAACDNvbWV0aGluZyBzZWNyZXQgaGVyZQ
-----END OPENSSH PRIVATE KEY-----
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    (tmp_path / "api-key").write_text("sk-0123456789\n")
    (tmp_path / "push-key").write_text(KEY)
    return tmp_path


def test_get(folder: Path) -> None:
    credentials = Credentials()
    assert credentials.get("api-key") == "sk-0123456789"
    assert credentials.get("push-key") == KEY.removesuffix("\n")
    assert credentials.path("push-key") == folder / "push-key"


def test_given_values_and_another_directory(folder: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    credentials = Credentials(other, {"known": "value-1"})
    assert credentials.get("known") == "value-1"
    assert credentials.path("api-key") is None
    with pytest.raises(MissingCredential, match="api-key can't be read"):
        credentials.get("api-key")


def test_none_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    assert Credentials().values() == ()
    assert Credentials().path("api-key") is None
    with pytest.raises(MissingCredential, match="LoadCredential=api-key:FILE"):
        Credentials().get("api-key")


@pytest.mark.parametrize("name", ["", ".", "..", "../api-key", "/etc/passwd", "a/b", "a\nb"])
def test_names_that_lead_elsewhere(folder: Path, name: str) -> None:
    assert Credentials().path(name) is None
    with pytest.raises(MissingCredential):
        Credentials().get(name)


@pytest.mark.parametrize("content", [b"", b"\n", b"\xff\xfe", b"x" * (1 << 20) + b"y"])
def test_contents_that_are_no_secret(folder: Path, content: bytes) -> None:
    (folder / "api-key").write_bytes(content)
    with pytest.raises(MissingCredential, match="api-key is empty, too long or not text"):
        Credentials().get("api-key")


def test_an_error_is_one_line_and_names_no_value(folder: Path) -> None:
    credentials = Credentials()
    credentials.get("api-key")
    assert "sk-" not in repr(credentials)
    with pytest.raises(MissingCredential) as caught:
        credentials.get("absent")
    assert "\n" not in str(caught.value)
    assert "sk-" not in str(caught.value)


def test_every_value_of_the_unit_is_redacted(folder: Path) -> None:
    (folder / "binary").write_bytes(b"\xff\xfe\x00")
    text = f"a sk-0123456789 b {KEY} c QyNTUxOQAAACDNvbWV0aGluZyBzZWNyZXQgaGVyZQ d"
    redacted = Credentials().redact(text)
    assert "sk-0123456789" not in redacted
    assert "QyNTUxOQ" not in redacted
    assert redacted.startswith("a [redacted] b ")


def test_redact_leaves_short_values_and_public_lines() -> None:
    assert redact("the cat", ["cat"]) == "the cat"
    assert redact("the cat", [""]) == "the cat"
    assert redact("-----END OPENSSH PRIVATE KEY-----", [KEY]) == "-----END OPENSSH PRIVATE KEY-----"
    assert redact("abcdefgh abcdef", ["abcdef", "abcdefgh"]) == "[redacted] [redacted]"
