"""Runtimes `codex` and `openrouter`: Codex (`codex exec`), with OpenAI or OpenRouter behind it.

Measured with version 0.171.0.  Its event stream has no sign of a step, so steps are counted twice: by the gate, which
Codex asks before each request, and by the `token_usage_record` lines of its rollout file, one for each answer.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import shlex
import stat
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from intent_board import sandbox
from intent_board.runtimes import failures
from intent_board.runtimes.follow import Lines, parse_object
from intent_board.runtimes.gate import Gate
from intent_board.runtimes.order import Order, Outcome
from intent_board.runtimes.program import Launch, Places, Program, Verdict, complaint, number, short
from intent_board.sandbox import Box, Mount

#: Kind -> the provider's name, its address, the variable that overrides the address, and the key's usual variable.
_PROVIDERS: Mapping[str, tuple[str, str, str, str]] = {
    "codex": ("OpenAI", "https://api.openai.com/v1", "OPENAI_BASE_URL", "OPENAI_API_KEY"),
    "openrouter": ("OpenRouter", "https://openrouter.ai/api/v1", "OPENROUTER_BASE_URL", "OPENROUTER_API_KEY"),
}
#: Sub-agents would take steps that nobody counts; the others reach for the network or go on for ever.
_FEATURES_OFF = ("multi_agent", "goals", "plugins", "apps", "unbounded_connection_retries")
#: Codex waits as long as a provider's Retry-After says, without a word.  Longer than this is the board's to wait.
RECONNECT_SECONDS = 45.0
_TOOLS = {"command_execution", "file_change", "mcp_tool_call", "web_search", "collab_tool_call"}
_CALLS = {"function_call", "custom_tool_call", "local_shell_call"}


class Codex(Program):
    """A run of `codex exec`."""

    def __init__(self, order: Order) -> None:
        super().__init__(order)
        self._gate: Gate | None = None
        self._sessions = order.run_dir / "state" / "codex" / "sessions"
        self._rollout: tuple[int, Lines] | None = None
        self._records, self._calls = 0, False
        self._final: str | None = None
        self._answered = False
        self._error = ""
        self._started = False
        self._open_items: set[str] = set()
        self._reconnecting: tuple[float, str] | None = None

    # --- start -----------------------------------------------------------------------------------------------------

    def launch(self, places: Places) -> Launch:
        home = places.state_outside / "codex"
        home.mkdir(mode=0o700)
        self._gate = Gate(places.gate_outside, places.gate)
        argv = [*self.order.profile.command, "exec", "--json", "--skip-git-repo-check", "--ignore-user-config"]
        argv += ["--ignore-rules", "--dangerously-bypass-hook-trust", "-C", str(self.order.tree)]
        argv += self._sandbox_arguments(places)
        if self.order.model is not None:
            argv += ["-m", self.order.model]
        for key, value in self._settings().items():
            argv += ["-c", f"{key}={_toml(value)}"]
        environment = {"HOME": str(places.state), "CODEX_HOME": str(places.state / "codex")}
        return Launch((*argv, "-"), environment)

    def _settings(self) -> dict[str, Any]:
        assert self._gate is not None
        hook = {"type": "command", "command": shlex.join(self._gate.command), "timeout": 7 * 86400}
        settings: dict[str, Any] = {
            "model_provider": "board",
            "model_providers.board": self._provider(),
            "analytics.enabled": False,
            "check_for_update_on_startup": False,
            "web_search": "disabled",
            "shell_environment_policy.ignore_default_excludes": False,
            # The tree's own .codex directory is an agent's or a stranger's.
            "projects": {str(self.order.tree): {"trust_level": "untrusted"}},
            "hooks.PreModelRequest": [{"hooks": [hook]}],
            **{f"features.{name}": False for name in _FEATURES_OFF},
        }
        if self.order.reasoning_effort is not None:
            settings["model_reasoning_effort"] = self.order.reasoning_effort
        return settings

    def _provider(self) -> dict[str, Any]:
        name, address, override, usual = _PROVIDERS[self.order.profile.kind]
        keys = list(self.order.profile.credentials)
        provider: dict[str, Any] = {
            "name": name,
            "base_url": self.order.profile.environment.get(override, address),
            "wire_api": "responses",
            "request_max_retries": 2,
            "stream_max_retries": 1,
            # Two tries of this length end before the board takes the run for idle.
            "stream_idle_timeout_ms": int(min(300.0, self.order.idle_seconds / 3) * 1000),
        }
        if keys:
            provider["env_key"] = usual if usual in keys else keys[0]
        return provider

    def _sandbox_arguments(self, places: Places) -> list[str]:
        """Which of its own sandboxes Codex puts around its tools, inside of ours.

        The boundary is our box.  A writing role gets none beside it: Codex's own would take away the tree's .git (so
        that a flake does not see new files), the nix daemon and the network, and leave empty directories in the tree.
        A reading role gets `read-only` where a sandbox can be nested, which also hides the provider's key from its
        tools.  Where nesting is forbidden every command would fail, so there our read-only mount has to be enough.
        """
        if not sandbox.sandboxed(self.order.config.board.sandbox):
            return self._unboxed_arguments(places)
        nested = not self.order.writes and not self.order.nix_daemon and _nests(self.order.profile.command)
        return ["-s", "read-only" if nested else "danger-full-access"]

    def _unboxed_arguments(self, places: Places) -> list[str]:
        # Without our box, Codex's own sandbox is better than nothing.
        if not self.order.writes:
            return ["-s", "read-only"]
        arguments = ["-s", "workspace-write", "--add-dir", str(self.order.tree / ".git")]
        return arguments + (["--add-dir", str(places.report.parent)] if places.report is not None else [])

    # --- events ----------------------------------------------------------------------------------------------------

    def event(self, event: dict[str, Any]) -> None:
        self._started, self._reconnecting = True, None
        match event.get("type"):
            case "item.started" | "item.updated" | "item.completed" if isinstance(event.get("item"), dict):
                self._item(event["item"], done=event["type"] == "item.completed")
            case "turn.completed":
                self.finished = self._answered = True
                self._use(event.get("usage"))
            case "turn.failed" if isinstance(event.get("error"), dict):
                self._error = str(event["error"].get("message") or "Codex failed and did not say why.")
                self.finished = True
            case "error":
                self._error = str(event.get("message", ""))
                if self._error.startswith("Reconnecting"):
                    self._reconnecting = (time.monotonic(), self._error)

    def _item(self, item: dict[str, Any], *, done: bool) -> None:
        kind, name = item.get("type"), str(item.get("id"))
        if kind in _TOOLS:
            # What it said before a tool was on the way; only the last message is the answer.
            self._final = None
            (self._open_items.discard if done else self._open_items.add)(name)
            self.waiting_for_model = not self._open_items
        elif kind == "agent_message" and done and isinstance(item.get("text"), str):
            self._final = item["text"]
            self.said(self._final)

    def _use(self, usage: Any) -> None:
        if isinstance(usage, dict):
            names = ("input_tokens", "cached_input_tokens", "output_tokens", "reasoning_output_tokens")
            self.usage = {name: number(usage.get(name)) for name in names}

    # --- steps -----------------------------------------------------------------------------------------------------

    def poll(self) -> int:
        before = self._asked()
        read = self._gate.poll() if self._gate is not None else 0
        for line in self._rollout_lines():
            self._record(line)
        asked = self._asked()
        if asked > before and max(self._records, asked - 1) >= self.order.iteration_limit:
            self.over_limit = True
        # Whoever asks for the next step has finished the last; whoever answered has finished all.
        self.steps = max(self.steps, self._records, asked if self._answered else asked - 1)
        if self._reconnecting is not None and time.monotonic() - self._reconnecting[0] > RECONNECT_SECONDS:
            self.trouble = self._failure(self._reconnecting[1], time.time())
        return read + (self._rollout[1].read_bytes if self._rollout is not None else 0)

    def _record(self, line: bytes) -> None:
        entry = parse_object(line) or {}
        payload = entry.get("payload")
        if not isinstance(payload, dict):
            return
        if entry.get("type") == "response_item" and payload.get("type") in _CALLS:
            self._calls = True
        elif entry.get("type") == "token_usage_record":
            self._records += 1
            if not self._answered:
                self._use(payload.get("thread_token_usage"))
            # Without a gate (another version of Codex) this is the first sign that it goes on.
            if self._calls and self._records >= self.order.iteration_limit and not self._asked():
                self.over_limit = True
            self._calls = False

    def _asked(self) -> int:
        return self._gate.requests if self._gate is not None else 0

    def grant(self) -> None:
        if self._gate is not None:
            self._gate.open()

    def _rollout_lines(self) -> Iterator[bytes]:
        if self._rollout is None and (fd := self._find_rollout()) is not None:
            self._rollout = (fd, Lines(fd))
        return self._rollout[1].new() if self._rollout is not None else iter(())

    def _find_rollout(self) -> int | None:
        """Open the rollout file.  Codex makes it before its first step; links are not followed, since later on the
        directory is as good as the agent's."""
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        # It is not there yet, or somebody plays with it: either way there is nothing to count in it.
        with contextlib.suppress(OSError):
            for _, _, names, folder in os.fwalk(self._sessions, follow_symlinks=False):
                for name in names:
                    if name.startswith("rollout-") and name.endswith(".jsonl"):
                        fd = os.open(name, flags, dir_fd=folder)
                        if stat.S_ISREG(os.fstat(fd).st_mode):
                            return fd
                        os.close(fd)
        return None

    def close(self) -> None:
        if self._gate is not None:
            self._gate.close()
        if self._rollout is not None:
            os.close(self._rollout[0])

    # --- end -------------------------------------------------------------------------------------------------------

    def verdict(self, exit_code: int, stderr: str, now: float) -> Verdict:
        if self._answered:
            return Verdict(Outcome.ANSWERED, "", self._final or "")
        if self._error:
            return self._failure(self._error, now)
        if not self._started:
            outcome = Outcome.BAD_CREDENTIALS if "Missing environment variable" in stderr else None
            reason = f"Codex refused to start ({exit_code}): {complaint(stderr)}"
            return Verdict(outcome or Outcome.REFUSED_CONFIGURATION, reason)
        return Verdict(Outcome.FAILED, f"Codex ended with {exit_code} and without an answer: {complaint(stderr)}")

    @staticmethod
    def _failure(text: str, now: float) -> Verdict:
        outcome = failures.of_text(text)
        waits = outcome in (Outcome.RATE_LIMITED, Outcome.QUOTA, Outcome.OUTAGE)
        return Verdict(outcome, short(text), retry_at=failures.retry_time(text, now) if waits else None)


@functools.cache
def _nests(command: tuple[str, ...]) -> bool:
    """Whether Codex's own sandbox works inside of ours, tried once per process."""
    # Imported here, since `programs` imports this module.
    from intent_board.runtimes import programs

    argv = programs.absolute((*command, "sandbox", "--", "/bin/sh", "-c", "echo nested"))
    with tempfile.TemporaryDirectory(prefix="intent-board-") as folder:
        state = Path("/run/agent/state")
        mounts = (Mount(Path(folder).resolve(), state, writable=True), *programs.mounts(argv))
        box = Box(cwd=state, mounts=mounts, environment={"HOME": str(state), "CODEX_HOME": str(state)})
        done = sandbox.run(argv, box, mode="required", timeout=30, output_limit=4096)
    return done.exit_code == 0 and b"nested" in done.output


def _toml(value: Any) -> str:
    """A value as TOML on one line; JSON's strings, numbers and lists are TOML's too."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_toml(key)} = {_toml(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_toml(inner) for inner in value) + "]"
    return json.dumps(value, ensure_ascii=False)
