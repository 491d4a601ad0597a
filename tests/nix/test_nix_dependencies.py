"""The libraries: no lower bound is above what the pinned nixpkgs has, and everything that is imported is declared."""

from __future__ import annotations

import ast
import json
import re
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "package/pyproject.toml").read_text())["project"]

#: The revision of flake.lock, and for each library a version that nixpkgs had at that revision or before it: read in
#: pkgs/development/python-modules/NAME/default.nix (ruff: pkgs/by-name/ru/ruff/package.nix) of stored nixpkgs trees.
#: Versions in nixpkgs do not go down, so a bound that these meet is met by the pinned ones.
PINNED = "61b7c44c4073f0b827768aff0049561b5110ea5a"
NIXPKGS_HAS = {
    "alembic": "1.17.2",
    "apprise": "1.9.7",
    "click": "8.3.1",
    "hatchling": "1.28.0",
    "hypothesis": "6.136.9",
    "mypy": "1.17.1",
    "pathspec": "0.12.1",
    "pydantic": "2.12.4",
    "pytest": "8.4.1",
    "pytest-subprocess": "1.5.3",
    "rich": "13.9.4",
    "ruff": "0.14.0",
    "sqlalchemy": "2.0.43",
    "tomli-w": "1.2.0",
}


def bounds() -> dict[str, str]:
    """Library -> lower bound, of every list in pyproject.toml; `0` where none is given."""
    system = tomllib.loads((ROOT / "package/pyproject.toml").read_text())["build-system"]
    lines = [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["test"], *system["requires"]]
    return {name: lower or "0" for name, _, lower in (line.partition(">=") for line in lines)}


def numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def imported(folder: Path) -> set[str]:
    """The top-level modules that the Python files below a folder import."""
    found: set[str] = set()
    for path in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(), str(path))):
            if isinstance(node, ast.Import):
                found |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
                found.add(node.module.split(".")[0])
    return found


def test_no_bound_is_above_what_nixpkgs_has() -> None:
    assert json.loads((ROOT / "flake.lock").read_text())["nodes"]["nixpkgs"]["locked"]["rev"] == PINNED
    declared = bounds()
    assert set(declared) == set(NIXPKGS_HAS)
    above = {name: lower for name, lower in declared.items() if numbers(lower) > numbers(NIXPKGS_HAS[name])}
    assert above == {}


def test_the_tests_import_nothing_that_is_not_declared() -> None:
    """What only comes along with another library is missing where that one is older, and in the package's build."""
    distributions = packages_distributions()
    own = {path.stem for folder in ("tests", "scripts") for path in (ROOT / folder).rglob("*.py")}
    outer = imported(ROOT / "tests") - set(sys.stdlib_module_names) - own - {"intent_board"}
    named = {re.sub("[_.]", "-", name.lower()) for module in outer for name in distributions.get(module, [module])}
    assert named <= set(bounds())
    assert {"pytest", "hypothesis"} <= named


def test_the_package_is_built_with_what_is_declared(nix: Any) -> None:
    package = nix.json("import ./outputs.nix { }")["package"]
    tools = {"mypy", "ruff", "pytest"}  # the hook brings pytest; nobody lints while a package is built
    declared = set(bounds())
    assert declared - tools <= {*package["inputs"], *package["dependencies"]}


def test_the_package_finds_its_tests(nix: Any) -> None:
    """The build enters package/; from there pytest finds nothing, and finding nothing fails the build."""
    package = nix.json("import ./outputs.nix { }")["package"]
    assert package["sourceRoot"] == "source/package"
    assert package["preCheck"].split()[-2:] == ["cd", ".."]
    named = {flag.partition("=")[0]: flag.partition("=")[2] for flag in package["pytestFlags"]}
    for path in (*package["enabledTestPaths"], named["--rootdir"], named["--config-file"]):
        assert (ROOT / path).exists(), path
    assert (ROOT / named["--config-file"]).name == "pyproject.toml"
