"""What the documents tell a stranger to type, open or call is there."""

from __future__ import annotations

import importlib
import inspect
import re
import shlex
from pathlib import Path

import click
import pytest

from intent_board.cli import board, deploy, operator, scheduler, worker

ROOT = Path(__file__).parents[2]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
PROGRAMS = {
    "board": board.main,
    "board-deploy": deploy.main,
    "board-operator": operator.main,
    "board-scheduler": scheduler.main,
    "board-worker": worker.main,
}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_link_leads_somewhere(document: Path) -> None:
    links = re.findall(r"\]\(([^)#]+)", document.read_text())
    assert [link for link in links if "://" not in link and not (document.parent / link).exists()] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_command_line_can_be_typed(document: Path) -> None:
    shown = re.findall(r"^    (board(?:-[a-z]+)? .*)$", document.read_text(), re.M)
    parts = [part.split("  ")[0] for one in shown if "─>" not in one for part in re.split(r"; +", one)]
    for line in [part for part in parts if part.split()[0] in PROGRAMS]:
        assert unknown(shlex.split(line, comments=True)) == [], line


def unknown(words: list[str]) -> list[str]:
    """The command or the options of a command line that do not exist."""
    command: click.Command = PROGRAMS[words[0]]
    rest = words[1:]
    while isinstance(command, click.Group):
        names = [word for word in rest if not word.startswith("-")]
        if not names or names[0] == "COMMAND":
            return []
        found = command.get_command(click.Context(command), names[0])
        if found is None:
            return names[:1]
        command, rest = found, rest[rest.index(names[0]) + 1 :]
    known = {"--help", *(name for option in command.params for name in option.opts)}
    return [word for word in rest if word.startswith("--") and word not in known]


def test_every_signature_of_the_architecture_exists() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text().split("```python\n")[1].split("```")[0]
    faults, module, owner = [], None, None
    for line in text.splitlines():
        if found := re.match(r"# intent_board/([\w/<>]+)\.py\b", line):
            name = found[1].replace("<role>", "operator").replace("/", ".").removesuffix(".__init__")
            module = importlib.import_module(f"intent_board.{name}")
        elif found := re.match(r"( *)(class|def) (\w+)(?:\((.*?)\)(?: ->|:| *#|$))?", line):
            indent, kind, name, parameters = found.groups()
            place = owner if indent else module
            thing = getattr(place, name, None)
            owner = thing if kind == "class" else owner
            if thing is None:
                faults.append(line.strip())
            elif kind == "def":
                said = {word.split(":")[0].split("=")[0].strip() for word in split(parameters or "")}
                faults += [f"{name}: {one}" for one in said - {*inspect.signature(thing).parameters, "*", "...", ""}]
    assert faults == []


def split(parameters: str) -> list[str]:
    """At the commas outside of brackets."""
    return re.split(r",\s*(?![^\[(]*[\])])", parameters)
