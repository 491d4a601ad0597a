"""What was deployed, and what the roles are told and allowed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

HASH = "a" * 40


def ready(board: Any, slug: str) -> None:
    board.submit(slug)
    board.approved(slug)
    board.work("publish", "published", commit=HASH)


def test_deployments_are_listed_the_newest_first(board: Any) -> None:
    assert board.ok("deployments") == "nothing was deployed yet\n"
    for slug in ("one", "two"):
        ready(board, slug)
    board.happen("one", "deploy_failed", reason="unhealthy", deployment={"outcome": "rolled_back", "commit": HASH})
    board.happen("two", "deployed", deployment={"outcome": "deployed", "commit": HASH, "sentence": "it runs"})
    lines = board.ok("deployments").splitlines()
    assert "two" in lines[1] and "it runs" in lines[1] and "rolled_back" in lines[2]
    assert [one["slug"] for one in board.json("deployments", "--last", "1")] == ["two"]


def test_every_role_is_shown_with_what_it_may_do(board: Any) -> None:
    found = {role["role"]: role for role in board.json("roles")}
    assert set(found) == {"operator", "builder", "reviewer", "fixer", "inspector", "planner", "planner-dialogue"}
    assert "docs/intent/SLUG.md" in found["planner-dialogue"]["access"]
    assert found["reviewer"]["access"] == "reads one commit" and "attempt" in found["reviewer"]["runs_with"]["review"]
    assert set(found["builder"]["runs_with"]) == {"builder-schwer", "builder-leicht"}
    assert len(found["operator"]["sha256"]) == 64 and found["operator"]["text"] == "packaged"
    assert found["operator"]["version"] in board.ok("roles")


def test_a_text_that_was_changed_on_the_host_is_shown_as_such(board: Any, tmp_path: Path) -> None:
    text = tmp_path / "operator.md"
    text.write_text("---\nrole-id: operator\nrole-version: 9\nstatus: active\nowner: lukas\n---\nDecide.\n")
    board.write()
    with board.file.open("a") as file:
        file.write(f'[roles.operator]\ncontract = "{text}"\nallowed_commands = ["graphify query"]\n')
    shown = board.json("roles")[0]
    assert (shown["text"], shown["version"], shown["allowed_commands"]) == (f"changed: {text}", "9", ["graphify query"])
    assert shown["commands_held"] == {"operator": False}
    assert "graphify query (not held in operator)" in " ".join(board.ok("roles").split())
    text.write_text(text.read_text().replace("active", "draft"))
    assert "status is 'draft'" in board.refused("roles")


def test_a_number_too_large_for_the_store_is_wrong_usage(board: Any) -> None:
    for command in ("log", "deployments"):
        assert "--last" in board.refused(command, "--last", str(10**22), code=2)
