#!/usr/bin/env python3
"""A scripted agent for `scripts/rehearse`: reads an order on stdin, works in the current directory, answers on stdout.

It stands where Codex or Claude Code would stand: a program of its own in its own sandbox that knows nothing but its
order and its tree.  What it writes is scripted; that it edits files, runs the repository's checks, runs out of steps,
and is judged by the board's own code is not.  Standard library only, since a sandbox shows it nothing else.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

#: Long enough that a person sees the lanes work side by side, short enough not to wait for.
STEP_SECONDS = float(os.environ.get("REHEARSAL_STEP_SECONDS", "0.3"))

LENGTH = """\
# Lengths.  Each function takes one number and prints the converted one.

km_to_m() {
    echo "$(($1 * 1000))"
}
"""
LENGTH_REST = """
m_to_cm() {
    echo "$(($1 * 100))"
}
"""
LENGTH_TEST = """\
. lib/length.sh
[ "$(km_to_m 3)" = 3000 ] || { echo "km_to_m 3 is wrong"; exit 1; }
[ "$(m_to_cm 7)" = 700 ] || { echo "m_to_cm 7 is wrong"; exit 1; }
"""
VOLUME = """\
# Volumes.  Each function takes one number and prints the converted one.

l_to_ml() {
    echo "$(($1 * 1000))"
}
"""
VOLUME_TEST = """\
. lib/volume.sh
[ "$(l_to_ml 2)" = 2000 ] || { echo "l_to_ml 2 is wrong"; exit 1; }
"""
PRESSURE = """\
# Pressures.  Each function takes one number and prints the converted one.

bar_to_mbar() {
    echo "$(($1 * 1000))"
}
"""
WEIGHT = """\
# Weights.  Each function takes one number and prints the converted one.

kg_to_g() {
    echo "$(($1 * 1000))"
}
"""
WEIGHT_TEST = """\
. lib/weight.sh
[ "$(kg_to_g 2)" = 2000 ] || { echo "kg_to_g 2 is wrong"; exit 1; }
"""


class Order:
    """The order's facts and its blocks of data, by label."""

    def __init__(self, text: str) -> None:
        found = re.search(r"^<<<FACTS (\w+)\n(.*?)\n\1 FACTS>>>$", text, re.M | re.S)
        if found is None:
            raise SystemExit("the order has no facts")
        self.facts = json.loads(found[2])
        blocks = re.findall(rf"^([^\n]+):\n\n<<<DATA {found[1]}\n(.*?)\n{found[1]} DATA>>>$", text, re.M | re.S)
        self.data: dict[str, str] = dict(blocks)


def step(text: str) -> None:
    """One model step, as an agent program would report it."""
    print(json.dumps({"type": "step"}), flush=True)
    print(json.dumps({"type": "text", "text": text}), flush=True)
    time.sleep(STEP_SECONDS)


def answer(marker: str, value: Mapping[str, object], end: str = "") -> None:
    text = f"==={marker}===\n{json.dumps(value)}\n==={end or f'END-{marker}'}==="
    print(json.dumps({"type": "final", "text": text}))


def report(done: list[str], still_open: list[str], following: str) -> None:
    """Keep the interim report up to date."""
    Path(os.environ["INTENT_BOARD_REPORT"]).write_text(
        json.dumps({"done": done, "open": still_open, "next": following})
    )


def write(path: str, text: str) -> None:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(text)


def check() -> bool:
    return subprocess.run(["sh", "check.sh"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0


#: The cards that one session can do; any other is split.
DIRECT = frozenset({"volumes", "pressures"})


# --- Operator --------------------------------------------------------------------------------------------------


def operator(order: Order) -> None:
    step("Looking at the repository: " + ", ".join(sorted(path.name for path in Path().iterdir())))
    parent, lanes = order.facts["card"], order.facts["lanes"]
    heavy, light = next(iter(lanes)), list(lanes)[-1]
    if parent in DIRECT:
        direct(order, heavy)
        return
    ladder = [{"model": order.facts["model_pools"][lanes[heavy]["runtime"]][-1], "reasoning_effort": None,
               "iteration_limit": 12}]  # fmt: skip
    children = [
        child(f"{parent}-length", "Lengths", 1, [], heavy, lanes, ladder, ["lib/length.sh", "tests/length.sh"],
              ["`lib/length.sh` converts kilometres to metres and metres to centimetres.",
               "`tests/length.sh` tests both.", "`sh check.sh` exits with 0."]),
        child(f"{parent}-weight", "Weights", 1, [], light, lanes, [], ["lib/weight.sh", "tests/weight.sh"],
              ["`lib/weight.sh` converts kilograms to grams.", "`tests/weight.sh` tests it.",
               "`sh check.sh` exits with 0."]),
        child(f"{parent}-docs", "Describe the units", 2, [f"{parent}-length", f"{parent}-weight"], light, lanes, [],
              ["docs"], ["`docs/units.md` names every function of `lib`."]),
    ]  # fmt: skip
    step("Lengths and weights share no file; the description needs both.")
    reason = "Lengths and weights are independent of each other and share no file; the description needs both."
    decision = dict.fromkeys(["recommended_lane", "runtime", "model", "reasoning_effort", "human_action"])
    answer("OPERATOR-DECISION", {"schema_version": 1, "decision": "split", "reason": reason, **decision,
                                 "escalation": [], "children": children})  # fmt: skip


def direct(order: Order, lane: str) -> None:
    """One session can do it."""
    profile = {key: order.facts["lanes"][lane][key] for key in ("runtime", "model", "reasoning_effort")}
    step("One file with its test and a page: one session is enough.")
    answer("OPERATOR-DECISION", {"schema_version": 1, "decision": "direct_builder", "recommended_lane": lane,
                                 "reason": "One file with its test and a page: one session is enough.",
                                 "human_action": None, "escalation": [], "children": [], **profile})  # fmt: skip


def child(
    slug: str, title: str, wave: int, blocked_by: list[str], lane: str, lanes: dict[str, dict[str, object]],
    ladder: list[dict[str, object]], scope: list[str], criteria: list[str],
) -> dict[str, object]:  # fmt: skip
    bullets = "\n".join(f"- {one}" for one in criteria)
    intent = (
        f"# Intent: {title}\n\n## Goal\n\n{title} for the unit converter, one function per conversion.\n\n"
        f"## Scope\n\n{', '.join(scope)}\n\n## Out of scope\n\nEverything else.\n\n## Assumptions\n\nWhole numbers "
        f"are enough.\n\n## Open risks\n\nNone known.\n\n## Success criteria\n\n{bullets}\n"
    )
    profile = {key: lanes[lane][key] for key in ("runtime", "model", "reasoning_effort")}
    return {
        "slug": slug,
        "title": title,
        "wave": wave,
        "blocked_by": blocked_by,
        "recommended_lane": lane,
        **profile,
        "write_scope": scope,
        "acceptance_criteria": criteria,
        "intent_markdown": intent,
        "escalation": ladder,
    }


# --- Builder ---------------------------------------------------------------------------------------------------


def builder(order: Order) -> None:
    slug = order.facts["card"]
    work = next(work for ending, work in WORK.items() if slug.endswith(ending))
    summary = ""
    for summary in work(order):
        step(summary)
    tests = [{"command": "sh check.sh", "result": "passed" if check() else "failed"}]
    result = {"schema_version": 1, "outcome": "done", "summary": summary, "question": None, "tests": tests}
    answer("BUILD-RESULT", result)


def length(order: Order) -> Iterator[str]:
    """Too much for the lane's limit, as real work sometimes is: only a session on the ladder gets to the end."""
    if order.facts["attempt"] == 1:
        yield "Reading lib/temperature.sh for the house style."
        write("lib/length.sh", LENGTH)
        report(["km_to_m"], ["m_to_cm", "the test"], "write m_to_cm into lib/length.sh")
        yield "km_to_m is in lib/length.sh; the rest needs more thought."
        while True:
            yield "Thinking about rounding of centimetres."
    yield "Going on from the report of the attempt before: m_to_cm and the test are open."
    write("lib/length.sh", LENGTH + LENGTH_REST)
    write("tests/length.sh", LENGTH_TEST)
    report(["km_to_m", "m_to_cm", "the test"], [], "answer")
    yield "Adds km_to_m and m_to_cm in lib/length.sh, with tests in tests/length.sh."


def weight(order: Order) -> Iterator[str]:
    yield "Reading lib/temperature.sh for the house style."
    write("lib/weight.sh", WEIGHT)
    yield "kg_to_g is in lib/weight.sh."
    write("tests/weight.sh", WEIGHT_TEST)
    report(["kg_to_g", "the test"], [], "answer")
    yield "Adds kg_to_g in lib/weight.sh, with a test in tests/weight.sh."


def docs(order: Order) -> Iterator[str]:
    names = [name for file in sorted(Path("lib").glob("*.sh")) for name in functions(file)]
    yield f"The library has {', '.join(names)}."
    write("docs/units.md", "# Units\n\n" + "".join(f"- `{name}`\n" for name in names))
    yield "Lists every function of the library in docs/units.md."


def synthesis(order: Order) -> Iterator[str]:
    yield "Lengths, weights and their description are all on the branch; the checks pass: " + str(check())
    page = Path("docs/units.md")
    page.write_text(page.read_text() + "\nLoad what you need: `. lib/length.sh; . lib/weight.sh; kg_to_g 2`.\n")
    yield "Shows in docs/units.md how the parts are used together."


def volumes(order: Order) -> Iterator[str]:
    """Forgets the page that the intent asks for, as real work sometimes does."""
    write("lib/volume.sh", VOLUME)
    write("tests/volume.sh", VOLUME_TEST)
    yield "Adds l_to_ml in lib/volume.sh, with a test in tests/volume.sh."


def pressures(order: Order) -> Iterator[str]:
    write("lib/pressure.sh", PRESSURE)
    write("docs/pressure.md", "# Pressures\n\n- `bar_to_mbar`\n")
    yield "Adds bar_to_mbar in lib/pressure.sh, described in docs/pressure.md."


def functions(file: Path) -> list[str]:
    return re.findall(r"^(\w+)\(\)", file.read_text(), re.M)


WORK = {
    "-length": length,
    "-weight": weight,
    "-docs": docs,
    "-synthese": synthesis,
    "volumes": volumes,
    "pressures": pressures,
}


# --- Reviewer --------------------------------------------------------------------------------------------------


def reviewer(order: Order) -> None:
    facts = order.facts
    step(f"Reading the diff of {facts['commit'][:12]}.")
    criteria = [judged(one["index"], one["text"]) for one in json.loads(order.data["Acceptance criteria"])]
    step("Going through the acceptance criteria.")
    unmet = [one for one in criteria if not one["met"]]
    findings = [{"severity": "blocker", "path": None, "text": one["reason"]} for one in unmet]
    decision = "planung_mit_feedback" if findings else "bereit_fuer_deployment"
    answer("REVIEW-REPORT", {"schema_version": 1, "decision": decision, "commit_hash": facts["commit"],
                             "nonce": facts["nonce"], "summary": "Read the diff and looked at every criterion.",
                             "findings": findings, "criteria": criteria})  # fmt: skip


def judged(index: int, criterion: str) -> dict[str, object]:
    """A criterion is met when the files it names are there and the commands it names come out 0."""
    for name in re.findall(r"`([^`]+)`", criterion):
        if name.startswith("sh ") and subprocess.run(name.split(), stdout=subprocess.DEVNULL).returncode != 0:
            return {"index": index, "met": False, "reason": f"{name} does not exit with 0"}
        if "/" in name and not Path(name).exists():
            return {"index": index, "met": False, "reason": f"{name} is not in the commit"}
    return {"index": index, "met": True, "reason": "seen in the checkout of this commit"}


# --- Inspector and Fixer ---------------------------------------------------------------------------------------


def inspector(order: Order) -> None:
    step("Reading the negative review.")
    reason = "The review names one missing page; the rest is good, so a small repair is enough."
    routing = {"schema_version": 1, "recommendation": "repair", "reason": reason, "lane": None, "question": None}
    answer("ROUTING_RESULT", routing, end="END_ROUTING_RESULT")


def fixer(order: Order) -> None:
    step("The review is right: docs/volume.md is missing.")
    write("docs/volume.md", "# Volumes\n\n- `l_to_ml`\n")
    git("add", "docs/volume.md")
    git("commit", "--quiet", "-m", "Describe the volumes")
    git("push", "--quiet", order.facts["quarantine"], f"HEAD:refs/heads/{order.facts['branch']}")
    result = {"schema_version": 1, "outcome": "repaired", "summary": "Adds the missing page docs/volume.md.",
              "commit_hash": git("rev-parse", "HEAD"), "pushed_branch": order.facts["branch"],
              "tests": [{"command": "sh check.sh", "result": "passed" if check() else "failed"}], "question": None,
              "required_action": None, "review_required": True, "failure": None}  # fmt: skip
    answer("FIX_RESULT", result, end="END_FIX_RESULT")


def git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], capture_output=True, text=True, check=True).stdout.strip()


ROLES = {"operator": operator, "builder": builder, "reviewer": reviewer, "inspector": inspector, "fixer": fixer}

if __name__ == "__main__":
    given = Order(sys.stdin.read())
    ROLES[given.facts["role"]](given)
