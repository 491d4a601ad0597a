"""What a tree holds beyond its base: for an interim report, and kept as a ref when a card goes no further."""

from __future__ import annotations

from dataclasses import dataclass

from intent_board.boundaries import boundary
from intent_board.workspace.commit import Told, Tree, pair, write
from intent_board.workspace.mirror import Mirror
from intent_board.workspace.names import shown
from intent_board.workspace.objects import full_hash, stage
from intent_board.workspace.tree import survey

#: What a person or the next attempt can use; the sums cover the rest.
MAX_LISTED = 500


@dataclass(frozen=True)
class ChangedFile:
    """One changed path: status A (new), M or D; lines added and removed, None for a file that is not text."""

    path: str
    status: str
    added: int | None
    removed: int | None


@dataclass(frozen=True)
class TreeReport:
    """The first MAX_LISTED changed files of `total`, the sums over all, and what could not be committed as it is."""

    files: tuple[ChangedFile, ...] = ()
    total: int = 0
    added: int = 0
    removed: int = 0
    refused: tuple[str, ...] = ()

    @property
    def diffstat(self) -> str:
        """A line per listed file and a line with the sums."""
        lines = [f"{file.status} {file.path} {_count(file)}" for file in self.files]
        if self.total > len(self.files):
            lines.append(f"and {self.total - len(self.files)} more")
        return "\n".join([*lines, f"{self.total} files changed, +{self.added} -{self.removed}"])


def _count(file: ChangedFile) -> str:
    return "(binary)" if file.added is None else f"+{file.added} -{file.removed}"


def tree_report(mirror: Mirror, tree: Tree, base: str | None) -> TreeReport:
    """Changed files and line counts of a tree against its base.  Nothing of it stays in the mirror.

    Paths that break a rule are listed as refused, and hinder nothing.
    """
    known = mirror.entries(base)
    found = survey(tree.path, known, digits=mirror.digits, ignored=tree.ignored)
    refused = tuple(found.refused[:MAX_LISTED])
    if not found.paths:
        return TreeReport(refused=refused)
    with stage(mirror.path, mirror.digits) as staged:
        commit = write(staged.git, found, Told("report", "", {}, 0), base)
        out = staged.git.run(
            "diff-tree", *pair(base, commit), "-r", "-z", "--numstat", "--no-commit-id", "--no-renames"
        ).out
    counts = {}
    for line in out.split(b"\0")[:-1]:
        added, removed, path = line.split(b"\t", 2)
        counts[path] = (None, None) if added == b"-" else (int(added), int(removed))
    files = [
        ChangedFile(shown(path), "D" if path not in found.changed else "M" if path in known else "A", *counts[path])
        for path in found.paths
    ]
    return TreeReport(
        files=tuple(files[:MAX_LISTED]),
        total=len(files),
        added=sum(file.added or 0 for file in files),
        removed=sum(file.removed or 0 for file in files),
        refused=refused,
    )


def save_tree(mirror: Mirror, tree: Tree, slug: str, base: str | None) -> str | None:
    """The state of a tree as a commit under refs/board/<slug>, with what can be committed of it; None: no change.

    Scope does not matter here, since nobody publishes it.  What broke a rule is left out and named in the message.
    """
    found = survey(tree.path, mirror.entries(base), digits=mirror.digits, ignored=tree.ignored)
    if not found.paths:
        return None
    body = "The tree as its last session left it."
    if found.refused:
        body += "\n\nLeft out:\n" + "\n".join(found.refused[:MAX_LISTED])
    told = Told(f"Kept state of {slug}", body, {"Intent": slug}, _date(mirror, base))
    with stage(mirror.path, mirror.digits) as staged:
        commit = write(staged.git, found, told, base)
        staged.accept()
    boundary("workspace: tree saved")
    keep_ref(mirror, slug, commit)
    return commit


def _date(mirror: Mirror, base: str | None) -> int:
    """The base's own date, so that saving the same tree twice gives the same commit."""
    return 0 if base is None else int(mirror.git.run("log", "-1", "--format=%ct", base).out)


def keep_ref(mirror: Mirror, name: str, commit: str) -> None:
    """Keep a commit as refs/board/<name> of the mirror."""
    with mirror.locked() as git:
        git.run("update-ref", f"refs/board/{name}", f"{full_hash(commit)}^{{commit}}")
    boundary("workspace: ref kept")


def is_safe(mirror: Mirror, tree: Tree, base: str | None, commit: str | None) -> bool:
    """Whether removing the tree loses no work: it is as its base, or as a commit that a branch or a kept ref has."""
    if commit is not None and mirror.has(commit) and _same(mirror, tree, commit):
        holders = ("for-each-ref", f"--contains={commit}", "--count=1", "refs/heads", "refs/board")
        return bool(mirror.git.run(*holders).out)
    return _same(mirror, tree, base)


def _same(mirror: Mirror, tree: Tree, commit: str | None) -> bool:
    found = survey(tree.path, mirror.entries(commit), digits=mirror.digits, ignored=tree.ignored)
    return not found.paths and not found.refused
