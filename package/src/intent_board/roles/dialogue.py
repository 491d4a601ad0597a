"""The Planner in dialogue: an interactive agent program as the person, and the proof of what it left behind.

It runs in the person's own checkout with the person's own login, outside of any box, so it is held by three things: it
gets no shell (Claude Code) or one in the program's own sandbox (Codex), each write but that of the one file is refused,
and `changes` compares everything before and after.
"""

from __future__ import annotations

import json
import os
import shlex
import stat
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from intent_board.config import BoardConfig, Queue, Runtime
from intent_board.roles import dialogue_gate
from intent_board.roles.text import load

#: The agent programs that a person can talk to.
PROGRAMS = ("claude", "codex")
#: What of a git directory says that somebody committed, pushed, fetched, or prepared something to be run.
_GIT_PLACES = ("HEAD", "packed-refs", "config", "refs", "reftable", "hooks", "info")
_CLAUDE_TOOLS = ("Read", "Grep", "Glob", "AskUserQuestion")


class DialogueError(Exception):
    """A dialogue that can't be started; `str()` is one sentence: what, where, what to do."""


@dataclass(frozen=True, slots=True)
class Dialogue:
    """One dialogue: the person's checkout (without links in its path) and the slug of the intent."""

    checkout: Path
    slug: str

    @property
    def file(self) -> Path:
        """The one file that may be written."""
        return self.checkout / "docs" / "intent" / f"{self.slug}.md"


def begin(checkout: Path, slug: str) -> Dialogue:
    """A dialogue about `docs/intent/<slug>.md` in a checkout; makes the directory.  Raises DialogueError."""
    dialogue = Dialogue(checkout.resolve(), slug)
    if not (dialogue.checkout / ".git").exists():
        raise DialogueError(f"{checkout} is not the top of a git checkout; name one, or go there")
    directory = dialogue.file.parent
    if directory.resolve() != directory or dialogue.file.is_symlink():
        raise DialogueError(f"{dialogue.file} leads somewhere else through a link; put a plain file in its place")
    directory.mkdir(parents=True, exist_ok=True)
    return dialogue


def program(config: BoardConfig, wanted: str | None) -> str:
    """The agent program of the dialogue: the one asked for, else the Planner's own, else Claude Code."""
    runtime = config.runtimes.get(_planner(config).runtime or "")
    return wanted or (runtime.kind if runtime and runtime.kind in PROGRAMS else PROGRAMS[0])


def command(dialogue: Dialogue, config: BoardConfig, kind: str) -> list[str]:
    """The command line of the agent program, with the Planner's text and settings.  Raises RoleTextError."""
    own = load("planner-dialogue", config).own
    queue, runtime = _planner(config), _runtime(config, kind)
    ours = config.runtimes.get(queue.runtime or "")
    model, effort = (queue.model, queue.reasoning_effort) if ours and ours.kind == kind else (None, None)
    first = f"We write the intent {dialogue.file}.  Begin by asking me what it is about."
    start = list(runtime.command) if runtime else [kind]
    if kind == "claude":
        start += [*_claude(dialogue), "--append-system-prompt", own]
        start += ["--model", model] if model else []
        return [*start, *(["--effort", effort] if effort else []), "--", first]
    start += ["-m", model] if model else []
    start += ["-c", f'model_reasoning_effort="{effort}"'] if effort else []
    return [*start, *_codex(dialogue), "--", f"{own}\n{first}"]


def _planner(config: BoardConfig) -> Queue:
    return config.queues["split"]


def _runtime(config: BoardConfig, kind: str) -> Runtime | None:
    return next((runtime for runtime in config.runtimes.values() if runtime.kind == kind), None)


def _claude(dialogue: Dialogue) -> list[str]:
    """Mode `auto`, since `dontAsk` would refuse its tool for questions; no shell; each write asks the gate.

    A list of allowed tools alone would leave the other writes to the mode's own judgement.
    """
    gate = shlex.join([sys.executable, "-I", dialogue_gate.__file__, str(dialogue.file)])
    hook = {"type": "command", "command": f"{gate} || exit 2"}
    settings = {"hooks": {"PreToolUse": [{"matcher": "Edit|Write|NotebookEdit", "hooks": [hook]}]}}
    allowed = [*_CLAUDE_TOOLS, f"Edit(docs/intent/{dialogue.slug}.md)"]
    return [
        *("--permission-mode", "auto", "--setting-sources", "", "--strict-mcp-config", "--disable-slash-commands"),
        *("--settings", json.dumps(settings), "--tools", ",".join([*_CLAUDE_TOOLS, "Edit", "Write"])),
        *("--allowedTools", *allowed),
    ]


def _codex(dialogue: Dialogue) -> list[str]:
    """Its own sandbox, in which nothing but the directory of the intents can be written, and no way around it."""
    # The person's own configuration may say more is writable; not here.
    limits = ("exclude_slash_tmp=true", "exclude_tmpdir_env_var=true", "writable_roots=[]", "network_access=false")
    checkout = json.dumps(str(dialogue.checkout))
    return [
        *("-C", str(dialogue.file.parent), "-s", "workspace-write", "-a", "never", "--disable", "multi_agent"),
        *(word for name in limits for word in ("-c", f"sandbox_workspace_write.{name}")),
        *("-c", 'web_search="disabled"', "-c", f'projects={{{checkout}={{trust_level="untrusted"}}}}'),
    ]


def environment(inherited: Mapping[str, str]) -> dict[str, str]:
    """The person's own environment without what an agent program around us left in it, which would change this one."""
    return {
        name: value
        for name, value in inherited.items()
        if name != "CLAUDECODE" and not name.startswith(("CLAUDE_CODE_", "CODEX_SANDBOX"))
    }


# --- before and after -----------------------------------------------------------------------------------------------

Picture = Mapping[str, tuple[int, ...]]


def picture(dialogue: Dialogue) -> Picture:
    """Every file of the checkout and what of its git directory tells a commit or a push, by their inodes' own data.

    No git runs, so no filter, hook or monitor of the checkout does; ignored files are seen, too.  The time of the last
    change of an inode can't be set back by whoever changed it.
    """
    found: dict[str, tuple[int, ...]] = {}
    _look(dialogue.checkout, "", found, skip=".git")
    for directory in _git_directories(dialogue.checkout / ".git"):
        for name in _GIT_PLACES:
            _look(directory / name, f".git: {directory / name}", found)
    return found


def changes(before: Picture, after: Picture, dialogue: Dialogue) -> tuple[str, ...]:
    """Every path that came, went or changed between two pictures, but for the intent's own file."""
    own = dialogue.file.relative_to(dialogue.checkout).as_posix()
    paths = (path for path in before.keys() | after.keys() if before.get(path) != after.get(path))
    return tuple(sorted(path for path in paths if path != own))


def _look(path: Path, name: str, found: dict[str, tuple[int, ...]], *, skip: str = "") -> None:
    waiting = [(path, name)]
    while waiting:
        place, shown = waiting.pop()
        try:
            info = place.lstat()
            entries = [entry.name for entry in os.scandir(place)] if stat.S_ISDIR(info.st_mode) else []
        except FileNotFoundError:
            continue
        except PermissionError:
            found[shown] = ()  # nor can the agent program read it, which has the same rights
            continue
        if entries or stat.S_ISDIR(info.st_mode):
            waiting += [
                (place / entry, f"{shown}/{entry}" if shown else entry) for entry in entries if shown or entry != skip
            ]
        else:
            found[shown] = (info.st_mode, info.st_ino, info.st_size, info.st_mtime_ns, info.st_ctime_ns)


def _git_directories(place: Path) -> list[Path]:
    """The checkout's git directory; for a linked worktree also the one that it shares with others."""
    if place.is_dir():
        return [place]
    named = place.read_text(errors="surrogateescape").removeprefix("gitdir: ").rstrip("\n")
    own = (place.parent / named).resolve()
    common = own / "commondir"
    return [own, (own / common.read_text().strip()).resolve()] if common.is_file() else [own]
