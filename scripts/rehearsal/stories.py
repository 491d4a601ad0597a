"""The stories: a family, a repair, and a handoff by somebody who is not the owner."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from story import Play, Story, on_branch, say

from intent_board.board.model import Kind, Phase
from intent_board.contracts import intent as document
from intent_board.store import Store

UNITS = """\
# Intent: Lengths and weights

## Goal

The converter also knows lengths (kilometres to metres, metres to centimetres) and weights (kilograms to grams).

## Scope

`lib/`, `tests/` and a new page `docs/units.md` that names every function of the library.

## Out of scope

The temperature functions stay as they are.

## Assumptions

Whole numbers are enough.

## Open risks

None known.

## Success criteria

- `sh check.sh` exits with 0.
- `docs/units.md` names every function of `lib/`.
"""
VOLUMES = """\
# Intent: Volumes

## Goal

The converter also knows volumes (litres to millilitres), and says so in the documentation.

## Scope

`lib/volume.sh`, its test, and `docs/volume.md`.

## Out of scope

Everything else.

## Assumptions

Whole numbers are enough.

## Open risks

None known.

## Success criteria

- `sh check.sh` exits with 0.
- `docs/volume.md` names the function.
"""
PRESSURE = VOLUMES.replace("Volumes", "Pressures").replace("volumes (litres to millilitres)", "pressures (bar to mbar)")
PRESSURE = PRESSURE.replace("volume", "pressure")
STRANGER = "eva"


# --- family ----------------------------------------------------------------------------------------------------


def act_family(play: Play, intent: Path) -> None:
    play.run("board", "submit", str(intent), "--slug", "units")
    play.until_phase("units", Phase.BEREIT)


def family_outcome(store: Store) -> dict[str, Any]:
    """What became of the family, as --json prints it."""
    parent, family = store.card("units"), store.family("units")
    children = [
        {"slug": c.slug, "phase": c.phase.value, "commit": c.commit, "attempts": c.attempts.get("builder", 0)}
        for c in family
        if c.kind is Kind.CHILD
    ]
    joined = next((c for c in family if c.kind is Kind.SYNTHESIS), None)
    synthesis = {"slug": joined.slug, "phase": joined.phase.value, "commit": joined.commit} if joined else None
    return {"parent": {"slug": "units", "phase": parent.phase.value}, "children": children, "synthesis": synthesis}


def family_faults(end: dict[str, Any], remote: Path, runtime: str) -> Iterator[str]:
    """What is not as it should be: by the board's word and by the remote's own."""
    if end["parent"]["phase"] != Phase.BEREIT:
        yield f"units stands in {end['parent']['phase']}"
    if runtime == "command" and len(end["children"]) != 3:
        yield f"there are {len(end['children'])} children instead of 3"
    if runtime == "command" and sorted(child["attempts"] for child in end["children"]) != [1, 1, 2]:
        yield "exactly one child was to need a second attempt"
    for card in [*end["children"], *([end["synthesis"]] if end["synthesis"] else [])]:
        yield from card_faults(card, remote)


def card_faults(card: dict[str, Any], remote: Path) -> Iterator[str]:
    if card["phase"] != Phase.BEREIT:
        yield f"{card['slug']} stands in {card['phase']}"
    elif not on_branch(remote, card["commit"]):
        yield f"{card['commit']} of {card['slug']} is not on the remote's branch"


# --- repair ----------------------------------------------------------------------------------------------------


def act_repair(play: Play, intent: Path) -> None:
    """The owner builds by hand; the review is negative; an Inspector recommends, the owner applies, a Fixer mends."""
    scope = ["--scope", "lib/volume.sh", "--scope", "tests/volume.sh", "--scope", "docs"]
    play.says("board", "build", str(intent), "--slug", "volumes", *scope)
    play.until_phase("volumes", Phase.PLANUNG_MIT_FEEDBACK)
    play.says("board", "inspect", "volumes", "--route")
    play.until("volumes", lambda card: play.store.pending_route(card.slug) is not None)
    say("\n$ board why volumes\n" + play.run("board", "why", "volumes"))
    route = play.store.pending_route("volumes")
    assert route is not None
    play.says("board", "route", "apply", "volumes", str(route["id"]))
    play.until_phase("volumes", Phase.BEREIT)


def one_outcome(store: Store, slug: str) -> dict[str, Any]:
    card = store.card(slug)
    reviews = [{"commit": review.commit, "decision": review.decision} for review in store.reviews(slug)]
    releases = [attachment.data["commit"] for attachment in store.attachments(slug, "release")]
    return {
        "card": {"slug": slug, "phase": card.phase.value, "commit": card.commit, "attempts": dict(card.attempts)},
        "requester": card.requester,
        "reviews": reviews,
        "releases": releases,
    }


def repair_faults(end: dict[str, Any], remote: Path, runtime: str) -> Iterator[str]:
    yield from card_faults(end["card"], remote)
    if end["card"]["attempts"].get("fixer") != 1:
        yield "exactly one Fixer was to run"
    decisions = [review["decision"] for review in end["reviews"]]
    if decisions != ["planung_mit_feedback", "bereit_fuer_deployment"]:
        yield f"the reviews came out as {json.dumps(decisions)}"
    elif end["reviews"][0]["commit"] == end["reviews"][1]["commit"]:
        yield "the second review was of the refused commit"


# --- handoff ---------------------------------------------------------------------------------------------------


def act_handoff(play: Play, intent: Path) -> None:
    """Somebody else hands an intent over.  Here she is named to the store directly, where on a host sudo names her."""
    text = intent.read_text()
    criteria = list(document.parse(text).criteria)
    say(f"({STRANGER} hands over pressures)")
    play.store.submit(
        slug="pressures",
        title="Pressures",
        intent=text,
        repository="units",
        requester=STRANGER,
        event="submit_by_other",
        data={"acceptance_criteria": criteria},
    )
    play.until_phase("pressures", Phase.STARTFREIGABE)
    play.says("board", "accept", "pressures")
    play.until_phase("pressures", Phase.COMMITFREIGABE)
    say("\n$ board why pressures\n" + play.run("board", "why", "pressures"))
    play.says("board", "release", "pressures")
    play.until_phase("pressures", Phase.BEREIT)


def handoff_faults(end: dict[str, Any], remote: Path, runtime: str) -> Iterator[str]:
    yield from card_faults(end["card"], remote)
    if end["requester"] != STRANGER:
        yield f"the requester is {end['requester']}"
    if end["releases"] != [end["card"]["commit"]]:
        yield "the published commit was not the released one"


STORIES = {
    "family": Story(
        slug="units",
        intent=UNITS,
        act=act_family,
        outcome=family_outcome,
        faults=family_faults,
        moral="The family is built, reviewed and on its branch.",
        for_models=True,
    ),
    "repair": Story(
        slug="volumes",
        intent=VOLUMES,
        act=act_repair,
        outcome=lambda store: one_outcome(store, "volumes"),
        faults=repair_faults,
        moral="The refused commit was repaired, reviewed afresh, and is on its branch.",
    ),
    "handoff": Story(
        slug="pressures",
        intent=PRESSURE,
        act=act_handoff,
        outcome=lambda store: one_outcome(store, "pressures"),
        faults=handoff_faults,
        moral="The foreign intent passed both gates on the owner's word, and is on its branch.",
    ),
}
