"""The tables of the store, as the newest schema has them.

A new column or table also needs a script in `migrations/versions` that adds it, and `SCHEMA` raised by one; columns
are only ever added, nullable or with a default, so that an older package can go on with a newer store.  What a tick
reads is narrow and covered by indexes: it touches no long text and no closed card.
"""

from __future__ import annotations

from sqlalchemy import (
    DDL,
    Boolean,
    Column,
    Computed,
    Float,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
    event,
)

from intent_board.board.model import SUCCESS

#: The schema that this code makes and writes.
SCHEMA = 2
#: The oldest code, by its SCHEMA, that may go on with a store that this code made.
MIN_CODE = 1

metadata = MetaData()


def _text(name: str, default: str | None = None) -> Column[str]:
    return Column(name, Text, nullable=False, server_default=default)


def _number(name: str, default: int | None = None) -> Column[int]:
    return Column(name, Integer, nullable=False, server_default=None if default is None else str(default))


def _time(name: str) -> Column[float]:
    return Column(name, Float, nullable=False)


def _id() -> Column[int]:
    return Column("id", Integer, primary_key=True)


def _slug(name: str = "slug") -> Column[str]:
    return Column(name, Text, ForeignKey("cards.slug"), nullable=False)


def _job() -> Column[int]:
    return Column("job_id", Integer, ForeignKey("jobs.id"))


#: `schema`, `min_code`, and `line`: the last number given out for a place in line.
meta = Table("meta", metadata, Column("key", Text, primary_key=True), _number("value"))

#: Alembic's own mark, so that it can take over from here when a migration is needed.
alembic_version = Table("alembic_version", metadata, Column("version_num", String(32), primary_key=True))

cards = Table(
    "cards",
    metadata,
    Column("slug", Text, primary_key=True),
    _text("phase"),
    _text("status"),
    _text("kind"),
    Column("parent", Text, ForeignKey("cards.slug")),
    Column("lane", Text),
    Column("line", Integer),
    _text("repository"),
    # Success and a positive review of the card's own commit; computed by the database, so that it can't be stale.
    Column(
        "good",
        Integer,
        Computed(
            'CASE WHEN phase IN ({}) AND reviewed IS NOT NULL AND reviewed = "commit" THEN 1 ELSE 0 END'.format(
                ", ".join(f"'{phase.value}'" for phase in sorted(SUCCESS))
            ),
            persisted=True,
        ),
    ),
    Column("commit", Text),
    Column("reviewed", Text),
    Column("released", Text),
    Column("base", Text),
    Column("branch", Text),
    Column("wave", Integer),
    _number("rung", 0),
    _number("round", 1),
    _number("by_hand", 0),
    Column("iterations", Integer),
    _number("publish_rounds", 0),
    _number("repairs", 0),
    _number("automatic_repairs", 0),
    _text("requester"),
    _time("created_at"),
    _time("updated_at"),
    _time("phase_since"),
    _text("title"),
    _text("reason", ""),
    Column("human_action", Text),
    Column("question", Text),
    Column("asked_by", Text),
    Column("profile", Text),
    Column("ladder", Text),
    _text("write_scope", "[]"),
    _text("acceptance_criteria", "[]"),
    _text("warnings", "[]"),
    Index("cards_by_line", "phase", "line", "slug", "lane"),
    Index("cards_by_status", "phase", "status", "lane"),
    Index("cards_by_good", "slug", "good"),
    Index("cards_by_parent", "parent", "good", "phase", "kind"),
    Index("cards_by_repository", "repository", "phase"),
)

#: `slug` waits for `blocker`; `place` keeps the order in which the decision named them.
dependencies = Table(
    "dependencies",
    metadata,
    Column("slug", Text, ForeignKey("cards.slug"), primary_key=True),
    Column("blocker", Text, ForeignKey("cards.slug"), primary_key=True),
    _number("place"),
    Index("dependencies_by_blocker", "blocker", "slug"),
)

#: Every text that a card's intent ever had; the newest version counts.
intents = Table(
    "intents",
    metadata,
    Column("slug", Text, ForeignKey("cards.slug"), primary_key=True),
    Column("version", Integer, primary_key=True),
    _text("hash"),
    _time("created_at"),
    _text("text"),
)

#: Cards whose intent file is still to be written: the reminder of a commit whose process died before the file.
unprojected = Table("unprojected", metadata, Column("slug", Text, ForeignKey("cards.slug"), primary_key=True))

jobs = Table(
    "jobs",
    metadata,
    _id(),
    _slug(),
    _text("role"),
    _text("queue"),
    _number("attempt"),
    _number("round"),
    _text("state"),
    _number("token", 0),
    Column("not_before", Float, nullable=False, server_default="0"),
    # When `not_before` was set: a clock that reads less than this has jumped, and the wait means nothing any more.
    Column("waiting_since", Float, nullable=False, server_default="0"),
    Column("runtime", Text),
    Column("slot", Integer),
    _number("interruptions", 0),
    _number("used_iterations", 0),
    _number("outages", 0),
    Column("created_at", Float, nullable=False),
    Column("started_at", Float),
    Column("finished_at", Float),
    Column("cost_usd", Float),
    Column("outcome", Text),
    Column("sandboxed", Boolean),
    Column("role_version", Text),
    Column("role_hash", Text),
    _text("reason", ""),
    _text("usage", "{}"),
    _text("result", "{}"),
    _text("snapshot"),
    UniqueConstraint("slug", "role", "attempt"),
    Index("jobs_by_state", "state", "queue", "id"),
    Index("jobs_by_slug", "slug", "state", "role"),
    sqlite_autoincrement=True,
)

reviews = Table(
    "reviews",
    metadata,
    _id(),
    _slug(),
    _job(),
    _text("commit"),
    _text("decision"),
    _time("created_at"),
    _text("report"),
    Index("reviews_by_slug", "slug", "id"),
)

attachments = Table(
    "attachments",
    metadata,
    _id(),
    _slug(),
    _text("kind"),
    _job(),
    _time("created_at"),
    _text("data"),
    Index("attachments_by_slug", "slug", "kind", "id"),
)

#: A router's recommendation, pending until it is applied or dismissed.  Its id is that of its attachment.
routes = Table(
    "routes",
    metadata,
    Column("id", Integer, ForeignKey("attachments.id"), primary_key=True, autoincrement=False),
    _slug(),
    _text("outcome", "pending"),
    Column("closed_at", Float),
    Index("routes_by_slug", "slug", "id"),
)

#: What a run answered, word for word, be it current or stale; `size` is its length in bytes before it was cut.
answers = Table(
    "answers",
    metadata,
    _id(),
    _slug(),
    Column("job_id", Integer, ForeignKey("jobs.id"), nullable=False),
    _number("token"),
    Column("stale", Boolean, nullable=False),
    Column("cut", Boolean, nullable=False),
    _number("size"),
    _time("created_at"),
    _text("event"),
    _text("text"),
    UniqueConstraint("job_id", "token"),
    Index("answers_by_slug", "slug", "id"),
)

#: The audit: what happened, when and by whom.  No foreign key, so that nothing keeps a line from being written.
events = Table(
    "events",
    metadata,
    _id(),
    _time("at"),
    Column("slug", Text),
    _text("event"),
    _text("actor"),
    _text("data", "{}"),
    Index("events_by_slug", "slug", "id"),
    sqlite_autoincrement=True,
)

#: The outbox: each fact once (`key`), sent after its commit and again until it got through.  `state` is due, sent,
#: unwanted (nobody is to be told) or expired.
notifications = Table(
    "notifications",
    metadata,
    _id(),
    Column("key", Text, nullable=False, unique=True),
    _text("state", "due"),
    Column("retry_at", Float, nullable=False, server_default="0"),
    _slug(),
    _text("event"),
    Column("to_requester", Boolean, nullable=False),
    _number("tries", 0),
    _time("created_at"),
    Column("sent_at", Float),
    _text("error", ""),
    _text("text"),
    Index("notifications_by_state", "state", "retry_at"),
)

#: What became of one notification at one target.  `target` is a name made from the address and not the address, which
#: is a secret.  `state` is sending (begun, and nobody knows the end unless a later state says it), sent or failed.
deliveries = Table(
    "deliveries",
    metadata,
    Column("notification_id", Integer, ForeignKey("notifications.id"), primary_key=True),
    Column("target", Text, primary_key=True),
    _text("state"),
    _number("tries", 0),
    Column("retry_at", Float, nullable=False, server_default="0"),
    _time("begun_at"),
    _text("error", ""),
)

#: Targets that failed since they last took something, and how long they are left alone.
notify_targets = Table(
    "notify_targets",
    metadata,
    Column("target", Text, primary_key=True),
    _number("failures", 0),
    Column("retry_at", Float, nullable=False, server_default="0"),
    _text("error", ""),
)

#: Commits to keep alive in a mirror; the store does no git, the worker or the tick does.
refs_wanted = Table(
    "refs_wanted",
    metadata,
    _id(),
    _text("state", "wanted"),
    _slug(),
    _text("repository"),
    # None: the card's tree as it stands.
    Column("commit", Text),
    _time("created_at"),
    Column("kept_at", Float),
    Index("refs_wanted_by_state", "state", "id"),
)

#: Runtimes whose credentials were refused: their jobs wait until a person has seen to it.
paused_runtimes = Table(
    "paused_runtimes",
    metadata,
    Column("runtime", Text, primary_key=True),
    _time("since"),
    _text("reason"),
)

# SQLite's word for "append-only"; elsewhere it is a matter of the user's rights.
for _deed in ("UPDATE", "DELETE"):
    event.listen(
        events,
        "after_create",
        DDL(  # type: ignore[no-untyped-call]
            f"CREATE TRIGGER events_no_{_deed.lower()} BEFORE {_deed} ON events "
            "BEGIN SELECT RAISE(ABORT, 'the audit is append-only'); END"
        ).execute_if(dialect="sqlite"),
    )
