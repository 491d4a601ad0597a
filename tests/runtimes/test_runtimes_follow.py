"""Following a growing file."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from intent_board.runtimes import follow
from intent_board.runtimes.follow import Lines, parse_object, tail


class Growing:
    def __init__(self, path: Path) -> None:
        self._write = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self.fd = os.open(path, os.O_RDONLY)

    def add(self, data: bytes) -> None:
        os.write(self._write, data)

    def truncate(self, size: int) -> None:
        os.ftruncate(self._write, size)

    def close(self) -> None:
        os.close(self._write)
        os.close(self.fd)


@pytest.fixture
def growing(tmp_path: Path) -> Iterator[Growing]:
    made = Growing(tmp_path / "file")
    yield made
    made.close()


def test_lines_come_when_they_are_complete(growing: Growing) -> None:
    lines = Lines(growing.fd)
    assert list(lines.new()) == []
    growing.add(b"one\ntw")
    assert list(lines.new()) == [b"one"]
    growing.add(b"o\n\nthree")
    assert list(lines.new()) == [b"two", b""]
    assert list(lines.new(at_end=True)) == [b"three"]
    assert list(lines.new(at_end=True)) == []
    assert (lines.read_bytes, lines.cut) == (14, False)


def test_only_a_newline_ends_a_line(growing: Growing) -> None:
    text = "a\u2028b\u2029c\x85d\x0be\x0cf\rg".encode()
    growing.add(text + b"\n")
    assert list(Lines(growing.fd).new()) == [text]


def test_a_long_line_is_cut_and_the_next_is_whole(growing: Growing, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follow, "LINE_BYTES", 100)
    monkeypatch.setattr(follow, "_PIECE", 64)
    lines = Lines(growing.fd)
    growing.add(b"x" * 100 + b"\n" + b"y" * 101 + b"\nz\n" + b"w" * 300)
    assert list(lines.new()) == [b"x" * 100, b"z"]
    growing.add(b"w" * 300 + b"\nend\n")
    assert list(lines.new(at_end=True)) == [b"end"]
    assert lines.cut


def test_one_turn_reads_only_so_much(growing: Growing, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follow, "TURN_BYTES", 1 << 20)
    growing.truncate(1 << 40)
    lines = Lines(growing.fd)
    assert list(lines.new()) == []
    assert lines.read_bytes == 1 << 20


def test_a_file_that_shrinks_has_nothing_new(growing: Growing) -> None:
    lines = Lines(growing.fd)
    growing.add(b"one\ntwo\n")
    assert len(list(lines.new())) == 2
    growing.truncate(0)
    growing.add(b"x\n")
    assert list(lines.new(at_end=True)) == []


@given(st.lists(st.binary(max_size=30), max_size=20), st.integers(1, 7))
def test_however_it_is_cut_the_lines_are_the_same(parts: list[bytes], piece: int) -> None:
    whole = b"".join(parts)
    file = os.memfd_create("lines")
    try:
        lines, found = Lines(file), []
        for part in parts:
            os.pwrite(file, part, os.fstat(file).st_size)
            found += list(lines.new())
        found += list(lines.new(at_end=True))
    finally:
        os.close(file)
    expected = whole.split(b"\n")
    assert found == (expected if expected[-1] else expected[:-1])


@pytest.mark.parametrize(
    ("line", "value"),
    [
        (b'{"a": 1}', {"a": 1}),
        (b"", None),
        (b"[1]", None),
        (b'"a"', None),
        (b"{", None),
        (b"\xff", None),
        (b'{"a":' * 200_000, None),
        (b'{"a": ' + b"9" * 10_000 + b"}", None),
    ],
)
def test_objects(line: bytes, value: object) -> None:
    assert parse_object(line) == value


def test_tail(growing: Growing) -> None:
    growing.add("xä".encode() * 100 + b"\nend\n")
    assert tail(growing.fd, 5) == "end"
    assert tail(growing.fd, 9) == "\ufffdxä\nend".removeprefix("\ufffd") or "end" in tail(growing.fd, 9)
