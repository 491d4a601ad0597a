"""Handing intents over: from a file, from stdin, and what is refused before anything is stored."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

INTENT = "# Intent: Nightly backup\n\n## Ziel\nSave it.\n\n## Erfolgskriterien\n- runs nightly\n"


def test_a_file_becomes_a_card_named_after_its_title(board: Any, tmp_path: Path) -> None:
    (tmp_path / "Ärger.md").write_text("# Intent: Ärger mit Größen\n", encoding="utf-8")
    assert board.ok("submit", str(tmp_path / "Ärger.md")) == "aerger-mit-groessen: operator_pruefung (queued)\n"


def test_stdin_and_wishes_reach_the_card(board: Any) -> None:
    options = ["--slug", "saving", "--lane", "leicht", "--iterations", "7", "--scope", "./a//b/", "--scope", "c/*"]
    board.ok("submit", "-", *options, stdin=INTENT)
    card = board.card("saving")
    assert (card.title, card.lane, card.iterations) == ("Nightly backup", "leicht", 7)
    assert (card.write_scope, card.acceptance_criteria) == (("a/b", "c/*"), ("runs nightly",))
    assert board.ok("show", "saving", "--intent").rstrip() == INTENT.rstrip()


def test_missing_sections_are_said_and_kept(board: Any) -> None:
    result = board.run("submit", "-", stdin=INTENT)
    assert "warning: the section 'Umfang'" in result.stderr
    assert len(board.card("nightly-backup").warnings) == 4


def test_a_byte_order_mark_and_windows_lines_do_no_harm(board: Any) -> None:
    board.ok("submit", "-", stdin="\ufeff# Intent: From Windows\r\n\r\n## Ziel\r\nx\r\n")
    assert board.card("from-windows").title == "From Windows"


@pytest.mark.parametrize(
    ("text", "options", "said"),
    [
        ("no title", [], "# Intent: <title>"),
        ("", [], "# Intent: <title>"),
        (INTENT, ["--slug", "x" * 53], "52"),
        (INTENT, ["--slug", "done-synthese"], "-synthese"),
        (INTENT, ["--slug", "../etc"], "slug"),
        (INTENT, ["--slug", "Upper"], "slug"),
        (INTENT, ["--lane", "schnell"], "schwer, leicht"),
        (INTENT, ["--iterations", "41"], "5 to 40"),
        (INTENT, ["--iterations", "4"], "5 to 40"),
        (INTENT, ["--repository", "other"], "site"),
        (INTENT, ["--scope", "../x"], ".."),
        (INTENT, ["--scope", "/etc"], "absolute"),
        (INTENT, ["--scope", ".git/hooks"], ".git"),
        ("# Intent: a\u202eb\n", [], "U+202E"),
        (b"# Intent: \xff\xfe", [], "not UTF-8 at byte 10"),
        ("# Intent: long\n" + "x" * 1024 * 1024, [], "larger than 1 MiB"),
    ],
)
def test_what_is_refused_leaves_no_card(board: Any, text: str | bytes, options: list[str], said: str) -> None:
    assert said in board.refused("submit", "-", *options, stdin=text)
    assert board.json("list", "--all") == []


def test_a_slug_is_taken_once_and_for_good(board: Any) -> None:
    board.submit("one")
    assert "taken" in board.refused("submit", "-", "--slug", "one", stdin=INTENT)
    board.ok("archive", "one")
    assert "taken" in board.refused("submit", "-", "--slug", "one", stdin=INTENT)


@pytest.mark.parametrize("name", ["missing.md", ".", "two words.md"])
def test_a_file_that_can_not_be_read_is_named(board: Any, tmp_path: Path, name: str) -> None:
    assert str(tmp_path / name) in board.refused("submit", str(tmp_path / name))


def test_somebody_elses_intent_waits_for_the_owner(board: Any) -> None:
    board.owned_by("daemon")
    board.submit("wish")
    card = board.card("wish")
    assert (card.phase, card.attempts) == ("wartet_auf_startfreigabe", {})


def test_replace_brings_a_better_text_to_the_operator(board: Any) -> None:
    board.submit("backup")
    board.work("operator", "operator_needs_human", human_action="say which host", reason="unclear")
    better = INTENT.replace("Nightly backup", "Backup of the mail host").replace("runs nightly", "restores")
    board.ok("submit", "-", "--replace", "--slug", "backup", stdin=better)
    card = board.card("backup")
    assert (card.phase, card.title) == ("operator_pruefung", "Backup of the mail host")
    assert card.acceptance_criteria == ("restores",)
    assert board.ok("show", "backup", "--intent").rstrip() == better.rstrip()


def test_replace_takes_nothing_but_the_text(board: Any) -> None:
    assert "--replace" in board.refused("submit", "-", "--replace", "--lane", "leicht", stdin=INTENT, code=2)


def test_replace_of_a_card_that_does_not_wait_is_refused_and_changes_no_text(board: Any) -> None:
    board.submit("backup")
    assert "backup" in board.refused("submit", "-", "--replace", "--slug", "backup", stdin="# Intent: Other\n")
    assert board.ok("show", "backup", "--intent").rstrip() == INTENT.rstrip()


def test_the_owner_hands_a_new_intent_straight_to_a_builder(board: Any) -> None:
    board.ok("build", "-", "--slug", "now", "--lane", "leicht", stdin=INTENT)
    card = board.card("now")
    assert (card.phase, card.lane, card.by_hand, card.ladder) == ("geplant", "leicht", True, None)


def test_a_card_that_waits_for_a_person_can_be_built_by_its_slug(board: Any) -> None:
    board.submit("backup")
    board.work("operator", "operator_needs_human", human_action="say which host", reason="unclear")
    board.ok("build", "backup", "--iterations", "9")
    assert board.card("backup").profile.iteration_limit == 9


def test_nobody_but_the_owner_builds_without_an_operator(board: Any) -> None:
    board.submit("backup")
    board.owned_by("daemon")
    for arguments in (["build", "backup"], ["build", "-", "--slug", "now"]):
        assert "only the owner daemon" in board.refused(*arguments, stdin=INTENT)
    assert [card["slug"] for card in board.json("list")] == ["backup"]


@pytest.mark.parametrize(
    ("arguments", "text", "said"),
    [
        ((), "no title", "the intent: must begin with the line '# Intent: <title>'"),
        (("--slug", "ABC"), INTENT, "--slug: 'ABC' is no slug"),
        ((), "# Intent: !!!\n", "--slug: the title '!!!' makes no slug"),
        (("--scope", "../x"), INTENT, "--scope: '../x' has '..'"),
        (("--replace",), "no title", "the intent: must begin with"),
    ],
)
def test_a_refusal_names_what_was_given(board: Any, arguments: tuple[str, ...], text: str, said: str) -> None:
    assert board.refused("submit", "-", *arguments, stdin=text).startswith(f"board: {said}")


def program(board: Any, command: str, **environment: str) -> subprocess.CompletedProcess[bytes]:
    """A shell command with the real program as `board`, for this board."""
    script = board.directory / "bin" / "board"
    script.parent.mkdir(exist_ok=True)
    script.write_text(f"#!{sys.executable}\nfrom intent_board.cli.board import main\nmain()\n")
    script.chmod(0o755)
    path = f"{script.parent}:{os.environ['PATH']}"
    given = {**os.environ, "PATH": path, "INTENT_BOARD_CONFIG": str(board.file), **environment}
    return subprocess.run(["bash", "-c", command], env=given, capture_output=True, check=False)


@pytest.mark.parametrize("stdin", ["<&-", "< /dev/null"])
def test_a_stdin_that_gives_nothing_is_said_in_one_sentence(board: Any, stdin: str) -> None:
    done = program(board, f"board submit - {stdin}")
    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr.startswith(b"board: ") and done.stderr.count(b"\n") == 1, done.stderr


def test_an_endless_file_is_not_read_to_its_end(board: Any) -> None:
    assert "larger than 1 MiB" in board.refused("submit", "/dev/zero")


def test_a_terminal_without_a_character_gets_its_escape(board: Any) -> None:
    board.submit("one", "# Intent: \u00c4rger \u2014 \U0001f600\n")
    latin = {"PYTHONUTF8": "0", "PYTHONIOENCODING": "iso8859-1:strict"}
    for command in ("list", "show one", "show one --intent", "log", "status --once"):
        done = program(board, f"board {command}", **latin)
        assert (done.returncode, done.stderr) == (0, b""), done.stderr
    assert b"\xc4rger \\u2014 \\U0001f600" in program(board, "board list", **latin).stdout
