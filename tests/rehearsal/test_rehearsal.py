"""`scripts/rehearse`: a newcomer's first command carries a whole family through the real board."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from intent_board import sandbox
from intent_board.config import parse

SCRIPTS = Path(__file__).parents[2] / "scripts"


def rehearse(*arguments: str) -> subprocess.CompletedProcess[str]:
    # Without the shell part, which makes an environment of its own; the entry points are this interpreter's.
    path = f"{sysconfig.get_path('scripts')}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "REHEARSAL_STEP_SECONDS": "0"}
    command = [sys.executable, str(SCRIPTS / "rehearsal" / "story.py"), *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=300)


def test_a_family_goes_from_one_intent_to_a_ready_parent(tmp_path: Path) -> None:
    keep = tmp_path / "keep"
    done = rehearse("--json", "--keep", str(keep))
    assert done.returncode == 0, done.stderr
    end = json.loads(done.stdout.splitlines()[-1])
    assert end["parent"] == {"slug": "units", "phase": "bereit_fuer_deployment"}
    assert {child["slug"]: child["attempts"] for child in end["children"]} == {
        "units-length": 2,
        "units-weight": 1,
        "units-docs": 1,
    }
    assert {child["phase"] for child in [*end["children"], end["synthesis"]]} == {"bereit_fuer_deployment"}
    # The remote says the same as the board: every commit is on the branch, the synthesis at its tip.
    log = subprocess.run(
        ["git", "log", "--format=%H", "main"], cwd=keep / "remote.git", capture_output=True, text=True, check=True
    ).stdout.split()
    assert log[0] == end["synthesis"]["commit"]
    assert {child["commit"] for child in end["children"]} < set(log)
    assert sorted(path.name for path in (keep / "state" / "trees").iterdir()) == []
    assert list((keep / "state" / "runs").iterdir()) == []
    assert list((keep / "state" / "checkouts").iterdir()) == []


def test_a_refused_commit_is_repaired_on_an_applied_recommendation() -> None:
    done = rehearse("--story", "repair", "--json")
    assert done.returncode == 0, done.stderr
    end = json.loads(done.stdout.splitlines()[-1])
    assert end["card"]["phase"] == "bereit_fuer_deployment"
    assert (end["card"]["attempts"]["inspector"], end["card"]["attempts"]["fixer"]) == (1, 1)
    assert [review["decision"] for review in end["reviews"]] == ["planung_mit_feedback", "bereit_fuer_deployment"]
    assert end["reviews"][1]["commit"] == end["card"]["commit"] != end["reviews"][0]["commit"]


def test_a_strangers_intent_passes_both_gates_on_the_owners_word() -> None:
    done = rehearse("--story", "handoff", "--json")
    assert done.returncode == 0, done.stderr
    end = json.loads(done.stdout.splitlines()[-1])
    assert end["requester"] == "eva"
    assert end["releases"] == [end["card"]["commit"]]
    for said in ("$ board accept pressures", "wartet_auf_commitfreigabe", "$ board release pressures", "--dry-run"):
        assert said in done.stderr


def test_only_the_family_can_be_played_by_a_real_model() -> None:
    done = rehearse("--story", "repair", "--runtime", "codex")
    assert done.returncode == 2 and "needs its scripted agent" in done.stderr


def test_a_directory_with_something_in_it_is_not_used(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("x")
    done = rehearse("--keep", str(tmp_path))
    assert done.returncode == 2
    assert "is not empty" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


@pytest.mark.parametrize(("runtime", "key"), [("codex", "OPENAI_API_KEY"), ("claude", "ANTHROPIC_API_KEY")])
def test_a_real_program_without_program_or_key_is_refused_in_one_sentence(
    monkeypatch: pytest.MonkeyPatch, runtime: str, key: str
) -> None:
    monkeypatch.delenv(key, raising=False)
    done = rehearse("--runtime", runtime)
    assert done.returncode == 1
    assert "there is no program" in done.stderr or f"${key} is not set" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_machine_without_bubblewrap_is_told_so_loudly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(SCRIPTS / "rehearsal"))
    import story  # type: ignore[import-not-found]

    monkeypatch.setattr(sandbox, "available", lambda: "bubblewrap is missing")
    said: list[str] = []
    monkeypatch.setattr(story, "say", said.append)
    configured = story.configuration(tmp_path, tmp_path / "remote.git", "command")
    assert configured["board"]["sandbox"] == "when_available"
    assert said[0].startswith("!!! NO SANDBOX HERE")


@pytest.mark.parametrize(("runtime", "key"), [("codex", "OPENAI_API_KEY"), ("claude", "ANTHROPIC_API_KEY")])
def test_a_real_program_gets_a_configuration_that_loads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, runtime: str, key: str
) -> None:
    monkeypatch.syspath_prepend(str(SCRIPTS / "rehearsal"))
    import story  # type: ignore[import-not-found]

    program = tmp_path / "bin" / runtime
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    monkeypatch.setenv(key, "sk-1234567890")
    config = parse(story.configuration(tmp_path, tmp_path / "remote.git", runtime))
    assert config.runtimes[runtime].command == (str(program),)
    directory = Path(story.credentials(tmp_path, runtime)["CREDENTIALS_DIRECTORY"])
    (name,) = config.runtimes[runtime].credentials.values()
    assert (directory / name).read_text() == "sk-1234567890"
