"""What .gitignore files leave out, asked of git itself, inside the sandbox.

What the tree says now decides: a changed .gitignore is a change like any other, in scope and under review.  The rules
are the agent's text and can be written to take for ever, so they meet git with a time limit, without network and
without the agent's .git: its info/exclude and its configuration count for nothing.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from pathlib import Path

from intent_board import sandbox
from intent_board.workspace.errors import WorkspaceError
from intent_board.workspace.files import make_git_dir, temporary
from intent_board.workspace.git import ENVIRONMENT

TIMEOUT = 120.0
#: A box has its own home, and check-ignore does not know literal paths.
NOT_HERE = frozenset({"HOME", "GIT_LITERAL_PATHSPECS"})
#: Which of these untracked files of the tree are ignored.
Ignored = Callable[[Path, Sequence[bytes]], set[bytes]]


def asker(place: Path, mode: sandbox.Mode) -> Ignored:
    """The question as a function; `place` is a directory of ours for what it needs."""
    return lambda root, paths: ask(root, paths, place, mode)


def ask(root: Path, paths: Sequence[bytes], place: Path, mode: sandbox.Mode) -> set[bytes]:
    """Which of `paths`, untracked files below `root`, its .gitignore files name.

    Raises WorkspaceError: check_failed when that takes too long, failed when there is no sandbox or git fails in it.
    """
    with temporary(place) as directory:
        git_dir, answer = directory / "git", directory / "answer"
        make_git_dir(git_dir, head="board", bare=False)
        (git_dir / "info" / "attributes").unlink()
        answer.touch()
        mounts = (sandbox.Mount(root, root), sandbox.Mount(directory, directory, writable=True))
        environment = {name: value for name, value in ENVIRONMENT.items() if name not in NOT_HERE}
        environment |= {"GIT_DIR": str(git_dir), "GIT_WORK_TREE": str(root)}
        box = sandbox.Box(cwd=root, mounts=mounts, environment=environment)
        script = f"exec git check-ignore -z --stdin --no-index > {shlex.quote(str(answer))}"
        # Without the dot a name that begins with a colon would be taken for a pattern.
        given = b"".join(b"./%b\0" % path for path in paths)
        try:
            argv = ("/bin/sh", "-c", script)
            done = sandbox.run(argv, box, mode=mode, timeout=TIMEOUT, stdin=given, output_limit=4096)
        except sandbox.SandboxError as error:
            raise WorkspaceError("failed", str(error)) from error
        if done.timed_out:
            raise WorkspaceError("check_failed", f"the .gitignore files take more than {TIMEOUT:.0f} s; simplify them")
        if done.exit_code not in (0, 1):  # 1: none is ignored
            said = done.output.decode(errors="backslashreplace").strip()
            raise WorkspaceError("failed", f"git can't read the .gitignore files of {root}: {said}", (said,))
        return {path.removeprefix(b"./") for path in answer.read_bytes().split(b"\0")} & set(paths)
