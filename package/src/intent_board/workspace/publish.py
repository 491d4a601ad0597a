"""To the remote, fast-forward only; and onto a branch that moved, as a new commit."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass, replace

from intent_board.boundaries import boundary
from intent_board.workspace.commit import PATCH, pair, raw_diff
from intent_board.workspace.errors import WorkspaceError
from intent_board.workspace.git import Git, Output
from intent_board.workspace.mirror import Mirror
from intent_board.workspace.names import shown
from intent_board.workspace.objects import full_hash, stage

#: A card's own commits: its build, and a few repairs on top.
MAX_COMMITS = 50


@dataclass(frozen=True)
class Published:
    """The remote's branch contains the commit; `tip` is where the branch stands."""

    tip: str


@dataclass(frozen=True)
class Moved:
    """The remote's branch stands at `tip`, which the commit does not contain.

    `rewritten`: the commit that the work was based on is no longer part of the branch, so somebody replaced history.
    """

    tip: str
    rewritten: bool = False


def publish(
    mirror: Mirror, branch: str, commit: str, base: str | None, last_look: Callable[[], None]
) -> Published | Moved:
    """Bring exactly `commit` to the remote's branch, or say that the branch moved; may be repeated at any time.

    `last_look` is called right before the push, with the mirror locked; what it raises keeps the push from being made.
    Raises WorkspaceError: publish_failed when the remote refuses or deleted the branch, outage when it can't be
    reached.  Never forces, never deletes.
    """
    full_hash(commit)
    mirror.make()
    with mirror.locked() as git:
        mirror.update(git)
        for _ in range(2):
            if (state := _compare(mirror, branch, commit, base)) is not None:
                return state
            last_look()
            boundary("workspace: before the push")
            # No leading plus and no --force: the remote itself refuses what is no fast-forward.
            pushed = mirror.ask(
                git, "push", "--porcelain", "--no-verify", "--no-follow-tags", "--no-signed", "--no-recurse-submodules",
                "origin", f"{commit}:refs/heads/{branch}", push=True,
            )  # fmt: skip
            boundary("workspace: pushed")
            if pushed.code == 0:
                # The remote said that it took it; this is what the next fetch would write.
                git.run("update-ref", f"refs/heads/{branch}", commit)
                return Published(commit)
            mirror.update(git)
            tip = mirror.tip(branch)
            if tip is not None and mirror.is_ancestor(commit, tip):
                return Published(tip)
            if not _lost_race(pushed):
                raise _refused(mirror, branch, pushed)
    raise WorkspaceError(
        "outage", f"branch {branch!r} of {mirror.name!r} moves faster than it can be pushed; try again"
    )


def _compare(mirror: Mirror, branch: str, commit: str, base: str | None) -> Published | Moved | None:
    """Where the branch stands to the commit; None: a push would be a fast-forward."""
    if not mirror.has(commit):
        raise WorkspaceError("failed", f"the mirror of {mirror.name!r} has no commit {commit} any more; build it again")
    tip = mirror.tip(branch)
    if tip is None:
        if mirror.git.run("rev-parse", "--verify", "--quiet", f"{commit}^", codes=(0, 1)).code == 0:
            raise WorkspaceError(
                "publish_failed",
                f"branch {branch!r} does not exist on the remote of {mirror.name!r} any more; "
                "create it again there, or archive the card",
            )
        return None
    if mirror.is_ancestor(commit, tip):
        return Published(tip)
    if mirror.is_ancestor(tip, commit):
        return None
    return Moved(tip, rewritten=base is not None and not mirror.is_ancestor(base, tip))


def _lost_race(pushed: Output) -> bool:
    text = pushed.out.decode(errors="replace") + pushed.error
    return bool(re.search(r"\[rejected\]|\(fetch first\)|non-fast-forward|cannot lock ref|failed to update ref", text))


def _refused(mirror: Mirror, branch: str, pushed: Output) -> WorkspaceError:
    if pushed.outage:
        return WorkspaceError(
            "outage", f"the remote of {mirror.name!r} was lost during the push; try again", pushed.words
        )
    lines = pushed.out.decode(errors="backslashreplace").splitlines()
    marked = [line.split("\t")[-1] for line in lines if line.startswith("!")]
    words = (*marked, *pushed.words)
    reason = words[0] if words else f"git push ended with {pushed.code}"
    return WorkspaceError(
        "publish_failed",
        f"the remote of {mirror.name!r} refuses the push to {branch!r}: {reason}; see its words",
        words,
    )


def rebase(mirror: Mirror, commit: str, onto: str, base: str | None) -> str:
    """The card's own commits, from `base` to `commit`, again on top of `onto`; returns the new hash.

    The same arguments give the same hash.  Raises WorkspaceError (publish_failed): a conflict, with its paths, or
    nothing left to publish.
    """
    chain = _own_commits(mirror, commit, base)
    tip = full_hash(onto)
    with stage(mirror.path, mirror.digits) as staged:
        for parent, own in zip([base, *chain], chain, strict=False):
            tip = _replay(staged.git, parent, own, tip)
        staged.accept()
    _prove_paths(mirror, commit, base, tip, onto)
    boundary("workspace: rebased")
    return tip


def _prove_paths(mirror: Mirror, commit: str, base: str | None, new: str, onto: str) -> None:
    """A rebase changes something, and no path that the commit did not: its scope was proved for those."""
    differing = raw_diff(mirror.git, onto, new)
    if not differing:
        raise WorkspaceError("publish_failed", f"{onto} of {mirror.name!r} has this change already; archive the card")
    added = sorted(map(shown, differing.keys() - raw_diff(mirror.git, base, commit).keys()))
    if added:
        raise WorkspaceError("publish_failed", f"the rebase would also change {added[0]}; build it again", tuple(added))


def _own_commits(mirror: Mirror, commit: str, base: str | None) -> list[str]:
    span = (full_hash(commit), *(() if base is None else (f"^{full_hash(base)}",)))
    out = mirror.git.run(
        "rev-list", "--reverse", "--topo-order", "--parents", f"--max-count={MAX_COMMITS + 1}", *span
    ).out
    lines = [line.split() for line in out.decode().splitlines()]
    chain = [line[0] for line in lines]
    if [line[1:] for line in lines] != [[parent] if parent else [] for parent in [base, *chain][:-1]]:
        raise WorkspaceError(
            "publish_failed", f"commit {commit} is not a plain line of commits on {base}; build it again"
        )
    if not 0 < len(chain) <= MAX_COMMITS:
        raise WorkspaceError(
            "publish_failed", f"there are {len(chain)} commits from {base} to {commit}; build it again"
        )
    return chain


def _replay(git: Git, parent: str | None, own: str, onto: str) -> str:
    """One commit's change on top of `onto`, with its own message, author and dates."""
    described = git.run("cat-file", "commit", own).out
    head, message = described.split(b"\n\n", 1)
    stamp = re.search(rb"^author (.*) <(.*)> (\d+) ([+-]\d+)$", head, re.MULTILINE)
    if stamp is None:
        raise WorkspaceError("failed", f"commit {own} has no author that git can read")
    name, mail, when, zone = (part.decode(errors="replace") for part in stamp.groups())
    dated = {f"GIT_{who}_{what}": value for who in ("AUTHOR", "COMMITTER") for what, value in
             (("NAME", name), ("EMAIL", mail), ("DATE", f"@{when} {zone}"))}  # fmt: skip
    git = replace(git, environment=dated)
    tree = _merged_tree(git, parent, own, onto)
    return git.run("commit-tree", tree, "-p", onto, stdin=message).out.decode().strip()


def _merged_tree(git: Git, parent: str | None, own: str, onto: str) -> str:
    if parent is None:
        sides = ["--allow-unrelated-histories", onto, own]
    else:
        # merge-tree takes the merge base from history alone: a helper commit with onto's files on the wanted parent
        # makes `parent` the base, even where the branch was rewritten.
        helper = git.run("commit-tree", f"{onto}^{{tree}}", "-p", parent, "-m", "helper").out.decode().strip()
        sides = [helper, own]
    result = git.run("merge-tree", "--write-tree", "-z", "--name-only", "--no-messages", *sides, codes=(0, 1))
    fields = result.out.split(b"\0")
    if result.code == 1:
        paths = tuple(shown(path) for path in fields[1:] if path)
        if not paths:
            raise WorkspaceError("failed", f"git merge-tree failed in {git.git_dir}: {result.reason}", result.words)
        raise WorkspaceError(
            "publish_failed", f"{len(paths)} path(s) conflict with the branch, {paths[0]} first; build it again", paths
        )
    return fields[0].decode()


def patch_id(mirror: Mirror, commit: str, base: str | None) -> str:
    """A digest of what a change does, independent of where in its files it does it.

    Equal for a commit and its clean rebase; every other byte of the change and its surroundings counts.
    """
    out = mirror.git.run("diff-tree", *pair(base, commit), "--binary", *PATCH).out
    # Only hunk and index lines start like this: a line of content has a space, a plus or a minus in front.
    text = re.sub(rb"(?m)^@@ .*$", b"@@", out)
    return hashlib.sha256(re.sub(rb"(?m)^index [0-9a-f]+\.\.[0-9a-f]+( \d+)?$", b"index", text)).hexdigest()
