#!/usr/bin/env python3
"""The machine's agent: the rehearsal's, and for some cards one that only takes its time.

`fast-…` an Operator that answers without reading, `slow-…` a Builder that works for some seconds.
"""

from __future__ import annotations

import sys
import time

import agent


def operator(order: agent.Order) -> None:
    time.sleep(1)  # to be seen by who measures when it began
    empty = dict.fromkeys(["recommended_lane", "runtime", "model", "reasoning_effort"])
    decision = {"schema_version": 1, "decision": "needs_human", "reason": "Only to see how fast this is.", **empty,
                "human_action": "Put it away.", "escalation": [], "children": []}  # fmt: skip
    agent.answer("OPERATOR-DECISION", decision)


def builder(order: agent.Order) -> None:
    agent.step("This will take a while.")
    for _ in range(40):
        time.sleep(0.1)
    path = f"lib/{order.facts['card']}.sh"
    agent.write(path, "# Slowly made.\n")
    result = {"schema_version": 1, "outcome": "done", "summary": f"Makes {path}.", "question": None, "tests": []}
    agent.answer("BUILD-RESULT", result)


if __name__ == "__main__":
    given = agent.Order(sys.stdin.read())
    role, card = given.facts["role"], given.facts["card"]
    own = {("operator", "fast"): operator, ("builder", "slow"): builder}
    usual = {"operator": agent.operator, "builder": agent.builder, "reviewer": agent.reviewer}
    own.get((role, card.split("-")[0]), usual[role])(given)
