"""Reading the interim report out of a directory that belongs to the agent."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from intent_board.contracts.builder import InterimReport
from intent_board.runtimes import read_report

GOOD = {"done": ["a", "b"], "open": [], "next": "c"}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "report.json"


def test_a_report(path: Path) -> None:
    path.write_text(json.dumps(GOOD))
    assert read_report(path) == InterimReport(done=("a", "b"), open=(), next="c")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "not json",
        "[]",
        "null",
        json.dumps({**GOOD, "more": 1}),
        json.dumps({"done": [], "open": []}),
        json.dumps({**GOOD, "done": "a"}),
        json.dumps({**GOOD, "done": [1]}),
        json.dumps({**GOOD, "done": [" "]}),
        json.dumps({**GOOD, "next": None}),
        json.dumps({**GOOD, "next": "\0"}),
        json.dumps({**GOOD, "next": "\ud800"}),
        json.dumps(GOOD)[:-1] + ', "next": "again"}',
        json.dumps({**GOOD, "next": "x" * 70_000}),
        "[" * 50_000,
        json.dumps(GOOD)[:-1],
    ],
)
def test_what_is_no_report(path: Path, text: str) -> None:
    path.write_text(text)
    assert read_report(path) is None


def test_not_text(path: Path) -> None:
    path.write_bytes(b'{"done": [], "open": [], "next": "\xff"}')
    assert read_report(path) is None


def test_no_file(path: Path) -> None:
    assert read_report(path) is None


@pytest.mark.parametrize("kind", ["link", "directory", "pipe", "socket-like", "hole"])
def test_what_is_no_plain_file(path: Path, kind: str) -> None:
    if kind == "link":
        (path.parent / "real").write_text(json.dumps(GOOD))
        path.symlink_to(path.parent / "real")
    elif kind == "directory":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "socket-like":
        path.symlink_to("/dev/zero")
    else:
        path.write_text(json.dumps(GOOD))
        os.truncate(path, 1 << 40)
    assert read_report(path) is None
