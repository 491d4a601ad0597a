"""A small board with a real repository, a real store, and agents whose program each test writes."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from scripted_board import scripted_board

from intent_board import sandbox
from intent_board.board.model import Card, Job
from intent_board.config import BoardConfig, parse
from intent_board.roles.base import Context
from intent_board.roles.scheduler import tick_once
from intent_board.roles.worker import drain
from intent_board.runtimes import Credentials
from intent_board.store import Claim, open_store
from intent_board.workspace import Workspace

OWNER = "lukas"
CRITERIA = ["`greeting.txt` says hello.", "It is short."]
INTENT = "# Intent: Greet\n\n## Goal\n\nGreet.\n\n## Success criteria\n\n- `greeting.txt` says hello.\n- It is short.\n"
#: Stands in front of every agent program of a test: it reads its order and speaks the `command` protocol.
PRELUDE = """
import json, os, re, sys, time
text = sys.stdin.read()
fence = re.search(r"^<<<FACTS (\\w+)$", text, re.M)[1]
facts = json.loads(re.search(rf"^<<<FACTS {fence}\\n(.*?)\\n{fence} FACTS>>>$", text, re.M | re.S)[1])
data = re.findall(rf"^([^\\n]+):\\n\\n<<<DATA {fence}\\n(.*?)\\n{fence} DATA>>>$", text, re.M | re.S)
def say(**event): print(json.dumps(event), flush=True)
def step(words="working"): say(type="step"); say(type="text", text=words)
def final(words): say(type="final", text=words)
def block(name, end, **fields): return f"==={name}===\\n{json.dumps(fields)}\\n==={end}==="
def built(summary="Greets.", outcome="done", question=None):
    final(block("BUILD-RESULT", "END-BUILD-RESULT", schema_version=1, outcome=outcome, summary=summary,
                question=question, tests=[]))
def review(decision="bereit_fuer_deployment", findings=(), met=True, **other):
    count = len(json.loads(dict(data)["Acceptance criteria"]))
    criteria = [dict(index=i, met=met, reason="seen") for i in range(count)]
    fields = dict(schema_version=1, decision=decision, commit_hash=facts["commit"], nonce=facts["nonce"],
                  summary="Read.", findings=list(findings), criteria=criteria)
    return block("REVIEW-REPORT", "END-REVIEW-REPORT", **{**fields, **other})
def decision(kind, lane=None, **other):
    profile = facts["lanes"][lane] if lane else {}
    fields = dict(schema_version=1, decision=kind, reason="Because.", recommended_lane=lane, human_action=None,
                  escalation=[], children=[], **{k: profile.get(k) for k in ("runtime", "model", "reasoning_effort")})
    return block("OPERATOR-DECISION", "END-OPERATOR-DECISION", **{**fields, **other})
def child(slug, scope, wave=1, blocked_by=()):
    profile = facts["lanes"]["leicht"]
    return dict(slug=slug, title=slug, wave=wave, blocked_by=list(blocked_by), recommended_lane="leicht",
                write_scope=list(scope), acceptance_criteria=["It is there."], intent_markdown=f"# Intent: {slug}\\n",
                escalation=[], **{k: profile[k] for k in ("runtime", "model", "reasoning_effort")})
"""


def boxed_python() -> str:
    # A sandbox shows /usr and the nix store; a Python from elsewhere would find no library in it.
    own = Path(sys.executable).resolve()
    shown = own.is_relative_to("/usr") or own.is_relative_to("/nix/store")
    return str(own) if shown or sandbox.available() is not None else "/usr/bin/python3"


def git(*arguments: str, cwd: Path) -> str:
    who = {f"GIT_{role}_{what}": f"t{what.lower()}" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    environment = {**os.environ, **who, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1"}
    return subprocess.run(
        ["git", *arguments], cwd=cwd, env=environment, capture_output=True, text=True, check=True
    ).stdout.strip()


def seed(top: Path) -> None:
    """`remote.git` with one commit, and `source`, where it was made."""
    remote, source = top / "remote.git", top / "source"
    source.mkdir()
    git("init", "-q", "--bare", "-b", "main", str(remote), cwd=top)
    git("init", "-q", "-b", "main", cwd=source)
    (source / "check.sh").write_text("! grep -rq BROKEN . --include='*.txt'\n")
    (source / "README.md").write_text("demo\n")
    git("add", ".", cwd=source)
    git("commit", "-q", "-m", "Begin", cwd=source)
    git("push", "-q", str(remote), "HEAD:refs/heads/main", cwd=source)


class Killed(BaseException):
    """Stands for `kill -9`: nothing of ours runs any more, and the kernel frees the lock."""


@dataclass
class Bench:
    """A board, and what a test does to it."""

    top: Path
    changes: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.remote, self.source = self.top / "remote.git", self.top / "source"
        self.config = self._config()
        self.store = open_store(self.config)
        self.use(Credentials())

    def _config(self) -> BoardConfig:
        agent = [boxed_python(), str(self.top / "agent.py")]
        raw = scripted_board(OWNER, self.top / "state", agent, "demo", self.remote, ["sh", "check.sh"])
        raw["lanes"]["leicht"]["concurrency"] = 2
        for queue in ("operator", "review", "inspect", "split"):
            raw["queues"][queue]["iteration_limit"] = 5
        for key, value in self.changes.items():
            table, _, name = key.rpartition(".")
            place = raw
            for part in table.split("."):
                place = place.setdefault(part, {})
            place[name] = value
        return parse(raw)

    def use(self, credentials: Credentials) -> None:
        """Go on as a process with these credentials."""
        workspace = Workspace(self.config, credentials)
        self.context = Context(self.config, self.store, workspace, credentials)

    def push(self, message: str, **files: str) -> str:
        """A commit by somebody else, straight to the remote."""
        if (self.remote / "refs/heads/main").exists():
            git("pull", "-q", str(self.remote), "main", cwd=self.source)
        for name, text in files.items():
            (self.source / name.replace("__", ".")).write_text(text)
        git("add", ".", cwd=self.source)
        git("commit", "-q", "-m", message, cwd=self.source)
        git("push", "-q", str(self.remote), "HEAD:refs/heads/main", cwd=self.source)
        return git("rev-parse", "HEAD", cwd=self.source)

    @property
    def tip(self) -> str:
        return git("rev-parse", "main", cwd=self.remote)

    def agent(self, program: str) -> None:
        """What the next runs do: Python behind PRELUDE."""
        (self.top / "agent.py").write_text(PRELUDE + textwrap.dedent(program))

    def submit(self, slug: str = "greet", requester: str | None = None) -> Card:
        """A card for the Operator; by the owner, unless somebody else is named."""
        owner = self.config.board.owner
        event = "submit_by_owner" if requester in (None, owner) else "submit_by_other"
        return self._submit(slug, requester or owner, event, {})

    def _submit(self, slug: str, requester: str, event: str, data: Mapping[str, Any]) -> Card:
        return self.store.submit(
            slug=slug,
            title="Greet",
            intent=INTENT,
            repository="demo",
            requester=requester,
            event=event,
            data={"acceptance_criteria": CRITERIA, **data},
        )

    def building(self, slug: str = "greet", scope: tuple[str, ...] = ("greeting.txt",)) -> Card:
        """A card by hand, dispatched to its Builder."""
        self._submit(slug, OWNER, "build_by_hand", {"lane": "schwer", "write_scope": list(scope)})
        return self.ticked(slug)

    def at_its_limit(self) -> Card:
        """First run and flat retry both reached the limit."""
        self.building()
        self.agent("while True: step(); time.sleep(0.01)")
        self.drained("builder-schwer")
        self.ticked()
        card = self.drained("builder-schwer")
        assert (card.phase, card.status) == ("klaerung_reparatur", "limit_reached")
        return card

    def ticked(self, slug: str = "greet") -> Card:
        tick_once(self.config, self.store, self.context.workspace, time.time())
        return self.store.card(slug)

    def drained(self, queue: str, slug: str = "greet") -> Card:
        drain(queue, 0, self.context)
        return self.store.card(slug)

    def die(self, monkeypatch: pytest.MonkeyPatch, queue: str, place: str) -> None:
        """Let a worker serve the queue and die when it calls this method of the workspace."""
        held: list[Claim] = []
        claim = self.store.claim

        def remember(queue: str, *, slot: int = 0) -> Claim | None:
            if (taken := claim(queue, slot=slot)) is not None:
                held.append(taken)
            return taken

        def killed(*arguments: object, **named: object) -> None:
            raise Killed

        with monkeypatch.context() as patched:
            patched.setattr(self.store, "claim", remember)
            patched.setattr(Workspace, place, killed)
            with pytest.raises(Killed):
                self.drained(queue)
        for taken in held:
            taken._let_go(None)

    def in_review(self, slug: str = "greet") -> Card:
        """A card whose commit waits for its review."""
        self.building(slug)
        self.agent("open('greeting.txt', 'w').write('hello\\n'); step(); built()")
        card = self.drained("builder-schwer", slug)
        assert card.phase == "im_review", card.reason
        return card

    def approved(self, slug: str = "greet") -> Card:
        """A card whose approved commit waits to be published."""
        self.in_review(slug)
        self.agent("final(review())")
        card = self.drained("review", slug)
        assert card.reviewed == card.commit, card.reason
        return card

    def job(self, slug: str = "greet") -> Job:
        job = self.store.present_job(slug)
        assert job is not None
        return job

    def last(self, slug: str = "greet") -> Any:
        """The newest job with what came of it."""
        return self.store.jobs(slug)[-1]

    def attached(self, kind: str, slug: str = "greet") -> list[Any]:
        return [one.data for one in self.store.attachments(slug, kind)]
