"""A random walk over the whole board: people, ticks and workers in any order, and what must hold after every step.

The other tests know what they look for.  This one does anything that anybody may try, also what is refused, and asks
only for the promises: no slot twice, no scope twice, nothing published without its review, nobody without a way on.
INTENT_BOARD_WALKS=200 walks longer than the few of an ordinary run.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from store_board import OWNER, child_data, configured, sql

from intent_board.board.model import BUILDING, PARKED, SUCCESS, Card, JobState, Kind, Phase, Refused, Status
from intent_board.board.states import events_for
from intent_board.config import BoardConfig
from intent_board.contracts.scope import overlaps
from intent_board.store import Claim, StaleClaim, Store, open_store

WALKS = int(os.environ.get("INTENT_BOARD_WALKS", "4"))
STEPS = 250
SCOPES = ("a/**", "a/x", "b", "c/*", "**")
PEOPLE = (OWNER, OWNER, "eva", "mallory")
WORDS = (
    "accept", "decline", "answer", "retry", "replan", "build_by_hand", "release", "discard", "repair", "inspect",
    "split", "archive", "route_apply", "route_dismiss", "deploy",
)  # fmt: skip
#: Phases in which a card is somebody's work: exactly one job of it is open.
WORKED_ON = BUILDING | {Phase.OPERATOR_PRUEFUNG, Phase.IN_REVIEW}
ASIDE = {"inspector"}


def meet(one: Card, other: Card) -> bool:
    """Whether both may write the same file; an empty scope is the whole repository."""
    return overlaps(one.write_scope or ("**",), other.write_scope or ("**",))


class Walk:
    def __init__(self, store: Store, config: BoardConfig, seed: int) -> None:
        self.store, self.config, self.dice = store, config, random.Random(seed)
        self.claims: list[Claim] = []
        self.named, self.now = 0, 1000.0
        self.did: list[str] = []

    def name(self) -> str:
        self.named += 1
        return f"card-{self.named}"

    def hash(self) -> str:
        return f"{self.dice.getrandbits(160):040x}"

    def cards(self) -> list[Card]:
        return [self.store.card(line.slug) for line in self.store.cards()]

    # --- what anybody may do ------------------------------------------------------------------------------------

    def step(self) -> None:
        things: list[tuple[int, Callable[[], object]]] = [
            (1, self.submit), (4, self.tick), (8, self.claim), (8, self.finish), (5, self.say), (1, self.die),
        ]  # fmt: skip
        self.dice.choices([thing for _, thing in things], [weight for weight, _ in things])[0]()

    def submit(self) -> None:
        requester = self.dice.choice(PEOPLE)
        event = "submit_by_owner" if requester == OWNER else "submit_by_other"
        slug = self.name()
        self.did.append(f"{requester} submits {slug}")
        self.store.submit(
            slug=slug, title=slug, intent=f"# Intent: {slug}\n", repository="site", requester=requester, event=event,
            data={"write_scope": [self.dice.choice(SCOPES)]},
        )  # fmt: skip

    def tick(self) -> bool:
        """Whether anything moved."""
        self.now += 10
        proofs = {proof.parent: self.off_branch(proof.commits) for proof in self.store.families_to_prove()}
        self.did.append(f"tick {proofs}")
        return bool(self.store.tick(self.now, off_branch=proofs))

    def off_branch(self, commits: Any) -> list[str]:
        return [slug for slug in commits if self.dice.random() < 0.1]

    def claim(self) -> None:
        queue = self.dice.choice([name for name in self.config.queue_slots() if name != "deploy"])
        claim = self.store.claim(queue)
        if claim is not None:
            self.did.append(f"claim {claim.job.id} {claim.job.role} of {claim.card.slug}")
            self.claims.append(claim)

    def die(self) -> None:
        """A worker is gone without a word, and a tick takes its job back."""
        if self.claims:
            claim = self.claims.pop(self.dice.randrange(len(self.claims)))
            self.did.append(f"worker of {claim.job.id} dies")
            claim._let_go(None)
            self.store.recover()

    def finish(self, *, well: bool = False) -> None:
        if not self.claims:
            return
        claim = self.claims.pop(self.dice.randrange(len(self.claims)))
        event, data = self.result(claim, well)
        self.did.append(f"{claim.job.role} {claim.job.id} of {claim.card.slug}: {event} {data}")
        with suppress(StaleClaim):
            if not self.store.finish(claim, event, data):
                self.tick()  # whose part it is to find cards whose last job led nowhere
        claim._let_go(None)

    def say(self) -> None:
        known = self.store.cards()
        if not known:
            return
        slug, actor = self.dice.choice(known).slug, self.dice.choice(PEOPLE)
        card = self.store.card(slug)
        fitting = [word for word in WORDS if word in set(events_for(card.phase)) or word.startswith("route_")]
        word = self.dice.choice(fitting if self.dice.random() < 0.8 else WORDS)
        data: dict[str, Any] = {"title": slug, "lane": "leicht", "task": self.dice.choice(["route_next", "inspect"])}
        data |= {"commit": self.dice.choice([card.commit, card.commit, self.hash()]), "answer": {"text": "so"}}
        data |= {"id": self.dice.randrange(1, 40), "afresh": self.dice.random() < 0.3}
        self.did.append(f"{actor} says {word} of {slug}")
        with suppress(Refused):
            self.store.happen(slug, word, actor=actor, data=data)

    # --- what comes of a job --------------------------------------------------------------------------------------

    def result(self, claim: Claim, well: bool) -> tuple[str, dict[str, Any]]:
        choices = getattr(self, f"_{claim.job.role}")(claim)
        return choices[0] if well or self.dice.random() < 0.6 else self.dice.choice(choices)

    def _children(self) -> list[dict[str, Any]]:
        names = [self.name() for _ in range(self.dice.randint(1, 3))]
        return [
            child_data(
                name, names[:place] if self.dice.random() < 0.5 else [],
                lane=self.dice.choice(["schwer", "leicht"]), wave=place + 1, write_scope=[f"{name}/**"],
            )
            for place, name in enumerate(names)
        ]  # fmt: skip

    def _operator(self, claim: Claim) -> list[tuple[str, dict[str, Any]]]:
        ladder = self.dice.choice([None, [], [{"model": "m", "reasoning_effort": None, "iteration_limit": 10}]])
        direct = ("operator_direct", {"lane": self.dice.choice(["schwer", "leicht"]), "escalation": ladder})
        return [
            self.dice.choice([direct, direct, ("operator_split", {"children": self._children()})]),
            ("operator_needs_human", {"human_action": "decide"}),
            ("operator_invalid", {"reason": "no block"}),
            ("operator_limit", {}),
            ("operator_timeout", {}),
        ]

    def _builder(self, claim: Claim) -> list[tuple[str, dict[str, Any]]]:
        built = {
            "commit": self.hash(),
            "base": self.hash(),
            "branch": "main",
            "checks": [],
            "summary": "s",
            "paths": ["a"],
        }
        return [
            ("built", built),
            ("build_limit", {}),
            ("build_timeout", {}),
            ("build_needs_input", {"question": "which?"}),
            ("build_no_changes", {**built, "commit": built["base"]}),
            ("build_check_failed", self.dice.choice([built, {"reason": "red"}])),
            ("build_failed", {"reason": "out of scope"}),
        ]

    def _reviewer(self, claim: Claim) -> list[tuple[str, dict[str, Any]]]:
        report = {"summary": "looked", "findings": []}
        commit = claim.job.snapshot["commit"]
        return [
            ("approved", {"commit": commit, "report": report}),
            ("approved", {"commit": commit, "report": report, "protected": ["flake.nix"]}),
            ("approved", {"commit": self.hash(), "report": report}),
            ("negative", {"commit": commit, "report": report}),
            ("review_invalid", {"reason": "no block"}),
        ]

    def _publish(self, claim: Claim) -> list[tuple[str, dict[str, Any]]]:
        commit = claim.job.snapshot["commit"]
        rebased = {"old": commit, "commit": self.hash(), "base": self.hash(), "checks": []}
        return [
            ("published", {"commit": commit}),
            ("rebased", {**rebased, "same_patch": self.dice.random() < 0.5}),
            ("publish_failed", {"reason": "refused"}),
        ]

    def _fixer(self, claim: Claim) -> list[tuple[str, dict[str, Any]]]:
        fixed = {
            "commit": self.hash(),
            "base": claim.job.snapshot.get("base"),
            "branch": "main",
            "paths": ["a"],
            "checks": [],
        }
        return [
            ("fix_repaired", fixed),
            ("fix_needs_input", {"question": "which?", "required_action": "decide"}),
            ("fix_not_applicable", {"reason": "no defect"}),
            ("fix_failed", {"reason": "outside"}),
            ("fix_limit", {}),
            ("fix_timeout", {}),
        ]

    def _inspector(self, claim: Claim) -> list[tuple[str, dict[str, Any]]]:
        words = ["retry_builder", "repair", "replan", "split", "ask_human", "archive", "nothing"]
        route = {"recommendation": self.dice.choice(words), "reason": "because", "question": "which?"}
        done: tuple[str, dict[str, Any]] = ("inspected", {"evidence": {}, "report": {"summary": "looked"}})
        if claim.job.snapshot.get("task") == "route_next":
            done = ("routed", {"route": route})
        return [done, ("inspection_failed", {"reason": "no block"})]

    def _planner(self, claim: Claim) -> list[tuple[str, dict[str, Any]]]:
        return [("split_valid", {"children": self._children()}), ("split_invalid", {"reason": "no block"})]

    # --- what must hold -----------------------------------------------------------------------------------------

    def faults(self) -> list[str]:
        cards = {card.slug: card for card in self.cards()}
        return [
            *self._slots(list(cards.values())),
            *self._jobs(list(cards.values())),
            *(fault for card in cards.values() for fault in self._published(card)),
            *self._families(cards),
        ]

    def _slots(self, cards: list[Card]) -> list[str]:
        building = [card for card in cards if card.phase in BUILDING]
        found = [] if len(building) <= self.config.scheduler.max_concurrent_builders else ["too many builders"]
        for lane, number in Counter(card.lane for card in building).items():
            if lane is None or number > self.config.lanes[lane].concurrency:
                found.append(f"{number} builders in lane {lane}")
        pairs = [(one.slug, other.slug) for one, other in combinations(building, 2) if meet(one, other)]
        return [*found, *(f"{pair} are built at once and may write the same files" for pair in pairs)]

    def _jobs(self, cards: list[Card]) -> list[str]:
        found = []
        for card in cards:
            states = (JobState.QUEUED, JobState.RUNNING)
            jobs = [line.job for line in self.store.jobs(card.slug) if line.job.state in states]
            primary = [job.role for job in jobs if job.role not in ASIDE]
            if len(primary) > 1 or (card.phase in WORKED_ON and len(primary) != 1):
                found.append(f"{card.slug} in {card.phase} ({card.status}) has the open jobs {primary}")
            if card.phase is Phase.ARCHIVIERT and jobs:
                found.append(f"{card.slug} is archived and has open jobs")
        return found

    def _published(self, card: Card) -> list[str]:
        if card.phase not in SUCCESS or card.commit is None:
            return []
        good = {
            review.commit for review in self.store.reviews(card.slug) if review.decision == "bereit_fuer_deployment"
        }
        parents_own = card.kind is Kind.PARENT
        if card.reviewed != card.commit or (card.commit not in good and not parents_own):
            return [
                f"{card.slug} stands in {card.phase} with {card.commit}, reviewed: {card.reviewed}, approved: {good}"
            ]
        foreign = card.requester != OWNER and card.parent is None and not parents_own
        return (
            [f"{card.slug} of {card.requester} was published and never released"]
            if foreign and not card.released
            else []
        )

    def _families(self, cards: dict[str, Card]) -> list[str]:
        found = []
        for card in cards.values():
            members = [one for one in cards.values() if one.parent == card.slug]
            if members and card.kind is not Kind.PARENT and card.phase is not Phase.ARCHIVIERT:
                found.append(f"{card.slug} has children and is a {card.kind}")
            if card.kind is Kind.PARENT and card.phase in SUCCESS and any(one.phase not in SUCCESS for one in members):
                found.append(f"{card.slug} is ready before {[(one.slug, one.phase) for one in members]}")
            if card.kind is Kind.PARENT and card.phase in WORKED_ON:
                found.append(f"{card.slug} is worked on beside its children")
        return found

    # --- the end --------------------------------------------------------------------------------------------------

    def settle(self) -> None:
        """Everybody does what they should until nothing moves."""
        for claim in self.claims:
            claim._let_go(None)
        self.claims.clear()
        self.off_branch = lambda commits: []  # type: ignore[method-assign]
        for _ in range(300):
            self.store.recover()
            self.now += 100_000
            moved = self.tick() or self.owner_speaks()
            for queue in self.config.queue_slots():
                while queue != "deploy" and (claim := self.store.claim(queue)) is not None:
                    self.claims.append(claim)
                    self.finish(well=True)
                    moved = True
            assert self.faults() == []
            if not moved:
                return
        raise AssertionError("the board does not come to rest")

    def owner_speaks(self) -> bool:
        """The owner's word at both gates; whether any card waited for it."""
        waiting = [card for card in self.cards() if card.phase in (Phase.STARTFREIGABE, Phase.COMMITFREIGABE)]
        words = {Phase.STARTFREIGABE: "accept", Phase.COMMITFREIGABE: "release"}
        asked = [card for card in waiting if card.phase is Phase.STARTFREIGABE or card.status is Status.SUCCEEDED]
        for card in asked:
            self.did.append(f"the owner says {words[card.phase]} of {card.slug}")
            self.store.happen(card.slug, words[card.phase], actor=OWNER, data={"commit": card.commit})
        return bool(asked)

    def left_behind(self) -> list[str]:
        """Cards at rest that nobody is asked about: neither done nor parked, and waiting for nobody who is."""
        cards = {card.slug: card for card in self.cards()}
        stuck = [card for card in cards.values() if not self._accounted(card, cards)]
        return [f"{card.slug}: {card.phase} {card.status}" for card in stuck]

    def _accounted(self, card: Card, cards: dict[str, Card]) -> bool:
        if card.phase in PARKED | SUCCESS | {Phase.DURCH_KINDER_BLOCKIERT}:
            return True
        if card.phase is Phase.WARTET_AUF_KINDER:
            return any(one.parent == card.slug and one.phase not in SUCCESS for one in cards.values())
        waits_for = [cards[slug] for slug in card.blocked_by if slug in cards]
        return card.phase is Phase.GEPLANT and any(one.phase not in SUCCESS for one in waits_for)


@pytest.mark.parametrize("seed", range(WALKS))
def test_whatever_anybody_does_the_promises_hold(seed: int, tmp_path: Path) -> None:
    config = configured(tmp_path / "state", repair={"automatic_rounds": seed % 2}, split={"automatic": seed % 3 == 0})
    store = open_store(config)
    walk = Walk(store, config, seed)
    try:
        for _ in range(STEPS):
            walk.step()
            assert walk.faults() == [], walk.did[-12:]
        walk.settle()
        assert walk.left_behind() == [], walk.did[-30:]
        assert sql(store, "pragma foreign_key_check") == []
        assert {card.phase for card in walk.cards()} & SUCCESS, "a walk that publishes nothing shows nothing"
    finally:
        store.close()
