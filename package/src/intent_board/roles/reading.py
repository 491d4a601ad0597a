"""Reading roles: an agent program over a read-only checkout of one recorded commit, void when it changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from intent_board.boundaries import boundary
from intent_board.roles import base
from intent_board.roles.base import Context, PutBack
from intent_board.runtimes import Outcome, RunResult
from intent_board.sandbox import Mount
from intent_board.store import Claim


def read(
    claim: Claim,
    context: Context,
    commit: str | None,
    order_text: Callable[[Path], str],
    look: Callable[[Path, str], None] | None = None,
) -> RunResult | PutBack:
    """One run over a checkout of `commit` (None: the repository is empty, and so is the directory).

    `order_text` gets the checkout, so that it can look at what the run will see, and `look` gets it with the answer.  A
    run that changed its checkout comes back as failed, whatever it answered.
    """
    workspace, repository = context.workspace, claim.card.repository
    objects = workspace.objects(repository)
    with _checkout(claim, context, commit) as tree:
        boundary("checkout ready")
        mounts = [Mount(objects, objects)]
        result = base.run(claim, context, order_text(tree), tree, writes=False, mounts=mounts)
        if isinstance(result, PutBack) or result.outcome is not Outcome.ANSWERED:
            return result
        same = not any(tree.iterdir()) if commit is None else workspace.unchanged(tree, repository, commit)
        if not same:
            return base.failed(result, "the run changed its read-only checkout, so its answer is void")
        if look is not None:
            look(tree, result.text)
        return result


@contextmanager
def _checkout(claim: Claim, context: Context, commit: str | None) -> Iterator[Path]:
    name = f"{claim.job.id}-{claim.token}"
    if commit is None:
        tree = context.config.state_dir / "checkouts" / name
        tree.mkdir(parents=True, exist_ok=True)
    else:
        tree = context.workspace.checkout(claim.card.repository, commit, name)
    try:
        yield tree
    finally:
        context.workspace.remove_checkout(tree)
