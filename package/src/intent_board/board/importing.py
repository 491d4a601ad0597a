"""Taking over the cards of the former, file-based board: one state object in, effects out.

docs/import.md has the table.  Nothing that was open there is started here: an open card lands in a phase that only a
person's word leads out of.  What was finished keeps its phase, but no commit comes along, so it proves nothing to
anybody who waits for it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from intent_board.board.importfields import Broken, Former, read_card
from intent_board.board.ladder import lane_profile
from intent_board.board.model import Attach, Card, CreateCard, Effect, Kind, Phase, Profile, Record, Status
from intent_board.config import BoardConfig
from intent_board.contracts.intent import MAX_SUBMITTED_SLUG
from intent_board.contracts.values import SYNTHESIS_ENDING

#: The audit's word; a card that has it is not imported a second time.
EVENT = "imported"
MOST_CARDS = 10_000
FINISHED = frozenset({Phase.BEREIT, Phase.DEPLOYED, Phase.ARCHIVIERT})
_FAMILY = frozenset({Phase.WARTET_AUF_KINDER, Phase.DURCH_KINDER_BLOCKIERT})
_BY_OPERATOR = frozenset({Phase.OPERATOR_PRUEFUNG, Phase.OPERATOR_KLAERUNG})
#: What a stopped card may say of its last run; the others would promise a commit or a question that is not here.
_LAST = frozenset({Status.FAILED, Status.LIMIT_REACHED, Status.TIMED_OUT, Status.NO_CHANGES, Status.CHECK_FAILED})


@dataclass(frozen=True, slots=True)
class Taken:
    """A card as it will stand here, and where it stood."""

    card: Card
    was: Phase
    intent: str
    notes: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Takeover:
    """What an import would do.  With anything in `broken` it does nothing."""

    cards: tuple[Taken, ...] = ()
    already: tuple[str, ...] = ()
    broken: tuple[Broken, ...] = field(default_factory=tuple)


def take_over(
    state: Any,
    intents: Mapping[str, str],
    config: BoardConfig,
    *,
    repository: str,
    imported: Collection[str],
    present: Collection[str],
) -> Takeover:
    """Map a whole state: an object with `cards` by slug.

    `intents` are texts by file name.  `imported` are the slugs that an earlier import made, `present` all slugs that
    exist.  Never raises for what stands in the state: each fault is a `Broken` with its card.
    """
    if type(state) is not dict or type(state.get("cards")) is not dict:
        return Takeover(broken=(Broken("", "the state must be one JSON object with an object `cards` by slug"),))
    if len(state["cards"]) > MOST_CARDS:
        return Takeover(broken=(Broken("", f"the state has more than {MOST_CARDS} cards; import a part of them"),))
    broken: list[Broken] = []
    former: dict[str, Former] = {}
    for slug, value in state["cards"].items():
        if slug in imported:
            continue
        if slug in present:
            broken.append(Broken(slug, "the slug is taken by another card of this board; rename one in the state"))
            continue
        card, faults = read_card(slug, value, intents, config)
        broken += faults
        if card is not None:
            former[slug] = card
    already = tuple(slug for slug in state["cards"] if slug in imported)
    family = _Families(former, set(already), set(state["cards"]))
    broken += family.faults()
    if broken:
        return Takeover(already=already, broken=tuple(broken))
    order = sorted(former, key=lambda slug: (family.parent(slug) is not None, slug))
    return Takeover(tuple(_taken(former[slug], family, config, repository) for slug in order), already)


def effects(takeover: Takeover, actor: str) -> list[Effect]:
    """The transaction: every card, its notes and a line of the audit."""
    made: list[Effect] = [CreateCard(one.card, one.intent) for one in takeover.cards]
    for one in takeover.cards:
        made.append(Attach(one.card.slug, "notes", one.notes))
        made.append(Record(one.card.slug, EVENT, actor, {"was": one.was.value, "phase": one.card.phase.value}))
    return made


# --- relations -------------------------------------------------------------------------------------------------


class _Families:
    """Who belongs to whom, from both ends: a child names its parent, a parent names its children."""

    def __init__(self, former: Mapping[str, Former], already: set[str], named: set[str]) -> None:
        self.former, self._already, self._named = former, already, named
        self._parents: dict[str, list[str]] = {slug: list(card.parents) for slug, card in former.items()}
        for slug, card in former.items():
            for child in card.children:
                self._parents.setdefault(child, [])
                if slug not in self._parents[child]:
                    self._parents[child].append(slug)
        self._children: dict[str, list[Former]] = defaultdict(list)
        for slug, card in former.items():
            if (parent := self.parent(slug)) is not None:
                self._children[parent].append(card)

    def parent(self, slug: str) -> str | None:
        return next(iter(self._parents.get(slug, ())), None)

    def children(self, parent: str) -> list[Former]:
        return self._children.get(parent, [])

    def kind(self, card: Former) -> Kind:
        if card.synthesis:
            return Kind.SYNTHESIS
        if self.parent(card.slug) is not None:
            return Kind.CHILD
        return Kind.PARENT if card.children or self.children(card.slug) else Kind.ORDINARY

    def faults(self) -> Iterator[Broken]:
        for slug, card in self.former.items():
            yield from (Broken(slug, reason) for reason in self._of_family(slug, card))
            for other in (*self._parents[slug], *card.children, *card.blocked_by):
                if other not in self.former and other not in self._already:
                    why = "is broken itself" if other in self._named else "does not exist in the state"
                    yield Broken(slug, f"it names {other!r}, which {why}")
        yield from self._cycles()

    def _of_family(self, slug: str, card: Former) -> Iterator[str]:
        parents = self._parents[slug]
        if len(parents) > 1:
            yield f"it belongs to more than one parent: {', '.join(sorted(parents))}"
        if parents and (card.children or self.children(slug)):
            yield "it is a child and has children; a family has two generations here"
        if slug in parents or slug in card.blocked_by:
            yield "it names itself"
        elif set(parents) & set(card.blocked_by):
            yield f"it waits for its own parent {parents[0]!r}, which waits for it"
        if card.synthesis and not parents:
            yield "it is a synthesis card and names no parent; set synthesis_for"
        if not card.synthesis and slug.endswith(SYNTHESIS_ENDING):
            yield f"its slug ends in {SYNTHESIS_ENDING!r} and it is no synthesis card; rename it in the state"
        if not parents and card.phase not in FINISHED and len(slug) > MAX_SUBMITTED_SLUG:
            yield f"its slug is longer than {MAX_SUBMITTED_SLUG} characters; rename it in the state"
        if len([child for child in self.children(slug) if child.synthesis]) > 1:
            yield "it has more than one synthesis card"

    def _cycles(self) -> Iterator[Broken]:
        """Cards that wait for one another: what is left when those that wait for nobody are taken away."""
        left = {slug: set(card.blocked_by) & self.former.keys() for slug, card in self.former.items()}
        waiting: dict[str, list[str]] = defaultdict(list)
        for slug, others in left.items():
            for other in others:
                waiting[other].append(slug)
        free = [slug for slug, others in left.items() if not others]
        while free:
            gone = free.pop()
            del left[gone]
            for slug in waiting[gone]:
                left[slug].discard(gone)
                if not left[slug]:
                    free.append(slug)
        for slug, others in left.items():
            if slug not in others:
                yield Broken(slug, f"it waits in a circle: it is blocked by {', '.join(sorted(others))}")


# --- where each card lands ---------------------------------------------------------------------------------------


def _taken(card: Former, family: _Families, config: BoardConfig, repository: str) -> Taken:
    kind, parent = family.kind(card), family.parent(card.slug)
    phase, status, reason = _landing(card, kind, family)
    lane, warnings = _lane(card, kind, phase, config)
    made = Card(
        slug=card.slug,
        title=card.title,
        repository=repository,
        requester=config.board.owner,
        phase=phase,
        status=status,
        kind=kind,
        parent=parent,
        lane=lane,
        profile=_profile(card, lane, config),
        ladder=card.ladder,
        wave=card.wave,
        blocked_by=card.blocked_by,
        write_scope=card.write_scope,
        acceptance_criteria=card.criteria,
        branch=config.repositories[repository].branch,
        reason=reason,
        human_action=card.human_action if phase is Phase.OPERATOR_KLAERUNG else None,
        warnings=(*card.warnings, *warnings),
    )
    if phase not in FINISHED:
        made = _without_done(made, family)
    return Taken(made, card.phase, card.intent, card.notes)


def _landing(card: Former, kind: Kind, family: _Families) -> tuple[Phase, Status, str]:
    """Phase, status and reason; docs/import.md is this function as a table."""
    parent = family.former.get(family.parent(card.slug) or "")
    was = f"imported; on the former board it stood in {card.phase}"
    said = f" ({card.reason})" if card.reason else ""
    if card.phase is Phase.ARCHIVIERT:
        return card.phase, Status.CANCELLED, f"{was}{said}"
    if card.phase in FINISHED:
        return card.phase, Status.SUCCEEDED, f"{was}; its commit is not known here{said}"
    if parent is not None and parent.phase is Phase.ARCHIVIERT:
        return Phase.ARCHIVIERT, Status.CANCELLED, f"{was}, and its parent {parent.slug} is archived{said}"
    if card.phase is Phase.STARTFREIGABE and parent is None:
        return card.phase, Status.QUEUED, f"{was}{said}"
    if card.phase in _FAMILY and (children := family.children(card.slug)):
        done = sorted(child.slug for child in children if child.phase in FINISHED)
        if not done:
            return Phase.DURCH_KINDER_BLOCKIERT, Status.SUCCEEDED, f"{was}; board retry starts its children{said}"
        was += f"; {', '.join(done)} ended there, and no review of that is known here"
    alone = parent is None and kind is not Kind.SYNTHESIS
    if alone and (card.lane is None or card.phase in _BY_OPERATOR | _FAMILY):
        text = f"{was}; board retry {card.slug} sends it to the Operator, board build {card.slug} to a Builder{said}"
        return Phase.OPERATOR_KLAERUNG, Status.CANCELLED, text
    text = f"{was}; board retry {card.slug} builds it{said}"
    if card.phase is Phase.PLANUNG_MIT_FEEDBACK:
        return card.phase, Status.SUCCEEDED, text
    last = card.last if card.phase is Phase.KLAERUNG_REPARATUR and card.last in _LAST else Status.CANCELLED
    return Phase.KLAERUNG_REPARATUR, Status(last), text


def _lane(card: Former, kind: Kind, phase: Phase, config: BoardConfig) -> tuple[str | None, tuple[str, ...]]:
    if card.lane is not None or phase in FINISHED | _BY_OPERATOR | _FAMILY | {Phase.STARTFREIGABE}:
        return card.lane, ()
    # Only a relative gets here: it never goes to the Operator, so nobody else would ever choose a lane for it.
    lane = config.scheduler.synthesis_lane if kind is Kind.SYNTHESIS else next(iter(config.lanes))
    return lane, (f"the former board knew no lane for it; {lane} was chosen",)


def _profile(card: Former, lane: str | None, config: BoardConfig) -> Profile | None:
    if card.profile is not None and lane is not None:
        return card.profile
    return lane_profile(config, lane) if lane is not None else None


def _without_done(card: Card, family: _Families) -> Card:
    """What ended on the former board is waited for no longer: no proof of it will ever come."""
    former = family.former
    done = [slug for slug in card.blocked_by if slug in former and former[slug].phase in FINISHED]
    if not done:
        return card
    warning = f"it waited for {', '.join(done)}, which ended on the former board"
    left = tuple(slug for slug in card.blocked_by if slug not in done)
    return replace(card, blocked_by=left, warnings=(*card.warnings, warning))


def summary(takeover: Takeover) -> Sequence[tuple[str, str, str, str]]:
    """(slug, former phase, phase here, status here) of each card."""
    return [(one.card.slug, one.was.value, one.card.phase.value, one.card.status.value) for one in takeover.cards]
