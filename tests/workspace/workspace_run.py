"""A worker's way with one card, as a program that can be killed: workspace_run.py ROOT REMOTE."""

from __future__ import annotations

import sys
from pathlib import Path

from workspace_bench import TRAILERS, WHEN, Files, make_config

from intent_board.workspace import Moved, Published, Workspace


def main(root: Path, remote: str) -> None:
    """From the fetch to the removal of the tree; prints the published hash."""
    workspace = Workspace(make_config(root, remote, checks=[["true"]]), Files())
    branch = workspace.fetch("code")
    marker = root / "base"
    if not marker.exists():
        marker.write_text(workspace.tip("code", branch) or "")  # what the store would remember
    base = marker.read_text()
    published = root / "published"
    if not published.exists():
        tree = workspace.clone("code", "my-card", base)
        (tree / "work.txt").write_text("work\n")
        (tree / "run.sh").unlink(missing_ok=True)
        commit = workspace.commit_tree(
            "code", "my-card", base=base, scope=("**",), title="T", body="B", trailers=TRAILERS, forbidden_values=(),
            when=WHEN,
        )  # fmt: skip
        assert commit is not None
        assert [check.exit_code for check in workspace.run_checks("code", commit.hash)] == [0]
        checkout = workspace.checkout("code", commit.hash, "1-1")
        assert workspace.unchanged(checkout, "code", commit.hash)
        workspace.remove_checkout(checkout)
        hash_ = commit.hash
        state = workspace.publish("code", branch, hash_, base=base)
        if isinstance(state, Moved):
            hash_ = workspace.rebase("code", hash_, state.tip, base=base)
            state = workspace.publish("code", branch, hash_)
        assert isinstance(state, Published)
        workspace.keep_ref("code", "my-card", commit.hash)
        published.write_text(hash_)
    workspace.remove_tree("code", "my-card")
    print(published.read_text())


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
