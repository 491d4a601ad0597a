"""What people read: the options, the example host, the man page, and the script for one's own pane."""

from __future__ import annotations

import json
import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest

from intent_board import config

ROOT = Path(__file__).parents[2]


def test_the_options_document_is_not_stale(nix: Any) -> None:
    text = nix.json("import ../../nix/options-doc.nix { lib = import <nixpkgs/lib>; }")
    assert (ROOT / "docs/options.md").read_text() == text, "docs/options.md is stale; run scripts/options-doc"


def test_the_options_document_names_every_option_once(nix: Any) -> None:
    headings = re.findall(r"^### `(.*)`$", (ROOT / "docs/options.md").read_text(), flags=re.M)
    assert sorted(headings) == sorted(option["name"] for option in nix.host("", "options"))


def test_the_example_host_is_taken(nix: Any) -> None:
    said = nix.json("(import ./eval.nix { host = ../../examples/blunix.nix; }).all")
    assert said["faults"] == []
    assert said["warnings"] == []
    parsed = config.parse(said["settings"])
    assert {name: repository.branch for name, repository in parsed.repositories.items()} == {
        "nixos-config": "dev",
        "website": "dev",
        "calendar-web": "dev",
        "dashboard": "main",
        "launcher": "main",
    }
    assert set(parsed.lanes) == {"schwer", "leicht"}
    assert set(parsed.model_pools) == {"codex", "claude", "openrouter"}
    assert parsed.deploy.gate == "owner"
    assert parsed.repositories["nixos-config"].protected_paths


def test_the_host_in_the_readme_is_taken(nix: Any) -> None:
    page = (ROOT / "README.md").read_text()
    body = page[page.index("    services.intent-board = {") : page.index("An SSH remote is trusted")]
    assert nix.host(f"{body} users.users.lukas = {{ }};")["faults"] == []


def test_the_example_pushes_from_publish_units_alone(nix: Any) -> None:
    units = nix.json("(import ./eval.nix { host = ../../examples/blunix.nix; }).all")["units"]
    holders = {name for name, text in units.items() if "LoadCredential=forge-push-key:" in text}
    assert holders == {"intent-board-worker-publish-0.service"}


def test_the_lock_file_pins_the_one_input() -> None:
    nodes = json.loads((ROOT / "flake.lock").read_text())["nodes"]
    assert set(nodes) == {"root", "nixpkgs"}
    locked = nodes["nixpkgs"]["locked"]
    assert (locked["owner"], locked["repo"], locked["type"]) == ("NixOS", "nixpkgs", "github")
    assert re.fullmatch("[0-9a-f]{40}", locked["rev"])
    assert locked["narHash"].startswith("sha256-")


def test_the_nix_package_has_every_library_of_the_project() -> None:
    project = tomllib.loads((ROOT / "package/pyproject.toml").read_text())["project"]
    wanted = {re.match(r"[A-Za-z0-9-]+", line).group() for line in project["dependencies"]}  # type: ignore[union-attr]
    text = (ROOT / "package/default.nix").read_text()
    found = re.search(r"  dependencies = with python3Packages; \[\n(.*?)\n  \];", text, flags=re.S)
    assert found
    assert set(found.group(1).split()) == wanted


# --- /etc/scripts/close-my-pane.sh ----------------------------------------------------------------------------------


@pytest.fixture
def herdr(tmp_path: Path) -> Path:
    """A herdr that writes down what it was told."""
    program = tmp_path / "herdr"
    program.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > {tmp_path}/told\n')
    program.chmod(0o755)
    return program


def close(herdr: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [ROOT / "scripts/close-my-pane", *arguments],
        env={"PATH": f"{herdr.parent}:/usr/bin:/bin"} | environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_pane_closes_itself_whatever_it_is_told(herdr: Path) -> None:
    assert close(herdr, "w1:p2", "--all", HERDR_PANE_ID="w1:p1").returncode == 0
    assert (herdr.parent / "told").read_text().split() == ["pane", "close", "w1:p1"]


@pytest.mark.parametrize("identity", [None, "", "-a", "--help", "w1 w2", "w1;id", "w1\nw2", "../x"])
def test_without_a_pane_of_its_own_nothing_is_closed(herdr: Path, identity: str | None) -> None:
    done = close(herdr, "w1:p1", **({} if identity is None else {"HERDR_PANE_ID": identity}))
    assert done.returncode == 1
    assert "HERDR_PANE_ID" in done.stderr
    assert not (herdr.parent / "told").exists()


def test_the_script_is_where_people_look_for_it(minimal: dict[str, Any]) -> None:
    assert minimal["etc"]["scripts/close-my-pane.sh"].endswith("close-my-pane")


# --- tests/boot -----------------------------------------------------------------------------------------------------


def test_the_host_that_is_booted_is_what_the_module_makes(nix: Any) -> None:
    made = nix.json("(import ./eval.nix { host = ../boot/host.nix; }).boot")
    assert made["faults"] == []
    assert json.loads((ROOT / "tests/boot/host.json").read_text()) == made, "host.json is stale; run tests/boot/render"
