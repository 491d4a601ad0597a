"""The interim report: what an ended attempt hands to the next, by the agent's word and by our own."""

from __future__ import annotations

from typing import Any

from intent_board.roles import base
from intent_board.roles.base import Context
from intent_board.roles.order import Data, documents
from intent_board.runtimes import RunResult, read_report
from intent_board.store import Claim

TEXT_SHOWN = 4 * 1024


def interim_report(claim: Claim, context: Context, result: RunResult) -> dict[str, Any]:
    """The report about an attempt that came to no end: the agent's own file if it is valid, and always our part."""
    card = claim.card
    own = read_report(base.report_file(claim, context.config))
    tree = context.workspace.tree_report(card.repository, card.slug)
    return {
        "attempt": claim.job.attempt,
        "ended": str(result.outcome),
        "reason": result.reason,
        "iterations": claim.job.used_iterations + result.iterations,
        "changed_files": [file.path for file in tree.files],
        "changed_files_in_all": tree.total,
        "diffstat": tree.diffstat,
        "refused": list(tree.refused),
        "last_texts": [text[-TEXT_SHOWN:] for text in result.last_texts[-3:]],
        "agent": own.model_dump(mode="json") if own else None,
    }


def left_by_interrupted_run(claim: Claim, context: Context) -> list[Data]:
    """The report that a run of this same attempt left when its worker died."""
    own = read_report(base.report_file(claim, context.config))
    return documents("Report of this attempt's run that was interrupted", [own.model_dump(mode="json")] if own else [])
