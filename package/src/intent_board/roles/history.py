"""What earlier runs and people left at a card, as data for the next order."""

from __future__ import annotations

from intent_board.roles.base import Context
from intent_board.roles.order import Data, documents

#: Of each kind the newest; older ones are about a state of the work that is gone.
SHOWN = 4
LABELS = {
    "answer": "Answer of a person to an earlier question",
    "interim_report": "Report of an earlier attempt that did not get to its end",
    "findings": "Findings about earlier work",
}


def left_behind(slug: str, context: Context, *kinds: str) -> list[Data]:
    """The newest attachments of these kinds, the oldest of them first."""
    found = context.store.attachments(slug)
    return [
        part
        for kind in kinds
        for part in documents(LABELS[kind], [one.data for one in found if one.kind == kind][-SHOWN:])
    ]


def negative_reviews(slug: str, context: Context) -> list[Data]:
    """The newest negative reports of reviewers."""
    reports = [one.report for one in context.store.reviews(slug) if one.decision == "planung_mit_feedback"]
    return documents("Negative review of an earlier commit", reports[-SHOWN:])
