"""`board lint`: where it looks, what it prints, how it ends, and that submit says the same."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

INTENT = (
    "# Intent: Without htop\n\n"
    "## Ziel\n\n`htop` wird aus `environment.systemPackages` entfernt.\n\n## Umfang\n\nalles\n\n"
    "## Explizit Ausgeschlossenes\n\nkeine\n\n## Annahmen\n\nkeine\n\n## Offene Risiken\n\nkeine\n\n"
    "## Erfolgskriterien\n\n- `htop` ist weg\n"
)
LIST = "{ pkgs, ... }: { environment.systemPackages = with pkgs; [ htop ]; }\n"
SAID = "htop stands in 2 package lists (hosts/blunix/packages.nix, hosts/globalServices/packages.nix)"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A work tree with one package in two lists, an intent in it, and what is no list."""
    root = tmp_path / "tree"
    for place in ("hosts/blunix", "hosts/globalServices"):
        (root / place).mkdir(parents=True)
        (root / place / "packages.nix").write_text(LIST)
    (root / "hosts/tnix").mkdir()
    (root / "hosts/tnix/packages.nix").symlink_to(root / "hosts/blunix/packages.nix")
    (root / "hosts/loop").symlink_to(root / "hosts")
    (root / "docs/intent").mkdir(parents=True)
    (root / "docs/intent/no-htop.md").write_text(INTENT)
    return root


def git(cwd: Path, *argv: str) -> None:
    subprocess.run(
        ["git", "-c", "user.name=t", "-c", "user.email=t@t", *argv], cwd=cwd, check=True, capture_output=True
    )


def fetched(board: Any, tree: Path) -> None:
    """The tree is what the board last fetched of its repository."""
    git(tree, "init", "-q", "-b", "main")
    git(tree, "add", "-A")
    git(tree, "commit", "-qm", "all")
    (board.config.state_dir / "mirrors").mkdir(parents=True, exist_ok=True)
    git(tree, "clone", "-q", "--mirror", str(tree), str(board.config.state_dir / "mirrors/site.git"))


def test_findings_are_warnings_and_errors_when_strict(board: Any, tree: Path) -> None:
    file = str(tree / "docs/intent/no-htop.md")
    assert board.ok("lint", file, "--tree", str(tree)).startswith(f"{file}:5: warning: {SAID}")
    strict = board.run("lint", file, "--tree", str(tree), "--strict")
    assert (strict.exit_code, SAID in strict.stdout) == (1, True)


def test_the_checkout_around_the_intent_is_looked_at(board: Any, tree: Path) -> None:
    file = str(tree / "docs/intent/no-htop.md")
    alone = board.run("lint", file)
    assert (alone.stdout, "not looked for" in alone.stderr) == ("ok\n", True)
    (tree / ".git").mkdir()
    assert SAID in board.ok("lint", file)


def test_json_has_every_finding_with_its_line(board: Any, tree: Path) -> None:
    found = board.json("lint", str(tree / "docs/intent/no-htop.md"), "--tree", str(tree))
    assert found["searched"] == str(tree)
    assert [(one["line"], one["rule"], one["severity"]) for one in found["findings"]] == [
        (5, "package-lists", "warning")
    ]


def test_a_document_that_can_not_be_submitted_is_an_error(board: Any) -> None:
    done = board.run("lint", "-", stdin="hello\n")
    assert (done.exit_code, "-:1: error: must begin with" in done.stdout) == (1, True)
    assert board.run("lint", "-", stdin="# Intent: x\n").exit_code == 0


def test_the_name_of_an_intents_file_is_its_slug(board: Any, tree: Path) -> None:
    bad = tree / "docs/intent/No Htop.md"
    bad.write_text(INTENT)
    assert "is no slug" in board.run("lint", str(bad)).stdout
    elsewhere = tree / "No Htop.md"
    elsewhere.write_text(INTENT)
    assert board.ok("lint", str(elsewhere)) == "ok\n"


def test_the_boards_own_mirror_can_be_looked_at(board: Any, tree: Path) -> None:
    board.submit("first")  # there is a state directory from here on
    assert "not fetched 'site' yet" in board.refused("lint", "-", "--repository", "site", stdin=INTENT)
    fetched(board, tree)
    assert SAID in board.ok("lint", "-", "--repository", "site", stdin=INTENT)
    assert "no repository 'other'" in board.refused("lint", "-", "--repository", "other", stdin=INTENT)


def test_submit_says_the_same_and_keeps_it_on_the_card(board: Any, tree: Path) -> None:
    early = board.run("submit", "-", "--slug", "early", stdin=INTENT)
    assert (early.exit_code, "note: the board has not fetched" in early.stderr) == (0, True)
    assert board.card("early").warnings == ()
    fetched(board, tree)
    done = board.run("submit", "-", stdin=INTENT)
    assert (done.exit_code, f"warning: {SAID}" in done.stderr) == (0, True)
    (kept,) = board.card("without-htop").warnings
    assert kept.startswith(SAID) and kept.endswith("(line 5)")
    assert SAID in board.ok("why", "without-htop")


def test_a_mirror_that_can_not_be_read_stops_no_intent(board: Any, tree: Path) -> None:
    board.submit("first")
    fetched(board, tree)
    (board.config.state_dir / "mirrors/site.git/packed-refs").write_text("broken\n")
    done = board.run("submit", "-", stdin=INTENT)
    assert (done.exit_code, "note: package lists were not looked for" in done.stderr) == (0, True)


def test_two_places_to_look_in_are_wrong_usage(board: Any, tree: Path) -> None:
    assert "one of them" in board.refused("lint", "-", "--tree", ".", "--repository", "site", stdin=INTENT, code=2)
    assert "no directory" in board.refused("lint", "-", "--tree", str(tree / "missing"), stdin=INTENT)


def test_a_list_that_is_a_pipe_does_not_hang_and_is_nobody_s_list(board: Any, tree: Path) -> None:
    import os

    os.mkfifo(tree / "hosts/tnix/pipe")
    (tree / "hosts/tnix/packages.nix").unlink()
    os.mkfifo(tree / "hosts/tnix/packages.nix")
    assert SAID in board.ok("lint", str(tree / "docs/intent/no-htop.md"), "--tree", str(tree))


def test_a_hostile_text_does_not_reach_the_terminal(board: Any) -> None:
    assert "\x1b" not in board.run("lint", "-", stdin="# Intent: a\x1b[31mb\n").output
