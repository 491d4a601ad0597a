"""What it costs to judge an Operator's answer."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from benchmarks.measure import Figure, interleaved, times_of
from intent_board.config import BoardConfig, example
from intent_board.contracts.operator import BEGIN, END, parse_decision

INTENT = "# Intent: {slug}\n\n" + "\n\n".join(
    f"## {section}\n- what there is to say about it, in a sentence of an ordinary length\n- and another one"
    for section in ("Ziel", "Umfang", "Explizit Ausgeschlossenes", "Annahmen", "Offene Risiken", "Erfolgskriterien")
)


def answer(config: BoardConfig, children: int, paths: int) -> tuple[str, str]:
    """A split's block and the JSON in it."""
    lane = config.lanes["schwer"]
    profile = {
        "recommended_lane": "schwer",
        "runtime": lane.runtime,
        "model": lane.model,
        "reasoning_effort": lane.reasoning_effort,
    }
    decision: dict[str, Any] = {
        "schema_version": 1,
        "decision": "split",
        "reason": "Several hosts, one part each.",
        **dict.fromkeys(profile),
        "human_action": None,
        "escalation": [],
        "children": [
            {
                "slug": f"part-{number}",
                "title": f"Part {number}",
                "wave": 1,
                "blocked_by": [],
                **profile,
                "write_scope": [f"hosts/host-{number}/modules/part-{path}.nix" for path in range(paths)],
                "acceptance_criteria": ["`nix flake check` passes", "the unit starts"],
                "intent_markdown": INTENT.format(slug=f"part-{number}"),
                "escalation": [{"model": "gpt-5.6-terra", "reasoning_effort": "medium", "iteration_limit": 20}],
            }
            for number in range(children)
        ],
    }
    # Models indent what people may read, and so do the role's own examples.
    text = json.dumps(decision, ensure_ascii=False, indent=2)
    return f"Here is my decision.\n{BEGIN}\n{text}\n{END}\n", text


def figures() -> Iterator[Figure]:
    config = example()
    response, text = answer(config, 10, 2)
    parse, load = interleaved(
        times_of(lambda: parse_decision(response, parent_slug="parent", config=config), 50),
        times_of(lambda: json.loads(text), 50),
        rounds=40,
        pick=min,
    )
    note = f"{parse / 50 * 1e6:.0f} µs and {load / 50 * 1e6:.0f} µs for {len(text)} bytes"
    yield Figure("decision of 10 children with 2 paths / json.loads", parse / load, 5, "x", note)
    response, _ = answer(config, 10, 100)
    (large,) = interleaved(lambda: parse_decision(response, parent_slug="parent", config=config), rounds=20)
    yield Figure("decision of 10 children with 100 paths", large * 1e3, 10, "ms")
