-- The first schema, as it was released.  Never changed: tests migrate it to what the code wants today.

CREATE TABLE meta (
    "key" TEXT NOT NULL,
    value INTEGER NOT NULL,
    PRIMARY KEY ("key")
);
CREATE TABLE alembic_version (
    version_num VARCHAR(32) NOT NULL,
    PRIMARY KEY (version_num)
);
CREATE TABLE cards (
    slug TEXT NOT NULL,
    phase TEXT NOT NULL,
    status TEXT NOT NULL,
    kind TEXT NOT NULL,
    parent TEXT,
    lane TEXT,
    line INTEGER,
    repository TEXT NOT NULL,
    good INTEGER GENERATED ALWAYS AS (CASE WHEN phase IN ('bereit_fuer_deployment', 'deployed') AND reviewed IS NOT NULL AND reviewed = "commit" THEN 1 ELSE 0 END) STORED,
    "commit" TEXT,
    reviewed TEXT,
    released TEXT,
    base TEXT,
    branch TEXT,
    wave INTEGER,
    rung INTEGER DEFAULT '0' NOT NULL,
    round INTEGER DEFAULT '1' NOT NULL,
    by_hand INTEGER DEFAULT '0' NOT NULL,
    iterations INTEGER,
    publish_rounds INTEGER DEFAULT '0' NOT NULL,
    repairs INTEGER DEFAULT '0' NOT NULL,
    automatic_repairs INTEGER DEFAULT '0' NOT NULL,
    requester TEXT NOT NULL,
    created_at FLOAT NOT NULL,
    updated_at FLOAT NOT NULL,
    phase_since FLOAT NOT NULL,
    title TEXT NOT NULL,
    reason TEXT DEFAULT '' NOT NULL,
    human_action TEXT,
    question TEXT,
    asked_by TEXT,
    profile TEXT,
    ladder TEXT,
    write_scope TEXT DEFAULT '[]' NOT NULL,
    acceptance_criteria TEXT DEFAULT '[]' NOT NULL,
    warnings TEXT DEFAULT '[]' NOT NULL,
    PRIMARY KEY (slug),
    FOREIGN KEY(parent) REFERENCES cards (slug)
);
CREATE INDEX cards_by_parent ON cards (parent, good, phase, kind);
CREATE INDEX cards_by_status ON cards (phase, status, lane);
CREATE INDEX cards_by_repository ON cards (repository, phase);
CREATE INDEX cards_by_line ON cards (phase, line, slug, lane);
CREATE INDEX cards_by_good ON cards (slug, good);
CREATE TABLE events (
    id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    at FLOAT NOT NULL,
    slug TEXT,
    event TEXT NOT NULL,
    actor TEXT NOT NULL,
    data TEXT DEFAULT '{}' NOT NULL
);
CREATE INDEX events_by_slug ON events (slug, id);
CREATE TRIGGER events_no_update BEFORE UPDATE ON events BEGIN SELECT RAISE(ABORT, 'the audit is append-only'); END;
CREATE TRIGGER events_no_delete BEFORE DELETE ON events BEGIN SELECT RAISE(ABORT, 'the audit is append-only'); END;
CREATE TABLE paused_runtimes (
    runtime TEXT NOT NULL,
    since FLOAT NOT NULL,
    reason TEXT NOT NULL,
    PRIMARY KEY (runtime)
);
CREATE TABLE dependencies (
    slug TEXT NOT NULL,
    blocker TEXT NOT NULL,
    place INTEGER NOT NULL,
    PRIMARY KEY (slug, blocker),
    FOREIGN KEY(slug) REFERENCES cards (slug),
    FOREIGN KEY(blocker) REFERENCES cards (slug)
);
CREATE INDEX dependencies_by_blocker ON dependencies (blocker, slug);
CREATE TABLE intents (
    slug TEXT NOT NULL,
    version INTEGER NOT NULL,
    hash TEXT NOT NULL,
    created_at FLOAT NOT NULL,
    text TEXT NOT NULL,
    PRIMARY KEY (slug, version),
    FOREIGN KEY(slug) REFERENCES cards (slug)
);
CREATE TABLE unprojected (
    slug TEXT NOT NULL,
    PRIMARY KEY (slug),
    FOREIGN KEY(slug) REFERENCES cards (slug)
);
CREATE TABLE jobs (
    id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    slug TEXT NOT NULL,
    role TEXT NOT NULL,
    queue TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    round INTEGER NOT NULL,
    state TEXT NOT NULL,
    token INTEGER DEFAULT '0' NOT NULL,
    not_before FLOAT DEFAULT '0' NOT NULL,
    waiting_since FLOAT DEFAULT '0' NOT NULL,
    runtime TEXT,
    slot INTEGER,
    interruptions INTEGER DEFAULT '0' NOT NULL,
    used_iterations INTEGER DEFAULT '0' NOT NULL,
    outages INTEGER DEFAULT '0' NOT NULL,
    created_at FLOAT NOT NULL,
    started_at FLOAT,
    finished_at FLOAT,
    cost_usd FLOAT,
    outcome TEXT,
    sandboxed BOOLEAN,
    role_version TEXT,
    role_hash TEXT,
    reason TEXT DEFAULT '' NOT NULL,
    usage TEXT DEFAULT '{}' NOT NULL,
    result TEXT DEFAULT '{}' NOT NULL,
    snapshot TEXT NOT NULL,
    UNIQUE (slug, role, attempt),
    FOREIGN KEY(slug) REFERENCES cards (slug)
);
CREATE INDEX jobs_by_state ON jobs (state, queue, id);
CREATE INDEX jobs_by_slug ON jobs (slug, state, role);
CREATE TABLE notifications (
    id INTEGER NOT NULL,
    "key" TEXT NOT NULL,
    state TEXT DEFAULT 'due' NOT NULL,
    retry_at FLOAT DEFAULT '0' NOT NULL,
    slug TEXT NOT NULL,
    event TEXT NOT NULL,
    to_requester BOOLEAN NOT NULL,
    tries INTEGER DEFAULT '0' NOT NULL,
    created_at FLOAT NOT NULL,
    sent_at FLOAT,
    error TEXT DEFAULT '' NOT NULL,
    text TEXT NOT NULL,
    PRIMARY KEY (id),
    UNIQUE ("key"),
    FOREIGN KEY(slug) REFERENCES cards (slug)
);
CREATE INDEX notifications_by_state ON notifications (state, retry_at);
CREATE TABLE refs_wanted (
    id INTEGER NOT NULL,
    state TEXT DEFAULT 'wanted' NOT NULL,
    slug TEXT NOT NULL,
    repository TEXT NOT NULL,
    "commit" TEXT,
    created_at FLOAT NOT NULL,
    kept_at FLOAT,
    PRIMARY KEY (id),
    FOREIGN KEY(slug) REFERENCES cards (slug)
);
CREATE INDEX refs_wanted_by_state ON refs_wanted (state, id);
CREATE TABLE reviews (
    id INTEGER NOT NULL,
    slug TEXT NOT NULL,
    job_id INTEGER,
    "commit" TEXT NOT NULL,
    decision TEXT NOT NULL,
    created_at FLOAT NOT NULL,
    report TEXT NOT NULL,
    PRIMARY KEY (id),
    FOREIGN KEY(slug) REFERENCES cards (slug),
    FOREIGN KEY(job_id) REFERENCES jobs (id)
);
CREATE INDEX reviews_by_slug ON reviews (slug, id);
CREATE TABLE attachments (
    id INTEGER NOT NULL,
    slug TEXT NOT NULL,
    kind TEXT NOT NULL,
    job_id INTEGER,
    created_at FLOAT NOT NULL,
    data TEXT NOT NULL,
    PRIMARY KEY (id),
    FOREIGN KEY(slug) REFERENCES cards (slug),
    FOREIGN KEY(job_id) REFERENCES jobs (id)
);
CREATE INDEX attachments_by_slug ON attachments (slug, kind, id);
CREATE TABLE answers (
    id INTEGER NOT NULL,
    slug TEXT NOT NULL,
    job_id INTEGER NOT NULL,
    token INTEGER NOT NULL,
    stale BOOLEAN NOT NULL,
    cut BOOLEAN NOT NULL,
    size INTEGER NOT NULL,
    created_at FLOAT NOT NULL,
    event TEXT NOT NULL,
    text TEXT NOT NULL,
    PRIMARY KEY (id),
    UNIQUE (job_id, token),
    FOREIGN KEY(slug) REFERENCES cards (slug),
    FOREIGN KEY(job_id) REFERENCES jobs (id)
);
CREATE INDEX answers_by_slug ON answers (slug, id);
CREATE TABLE routes (
    id INTEGER NOT NULL,
    slug TEXT NOT NULL,
    outcome TEXT DEFAULT 'pending' NOT NULL,
    closed_at FLOAT,
    PRIMARY KEY (id),
    FOREIGN KEY(id) REFERENCES attachments (id),
    FOREIGN KEY(slug) REFERENCES cards (slug)
);
CREATE INDEX routes_by_slug ON routes (slug, id);

INSERT INTO alembic_version VALUES ('0001');
INSERT INTO meta VALUES ('schema', 1), ('min_code', 1), ('line', 0);
