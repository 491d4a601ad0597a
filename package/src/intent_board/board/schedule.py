"""Which cards move at a tick: families, places in line, dispatch over the lanes.

`plan` is a pure function of one snapshot.  Lanes are first-in first-out by `line`.  A card that can't go now keeps
its write scope reserved against everybody behind it in the same repository, in whichever lane, so that a stream
of new cards can never starve it; a card whose scope meets nobody's may pass.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from intent_board.board.model import PARKED, Effect, Family, Happen, Member, Phase, Snapshot, Waiting
from intent_board.config import BoardConfig
from intent_board.contracts.scope import overlaps


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the tick says of one waiting card: it goes, or the one reason why not."""

    slug: str
    goes: bool
    reason: str = ""
    fault: bool = False


def plan(snapshot: Snapshot, now: float) -> list[Effect]:
    """What a tick does: `Happen` effects, each a transaction of its own, in the order to carry them out.

    `now` is epoch seconds; nothing here depends on it, so a clock that jumps changes no decision.
    """
    effects: list[Effect] = []
    for family in snapshot.families:
        effects += _family(family)
    effects += [Happen(card.slug, "ready") for card in snapshot.waiting if card.line is None and _is_ready(card)]
    for verdict in verdicts(snapshot):
        if verdict.fault:
            effects.append(Happen(verdict.slug, "fault", {"reason": verdict.reason}))
        elif verdict.goes:
            effects.append(Happen(verdict.slug, "dispatch"))
    return effects


def has_room(config: BoardConfig, busy: dict[str, int]) -> bool:
    """Whether any lane could take a card now; the store asks before it loads those that wait."""
    if sum(busy.values()) >= config.scheduler.max_concurrent_builders:
        return False
    return any(busy.get(name, 0) < lane.concurrency for name, lane in config.lanes.items())


# --- families ----------------------------------------------------------------------------------------------------


def _family(family: Family) -> Iterator[Effect]:
    """Rows WK and DB: blocked, cleared, synthesis due, synthesis good.  At most one a tick."""
    blocking = blocking_members(family)
    if blocking:
        names = tuple(member["slug"] for member in blocking)
        if family.phase is Phase.WARTET_AUF_KINDER or names != family.blocking:
            yield Happen(family.parent, "family_blocked", {"blocking": blocking})
    elif family.phase is Phase.DURCH_KINDER_BLOCKIERT:
        yield Happen(family.parent, "family_cleared")
    elif family.synthesis is not None:
        if family.synthesis.good:
            yield Happen(family.parent, "synthesis_good")
    elif family.children and all(child.good for child in family.children):
        yield Happen(family.parent, "synthesis_due")


def blocking_members(family: Family) -> list[dict[str, str]]:
    """The children (or the synthesis) that keep a parent from going on, each with its reason.

    An archived or failed child counts, and so does one that is published without a review or whose commit is no
    longer on the branch: a phase alone never unblocks anybody.
    """
    members = (*family.children, *([family.synthesis] if family.synthesis else []))
    blocking = [{"slug": one.slug, "why": _why_parked(one)} for one in members if _blocks(one)]
    gone = [{"slug": slug, "why": "its commit is not on the branch any more"} for slug in family.off_branch]
    if not family.children:
        blocking.append({"slug": family.parent, "why": "none of its children is on the board"})
    return blocking + gone


def _blocks(member: Member) -> bool:
    unreviewed = member.phase in (Phase.BEREIT, Phase.DEPLOYED) and not member.good
    return (member.phase in PARKED and not member.good) or unreviewed


def _why_parked(member: Member) -> str:
    if member.phase in (Phase.BEREIT, Phase.DEPLOYED):
        return "no positive review of its commit"
    return member.reason or f"{member.phase}, {member.status}"


# --- places in line and dispatch -----------------------------------------------------------------------------------


def _is_ready(card: Waiting) -> bool:
    return not card.ancestor_archived and all(member.good for member in card.blockers)


def verdicts(snapshot: Snapshot) -> Iterator[Verdict]:
    """Goes through the line once, oldest first, and says of each card whether it goes or what it waits for.

    Cards whose dependencies have just become good stand behind everybody who had a place already.
    """
    line = [card for card in snapshot.waiting if card.line is not None]
    line += [card for card in snapshot.waiting if card.line is None]
    busy = dict(snapshot.busy)
    held: dict[str, list[tuple[str, Sequence[str], str]]] = defaultdict(list)
    for lease in snapshot.leases:
        held[lease.repository].append((lease.slug, _scope(lease.write_scope), "is being worked on"))
    for card in line:
        verdict, waits_in_line = _verdict(card, snapshot, busy, held[card.repository])
        if verdict.goes:
            busy[card.lane] = busy.get(card.lane, 0) + 1
        if verdict.goes or waits_in_line:
            held[card.repository].append((card.slug, _scope(card.write_scope), "stands before it in the line"))
        yield verdict


def _verdict(
    card: Waiting, snapshot: Snapshot, busy: dict[str, int], held: list[tuple[str, Sequence[str], str]]
) -> tuple[Verdict, bool]:
    """The verdict on one card, and whether it keeps its scope reserved while it waits."""
    config = snapshot.config
    if card.lane not in config.lanes:
        return Verdict(card.slug, False, f"lane {card.lane!r} is not configured any more", fault=True), False
    if card.repository not in config.repositories:
        return Verdict(
            card.slug, False, f"repository {card.repository!r} is not configured any more", fault=True
        ), False
    if card.ancestor_archived:
        return Verdict(card.slug, False, "an ancestor of it is archived"), False
    if bad := [member for member in card.blockers if not member.good]:
        return Verdict(card.slug, False, "; ".join(_dependency(member) for member in bad)), False
    lane = config.lanes[card.lane]
    if lane.runtime in snapshot.paused_runtimes:
        return Verdict(card.slug, False, f"runtime {lane.runtime} is paused: its credentials were refused"), False
    if busy.get(card.lane, 0) >= lane.concurrency:
        return Verdict(card.slug, False, f"lane {card.lane} is full ({lane.concurrency} at a time)"), True
    if sum(busy.values()) >= config.scheduler.max_concurrent_builders:
        most = config.scheduler.max_concurrent_builders
        return Verdict(card.slug, False, f"the board is full ({most} builders at a time)"), True
    scope = _scope(card.write_scope)
    for slug, other, what in held:
        if overlaps(scope, other):
            return Verdict(card.slug, False, f"{slug} {what} and may write the same files"), True
    return Verdict(card.slug, True), True


def _dependency(member: Member) -> str:
    if member.phase in PARKED:
        return f"depends on {member.slug}, which is parked ({member.reason or member.phase})"
    return f"depends on {member.slug} ({member.phase})"


def _scope(scope: Sequence[str]) -> Sequence[str]:
    # A card without a write scope may touch anything.
    return scope or (".",)
