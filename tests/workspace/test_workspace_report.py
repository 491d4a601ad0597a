"""What is left of a session: the interim report, the kept state, and when a tree may go."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path

import pytest
from workspace_bench import Bench, git

from intent_board.workspace import ChangedFile, Published, TreeReport, WorkspaceError


def kept(bench: Bench, name: str = "my-card") -> str:
    return git("rev-parse", "--verify", "-q", f"refs/board/{name}", cwd=bench.mirror, check=False)


def test_a_report_lists_what_changed_and_leaves_nothing_in_the_mirror(bench: Bench) -> None:
    tree, _ = bench.clone()
    assert bench.workspace.tree_report("code", "my-card") == TreeReport()
    (tree / "README.md").write_text("hello\nworld\n")
    (tree / "run.sh").unlink()
    (tree / "bin").write_bytes(b"\0\1")
    (tree / "new\n.txt").write_text("1\n2\n")
    before = sorted((bench.mirror / "objects").rglob("*"))
    report = bench.workspace.tree_report("code", "my-card")
    assert report.files == (
        ChangedFile("README.md", "M", 1, 0),
        ChangedFile("bin", "A", None, None),
        ChangedFile("new\\n.txt", "A", 2, 0),
        ChangedFile("run.sh", "D", 0, 1),
    )
    assert report.diffstat.split("\n")[-1] == "4 files changed, +3 -1"
    assert sorted((bench.mirror / "objects").rglob("*")) == before
    json.dumps(asdict(report)).encode()


def test_a_report_of_a_hostile_tree_is_a_report(bench: Bench) -> None:
    tree, _ = bench.clone()
    git("init", "-q", "sub", cwd=tree)
    (tree / "sub" / "file").write_text("x\n")
    os.mkfifo(tree / "pipe")
    (tree / "link").symlink_to("/etc/passwd")
    with (tree / "huge").open("wb") as file:
        file.truncate(1 << 33)
    report = bench.workspace.tree_report("code", "my-card")
    assert [file.path for file in report.files] == ["sub/file"]
    assert sorted(line.split(":")[0] for line in report.refused) == ["huge", "link", "pipe", "sub/.git"]
    assert bench.workspace.tree_report("code", "never-built") == TreeReport()


def test_a_report_is_bounded(bench: Bench) -> None:
    tree, _ = bench.clone()
    for number in range(700):
        (tree / f"f{number:04}").write_text("x\n")
    report = bench.workspace.tree_report("code", "my-card")
    assert (len(report.files), report.total, report.added) == (500, 700, 700)
    assert "and 200 more" in report.diffstat


def test_a_saved_tree_is_a_commit_on_its_base_and_the_same_when_saved_again(bench: Bench) -> None:
    tree, base = bench.clone()
    assert bench.workspace.save_tree("code", "my-card") is None
    assert bench.workspace.save_tree("code", "never-built") is None
    (tree / "half").write_text("done\n")
    os.mkfifo(tree / "pipe")
    saved = bench.workspace.save_tree("code", "my-card")
    assert saved is not None and kept(bench) == saved == bench.workspace.save_tree("code", "my-card")
    assert git("rev-parse", f"{saved}^", cwd=bench.mirror) == base
    assert bench.files(saved)["half"] == b"done\n"
    assert "pipe: is a device" in git("log", "-1", "--format=%b", saved, cwd=bench.mirror)


def test_a_tree_goes_without_a_trace_when_its_commit_is_on_the_branch(bench: Bench) -> None:
    tree, base = bench.clone()
    (tree / "x").write_text("1\n")
    made = bench.commit(base)
    assert bench.workspace.publish("code", "main", made.hash) == Published(made.hash)
    bench.workspace.remove_tree("code", "my-card")
    bench.workspace.remove_tree("code", "my-card")
    assert not tree.exists() and kept(bench) == ""


@pytest.mark.parametrize("state", ["never committed", "committed, not published", "changed after the commit"])
def test_work_that_is_nowhere_else_is_kept_before_its_tree_goes(bench: Bench, state: str) -> None:
    tree, base = bench.clone()
    (tree / "x").write_text("1\n")
    if state != "never committed":
        made = bench.commit(base)
        if state == "changed after the commit":
            bench.workspace.publish("code", "main", made.hash)
            (tree / "x").write_text("2\n")
    bench.workspace.remove_tree("code", "my-card")
    assert not tree.exists()
    assert bench.files(kept(bench))["x"] == (tree.name and b"2\n" if state.startswith("changed") else b"1\n")


def test_a_kept_ref_makes_the_removal_safe(bench: Bench) -> None:
    tree, base = bench.clone()
    (tree / "x").write_text("1\n")
    made = bench.commit(base)
    bench.workspace.keep_ref("code", "my-card", made.hash)
    bench.workspace.remove_tree("code", "my-card")
    assert not tree.exists() and kept(bench) == made.hash
    assert bench.workspace.fetch("code") == "main"
    assert kept(bench) == made.hash, "a fetch that prunes branches leaves our own refs"


def test_a_clone_that_was_deleted_comes_back_and_one_that_exists_stays(bench: Bench) -> None:
    tree, base = bench.clone()
    (tree / "x").write_text("1\n")
    assert bench.workspace.clone("code", "my-card", base) == tree
    assert (tree / "x").read_text() == "1\n"
    bench.workspace.remove_tree("code", "my-card")
    assert bench.workspace.clone("code", "my-card", base) == tree
    assert not (tree / "x").exists() and (tree / "README.md").exists()


@pytest.mark.parametrize("slug", ["", "..", "a/b", "/etc", "-x", ".hidden", "Ä"])
def test_only_a_slug_names_a_tree(bench: Bench, slug: str) -> None:
    for call in (
        lambda: bench.workspace.clone("code", slug, None),
        lambda: bench.workspace.remove_tree("code", slug),
        lambda: bench.workspace.keep_ref("code", slug, "0" * 40),
    ):
        with pytest.raises(WorkspaceError, match="is not a slug"):
            call()


def test_an_unknown_repository_is_named(bench: Bench) -> None:
    with pytest.raises(WorkspaceError, match="no repository 'other'; declare it"):
        bench.workspace.fetch("other")


def test_nothing_but_a_full_hash_reaches_git(bench: Bench) -> None:
    _, base = bench.clone()
    for bad in ("--all", "HEAD", base[:39], f"{base}^", "", "main"):
        for call in (
            lambda bad=bad: bench.workspace.diff("code", base, bad, 100),
            lambda bad=bad: bench.workspace.paths_changed("code", bad, base),
            lambda bad=bad: bench.workspace.is_ancestor("code", bad, base),
            lambda bad=bad: bench.workspace.publish("code", "main", bad),
            lambda bad=bad: bench.workspace.rebase("code", bad, base, base=base),
            lambda bad=bad: bench.workspace.keep_ref("code", "x", bad),
            lambda bad=bad: bench.workspace.checkout("code", bad, "1-1"),
            lambda bad=bad: bench.workspace.clone("code", "other", bad),
            lambda bad=bad: bench.commit(bad),
        ):
            with pytest.raises(WorkspaceError, match="not a full commit hash"):
                call()
    assert not Path(bench.config.state_dir / "trees" / "other").exists()


def test_ancestry_and_diffs(bench: Bench) -> None:
    tree, base = bench.clone()
    (tree / "README.md").write_text("hello\nä\n")
    (tree / "bin").write_bytes(b"\0\xff")
    made = bench.commit(base)
    ask = bench.workspace.is_ancestor
    assert ask("code", base, made.hash) and not ask("code", made.hash, base) and not ask("code", "0" * 40, base)
    patch = bench.workspace.diff("code", base, made.hash, 100_000)
    assert "+ä\n" in patch and "Binary files" in patch
    cut = bench.workspace.diff("code", base, made.hash, 50)
    assert cut.endswith("\n[cut after 50 bytes]\n") and len(cut) < 100
    assert "+hello" in bench.workspace.diff("code", None, base, 100_000)
