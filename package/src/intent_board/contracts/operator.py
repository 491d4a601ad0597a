"""The Operator's decision: build directly, split into children, or ask a person."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast, get_args

from intent_board.config import BoardConfig
from intent_board.contracts import blocks, intent, scope, values
from intent_board.contracts.errors import Code, ContractError, shown
from intent_board.contracts.values import Table

BEGIN, END = "===OPERATOR-DECISION===", "===END-OPERATOR-DECISION==="

Kind = Literal["direct_builder", "split", "needs_human"]

_KINDS = get_args(Kind)
_PROFILE = ("recommended_lane", "runtime", "model", "reasoning_effort")
_DECISION = values.Fields(
    "schema_version", "decision", "reason", *_PROFILE, "human_action", "children", optional="escalation"
)
_CHILD = values.Fields(
    "slug", "title", "wave", "blocked_by", *_PROFILE, "write_scope", "acceptance_criteria", "intent_markdown",
    optional="escalation",
)  # fmt: skip
_RUNG = values.Fields("model", "reasoning_effort", "iteration_limit")
MAX_WAVE, MAX_SCOPE, MAX_CRITERIA = 99, 100, 50


@dataclass(frozen=True, slots=True)
class Rung:
    """One further attempt: another model of the same runtime, or the same one with other bounds."""

    model: str
    reasoning_effort: str | None
    iteration_limit: int


#: None: no ladder was decided.  `()`: no further attempt is wanted.
Ladder = tuple[Rung, ...] | None


@dataclass(frozen=True, slots=True)
class Child:
    """One part of a split, a card of its own; the fields are the answer's own."""

    slug: str
    title: str
    wave: int
    blocked_by: tuple[str, ...]
    recommended_lane: str
    runtime: str
    model: str | None
    reasoning_effort: str | None
    write_scope: tuple[str, ...]
    acceptance_criteria: tuple[str, ...]
    intent_markdown: str
    escalation: Ladder

    @property
    def warnings(self) -> tuple[str, ...]:
        """One sentence for each section that the intent lacks."""
        return intent.warnings(self.intent_markdown)


@dataclass(frozen=True, slots=True)
class Decision:
    """An accepted decision; the fields are the answer's own."""

    decision: Kind
    reason: str
    recommended_lane: str | None
    runtime: str | None
    model: str | None
    reasoning_effort: str | None
    human_action: str | None
    escalation: Ladder
    children: tuple[Child, ...]


def parse_decision(response: str, *, parent_slug: str, config: BoardConfig) -> Decision:
    """Read the Operator's whole answer.

    `parent_slug` is the card that was asked about, `config` says which lanes, models and limits there are.
    Raises ContractError with the first fault; docs/contracts.md lists the rules.
    """
    return blocks.read(response, BEGIN, END, lambda value: _decision(value, parent_slug, config))


def _decision(value: Any, parent_slug: str, config: BoardConfig) -> Decision:
    table = _DECISION.of(value)
    values.version(table)
    kind = cast(Kind, values.word(table, "decision", _KINDS))
    reason = values.text(table, "reason")
    profile: _Profile | tuple[None, None, None, None] = (None, None, None, None)
    if kind == "direct_builder":
        profile = _profile(table, config)
        ladder = _ladder(table, profile[1], config)
    else:
        for name in _PROFILE:
            values.null(table, name, f"in {kind}")
        ladder = _no_ladder(table, kind)
    if kind == "needs_human":
        human_action: str | None = values.text(table, "human_action")
    else:
        values.null(table, "human_action", f"in {kind}")
        human_action = None
    children = _children(table, kind, parent_slug, config)
    lane, runtime, model, effort = profile
    return Decision(kind, reason, lane, runtime, model, effort, human_action, ladder, children)


_Profile = tuple[str, str, str | None, str | None]


def _profile(table: Table, config: BoardConfig) -> _Profile:
    """The lane and its configured profile, which the answer must repeat exactly."""
    name = table["recommended_lane"]
    lane = config.lanes.get(name) if type(name) is str else None
    if lane is None:
        reason = f"{shown(name)} is no lane; choose one of {', '.join(config.lanes)}"
        raise ContractError(Code.UNKNOWN_LANE, reason, "$.recommended_lane")
    model, effort = table["model"], table["reasoning_effort"]
    if (
        table["runtime"] == lane.runtime
        and (model == lane.model or (model == "" and lane.model is None))
        and (effort == lane.reasoning_effort or (effort == "" and lane.reasoning_effort is None))
    ):
        return name, lane.runtime, lane.model, lane.reasoning_effort
    raise _other_profile(table, name, (lane.runtime, lane.model, lane.reasoning_effort))


def _other_profile(table: Table, lane: str, profile: Sequence[str | None]) -> ContractError:
    for name, wanted in zip(_PROFILE[1:], profile, strict=True):
        value = table[name]
        if value != wanted and (value != "" or wanted is not None or name == "runtime"):
            reason = f"must be {shown(wanted)} as lane {lane!r} is configured, not {shown(value)}"
            return ContractError(Code.PROFILE, reason, f"$.{name}")
    raise AssertionError("called for a profile that differs")


def _ladder(table: Table, runtime: str, config: BoardConfig) -> Ladder:
    if "escalation" not in table:
        return None
    entries = values.items(table, "escalation", 0, config.limits.max_escalation_steps)
    rungs = []
    for number, entry in enumerate(entries):
        try:
            rungs.append(_rung(entry, runtime, config))
        except ContractError as error:
            raise error.under(f".escalation[{number}]") from None
    return tuple(rungs)


def _no_ladder(table: Table, kind: Kind) -> Ladder:
    if "escalation" not in table:
        return None
    if values.items(table, "escalation", 0, None):
        raise ContractError(Code.WRONG_COUNT, f"must be [] or missing in {kind}", "$.escalation")
    return ()


def _rung(value: Any, runtime: str, config: BoardConfig) -> Rung:
    table = _RUNG.of(value)
    model = table["model"]
    pool = config.model_pools.get(runtime, ())
    if model not in pool:
        model = values.model(table, "model")
        known = ", ".join(pool) or "none"
        reason = f"{model!r} is not in the pool of runtime {runtime!r}; choose one of: {known}"
        raise ContractError(Code.MODEL_POOL, reason, "$.model")
    effort = table["reasoning_effort"]
    if effort is not None and effort != "" and not (type(effort) is str and config.effort_fits(runtime, effort)):
        effort = values.effort(table, "reasoning_effort")
        raise ContractError(Code.EFFORT, f"runtime {runtime!r} takes no effort {effort!r}", "$.reasoning_effort")
    limits = config.limits
    steps = values.integer(table, "iteration_limit", limits.iteration_limit_min, limits.iteration_limit_max)
    return Rung(model, effort or None, steps)


def _children(table: Table, kind: Kind, parent_slug: str, config: BoardConfig) -> tuple[Child, ...]:
    if kind != "split":
        if values.items(table, "children", 0, None):
            raise ContractError(Code.WRONG_COUNT, f"must be [] in {kind}", "$.children")
        return ()
    children: list[Child] = []
    for number, entry in enumerate(values.items(table, "children", 1, config.limits.max_children)):
        try:
            children.append(_child(entry, parent_slug, config))
        except ContractError as error:
            raise error.under(f".children[{number}]") from None
    _check_overlap(children, _ancestors(children))
    return tuple(children)


def _child(value: Any, parent_slug: str, config: BoardConfig) -> Child:
    table = _CHILD.of(value)
    slug = values.slug(table, "slug")
    if slug == parent_slug:
        raise ContractError(Code.SLUG, f"{slug!r} is the parent's slug; choose another", "$.slug")
    title = values.line(table, "title")
    wave = values.integer(table, "wave", 1, MAX_WAVE)
    blocked_by = values.distinct_texts(table, "blocked_by", 0, None)
    lane, runtime, model, effort = _profile(table, config)
    write_scope = values.paths(table, "write_scope", 1, MAX_SCOPE)
    criteria = values.distinct_texts(table, "acceptance_criteria", 1, MAX_CRITERIA)
    markdown = values.text(table, "intent_markdown")
    try:
        intent.title(markdown)
    except ContractError as error:
        raise error.under(".intent_markdown") from None
    ladder = _ladder(table, runtime, config)
    return Child(
        slug, title, wave, blocked_by, lane, runtime, model, effort, write_scope, criteria, markdown, ladder
    )  # fmt: skip


def _numbers(children: Sequence[Child]) -> dict[str, int]:
    """The place of each child by its slug, which no two may share."""
    numbers: dict[str, int] = {}
    for number, child in enumerate(children):
        if numbers.setdefault(child.slug, number) != number:
            reason = f"{child.slug!r} is another child's slug too; give each its own"
            raise ContractError(Code.DUPLICATE, reason, f"$.children[{number}].slug")
    return numbers


def _ancestors(children: Sequence[Child]) -> list[int]:
    """For each child a bit for every child that it waits for, directly or through others."""
    numbers = _numbers(children)
    waiting = [number for number, child in enumerate(children) if child.blocked_by]
    for number in waiting:
        try:
            _check_blockers(children[number], children, numbers)
        except ContractError as error:
            raise error.under(f".children[{number}]") from None
    ancestors = [0] * len(children)
    for number in sorted(waiting, key=lambda number: children[number].wave):
        for name in children[number].blocked_by:
            ancestors[number] |= ancestors[numbers[name]] | 1 << numbers[name]
    return ancestors


def _check_blockers(child: Child, children: Sequence[Child], numbers: Mapping[str, int]) -> None:
    """Each is another child of this answer in an earlier wave, so that nobody waits in a circle."""
    for place, name in enumerate(child.blocked_by):
        path = f"$.blocked_by[{place}]"
        if name not in numbers or name == child.slug:
            raise ContractError(Code.UNKNOWN_CHILD, f"{shown(name)} is no other child of this answer", path)
        if children[numbers[name]].wave >= child.wave:
            reason = f"{name!r} is not in an earlier wave than {child.slug!r}; raise the wave of {child.slug!r}"
            raise ContractError(Code.WAVE, reason, path)


def _check_overlap(children: Sequence[Child], ancestors: Sequence[int]) -> None:
    """Two children that can write the same file must be ordered by `blocked_by`."""
    ordered = [bits | 1 << number for number, bits in enumerate(ancestors)]
    for number, bits in enumerate(ancestors):
        for earlier in range(bits.bit_length()):
            ordered[earlier] |= (bits >> earlier & 1) << number
    found = scope.first_overlap([child.write_scope for child in children], [~bits for bits in ordered])
    if found is None:
        return
    first, second = (children[number] for number in found)
    place, entry, other = next(
        (place, entry, other)
        for place, entry in enumerate(second.write_scope)
        for other in first.write_scope
        if scope.overlaps([entry], [other])
    )
    reason = (
        f"{shown(entry)} can name the same file as {shown(other)} of {first.slug!r}; "
        "let one wait for the other with blocked_by, or keep the scopes apart"
    )
    raise ContractError(Code.OVERLAP, reason, f"$.children[{found[1]}].write_scope[{place}]")
