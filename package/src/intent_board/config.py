"""The board's TOML as frozen models, and the only reader of that file.

One file declares the board; on NixOS the module writes it.  Everything here is checked when the file is
loaded, all faults at once, each with its key, so that a wrong file is known before any process relies on it.
"""

import os
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    StrictBool,
    StrictInt,
    StringConstraints,
    TypeAdapter,
    ValidationError,
)

DEFAULT_PATH = Path("/etc/intent-board/board.toml")
PATH_VARIABLE = "INTENT_BOARD_CONFIG"

#: The efforts each agent program takes.  Codex passes any word to its provider unchecked, so the list is what
#: the providers document; Claude Code warns and silently uses its default for anything else.
EFFORTS: Mapping[str, frozenset[str] | None] = {
    "codex": frozenset({"none", "minimal", "low", "medium", "high", "xhigh", "max"}),
    "openrouter": frozenset({"none", "minimal", "low", "medium", "high", "xhigh", "max"}),
    "claude": frozenset({"low", "medium", "high", "xhigh", "max"}),
    "command": None,
}
#: Queues that exist beside the builder queues, with the role that serves each.
QUEUE_ROLES: Mapping[str, str] = {
    "operator": "operator",
    "review": "reviewer",
    "publish": "publish",
    "repair": "fixer",
    "inspect": "inspector",
    "split": "planner",
    "deploy": "deploy",
}
#: Roles played by a model; `publish` and `deploy` are trusted code without one.
MODEL_ROLES = ("operator", "builder", "reviewer", "fixer", "inspector", "planner")
#: Queues that run with the snapshot of the attempt they belong to, so a runtime or model there would be ignored.
SNAPSHOT_QUEUES = frozenset({"review", "repair"})
#: Queues that run no model at all.
TRUSTED_QUEUES = frozenset({"publish", "deploy"})
#: What people can be told about.  docs/operations.md says when each is sent.
NotificationEvent = Literal[
    "needs_human",
    "blocked",
    "limit_reached",
    "negative_review",
    "approval_wanted",
    "question",
    "failed",
    "ready",
    "deployed",
    "deploy_failed",
    "discrepancy",
    "runtime_paused",
]


class ConfigError(Exception):
    """A configuration file that can't be used.

    `faults` lists every fault once, as `key: what is wrong`; `str()` is the same, a line each.
    """

    def __init__(self, path: Path, faults: list[str]) -> None:
        self.path, self.faults = path, list(dict.fromkeys(faults))
        super().__init__("\n".join(f"{path}: {fault}" for fault in self.faults))


#: Control characters, line and paragraph separators, halves of surrogate pairs, bidirectional controls, and what
#: Unicode displays as nothing (Default_Ignorable_Code_Point, interlinear and musical format characters).
_INVISIBLE = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f"
    "\u3164\ud800-\udfff\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)


def invisible(text: str) -> str | None:
    """The first invisible character of a text, described; None when every one can be seen.

    Such a character would let a name, a title or a path look like another one.
    """
    if text.isascii() and text.isprintable():
        return None
    bad = _INVISIBLE.search(text)
    return f"the invisible character U+{ord(bad.group()):04X}" if bad else None


def _one_line(text: str) -> str:
    if bad := invisible(text):
        raise ValueError(f"has {bad}; remove it")
    return text


def _absolute(path: Path) -> Path:
    if not path.is_absolute() or ".." in path.parts:
        raise ValueError("must be an absolute path without '..'")
    return path


def _inside(path: str) -> str:
    # What names no file of the repository would protect nothing, without a word.
    parts = path.split("/")
    if path.startswith(("/", "~")) or "\\" in path or ".." in parts or ".git" in parts or path != path.strip():
        raise ValueError("must be a path or glob inside the repository, without '/' or '~' first, '..' or '\\'")
    return path


def _command_prefix(text: str) -> str:
    # It becomes an entry of an agent program's own list, which takes what a shell would join for one more command.
    if bad := re.search(r"[;&|$`<>(){}\[\]*?!#~\\\"',]", text):
        raise ValueError(f"has {bad[0]!r}; write the plain words that a command begins with, nothing for a shell")
    if text.split(" ") != text.split() or text.startswith("-") or "=" in text.split(" ")[0]:
        raise ValueError("must begin with a program, its words separated by one space each")
    return text


def _window(text: str) -> str:
    if not re.fullmatch(r"([01][0-9]|2[0-3]):[0-5][0-9]-([01][0-9]|2[0-3]):[0-5][0-9]", text):
        raise ValueError("must look like 22:00-06:00 (local time)")
    return text


def _host(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?", text):
        raise ValueError("must be a plain host name without a domain")
    return text


def branch_name(text: str) -> str:
    """The text itself when git takes it for a branch (git-check-ref-format).  Raises ValueError."""
    if (
        not re.fullmatch(r"[^\s~^:?*\[\\-][^\s~^:?*\[\\]*", text)
        or ".." in text
        or "@{" in text
        or text.endswith((".", "/", ".lock"))
        or "//" in text
        or text.startswith(("/", "refs/"))
        or any(part.startswith(".") or part.endswith(".lock") for part in text.split("/"))
        or text in {"@", "HEAD"}
    ):
        raise ValueError("must be a plain branch name as git accepts it, without refs/heads/")
    return text


NAME_PATTERN = r"^[a-z][a-z0-9-]{0,30}$"
MODEL_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._:+/-]{0,127}$"
EFFORT_PATTERN = r"^[A-Za-z0-9_-]{1,32}$"
SLUG_PATTERN = r"^[a-z0-9][a-z0-9-]{0,60}$"

_is_effort = re.compile(EFFORT_PATTERN).fullmatch

Line = Annotated[str, StringConstraints(min_length=1, max_length=4096), AfterValidator(_one_line)]
Name = Annotated[str, StringConstraints(pattern=NAME_PATTERN)]
ModelName = Annotated[str, StringConstraints(pattern=MODEL_PATTERN)]
Effort = Annotated[str, StringConstraints(pattern=EFFORT_PATTERN)]
UserName = Annotated[str, StringConstraints(pattern=r"^[a-z_][a-z0-9_-]{0,30}$")]
CredentialName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,126}$")]
VariableName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,127}$")]
AbsolutePath = Annotated[Path, AfterValidator(_absolute)]
InsidePath = Annotated[Line, AfterValidator(_inside)]
CommandPrefix = Annotated[Line, AfterValidator(_command_prefix)]
HostName = Annotated[str, AfterValidator(_host)]
Branch = Annotated[Line, AfterValidator(branch_name)]
Argv = Annotated[tuple[Line, ...], Field(min_length=1)]
Minutes = Annotated[StrictInt, Field(ge=1, le=1440)]


class Section(BaseModel):
    """A table of the file: frozen, and a key that is not declared is a fault."""

    # A section is only ever read as part of the whole file, so no validator of its own is built with the class.
    model_config = ConfigDict(frozen=True, extra="forbid", strict=False, defer_build=True)


class Board(Section):
    """Who owns the board and where it keeps its state."""

    owner: UserName
    group: UserName = "intent-board"
    state_dir: AbsolutePath = Path("/var/lib/intent-board")
    intent_dir: AbsolutePath | None = None
    database: Annotated[str, StringConstraints(pattern=r"^sqlite:////.+$")] | None = None
    sandbox: Literal["required", "when_available"] = "required"
    default_repository: Name | None = None


class Limits(Section):
    """Bounds on what an Operator may ask for; they may only be narrower than these defaults."""

    max_children: Annotated[StrictInt, Field(ge=1, le=10)] = 10
    max_escalation_steps: Annotated[StrictInt, Field(ge=0, le=2)] = 2
    iteration_limit_min: Annotated[StrictInt, Field(ge=5, le=40)] = 5
    iteration_limit_max: Annotated[StrictInt, Field(ge=5, le=40)] = 40


class Scheduler(Section):
    """How many builders run at once, and how often the board repeats what was not an answer."""

    max_concurrent_builders: Annotated[StrictInt, Field(ge=1, le=64)] = 2
    synthesis_lane: Name = "schwer"
    interrupted_runs: Annotated[StrictInt, Field(ge=0, le=10)] = 3
    publish_rounds: Annotated[StrictInt, Field(ge=0, le=10)] = 3
    outage_backoff_initial_seconds: Annotated[StrictInt, Field(ge=1, le=3600)] = 60
    outage_backoff_max_seconds: Annotated[StrictInt, Field(ge=1, le=86400)] = 3600


class Lane(Section):
    """A builder lane with its one profile."""

    phase: Literal["in_umsetzung", "in_umsetzung_leicht"]
    runtime: Name
    model: ModelName | None = None
    reasoning_effort: Effort | None = None
    iteration_limit: Annotated[StrictInt, Field(ge=5, le=40)] = 20
    concurrency: Annotated[StrictInt, Field(ge=1, le=16)] = 1
    timeout_minutes: Minutes = 120


class Runtime(Section):
    """An agent program: how it is started and what of the host it may see."""

    kind: Literal["codex", "claude", "openrouter", "command"]
    command: Argv
    environment: dict[VariableName, str] = {}
    #: Environment variable of the agent program -> name of the systemd credential that holds its value.
    credentials: dict[VariableName, CredentialName] = {}
    network: StrictBool = True
    #: A run that says nothing for this long is ended as timed out.
    idle_timeout_minutes: Minutes = 30


class Queue(Section):
    """A line of jobs beside the builder queues (those come from the lanes)."""

    role: Literal["operator", "reviewer", "publish", "fixer", "inspector", "planner", "deploy"]
    runtime: Name | None = None
    model: ModelName | None = None
    reasoning_effort: Effort | None = None
    iteration_limit: Annotated[StrictInt, Field(ge=1, le=40)] = 20
    slots: Annotated[StrictInt, Field(ge=1, le=16)] = 1
    timeout_minutes: Minutes = 60


class Role(Section):
    """A role's text (packaged unless `contract` names another) and the beginnings of the commands that it may use."""

    contract: AbsolutePath | None = None
    allowed_commands: tuple[CommandPrefix, ...] = ()


class Repository(Section):
    """A configured checkout: where it lives and what must hold for a commit in it."""

    remote_url: Line
    branch: Branch | None = None
    #: The key that may push; only publish units are given it.
    credential: CredentialName | None = None
    #: A key that may only read, for every other unit.  Left out, they fetch without a key.
    fetch_credential: CredentialName | None = None
    known_hosts: AbsolutePath | None = None
    checks: tuple[Argv, ...] = ()
    check_timeout_minutes: Minutes = 60
    check_network: StrictBool = False
    nix_daemon: StrictBool = False
    deploy: StrictBool = False
    protected_paths: tuple[InsidePath, ...] = ()


class Repair(Section):
    """How often a Fixer may run by itself, and how often at all for one card."""

    automatic_rounds: Annotated[StrictInt, Field(ge=0, le=10)] = 0
    budget: Annotated[StrictInt, Field(ge=0, le=20)] = 3


class Split(Section):
    """Whether a card that ran into its limit on its last attempt is split without being asked."""

    automatic: StrictBool = False


class Deploy(Section):
    """The one host that is deployed to, and what must hold before and after."""

    host: HostName = "blunix"
    locked_hosts: tuple[HostName, ...] = ("tnix", "pinix")
    repository: Name | None = None
    automatic: StrictBool = True
    gate: Literal["review", "owner", "commit"] = "review"
    window: Annotated[str, AfterValidator(_window)] | None = None
    health_checks: tuple[Argv, ...] = ()
    health_timeout_seconds: Annotated[StrictInt, Field(ge=1, le=3600)] = 60
    rollback: StrictBool = True
    timeout_minutes: Minutes = 60


class Notifications(Section):
    """Whom to tell (an Apprise URL list, as a credential) and about what."""

    credential: CredentialName | None = None
    events: tuple[NotificationEvent, ...] = get_args(NotificationEvent)


def _default_lanes() -> dict[str, Lane]:
    profile = {"runtime": "codex", "model": "gpt-5.6-luna", "reasoning_effort": "none"}
    return {
        "schwer": Lane.model_validate({"phase": "in_umsetzung", **profile, "iteration_limit": 20}),
        "leicht": Lane.model_validate({"phase": "in_umsetzung_leicht", **profile, "iteration_limit": 10}),
    }


def _default_pools() -> dict[str, tuple[str, ...]]:
    return {
        "codex": ("gpt-6-astra", "gpt-5.6-sol", "gpt-5.6-terra", "gpt-5.6-luna"),
        "claude": ("sonnet", "opus", "haiku"),
        "openrouter": (
            "moonshotai/kimi-k2-thinking",
            "deepseek/deepseek-v3.2",
            "cohere/north-mini-code:free",
            "nvidia/nemotron-3-super-120b-a12b:free",
        ),
    }


def _default_runtimes() -> dict[str, Runtime]:
    return {"codex": Runtime(kind="codex", command=("codex",), credentials={"OPENAI_API_KEY": "openai-api-key"})}


def _default_queues() -> dict[str, Queue]:
    model = {"runtime": "codex", "model": "gpt-5.6-sol", "reasoning_effort": "medium"}
    return {
        name: Queue.model_validate({"role": role, **({} if name in SNAPSHOT_QUEUES | TRUSTED_QUEUES else model)})
        for name, role in QUEUE_ROLES.items()
    }


class BoardConfig(Section):
    """The whole file.  Load it with `load`, which also checks one table against another."""

    board: Board
    limits: Limits = Field(default_factory=Limits)
    scheduler: Scheduler = Field(default_factory=Scheduler)
    lanes: dict[Name, Lane] = Field(default_factory=_default_lanes, min_length=1)
    model_pools: dict[Name, Annotated[tuple[ModelName, ...], Field(min_length=1)]] = Field(
        default_factory=_default_pools
    )
    runtimes: dict[Name, Runtime] = Field(default_factory=_default_runtimes, min_length=1)
    queues: dict[Name, Queue] = Field(default_factory=_default_queues)
    roles: dict[Name, Role] = {}
    repositories: dict[Name, Repository] = {}
    repair: Repair = Field(default_factory=Repair)
    split: Split = Field(default_factory=Split)
    deploy: Deploy = Field(default_factory=Deploy)
    notifications: Notifications = Field(default_factory=Notifications)

    @property
    def state_dir(self) -> Path:
        return self.board.state_dir

    @property
    def intent_dir(self) -> Path:
        """Where intents are projected to: `[board] intent_dir`, else `intents` in the state directory."""
        return self.board.intent_dir or self.state_dir / "intents"

    @property
    def database_url(self) -> str:
        """SQLAlchemy URL of the store: `[board] database`, else `board.sqlite3` in the state directory."""
        return self.board.database or f"sqlite:///{self.state_dir}/board.sqlite3"

    def lane_queue(self, lane: str) -> str:
        """The name of the queue that serves a lane."""
        return f"builder-{lane}"

    def queue_slots(self) -> dict[str, int]:
        """Every queue with its number of slots, the builder queues first."""
        builders = {self.lane_queue(name): lane.concurrency for name, lane in self.lanes.items()}
        return builders | {name: queue.slots for name, queue in self.queues.items()}

    def effort_fits(self, runtime: str, effort: str) -> bool:
        """Whether the runtime takes this reasoning effort (see EFFORTS)."""
        efforts = EFFORTS[self.runtimes[runtime].kind]
        return effort in efforts if efforts is not None else _is_effort(effort) is not None


def default_path() -> Path:
    """`$INTENT_BOARD_CONFIG`, else the file that the NixOS module writes."""
    return Path(os.environ.get(PATH_VARIABLE) or DEFAULT_PATH)


def load(path: Path | str) -> BoardConfig:
    """Read and check one board.toml.

    Returns the whole configuration.  Raises ConfigError, which names every fault of the file at once, when it
    is missing, unreadable, not TOML, or wrong in a table or between tables.
    """
    path = Path(path)
    try:
        raw = tomllib.loads(path.read_bytes().decode())
    except OSError as error:
        reason = f"cannot be read ({error.strerror}); name one that you can read with --config or ${PATH_VARIABLE}"
        raise ConfigError(path, [reason]) from None
    except (ValueError, RecursionError) as error:
        # Not only TOML's own error: a text that is not UTF-8, or a number of thousands of digits, is a ValueError.
        raise ConfigError(path, [f"is not TOML: {error}"]) from None
    return parse(raw, path)


def parse(raw: Mapping[str, Any], path: Path = Path("board.toml")) -> BoardConfig:
    """Check values that are already read.  `path` only serves the messages.  Raises ConfigError like `load`."""
    try:
        config = BoardConfig.model_validate(dict(raw))
    except ValidationError:
        raise ConfigError(path, _faults(raw)) from None
    if faults := _crossed(config.__dict__):
        raise ConfigError(path, faults)
    return config


def _faults(raw: Mapping[str, Any]) -> list[str]:
    """Every fault of a file that is not valid, table by table, so that the valid ones still meet the cross-checks."""
    parts: dict[str, Any] = {}
    unknown = [key for key in raw if key not in BoardConfig.model_fields]
    faults = [f"{_named(key)}: there is no such table; remove it or correct its name" for key in unknown]
    if "board" not in raw:
        faults.append("board: the table is missing; it must name at least the owner")
    for key in BoardConfig.model_fields:
        if key in raw:
            _collect(key, raw[key], parts, faults)
        elif key != "board":
            parts[key] = BoardConfig.model_fields[key].get_default(call_default_factory=True, validated_data={})
    return faults + _crossed(parts)


def _crossed(parts: Mapping[str, Any]) -> list[str]:
    return [f"{key}: {reason}" for check in _CROSS_CHECKS for key, reason in check(parts)]


def _collect(key: str, value: Any, parts: dict[str, Any], faults: list[str]) -> None:
    """Validate one table; of a table of tables each valid entry stays, so that the cross-checks see it."""
    try:
        parts[key] = _adapter(key).validate_python(value)
        return
    except ValidationError as error:
        faults += [_sentence(key, part) for part in error.errors(include_url=False)]
    if not (isinstance(value, dict) and key in {"lanes", "runtimes", "queues", "roles", "repositories", "model_pools"}):
        return
    parts[key] = {}
    for name, entry in value.items():
        try:
            parts[key] |= _adapter(key).validate_python({name: entry})
        except ValidationError:
            parts[key][name] = None  # present, but with faults of its own that are already listed


def _adapter(key: str) -> TypeAdapter[Any]:
    field = BoardConfig.model_fields[key]
    annotated: Any = Annotated[field.annotation, *field.metadata] if field.metadata else field.annotation
    return TypeAdapter(annotated)


#: What pydantic finds, said about TOML; what is missing here is said in a validator's own words.
_SENTENCES: Mapping[str, str] = {
    "string_type": "must be a text",
    "int_type": "must be a whole number",
    "bool_type": "must be true or false",
    "tuple_type": "must be a list",
    "dict_type": "must be a table",
    "model_type": "must be a table",
    "path_type": "must be a text",
    "too_short": "must have at least {min_length} entry",
    "string_too_short": "must not be empty",
    "string_too_long": "must have at most {max_length} characters",
    "string_pattern_mismatch": "must match {pattern}",
    "greater_than_equal": "must be at least {ge}",
    "less_than_equal": "must be at most {le}",
    "literal_error": "must be one of {expected}",
}


def _sentence(key: str, error: Any) -> str:
    where = ".".join(_named(part) for part in (key, *error["loc"]) if part != "[key]")
    if error["type"] == "extra_forbidden":
        return f"{where}: there is no such key; remove it or correct its name"
    if error["type"] == "missing":
        return f"{where}: is missing"
    if template := _SENTENCES.get(error["type"]):
        plain = template.format_map(error.get("ctx", {}))
    else:
        plain = error["msg"].removeprefix("Value error, ")
    return f"{where}: {plain} (got {str(error['input'])[:80]!r})"


def _named(part: object) -> str:
    """A key for a message; one that would break the line is quoted."""
    text = str(part)
    return text if text.isprintable() else repr(text)


Fault = tuple[str, str]


def _profiles(parts: Mapping[str, Any]) -> Iterator[Fault]:
    runtimes, pools = parts.get("runtimes") or {}, parts.get("model_pools") or {}
    users = [(f"lanes.{name}", lane) for name, lane in (parts.get("lanes") or {}).items()]
    users += [(f"queues.{name}", queue) for name, queue in (parts.get("queues") or {}).items()]
    for key, user in users:
        if user is None or user.runtime is None:
            continue
        if user.runtime not in runtimes:
            known = ", ".join(sorted(runtimes)) or "none"
            reason = f"there is no runtime {user.runtime!r}; declare it under runtimes or use one of: {known}"
            yield f"{key}.runtime", reason
            continue
        runtime = runtimes[user.runtime]
        pool = pools.get(user.runtime, ())
        if user.model is not None and pool is not None and user.model not in pool:
            pool = f"model_pools.{user.runtime}"
            yield f"{key}.model", f"{user.model!r} is not in {pool}; add it there or choose one of that pool"
        if runtime is None:
            continue
        if user.model is None and runtime.kind != "command":
            yield f"{key}.model", f"runtime {user.runtime!r} needs a model; choose one of model_pools.{user.runtime}"
        efforts = EFFORTS[runtime.kind]
        if user.reasoning_effort is not None and efforts is not None and user.reasoning_effort not in efforts:
            known = ", ".join(sorted(efforts))
            reason = f"{runtime.kind} takes no effort {user.reasoning_effort!r}; use one of: {known}"
            yield f"{key}.reasoning_effort", reason


def _pools(parts: Mapping[str, Any]) -> Iterator[Fault]:
    for name, pool in (parts.get("model_pools") or {}).items():
        if pool is not None and len(set(pool)) != len(pool):
            yield f"model_pools.{name}", "names a model twice; keep one"


def _bounds(parts: Mapping[str, Any]) -> Iterator[Fault]:
    limits, scheduler = parts.get("limits"), parts.get("scheduler")
    if limits and limits.iteration_limit_min > limits.iteration_limit_max:
        yield "limits.iteration_limit_min", "is above limits.iteration_limit_max; lower it"
    lanes = parts.get("lanes") or {}
    for name, lane in lanes.items():
        if limits and lane and not limits.iteration_limit_min <= lane.iteration_limit <= limits.iteration_limit_max:
            bounds = f"{limits.iteration_limit_min} to {limits.iteration_limit_max}"
            yield f"lanes.{name}.iteration_limit", f"{lane.iteration_limit} is outside limits ({bounds})"
    if scheduler and lanes and scheduler.synthesis_lane not in lanes:
        known = ", ".join(sorted(lanes))
        yield "scheduler.synthesis_lane", f"there is no lane {scheduler.synthesis_lane!r}; use one of: {known}"
    if scheduler and scheduler.outage_backoff_initial_seconds > scheduler.outage_backoff_max_seconds:
        yield "scheduler.outage_backoff_initial_seconds", "is above scheduler.outage_backoff_max_seconds; lower it"


def _queues(parts: Mapping[str, Any]) -> Iterator[Fault]:
    queues = parts.get("queues")
    if queues is None:
        return
    for name in QUEUE_ROLES:
        if name not in queues:
            yield f"queues.{name}", "is missing; a board needs every one of: " + ", ".join(QUEUE_ROLES)
    for name, queue in queues.items():
        if name.startswith("builder"):
            yield f"queues.{name}", "builder queues come from the lanes; set lanes.<name>.concurrency instead"
        elif name not in QUEUE_ROLES:
            yield f"queues.{name}", f"there is no such queue; the queues are: {', '.join(QUEUE_ROLES)}"
        elif queue is not None and queue.role != QUEUE_ROLES[name]:
            yield f"queues.{name}.role", f"must be {QUEUE_ROLES[name]!r}, the role that serves this queue"
        elif queue is not None and name in SNAPSHOT_QUEUES | TRUSTED_QUEUES:
            why = "uses the attempt's own profile" if name in SNAPSHOT_QUEUES else "runs no model"
            for field in ("runtime", "model", "reasoning_effort"):
                if getattr(queue, field) is not None:
                    yield f"queues.{name}.{field}", f"must be left out: this queue {why}"
        elif queue is not None and queue.runtime is None:
            yield f"queues.{name}.runtime", "is missing; name one of runtimes"


def _roles(parts: Mapping[str, Any]) -> Iterator[Fault]:
    for name in parts.get("roles") or {}:
        if name not in MODEL_ROLES:
            yield f"roles.{name}", f"there is no such role; the roles are: {', '.join(MODEL_ROLES)}"


_TRANSPORTS = frozenset({"file", "ssh", "git+ssh", "ssh+git", "https", "http", "git"})


def _wrong_remote(url: str) -> str | None:
    # A helper's name is made of letters; in `git@[::1]:path` the colons are the host's.
    if url.startswith("-") or re.match(r"[A-Za-z0-9+.-]*::", url):
        return "must not be an option or a git remote helper"
    # This file is readable by everybody; a secret reaches a process as a systemd credential.
    if re.match(r"[a-z+]+://[^/@]*:[^/]*@", url):
        return "must not hold a password; set the repository's credential instead"
    transport = re.match(r"([A-Za-z][A-Za-z0-9+.-]*)://", url)
    # git knows them in small letters alone.
    if transport and transport[1] not in _TRANSPORTS:
        return f"has the transport {transport[1]!r}, which is not supported; use ssh, https or a path"
    is_path = transport[1] == "file" if transport else ":" not in url.split("/")[0]
    # Any other path would be looked for wherever a process happens to start.
    if is_path and not url[transport.end() if transport else 0 :].startswith("/"):
        return "must be an absolute path"
    return None


def _unprotected(url: str) -> bool:
    """Whether everybody on the way would see a secret that is sent to this address."""
    address = re.match(r"(?:http|git)://(?:[^/@]*@)?(\[[^]/]*\]|[^/:]*)", url.lower())
    return address is not None and address[1] not in {"localhost", "127.0.0.1", "[::1]"}


def _place(url: str) -> str:
    """One spelling for the many of one place: `host:path` is `ssh://host/path`, a path is a `file` URL."""
    if found := re.fullmatch(r"([^/:]+):(?!//)(.*)", url):
        url = f"ssh://{found[1]}/{found[2]}"
    url = re.sub(r"(?<!:)/(?:\.?/)+", "/", url.removeprefix("file://"))
    return re.sub(r"(?:/\.?)+$", "", url).removesuffix(".git")


def _repositories(parts: Mapping[str, Any]) -> Iterator[Fault]:
    repositories, board = parts.get("repositories") or {}, parts.get("board")
    seen: dict[str, str] = {}
    for name, repository in repositories.items():
        if repository is None:
            continue
        if reason := _wrong_remote(repository.remote_url):
            yield f"repositories.{name}.remote_url", reason
        for key in ("credential", "fetch_credential"):
            if getattr(repository, key) is not None and _unprotected(repository.remote_url):
                yield f"repositories.{name}.{key}", "would be sent unprotected to remote_url; use https there"
        place = _place(repository.remote_url)
        if place in seen:
            twin = f"repositories.{seen[place]}"
            yield f"repositories.{name}.remote_url", f"is the same place as {twin}; keep one of them"
        seen.setdefault(place, name)
    if board and board.default_repository and board.default_repository not in repositories:
        reason = f"there is no repository {board.default_repository!r}; declare it under repositories"
        yield "board.default_repository", reason


def _deploy(parts: Mapping[str, Any]) -> Iterator[Fault]:
    deploy, repositories = parts.get("deploy"), parts.get("repositories") or {}
    if deploy is None:
        return
    # Host names compare without case, as DNS does.
    if deploy.host.lower() in {host.lower() for host in (*deploy.locked_hosts, "tnix", "pinix")}:
        yield "deploy.host", f"{deploy.host!r} is a locked host and is never deployed to; name another host"
    if deploy.repository is not None and deploy.repository not in repositories:
        yield "deploy.repository", f"there is no repository {deploy.repository!r}; declare it under repositories"
    for name, repository in repositories.items():
        if repository is not None and repository.deploy and name != deploy.repository:
            reason = "is true, but deploy.repository names another one; set it there or to false"
            yield f"repositories.{name}.deploy", reason


_CROSS_CHECKS: tuple[Callable[[Mapping[str, Any]], Iterator[Fault]], ...] = (
    _profiles, _pools, _bounds, _queues, _roles, _repositories, _deploy,
)  # fmt: skip


def to_toml(config: BoardConfig) -> str:
    """The configuration as a complete TOML text that loads back to equal values."""
    import tomli_w  # only `board config` writes TOML

    return tomli_w.dumps(config.model_dump(mode="json", exclude_none=True))


def example() -> BoardConfig:
    """A complete configuration with the module's defaults, for `board config example`."""
    return parse(
        {
            "board": {"owner": "lukas", "default_repository": "nixos-config"},
            "repositories": {
                "nixos-config": {
                    "remote_url": "ssh://git@forge.example.org/lukas/nixos-config.git",
                    "branch": "main",
                    "checks": [["nix", "flake", "check", "--no-update-lock-file"]],
                    "nix_daemon": True,
                    "deploy": True,
                    "protected_paths": ["hosts/blunix/intent-board.nix", "flake.lock"],
                }
            },
            "deploy": {"repository": "nixos-config", "gate": "owner"},
        }
    )
