"""The real agent programs from npm, at the versions that were measured, and a scripted model for them."""

from __future__ import annotations

import fcntl
import importlib.util
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from intent_board import config, sandbox
from intent_board.runtimes import Order, RunResult, run

PACKAGES = {"codex": "@openai/codex@0.171.0", "claude": "@anthropic-ai/claude-code@2.1.332"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.agents)


def _load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"agents_{name}", Path(__file__).parent / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


model_server = _load("model_server")


def _folder() -> Path:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(os.environ.get("INTENT_BOARD_AGENT_PROGRAMS") or cache / "intent-board" / "agent-programs")


def _executable(kind: str, folder: Path) -> Path | None:
    """The native program, started directly: the launcher of Codex stays as a useless parent on older Node."""
    modules = folder / "node_modules"
    pattern = {
        "codex": "@openai/codex-linux-*/vendor/*/bin/codex",
        "claude": "@anthropic-ai/claude-code-linux-*/claude",
    }[kind]
    return next((path for path in sorted(modules.glob(pattern)) if "musl" not in path.parent.name), None)


@pytest.fixture(scope="session")
def agent_programs() -> dict[str, str]:
    """Kind -> absolute path.  Installed with npm under CI, elsewhere only used when they are there."""
    if platform.system() != "Linux":
        pytest.skip("agent programs are only tested on Linux")
    folder = _folder()
    found = {kind: _executable(kind, folder) for kind in PACKAGES}
    if not all(found.values()):
        if os.environ.get("CI") != "true":
            pytest.skip(f"the agent programs are not in {folder}; run once with CI=true to install them")
        if shutil.which("npm") is None:
            pytest.fail("npm is needed to install the agent programs")
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            command = ["npm", "install", "--no-audit", "--no-fund", "--prefix", str(folder), *PACKAGES.values()]
            subprocess.run(command, check=True, timeout=900, stdin=subprocess.DEVNULL)
        found = {kind: _executable(kind, folder) for kind in PACKAGES}
    return {kind: str(path) for kind, path in found.items() if path is not None}


class Real:
    """Runs one of the real programs against a scripted model, in our sandbox."""

    def __init__(self, kind: str, command: str, folder: Path) -> None:
        self.kind, self.command, self.folder = kind, command, folder
        self.tree, self.run_dir = folder / "tree", folder / "runs" / "7-1"
        self.tree.mkdir()
        (self.tree / "hello.txt").write_text("hello\n")
        self.steps: list[int] = []
        self.server: Any = None
        self.environment: dict[str, str] = {}
        self.mode = "required"

    @property
    def claude(self) -> bool:
        return self.kind == "claude"

    def model(self, *steps: dict[str, Any]) -> Any:
        self.server = model_server.ModelServer(*steps)
        return self.server

    def shell(self, command: str) -> dict[str, Any]:
        """A tool call that runs a shell command."""
        if self.claude:
            return {"name": "Bash", "arguments": {"command": command, "description": "run it"}}
        return {"name": "exec_command", "arguments": {"cmd": command}}

    def look(self) -> dict[str, Any]:
        """A tool call of a reading role."""
        if self.claude:
            return {"name": "Read", "arguments": {"file_path": str(self.tree / "hello.txt")}}
        return self.shell("cat hello.txt")

    def order(self, *, url: str | None = None, **changes: Any) -> Order:
        key, base = {
            "codex": ("OPENAI_API_KEY", "OPENAI_BASE_URL"),
            "openrouter": ("OPENROUTER_API_KEY", "OPENROUTER_BASE_URL"),
            "claude": ("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"),
        }[self.kind]
        address = (url or self.server.url) + ("" if self.claude else "/v1")
        runtime = {
            "kind": self.kind,
            "command": [self.command],
            "environment": {base: address, **self.environment},
            "credentials": {key: "key"},
        }
        values: dict[str, Any] = {
            "runtime": "agent",
            "config": config.BoardConfig(
                board=config.Board.model_validate({"owner": "root", "state_dir": self.folder, "sandbox": self.mode}),
                runtimes={"agent": config.Runtime.model_validate(runtime)},
            ),
            "model": "some-model",
            "reasoning_effort": "low",
            "text": "Do it.",
            "tree": self.tree,
            "writes": False,
            "iteration_limit": 5,
            "timeout_seconds": 60,
            "idle_seconds": 30,
            "run_dir": self.run_dir,
            "secrets": {key: "sk-test-0123456789"},
        }
        return Order(**values | changes)

    def run(self, *, on_step: Callable[[int], None] | None = None, **changes: Any) -> RunResult:
        result = run(self.order(**changes), on_step=on_step or self.steps.append)
        assert not self.run_dir.exists()
        assert "sk-test" not in result.text + result.reason + "".join(result.last_texts)
        assert result.sandboxed is (self.mode == "required")
        return result


@pytest.fixture(params=["codex", "claude"])
def real(request: pytest.FixtureRequest, agent_programs: dict[str, str], tmp_path: Path) -> Iterator[Real]:
    """Each of the two programs, ready to run."""
    yield from _ready(request.param, agent_programs, tmp_path)


@pytest.fixture
def real_codex(agent_programs: dict[str, str], tmp_path: Path) -> Iterator[Real]:
    """Codex alone."""
    yield from _ready("codex", agent_programs, tmp_path)


@pytest.fixture
def real_claude(agent_programs: dict[str, str], tmp_path: Path) -> Iterator[Real]:
    """Claude Code alone."""
    yield from _ready("claude", agent_programs, tmp_path)


def _ready(kind: str, programs: dict[str, str], folder: Path) -> Iterator[Real]:
    if (reason := sandbox.available()) is not None:
        pytest.skip(reason)
    made = Real(kind, programs[kind], folder)
    yield made
    if made.server is not None:
        made.server.shutdown()
        made.server.server_close()
