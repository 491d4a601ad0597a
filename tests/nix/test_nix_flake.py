"""flake.nix: what it offers, and that it can be checked offline with a nixpkgs that is only a lib."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest

from intent_board import config

ROOT = Path(__file__).parents[2]
SYSTEMS = ["aarch64-linux", "x86_64-linux"]


@pytest.fixture(scope="module")
def outputs(nix: Any) -> dict[str, Any]:
    """The outputs, with the real lib and fake packages."""
    result: dict[str, Any] = nix.json("import ./outputs.nix { }")
    return result


def test_every_output_is_there_for_both_systems(outputs: dict[str, Any]) -> None:
    assert set(outputs["systems"]) == {"apps", "checks", "devShells", "formatter", "packages"}
    assert all(systems == SYSTEMS for systems in outputs["systems"].values())
    assert outputs["modules"] == ["default", "intent-board"]
    assert outputs["overlay"] == "intent-board"
    assert {"package", "vm", "example", "options-doc"} <= set(outputs["checks"])
    assert outputs["apps"]["default"].endswith("/bin/board")


def test_the_package_is_the_project(outputs: dict[str, Any]) -> None:
    project = tomllib.loads((ROOT / "package/pyproject.toml").read_text())["project"]
    assert (outputs["package"]["pname"], outputs["package"]["version"]) == (project["name"], project["version"])
    assert {"pytestCheckHook", "installShellFiles", "bubblewrap", "git"} <= set(outputs["package"]["inputs"])


def test_what_the_package_installs_is_made_by_the_program(outputs: dict[str, Any]) -> None:
    assert re.findall(r"bin/board (\w+)", outputs["package"]["postInstall"]) == ["man", *3 * ["completion"]]
    assert re.findall(r"board completion (\w+)", outputs["package"]["postInstall"]) == ["bash", "zsh", "fish"]


def test_the_shell_has_what_the_scripts_need(outputs: dict[str, Any]) -> None:
    assert {"bubblewrap", "git", "python3-with-packages"} <= set(outputs["shell"])


def test_the_vm_test_can_be_evaluated(outputs: dict[str, Any]) -> None:
    """It needs a machine with KVM and all of nixpkgs to run; what it declares is looked at here."""
    vm = outputs["vm"]
    assert vm["faults"] == []
    assert vm["warnings"] == []
    parsed = config.parse(vm["settings"])
    assert parsed.lanes["schwer"].runtime == "scripted"
    assert "intent-board-worker-publish-0.service" in vm["units"]
    ast.parse(vm["testScript"])
    assert "crash()" in vm["testScript"]


@pytest.mark.skipif(shutil.which("git") is None, reason="no git on PATH")
def test_nix_flake_check_works_offline_with_only_a_lib(nix: Any, tmp_path: Path) -> None:
    """As a user would call it: evaluated, and the checks that need no packages built, in a store of its own."""
    lib = nix.json("toString <nixpkgs>")
    environment = os.environ | {
        "NIX_CONFIG": "experimental-features = nix-command flakes\nsandbox = false\nbuild-users-group =\n",
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "safe.directory",
        "GIT_CONFIG_VALUE_0": "*",
    }
    for name in ("STORE", "STATE", "LOG", "LOCALSTATE"):
        environment[f"NIX_{name}_DIR"] = str(tmp_path / "nix" / name.lower())
    command = ["nix", "flake", "check", "--offline", "--no-update-lock-file", "--override-input", "nixpkgs"]
    done = subprocess.run(
        [*command, f"path:{lib}", f"git+file://{ROOT}"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert "has no packages, so packages.x86_64-linux is left out" in done.stderr
    assert "intent-board-example" in done.stderr
    shown = subprocess.run(
        ["nix", "flake", "show", *command[3:], f"path:{lib}", f"git+file://{ROOT}"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert shown.returncode == 0, shown.stderr
    assert "intent-board-options-doc" in shown.stdout
