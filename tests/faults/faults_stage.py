"""A board of real processes, a real SQLite file and real git, whose processes can be killed at any boundary.

Each process of the board is a fork that runs what an entry point runs; that spares the start of Python and nothing
else.  A fork is killed by SIGKILL when it, or all of them together, reach boundary number N (see boundaries.py).
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tomli_w
from scripted_board import scripted_board

from intent_board import boundaries, sandbox
from intent_board.board.model import PARKED, JobState, Phase, Refused, Status
from intent_board.config import BoardConfig, load
from intent_board.roles.base import Context
from intent_board.roles.scheduler import AlreadyRunning, tick_once
from intent_board.roles.worker import drain
from intent_board.runtimes import Credentials
from intent_board.store import Store, open_store
from intent_board.workspace import Workspace

AGENT = Path(__file__).parent / "faults_agent.py"
#: Written down when a process was interrupted; a kill adds them, and they are no effect.
INTERRUPTION_EVENTS = frozenset({"interrupted", "stale", "refused"})
OWNER = "lukas"


def git(*argv: str, cwd: Path) -> str:
    who = {f"GIT_{role}_{part}": "a@b.example" for role in ("AUTHOR", "COMMITTER") for part in ("NAME", "EMAIL")}
    clean = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1"}
    done = subprocess.run(
        ["git", *argv], cwd=cwd, env={**os.environ, **who, **clean}, capture_output=True, text=True, check=True
    )
    return done.stdout


def system_python() -> str:
    # Only a Python below /usr or in the nix store brings its library into the sandbox.
    own = str(Path(sys.executable).resolve())
    return own if own.startswith(("/usr/", "/nix/store/")) else "/usr/bin/python3"


@dataclass
class Stage:
    """One board with one repository; everything is below `top`."""

    top: Path
    config: BoardConfig

    @classmethod
    def make(cls, top: Path, **tables: dict[str, Any]) -> Stage:
        top.mkdir(parents=True, exist_ok=True)
        remote, source = top / "remote.git", top / "source"
        git("init", "--quiet", "--bare", "--initial-branch=main", str(remote), cwd=top)
        git("init", "--quiet", "--initial-branch=main", str(source), cwd=top)
        (source / "README.md").write_text("a repository\n")
        git("add", ".", cwd=source)
        git("commit", "--quiet", "-m", "First", cwd=source)
        git("push", "--quiet", str(remote), "HEAD:refs/heads/main", cwd=source)
        (top / "state").mkdir(mode=0o700)
        path = top / "board.toml"
        path.write_text(tomli_w.dumps(cls._raw(top, remote) | tables))
        # Tried once here, so that no fork tries it again.
        sandbox.available()
        return cls(top, load(path))

    @staticmethod
    def _raw(top: Path, remote: Path) -> dict[str, Any]:
        agent = [system_python(), str(AGENT)]
        raw = scripted_board(OWNER, top / "state", agent, "repo", remote, ["test", "-e", "README.md"])
        raw["runtimes"]["command"]["network"] = False
        return raw

    @property
    def remote(self) -> Path:
        return self.top / "remote.git"

    @property
    def passed(self) -> Path:
        return self.top / "boundaries"

    def store(self) -> Store:
        return open_store(self.config)

    def context(self) -> Context:
        credentials = Credentials()
        return Context(self.config, self.store(), Workspace(self.config, credentials), credentials)

    # --- processes ---------------------------------------------------------------------------------------------

    def fork(self, what: Callable[[], None], kill_at: int = 0) -> int:
        """Start one process of the board; returns its pid."""
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                boundaries._FILE, boundaries._KILL_AT = str(self.passed), kill_at
                what()
                code = 0
            except AlreadyRunning:
                code = 0
            except Exception:  # noqa: BLE001 - whatever it is, the parent reads it in the log
                with (self.top / "log").open("a") as log:
                    traceback.print_exc(file=log)
            finally:
                os._exit(code)
        return pid

    def run(self, what: Callable[[], None], kill_at: int = 0) -> int:
        """One process to its end; its exit code, or minus the signal that ended it."""
        return os.waitstatus_to_exitcode(os.waitpid(self.fork(what, kill_at), 0)[1])

    def submit(self, slug: str, requester: str = OWNER, **data: Any) -> None:
        event = "submit_by_owner" if requester == OWNER else "submit_by_other"
        with contextlib.suppress(Refused):  # a repeated submit after a kill
            self.store().submit(
                slug=slug, title=slug, intent=f"# Intent: {slug}\n", repository="repo", requester=requester,
                event=event, data={"acceptance_criteria": ["it is there"], **data},
            )  # fmt: skip

    def tick(self, ahead: float = 0.0) -> None:
        store = self.store()
        tick_once(self.config, store, Workspace(self.config, Credentials()), time.time() + ahead)

    def work(self, queue: str, slot: int = 0) -> None:
        drain(queue, slot, self.context())

    def people(self) -> None:
        """What the owner says as soon as a card asks for it."""
        store = self.store()
        for line in store.cards(phases=[Phase.STARTFREIGABE]):
            store.happen(line.slug, "accept", actor=OWNER)
        for line in store.cards(phases=[Phase.COMMITFREIGABE]):
            if line.status == Status.SUCCEEDED:
                store.happen(line.slug, "release", actor=OWNER)

    def someone_pushes(self) -> None:
        """The branch moves under a card that is reviewed, once."""
        source = self.top / "source"
        waiting = self.store().cards(phases=[Phase.COMMITFREIGABE])
        if waiting and not (source / "elsewhere").exists():
            (source / "elsewhere").write_text("by somebody else\n")
            git("add", ".", cwd=source)
            git("commit", "--quiet", "-m", "Elsewhere", cwd=source)
            git("push", "--quiet", str(self.remote), "HEAD:refs/heads/main", cwd=source)

    # --- the whole story ----------------------------------------------------------------------------------------

    def until_quiet(self, begin: Callable[[], None], kill_at: int = 0, rounds: int = 60) -> list[int]:
        """Tick, people, workers, again and again, until nothing moves; returns the signals that ended processes."""
        ended = []
        for _ in range(rounds):
            steps: list[Callable[[], None]] = [begin, self.tick, self.someone_pushes_later, self.people]
            steps += [self._serve(queue) for queue in self.config.queue_slots() if queue != "deploy"]
            for step in steps:
                code = self.run(step, kill_at)
                if code < 0:
                    ended.append(-code)
                assert code in (0, -signal.SIGKILL), (self.top / "log").read_text()
            if self.quiet():
                # Looks after what was left on disk, and may be killed over it as well.
                while (code := self.run(self.tick, kill_at)) < 0:
                    ended.append(-code)
                assert code == 0, (self.top / "log").read_text()
                return ended
        raise AssertionError(f"not quiet after {rounds} rounds: {self.phases()}")

    def someone_pushes_later(self) -> None:
        boundaries._KILL_AT = 0  # not a process of the board
        self.someone_pushes()

    def _serve(self, queue: str) -> Callable[[], None]:
        def serve() -> None:
            if self.store().doorbells.path(queue, 0).exists():
                self.work(queue)

        return serve

    def quiet(self) -> bool:
        if not (self.top / "state" / "board.sqlite3").exists():
            return False
        lines = self.store().cards()
        ends = PARKED | {Phase.BEREIT, Phase.DEPLOYED}
        return bool(lines) and all(line.phase in ends and not self._open_jobs(line.slug) for line in lines)

    def _open_jobs(self, slug: str) -> bool:
        states = (JobState.QUEUED, JobState.RUNNING)
        return any(line.job.state in states for line in self.store().jobs(slug))

    # --- what is left ---------------------------------------------------------------------------------------------

    def phases(self) -> dict[str, tuple[str, str, str]]:
        lines = self.store().cards()
        return {line.slug: (str(line.phase), str(line.status), line.reason) for line in lines}

    def remains(self) -> dict[str, Any]:
        """Everything that an undisturbed run and one with a kill must have in common."""
        store = self.store()
        slugs = sorted(line.slug for line in store.cards())
        jobs = [(slug, one.job.role, one.job.attempt, one.job.round, one.job.state.value)
                for slug in slugs for one in store.jobs(slug)]  # fmt: skip
        events = Counter((slug, one.event) for slug in slugs for one in store.events(slug))
        return {
            "phases": self.phases(),
            "jobs": sorted(jobs),
            "reviews": sorted((slug, review.decision) for slug in slugs for review in store.reviews(slug)),
            "attachments": Counter((slug, one.kind) for slug in slugs for one in store.attachments(slug)),
            "events": {key: n for key, n in sorted(events.items()) if key[1] not in INTERRUPTION_EVENTS},
            "notifications": Counter((one.slug, one.event) for one in store.due_notifications(time.time() + 1e6)),
            "branch": git("log", "--format=%s %T", "main", cwd=self.remote).splitlines(),
            "intents": sorted(path.name for path in self.config.intent_dir.glob("*.md")),
            "trees": self._names("trees"),
            "runs": self._names("runs"),
            "checkouts": self._names("checkouts"),
            "answers": self._names("answers"),
            "reports": self._names("reports"),
        }

    def _names(self, directory: str) -> list[str]:
        place = self.config.state_dir / directory
        return sorted(path.name for path in place.iterdir()) if place.is_dir() else []

    def processes(self) -> list[str]:
        """Processes that still work in this stage: a box's command line names the tree that it shows."""
        return [line for line in _command_lines() if f"{self.top}/" in line]


def _command_lines() -> Iterator[str]:
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with contextlib.suppress(OSError):
                yield (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
