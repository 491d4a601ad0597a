"""Publishing: fast-forward only, repeatable, and honest about what the remote did."""

from __future__ import annotations

from pathlib import Path

import pytest
from workspace_bench import Bench, git, make_bench

from intent_board.workspace import Moved, Published, WorkspaceError


def made(bench: Bench, files: dict[str, str], slug: str = "my-card") -> tuple[str, str]:
    tree, base = bench.clone(slug)
    for name, text in files.items():
        (tree / name).write_text(text)
    return bench.commit(base, slug=slug).hash, base


def test_publishing_twice_is_publishing_once(bench: Bench) -> None:
    commit, _ = made(bench, {"x": "1\n"})
    assert bench.workspace.publish("code", "main", commit) == Published(commit)
    later = bench_person_adds(bench, "later")
    assert bench.workspace.publish("code", "main", commit) == Published(later)
    assert git("rev-parse", "main", cwd=bench.remote) == later


def bench_person_adds(bench: Bench, name: str) -> str:
    git("pull", "-q", "--rebase", "origin", "main", cwd=bench.person)
    return bench.write({name: f"{name}\n"}, message=name)


def test_a_branch_that_moved_is_said_and_not_touched(bench: Bench) -> None:
    commit, base = made(bench, {"x": "1\n"})
    tip = bench_person_adds(bench, "other")
    assert bench.workspace.publish("code", "main", commit, base=base) == Moved(tip, rewritten=False)
    assert git("rev-parse", "main", cwd=bench.remote) == tip


def test_a_rebase_is_a_new_commit_with_the_same_change(bench: Bench) -> None:
    commit, base = made(bench, {"x": "1\n", "src/a.txt": "b\n"})
    tip = bench_person_adds(bench, "other")
    bench.workspace.fetch("code")
    again = bench.workspace.rebase("code", commit, tip, base=base)
    assert again == bench.workspace.rebase("code", commit, tip, base=base)
    assert git("rev-parse", f"{again}^", cwd=bench.mirror) == tip
    assert bench.workspace.paths_changed("code", tip, again) == ("src/a.txt", "x")
    ids = [bench.workspace.patch_id("code", new, base=old) for old, new in ((base, commit), (tip, again))]
    assert ids[0] == ids[1]
    described = [
        git("log", "-1", "--format=%an %ae %at %cn %ce %ct%n%B", one, cwd=bench.mirror) for one in (commit, again)
    ]
    assert described[0] == described[1]
    assert bench.workspace.publish("code", "main", again) == Published(again)


def test_a_conflict_names_its_paths(bench: Bench) -> None:
    commit, base = made(bench, {"src/a.txt": "mine\n", "x": "1\n"})
    git("pull", "-q", "origin", "main", cwd=bench.person)
    tip = bench.write({"src/a.txt": "theirs\n"})
    bench.workspace.fetch("code")
    with pytest.raises(WorkspaceError) as error:
        bench.workspace.rebase("code", commit, tip, base=base)
    assert (error.value.kind, error.value.detail) == ("publish_failed", ("src/a.txt",))


def test_a_repair_on_top_of_a_build_is_rebased_with_it(bench: Bench) -> None:
    first, base = made(bench, {"x": "1\n"})
    (bench.config.state_dir / "trees" / "my-card" / "y").write_text("2\n")
    second = bench.commit(first, title="Repair").hash
    tip = bench_person_adds(bench, "other")
    bench.workspace.fetch("code")
    again = bench.workspace.rebase("code", second, tip, base=base)
    assert git("log", "--format=%s", f"{tip}..{again}", cwd=bench.mirror).split("\n") == ["Repair", "A title"]
    assert bench.workspace.paths_changed("code", tip, again) == ("x", "y")


def test_rewritten_history_is_said_and_does_not_come_back(bench: Bench) -> None:
    secret = bench.write({"secret": "oops\n"})
    commit, base = made(bench, {"x": "1\n"})
    assert base == secret
    git("reset", "-q", "--hard", "HEAD^", cwd=bench.person)
    (bench.person / "clean").write_text("clean\n")
    git("add", "-A", cwd=bench.person)
    git("commit", "-q", "-m", "Clean", cwd=bench.person)
    git("push", "-q", "--force", "origin", "HEAD:main", cwd=bench.person)
    tip = git("rev-parse", "HEAD", cwd=bench.person)
    assert bench.workspace.publish("code", "main", commit, base=base) == Moved(tip, rewritten=True)
    again = bench.workspace.rebase("code", commit, tip, base=base)
    assert sorted(bench.files(again)) == ["README.md", "clean", "run.sh", "src/a.txt", "x"]


def test_a_deleted_branch_is_not_made_again(bench: Bench) -> None:
    commit, _ = made(bench, {"x": "1\n"})
    git("push", "-q", "origin", "HEAD:other", cwd=bench.person)
    git("update-ref", "-d", "refs/heads/main", cwd=bench.remote)
    with pytest.raises(WorkspaceError, match="does not exist on the remote") as error:
        bench.workspace.publish("code", "main", commit)
    assert error.value.kind == "publish_failed"
    assert git("for-each-ref", "--format=%(refname)", cwd=bench.remote) == "refs/heads/other"


def test_a_remote_that_refuses_has_its_words_kept(bench: Bench) -> None:
    commit, _ = made(bench, {"x": "1\n"})
    hook = bench.remote / "hooks" / "pre-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\necho 'no pushes on Friday' >&2\nexit 1\n")
    hook.chmod(0o755)
    with pytest.raises(WorkspaceError, match="pre-receive hook declined") as error:
        bench.workspace.publish("code", "main", commit)
    assert error.value.kind == "publish_failed"
    assert any("no pushes on Friday" in line for line in error.value.detail)
    hook.unlink()
    assert bench.workspace.publish("code", "main", commit) == Published(commit)


def test_an_unborn_branch_is_born_with_the_first_commit(tmp_path: Path) -> None:
    bench = make_bench(tmp_path, branch=None)
    git("symbolic-ref", "HEAD", "refs/heads/trunk", cwd=bench.remote)
    assert bench.workspace.fetch("code") == "trunk"
    assert bench.workspace.tip("code", "trunk") is None
    tree = bench.workspace.clone("code", "my-card", None)
    assert git("symbolic-ref", "HEAD", cwd=tree) == "refs/heads/trunk"
    (tree / "x").write_text("1\n")
    commit = bench.commit(None)
    assert (commit.base, commit.paths) == (None, ("x",))
    assert bench.workspace.publish("code", "trunk", commit.hash) == Published(commit.hash)
    assert git("rev-parse", "trunk", cwd=bench.remote) == commit.hash


def test_a_remote_that_is_not_there_is_named(tmp_path: Path) -> None:
    bench = make_bench(tmp_path)
    bench.remote.rename(tmp_path / "elsewhere")
    with pytest.raises(WorkspaceError, match=r"remote of .code. can.t be read: fatal: .*repository"):
        bench.workspace.fetch("code")


def test_two_first_commits_of_an_unborn_branch(tmp_path: Path) -> None:
    bench = make_bench(tmp_path)
    bench.workspace.fetch("code")
    for name in ("one", "two"):
        (bench.workspace.clone("code", name, None) / name).write_text("x\n")
    one, two = (bench.commit(None, slug=name).hash for name in ("one", "two"))
    assert bench.workspace.publish("code", "main", one) == Published(one)
    assert bench.workspace.publish("code", "main", two) == Moved(one)
    again = bench.workspace.rebase("code", two, one, base=None)
    assert bench.workspace.publish("code", "main", again) == Published(again)
    assert sorted(bench.files(again)) == ["one", "two"]


def test_a_rebase_that_leaves_nothing_says_so(bench: Bench) -> None:
    commit, base = made(bench, {"x": "1\n"})
    tip = bench.write({"x": "1\n", "y": "1\n"})
    bench.workspace.fetch("code")
    with pytest.raises(WorkspaceError, match="has this change already") as error:
        bench.workspace.rebase("code", commit, tip, base=base)
    assert error.value.kind == "publish_failed"


def test_a_rename_on_the_branch_carries_no_change_to_another_path(bench: Bench) -> None:
    git("mv", "src", "lib", cwd=bench.person)
    commit, base = made(bench, {"src/a.txt": "a\nb\n", "src/new": "x\n"})
    tip = bench.write({})
    bench.workspace.fetch("code")
    with pytest.raises(WorkspaceError, match=r"would also change lib/a\.txt") as error:
        bench.workspace.rebase("code", commit, tip, base=base)
    assert error.value.kind == "publish_failed"


def test_a_merge_in_the_range_is_not_rebased(bench: Bench) -> None:
    base = git("rev-parse", "HEAD", cwd=bench.person)
    git("checkout", "-q", "-b", "side", cwd=bench.person)
    bench.write({"side": "1\n"}, branch="side")
    git("checkout", "-q", "main", cwd=bench.person)
    git("merge", "-q", "--no-ff", "side", cwd=bench.person)
    git("push", "-q", "origin", "main:merged", cwd=bench.person)
    merge = git("rev-parse", "HEAD", cwd=bench.person)
    bench.workspace.fetch("code")
    with pytest.raises(WorkspaceError, match="not a plain line of commits"):
        bench.workspace.rebase("code", merge, base, base=base)


def test_a_commit_that_the_mirror_lost_is_not_taken_for_moved(bench: Bench) -> None:
    bench.workspace.fetch("code")
    with pytest.raises(WorkspaceError, match="has no commit 1111"):
        bench.workspace.publish("code", "main", "1" * 40)


def test_the_patch_id_sees_every_byte_but_not_the_place(bench: Bench) -> None:
    def patch(before: str, after: str) -> str:
        old, new = bench.write({"f": before}), bench.write({"f": after})
        bench.workspace.fetch("code")
        return bench.workspace.patch_id("code", new, base=old)

    lines = "".join(f"{number}\n" for number in range(9))
    first = patch(lines, lines.replace("4", "x"))
    assert patch(f"top\n{lines}", f"top\n{lines}".replace("4", "x")) == first
    assert patch(lines, lines.replace("4", "x ")) != first, "white space counts"
    assert patch(lines.replace("5", "y"), lines.replace("5", "y").replace("4", "x")) != first, "so do the lines around"
    assert patch("\0a", "\0b") != patch("\0a", "\0c")
    old = git("rev-parse", "HEAD", cwd=bench.person)
    (bench.person / "f").chmod(0o755)
    mode = bench.write({})
    bench.workspace.fetch("code")
    assert bench.workspace.patch_id("code", mode, base=old) != bench.workspace.patch_id("code", mode, base=mode)
