"""The agent of these tests: does as little as a real one could, as fast as it can.  Standard library only."""

from __future__ import annotations

import json
import re
import sys
import time
from pathlib import Path
from typing import Any


def say(**line: Any) -> None:
    print(json.dumps(line), flush=True)


def answer(marker: str, end: str, value: dict[str, Any]) -> None:
    say(type="final", text=f"==={marker}===\n{json.dumps(value)}\n==={end}===")


def child(slug: str, lane: str, facts: dict[str, Any], scope: str, blocked_by: list[str]) -> dict[str, Any]:
    profile = {key: facts["lanes"][lane][key] for key in ("runtime", "model", "reasoning_effort")}
    return {
        "slug": slug, "title": slug, "wave": 2 if blocked_by else 1, "blocked_by": blocked_by,
        "recommended_lane": lane, **profile, "write_scope": [scope], "acceptance_criteria": ["it is there"],
        "intent_markdown": f"# Intent: {slug}\n\n## Goal\n\nWrite {scope}.\n", "escalation": [],
    }  # fmt: skip


def operator(facts: dict[str, Any]) -> None:
    common = {"schema_version": 1, "reason": "as scripted", "human_action": None}
    if facts["card"] != "family":
        profile = {key: facts["lanes"]["schwer"][key] for key in ("runtime", "model", "reasoning_effort")}
        decision = {"decision": "direct_builder", "recommended_lane": "schwer", **profile, "children": []}
    else:
        none = dict.fromkeys(["recommended_lane", "runtime", "model", "reasoning_effort"])
        children = [child("one", "schwer", facts, "one.txt", []), child("two", "leicht", facts, "two.txt", ["one"])]
        decision = {"decision": "split", **none, "children": children}
    answer("OPERATOR-DECISION", "END-OPERATOR-DECISION", {**common, **decision})


def builder(facts: dict[str, Any]) -> None:
    slug = facts["card"]
    # By the attempt, not by the tree: an interrupted run goes on in its tree and must meet the limit all the same.
    if slug == "slow" and facts["attempt"] == 1:
        Path("slow.txt").write_text("half\n")
        while True:
            say(type="step")
            time.sleep(0.01)
    if slug == "asleep":
        Path("asleep.txt").write_text("begun\n")
        time.sleep(600)
    if facts["kind"] != "synthesis":
        Path(f"{slug}.txt").write_text("whole\n")
    result = {"schema_version": 1, "outcome": "done", "summary": "Wrote it.", "question": None, "tests": []}
    answer("BUILD-RESULT", "END-BUILD-RESULT", result)


def reviewer(facts: dict[str, Any], text: str) -> None:
    block = re.search(r"^Acceptance criteria:\n\n<<<DATA (\w+)\n(.*?)\n\1 DATA>>>$", text, re.M | re.S)
    criteria = json.loads(block[2]) if block else []
    met = [{"index": one["index"], "met": True, "reason": "seen"} for one in criteria]
    report = {"schema_version": 1, "decision": "bereit_fuer_deployment", "commit_hash": facts["commit"]}
    report |= {"nonce": facts["nonce"], "summary": "Good.", "findings": [], "criteria": met}
    answer("REVIEW-REPORT", "END-REVIEW-REPORT", report)


def main() -> None:
    text = sys.stdin.read()
    found = re.search(r"^<<<FACTS (\w+)\n(.*?)\n\1 FACTS>>>$", text, re.M | re.S)
    assert found is not None
    facts = json.loads(found[2])
    say(type="step")
    if facts["role"] == "operator":
        operator(facts)
    elif facts["role"] == "builder":
        builder(facts)
    else:
        reviewer(facts, text)


if __name__ == "__main__":
    main()
