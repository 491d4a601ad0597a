"""The command runtime, and with it what the driver does for every program."""

from __future__ import annotations

import fcntl
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

import pytest
from runtimes_bench import Agent

from intent_board import sandbox
from intent_board.contracts.builder import InterimReport
from intent_board.runtimes import Outcome, driver, follow, read_report


def test_an_answer(agent: Agent) -> None:
    result = agent.run("""
        order = sys.stdin.read()
        for n in range(3):
            say(type="step")
            say(type="text", text=f"looking {n}")
            say(type="usage", input_tokens=100, output_tokens=n, cost_usd=0.25)
        print("noise")
        say(type="final", text=order + "!")
    """)
    assert (result.outcome, result.text, result.exit_code) == (Outcome.ANSWERED, "the order!", 0)
    assert (result.iterations, agent.steps) == (3, [1, 2, 3])
    assert (dict(result.usage), result.cost_usd) == ({"input_tokens": 300, "output_tokens": 3}, 0.75)
    assert result.last_texts == ("looking 0", "looking 1", "looking 2", "the order!")
    assert (result.reason, result.cut, result.retry_at) == ("", False, None)
    assert result.sandboxed is (sandbox.available() is None)


def test_what_it_is_told(agent: Agent) -> None:
    agent.runtime = {"environment": {"EXTRA": "yes"}}
    result = agent.run(
        """
        names = ["INTENT_BOARD_MODEL", "INTENT_BOARD_REASONING_EFFORT", "INTENT_BOARD_ITERATION_LIMIT", "EXTRA", "KEY"]
        state = [os.getcwd(), os.access(os.environ["HOME"], os.W_OK)]
        say(type="final", text=json.dumps([os.environ.get(n) for n in names] + state))
        """,
        secrets={"KEY": "short"},
    )
    assert result.text == f'["some-model", "low", "5", "yes", "short", "{agent.tree}", true]'


@pytest.mark.parametrize("steps", [4, 5])
def test_an_answer_at_the_last_step_counts(agent: Agent, steps: int) -> None:
    result = agent.run(f"""
        for n in range({steps}):
            say(type="step")
        say(type="final", text="done")
    """)
    assert (result.outcome, result.iterations) == (Outcome.ANSWERED, steps)


@pytest.mark.parametrize("pause", [0, 0.3])
def test_the_run_ends_before_the_step_beyond_the_limit(agent: Agent, pause: float) -> None:
    result = agent.run(f"""
        for n in range(7):
            say(type="step")
            say(type="text", text=f"step {{n + 1}}")
            time.sleep({pause})
        say(type="final", text="too late")
        time.sleep(60)
    """)
    assert (result.outcome, result.text, result.iterations) == (Outcome.LIMIT_REACHED, "", 5)
    assert agent.steps == [1, 2, 3, 4, 5]
    assert result.last_texts[-1] == "step 5"
    assert "5 steps" in result.reason


def test_a_stale_worker_ends_its_run(agent: Agent) -> None:
    class StaleClaim(Exception):
        pass

    def stale(step: int) -> None:
        if step == 2:
            raise StaleClaim

    begun = time.monotonic()
    with pytest.raises(StaleClaim):
        agent.run(
            """
            for n in range(3):
                say(type="step")
            time.sleep(60)
            """,
            on_step=stale,
        )
    assert time.monotonic() - begun < 10
    assert not agent.run_dir.exists()


def test_wall_clock(agent: Agent) -> None:
    result = agent.run(
        """
        while True:
            say(type="text", text="busy")
            time.sleep(0.05)
        """,
        timeout_seconds=0.5,
    )
    assert (result.outcome, result.text) == (Outcome.TIMED_OUT, "")
    assert result.last_texts[-1] == "busy"


def test_silence(agent: Agent) -> None:
    result = agent.run("time.sleep(60)", idle_seconds=0.4)
    assert result.outcome is Outcome.OUTAGE
    assert "0.4 seconds" in result.reason


def test_a_program_that_stays_after_its_answer(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "LEAVE_SECONDS", 0.2)
    result = agent.run('say(type="final", text="done"); time.sleep(60)')
    assert (result.outcome, result.text) == (Outcome.ANSWERED, "done")
    assert result.seconds < 10


@pytest.mark.parametrize(
    ("script", "outcome", "reason"),
    [
        ("sys.exit('bad flag --x')", Outcome.REFUSED_CONFIGURATION, "bad flag --x"),
        ("say(type='step'); sys.exit('crashed here')", Outcome.FAILED, "crashed here"),
        ("say(type='error', outcome='quota', text='no money')", Outcome.QUOTA, "no money"),
        ("say(type='error', text='503 Service Unavailable')", Outcome.OUTAGE, "503 Service Unavailable"),
        ("say(type='error', outcome='answered', text='x')", Outcome.FAILED, "x"),
        ("say(type='error', outcome=[1], text='x')", Outcome.FAILED, "x"),
        ("say(type='final', text=3)", Outcome.FAILED, "without an answer: it wrote nothing to standard error"),
        ("say(type='step'); os.kill(os.getpid(), 9)", Outcome.FAILED, "137"),
    ],
)
def test_without_an_answer(agent: Agent, script: str, outcome: Outcome, reason: str) -> None:
    result = agent.run(script)
    assert (result.outcome, result.text) == (outcome, "")
    assert reason in result.reason
    assert "\n" not in result.reason


def test_a_time_to_come_back(agent: Agent) -> None:
    result = agent.run("say(type='error', outcome='rate_limited', text='later', retry_at=1790000000)")
    assert (result.outcome, result.retry_at) == (Outcome.RATE_LIMITED, 1790000000.0)


def test_a_program_that_is_not_installed(agent: Agent) -> None:
    agent.runtime = {"command": ["no-such-agent-program"]}
    result = agent.run("")
    assert (result.outcome, result.exit_code) == (Outcome.REFUSED_CONFIGURATION, None)
    assert "no-such-agent-program is not on PATH" in result.reason


def test_secrets_are_redacted_everywhere(agent: Agent) -> None:
    key = "-----BEGIN KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASC\n-----END KEY-----\n"
    result = agent.run(
        """
        say(type="step")
        say(type="text", text="x" * 3990 + os.environ["TOKEN"])
        say(type="error", outcome="failed", text="refused " + os.environ["TOKEN"])
        say(type="text", text=os.environ["KEY"].splitlines()[1])
        """,
        secrets={"TOKEN": "sk-live-0123456789", "KEY": key},
    )
    everything = result.text + result.reason + "".join(result.last_texts)
    assert "sk-live" not in everything
    assert "MIIEvQ" not in everything
    assert result.reason == "refused [redacted]"


def test_line_separators_inside_strings_and_lone_surrogates(agent: Agent) -> None:
    result = agent.run(r"""
        sys.stdout.reconfigure(errors="surrogatepass")
        print('{"type": "final", "text": "a\u2028b\u2029c\x85d' + '\\ud800\\ud83d\\ude00' + '"}', flush=True)
    """)
    assert result.text == "a\u2028b\u2029c\x85d\ufffd\U0001f600"


@pytest.mark.parametrize("line", ['{"a":' * 100_000, "[" * 1_000_000, "null", "3", "\\xff\\xfe", '{"type": [1]}'])
def test_lines_that_are_no_events(agent: Agent, line: str) -> None:
    path = agent.tree / "line"
    path.write_text(line)
    result = agent.run("print(open('line').read(), flush=True); say(type='final', text='fine')")
    assert (result.outcome, result.text) == (Outcome.ANSWERED, "fine")


def test_the_last_line_may_lack_its_newline(agent: Agent) -> None:
    result = agent.run("""sys.stdout.write('{"type": "final", "text": "done"}')""")
    assert (result.outcome, result.text) == (Outcome.ANSWERED, "done")


def test_a_line_that_is_too_long_is_cut_and_recorded(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follow, "LINE_BYTES", 1 << 20)
    result = agent.run("""
        say(type="text", text="x" * 1_100_000)
        say(type="text", text="y" * 900_000)
        say(type="final", text="done")
    """)
    assert (result.text, result.cut) == ("done", True)
    assert len(result.last_texts) == 2
    assert len(result.last_texts[0]) == 4000


def test_an_output_over_its_limit_ends_the_run(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "OUTPUT_BYTES", 1 << 20)
    result = agent.run("while True: print('x' * 10_000, file=sys.stderr)")
    assert (result.outcome, result.cut) == (Outcome.FAILED, True)
    assert "MiB" in result.reason


def test_a_full_disk(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    (agent.folder / "runs").mkdir()
    space = os.statvfs(agent.folder)
    monkeypatch.setattr(driver, "FREE_BYTES", space.f_bavail * space.f_frsize - (200 << 20))
    result = agent.run("""
        with open(os.environ["HOME"] + "/big", "wb") as file:
            while True:
                file.write(os.urandom(1 << 20))
                file.flush()
    """)
    assert (result.outcome, result.cut) == (Outcome.FAILED, True)
    assert "make room there" in result.reason
    monkeypatch.setattr(driver, "FREE_BYTES", 1 << 60)
    result = agent.run("open('started', 'w')")
    assert (result.outcome, result.exit_code) == (Outcome.OUTAGE, None)
    assert not (agent.tree / "started").exists()


BIG = """
import sys
sys.path.insert(0, sys.argv[1])
import re
from pathlib import Path
from runtimes_bench import Agent
agent = Agent(Path(sys.argv[2]))
result = agent.run('''
line = json.dumps({"type": "text", "text": "x" * 3_000_000}) + "\\\\n"
for n in range(100):
    sys.stdout.write(line)
sys.stdout.write("y" * 200_000_000 + "\\\\n")
say(type="final", text="done")
''', timeout_seconds=120)
# Not ru_maxrss: a child inherits that from the process that forked it, here a large pytest.
peak = re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]
print(result.outcome, result.text, result.cut, peak)
"""


def test_half_a_gigabyte_of_output_needs_little_memory(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", BIG, str(Path(__file__).parent), str(tmp_path)],
        capture_output=True,
        text=True,
        check=True,
    )
    outcome, text, cut, kilobytes = done.stdout.split()
    assert (outcome, text, cut) == ("answered", "done", "True")
    assert int(kilobytes) < 150_000


def test_a_reading_role_cannot_write(boxed: Agent) -> None:
    (boxed.tree / "file").write_text("before")
    result = boxed.run(
        """
        refused = []
        for path in ("file", "new", "../beside"):
            try:
                open(path, "w").write("changed")
            except OSError as error:
                refused.append(error.errno)
        say(type="final", text=json.dumps(refused))
        """,
        writes=False,
    )
    assert result.text == "[30, 30]"
    assert (boxed.tree / "file").read_text() == "before"
    assert not (boxed.tree / "new").exists()
    assert not (boxed.folder / "beside").exists()


def test_a_writing_role_writes_into_its_tree(agent: Agent) -> None:
    result = agent.run("open('new', 'w').write('made'); say(type='final', text='done')")
    assert result.outcome is Outcome.ANSWERED
    assert (agent.tree / "new").read_text() == "made"


def test_the_report_is_read_back(agent: Agent) -> None:
    path = agent.folder / "report" / "report.json"
    result = agent.run(
        """
        with open(os.environ["INTENT_BOARD_REPORT"], "w") as file:
            json.dump({"done": ["a"], "open": ["b", "c"], "next": "d"}, file)
        time.sleep(60)
        """,
        report_path=path,
        timeout_seconds=1,
    )
    assert result.outcome is Outcome.TIMED_OUT
    assert read_report(path) == InterimReport(("a",), ("b", "c"), "d")


@pytest.mark.parametrize("where", ["runs/7-1/report.json", "tree/report.json", "tree/deep/report.json"])
def test_a_report_needs_a_directory_of_its_own(agent: Agent, where: str) -> None:
    with pytest.raises(ValueError, match="directory of its own"):
        agent.run("", report_path=agent.folder / where)


def test_the_run_directory_goes_whatever_the_agent_left(agent: Agent) -> None:
    result = agent.run("""
        home = os.environ["HOME"]
        os.makedirs(home + "/a/b"); open(home + "/a/b/c", "w").close()
        os.symlink("/etc", home + "/link"); os.mkfifo(home + "/pipe")
        os.chmod(home + "/a/b", 0); os.chmod(home + "/a", 0); os.chmod(home, 0)
        say(type="final", text="done")
    """)
    assert result.outcome is Outcome.ANSWERED
    assert not agent.run_dir.exists()


def test_a_run_directory_that_cannot_be_made(agent: Agent) -> None:
    agent.run_dir.mkdir(parents=True)
    (agent.run_dir / "gate").write_text("in the way")
    with pytest.raises(FileExistsError):
        agent.run("")
    assert not agent.run_dir.exists()


def test_the_job_lock_is_held_by_the_box(agent: Agent) -> None:
    lock = agent.folder / "job.lock"
    fd = os.open(lock, os.O_RDWR | os.O_CREAT)
    fcntl.flock(fd, fcntl.LOCK_EX)
    try:
        assert agent.run("say(type='final', text='done')", lock_fd=fd).text == "done"
        with lock.open() as other, pytest.raises(BlockingIOError):
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    finally:
        os.close(fd)


def test_nothing_stays_open(agent: Agent) -> None:
    def descriptors() -> set[str]:
        return {entry.name for entry in Path("/proc/self/fd").iterdir()}

    agent.run("say(type='final', text='done')")
    before = descriptors()
    agent.run("say(type='final', text='done')")
    assert descriptors() == before
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] > len(before)
