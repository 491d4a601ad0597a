"""A real `nix` and the real nixpkgs `lib`, found as `<nixpkgs/lib>` like any Nix user finds it."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
UPSTREAM = Path("/usr/lib/systemd/system")
#: Keys of newer systemd versions than the oldest this runs on; an older one ignores them.
SINCE = {"RestartSteps": 254, "RestartMaxDelaySec": 254}
#: The least that a host must say.
MINIMAL = """
  services.intent-board = {
    enable = true;
    board.owner = "lukas";
    runtimes.codex.package = pkgs.codex;
    credentials.openai-api-key = "/run/secrets/openai-api-key";
  };
  users.users.lukas = { };
"""


@cache
def missing() -> str | None:
    """Why nothing can be evaluated here, or None."""
    if shutil.which("nix-instantiate") is None:
        return "no nix-instantiate on PATH"
    found = subprocess.run(
        ["nix-instantiate", "--eval", "--readonly-mode", "-E", "(import <nixpkgs/lib>).evalModules or null == null"],
        capture_output=True,
        text=True,
        check=False,
    )
    if found.returncode != 0:
        return "<nixpkgs/lib> cannot be imported; put nixpkgs (its lib is enough) on NIX_PATH or into a channel"
    return None


class Refused(Exception):
    """nix refused to evaluate; `str()` is what it said."""


class Nix:
    """Evaluates module.nix with a host's configuration."""

    def __init__(self) -> None:
        self._known: dict[str, Any] = {}

    def json(self, expression: str) -> Any:
        """The value of an expression.  Raises Refused with nix's own words."""
        if expression not in self._known:
            command = ["nix-instantiate", "--eval", "--strict", "--json", "--readonly-mode"]
            # nix asks for a quarter of the memory at once, and touching that costs more than these evaluations.
            environment = os.environ | {"GC_INITIAL_HEAP_SIZE": "32M"}
            done = subprocess.run(
                [*command, "-E", expression],
                capture_output=True,
                text=True,
                check=False,
                cwd=HERE,
                env=environment,
                timeout=120,
            )
            if done.returncode != 0:
                raise Refused(done.stderr)
            self._known[expression] = json.loads(done.stdout)
        return self._known[expression]

    def host(self, body: str, attribute: str = "all") -> Any:
        """What eval.nix says about a host whose module holds `body`."""
        module = "{ config, lib, pkgs, ... }: { " + body + " }"
        return self.json(f"(import ./eval.nix {{ host = {module}; }}).{attribute}")

    def settings(self, body: str) -> dict[str, Any]:
        """A host's services.intent-board: `body` inside the minimal host."""
        result: dict[str, Any] = self.host(
            f"imports = [ {{ {MINIMAL} }} {{ services.intent-board = {{ {body} }}; }} ];"
        )
        return result


@pytest.fixture(scope="session")
def nix() -> Nix:
    if reason := missing():
        pytest.skip(f"THE NIXOS MODULE: {reason}")
    return Nix()


@pytest.fixture(scope="session")
def minimal(nix: Nix) -> dict[str, Any]:
    """Everything that the least host comes to."""
    result: dict[str, Any] = nix.host(MINIMAL)
    return result


@pytest.fixture(scope="session")
def refused() -> type[Refused]:
    return Refused


@pytest.fixture(scope="session")
def host(nix: Nix) -> Callable[[str], dict[str, Any]]:
    """The minimal host with `body` beside it."""
    return lambda body: nix.host(f"imports = [ {{ {MINIMAL} }} {{ {body} }} ];")  # type: ignore[no-any-return]


@pytest.fixture(scope="session")
def full() -> str:
    """The body of a host that sets every option."""
    text = (HERE / "full.nix").read_text()
    return text[text.index("\n{\n") + 3 : text.rindex("}")]


Faults = Callable[[str], str]


@pytest.fixture(scope="session")
def words(nix: Nix) -> Faults:
    """What a person reads who puts `body` into services.intent-board: nix's error, or the failed assertions."""

    def said(body: str) -> str:
        try:
            return "\n".join(nix.settings(body)["faults"])
        except Refused as error:
            return str(error)

    return said


def _file(path: Path, text: str, mode: int = 0o644) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)


@pytest.fixture(scope="session")
def make_tree(tmp_path_factory: pytest.TempPathFactory) -> Callable[[dict[str, str]], Path]:
    """A root directory with these units, stubs of their programs, and systemd's own units."""

    def make(units: dict[str, str]) -> Path:
        root = tmp_path_factory.mktemp("root")
        programs = {"/bin/true", "/usr/bin/true"}
        for name, text in units.items():
            _file(root / "etc/systemd/system" / name, text)
            lines = [line for line in text.splitlines() if line.startswith("ExecStart=")]
            programs |= {shlex.split(line.split("=", 1)[1])[0] for line in lines}
        for program in programs:
            _file(root / program.lstrip("/"), "#!/bin/sh\n", 0o755)
        upstream = root / "usr/lib/systemd/system"
        upstream.mkdir(parents=True)
        for unit in UPSTREAM.iterdir():
            if unit.is_file() and unit.suffix in {".target", ".slice", ".mount"}:
                shutil.copy(unit, upstream / unit.name, follow_symlinks=False)
        _file(upstream / "nix-daemon.socket", "[Socket]\nListenStream=/run/x\n")
        for name in ("nix-daemon.service", "systemd-tmpfiles-setup.service", "page@.service"):
            _file(upstream / name, "[Service]\nExecStart=/bin/true\n")
        return root

    return make


@pytest.fixture(scope="session")
def verify() -> Callable[[Path, Iterable[str]], list[str]]:
    """What `systemd-analyze verify` finds in a tree's units; a failure without a word is one too."""

    def said(tree: Path, units: Iterable[str]) -> list[str]:
        names = [name.replace("@.", "@example.") for name in units]
        command = ["systemd-analyze", "verify", f"--root={tree}", "--man=no", *names]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        version = subprocess.run(["systemd-analyze", "--version"], capture_output=True, text=True, check=True).stdout
        newer = {key for key, since in SINCE.items() if int(version.split()[1].split(".")[0]) < since}
        words = [line for line in done.stderr.splitlines() if not any(f"'{key}'" in line for key in newer)]
        return words or ["it failed"] * (done.returncode != 0)

    return said
