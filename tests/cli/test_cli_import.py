"""`board import`: a former board taken over, all or nothing, and nothing of it started."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from intent_board.board.model import Kind, Phase, Profile, Rung
from intent_board.contracts import intent
from intent_board.store import open_store

PROFILE = {"runtime": "codex", "model": "gpt-5.6-terra", "reasoning_effort": "medium", "iteration_limit": 12}


def card(phase: str, **more: Any) -> dict[str, Any]:
    """A card as the former board wrote it, with every field."""
    return {
        "source": "docs/intent/some.md",
        "title": "A thing",
        "phase": phase,
        "parent_id": None,
        "operator_parent_id": None,
        "operator_managed": False,
        "operator_generated": False,
        "orchestration_kind": None,
        "operator_decision": None,
        "operator_reason": None,
        "human_action": None,
        "depends_on": [],
        "child_slugs": [],
        "synthesis_generated": False,
        "synthesis_intent_path": None,
        "synthesis_for": None,
        "synthesis_status": None,
        "blocking_children": [],
        "blocked_by": [],
        "wave": None,
        "lane": "schwer",
        "recommended_lane": "leicht",
        "recommended_profile": PROFILE,
        "escalation_attempts": 1,
        "auto_retry_attempts": 0,
        "write_scope": ["./src/", "docs/*.md"],
        "acceptance_criteria": ["it works"],
        "operator_dispatch_state": "done",
        "last_job_id": "job-17",
        "last_run_status": "succeeded",
        "review_decision": None,
        "runtime": "codex",
        "model": "gpt-5.6-luna",
        "reasoning_effort": "none",
        **more,
    }


def child(phase: str, parent: str, **more: Any) -> dict[str, Any]:
    return card(phase, parent_id=parent, operator_parent_id=parent, operator_generated=True, wave=1, **more)


def former_board() -> dict[str, Any]:
    """One card in each phase, an unfinished family, one half done, one finished, one archived."""
    cards = {f"in-{phase.replace('_', '-')}": card(phase) for phase in Phase if "kinder" not in phase}
    cards["in-planung-mit-feedback"] |= {"last_run_status": "succeeded", "review_decision": "planung_mit_feedback"}
    cards["in-klaerung-reparatur"] |= {"last_run_status": "limit_reached", "operator_reason": "too large"}
    cards["undecided"] = card("geplant", lane=None, recommended_lane=None, recommended_profile=None)
    cards["open"] = card(
        "wartet_auf_kinder", child_slugs=["open-a", "open-b", "open-c"], lane=None, recommended_lane=None
    )
    cards["open-a"] = child("in_umsetzung", "open", escalation_attempts=[{**PROFILE, "model": "gpt-5.6-sol"}])
    cards["open-b"] = child("geplant", "open", blocked_by=["open-a"], depends_on=["open-a"])
    cards["open-c"] = child("klaerung_reparatur", "open", last_run_status="failed", future_field={"x": [1]})
    cards["half"] = card("durch_kinder_blockiert", child_slugs=["half-a", "half-b"], lane=None, recommended_lane=None)
    cards["half-a"] = child("bereit_fuer_deployment", "half", review_decision="bereit_fuer_deployment")
    cards["half-b"] = child("im_review", "half", blocked_by=["half-a"], lane=None, recommended_lane=None)
    cards["full"] = card("deployed", child_slugs=["full-a"], synthesis_generated=True, synthesis_status="good")
    cards["full-a"] = child("deployed", "full")
    cards["full-synthese"] = card(
        "deployed", synthesis_for="full", synthesis_generated=True, synthesis_intent_path="x/full-synthese.md"
    )
    cards["gone"] = card("archiviert", child_slugs=["gone-a", "gone-b"])
    cards["gone-a"] = child("geplant", "gone")
    cards["gone-b"] = child("deployed", "gone")
    cards["synth"] = card("wartet_auf_kinder", child_slugs=["synth-a"])
    cards["synth-a"] = child("geplant", "synth")
    cards["synth-synthese"] = card("geplant", synthesis_for="synth", lane=None, recommended_lane=None)
    return {"version": 7, "cards": cards}


class Importer:
    def __init__(self, board: Any, directory: Path) -> None:
        self.board, self.file, self.intents = board, directory / "cards.json", directory / "old-intents"
        self.intents.mkdir()
        self.state = former_board()

    def arguments(self, *more: str) -> tuple[str, ...]:
        self.file.write_text(json.dumps(self.state))
        return ("import", "--state", str(self.file), "--intents", str(self.intents), *more)

    def ok(self, *more: str) -> dict[str, Any]:
        found: dict[str, Any] = self.board.json(*self.arguments(*more))
        return found

    def broken(self) -> dict[str, str]:
        """Runs into a refusal, after which nothing is there; the reasons by slug."""
        result = self.board.run(*self.arguments("--json"))
        assert result.exit_code == 1, result.output
        found = json.loads(result.stdout)
        assert not found["done"]
        assert self.board.json("list") == []
        reasons: dict[str, str] = {}
        for one in found["broken"]:
            reasons[one["slug"]] = f"{reasons.get(one['slug'], '')}{one['reason']}\n"
        return reasons


@pytest.fixture
def importer(board, tmp_path: Path) -> Importer:  # type: ignore[no-untyped-def]
    return Importer(board, tmp_path)


def test_what_a_former_board_did_not_know_is_nowhere_shown_as_none(importer: Importer) -> None:
    slugs = [one["slug"] for one in importer.ok()["cards"]]
    board = importer.board
    assert "knows no commit of it" in board.refused("deploy", "in-bereit-fuer-deployment")
    board.happen("in-bereit-fuer-deployment", "deployed", deployment={"commit": None, "steps": [{"path": None}]})
    whole = (["list", "--all"], ["log"], ["status", "--once"], ["deployments"])
    for words in (*whole, *([word, slug] for slug in slugs for word in ("why", "show", "log"))):
        assert not re.search(r"\b(None|null)\b", board.ok(*words)), words


def test_every_card_lands_where_nothing_starts_by_itself(importer: Importer) -> None:
    found = importer.ok()
    assert found["done"] and len(found["cards"]) == len(importer.state["cards"]) == 30
    here = {one["slug"]: (one["phase"], one["status"]) for one in found["cards"]}
    assert here["in-bereit-fuer-deployment"] == ("bereit_fuer_deployment", "succeeded")
    assert here["in-deployed"][0] == here["full-a"][0] == here["full-synthese"][0] == here["gone-b"][0] == "deployed"
    assert here["in-archiviert"] == here["gone-a"] == ("archiviert", "cancelled")
    assert here["in-wartet-auf-startfreigabe"] == ("wartet_auf_startfreigabe", "queued")
    for slug in ("in-operator-pruefung", "in-operator-klaerung-noetig", "undecided", "half"):
        assert here[slug] == ("operator_klaerung_noetig", "cancelled"), slug
    for slug in ("in-geplant", "in-in-umsetzung", "in-in-umsetzung-leicht", "in-im-review", "open-a", "half-b"):
        assert here[slug] == ("klaerung_reparatur", "cancelled"), slug
    assert here["in-klaerung-reparatur"] == ("klaerung_reparatur", "limit_reached")
    assert here["in-planung-mit-feedback"] == ("planung_mit_feedback", "succeeded")
    assert here["open"] == here["synth"] == ("durch_kinder_blockiert", "succeeded")

    store = open_store(importer.board.config)
    before = {line.slug: line.phase for line in store.cards()}
    for tick in range(3):
        assert store.families_to_prove() == []
        store.tick(2e9 + tick, off_branch={})
    assert {line.slug: line.phase for line in store.cards()} == before
    assert not any(store.jobs(slug) for slug in before)
    for queue in importer.board.config.queue_slots():
        assert store.claim(queue) is None
    for slug in before:
        assert importer.board.ok("why", slug)
    store.close()


def test_what_the_former_board_decided_is_kept(importer: Importer) -> None:
    importer.ok()
    one = importer.board.card
    assert one("open-b").blocked_by == ("open-a",)
    assert one("half-b").blocked_by == (), "no proof of half-a will ever come"
    assert "half-a" in one("half-b").warnings[-1]
    assert (one("open").kind, one("open-a").kind, one("full-synthese").kind) == (
        Kind.PARENT,
        Kind.CHILD,
        Kind.SYNTHESIS,
    )
    assert [one(slug).parent for slug in ("open-a", "full-synthese", "open")] == ["open", "full", None]
    assert one("open-a").profile == Profile("codex", "gpt-5.6-terra", "medium", 12)
    assert one("open-a").ladder == (Rung("gpt-5.6-sol", "medium", 12),)
    assert one("open-b").ladder is None
    assert (one("open-a").wave, one("open-a").write_scope) == (1, ("src", "docs/*.md"))
    assert one("open-a").acceptance_criteria == ("it works",)
    assert one("in-in-umsetzung-leicht").lane == "schwer"
    assert one("synth-synthese").lane == "schwer"
    assert "too large" in one("in-klaerung-reparatur").reason
    store = open_store(importer.board.config)
    (notes,) = store.attachments("open-c", "notes")
    assert notes.data == {"imported": importer.state["cards"]["open-c"], "unknown": ["future_field"]}
    store.close()


def test_on_the_owners_word_an_imported_family_goes_its_way(importer: Importer) -> None:
    importer.ok()
    board = importer.board
    for slug in ("open-b", "open-a"):
        board.ok("retry", slug)
    board.ok("retry", "half")
    store = open_store(board.config)
    store.tick(2e9, off_branch={})
    assert store.card("open-a").phase is Phase.IN_UMSETZUNG
    assert store.card("open-b").phase is Phase.GEPLANT
    assert "open-a" in board.ok("why", "open-b")
    claim = store.claim("operator")
    assert claim is not None and claim.job.slug == "half"
    store.close()


def test_nothing_that_was_finished_elsewhere_is_deployed_without_a_commit(importer: Importer) -> None:
    importer.ok()
    assert "knows no commit" in importer.board.refused("deploy", "in-bereit-fuer-deployment")


def test_intents_come_along_or_are_made_from_the_card(importer: Importer) -> None:
    (importer.intents / "open-a.md").write_text("\ufeff# Intent: Wörtlich\n\nSo steht es da.\n", encoding="utf-8")
    (importer.intents / "elsewhere.md").write_text("# Intent: By its source\n")
    importer.state["cards"]["in-geplant"] |= {"source": "docs/intent/elsewhere.md", "title": None}
    importer.ok()
    board = importer.board
    assert "So steht es da." in board.ok("show", "open-a", "--intent")
    assert board.card("in-geplant").title == "By its source"
    made = intent.parse(board.ok("show", "open-b", "--intent"))
    assert (made.title, made.criteria) == ("A thing", ("it works",))
    assert (board.config.intent_dir / "open-a.md").exists()


def test_a_dry_run_says_the_same_and_does_nothing(importer: Importer) -> None:
    planned = importer.ok("--dry-run")
    assert importer.board.json("list") == []
    done = importer.ok()
    assert planned["cards"] == done["cards"]
    assert (planned["done"], done["done"]) == (False, True)


def test_a_second_run_imports_nothing_twice_and_says_so(importer: Importer) -> None:
    importer.ok()
    importer.board.ok("retry", "in-geplant")
    importer.state["cards"]["late"] = card("geplant", blocked_by=["open-a"])
    again = importer.ok()
    assert [one["slug"] for one in again["cards"]] == ["late"]
    assert len(again["already_imported"]) == 30
    assert importer.board.card("in-geplant").phase is Phase.GEPLANT
    assert "0 imported, 31 were imported before" in importer.board.ok(*importer.arguments())


def test_a_slug_that_another_card_has_refuses_everything(importer: Importer) -> None:
    importer.board.submit("open-a")
    result = importer.board.run(*importer.arguments("--json"))
    assert result.exit_code == 1
    broken = {one["slug"]: one["reason"] for one in json.loads(result.stdout)["broken"]}
    assert "taken by another card" in broken["open-a"]
    assert [one["slug"] for one in importer.board.json("list")] == ["open-a"]


BROKEN: list[tuple[str, dict[str, Any], str]] = [
    ("in-geplant", {"phase": "fertig"}, "phase must be one of"),
    ("in-geplant", {"phase": ["geplant"]}, "phase must be one of"),
    ("in-geplant", {"title": "safe\u202egnihtyna"}, "U+202E"),
    ("in-geplant", {"title": "a\nb"}, "U+000A"),
    ("in-geplant", {"title": None}, "no title"),
    ("in-geplant", {"title": 7}, "title must be a text"),
    ("in-geplant", {"operator_reason": "x" * 30_000}, "operator_reason must be"),
    ("in-geplant", {"anything": "x" * 300_000}, "larger than 256 KiB"),
    ("in-geplant", {"wave": True}, "wave must be a whole number"),
    ("in-geplant", {"wave": 1.5}, "wave must be a whole number"),
    ("in-geplant", {"lane": "mittel"}, "lane 'mittel' is not one of schwer, leicht"),
    ("in-geplant", {"write_scope": "src"}, "write_scope must be a list"),
    ("in-geplant", {"write_scope": ["../etc"]}, "write_scope: "),
    ("in-geplant", {"write_scope": [".git/hooks"]}, ".git"),
    ("in-geplant", {"acceptance_criteria": [""]}, "acceptance_criteria must be"),
    ("in-geplant", {"acceptance_criteria": ["x"] * 201}, "acceptance_criteria must be"),
    ("in-geplant", {"blocked_by": ["nowhere"]}, "'nowhere', which does not exist"),
    ("in-geplant", {"blocked_by": ["in-geplant"]}, "names itself"),
    ("in-geplant", {"blocked_by": ["No Slug"]}, "list of slugs"),
    ("open-a", {"blocked_by": ["open-b"]}, "waits in a circle"),
    ("open-a", {"blocked_by": ["open"]}, "waits for its own parent"),
    ("open-a", {"parent_id": "half"}, "more than one parent"),
    ("open-a", {"child_slugs": ["in-geplant"]}, "two generations"),
    ("in-geplant", {"recommended_profile": "fast"}, "recommended_profile must be an object"),
    ("in-geplant", {"recommended_profile": {"runtime": 1}}, "recommended_profile must have"),
    ("in-geplant", {"synthesis_generated": "yes"}, "synthesis_generated must be true or false"),
    ("synth-a", {"synthesis_for": "synth"}, ""),
]


@pytest.mark.parametrize(("slug", "values", "reason"), BROKEN)
def test_a_broken_card_refuses_everything_with_its_reason(
    importer: Importer, slug: str, values: dict[str, Any], reason: str
) -> None:
    importer.state["cards"][slug] |= values
    broken = importer.broken()
    assert reason in (broken.get(slug) or broken["synth"])


def test_every_broken_card_is_listed_at_once(importer: Importer) -> None:
    importer.state["cards"] |= {
        "Bad Slug": card("geplant"),
        "list": [],
        "a": card("x", title=""),
        "x" * 53: card("geplant"),
    }
    importer.state["cards"]["sneaky-synthese"] = card("geplant")
    broken = importer.broken()
    assert {"Bad Slug", "list", "a", "x" * 53, "sneaky-synthese"} <= broken.keys()
    result = importer.board.run(*importer.arguments())
    assert result.stdout == "" and result.stderr.endswith("run the same command again\n")
    assert "board: a: " in result.stderr


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"cards": []}',
        '{"cards": {}, "cards": {}}',
        '{"cards": {"a": NaN}}',
        "{" * 5000,
        '{"cards":{"a":"\\ud800"}}',
    ],
)
def test_a_file_that_is_no_state_is_one_sentence(importer: Importer, text: str) -> None:
    importer.file.write_text(text)
    result = importer.board.run("import", "--state", str(importer.file))
    assert result.exit_code == 1
    assert result.stderr.startswith("board: ") and "Traceback" not in result.stderr
    assert importer.board.json("list") == []


def test_a_profile_that_this_board_can_not_run_is_the_lanes_with_a_warning(importer: Importer) -> None:
    importer.state["cards"]["in-geplant"]["recommended_profile"] = {**PROFILE, "runtime": "gemini"}
    importer.state["cards"]["open-c"]["escalation_attempts"] = [{"model": "unheard-of", "iteration_limit": 9}]
    importer.ok()
    taken = importer.board.card("in-geplant")
    assert taken.profile is not None and taken.profile.model == "gpt-5.6-luna"
    assert "recommended profile" in taken.warnings[0]
    assert importer.board.card("open-c").ladder is None


def test_a_profile_that_was_not_decided_is_none(importer: Importer) -> None:
    importer.state["cards"]["in-geplant"]["recommended_profile"] = dict.fromkeys(PROFILE)
    importer.state["cards"]["open-c"]["recommended_profile"] = {**PROFILE, "iteration_limit": None}
    importer.ok()
    for slug in ("in-geplant", "open-c"):
        taken = importer.board.card(slug)
        assert taken.profile is not None and taken.profile.iteration_limit == 20
    assert importer.board.card("in-geplant").warnings == ()


def test_a_long_line_of_cards_that_wait_for_one_another_is_taken_quickly(importer: Importer) -> None:
    importer.state["cards"] = {
        f"card-{number}": card("geplant", blocked_by=[f"card-{number - 1}"] if number else []) for number in range(2000)
    }
    begun = time.monotonic()
    assert len(importer.ok("--dry-run")["cards"]) == 2000
    assert time.monotonic() - begun < 20


@pytest.mark.faults
@pytest.mark.parametrize("place", [10, 60, 93])
def test_killed_in_the_middle_nothing_is_there_and_the_next_run_does_it(
    importer: Importer, tmp_path: Path, place: int
) -> None:
    importer.board.ok("list")
    script = "import sys; from intent_board.cli.board import main; main(sys.argv[1:])"
    places = {"INTENT_BOARD_TEST_BOUNDARIES": str(tmp_path / "places"), "INTENT_BOARD_TEST_KILL_AT": str(place)}
    command = [sys.executable, "-c", script, "--config", str(importer.board.file), *importer.arguments()]
    killed = subprocess.run(command, env={**os.environ, **places}, capture_output=True, check=False)
    assert killed.returncode == -signal.SIGKILL
    there = len(importer.board.json("list", "--all"))
    # 30 cards with their notes and audit are 90 effects; what follows is the commit.
    assert there == (0 if place <= 91 else 30)
    found = importer.ok()
    assert len(found["cards"]) + len(found["already_imported"]) == 30
    assert len(importer.board.json("list", "--all")) == 30


def test_only_the_owner_may(importer: Importer) -> None:
    importer.board.owned_by("somebody-else")
    assert "only the owner" in importer.board.refused(*importer.arguments())


def test_the_state_can_come_on_stdin(importer: Importer) -> None:
    text = json.dumps({"cards": {"lamp": card("geplant")}, "intents": {"lamp.md": "# Intent: Lamp\n\nOn stdin.\n"}})
    importer.board.ok("import", "--state", "-", stdin=text)
    assert "On stdin." in importer.board.ok("show", "lamp", "--intent")
