"""What a Fixer pushes: exactly one commit on the given parent, proved object by object, or nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from workspace_bench import Bench, git

from intent_board.workspace import Commit, WorkspaceError


class Fixer:
    """A Fixer's run: its clone at the commit, and its quarantine repository."""

    def __init__(self, bench: Bench, parent: str) -> None:
        self.bench, self.parent = bench, parent
        self.tree = bench.workspace.checkout("code", parent, "9-1")
        self.quarantine = bench.workspace.quarantine("code", "9-1")

    def push(self, files: dict[str, str], *, on: str | None = None) -> str:
        for name, text in files.items():
            (self.tree / name).parent.mkdir(exist_ok=True)
            (self.tree / name).write_text(text)
        git("add", "-A", cwd=self.tree)
        git("commit", "-q", "-m", "Mend it", cwd=self.tree)
        git("push", "-q", str(self.quarantine), "HEAD:refs/heads/fix", cwd=self.tree)
        return git("rev-parse", "HEAD", cwd=self.tree)

    def take(self, commit: str, *, scope: tuple[str, ...] = ("src",), forbidden: tuple[str, ...] = ()) -> Commit:
        return self.bench.workspace.take(
            "code", "9-1", "fix", commit, parent=self.parent, scope=scope, forbidden_values=forbidden
        )

    def refused(self, commit: str, **values: tuple[str, ...]) -> WorkspaceError:
        before = sorted((self.bench.mirror / "objects").rglob("*"))
        with pytest.raises(WorkspaceError) as error:
            self.take(commit, **values)
        assert error.value.kind == "check_failed"
        assert sorted((self.bench.mirror / "objects").rglob("*")) == before, "nothing refused reaches the mirror"
        return error.value


@pytest.fixture
def fixer(bench: Bench) -> Fixer:
    bench.workspace.fetch("code")
    parent = bench.workspace.tip("code", "main")
    assert parent is not None
    return Fixer(bench, parent)


def test_exactly_the_pushed_object_is_taken(fixer: Fixer) -> None:
    assert not fixer.bench.workspace.pushed("code", "9-1")
    commit = fixer.push({"src/a.txt": "mended\n"})
    assert fixer.bench.workspace.pushed("code", "9-1")
    assert fixer.take(commit) == fixer.take(commit) == Commit(commit, fixer.parent, ("src/a.txt",))
    assert fixer.bench.files(commit)["src/a.txt"] == b"mended\n"
    git("fsck", "--strict", "--no-dangling", cwd=fixer.bench.mirror)
    fixer.bench.workspace.remove_quarantine("code", "9-1")
    assert not fixer.quarantine.exists()
    assert fixer.bench.workspace.publish("code", "main", commit).tip == commit


def test_a_commit_on_another_parent_is_refused(fixer: Fixer) -> None:
    fixer.push({"src/a.txt": "1\n"})
    second = fixer.push({"src/a.txt": "2\n"})
    assert "is not one commit on" in str(fixer.refused(second))


def test_a_merge_is_refused(fixer: Fixer) -> None:
    git("checkout", "-q", "-b", "side", cwd=fixer.tree)
    fixer.push({"src/b.txt": "1\n"})
    git("checkout", "-q", "--detach", fixer.parent, cwd=fixer.tree)
    git("merge", "-q", "--no-ff", "side", cwd=fixer.tree)
    git("push", "-q", "--force", str(fixer.quarantine), "HEAD:refs/heads/fix", cwd=fixer.tree)
    assert "its only parent" in str(fixer.refused(git("rev-parse", "HEAD", cwd=fixer.tree)))


def test_another_hash_than_the_pushed_one_is_refused(fixer: Fixer) -> None:
    commit = fixer.push({"src/a.txt": "1\n"})
    assert "is not on 'fix'" in str(fixer.refused(fixer.parent))
    assert "is not on 'fix'" in str(fixer.refused("0" * 40))
    with pytest.raises(WorkspaceError, match="not a full commit hash"):
        fixer.take("--output=/etc/passwd")
    with pytest.raises(WorkspaceError, match="not the name of a quarantine branch"):
        fixer.bench.workspace.take(
            "code", "9-1", "fix)$(touch x", commit, parent=fixer.parent, scope=(), forbidden_values=()
        )


def test_scope_secrets_links_and_submodules_hold_for_a_repair_too(fixer: Fixer) -> None:
    def attempt(files: dict[str, str], **values: tuple[str, ...]) -> WorkspaceError:
        git("checkout", "-q", "--detach", "-f", fixer.parent, cwd=fixer.tree)
        git("update-ref", "-d", "refs/heads/fix", cwd=fixer.quarantine)
        return fixer.refused(fixer.push(files), **values)

    assert attempt({"README.md": "x\n"}).detail == ("README.md",)
    assert attempt({"src/k": "-----BEGIN PRIVATE KEY-----\n"}).detail == ("src/k: a private key",)
    assert attempt({"src/k": "token-0123456789\n"}, forbidden=("token-0123456789",)).detail[0].startswith("src/k")
    (fixer.tree / "src" / "out").symlink_to("/etc/passwd")
    assert attempt({}).detail == ("src/out: is a link out of the tree",)
    git("clean", "-fdq", cwd=fixer.tree)
    git("checkout", "-q", "--detach", "-f", fixer.parent, cwd=fixer.tree)
    git("update-index", "--add", "--cacheinfo", f"160000,{fixer.parent},src/lib", cwd=fixer.tree)
    git("commit", "-q", "-m", "Submodule", cwd=fixer.tree)
    git("push", "-q", "--force", str(fixer.quarantine), "HEAD:refs/heads/fix", cwd=fixer.tree)
    assert fixer.refused(git("rev-parse", "HEAD", cwd=fixer.tree)).detail == ("src/lib: mode 160000",)


def test_a_tree_that_names_a_git_directory_is_refused(fixer: Fixer) -> None:
    blob = git("rev-parse", "HEAD:README.md", cwd=fixer.tree)
    tree = fixer.bench.root / "tree"
    tree.write_bytes(b"100644 .git\0" + bytes.fromhex(blob))
    evil = git("hash-object", "-t", "tree", "-w", "--literally", str(tree), cwd=fixer.tree)
    commit = git("commit-tree", evil, "-p", fixer.parent, "-m", "x", cwd=fixer.tree)
    git("push", "-q", str(fixer.quarantine), f"{commit}:refs/heads/fix", cwd=fixer.tree)
    assert "broken object" in str(fixer.refused(commit, scope=("**",)))


def test_nothing_in_the_quarantine_runs_outside_the_sandbox(fixer: Fixer) -> None:
    commit = fixer.push({"src/a.txt": "mended\n"})
    witness = fixer.bench.root / "ran"
    (fixer.quarantine / "config").write_text(
        f"[core]\n\tfsmonitor = touch {witness}\n\talternateRefsCommand = touch {witness}\n\thooksPath = hooks\n"
        f"[uploadpack]\n\tpackObjectsHook = touch {witness}\n[pack]\n\tthreads = 1\n"
    )
    (fixer.quarantine / "objects" / "info" / "alternates").write_text(f"{fixer.bench.mirror / 'objects'}\n/etc\n")
    assert fixer.take(commit).hash == commit
    assert not witness.exists()


def test_a_quarantine_that_became_a_link_or_lost_its_objects_is_refused(fixer: Fixer) -> None:
    commit = fixer.push({"src/a.txt": "mended\n"})
    loose = next(path for path in fixer.quarantine.glob("objects/??/*") if path.parent.name + path.name == commit)
    loose.unlink()
    fixer.refused(commit)
    moved = fixer.bench.root / "moved"
    fixer.quarantine.rename(moved)
    fixer.quarantine.symlink_to(moved)
    with pytest.raises(WorkspaceError, match="is a link"):
        fixer.take(commit)
    assert fixer.bench.workspace.pushed("code", "9-1")
    fixer.bench.workspace.quarantine("code", "9-1")
    assert Path(moved, "HEAD").exists(), "the link goes, not what it leads to"
    assert not fixer.bench.workspace.pushed("code", "9-1")
