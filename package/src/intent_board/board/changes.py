"""What each row of the table does: a card and the facts in, effects out.  `states.TABLE` says when.

The words in comments such as "row: IU limit" point at the rows of docs/states.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from intent_board.board import ladder
from intent_board.board.model import (
    BUILDING,
    FINAL,
    NEXT_LINE,
    SUCCESS,
    AddReview,
    Attach,
    CancelJobs,
    Card,
    CloseRoute,
    CreateCard,
    CreateJob,
    Effect,
    Facts,
    Happen,
    KeepRef,
    Kind,
    Notify,
    Phase,
    Profile,
    Refused,
    ReplaceIntent,
    Rung,
    Status,
    UpdateCard,
)
from intent_board.config import BoardConfig
from intent_board.contracts.scope import matches

#: The actor of everything that trusted code does by itself.
TRUSTED = "board"
#: Long texts that have a place of their own (intents, reviews, attachments) and would only swell the audit.
NOT_FOR_THE_AUDIT = frozenset({"intent", "children", "report", "findings", "diff", "checks", "title", "evidence"})

Change = Callable[[Card, Facts], list[Effect]]


# --- small pieces ----------------------------------------------------------------------------------------------


def _update(card: Card, phase: Phase | None = None, status: Status | None = None, **values: Any) -> UpdateCard:
    if phase is not None:
        values["phase"] = phase
    if status is not None:
        values["status"] = status
    return UpdateCard(card.slug, card.phase, values)


def _job(card: Card, role: str, queue: str, snapshot: Mapping[str, Any], *, round: int | None = None) -> CreateJob:
    """The next job of a role for a card.  Its attempt comes from the card as it was read, so that deciding twice
    from one state makes the same key, which is unique."""
    attempt = card.attempts.get(role, 0) + 1
    return CreateJob(card.slug, role, queue, attempt, card.round if round is None else round, dict(snapshot))


def _reason(facts: Facts, default: str) -> str:
    return str(facts.data.get("reason") or default)


def _attach(card: Card, facts: Facts, kind: str, key: str) -> list[Effect]:
    data = facts.data.get(key)
    return [Attach(card.slug, kind, data, facts.job.id if facts.job else None)] if data else []


def _no_relative(card: Card, what: str) -> None:
    # CONTRACTS.md: a card that has a parent is never sent to the Operator and never split.
    if card.parent is not None:
        raise Refused(f"{card.slug}: belongs to {card.parent} and can't be {what}; use retry or repair")


def _no_family(card: Card, facts: Facts, what: str) -> None:
    # A second plan beside the children of the first would be taken for finished with theirs.
    if facts.children:
        raise Refused(f"{card.slug}: has children, so it can't be {what}; use board retry, or board archive it")


def _job_snapshot(facts: Facts) -> Mapping[str, Any]:
    if facts.job is None:
        raise Refused("this event is the result of a job, and no job was named")
    return facts.job.snapshot


def nothing(card: Card, facts: Facts) -> list[Effect]:
    """Only the audit remembers it."""
    return []


# --- arrival ---------------------------------------------------------------------------------------------------


def new_card(facts: Facts) -> Card:
    """A card that does not exist yet.

    `facts.data` holds `slug, title, repository, requester, acceptance_criteria, warnings` of the intent, and the
    submitter's wishes `lane, iterations, write_scope` where there are any.
    """
    data = facts.data
    return Card(
        slug=data["slug"],
        title=data["title"],
        repository=data["repository"],
        requester=data["requester"],
        phase=Phase.OPERATOR_PRUEFUNG,
        status=Status.QUEUED,
        lane=data.get("lane"),
        iterations=data.get("iterations"),
        write_scope=tuple(data.get("write_scope") or ()),
        acceptance_criteria=tuple(data.get("acceptance_criteria") or ()),
        branch=facts.config.repositories[data["repository"]].branch,
        warnings=tuple(data.get("warnings") or ()),
    )


def submit_by_owner(card: Card, facts: Facts) -> list[Effect]:
    return [CreateCard(card, facts.intent), _job(card, "operator", "operator", {})]


def submit_by_other(card: Card, facts: Facts) -> list[Effect]:
    waiting = replace(card, phase=Phase.STARTFREIGABE, status=Status.QUEUED)
    text = f"{card.requester} asks for: {card.title}. board accept {card.slug} or board decline {card.slug}"
    return [CreateCard(waiting, facts.intent), Notify("approval_wanted", card.slug, text)]


def _by_hand(card: Card, facts: Facts) -> dict[str, Any]:
    lane = facts.data.get("lane") or card.lane or next(iter(facts.config.lanes))
    if lane not in facts.config.lanes:
        raise Refused(f"{card.slug}: there is no lane {lane!r}; use one of: {', '.join(facts.config.lanes)}")
    profile = lane_profile(facts.config, lane, facts.data.get("iterations") or card.iterations)
    return {"lane": lane, "profile": profile, "ladder": None, "rung": 0, "line": NEXT_LINE, "by_hand": True}


def create_by_hand(card: Card, facts: Facts) -> list[Effect]:
    card = replace(card, phase=Phase.GEPLANT, status=Status.WAITING_FOR_BUILDER)
    return [CreateCard(replace(card, **_by_hand(card, facts)), facts.intent)]


def build_by_hand(card: Card, facts: Facts) -> list[Effect]:
    values = _by_hand(card, facts)
    return [_update(card, Phase.GEPLANT, Status.WAITING_FOR_BUILDER, reason="", human_action=None, **values)]


def lane_profile(config: BoardConfig, lane: str, iterations: int | None = None) -> Profile:
    """The profile of a lane, with the submitter's iteration limit in place of the lane's where one was asked for."""
    it = config.lanes[lane]
    return Profile(it.runtime, it.model, it.reasoning_effort, iterations or it.iteration_limit)


def to_operator(card: Card, facts: Facts) -> list[Effect]:
    _no_relative(card, "sent to the Operator")
    return [
        _update(card, Phase.OPERATOR_PRUEFUNG, Status.QUEUED, reason="", human_action=None, question=None),
        _job(card, "operator", "operator", {}),
    ]


def decline(card: Card, facts: Facts) -> list[Effect]:
    reason = _reason(facts, f"declined by {facts.actor}")
    text = f"{card.title}: declined. {reason}"
    return [
        _update(card, Phase.ARCHIVIERT, Status.CANCELLED, reason=reason),
        Notify("approval_wanted", card.slug, text, to_requester=True),
    ]


# --- the Operator's answer -------------------------------------------------------------------------------------


def _rungs(ladder_data: Sequence[Mapping[str, Any]] | None) -> tuple[Rung, ...] | None:
    if ladder_data is None:
        return None
    return tuple(Rung(rung["model"], rung["reasoning_effort"], rung["iteration_limit"]) for rung in ladder_data)


def operator_direct(card: Card, facts: Facts) -> list[Effect]:
    lane = facts.data["lane"]
    if lane not in facts.config.lanes:
        return operator_failed("failed")(card, with_reason(facts, f"there is no lane {lane!r} any more"))
    values = {
        "lane": lane,
        "profile": lane_profile(facts.config, lane, card.iterations),
        "ladder": _rungs(facts.data.get("escalation")),
        "rung": 0,
        "line": NEXT_LINE,
        "reason": _reason(facts, ""),
    }
    return [_update(card, Phase.GEPLANT, Status.WAITING_FOR_BUILDER, **values)]


def operator_split(card: Card, facts: Facts) -> list[Effect]:
    """All or nothing: a slug that is taken makes the answer invalid, and no child exists."""
    if card.parent is not None:
        reason = f"the card belongs to {card.parent} and is never split"
        return operator_failed("failed")(card, with_reason(facts, reason))
    if facts.taken:
        reason = "the answer names slugs that are taken: " + ", ".join(sorted(facts.taken))
        return operator_failed("failed")(card, with_reason(facts, reason))
    children = [_child(card, facts, child) for child in facts.data["children"]]
    return [*_become_parent(card, facts), *children]


def _become_parent(card: Card, facts: Facts) -> list[Effect]:
    reason = _reason(facts, "")
    return [_update(card, Phase.WARTET_AUF_KINDER, Status.SUCCEEDED, kind=Kind.PARENT, reason=reason, line=None)]


def _child(parent: Card, facts: Facts, data: Mapping[str, Any]) -> CreateCard:
    blocked_by = tuple(data.get("blocked_by") or ())
    card = Card(
        slug=data["slug"],
        title=data["title"],
        repository=parent.repository,
        requester=parent.requester,
        phase=Phase.GEPLANT,
        status=Status.WAITING_FOR_BUILDER,
        kind=Kind.CHILD,
        parent=parent.slug,
        lane=data["lane"],
        profile=lane_profile(facts.config, data["lane"]),
        ladder=_rungs(data.get("escalation")),
        line=None if blocked_by else NEXT_LINE,
        wave=data.get("wave"),
        blocked_by=blocked_by,
        write_scope=tuple(data["write_scope"]),
        acceptance_criteria=tuple(data["acceptance_criteria"]),
        branch=parent.branch,
        warnings=tuple(data.get("warnings") or ()),
    )
    return CreateCard(card, data["intent"])


def operator_needs_human(card: Card, facts: Facts) -> list[Effect]:
    action = str(facts.data["human_action"])
    return [
        _update(
            card,
            Phase.OPERATOR_KLAERUNG,
            Status.SUCCEEDED,
            reason=_reason(facts, ""),
            human_action=action,
            asked_by="operator",
        ),
        Notify("needs_human", card.slug, f"{card.title}: {action}"),
    ]


def operator_failed(status: str) -> Change:
    """Row OP: nothing was created; a person looks.  There is no ladder for the Operator."""

    def change(card: Card, facts: Facts) -> list[Effect]:
        reason = _reason(facts, "the Operator's run came to nothing")
        action = f"read board show {card.slug}, then board retry {card.slug}"
        return [
            _update(card, Phase.OPERATOR_KLAERUNG, Status(status), reason=reason, human_action=action, asked_by=None),
            Notify("needs_human", card.slug, f"{card.title}: {reason}"),
        ]

    return change


def answer_operator(card: Card, facts: Facts) -> list[Effect]:
    return [*_attach(card, facts, "answer", "answer"), *to_operator(card, facts)]


def replan(card: Card, facts: Facts) -> list[Effect]:
    """Row: submit --replace, or route replan applied: a new Operator job, with the findings attached."""
    _no_relative(card, "sent to the Operator")
    _no_family(card, facts, "sent to the Operator again")
    values: dict[str, Any] = {"rung": 0, "round": card.round + 1, "line": None, "by_hand": False, "kind": Kind.ORDINARY}
    values |= {"reason": "", "human_action": None, "question": None, "asked_by": None}
    if facts.data.get("title"):
        values |= {
            "title": facts.data["title"],
            "acceptance_criteria": tuple(facts.data.get("acceptance_criteria") or ()),
        }
    return [
        # A job of the plan that is given up must not end in the next one.
        CancelJobs(card.slug),
        *_attach(card, facts, "findings", "findings"),
        *([ReplaceIntent(card.slug, facts.data["intent"])] if facts.data.get("intent") else []),
        _update(card, Phase.OPERATOR_PRUEFUNG, Status.QUEUED, **values),
        _job(card, "operator", "operator", {}, round=card.round + 1),
    ]


# --- building --------------------------------------------------------------------------------------------------


def ready(card: Card, facts: Facts) -> list[Effect]:
    """The dependencies are good: the card takes its place in line."""
    return [_update(card, line=NEXT_LINE)]


def dispatch(card: Card, facts: Facts) -> list[Effect]:
    lane = facts.config.lanes.get(card.lane or "")
    if lane is None or card.lane is None:
        return fault(card, with_reason(facts, f"lane {card.lane!r} is not configured any more"))
    profile = ladder.profile_of_attempt(card)
    snapshot = {"profile": asdict(profile), "rung": card.rung, "lane": card.lane}
    return [
        _update(card, Phase(lane.phase), Status.QUEUED, reason=""),
        _job(card, "builder", facts.config.lane_queue(card.lane), snapshot),
    ]


def _review_job(card: Card, facts: Facts, snapshot: Mapping[str, Any]) -> CreateJob:
    return _job(card, "reviewer", "review", {**snapshot, "nonce": facts.nonce})


def built(card: Card, facts: Facts) -> list[Effect]:
    """Row IU done: in scope, and the checks of the commit came out 0; trusted code has seen both."""
    commit, base = facts.data["commit"], facts.data["base"]
    values = {"commit": commit, "base": base, "branch": facts.data["branch"], "reviewed": None, "released": None}
    if needs_no_review(card, facts.config) and not _protected(card, facts):
        publish = _job(card, "publish", "publish", {"commit": commit, "base": base})
        return [_update(card, Phase.IN_REVIEW, Status.QUEUED, **values), publish]
    snapshot = _evidence(facts)
    return [_update(card, Phase.IN_REVIEW, Status.QUEUED, **values), _review_job(card, facts, snapshot)]


def needs_no_review(card: Card, config: BoardConfig) -> bool:
    """Gate `commit` is for the owner's own direct builds alone."""
    own = card.by_hand and card.requester == config.board.owner and card.kind is Kind.ORDINARY
    return config.deploy.gate == "commit" and own


def _protected(card: Card, facts: Facts) -> bool:
    """Whether the commit touches a path that waits for the owner's release, whoever owns the card: such a commit goes
    by the review to its gate, also where gate `commit` would have published it at once."""
    repository = facts.config.repositories.get(card.repository)
    patterns = repository.protected_paths if repository else ()
    return any(matches(patterns, path) for path in facts.data.get("paths") or ())


def _evidence(facts: Facts) -> dict[str, Any]:
    """A review's order: the attempt's profile and what trusted code saw of the commit."""
    snapshot = {"profile": _job_snapshot(facts)["profile"]}
    for key in ("commit", "base", "branch", "checks", "summary", "paths"):
        snapshot[key] = facts.data.get(key)
    return snapshot


def build_limit(card: Card, facts: Facts) -> list[Effect]:
    report = _attach(card, facts, "interim_report", "report")
    reason = _reason(facts, "the iteration limit was reached")
    if card.rung < len(ladder.rungs(card)):
        # The place in line is kept: a card on its ladder does not start to wait anew.
        return [*report, _update(card, Phase.GEPLANT, Status.WAITING_FOR_BUILDER, rung=card.rung + 1, reason=reason)]
    return [
        *report,
        _update(card, Phase.KLAERUNG_REPARATUR, Status.LIMIT_REACHED, reason=reason),
        Notify("limit_reached", card.slug, f"{card.title}: {reason}, and no further attempt is left"),
        *_automatic_split(card, facts),
    ]


def _automatic_split(card: Card, facts: Facts) -> list[Effect]:
    if not facts.config.split.automatic or card.parent is not None:
        return []
    return [_job(card, "planner", "split", {})]


def build_stopped(status: str) -> Change:
    """Rows IU: wall clock, outside scope, check, secret, invalid answer, agent failed."""

    def change(card: Card, facts: Facts) -> list[Effect]:
        reason = _reason(facts, f"the build ended as {status}")
        values: dict[str, Any] = {"reason": reason}
        if facts.data.get("commit"):  # a commit whose checks failed: what a Fixer would start from
            values |= {key: facts.data.get(key) for key in ("commit", "base", "branch")}
        return [
            *_attach(card, facts, "interim_report", "report"),
            *_attach(card, facts, "findings", "findings"),
            _update(card, Phase.KLAERUNG_REPARATUR, Status(status), **values),
            Notify("failed", card.slug, f"{card.title}: {reason}"),
        ]

    return change


def needs_input(asked_by: str) -> Change:
    """A question of a Builder, a Fixer, or (route ask_human) an Inspector."""

    def change(card: Card, facts: Facts) -> list[Effect]:
        question = str(facts.data["question"])
        action = facts.data.get("required_action")
        # An Inspector's question may come while a repair is under way, which then waits for the answer too.
        stop: list[Effect] = [CancelJobs(card.slug)] if asked_by == "inspector" else []
        return [
            *stop,
            _update(
                card,
                Phase.KLAERUNG_REPARATUR,
                Status.NEEDS_INPUT,
                question=question,
                asked_by=asked_by,
                human_action=action,
                reason=f"the {asked_by} asks: {question}",
            ),
            Notify("question", card.slug, f"{card.title}: the {asked_by} asks: {question}"),
            Notify("question", card.slug, f"{card.title}: the {asked_by} asks: {question}", to_requester=True),
        ]

    return change


def no_changes(card: Card, facts: Facts) -> list[Effect]:
    if card.kind is not Kind.SYNTHESIS:
        return build_stopped("no_changes")(card, with_reason(facts, _reason(facts, "the Builder changed nothing")))
    # A synthesis without a change reviews the branch as the children left it; that hash is its commit.
    return built(card, facts)


# --- review ----------------------------------------------------------------------------------------------------


def _publish_job(card: Card, snapshot: Mapping[str, Any]) -> CreateJob:
    keep = {key: snapshot.get(key) for key in ("profile", "commit", "base", "branch", "checks", "summary", "paths")}
    return _job(card, "publish", "publish", keep)


def _same_commit(card: Card, facts: Facts) -> str:
    commit = str(facts.data["commit"])
    if commit != card.commit:
        raise Refused(f"{card.slug}: the answer is about {commit}, but the card's commit is {card.commit}")
    return commit


def approved(card: Card, facts: Facts) -> list[Effect]:
    commit = _same_commit(card, facts)
    job_id = facts.job.id if facts.job else 0
    review = AddReview(card.slug, job_id, commit, "bereit_fuer_deployment", facts.data["report"])
    protected = tuple(facts.data.get("protected") or ())
    foreign = card.requester != facts.config.board.owner
    if (foreign or protected) and card.released != commit:
        why = "touches protected paths: " + ", ".join(protected) if protected else f"was asked for by {card.requester}"
        text = f"{card.title}: approved, {why}. board release {card.slug} or board discard {card.slug}"
        reason = f"waits for the owner's release: the commit {why}"
        return [
            review,
            _update(card, Phase.COMMITFREIGABE, Status.SUCCEEDED, reviewed=commit, reason=reason),
            Notify("approval_wanted", card.slug, text),
        ]
    return [
        review,
        _update(card, Phase.IN_REVIEW, Status.QUEUED, reviewed=commit, reason=""),
        _publish_job(card, _job_snapshot(facts)),
    ]


def negative(card: Card, facts: Facts) -> list[Effect]:
    commit = _same_commit(card, facts)
    job_id = facts.job.id if facts.job else 0
    review = AddReview(card.slug, job_id, commit, "planung_mit_feedback", facts.data["report"])
    reason = _reason(facts, "the review was negative")
    left = card.automatic_repairs < facts.config.repair.automatic_rounds and card.repairs < facts.config.repair.budget
    phase, status = (
        (Phase.KLAERUNG_REPARATUR, Status.QUEUED) if left else (Phase.PLANUNG_MIT_FEEDBACK, Status.SUCCEEDED)
    )
    values: dict[str, Any] = {"reviewed": None, "reason": reason}
    if left:
        values |= {"repairs": card.repairs + 1, "automatic_repairs": card.automatic_repairs + 1}
    return [
        review,
        _update(card, phase, status, **values),
        Notify("negative_review", card.slug, f"{card.title}: {reason}"),
        *([_repair_job(card, _job_snapshot(facts))] if left else []),
    ]


def review_invalid(card: Card, facts: Facts) -> list[Effect]:
    """A missing, invalid or void review approves nothing: one fresh review, then a person."""
    reason = _reason(facts, "there is no valid review")
    snapshot = _job_snapshot(facts)
    if not snapshot.get("second"):
        return [_update(card, reason=reason), _review_job(card, facts, {**snapshot, "second": True})]
    return [
        _update(card, Phase.KLAERUNG_REPARATUR, Status.FAILED, reason=f"not approved twice: {reason}"),
        Notify("failed", card.slug, f"{card.title}: no valid review after two tries: {reason}"),
    ]


# --- the owner's release, and publishing -----------------------------------------------------------------------


def release(card: Card, facts: Facts) -> list[Effect]:
    if card.status in (Status.QUEUED, Status.RUNNING):
        raise Refused(f"{card.slug}: {card.commit} is released already and about to be published; see board why")
    if card.commit is None or card.reviewed != card.commit:
        raise Refused(f"{card.slug}: has no reviewed commit to release; see board why {card.slug}")
    wanted = facts.data.get("commit")
    if wanted is not None and wanted != card.commit:
        raise Refused(f"{card.slug}: the commit is now {card.commit}, not {wanted}; look at it, then release that")
    return [
        Attach(card.slug, "release", {"commit": card.commit, "by": facts.actor}),
        _update(card, status=Status.QUEUED, released=card.commit, reason=""),
        _publish_job(card, _card_snapshot(card)),
    ]


def release_deployment(card: Card, facts: Facts) -> list[Effect]:
    """Gate `owner`: the owner's word on the published hash, without which it is not deployed."""
    if facts.config.deploy.gate != "owner" or not deploys(card, facts.config):
        raise Refused(f"{card.slug}: no release is wanted for it in phase {card.phase}")
    if card.released == card.commit:
        raise Refused(f"{card.slug}: {card.commit} is released already")
    released = replace(card, released=card.commit)
    return [
        Attach(card.slug, "release", {"commit": card.commit, "by": facts.actor}),
        _update(card, released=card.commit),
        *_deploy_job(released, facts.config),
    ]


def discard(card: Card, facts: Facts) -> list[Effect]:
    reason = _reason(facts, f"discarded by {facts.actor}")
    return [
        CancelJobs(card.slug),
        KeepRef(card.slug, card.commit),
        _update(card, Phase.ARCHIVIERT, Status.CANCELLED, reason=reason),
        Notify("approval_wanted", card.slug, f"{card.title}: discarded. {reason}", to_requester=True),
    ]


def deploys(card: Card, config: BoardConfig) -> bool:
    """Whether this card may start a deployment: its repository is the deployed one, and it stands for itself."""
    repository = config.repositories.get(card.repository)
    if repository is None or not repository.deploy or config.deploy.repository != card.repository:
        return False
    return card.kind not in (Kind.CHILD, Kind.SYNTHESIS)


def _deploy_job(card: Card, config: BoardConfig) -> list[Effect]:
    if not deploys(card, config) or not config.deploy.automatic:
        return []
    if config.deploy.gate == "owner" and card.released != card.commit:
        text = f"{card.title}: published. board release {card.slug} lets it be deployed"
        return [Notify("approval_wanted", card.slug, text)]
    if config.deploy.gate != "commit" and card.reviewed != card.commit:
        return []
    return [_job(card, "deploy", "deploy", {"commit": card.commit})]


def published(card: Card, facts: Facts) -> list[Effect]:
    _same_commit(card, facts)
    ready_card = replace(card, phase=Phase.BEREIT)
    return [
        _update(card, Phase.BEREIT, Status.SUCCEEDED, reason="", line=None),
        Notify("ready", card.slug, f"{card.title}: reviewed and published as {card.commit}"),
        *_deploy_job(ready_card, facts.config),
    ]


def rebased(card: Card, facts: Facts) -> list[Effect]:
    """A rebase is a new commit and needs a new review; a release survives when the patch is the same."""
    if facts.data.get("old") != card.commit:
        raise Refused(f"{card.slug}: the rebase is of {facts.data.get('old')}, but the commit is {card.commit}")
    if card.publish_rounds >= facts.config.scheduler.publish_rounds:
        reason = "the branch moved again and again; the publish rounds are used up"
        return publish_failed(card, with_reason(facts, reason))
    commit, base = facts.data["commit"], facts.data["base"]
    kept = commit if card.released == card.commit and facts.data.get("same_patch") else None
    values = {"commit": commit, "base": base, "reviewed": None, "released": kept}
    snapshot = {**_job_snapshot(facts), **{key: facts.data.get(key) for key in ("commit", "base", "checks")}}
    snapshot.pop("second", None)
    update = _update(card, Phase.IN_REVIEW, Status.QUEUED, publish_rounds=card.publish_rounds + 1, **values)
    # One that was reviewed touches a protected path, and so does its successor.
    if needs_no_review(card, facts.config) and card.reviewed is None:
        return [update, _job(card, "publish", "publish", snapshot)]
    return [update, _review_job(card, facts, snapshot)]


def publish_failed(card: Card, facts: Facts) -> list[Effect]:
    ordered = facts.job.snapshot.get("commit") if facts.job and facts.job.role == "publish" else card.commit
    if ordered != card.commit:
        raise Refused(f"{card.slug}: the job was to publish {ordered}, but the card's commit is {card.commit} by now")
    reason = _reason(facts, "it could not be published")
    return [
        *_attach(card, facts, "findings", "findings"),
        _update(card, Phase.KLAERUNG_REPARATUR, Status.PUBLISH_FAILED, reason=reason),
        Notify("failed", card.slug, f"{card.title}: {reason}"),
    ]


# --- a person's retry and answer, repair, split ----------------------------------------------------------------


def retry(card: Card, facts: Facts) -> list[Effect]:
    """A new round: the whole ladder again, reports and findings attached to the next order.

    `afresh`: the work so far is kept as a ref and given up, as after a conflict with the branch.
    """
    if facts.data.get("afresh"):
        keep: list[Effect] = [KeepRef(card.slug, card.commit)] if card.commit else []
        note = Attach(card.slug, "notes", {"afresh": card.round + 1})
        return [
            CancelJobs(card.slug),
            *keep,
            note,
            *_new_round(card, facts, commit=None, base=None, reviewed=None, released=None),
        ]
    if card.status is Status.PUBLISH_FAILED:
        return [
            CancelJobs(card.slug),
            _update(card, Phase.IN_REVIEW, Status.QUEUED, publish_rounds=0, reason=""),
            _publish_job(card, _card_snapshot(card)),
        ]
    if card.status is Status.DEPLOY_FAILED:
        return [
            _update(card, Phase.BEREIT, Status.QUEUED, reason=""),
            _job(card, "deploy", "deploy", {"commit": card.commit}),
        ]
    return [CancelJobs(card.slug), *_new_round(card, facts)]


def _new_round(card: Card, facts: Facts, **more: Any) -> list[Effect]:
    values: dict[str, Any] = {**more, "round": card.round + 1, "rung": 0, "publish_rounds": 0, "line": NEXT_LINE}
    values |= {"reason": "", "question": None, "asked_by": None, "human_action": None}
    if facts.children:
        # Its children are the work: a parent is looked at again, and never built beside them.
        return [_update(card, Phase.WARTET_AUF_KINDER, Status.SUCCEEDED, **{**values, "line": None})]
    if card.lane is None or card.profile is None:
        raise Refused(f"{card.slug}: never had a lane; use board build {card.slug} or board submit --replace")
    return [_update(card, Phase.GEPLANT, Status.WAITING_FOR_BUILDER, **values)]


def _card_snapshot(card: Card) -> dict[str, Any]:
    """A job's order where no earlier job's snapshot is at hand: the card's own commit and profile."""
    profile = asdict(ladder.profile_of_attempt(card)) if card.profile else None
    return {"profile": profile, "commit": card.commit, "base": card.base, "branch": card.branch}


def answer_worker(card: Card, facts: Facts) -> list[Effect]:
    """Row KR needs_input: a new session with the answer as untrusted text, limits afresh."""
    if card.status is not Status.NEEDS_INPUT:
        raise Refused(f"{card.slug}: asked nothing (status {card.status}); see board why {card.slug}")
    # Nothing that was begun before the question may go on beside what the answer begins.
    answer = [CancelJobs(card.slug), *_attach(card, facts, "answer", "answer")]
    if card.asked_by != "fixer":
        return [*answer, *_new_round(card, facts)]
    values: dict[str, Any] = {
        "round": card.round + 1,
        "question": None,
        "asked_by": None,
        "human_action": None,
        "reason": "",
    }
    return [
        *answer,
        _update(card, status=Status.QUEUED, **values),
        _repair_job(replace(card, round=card.round + 1), _card_snapshot(card)),
    ]


def _repair_job(card: Card, snapshot: Mapping[str, Any]) -> CreateJob:
    keep = {"profile": snapshot.get("profile"), "commit": card.commit, "base": card.base, "branch": card.branch}
    return _job(card, "fixer", "repair", keep)


def repair(card: Card, facts: Facts) -> list[Effect]:
    """Only for a proved defect or a negative review, and only as often as the budget says."""
    _no_family(card, facts, "repaired")
    if card.commit is None:
        raise Refused(f"{card.slug}: there is no commit to repair; use board retry {card.slug}")
    if card.status is Status.QUEUED or card.status is Status.RUNNING:
        raise Refused(f"{card.slug}: a repair is under way; wait for it, see board why {card.slug}")
    if card.status in (Status.DEPLOY_FAILED, Status.PUBLISH_FAILED):
        raise Refused(f"{card.slug}: its commit was approved, so there is no defect to repair; use board retry")
    if card.repairs >= facts.config.repair.budget:
        budget = facts.config.repair.budget
        raise Refused(f"{card.slug}: the repair budget ({budget}) is used up; use board retry or submit --replace")
    return [
        *_attach(card, facts, "findings", "findings"),
        _update(card, Phase.KLAERUNG_REPARATUR, Status.QUEUED, repairs=card.repairs + 1, reason=""),
        _repair_job(card, _card_snapshot(card)),
    ]


def fix_repaired(card: Card, facts: Facts) -> list[Effect]:
    values = {"commit": facts.data["commit"], "base": facts.data["base"], "reviewed": None, "released": None}
    snapshot = {**_job_snapshot(facts), **_evidence(facts)}
    return [
        _update(card, Phase.IN_REVIEW, Status.QUEUED, reason="", **values),
        _review_job(card, facts, snapshot),
    ]


def fix_stopped(status: str) -> Change:
    def change(card: Card, facts: Facts) -> list[Effect]:
        reason = _reason(facts, f"the repair ended as {status}")
        return [
            *_attach(card, facts, "interim_report", "report"),
            _update(card, status=Status(status), reason=reason),
            Notify("failed", card.slug, f"{card.title}: {reason}"),
        ]

    return change


def split(card: Card, facts: Facts) -> list[Effect]:
    _no_relative(card, "split")
    _no_family(card, facts, "split")
    if card.status is not Status.LIMIT_REACHED:
        raise Refused(f"{card.slug}: only a card that ran into its limit is split; its status is {card.status}")
    return [CancelJobs(card.slug), _job(card, "planner", "split", {})]


def split_valid(card: Card, facts: Facts) -> list[Effect]:
    """The Planner's children take the card's lane and scope; the apply path is the Operator's."""
    _no_relative(card, "split")
    if card.status is not Status.LIMIT_REACHED or (facts.job is not None and facts.job.round != card.round):
        raise Refused(f"{card.slug}: went on since the split was asked for (status {card.status}), so it is not split")
    if facts.taken:
        reason = "the answer names slugs that are taken: " + ", ".join(sorted(facts.taken))
        return split_invalid(card, with_reason(facts, reason))
    common = {"lane": card.lane, "write_scope": card.write_scope or (".",), "blocked_by": (), "wave": 1}
    children = [_child(card, facts, {**child, **common}) for child in facts.data["children"]]
    return [*_become_parent(card, facts), *children]


def split_invalid(card: Card, facts: Facts) -> list[Effect]:
    reason = _reason(facts, "the split came to nothing")
    return [Attach(card.slug, "notes", {"split": reason}), Notify("failed", card.slug, f"{card.title}: {reason}")]


# --- inspection and routes -------------------------------------------------------------------------------------


def inspect(card: Card, facts: Facts) -> list[Effect]:
    return [_job(card, "inspector", "inspect", {"task": facts.data["task"], "commit": card.commit})]


def inspected(card: Card, facts: Facts) -> list[Effect]:
    """What the board recorded about deployment wins; a differing claim is kept beside it."""
    effects = _attach(card, facts, "inspection", "evidence")
    claim = (facts.data.get("evidence") or {}).get("deployment_claim")
    recorded = "deployed" if card.phase is Phase.DEPLOYED else "not_deployed"
    if claim in ("deployed", "not_deployed") and claim != recorded:
        text = f"{card.title}: the Inspector says {claim}, the board recorded {recorded}"
        data = {"claim": claim, "recorded": recorded}
        effects += [Attach(card.slug, "discrepancy", data), Notify("discrepancy", card.slug, text)]
    return effects


def routed(card: Card, facts: Facts) -> list[Effect]:
    text = f"{card.title}: the Inspector recommends {facts.data['route']['recommendation']}"
    return [*_attach(card, facts, "route", "route"), Notify("approval_wanted", card.slug, text)]


def close_route(card: Card, route: Mapping[str, Any], outcome: str) -> CloseRoute:
    return CloseRoute(card.slug, route["id"], outcome)


def with_route(facts: Facts, route: Mapping[str, Any]) -> Facts:
    """The facts of the event that a recommendation stands for."""
    extra = {"reason": route.get("reason", ""), "question": route.get("question"), "findings": {"route": dict(route)}}
    return replace(facts, data={**facts.data, **extra}, route=None)


# --- families --------------------------------------------------------------------------------------------------


def family_blocked(card: Card, facts: Facts) -> list[Effect]:
    blocking = facts.data["blocking"]
    reason = "blocked by " + "; ".join(f"{one['slug']} ({one['why']})" for one in blocking)
    return [
        _update(card, Phase.DURCH_KINDER_BLOCKIERT, reason=reason),
        Notify("blocked", card.slug, f"{card.title}: {reason}"),
    ]


def family_cleared(card: Card, facts: Facts) -> list[Effect]:
    return [_update(card, Phase.WARTET_AUF_KINDER, reason="")]


def synthesis_due(card: Card, facts: Facts) -> list[Effect]:
    """All children are good and on the branch: a card that proves that together they do what the parent asked."""
    lane = facts.config.scheduler.synthesis_lane
    children = [child for child in facts.children if child.kind is Kind.CHILD]
    criteria = card.acceptance_criteria or [f"{child.title}: what it promised still holds" for child in children]
    synthesis = Card(
        slug=f"{card.slug}-synthese",
        title=f"Synthese: {card.title}",
        repository=card.repository,
        requester=card.requester,
        phase=Phase.GEPLANT,
        status=Status.WAITING_FOR_BUILDER,
        kind=Kind.SYNTHESIS,
        parent=card.slug,
        lane=lane,
        profile=lane_profile(facts.config, lane),
        line=NEXT_LINE,
        write_scope=tuple(dict.fromkeys(path for child in children for path in child.write_scope)),
        acceptance_criteria=tuple(criteria)[:50],
        branch=children[0].branch if children else card.branch,
    )
    return [CreateCard(synthesis, _synthesis_intent(card, facts.intent, children))]


def _synthesis_intent(parent: Card, intent: str, children: Sequence[Card]) -> str:
    done = "\n".join(f"- `{child.slug}` ({child.commit}): {child.title}" for child in children)
    return (
        f"# Intent: Synthese: {parent.title}\n\n"
        "The children below are built, reviewed and on the branch. Check that together they do what the parent's "
        "intent asks for, and change only what is missing between them. If nothing is missing, change nothing.\n\n"
        f"## Children\n\n{done}\n\n## The parent's intent\n\n{intent}\n"
    )


def synthesis_good(card: Card, facts: Facts) -> list[Effect]:
    synthesis = next(child for child in facts.children if child.kind is Kind.SYNTHESIS)
    values: dict[str, Any] = {
        "commit": synthesis.commit,
        "reviewed": synthesis.reviewed,
        "released": synthesis.released,
    }
    values |= {"branch": synthesis.branch, "base": synthesis.base, "reason": ""}
    ready_card = replace(card, phase=Phase.BEREIT, **values)
    return [
        _update(card, Phase.BEREIT, Status.SUCCEEDED, **values),
        Notify("ready", card.slug, f"{card.title}: every child and the synthesis are reviewed and published"),
        *_deploy_job(ready_card, facts.config),
    ]


# --- deployment, archive, faults -------------------------------------------------------------------------------


def deploy(card: Card, facts: Facts) -> list[Effect]:
    """The owner's word, where `[deploy] automatic` is off or an earlier job was cancelled."""
    if not deploys(card, facts.config):
        what = f"{card.slug} is not deployed by itself"
        if card.kind in (Kind.CHILD, Kind.SYNTHESIS):
            raise Refused(f"{what}, because it belongs to a family; use board deploy {card.parent}")
        name = card.repository
        raise Refused(f"{what}, because its repository is not; see deploy.repository and repositories.{name}.deploy")
    if card.commit is None:
        raise Refused(f"{card.slug}: was imported, and this board knows no commit of it; deploy it by hand")
    if facts.config.deploy.gate == "owner" and card.released != card.commit:
        raise Refused(f"{card.slug}: gate owner wants a release first; board release {card.slug}")
    return [
        CancelJobs(card.slug),
        _update(card, status=Status.QUEUED),
        _job(card, "deploy", "deploy", {"commit": card.commit}),
    ]


def deployed(card: Card, facts: Facts) -> list[Effect]:
    """A generation runs the commit and is healthy; what it contains is deployed with it."""
    family: list[Effect] = [
        UpdateCard(child.slug, child.phase, {"phase": Phase.DEPLOYED, "status": Status.SUCCEEDED})
        for child in facts.children
        if child.phase is Phase.BEREIT
    ]
    contained: list[Effect] = [
        Happen(slug, "deployed", {"with": card.slug, "deployment": facts.data.get("deployment")})
        for slug in facts.data.get("contained") or ()
    ]
    return [
        *_attach(card, facts, "deployment", "deployment"),
        _update(card, Phase.DEPLOYED, Status.SUCCEEDED, reason=""),
        Notify("deployed", card.slug, f"{card.title}: deployed as {card.commit}"),
        *family,
        *contained,
    ]


def deploy_busy(card: Card, facts: Facts) -> list[Effect]:
    return [_update(card, status=Status.QUEUED, reason=_reason(facts, "another switch is running"))]


def deploy_failed(card: Card, facts: Facts) -> list[Effect]:
    reason = _reason(facts, "the deployment failed")
    return [
        *_attach(card, facts, "deployment", "deployment"),
        _update(card, Phase.KLAERUNG_REPARATUR, Status.DEPLOY_FAILED, reason=reason),
        Notify("deploy_failed", card.slug, f"{card.title}: {reason}"),
    ]


def _archive_one(card: Card, reason: str) -> list[Effect]:
    status = card.status if card.phase in SUCCESS else Status.CANCELLED
    unfinished = card.phase not in SUCCESS
    started = card.commit is not None or card.phase in BUILDING or card.attempts.get("builder", 0) > 0
    keep: list[Effect] = [KeepRef(card.slug, card.commit)] if unfinished and started else []
    return [CancelJobs(card.slug), *keep, _update(card, Phase.ARCHIVIERT, status, reason=reason, line=None)]


def archive(card: Card, facts: Facts) -> list[Effect]:
    """Final; the slug stays taken.  A parent takes its unfinished children along."""
    reason = _reason(facts, f"archived by {facts.actor}")
    unfinished = [child for child in facts.children if child.phase not in SUCCESS | FINAL]
    along = [effect for child in unfinished for effect in _archive_one(child, f"archived with {card.slug}")]
    return [*_archive_one(card, reason), *along]


def fault(card: Card, facts: Facts) -> list[Effect]:
    """Something that belongs to this card alone can't be read or is gone: it is parked with the reason."""
    reason = _reason(facts, "something this card needs can't be read")
    return [
        CancelJobs(card.slug),
        _update(card, Phase.KLAERUNG_REPARATUR, Status.FAILED, reason=reason),
        Notify("failed", card.slug, f"{card.title}: {reason}"),
    ]


def with_reason(facts: Facts, reason: str) -> Facts:
    """The same facts with another reason."""
    return replace(facts, data={**facts.data, "reason": reason})
