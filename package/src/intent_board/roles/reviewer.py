"""The Reviewer: one commit against its criteria.  What is not a valid approval of exactly that hash is none."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from intent_board.board.states import Event
from intent_board.contracts import ContractError
from intent_board.contracts.reviewer import parse_report
from intent_board.contracts.scope import matches
from intent_board.roles import base, order
from intent_board.roles.base import Context, Outcome, PutBack
from intent_board.roles.reading import read
from intent_board.roles.text import RoleText, load
from intent_board.runtimes import Outcome as Ended
from intent_board.store import Claim

#: A diff beyond this is read in the checkout.
DIFF_LIMIT = 200_000
#: Of a summary, and of what is doubtful in it; nobody reads more.
SUMMARY_READ, NOTES_SHOWN = 64 * 1024, 50
#: A relative path as people write it: with a slash, or in backticks with an extension.
_PATH = re.compile(r"(?<![\w/:.@+-])((?:[\w.+-]+/)+[\w.+-]*\w)|`([\w+-][\w.+-]*\.[A-Za-z]\w{0,7})`")


def work(claim: Claim, context: Context) -> Outcome | PutBack:
    """Have exactly the job's commit judged; every way out but a valid report approves nothing."""
    text = load("reviewer", context.config)
    commit = claim.job.snapshot["commit"]
    result = read(claim, context, commit, lambda tree: _order(claim, context, text, tree))
    if isinstance(result, PutBack):
        return result
    kept = base.record(claim, context.config, text, result) | {"commit": commit}
    if result.outcome is not Ended.ANSWERED:
        return Outcome(
            Event.REVIEW_INVALID, {"reason": f"the review {result.outcome}: {result.reason}"}, result.text, kept
        )
    try:
        report = parse_report(
            result.text,
            commit=commit,
            nonce=claim.job.snapshot["nonce"],
            criteria=len(claim.card.acceptance_criteria),
        )
    except ContractError as error:
        reason = f"the reviewer's answer was refused: {error}"
        return Outcome(Event.REVIEW_INVALID, {"reason": reason}, result.text, kept)
    data: dict[str, Any] = {"commit": commit, "report": asdict(report)}
    if report.approved:
        return Outcome(Event.APPROVED, data | {"protected": protected(claim, context)}, result.text, kept)
    return Outcome(
        Event.NEGATIVE, data | {"reason": base.brief(f"the review was negative: {report.summary}")}, result.text, kept
    )


def protected(claim: Claim, context: Context) -> list[str]:
    """The paths of the commit that wait for the owner's release, whoever owns the card."""
    patterns = context.config.repositories[claim.card.repository].protected_paths
    snapshot, workspace, repository = claim.job.snapshot, context.workspace, claim.card.repository
    tip = workspace.tip(repository, snapshot["branch"])
    if tip is not None and workspace.is_ancestor(repository, snapshot["commit"], tip):
        # A synthesis that changes nothing: what it judges is on the branch, and was released on its way there.
        return []
    paths = workspace.paths_changed(repository, snapshot["base"], snapshot["commit"])
    return [path for path in paths if matches(patterns, path)]


def _order(claim: Claim, context: Context, text: RoleText, tree: Path) -> str:
    card, snapshot = claim.card, claim.job.snapshot
    paths = context.workspace.paths_changed(card.repository, snapshot["base"], snapshot["commit"])
    checks = snapshot.get("checks") or []
    summary = str(snapshot.get("summary") or "")
    facts = {
        "kind": str(card.kind),
        "branch": snapshot.get("branch"),
        "commit": snapshot["commit"],
        "base": snapshot["base"],
        "nonce": snapshot["nonce"],
        "write_scope": list(card.write_scope),
        "checks": [{key: check[key] for key in ("argv", "exit_code", "timed_out", "seconds")} for check in checks],
    }
    diff = context.workspace.diff(card.repository, snapshot["base"], snapshot["commit"], DIFF_LIMIT)
    data = [
        order.criteria(card),
        order.json_block("Paths changed by the commit", list(paths)),
        order.Data("Summary by its author", summary),
        order.json_block("Evidence notes", evidence_notes(summary, tree, paths)),
        *(order.Data("End of the output of " + " ".join(check["argv"]), check["output"]) for check in checks),
        order.Data("Diff", diff),
    ]
    return order.of_role(claim, context, text, facts, data)


def evidence_notes(summary: str, tree: Path, changed: Sequence[str]) -> list[str]:
    """What is doubtful in a summary: paths it names that are neither in the commit nor changed by it."""
    named = dict.fromkeys(match[1] or match[2] for match in _PATH.finditer(summary[:SUMMARY_READ]))
    missing = [path for path in named if path not in changed and not exists(tree, path)]
    return [f"The summary names {path}, which is not in this commit." for path in missing[:NOTES_SHOWN]]


def exists(tree: Path, path: str) -> bool:
    """Whether a path that somebody named is in a checkout.  No link of the commit is followed out of it."""
    inside = tree / path
    try:
        if ".." in path.split("/") or not inside.parent.resolve().is_relative_to(tree.resolve()):
            return False
        inside.lstat()
    except (OSError, RuntimeError, ValueError):
        # Missing; or too long a name, a loop of links, a NUL: there is no such file.
        return False
    return True
