"""The interim report: what an ended attempt hands to the next, by the agent's word and by our own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from intent_board.roles import base
from intent_board.roles.base import Context
from intent_board.runtimes import RunResult, read_report, remove_run_dir
from intent_board.store import Claim

TEXT_SHOWN = 4 * 1024


def interim_report(claim: Claim, context: Context, result: RunResult) -> dict[str, Any]:
    """The report about an attempt that came to no end: the agent's own file if it is valid, and always our part."""
    return {
        **_tree(claim, context),
        "agent": _agents_own(base.report_file(claim, context.config), context),
        "ended": str(result.outcome),
        "reason": result.reason,
        "iterations": claim.job.used_iterations + result.iterations,
        "last_texts": [text[-TEXT_SHOWN:] for text in result.last_texts[-3:]],
    }


def of_interrupted_runs(claim: Claim, context: Context) -> list[dict[str, Any]]:
    """The same about earlier runs whose workers died, as far as it can be seen afterwards.

    A report is taken away once it is stored, so one that is still there was left behind: by a run of this job, or by
    an earlier job that was interrupted too often.
    """
    left = _left(claim, context)
    if claim.job.interruptions == 0 and not left:
        return []
    agents = [own for directory in left if (own := _agents_own(directory / "report.json", context)) is not None]
    seen = {**_tree(claim, context), "ended": "interrupted", "iterations": claim.job.used_iterations}
    return [{**seen, "agent": own} for own in agents] or [seen]


def _agents_own(file: Path, context: Context) -> dict[str, Any] | None:
    """The agent's report if it is valid, without any credential that it may have seen and copied."""
    report = read_report(file)
    if report is None:
        return None
    redact = context.credentials.redact
    return {
        "done": [redact(text) for text in report.done],
        "open": [redact(text) for text in report.open],
        "next": redact(report.next),
    }


def remove_reports(claim: Claim, context: Context) -> None:
    """Remove the reports of this job and of earlier ones, once they are stored with this one's result."""
    for directory in _left(claim, context):
        remove_run_dir(directory)


def _left(claim: Claim, context: Context) -> list[Path]:
    """The report directories of this card's jobs up to this one, oldest first."""
    slug, found = claim.card.slug, []
    for directory in (context.config.state_dir / "reports").glob(f"{slug}.*"):
        number = directory.name.removeprefix(f"{slug}.")
        if number.isdigit() and int(number) <= claim.job.id:
            found.append((int(number), directory))
    return [directory for _, directory in sorted(found)]


def _tree(claim: Claim, context: Context) -> dict[str, Any]:
    tree = context.workspace.tree_report(claim.card.repository, claim.card.slug)
    return {
        "attempt": claim.job.attempt,
        "changed_files": [file.path for file in tree.files],
        "changed_files_in_all": tree.total,
        "diffstat": tree.diffstat,
        "refused": list(tree.refused),
    }
