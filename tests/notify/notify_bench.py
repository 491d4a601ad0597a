"""A board with an outbox, and a real web server on this machine that takes what Apprise sends."""

from __future__ import annotations

import json
import time
from collections import Counter
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from intent_board import config as configuration
from intent_board.board.model import Notify
from intent_board.config import BoardConfig
from intent_board.notify import Report, send_due
from intent_board.runtimes.credentials import Credentials
from intent_board.store import Store, applying, open_store

OWNER = "lukas"
NAME = "people"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        place = self.server.place
        place.taken.append((self.path, body["title"], body["message"]))
        if place.seconds:
            time.sleep(place.seconds)
        refused = (
            place.status if self.path in place.refusing or any(word in body["message"] for word in place.words) else 200
        )
        self.send_response(refused)
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Keeps the test's output clean."""


class Server(ThreadingHTTPServer):
    place: Place
    daemon_threads = True


@dataclass
class Place:
    """The server: what came in, and how it behaves."""

    port: int = 0
    taken: list[tuple[str, str, str]] = field(default_factory=list)
    refusing: set[str] = field(default_factory=set)
    words: set[str] = field(default_factory=set)
    status: int = 500
    seconds: float = 0.0

    def url(self, path: str = "/owner") -> str:
        return f"json://127.0.0.1:{self.port}{path}"

    def count(self, path: str = "/owner") -> Counter[str]:
        """How often each card's message came in, and was it refused or not."""
        return Counter(message.split(":")[0].rsplit(" ")[-1] for to, _, message in self.taken if to == path)


def dead_url(path: str = "/dead") -> str:
    """An address at which nobody listens."""
    return f"json://127.0.0.1:1{path}"


@dataclass
class Bench:
    """A store with an outbox, and a clock that a test moves."""

    config: BoardConfig
    store: Store
    urls: str = ""
    now: float = 1_000_000.0
    secrets: dict[str, str] = field(default_factory=dict)

    def card(self, slug: str, requester: str = OWNER) -> None:
        event = "submit_by_owner" if requester == OWNER else "submit_by_other"
        known = {"slug": slug, "title": f"The {slug}", "repository": "site", "requester": requester}
        self.store.submit(intent=f"# Intent: The {slug}\n", event=event, **known)
        self.forget()

    def forget(self) -> None:
        """What the submitting itself brought into the outbox is nobody's business here."""
        for note in self.store.due_notifications(2e9, limit=1000):
            self.store.notification_unwanted(note.id)

    def fact(self, slug: str, event: str = "failed", text: str = "it stopped", *, to_requester: bool = False) -> None:
        with self.store._writing(self.now) as work:
            applying.apply(work, [Notify(event, slug, text, to_requester)])

    def facts(self, *slugs: str) -> None:
        for slug in slugs:
            self.card(slug)
        for slug in slugs:
            self.fact(slug)

    def send(self, *, deadline: float = 5.0, **more: Any) -> Report:
        known = Credentials(values={NAME: self.urls, **self.secrets})
        return send_due(self.config, self.store, known, deadline=deadline, clock=lambda: self.now, **more)

    def states(self) -> dict[str, str]:
        return {line.note.slug: line.state for line in reversed(self.store.notifications(settled=True))}

    def again(self) -> Store:
        """Another process opens the same store."""
        self.store.close()
        self.store = open_store(self.config)
        return self.store


def configured(state_dir: Path, **notifications: Any) -> BoardConfig:
    return configuration.parse(
        {
            "board": {"owner": OWNER, "state_dir": str(state_dir), "default_repository": "site"},
            "repositories": {"site": {"remote_url": "/srv/git/site.git", "branch": "main"}},
            "notifications": {"credential": NAME, **notifications},
        }
    )
