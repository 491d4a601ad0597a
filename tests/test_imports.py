"""Rooms import one way, from cli to config: LAYERS has the order."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import intent_board

SOURCE = Path(intent_board.__file__).parent
#: From the outermost room to the innermost; a room may import itself and what stands to its right.
LAYERS = (
    {"cli"},
    {"roles", "deploy", "notify"},
    {"store", "runtimes", "workspace"},
    {"sandbox"},
    {"board"},
    {"contracts"},
    {"config"},
    {"boundaries"},
)
DEPTH = {room: depth for depth, layer in enumerate(LAYERS) for room in layer}
PURE = {"board", "contracts"}
#: What reaches a file, a process, the network or a clock; `time` and `datetime` come in as values.
IMPURE = {"os", "subprocess", "socket", "sqlite3", "sqlalchemy", "shutil", "tempfile", "time", "random", "pathlib"}
ALLOWED = {"pydantic", "click", "tomli_w", "sqlalchemy", "alembic", "rich", "pathspec", "apprise", "intent_board"}
MODULES = sorted(SOURCE.rglob("*.py"))


def imported(path: Path) -> Iterator[str]:
    """Every dotted module that a file imports, wherever in the file the import stands."""
    package = path.relative_to(SOURCE.parent).with_suffix("").parts[:-1]
    for node in ast.walk(ast.parse(path.read_text(), str(path))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            start = package[: len(package) - node.level + 1] if node.level else ()
            base = ".".join((*start, node.module) if node.module else start)
            yield base
            # `from intent_board import store` names the room only here.
            yield from (f"{base}.{alias.name}" for alias in node.names)


def room(module: str) -> str | None:
    parts = module.split(".")
    return parts[1] if len(parts) > 1 and parts[0] == "intent_board" and parts[1] in DEPTH else None


def name(path: Path) -> str:
    return ".".join(path.relative_to(SOURCE.parent).with_suffix("").parts).removesuffix(".__init__")


def faults_of_direction(path: Path) -> list[str]:
    own = room(name(path))
    if own is None:
        return []
    reached = {module: room(module) for module in imported(path)}
    return [
        f"{name(path)} imports {module}"
        for module, other in reached.items()
        if other is not None and other != own and DEPTH[other] <= DEPTH[own]
    ]


def test_there_are_modules_in_every_room_that_is_named() -> None:
    assert {"config", "board"} <= {room(name(path)) for path in MODULES}


@pytest.mark.parametrize("path", MODULES, ids=name)
def test_a_module_belongs_to_a_known_room(path: Path) -> None:
    assert name(path) == "intent_board" or room(name(path)) is not None, "a new room needs its place in LAYERS"


@pytest.mark.parametrize("path", MODULES, ids=name)
def test_imports_go_one_way(path: Path) -> None:
    assert faults_of_direction(path) == []


@pytest.mark.parametrize("path", [p for p in MODULES if room(name(p)) in PURE], ids=name)
def test_the_rules_and_the_contracts_reach_nothing_outside(path: Path) -> None:
    assert {module.split(".")[0] for module in imported(path)} & IMPURE == set()


@pytest.mark.parametrize("path", MODULES, ids=name)
def test_only_the_agreed_libraries_are_used(path: Path) -> None:
    outside = {module.split(".")[0] for module in imported(path)} - set(sys.stdlib_module_names) - ALLOWED
    assert outside == set()


def test_no_module_needs_itself_to_be_loaded() -> None:
    needs = {name(path): set(loaded(path)) for path in MODULES}
    while free := [module for module, others in needs.items() if not others & needs.keys() - {module}]:
        for module in free:
            del needs[module]
    assert sorted(needs) == []


def loaded(path: Path) -> Iterator[str]:
    """The modules of ours that are loaded with this one: imports inside of functions and for types come later."""
    for node in ast.parse(path.read_text(), str(path)).body:
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("intent_board"):
            inner = {f"{node.module}.{alias.name}" for alias in node.names}
            # A package's __init__ that names its own submodules needs those, not itself.
            yield from inner & {name(other) for other in MODULES} or {node.module}


@pytest.mark.parametrize(
    ("room_name", "text"),
    [
        ("board", "from intent_board.store import open_store"),
        ("board", "def f():\n    import intent_board.roles.builder"),
        ("contracts", "from intent_board import board"),
        ("contracts", "from ..board.model import Card"),
        ("store", "from intent_board import workspace"),
        ("roles", "from intent_board.deploy import health"),
    ],
)
def test_a_wrong_import_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, room_name: str, text: str) -> None:
    source = tmp_path / "intent_board"
    (source / room_name).mkdir(parents=True)
    (source / room_name / "wrong.py").write_text(text)
    monkeypatch.setattr(sys.modules[__name__], "SOURCE", source)
    assert len(faults_of_direction(source / room_name / "wrong.py")) >= 1
