"""The live view draws what the store says, whatever stands in it."""

from __future__ import annotations

import io
import time
from typing import Any

from rich.console import Console

from intent_board.board.model import Job, JobState
from intent_board.cli import status
from intent_board.cli.status import PARKED_SHOWN, Picture, draw
from intent_board.store.values import BoardStatus, CardLine, JobLine, PausedRuntime


def text(picture: Picture, width: int = 120) -> str:
    out = io.StringIO()
    Console(file=out, width=width, highlight=False).print(draw(picture))
    return out.getvalue()


def line(used: int, limit: int | None, slug: str = "card") -> JobLine:
    profile = {"runtime": "codex", "model": "gpt-5.6-luna", "reasoning_effort": "none", "iteration_limit": limit}
    job = Job(
        7, slug, "builder", "builder-schwer", 1, 1, JobState.RUNNING, 3, {"profile": profile}, used_iterations=used
    )
    values: dict[str, Any] = dict.fromkeys(JobLine.__dataclass_fields__)
    values |= {"job": job, "started_at": 940.0, "runtime": "codex", "usage": {}, "result": {}}
    return JobLine(**values)


def parked(slug: str, reason: str) -> CardLine:
    values: dict[str, Any] = dict.fromkeys(CardLine.__dataclass_fields__, "")
    return CardLine(**{**values, "slug": slug, "phase": "klaerung_reparatur", "status": "failed", "reason": reason})


def picture(**values: Any) -> Picture:
    given = {"running": (), "queued": {}, "phases": {}, **values}
    return Picture(1000.0, BoardStatus(**given), given.pop("parked", ()))


def test_an_empty_board() -> None:
    assert "no card yet" in text(picture()) and "nothing runs" in text(picture())


def test_running_jobs_show_iterations_against_their_limit() -> None:
    shown = text(picture(running=(line(15, 20), line(3, None)), phases={"in_umsetzung": 2}, queued={"review": 4}))
    assert "15/20 ███████···" in " ".join(shown.split())
    assert "codex gpt-5.6-luna none" in shown and "1m 0s" in shown
    assert "2  in_umsetzung" in shown and "review 4" in shown


def test_more_used_than_allowed_is_drawn_as_full() -> None:
    assert "██████████" in text(picture(running=(line(50, 20),)))


def test_cost_and_paused_runtimes() -> None:
    paused = (PausedRuntime("codex", 1.0, "401"),)
    shown = text(picture(cost_usd={"claude": 1.5, "codex": 0.25}, paused=paused))
    assert "reported cost: $1.75 (claude $1.50, codex $0.25)" in shown
    assert "board resume codex" in shown


def test_markup_and_escapes_of_a_model_are_only_text() -> None:
    cards = [parked("one", "[bold red]x[/bold red] [/] \x1b[2J \u202e")]
    status_values = BoardStatus(running=(line(1, 20, "[red]a[/]"),), queued={}, phases={})
    shown = text(Picture(1000.0, status_values, cards), 200)
    assert "[bold red]x[/bold red] [/] \\x1b[2J \\u202e" in shown
    assert "[red]a[/]" in shown and "\x1b" not in shown


def test_a_bad_night_leaves_room() -> None:
    cards = [parked(f"card-{number}", "broke") for number in range(PARKED_SHOWN + 5)]
    shown = text(Picture(1000.0, BoardStatus(running=(), queued={}, phases={}), cards))
    assert "and 5 more" in shown and f"card-{PARKED_SHOWN}" not in shown


def test_without_a_terminal_it_is_printed_once(board: Any) -> None:
    board.submit("one")
    started = time.monotonic()
    assert "1 operator_pruefung" in " ".join(board.ok("status").split())
    assert time.monotonic() - started < 2


def test_json_names_what_waits_for_a_person(board: Any) -> None:
    board.submit("one")
    board.work("operator", "operator_needs_human", human_action="look", reason="unclear")
    shown = board.json("status")
    assert [card["slug"] for card in shown["waits_for_a_person"]] == ["one"]
    assert shown["status"]["phases"] == {"operator_klaerung_noetig": 1}


def test_ctrl_c_leaves_the_view_without_a_fault(board: Any, monkeypatch: Any) -> None:
    def interrupt(seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(status.time, "sleep", interrupt)
    monkeypatch.setattr(status, "_is_terminal", lambda: True)
    board.submit("one")
    assert "operator_pruefung" in board.ok("status")
