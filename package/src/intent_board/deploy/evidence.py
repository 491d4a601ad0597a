"""The service user's side of a deployment: one question as a JSON line on stdin, one answer as a JSON line on stdout.

Run by the deployer as `python -m intent_board.deploy.evidence`, as the service user and never as root.  Nothing here
decides whether anything is deployed; what it says is checked by the deployer, and what it is told is the record of
what the deployer saw.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

from intent_board import config as configuration
from intent_board.board.model import JobState, Phase, Refused, Status
from intent_board.board.states import Event
from intent_board.boundaries import boundary
from intent_board.store import Claim, Store, StoreError, open_store
from intent_board.store.doorbells import Doorbells

#: Who acts when trusted code does something by itself (docs/states.md).
_BOARD = "board"
_QUEUE = "deploy"
_GOOD = frozenset({"deployed", "already_deployed"})


def main() -> None:
    """Answer one question.  Exits with 1 and one sentence on stderr when there is no answer."""
    question = json.loads(sys.stdin.readline())
    if os.geteuid() == 0 and not question.get("rehearsal"):
        sys.exit("the board is not opened by root; the deployer asks as the service user")
    try:
        config = configuration.load(question["config"])
        if question["do"] == "ready":
            # Before anything that can fail: a bell that goes on ringing would start the deployer again and again.
            Doorbells(config).consume(_QUEUE, 0)
            boundary("evidence: bell consumed")
        store = open_store(config)
        answer = _ANSWERS[question["do"]](store, question)
    except (configuration.ConfigError, StoreError, Refused) as error:
        sys.exit(str(error))
    sys.stdout.write(json.dumps(answer) + "\n")


def _evidence(store: Store, question: Mapping[str, Any]) -> dict[str, Any]:
    card = store.card(question["slug"])
    # A parent's commit is its synthesis's, and so is the review of it.
    slugs = [card.slug, *(member.slug for member in store.family(card.slug))]
    reviews = [(slug, review) for slug in slugs for review in store.reviews(slug) if review.commit == card.commit]
    return {
        "slug": card.slug,
        "phase": card.phase,
        "status": card.status,
        "kind": card.kind,
        "repository": card.repository,
        "requester": card.requester,
        "by_hand": card.by_hand,
        "commit": card.commit,
        "released": card.released,
        "reviews": [
            {"id": review.id, "slug": slug, "commit": review.commit, "decision": review.decision}
            for slug, review in sorted(reviews, key=lambda pair: pair[1].id)
        ],
    }


def _ready(store: Store, question: Mapping[str, Any]) -> dict[str, Any]:
    store.recover()
    now, found = time.time(), []
    for line in store.cards(phases=[Phase.BEREIT]):
        jobs = [one.job for one in store.jobs(line.slug) if one.job.queue == _QUEUE]
        due = [job.id for job in jobs if job.state is JobState.QUEUED and job.not_before <= now]
        found += [(due[0], line.slug)] if due else []
    return {"slugs": [slug for _, slug in sorted(found)]}


def _published(store: Store, question: Mapping[str, Any]) -> dict[str, Any]:
    return {"cards": [list(one) for one in store.commits(question["repository"])]}


def _tell(store: Store, question: Mapping[str, Any]) -> dict[str, Any]:
    """Write a deployment's end to its card.  The same deployment a second time changes nothing."""
    result = question["result"]
    slug, outcome = result["slug"], result["outcome"]
    known = [one.data.get("deployment") for one in store.attachments(slug, "deployment") if isinstance(one.data, dict)]
    # A job that an earlier child took and died with is nobody's.
    store.recover()
    if result["deployment"] in known:
        _close_jobs(store, [slug, *result["contained"]])
        return {"applied": True, "why": "it was known"}
    try:
        if outcome in _GOOD:
            _deployed(store, result)
        elif outcome == "interrupted":
            store.doorbells.ring(_QUEUE)
        elif outcome == "busy":
            _busy(store, result)
        else:
            _happen(store, slug, Event.DEPLOY_FAILED, {"reason": result["sentence"], "deployment": result})
    except Refused as refusal:
        return {"applied": False, "why": str(refusal)[:1000]}
    return {"applied": True}


def _deployed(store: Store, result: Mapping[str, Any]) -> None:
    slug = result["slug"]
    card = store.card(slug)
    if card.phase is Phase.KLAERUNG_REPARATUR and card.status is Status.DEPLOY_FAILED:
        # It was refused before, and a person deployed it with a flag: their word is the retry.
        store.happen(slug, Event.RETRY, actor=_BOARD)
        boundary("evidence: retried")
    data = {"commit": result["commit"], "contained": result["contained"], "deployment": result}
    _happen(store, slug, Event.DEPLOYED, data)
    boundary("evidence: deployed")
    _close_jobs(store, result["contained"])


def _close_jobs(store: Store, slugs: list[str]) -> None:
    """The waiting deploy jobs of cards that came along: their answer is that they are deployed already."""
    for slug in slugs:
        card = store.find(slug)
        if card is not None and card.phase is Phase.DEPLOYED and (claim := _claim(store, slug)) is not None:
            store.finish(claim, Event.DEPLOYED, {"reason": "deployed with another card"})


def _busy(store: Store, result: Mapping[str, Any]) -> None:
    claim = _claim(store, result["slug"])
    if claim is None:
        raise Refused(f"{result['slug']}: no deploy job waits for it; board deploy {result['slug']} makes one")
    scheduler = store.config.scheduler
    line = store.job(claim.job.id)
    wait = scheduler.outage_backoff_initial_seconds * 2 ** min(line.outages if line else 0, 20)
    store.happen(result["slug"], Event.DEPLOY_BUSY, actor=_BOARD, data={"reason": result["sentence"]})
    boundary("evidence: busy")
    not_before = result["not_before"] or time.time() + min(wait, scheduler.outage_backoff_max_seconds)
    store.put_back(claim, not_before=not_before, reason=result["sentence"])


def _happen(store: Store, slug: str, event: Event, data: Mapping[str, Any]) -> None:
    """Through the card's deploy job where one waits, so that it is over with this; else by itself."""
    claim = _claim(store, slug)
    if claim is None:
        store.happen(slug, event, actor=_BOARD, data=data)
    elif not store.finish(claim, event, data, result={"reason": str(data.get("reason") or "")}):
        raise Refused(f"{slug}: its phase changed meanwhile, so the result is only kept with its deploy job")


def _claim(store: Store, slug: str) -> Claim | None:
    return store.claim(_QUEUE, only=slug)


_ANSWERS: Mapping[str, Callable[[Store, Mapping[str, Any]], dict[str, Any]]] = {
    "evidence": _evidence,
    "ready": _ready,
    "published": _published,
    "tell": _tell,
}

if __name__ == "__main__":
    main()
