"""Checks are the agent's code: they see the commit, no secret, no network, and end when they must."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from pathlib import Path

import pytest
from workspace_bench import Bench, Files, git, make_bench

from intent_board import sandbox
from intent_board.workspace import CheckResult, Workspace, WorkspaceError, checks

needs_box = pytest.mark.skipif(sandbox.available() is not None, reason=f"no sandbox: {sandbox.available()}")


def check(tmp_path: Path, script: str, **repository: object) -> tuple[Bench, CheckResult]:
    bench = make_bench(tmp_path, checks=[["sh", "-c", script]], **repository)
    commit = bench.write({"a": "1\n"})
    bench.workspace.fetch("code")
    (result,) = bench.workspace.run_checks("code", commit)
    return bench, result


@needs_box
def test_a_check_sees_no_secret_no_store_and_no_other_card(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(tmp_path))
    state = tmp_path / "state"
    (state / "trees" / "other").mkdir(parents=True)
    (state / "board.sqlite3").write_text("rows")
    _, result = check(tmp_path, f"env; ls {state} {state}/mirrors/code.git {tmp_path}; cat {state}/board.sqlite3; true")
    assert "sk-secret" not in result.output and "CREDENTIALS" not in result.output
    assert "rows" not in result.output and "trees" not in result.output
    assert f"{state}:\ncheckouts\nmirrors\n" in result.output
    assert f"{state}/mirrors/code.git:\nobjects\n" in result.output


@needs_box
def test_a_check_can_build_in_its_checkout_and_in_its_home_and_nowhere_else(tmp_path: Path) -> None:
    objects = tmp_path / "state" / "mirrors" / "code.git" / "objects"
    script = f"touch built && git add built && touch $HOME/x && touch {objects}/x || exit 5"
    bench, result = check(tmp_path, script)
    assert result.exit_code == 5 and "Read-only file system" in result.output
    assert not (bench.mirror / "objects" / "x").exists()


@needs_box
@pytest.mark.parametrize("allowed", [False, True])
def test_the_network_is_there_only_by_option(tmp_path: Path, allowed: bool) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        script = f"exec 2>&1; python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", {port}), 5)'"
        _, result = check(tmp_path, script, check_network=allowed)
    assert (result.exit_code == 0) is allowed, result.output


def test_a_check_that_does_not_exist_has_failed(tmp_path: Path) -> None:
    bench = make_bench(tmp_path, checks=[["no-such-program"]])
    commit = bench.write({"a": "1\n"})
    bench.workspace.fetch("code")
    (result,) = bench.workspace.run_checks("code", commit)
    assert result.exit_code != 0 and "no-such-program" in result.output


def test_a_long_output_keeps_its_end(tmp_path: Path) -> None:
    _, result = check(tmp_path, "i=0; while [ $i -lt 40000 ]; do echo line $i; i=$((i+1)); done; echo the end")
    assert result.exit_code == 0
    assert result.output.startswith("[the beginning was cut]\n") and result.output.endswith("line 39999\nthe end\n")
    assert len(result.output) < checks.OUTPUT_LIMIT + 100


def test_a_check_that_hangs_is_ended_with_everything_it_started(tmp_path: Path) -> None:
    box = checks.box(tmp_path, tmp_path, network=False, nix_daemon=False)
    argv = ["sh", "-c", "sleep 77 & echo started; sleep 78"]
    result = checks.run_check(argv, box, mode="when_available", timeout=0.5, lock_fd=None)
    assert result.timed_out and result.exit_code != 0 and result.output.startswith("started\n")
    commands = map(_read, Path("/proc").glob("[0-9]*/cmdline"))
    alive = [command for command in commands if command in (b"sleep\x0077\0", b"sleep\x0078\0")]
    assert alive == []


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def test_a_commit_that_is_not_there_is_no_failed_check(tmp_path: Path) -> None:
    bench = make_bench(tmp_path, checks=[["true"]])
    bench.write({"a": "1\n"})
    bench.workspace.fetch("code")
    with pytest.raises(WorkspaceError):
        bench.workspace.run_checks("code", "0" * 40)
    assert list((bench.config.state_dir / "checkouts").iterdir()) == []


def test_without_a_sandbox_that_is_required_no_check_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = make_bench(tmp_path, checks=[["touch", str(tmp_path / "ran")]])
    commit = bench.write({"a": "1\n"})
    bench.workspace.fetch("code")
    monkeypatch.setattr(sandbox, "available", lambda: "there is none")
    required = bench.config.model_copy(update={"board": bench.config.board.model_copy(update={"sandbox": "required"})})
    with pytest.raises(WorkspaceError, match="there is none"):
        Workspace(required, Files()).run_checks("code", commit)
    assert not (tmp_path / "ran").exists()


def _daemon() -> bool:
    with socket.socket(socket.AF_UNIX) as client:
        return client.connect_ex("/nix/var/nix/daemon-socket/socket") == 0


@needs_box
@pytest.mark.skipif(shutil.which("nix") is None or not _daemon(), reason="no nix daemon runs here")
def test_nix_flake_check_works_on_the_checkout(tmp_path: Path) -> None:
    bench = make_bench(tmp_path, checks=[["nix", "flake", "check", "--no-update-lock-file"]], nix_daemon=True)
    system = f"{os.uname().machine}-linux"
    flake = (
        f'{{ outputs = {{ self }}: {{ checks.{system}.a = derivation {{ name = "a"; system = "{system}";\n'
        'builder = "/bin/sh"; args = [ "-c" "echo ${self.rev} > $out" ]; }; }; }\n'
    )
    bench.write({"flake.nix": flake})
    tree, base = bench.clone()
    (tree / "x").write_text("1\n")
    (result,) = bench.workspace.run_checks("code", bench.commit(base).hash)
    assert result.exit_code == 0, result.output


@pytest.mark.skipif(shutil.which("nix") is None, reason="nix is not installed here")
def test_a_flake_sees_every_file_of_the_commit_and_a_clean_tree(tmp_path: Path) -> None:
    """Nix hides what git does not track, and has no revision for a tree that differs from its commit."""
    bench = make_bench(tmp_path)
    bench.write(
        {
            "flake.nix": "{ outputs = { self }: { new = import ./new.nix; rev = self.sourceInfo.rev or null; }; }\n",
            "a": "1\n",
        }
    )
    tree, base = bench.clone()
    (tree / "new.nix").write_text("{ answer = 42; }\n")
    (tree / "a").write_text("2\n")
    assert flake(tmp_path, tree, "new.answer") != "42", "an untracked file of the agent's tree is hidden from it"
    git("add", "--intent-to-add", "new.nix", cwd=tree)
    assert flake(tmp_path, tree, "new.answer") == "42", "the builder's text says how it is shown"
    assert flake(tmp_path, tree, "rev") == "null"
    commit = bench.commit(base).hash
    checkout = bench.workspace.checkout("code", commit, "1-1")
    assert flake(tmp_path, checkout, "new.answer") == "42"
    assert flake(tmp_path, checkout, "rev") == f'"{commit}"'


def flake(home: Path, tree: Path, attribute: str) -> str:
    """An attribute of a flake, evaluated by a Nix that has a store of its own."""
    own = {"PATH": os.environ["PATH"], "HOME": str(home), "NIX_STATE_DIR": str(home / "nix/state")}
    done = subprocess.run(
        ["nix", "--extra-experimental-features", "nix-command flakes", "--store", str(home / "nix"), "eval",
         f"git+file://{tree}#{attribute}"],
        env=own, capture_output=True, text=True, check=False,
    )  # fmt: skip
    return done.stdout.strip() or done.stderr


# --- checkouts of reading roles -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [
        "echo more >> README.md", "touch new", "touch -d @1 README.md; rm src/a.txt", "chmod +x README.md",
        "mv README.md readme.md", "echo new > .gitignore; touch ignored", "ln -sf a.txt src/b.txt", "rm -rf .git",
        "echo x >> .git/config", "mkdir .git/hooks; touch .git/hooks/pre-commit", "rm .git/index", "mkfifo pipe",
        "rm -rf src; ln -s /etc src", "mkdir sub; mkdir sub/.git", "rm README.md; mkdir README.md",
        "printf hellO > README.md",
    ],
)  # fmt: skip
def test_every_change_to_a_checkout_is_seen(bench: Bench, change: str) -> None:
    commit = bench.workspace.tip("code", bench.workspace.fetch("code"))
    assert commit is not None
    tree = bench.workspace.checkout("code", commit, "1-1")
    assert bench.workspace.unchanged(tree, "code", commit)
    assert os.system(f"cd {tree} && {{ {change}; }}") == 0
    assert not bench.workspace.unchanged(tree, "code", commit)
    bench.workspace.remove_checkout(tree)
    assert not bench.workspace.unchanged(tree, "code", commit)
    assert list((bench.config.state_dir / "checkouts").iterdir()) == []


def test_reading_changes_nothing_and_git_log_works(bench: Bench) -> None:
    commit = bench.workspace.tip("code", bench.workspace.fetch("code"))
    assert commit is not None
    tree = bench.workspace.checkout("code", commit, "1-1")
    assert git("log", "--format=%s", cwd=tree) == "First"
    assert git("show", "HEAD:README.md", cwd=tree) == "hello"
    assert git("rev-parse", "HEAD", cwd=tree) == commit
    assert bench.workspace.unchanged(tree, "code", commit)


def test_a_later_run_of_the_same_job_takes_the_place_of_the_earlier(bench: Bench) -> None:
    commit = bench.workspace.tip("code", bench.workspace.fetch("code"))
    assert commit is not None
    for name in ("1-1", "1-2", "11-1", "2-1"):
        bench.workspace.checkout("code", commit, name)
    there = sorted(path.name for path in (bench.config.state_dir / "checkouts").iterdir() if path.is_dir())
    assert there == ["1-2", "11-1", "2-1"]
    for name in ("../x", "a/b-1", "", "x", ".x-1", "1-2-3"):
        with pytest.raises(WorkspaceError, match="does not name a run"):
            bench.workspace.checkout("code", commit, name)
