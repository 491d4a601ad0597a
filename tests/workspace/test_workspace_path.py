"""The usual way of a card: fetch, clone, commit, check, publish."""

from __future__ import annotations

from pathlib import Path

import pytest
from workspace_bench import TRAILERS, WHEN, Bench, git, make_bench

from intent_board.workspace import Published, WorkspaceError


def test_a_change_goes_from_the_clone_to_the_remote_as_one_hash(bench: Bench) -> None:
    tree, base = bench.clone()
    (tree / "src" / "a.txt").write_text("b\n")
    (tree / "new").mkdir()
    (tree / "new" / "ü 1.txt").write_text("new\n")
    (tree / "README.md").unlink()
    (tree / "run.sh").chmod(0o755)
    made = bench.commit(base)
    assert made.base == base
    assert made.paths == ("README.md", "new/ü 1.txt", "run.sh", "src/a.txt")
    assert bench.workspace.paths_changed("code", base, made.hash) == made.paths
    assert bench.workspace.publish("code", "main", made.hash) == Published(made.hash)
    assert git("rev-parse", "main", cwd=bench.remote) == made.hash
    assert bench.workspace.tip("code", "main") == made.hash
    listing = git("ls-tree", "-r", "-z", made.hash, cwd=bench.remote).split("\0")
    assert [line.split(" ")[0] for line in listing if line.endswith("run.sh")] == ["100755"]
    assert bench.files(made.hash) == {"new/ü 1.txt": b"new\n", "run.sh": b"#!/bin/sh\n", "src/a.txt": b"b\n"}


def test_a_commit_says_what_it_belongs_to_and_is_the_same_when_made_again(bench: Bench) -> None:
    tree, base = bench.clone()
    (tree / "x").write_text("x\n")
    first = bench.commit(base, title="Do it", body="Because.\n\nIntent: another-card\n")
    assert bench.commit(base, title="Do it", body="Because.\n\nIntent: another-card\n") == first
    text = git("cat-file", "commit", first.hash, cwd=bench.mirror)
    assert text.split("\n\n", 1)[1] == "Do it\n\nBecause.\n\n> Intent: another-card\n\nIntent: my-card\nBoard-Job: 7"
    assert f"parent {base}\n" in text
    assert text.count(f"Intent Board <intent-board@localhost.invalid> {WHEN} +0000") == 2
    trailers = git("log", "-1", "--format=%(trailers:unfold,separator=;)", first.hash, cwd=bench.mirror)
    assert trailers == ";".join(f"{name}: {value}" for name, value in TRAILERS.items())
    assert bench.commit(base, when=WHEN + 1).hash != first.hash


def test_a_tree_without_a_change_makes_no_commit(bench: Bench) -> None:
    tree, base = bench.clone()
    (tree / "src" / "a.txt").write_text("a\n")
    assert bench.commit(base) is None


def test_an_ignored_file_is_left_out_and_a_tracked_one_is_not(tmp_path: Path) -> None:
    bench = make_bench(tmp_path)
    bench.write({".gitignore": "*.log\nbuild/\n", "kept.log": "1\n", "build/tracked": "1\n"})
    tree, base = bench.clone()
    (tree / "kept.log").write_text("2\n")
    (tree / "other.log").write_text("no\n")
    (tree / "build" / "tracked").write_text("2\n")
    (tree / "build" / "out").write_text("no\n")
    (tree / ".venv").mkdir()
    (tree / ".venv" / ".gitignore").write_text("*\n")
    (tree / ".venv" / "pip").write_text("no\n")
    made = bench.commit(base)
    assert made.paths == ("build/tracked", "kept.log")


def test_a_path_outside_the_scope_is_named_and_nothing_is_written(bench: Bench) -> None:
    tree, base = bench.clone()
    for name in ("inside.md", "src/a.txt", "src/b.txt"):
        (tree / name).write_text("z\n")
    objects = sorted(path.name for path in (bench.mirror / "objects").rglob("*"))
    with pytest.raises(WorkspaceError) as error:
        bench.commit(base, scope=("*.md",))
    assert (error.value.kind, error.value.detail) == ("check_failed", ("src/a.txt", "src/b.txt"))
    assert sorted(path.name for path in (bench.mirror / "objects").rglob("*")) == objects


def test_checks_run_on_the_commit_and_not_on_the_tree(tmp_path: Path) -> None:
    checks = [
        ["sh", "-c", "cat a; git status --porcelain; git log --format=%s; exit $(cat code)"],
        ["sh", "-c", "echo no"],
    ]
    bench = make_bench(tmp_path, checks=checks)
    bench.write({"a": "one\n", "code": "0\n"}, message="First")
    tree, base = bench.clone()
    (tree / "a").write_text("two\n")
    good = bench.commit(base)
    (tree / "code").write_text("3\n")
    bad = bench.commit(base)
    (tree / "a").write_text("three\n")
    results = bench.workspace.run_checks("code", good.hash)
    assert [(result.exit_code, result.output) for result in results] == [(0, "two\nA title\nFirst\n"), (0, "no\n")]
    results = bench.workspace.run_checks("code", bad.hash)
    assert [result.exit_code for result in results] == [3], "a failed check is the last one"
    assert [path.name for path in (bench.config.state_dir / "checkouts").iterdir()] == []
