"""What people see: families together, nothing cut, and no character that a terminal would obey."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from intent_board.cli.failure import visible
from intent_board.cli.table import facts, table
from intent_board.cli.times import ago, stamp

HASH = "a" * 40
HOSTILE = "\x1b[2J\x1b]0;owned\x07 \u202eevil\u200b [bold]x[/bold]\r\x9b1m"


def child(slug: str, wave: int = 1, blocked_by: tuple[str, ...] = ()) -> dict[str, Any]:
    return {
        "slug": slug,
        "title": f"Part {slug}",
        "lane": "leicht",
        "write_scope": [slug],
        "acceptance_criteria": ["works"],
        "wave": wave,
        "blocked_by": list(blocked_by),
        "intent": f"# Intent: Part {slug}\n",
    }


def family(board: Any) -> None:
    board.submit("house")
    board.submit("garden")
    board.work(
        "operator", "operator_split", children=[child("a-walls"), child("roof", 2, ("a-walls",))], reason="two parts"
    )


def test_a_list_keeps_families_together(board: Any) -> None:
    family(board)
    lines = board.ok("list").splitlines()
    slugs = [line.split("  ")[0] or line.split()[0] for line in lines]
    place = slugs.index("house")
    assert lines[0].split() == ["CARD", "PHASE", "STATUS", "LANE", "SINCE", "TITLE"]
    assert [line.split()[0] for line in lines[place : place + 3]] == ["house", "a-walls", "roof"]
    assert lines[place + 1].startswith("  a-walls ")
    assert len(lines) == 5


def test_a_list_can_be_narrowed(board: Any) -> None:
    family(board)
    assert {card["slug"] for card in board.json("list", "--parent", "house")} == {"a-walls", "roof"}
    assert {card["slug"] for card in board.json("list", "--phase", "operator_pruefung")} == {"garden"}
    assert len(board.json("list", "--repository", "site")) == 4
    assert len(board.json("list", "--mine")) == 4
    board.ok("archive", "garden")
    assert "garden" not in board.ok("list") and "garden" in board.ok("list", "--all")
    assert "wartet_auf_kinder" in board.refused("list", "--phase", "running", code=2)


def test_an_empty_board_says_so(board: Any) -> None:
    assert board.ok("list") == "no card\n"
    assert board.ok("log") == ""


def test_why_and_log_of_a_card_that_is_not_there(board: Any) -> None:
    for command in ("why", "log", "show"):
        assert "no card 'nope'" in board.refused(command, "nope")


def test_why_names_what_a_card_waits_for(board: Any) -> None:
    family(board)
    assert "a-walls" in board.ok("why", "roof")
    assert board.json("why", "roof")["why"] in board.ok("why", "roof")


def test_the_log_tells_who_did_what_in_order(board: Any) -> None:
    board.submit("one")
    board.ok("archive", "one", "--reason", "by hand")
    events = board.json("log", "one")
    assert [(event["event"], event["actor"]) for event in events] == [
        ("submit_by_owner", board.owner),
        ("archive", board.owner),
    ]
    assert board.ok("log", "--last", "1").split("  ", 1)[1].startswith("one  archive  by ")


def test_the_log_shows_no_empty_value_of_what_an_event_brought(board: Any) -> None:
    board.submit("one")
    escalation = [{"model": "m", "reasoning_effort": None, "iteration_limit": 5}]
    board.work("operator", "operator_direct", lane="leicht", reason="small", escalation=escalation)
    assert "escalation=[{iteration_limit=5, model=m}], lane" in board.ok("log", "one")


def test_show_leaves_out_what_is_empty_however_deep(board: Any) -> None:
    board.submit("one")
    board.built("one")
    report = {"summary": "not yet", "findings": [{"path": None}, [None], None, {"text": "breaks"}], "criteria": None}
    board.work("review", "negative", commit=HASH, report=report)
    shown = board.ok("show", "one")
    assert "- text: breaks" in shown and "None" not in shown


def test_show_has_reviews_reports_and_the_raw_answer(board: Any) -> None:
    board.submit("one")
    board.built("one")
    report = {"summary": "not yet", "findings": [{"severity": "blocker", "path": "a", "text": "it\nbreaks"}]}
    board.work("review", "negative", raw="word for word", commit=HASH, report=report)
    shown = board.ok("show", "one")
    assert f"Review of {HASH}" in shown and "  findings:" in shown and "breaks" in shown
    assert board.ok("show", "one", "--raw", "reviewer") == "word for word\n"
    assert "answers of" in board.refused("show", "one", "--raw", "operator")
    everything = board.json("show", "one")
    assert everything["reviews"][0]["report"] == report
    assert {"card", "why", "intent", "jobs", "attachments", "routes"} <= set(everything)


def test_nothing_that_a_model_wrote_acts_on_the_terminal(board: Any) -> None:
    board.submit("one", f"# Intent: One\n\n{HOSTILE}\n")
    board.work("operator", "operator_needs_human", raw=HOSTILE, human_action=HOSTILE, reason=HOSTILE)
    for words in (["list"], ["show", "one"], ["show", "one", "--intent"], ["show", "one", "--raw", "operator"]):
        assert_harmless(board.ok(*words))
    for words in (["why", "one"], ["log"], ["log", "one"], ["status", "--once"]):
        assert_harmless(board.ok(*words))
    for words in (["show", "one"], ["list"], ["log"], ["status"]):
        text = board.ok(*words, "--json")
        assert text.isascii() and json.loads(text)


def assert_harmless(text: str) -> None:
    assert [char for char in text if not char.isprintable() and char not in "\n\t"] == []


def test_a_refusal_that_quotes_hostile_text_is_harmless(board: Any) -> None:
    assert_harmless(board.refused("why", HOSTILE))
    assert_harmless(board.refused("submit", "-", stdin=f"# Intent: {HOSTILE}\n"))


@pytest.mark.parametrize(
    ("text", "shown"),
    [("plain äß\n\t", "plain äß\n\t"), ("\x1b[0m", "\\x1b[0m"), ("a\u202eb", "a\\u202eb"), ("\x7f\x9b", "\\x7f\\x9b")],
)
def test_visible(text: str, shown: str) -> None:
    assert visible(text) == shown


def test_a_table_cuts_nothing_and_keeps_each_row_on_a_line() -> None:
    text = table(("A", "B"), [("x" * 200, "one\ntwo"), (None, "")])
    assert text.splitlines() == ["A" + " " * 201 + "B", "x" * 200 + "  one two", "-" + " " * 201 + "-"]


def test_facts_leave_out_what_is_empty() -> None:
    assert facts((("name", "a"), ("none", None), ("lines", "b\nc"))) == "name   a\nlines  b\n       c"


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(0, "0s"), (59, "59s"), (60, "1m 0s"), (3661, "1h 1m"), (90000, "1d 1h"), (-5, "0s")],
)
def test_ago(seconds: int, shown: str) -> None:
    assert ago(1000.0, 1000.0 + seconds) == shown
    assert ago(None, 1.0) == ""


def test_a_time_that_no_clock_shows_does_not_stop_a_list() -> None:
    assert stamp(1e300).endswith(" s") and stamp(None) == ""


def test_a_backup_is_a_whole_store_that_only_the_owner_makes(board: Any) -> None:
    board.submit("one")
    first, second = (board.ok("backup").strip() for _ in range(2))
    assert first != second
    with closing(sqlite3.connect(first)) as copy:
        assert copy.execute("SELECT slug FROM cards").fetchall() == [("one",)]
    assert Path(first).stat().st_mode & 0o077 == 0
    board.owned_by("daemon")
    assert "only the owner daemon" in board.refused("backup")


def test_a_mistyped_repository_is_no_empty_board(board: Any) -> None:
    assert "there is no repository 'sight'; use one of: site" in board.refused("list", "--repository", "sight", code=2)
    assert board.ok("list", "--repository", "site") == "no card\n"
    board.submit("backup")
    board.file.write_text(board.file.read_text().replace("site", "other"))
    assert board.json("list", "--repository", "other") == []
    assert "backup" in board.ok("list", "--repository", "site"), "a card outlives its repository's table"
