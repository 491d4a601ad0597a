"""kill -9 anywhere, two workers at once, a disk that is full: the next run comes to the same end."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from workspace_bench import Bench, Files, git, make_bench, make_config

from intent_board.boundaries import FILE_VARIABLE, KILL_VARIABLE
from intent_board.workspace import Moved, Published, Workspace, WorkspaceError
from intent_board.workspace.git import Git

RUN = Path(__file__).with_name("workspace_run.py")


def start(bench: Bench, **variables: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, str(RUN), str(bench.root), str(bench.remote)],
        env=os.environ | variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def finish(bench: Bench, **variables: str) -> tuple[int, str]:
    process = start(bench, **variables)
    out, error = process.communicate(timeout=120)
    assert process.returncode in (0, -signal.SIGKILL), error.decode()
    return process.returncode, out.decode().strip()


def in_order(bench: Bench, commit: str) -> None:
    """What must hold after the last run: one commit on the branch, a sound mirror, and nothing left lying about."""
    assert git("rev-parse", "main", cwd=bench.remote) == commit
    assert git("log", "--format=%s", "main", cwd=bench.remote).split("\n").count("T") == 1
    assert git("fsck", "--full", "--strict", "--no-dangling", cwd=bench.mirror) == ""
    state = bench.config.state_dir
    assert sorted(path.name for path in (state / "mirrors").iterdir()) == ["code.git"]
    assert list((state / "trees").iterdir()) == []
    assert list((state / "checkouts").iterdir()) == []
    assert list(bench.mirror.rglob("*.lock")) == []


def fresh(tmp_path: Path, name: str) -> Bench:
    (tmp_path / name).mkdir()
    bench = make_bench(tmp_path / name)
    for part in ("person", "remote.git"):
        shutil.rmtree(bench.root / part)
        shutil.copytree(tmp_path / "model" / part, bench.root / part)
    return bench


@pytest.fixture
def model(tmp_path: Path) -> Bench:
    (tmp_path / "model").mkdir()
    bench = make_bench(tmp_path / "model")
    bench.write({"README.md": "hello\n", "run.sh": "#!/bin/sh\n"})
    return bench


@pytest.mark.faults
def test_a_kill_between_any_two_steps_changes_nothing_about_the_end(tmp_path: Path, model: Bench) -> None:
    first = fresh(tmp_path, "first")
    passed = first.root / "boundaries"
    code, commit = finish(first, **{FILE_VARIABLE: str(passed)})
    assert code == 0
    in_order(first, commit)
    names = passed.read_text().splitlines()
    assert len(names) >= 9
    for number in range(1, len(names) + 1):
        bench = fresh(tmp_path, f"kill-{number}")
        variables = {FILE_VARIABLE: str(bench.root / "boundaries"), KILL_VARIABLE: str(number)}
        assert finish(bench, **variables)[0] == -signal.SIGKILL, names[number - 1]
        assert finish(bench) == (0, commit), names[number - 1]
        in_order(bench, commit)
        shutil.rmtree(bench.root)


@pytest.mark.faults
@pytest.mark.parametrize("tenths", [1, 2, 3, 4, 5, 6])
def test_a_kill_at_any_moment_changes_nothing_about_the_end(tmp_path: Path, model: Bench, tenths: int) -> None:
    bench = fresh(tmp_path, "bench")
    process = start(bench)
    time.sleep(0.15 + tenths / 10)
    process.kill()
    process.communicate()
    assert finish(bench)[0] == 0
    in_order(bench, git("rev-parse", "main", cwd=bench.remote))


def test_lock_files_of_a_dead_git_hold_nobody_up(bench: Bench) -> None:
    commit = bench.workspace.tip("code", bench.workspace.fetch("code"))
    assert commit is not None
    for name in ("refs/heads/main.lock", "packed-refs.lock", "HEAD.lock", "refs/board/x.lock", "shallow.lock"):
        (bench.mirror / name).parent.mkdir(exist_ok=True)
        (bench.mirror / name).write_text("")
    bench.write({"a": "1\n"})
    bench.workspace.fetch("code")
    assert bench.workspace.tip("code", "main") != commit
    bench.workspace.keep_ref("code", "x", commit)
    assert git("rev-parse", "refs/board/x", cwd=bench.mirror) == commit


@pytest.mark.faults
def test_a_git_that_outlives_its_worker_keeps_the_mirror_to_itself(tmp_path: Path, model: Bench) -> None:
    bench = fresh(tmp_path, "bench")
    bench.workspace.fetch("code")
    hook = bench.remote / "hooks" / "pre-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch {bench.root}/pushing\nsleep 1.5\n")
    hook.chmod(0o755)
    process = start(bench)
    while not (bench.root / "pushing").exists():
        assert process.poll() is None
        time.sleep(0.01)
    process.kill()
    process.communicate()
    begun = time.monotonic()
    code, commit = finish(bench)
    assert code == 0 and time.monotonic() - begun > 1
    in_order(bench, commit)


@pytest.mark.parametrize("pipes", ["", " > /dev/null 2>&1"], ids=["with its pipes", "without them"])
def test_what_git_leaves_behind_ends_with_it(tmp_path: Path, pipes: str) -> None:
    """It would hold our locks, and could write after we have said how git ended."""
    script = f"!(sleep 60; touch {tmp_path}/late){pipes} & echo $! > {tmp_path}/pid; exit 3"
    begun = time.monotonic()
    done = Git(None, settings=(("alias.leave", script),)).run("leave", codes=(3,), timeout=30)
    assert (done.code, done.cut) == (3, False)
    assert time.monotonic() - begun < 10
    assert gone(tmp_path / "pid")


def test_a_hook_of_the_remote_that_stays_holds_no_lock_of_ours(bench: Bench) -> None:
    hook = bench.remote / "hooks" / "post-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\nsleep 60 > /dev/null 2>&1 < /dev/null &\necho $! > {bench.root}/pid\n")
    hook.chmod(0o755)
    tree, base = bench.clone()
    (tree / "x").write_text("1\n")
    commit = bench.commit(base).hash
    assert bench.workspace.publish("code", "main", commit) == Published(commit)
    assert gone(bench.root / "pid")
    bench.workspace.fetch("code")
    assert bench.workspace.tip("code", "main") == commit


def gone(file: Path) -> bool:
    """Whether the process whose number stands there has ended, now or in a moment."""
    pid = int(file.read_text())
    for _ in range(40):
        status = Path(f"/proc/{pid}/stat")
        if not status.exists() or status.read_text().rsplit(")", 1)[1].split()[0] == "Z":
            return True
        time.sleep(0.05)
    os.kill(pid, signal.SIGKILL)
    return False


def test_two_clones_at_once_are_one_clone(bench: Bench) -> None:
    bench.write({f"files/{number}": "x\n" for number in range(300)})
    base = bench.workspace.tip("code", bench.workspace.fetch("code"))
    assert base is not None
    with ThreadPoolExecutor(8) as pool:
        same = list(pool.map(lambda _: bench.workspace.clone("code", "my-card", base), range(4)))
        others = list(pool.map(lambda number: bench.workspace.clone("code", f"card-{number}", base), range(4)))
    assert len(set(same)) == 1
    for tree in (*same[:1], *others):
        assert git("status", "--porcelain", cwd=tree) == ""
        assert len(list((tree / "files").iterdir())) == 300
    assert len([path for path in (bench.config.state_dir / "trees").iterdir() if path.is_dir()]) == 5


def test_the_first_fetch_of_several_workers_makes_one_mirror(bench: Bench) -> None:
    with ThreadPoolExecutor(6) as pool:
        assert set(pool.map(lambda _: bench.workspace.fetch("code"), range(6))) == {"main"}
    assert [path.name for path in (bench.config.state_dir / "mirrors").iterdir()] == ["code.git"]


def test_of_two_cards_that_publish_at_once_one_is_published_and_one_moved(bench: Bench) -> None:
    commits = []
    for slug in ("one", "two"):
        tree, base = bench.clone(slug)
        (tree / slug).write_text("x\n")
        commits.append(bench.commit(base, slug=slug).hash)
    barrier = threading.Barrier(2)

    def publish(commit: str) -> Published | Moved:
        barrier.wait()
        return bench.workspace.publish("code", "main", commit)

    with ThreadPoolExecutor(2) as pool:
        states = list(pool.map(publish, commits))
    winner = git("rev-parse", "main", cwd=bench.remote)
    assert sorted(states, key=str) == [Moved(winner), Published(winner)]


def test_two_boards_that_push_at_once_lose_nothing(tmp_path: Path, model: Bench) -> None:
    """Without a common lock the remote itself decides, and the loser hears that the branch moved."""
    model.workspace.fetch("code")
    boards = [Workspace(make_config(tmp_path / name, str(model.remote)), Files()) for name in ("a", "b")]
    commits = []
    for number, board in enumerate(boards):
        base = board.tip("code", board.fetch("code"))
        (board.clone("code", "my-card", base) / f"file{number}").write_text("x\n")
        made = board.commit_tree(
            "code", "my-card", base=base, scope=("**",), title="T", body="", trailers={}, forbidden_values=(), when=1
        )
        assert made is not None
        commits.append(made.hash)
    hook = model.remote / "hooks" / "pre-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\nsleep 0.3\n")  # long enough for both to have seen the old tip
    hook.chmod(0o755)
    with ThreadPoolExecutor(2) as pool:
        states = list(
            pool.map(lambda pair: pair[0].publish("code", "main", pair[1]), zip(boards, commits, strict=True))
        )
    winner = git("rev-parse", "main", cwd=model.remote)
    assert sorted(states, key=str) == [Moved(winner), Published(winner)]


def test_a_full_disk_is_one_sentence_and_heals(tmp_path: Path, model: Bench) -> None:
    """In a user namespace, so that anybody may mount a small file system."""
    state = tmp_path / "state"
    state.mkdir()
    script = (
        f"mount -t tmpfs -o size=200k none {state} || exit 77\n"
        f"{sys.executable} - <<'END'\n"
        "import sys, os\n"
        f"sys.path.insert(0, {str(RUN.parent)!r})\n"
        "from pathlib import Path\n"
        "from workspace_bench import *\n"
        "from intent_board.workspace import *\n"
        f"w = Workspace(make_config(Path({str(tmp_path)!r}), {str(model.remote)!r}), Files())\n"
        "base = w.tip('code', w.fetch('code'))\n"
        "tree = w.clone('code', 'my-card', base)\n"
        "(tree / 'work').write_bytes(os.urandom(30000))\n"
        f"ballast = Path({str(state)!r}, 'ballast')\n"
        "try:\n"
        "    ballast.write_bytes(b'x' * 1000000)\n"
        "except OSError: pass\n"
        "def go():\n"
        "    return w.commit_tree('code', 'my-card', base=base, scope=('**',), title='T', body='', trailers={},"
        " forbidden_values=(), when=1)\n"
        "for step in (go, lambda: w.clone('code', 'other', base), lambda: w.checkout('code', base, '1-1'),"
        " lambda: w.save_tree('code', 'my-card')):\n"
        "    try: step()\n"
        "    except WorkspaceError as error: print(error.kind, 'No space' in str(error) + str(error.detail))\n"
        "ballast.unlink()\n"
        "print(w.publish('code', 'main', go().hash).__class__.__name__)\n"
        "w.clone('code', 'other', base); w.remove_tree('code', 'other'); w.remove_tree('code', 'my-card')\n"
        "print(sorted(p.name for p in (w._trees).iterdir()))\n"
        "END\n"
    )
    done = subprocess.run(["unshare", "-rm", "sh", "-c", script], capture_output=True, text=True, check=False)
    if done.returncode in (1, 77) and ("unshare" in done.stderr or "mount" in done.stderr):
        pytest.skip(f"no user namespace with mounts here: {done.stderr.strip()[:80]}")
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[:-1] == ["failed True"] * 4 + ["Published", "[]"]


def test_a_mirror_that_was_lost_is_made_again(bench: Bench) -> None:
    _, base = bench.clone()
    shutil.rmtree(bench.mirror)
    with pytest.raises(WorkspaceError, match="fetch"):
        bench.workspace.clone("code", "other", base)
    bench.workspace.fetch("code")
    assert (bench.workspace.clone("code", "other", base) / "README.md").exists()
