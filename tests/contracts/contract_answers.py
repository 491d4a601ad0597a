"""Valid answers to start from; each test changes one thing."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from intent_board.contracts import Code, ContractError

PARENT = "parent"
HEAVY = {
    "recommended_lane": "schwer",
    "runtime": "codex",
    "model": "gpt-5.6-luna",
    "reasoning_effort": "none",
}
NO_PROFILE = dict.fromkeys(HEAVY)
INTENT = """# Intent: Der Druckserver ist nur im LAN erreichbar

## Ziel
Port 631 ist von außen zu.

## Umfang
- hosts/blunix/printing.nix

## Explizit Ausgeschlossenes
- der Router

## Annahmen
- CUPS läuft bereits

## Offene Risiken
- alte Treiber

## Erfolgskriterien
- `nix flake check` ist grün
- Drucken geht
"""


def rung(**changes: Any) -> dict[str, Any]:
    return {"model": "gpt-5.6-terra", "reasoning_effort": "medium", "iteration_limit": 20} | changes


def child(slug: str = "child", **changes: Any) -> dict[str, Any]:
    return {
        "slug": slug,
        "title": "Ein Teil",
        "wave": 1,
        "blocked_by": [],
        **HEAVY,
        "write_scope": [f"hosts/{slug}"],
        "acceptance_criteria": ["`nix flake check` ist grün"],
        "intent_markdown": INTENT,
        "escalation": [rung()],
    } | changes


def direct(**changes: Any) -> dict[str, Any]:
    return {
        "schema_version": 1,
        "decision": "direct_builder",
        "reason": "Eine Datei.",
        **HEAVY,
        "human_action": None,
        "escalation": [rung()],
        "children": [],
    } | changes


def split(*children: Any, **changes: Any) -> dict[str, Any]:
    return direct(decision="split", **NO_PROFILE, escalation=[], children=list(children) or [child()]) | changes


def needs_human(**changes: Any) -> dict[str, Any]:
    return direct(decision="needs_human", **NO_PROFILE, escalation=[], human_action="Welcher Host?") | changes


def without(table: dict[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in table.items() if name != key}


def answer(value: Any) -> str:
    """An Operator's answer around a value, or around a text as it is."""
    inner = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return f"===OPERATOR-DECISION===\n{inner}\n===END-OPERATOR-DECISION===\n"


def refusal(parse: Callable[[], object]) -> tuple[str, Code]:
    """The path and the code of the ContractError that `parse` raises; its text is one printable line."""
    with pytest.raises(ContractError) as caught:
        parse()
    error = caught.value
    assert str(error) == f"{error.path}: {error.reason}"
    assert str(error).isprintable(), ascii(str(error))
    assert error.path.startswith("$")
    assert isinstance(error.code, Code)
    return error.path, error.code
