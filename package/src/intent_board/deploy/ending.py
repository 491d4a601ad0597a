"""The end of a deployment: the record closed, the result handed to the store."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from intent_board.boundaries import boundary
from intent_board.config import BoardConfig
from intent_board.deploy import service
from intent_board.deploy.host import DeployRefused, Host
from intent_board.deploy.outcome import GOOD, Outcome, Report
from intent_board.deploy.record import Record, records
from intent_board.deploy.run import run
from intent_board.deploy.truth import Seen

#: A host or a remote that is busy this often in a row is not busy but broken.
MAX_BUSY = 10


def close(
    config: BoardConfig, host: Host, record: Record, slug: str, outcome: Outcome, sentence: str, not_before: float = 0.0
) -> Report:
    """Close the record and hand the result to the store."""
    tries = _tries_in_a_row(host, slug, outcome, record)
    most = {Outcome.BUSY: MAX_BUSY, Outcome.INTERRUPTED: config.scheduler.interrupted_runs + 1}.get(outcome)
    if most is not None and not not_before and tries >= most:
        outcome, sentence = Outcome.FAILED, f"{sentence} (the last of {tries} tries)"
    record.add("end", outcome=outcome, sentence=sentence, not_before=not_before)
    boundary("deploy: end recorded")
    hand_over(host, record)
    commit = (record.find("commit") or {}).get("commit")
    return Report(slug, outcome, sentence, record.number, commit)


def _tries_in_a_row(host: Host, slug: str, outcome: Outcome, record: Record) -> int:
    """How often, with this record, this card's deployment ended so without a word about when to try again."""
    count = 1
    for earlier in reversed(records(host)):
        if earlier.number >= record.number or earlier.slug != slug:
            continue
        end = earlier.find("end") or {}
        if end.get("outcome") != outcome:
            break
        count += not end.get("not_before")
    return count


def hand_over(host: Host, record: Record) -> None:
    """Tell the store, once.  When it does not listen now, `recover` tells it later."""
    try:
        told = service.tell(host, result_of(record))
    except DeployRefused as refusal:
        record.add("not_reported", why=str(refusal))
        return
    boundary("deploy: store told")
    record.add("reported", applied=told.applied, why=told.why)
    _forget_root(host, record)


def _forget_root(host: Host, record: Record) -> None:
    """The out-link has done its work: a system that runs is kept by its generation."""
    if link := (record.find("build_begins") or {}).get("link"):
        account = host.account(host.build_user)
        run(["rm", "-f", "--", str(host.build_dir / "roots" / Path(link).name)], host, timeout=60, account=account)


def result_of(record: Record) -> dict[str, Any]:
    """A record's end as the store gets it: bounded, and with everything a person asks about."""
    lines = record.lines()

    def find(kind: str) -> dict[str, Any]:
        return next((line for line in reversed(lines) if line["kind"] == kind), {})

    end, contained, truth = find("end"), find("contained"), find("rollback") or find("truth")
    return {
        "deployment": record.number,
        "slug": find("begin")["slug"],
        "outcome": end["outcome"],
        "sentence": end["sentence"],
        "not_before": end.get("not_before", 0.0),
        "commit": find("commit").get("commit") or find("evidence").get("commit"),
        "review": find("evidence").get("review"),
        "gate": find("evidence").get("gate"),
        "flags": {name: True for name in ("first", "allow_older") if find("begin").get(name)},
        "path": find("build").get("path"),
        "before": find("switch_begins").get("before"),
        "seen": truth.get("seen"),
        "discrepancies": find("truth").get("discrepancies", []),
        "contained": contained.get("cards", []),
        "foreign": contained.get("foreign", []),
        "steps": [_step(line) for line in lines if "argv" in line],
        "begun": find("begin")["time"],
        "ended": end["time"],
    }


def _step(line: dict[str, Any]) -> dict[str, Any]:
    return {key: line.get(key) for key in ("kind", "argv", "exit_code", "seconds")} | {"output": line["output"][-2000:]}


def deployed_commit(host: Host, seen: Seen) -> str | None:
    """The commit that the running system was built from, by the deployer's own records, or None."""
    if seen.current is None:
        return None
    for record in reversed(records(host)):
        if not record.mentions(seen.current):
            continue
        end, built, commit = (record.find(kind) for kind in ("end", "build", "commit"))
        if end and built and commit and end.get("outcome") in GOOD and built.get("path") == seen.current:
            return str(commit["commit"])
    return None
