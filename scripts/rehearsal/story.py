"""The stories that `scripts/rehearse` tells: a small repository, one intent, and the board that carries it to the end.

Everything that happens to the repository and the cards is done by `board`, `board-scheduler` and `board-worker` as
processes of their own, started as systemd would start them: the timer's tick, and a worker for every bell that rings.
"""

from __future__ import annotations

import argparse
import json
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tomli_w

from intent_board import sandbox
from intent_board.board.model import PARKED, Card, Phase
from intent_board.config import BoardConfig, load
from intent_board.store import Store, open_store

HERE = Path(__file__).parent
TICK_SECONDS = 2.0
#: The scripted story takes well under a minute; a real model may take its time.
PATIENCE_SECONDS = {"command": 240.0, "codex": 7200.0, "claude": 7200.0}
#: For a real program: the models of each lane, from the lightest to the strongest, and where its key comes from.
PROGRAMS: dict[str, dict[str, Any]] = {
    "command": {"models": ["scripted-small", "scripted-large"], "key": None},
    "codex": {"models": ["gpt-5.6-luna", "gpt-5.6-terra", "gpt-5.6-sol"], "key": "OPENAI_API_KEY"},
    "claude": {"models": ["haiku", "sonnet", "opus"], "key": "ANTHROPIC_API_KEY"},
}
FILES = {
    "README.md": "# units\n\nConverts units in plain shell. `sh check.sh` runs the checks.\n",
    "CLAUDE.md": "One file per kind of unit in `lib/`, with a test of the same name in `tests/`. Whole numbers only.\n",
    "lib/temperature.sh": 'c_to_f() {\n    echo "$(($1 * 9 / 5 + 32))"\n}\n',
    "tests/temperature.sh": '. lib/temperature.sh\n[ "$(c_to_f 100)" = 212 ] || { echo "100 is wrong"; exit 1; }\n',
    "check.sh": 'set -eu\nfor file in lib/*.sh tests/*.sh; do sh -n "$file"; done\n'
    'for test in tests/*.sh; do sh "./$test"; done\necho "all good"\n',
}


class GoneWrong(Exception):
    """The story did not go as it should; `str()` says where."""


def say(text: str) -> None:
    # Progress goes to stderr's side of the screen, so that --json leaves stdout to the one object.
    print(text, file=sys.stderr, flush=True)


# --- the stage -------------------------------------------------------------------------------------------------


def git(*arguments: str, cwd: Path) -> str:
    names = {"GIT_AUTHOR_NAME": "Rehearsal", "GIT_AUTHOR_EMAIL": "rehearsal@localhost"}
    names |= {key.replace("AUTHOR", "COMMITTER"): value for key, value in names.items()}
    environment = {**os.environ, **names, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1"}
    done = subprocess.run(["git", *arguments], cwd=cwd, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise GoneWrong(f"git {' '.join(arguments)} failed: {done.stderr.strip()}")
    return done.stdout


def make_repository(top: Path) -> Path:
    """A bare remote with one commit on `main`."""
    remote, source = top / "remote.git", top / "source"
    source.mkdir()
    git("init", "--quiet", "--bare", "--initial-branch=main", str(remote), cwd=top)
    git("init", "--quiet", "--initial-branch=main", cwd=source)
    for name, text in FILES.items():
        (source / name).parent.mkdir(exist_ok=True)
        (source / name).write_text(text)
    git("add", ".", cwd=source)
    git("commit", "--quiet", "-m", "A converter for temperatures", cwd=source)
    git("push", "--quiet", str(remote), "HEAD:refs/heads/main", cwd=source)
    return remote


def configuration(top: Path, remote: Path, runtime: str) -> dict[str, Any]:
    """The whole board.toml of the rehearsal."""
    models = PROGRAMS[runtime]["models"]
    light, strong = models[0], models[-1]
    mode = "required"
    if reason := sandbox.available():
        say(f"!!! NO SANDBOX HERE: {reason}")
        say("!!! The agents of this rehearsal run unprotected, as this user.  A real board refuses to do that.")
        mode = "when_available"
    # The scripted agents need few steps, and one of them is meant to run out; a real model gets what it needs.
    steps = 5 if runtime == "command" else 30
    builds = {"runtime": runtime, "model": light, "iteration_limit": steps}
    asks = {"runtime": runtime, "model": strong}
    return {
        "board": {
            "owner": pwd.getpwuid(os.geteuid()).pw_name,
            "state_dir": str(top / "state"),
            "sandbox": mode,
            "default_repository": "units",
        },
        "lanes": {
            "schwer": {"phase": "in_umsetzung", **builds},
            "leicht": {"phase": "in_umsetzung_leicht", **builds},
        },
        "model_pools": {runtime: models},
        "runtimes": {runtime: program(runtime)},
        "queues": {
            "operator": {"role": "operator", **asks},
            "review": {"role": "reviewer", "slots": 2},
            "publish": {"role": "publish"},
            "repair": {"role": "fixer"},
            "inspect": {"role": "inspector", **asks},
            "split": {"role": "planner", **asks},
            "deploy": {"role": "deploy"},
        },
        "repositories": {"units": {"remote_url": f"file://{remote}", "branch": "main", "checks": [["sh", "check.sh"]]}},
    }  # fmt: skip


def program(runtime: str) -> dict[str, Any]:
    """The runtime's table: the scripted agent, or a real program with the key that the environment holds."""
    if runtime == "command":
        pace = {name: os.environ[name] for name in ["REHEARSAL_STEP_SECONDS"] if name in os.environ}
        command = [boxed_python(), str(HERE / "agent.py")]
        return {"kind": "command", "command": command, "network": False, "environment": pace}
    key, found = PROGRAMS[runtime]["key"], shutil.which(runtime)
    if found is None:
        raise GoneWrong(f"there is no program {runtime!r} on PATH; install it, or rehearse with --runtime command")
    if not os.environ.get(key):
        raise GoneWrong(f"${key} is not set; export your key (best one with a spend cap) and start again")
    return {"kind": runtime, "command": [found], "credentials": {key: key.lower().replace("_", "-")}}


def boxed_python() -> str:
    """A Python that the sandbox shows whole: only those in /usr and in the nix store bring their library along."""
    own = Path(sys.executable).resolve()
    if sandbox.available() is not None or own.is_relative_to("/usr") or own.is_relative_to("/nix/store"):
        return str(own)
    if not Path("/usr/bin/python3").exists():
        raise GoneWrong(f"the sandbox does not show {own}; install the system's own python3")
    return "/usr/bin/python3"


def credentials(top: Path, runtime: str) -> dict[str, str]:
    """The directory that systemd would make for a unit, with the one key in it, as a variable for the workers."""
    if (key := PROGRAMS[runtime]["key"]) is None:
        return {}
    directory = top / "credentials"
    directory.mkdir(mode=0o700)
    (directory / key.lower().replace("_", "-")).write_text(os.environ[key])
    return {"CREDENTIALS_DIRECTORY": str(directory)}


# --- the play --------------------------------------------------------------------------------------------------


@dataclass
class Play:
    """The running board: what systemd would do with its timer and its path units."""

    config: BoardConfig
    file: Path
    environment: dict[str, str]
    store: Store
    logs: Path
    patience: float
    workers: dict[tuple[str, int], subprocess.Popen[bytes]] = field(default_factory=dict)
    seen: dict[str, tuple[str, str]] = field(default_factory=dict)
    started: float = field(default_factory=time.monotonic)
    last_tick: float = 0.0

    def run(self, *command: str) -> str:
        """One entry point to its end."""
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise GoneWrong(f"{' '.join(command)} ended with {done.returncode}: {(done.stderr or done.stdout).strip()}")
        return done.stdout

    def until(self, slug: str, reached: Callable[[Card], bool]) -> None:
        """Tick, answer bells and tell what happens, until the card has got there.  Raises GoneWrong when it parks."""
        while True:
            self.tick()
            self.answer_bells()
            self.reap()
            self.tell()
            card = self.store.card(slug)
            if not self.workers:
                if reached(card):
                    return
                if card.phase in PARKED and self.store.present_job(slug) is None:
                    raise GoneWrong(f"{slug} is parked: {self.run('board', 'why', slug)}")
            if time.monotonic() - self.started > self.patience:
                raise GoneWrong(f"nothing came of it within {self.patience:.0f} s: {self.run('board', 'why', slug)}")
            time.sleep(0.05)

    def until_phase(self, slug: str, phase: Phase) -> None:
        self.until(slug, lambda card: card.phase is phase)

    def says(self, *command: str) -> None:
        """A person's command, shown."""
        say(f"\n$ {' '.join(command)}")
        self.run(*command)

    def tick(self) -> None:
        """The timer: a tick some seconds after the last one ended, at once when nothing else is under way."""
        if ("scheduler", 0) in self.workers:
            return
        idle = not (self.workers or self.ringing())
        if idle or time.monotonic() - self.last_tick >= TICK_SECONDS:
            self.start(("scheduler", 0), "board-scheduler", "tick")
            self.last_tick = time.monotonic()

    def start(self, name: tuple[str, int], *command: str) -> None:
        with (self.logs / f"{name[0]}-{name[1]}.log").open("ab") as log:
            self.workers[name] = subprocess.Popen(
                command, env=self.environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def ringing(self) -> list[tuple[str, int]]:
        slots = [(queue, slot) for queue, slots in self.config.queue_slots().items() for slot in range(slots)]
        return [one for one in slots if one[0] != "deploy" and self.store.doorbells.path(*one).exists()]

    def answer_bells(self) -> None:
        for queue, slot in self.ringing():
            if (queue, slot) not in self.workers:
                self.start((queue, slot), "board-worker", queue, "--slot", str(slot))

    def reap(self) -> None:
        for (queue, slot), process in list(self.workers.items()):
            if process.poll() is None:
                continue
            del self.workers[queue, slot]
            if process.returncode != 0:
                log = (self.logs / f"{queue}-{slot}.log").read_text(errors="replace")
                raise GoneWrong(f"the process of {queue} ended with {process.returncode}:\n{log[-2000:]}")

    def tell(self) -> None:
        """Every move of a card since the last look, a line each."""
        for card in sorted(self.store.cards(), key=lambda card: (card.updated_at, card.slug)):
            state = (card.phase, card.status)
            if self.seen.get(card.slug) != state:
                self.seen[card.slug] = state
                note = f"  {card.reason.splitlines()[0][:90]}" if card.reason else ""
                say(f"{time.monotonic() - self.started:6.1f} s  {card.slug:<16} {state[0]:<22} {state[1]:<20}{note}")

    def end(self) -> None:
        for process in self.workers.values():
            process.terminate()
        for process in self.workers.values():
            process.wait()


# --- a story ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Story:
    """One story: its card, what people do in it, and what must have come of it."""

    slug: str
    intent: str
    act: Callable[[Play, Path], None]
    outcome: Callable[[Store], dict[str, Any]]
    faults: Callable[[dict[str, Any], Path, str], Iterator[str]]
    moral: str
    for_models: bool = False


def on_branch(remote: Path, commit: str | None) -> bool:
    command = ["git", "merge-base", "--is-ancestor", str(commit), "refs/heads/main"]
    return subprocess.run(command, cwd=remote, capture_output=True, check=False).returncode == 0


@contextmanager
def stage(keep: Path | None) -> Iterator[Path]:
    """The directory of a rehearsal: the caller's own, or one that is gone afterwards."""
    if keep is not None:
        keep.mkdir(parents=True, exist_ok=True)
        yield keep.resolve()
        say(f"Everything is in {keep}: INTENT_BOARD_CONFIG={keep.resolve()}/board.toml board list")
        return
    with tempfile.TemporaryDirectory(prefix="intent-board-") as place:
        yield Path(place).resolve()


def play(top: Path, runtime: str, story: Story) -> tuple[dict[str, Any], list[str]]:
    remote = make_repository(top)
    file, intent, logs = top / "board.toml", top / f"{story.slug}.md", top / "logs"
    (top / "state").mkdir(mode=0o700)
    logs.mkdir()
    file.write_text(tomli_w.dumps(configuration(top, remote, runtime)))
    intent.write_text(story.intent)
    config = load(file)
    environment = {**os.environ, "INTENT_BOARD_CONFIG": str(file), **credentials(top, runtime)}
    # A board of one person: nobody is asked through sudo here, even when this very script runs under it.
    environment.pop("SUDO_UID", None)
    one = Play(config, file, environment, open_store(config), logs, PATIENCE_SECONDS[runtime])
    say(f"One intent, {story.slug}, for a repository in {top}.\n")
    wrong: list[str] = []
    try:
        story.act(one, intent)
    except GoneWrong as error:
        if one.store.find(story.slug) is None:
            raise
        wrong.append(str(error))
    finally:
        one.end()
    end = story.outcome(one.store)
    say("\n$ board list\n" + one.run("board", "list"))
    say("$ git log --graph --oneline main\n" + git("log", "--graph", "--oneline", "main", cwd=remote))
    wrong += story.faults(end, remote, runtime)
    if wrong:
        say(f"$ board why {story.slug}\n" + one.run("board", "why", story.slug))
    say(dry_run(one, story.slug))
    return end, wrong


def dry_run(one: Play, slug: str) -> str:
    """What a deployment would say.  This machine and this repository are not for deployment, so it says why not."""
    command = ["board-deploy", "--config", str(one.file), "--dry-run", slug]
    done = subprocess.run(command, env=one.environment, capture_output=True, text=True, check=False)
    return f"$ board-deploy --dry-run {slug}\n{done.stdout}{done.stderr}"


def main() -> int:
    from stories import STORIES

    parser = argparse.ArgumentParser(prog="scripts/rehearse", description="One whole story through the real board.")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="a new directory that stays afterwards")
    parser.add_argument("--json", action="store_true", help="print the outcome as one JSON object, last on stdout")
    parser.add_argument("--runtime", choices=sorted(PROGRAMS), default="command", help="[default: command]")
    parser.add_argument("--story", choices=sorted(STORIES), default="family", help="[default: family]")
    options = parser.parse_args()
    if options.keep is not None and options.keep.exists() and any(options.keep.iterdir()):
        parser.error(f"{options.keep} is not empty; name a new directory")
    story = STORIES[options.story]
    if options.runtime != "command" and not story.for_models:
        parser.error(f"the story {options.story} needs its scripted agent; leave --runtime out")
    with stage(options.keep) as top:
        try:
            end, wrong = play(top, options.runtime, story)
        except GoneWrong as error:
            say(f"rehearse: {error}")
            return 1
    for one in wrong:
        say(f"rehearse: {one}")
    if options.json:
        print(json.dumps(end))
    if not wrong:
        say(story.moral)
    return 1 if wrong else 0


if __name__ == "__main__":
    # The stories import this file by its name, which must not make a second copy of it.
    sys.modules["story"] = sys.modules["__main__"]
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        say("rehearse: interrupted")
        sys.exit(130)
