"""One card of the former board's state, field by field: every fault of it at once."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from intent_board.board.model import Phase, Profile, Rung
from intent_board.config import EFFORT_PATTERN, MODEL_PATTERN, SLUG_PATTERN, BoardConfig, invisible
from intent_board.contracts import ContractError
from intent_board.contracts.scope import normalise
from intent_board.contracts.strict import check_size, check_text
from intent_board.contracts.values import SYNTHESIS_ENDING

T = TypeVar("T")

MOST_ENTRIES = 200
MOST_CHARACTERS = 20_000
#: The whole object of one card, which is kept beside it.
MOST_NOTES = 256 * 1024
#: Fields that the mapping reads or that the notes keep as the former board's own affairs; any other is unknown.
KNOWN = frozenset(
    {"source", "title", "phase", "parent_id", "operator_parent_id", "operator_managed", "operator_generated"}
    | {"orchestration_kind", "operator_decision", "operator_reason", "human_action", "depends_on", "child_slugs"}
    | {"synthesis_generated", "synthesis_intent_path", "synthesis_for", "synthesis_status", "blocking_children"}
    | {"blocked_by", "wave", "lane", "recommended_lane", "recommended_profile", "escalation_attempts"}
    | {"auto_retry_attempts", "write_scope", "acceptance_criteria", "operator_dispatch_state", "last_job_id"}
    | {"last_run_status", "review_decision", "runtime", "model", "reasoning_effort"}
)


@dataclass(frozen=True, slots=True)
class Broken:
    """Why a card can't be imported; `slug` "" is the state itself."""

    slug: str
    reason: str


@dataclass(frozen=True, slots=True)
class Former:
    """A card as the former board had it, with every value checked."""

    slug: str
    title: str
    phase: Phase
    parents: tuple[str, ...]
    children: tuple[str, ...]
    synthesis: bool
    blocked_by: tuple[str, ...]
    lane: str | None
    profile: Profile | None
    ladder: tuple[Rung, ...] | None
    wave: int | None
    write_scope: tuple[str, ...]
    criteria: tuple[str, ...]
    reason: str
    human_action: str | None
    last: str | None
    intent: str
    warnings: tuple[str, ...]
    notes: Mapping[str, Any] = field(repr=False)


def read_card(
    slug: str, value: Any, intents: Mapping[str, str], config: BoardConfig
) -> tuple[Former | None, list[Broken]]:
    """The card, or everything that is wrong with it."""
    shown = slug[:80]
    if not re.fullmatch(SLUG_PATTERN, slug):
        reason = "its key is no slug; use lower-case letters, digits and hyphens, at most 61 characters"
        return None, [Broken(shown, reason)]
    if type(value) is not dict:
        return None, [Broken(shown, f"it must be an object, not {_kind(value)}")]
    if len(json.dumps(value)) > MOST_NOTES:
        return None, [Broken(shown, f"it is larger than {MOST_NOTES // 1024} KiB; shorten its longest field")]
    fields = Fields(slug, value, intents, config)
    card = fields.card()
    return (None if fields.faults else card), [Broken(slug, fault) for fault in fields.faults]


class Fields:
    """Reads the fields of one object and notes what is wrong instead of stopping at it."""

    def __init__(self, slug: str, value: Mapping[str, Any], intents: Mapping[str, str], config: BoardConfig) -> None:
        self.faults: list[str] = []
        self._slug, self._value, self._intents, self._config = slug, value, intents, config
        self._warnings: list[str] = []

    def card(self) -> Former:
        text = self._intent()
        criteria = self._texts("acceptance_criteria")
        title = self._title(text)
        former = Former(
            slug=self._slug,
            title=title,
            phase=self._phase(),
            parents=tuple(dict.fromkeys(one for name in _PARENTS if (one := self._slug_of(name)))),
            children=self._slugs("child_slugs"),
            synthesis=self._is_synthesis(),
            blocked_by=tuple(dict.fromkeys((*self._slugs("depends_on"), *self._slugs("blocked_by")))),
            lane=self._lane(),
            profile=self._profile(),
            ladder=self._ladder(),
            wave=self._whole("wave", 0, 1000),
            write_scope=self._scope(),
            criteria=criteria,
            reason=self._text("operator_reason") or "",
            human_action=self._text("human_action"),
            last=self._text("last_run_status"),
            intent=text or _made_up(title, criteria),
            warnings=tuple(self._warnings),
            notes=self._notes(),
        )
        self._only_looked_at()
        return former

    def _is_synthesis(self) -> bool:
        if self._slug_of("synthesis_for") is not None:
            return True
        # A parent has the flag too, for the synthesis card that it got.
        named = self._slug.endswith(SYNTHESIS_ENDING) or self._value.get("orchestration_kind") == "synthesis"
        return self._flag("synthesis_generated") and named

    # --- kinds of values --------------------------------------------------------------------------------------

    def _read(self, name: str, wanted: str, check: Callable[[Any], T | None]) -> T | None:
        """A value that may be missing or null; `check` answers None for a wrong one."""
        value = self._value.get(name)
        if value is None:
            return None
        found = check(value)
        if found is None:
            self.faults.append(f"{name} must be {wanted}, not {_kind(value)}")
        return found

    def _text(self, name: str) -> str | None:
        wanted = f"a text of at most {MOST_CHARACTERS} characters"
        found = self._read(name, wanted, lambda it: it if type(it) is str and len(it) <= MOST_CHARACTERS else None)
        return found.strip() or None if found is not None else None

    def _flag(self, name: str) -> bool:
        return bool(self._read(name, "true or false", lambda it: it if type(it) is bool else None))

    def _whole(self, name: str, low: int, high: int) -> int | None:
        wanted = f"a whole number from {low} to {high}"
        return self._read(name, wanted, lambda it: it if type(it) is int and low <= it <= high else None)

    def _texts(self, name: str) -> tuple[str, ...]:
        def check(value: Any) -> tuple[str, ...] | None:
            if type(value) is not list or len(value) > MOST_ENTRIES:
                return None
            good = all(type(one) is str and one.strip() and len(one) <= MOST_CHARACTERS for one in value)
            return tuple(value) if good else None

        return self._read(name, f"a list of at most {MOST_ENTRIES} texts that say something", check) or ()

    def _slug_of(self, name: str) -> str | None:
        found = self._text(name)
        if found is not None and not re.fullmatch(SLUG_PATTERN, found):
            self.faults.append(f"{name} must be the slug of a card")
            return None
        return found

    def _slugs(self, name: str) -> tuple[str, ...]:
        found = self._texts(name)
        if not all(re.fullmatch(SLUG_PATTERN, one) for one in found):
            self.faults.append(f"{name} must be a list of slugs of cards")
            return ()
        return tuple(dict.fromkeys(found))

    # --- the fields -------------------------------------------------------------------------------------------

    def _phase(self) -> Phase:
        value = self._value.get("phase")
        if type(value) is str and value in set(Phase):
            return Phase(value)
        self.faults.append(f"phase must be one of {', '.join(Phase)}")
        return Phase.KLAERUNG_REPARATUR

    def _title(self, text: str | None) -> str:
        found = self._text("title")
        if found is None and text is not None and text.startswith("# Intent:"):
            found = text.partition("\n")[0].removeprefix("# Intent:").strip()
        if found is None and self._value.get("title"):
            return ""  # said already
        if not found:
            self.faults.append("it has no title, and no intent that begins with '# Intent: <title>'")
        elif bad := invisible(found):
            self.faults.append(f"title has {bad}; write one line without it")
        elif len(found) > 500:
            self.faults.append("title is longer than 500 characters")
        return found or ""

    def _intent(self) -> str | None:
        """The text named after the slug, or the one that a path of the card leads to."""
        paths = [self._text(name) or "" for name in ("synthesis_intent_path", "source")]
        names = [f"{self._slug}.md", *(path.rpartition("/")[2] for path in paths)]
        text = next((self._intents[name] for name in names if name in self._intents), None)
        if text is None:
            return None
        try:
            check_size(text)
            check_text(text)
        except ContractError as error:
            self.faults.append(f"its intent {error.reason}")
        return text

    def _lane(self) -> str | None:
        by_phase = {lane.phase: name for name, lane in reversed(self._config.lanes.items())}
        phase = self._value.get("phase")
        default = by_phase.get(phase) if type(phase) is str else None  # type: ignore[call-overload]
        lane = self._text("lane") or self._text("recommended_lane") or default
        if lane is not None and lane not in self._config.lanes:
            self.faults.append(f"lane {lane[:40]!r} is not one of {', '.join(self._config.lanes)}")
        return lane

    def _scope(self) -> tuple[str, ...]:
        found: list[str] = []
        for path in self._texts("write_scope"):
            try:
                found.append(normalise(path))
            except ContractError as error:
                self.faults.append(f"write_scope: {error.reason}")
        return tuple(dict.fromkeys(found))

    def _profile(self) -> Profile | None:
        """The recommended profile, where this board could run it; else the lane's own, with a warning."""
        value = self._read("recommended_profile", "an object", lambda it: it if type(it) is dict else None)
        if value is None:
            return None
        runtime = value.get("runtime")
        limit = value.get("iteration_limit")
        limits = self._config.limits
        if runtime is None:
            return None  # none was recommended
        if type(runtime) is not str or (limit is not None and type(limit) is not int):
            self.faults.append("recommended_profile must have a text `runtime` and a whole number `iteration_limit`")
            return None
        rung = self._rung(value)
        if rung is None or not self._runs(runtime, rung):
            bounds = f"{limits.iteration_limit_min} to {limits.iteration_limit_max}"
            self._warnings.append(
                f"its recommended profile is not one of this board (runtimes, model pools, {bounds} iterations); "
                "the lane's is used"
            )
            return None
        return Profile(runtime, rung.model, rung.reasoning_effort, rung.iteration_limit)

    def _rung(self, value: Any) -> Rung | None:
        if type(value) is not dict:
            return None
        model, effort, limit = value.get("model"), value.get("reasoning_effort"), value.get("iteration_limit")
        limits = self._config.limits
        good = (
            type(model) is str
            and re.fullmatch(MODEL_PATTERN, model)
            and (effort is None or (type(effort) is str and re.fullmatch(EFFORT_PATTERN, effort)))
            and type(limit) is int
            and limits.iteration_limit_min <= limit <= limits.iteration_limit_max
        )
        return Rung(str(model), effort, int(limit or 0)) if good else None

    def _runs(self, runtime: str, rung: Rung) -> bool:
        if runtime not in self._config.runtimes or rung.model not in self._config.model_pools.get(runtime, ()):
            return False
        return rung.reasoning_effort is None or self._config.effort_fits(runtime, rung.reasoning_effort)

    def _ladder(self) -> tuple[Rung, ...] | None:
        """`escalation_attempts` where it is a ladder; a number only counted, and stays a note."""
        value = self._value.get("escalation_attempts")
        if type(value) is not list or not value:
            return None
        rungs = [self._rung(one) for one in value]
        profile = self._value.get("recommended_profile")
        name = profile.get("runtime") if type(profile) is dict else None
        fits = len(rungs) <= self._config.limits.max_escalation_steps and type(name) is str
        if fits and all(rung is not None and self._runs(str(name), rung) for rung in rungs):
            return tuple(rung for rung in rungs if rung is not None)
        self._warnings.append("its escalation is no ladder of this board; one retry with the same profile is left")
        return None

    def _only_looked_at(self) -> None:
        """What has no place on a card here must still be what it claims to be."""
        for name in _TEXTS:
            self._text(name)
        for name in ("operator_managed", "operator_generated"):
            self._flag(name)

    def _notes(self) -> Mapping[str, Any]:
        """The whole object as it was, so that nothing is lost, with the names that nobody knows here."""
        return {"imported": dict(self._value), "unknown": sorted(self._value.keys() - KNOWN)}


_PARENTS = ("synthesis_for", "operator_parent_id", "parent_id")
_TEXTS = ("orchestration_kind", "operator_decision", "operator_dispatch_state", "review_decision", "synthesis_status")


def _made_up(title: str, criteria: tuple[str, ...]) -> str:
    wanted = "".join(f"- {one}\n" for one in criteria) or "- what the title says\n"
    return f"# Intent: {title}\n\nImported without its text.\n\n## Erfolgskriterien\n\n{wanted}"


def _kind(value: Any) -> str:
    names = {
        dict: "an object",
        list: "a list",
        str: "a text",
        bool: "true or false",
        int: "a number",
        float: "a number",
    }
    return names.get(type(value), "null")
