"""What every part of this room raises."""

from __future__ import annotations

#: A detail is stored and shown; what a hostile tree could fill it with is not.
MAX_DETAIL = 2000


class WorkspaceError(Exception):
    """Work on a repository that could not be done.

    `kind` is a word of docs/states.md: `check_failed` (the tree or its diff breaks a rule), `publish_failed` (the
    remote refuses, or a rebase has a conflict), `outage` (the remote can't be reached now; trying later helps) or
    `failed` (everything else).  `str()` is the sentence: what, where, what to do.  `detail` holds the paths or the
    words of git and of the remote, a line each.
    """

    def __init__(self, kind: str, sentence: str, detail: tuple[str, ...] = ()) -> None:
        super().__init__(sentence)
        if len(detail) > MAX_DETAIL:
            detail = (*detail[:MAX_DETAIL], f"and {len(detail) - MAX_DETAIL} more")
        self.kind, self.sentence, self.detail = kind, sentence, detail
