"""A repository that one Fixer run may push to, and the way of exactly one commit out of it.

Everything in it was written by an agent: its configuration, refs and objects.  Only git inside the sandbox runs on
it, without network and credential; what comes out is a pack, whose objects trusted code checks one by one.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import stat
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from intent_board import sandbox
from intent_board.boundaries import boundary
from intent_board.workspace.commit import Commit, old_content, prove_unfiltered, raw_diff
from intent_board.workspace.errors import WorkspaceError
from intent_board.workspace.files import clear_leftovers, lock, make_git_dir, remove, temporary
from intent_board.workspace.git import Git
from intent_board.workspace.mirror import Mirror
from intent_board.workspace.names import is_git, leaves_tree, shown
from intent_board.workspace.objects import Stage, borrow, full_hash, list_files, read_blobs, stage
from intent_board.workspace.scope import prove_no_secret, prove_scope
from intent_board.workspace.tree import MAX_CHANGE, MAX_FILE, Entry

#: A pack holds compressed blobs, so no change within the limits makes a larger one.
MAX_PACK = MAX_CHANGE + 16 * 1024 * 1024
EXPORT_TIMEOUT = 300.0
LOCK_TIMEOUT = 900.0
_BRANCH = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*(/[A-Za-z0-9][A-Za-z0-9_-]*)*")


@dataclass(frozen=True)
class Quarantine:
    """The quarantine repository at `path`, which borrows the objects of `mirror`."""

    path: Path
    mirror: Mirror
    mode: sandbox.Mode
    lock_path: Path

    def make(self) -> Path:
        """A new, empty one, whatever lay there before."""
        self.remove()
        make_git_dir(self.path, head="main", bare=True, digits=self.mirror.digits)
        borrow(self.path, self.mirror.path)
        boundary("workspace: quarantine made")
        return self.path

    def remove(self) -> None:
        """Remove it, if it is there."""
        with lock(self.lock_path, timeout=LOCK_TIMEOUT):
            clear_leftovers(self.path.parent)
            remove(self.path)

    def pushed(self) -> bool:
        """Whether any ref was made in it, or it can't be told."""
        try:
            refs = [path for path in (self.path / "refs").rglob("*") if not path.is_dir() or path.is_symlink()]
            return bool(refs) or (self.path / "packed-refs").exists() or self.path.is_symlink()
        except OSError:
            return True

    def take(self, branch: str, commit: str, *, parent: str, scope: Sequence[str], forbidden: Iterable[str]) -> Commit:
        """Bring exactly `commit`, which `branch` must name, into the mirror.

        Raises WorkspaceError (check_failed) when it isn't there or isn't one commit on `parent`, and for everything
        that commit_tree refuses.
        """
        full_hash(commit)
        if not _BRANCH.fullmatch(branch):
            raise WorkspaceError("check_failed", f"{branch[:80]!r} is not the name of a quarantine branch")
        with stage(self.mirror.path, self.mirror.digits) as staged:
            with temporary(self.path.parent) as out:
                pack = self._export(out, branch, commit, full_hash(parent))
                _unpack(staged, pack, commit)
            paths = _prove(staged.git, commit, parent, scope, forbidden)
            _keep_only(staged, commit, parent)
            staged.accept()
        boundary("workspace: repair taken")
        return Commit(commit, parent, tuple(map(shown, paths)))

    def _export(self, out: Path, branch: str, commit: str, parent: str) -> Path:
        """Have git inside the sandbox pack what `parent` does not have; the file is as hostile as its source."""
        pack = out / "pack"
        at, to = shlex.quote(str(self.path)), shlex.quote(str(pack))
        script = (
            f'test "$(git --git-dir={at} rev-parse --verify refs/heads/{branch})" = {commit} || exit 3; '
            f"printf '{commit}\\n^{parent}\\n' | git --git-dir={at} pack-objects -q --revs --stdout > {to}"
        )
        objects = self.mirror.path / "objects"
        mounts = (
            sandbox.Mount(self.path, self.path),
            sandbox.Mount(objects, objects),
            sandbox.Mount(out, out, writable=True),
        )
        box = sandbox.Box(
            cwd=out, mounts=mounts, environment={"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": "/dev/null"}
        )
        try:
            argv = ("/bin/sh", "-c", script)
            done = sandbox.run(argv, box, mode=self.mode, timeout=EXPORT_TIMEOUT, output_limit=4096)
        except sandbox.SandboxError as error:
            raise WorkspaceError("failed", str(error)) from error
        if done.exit_code:
            words = tuple(done.output.decode(errors="backslashreplace").splitlines()[-20:])
            raise WorkspaceError(
                "check_failed", f"commit {commit} is not on {branch!r} of the quarantine repository", words
            )
        return pack


def _unpack(staged: Stage, pack: Path, commit: str) -> None:
    """Read the pack into the stage; git checks every object, and that none is missing."""
    with os.fdopen(os.open(pack, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        info = os.fstat(file.fileno())
        if not stat.S_ISREG(info.st_mode) or info.st_size > MAX_PACK:
            raise WorkspaceError("check_failed", f"commit {commit} makes a pack of more than {MAX_PACK} bytes")
        with (staged.directory / "pack").open("w+b") as copy:
            shutil.copyfileobj(file, copy)
            copy.seek(0)
            read = staged.git.run(
                "index-pack", "--strict", "--stdin", f"--max-input-size={MAX_PACK}", stdin=copy, codes=None
            )
    if read.code:
        raise WorkspaceError("check_failed", f"commit {commit} holds a broken object: {read.reason}", read.words)


def _keep_only(staged: Stage, commit: str, parent: str) -> None:
    """Leave nothing on the stage but the commit's own objects: whatever else was in the pack was not judged."""
    packs = staged.directory / "git" / "objects" / "pack"
    span = f"{commit}\n^{parent}\n".encode()
    staged.git.run("pack-objects", "-q", "--revs", str(staged.directory / "pack"), stdin=span)
    for path in list(packs.iterdir()):
        path.unlink()
    for path in staged.directory.glob("pack-*"):
        path.rename(packs / path.name)


def _prove(git: Git, commit: str, parent: str, scope: Sequence[str], forbidden: Iterable[str]) -> tuple[bytes, ...]:
    """Everything that must hold for a commit that somebody else made; returns its paths."""
    described = git.run("cat-file", "commit", commit, codes=(0, 128)).out
    head, _, message = described.partition(b"\n\n")
    parents = re.findall(rb"^parent (.*)$", head, re.MULTILINE)
    if parents != [parent.encode()]:
        raise WorkspaceError("check_failed", f"{commit} is not one commit on {parent}; its only parent must be that")
    differing = raw_diff(git, parent, commit)
    if not differing:
        raise WorkspaceError("check_failed", f"{commit} changes nothing")
    prove_scope(differing, scope)
    changed = {path: entry for path, entry in differing.items() if entry is not None}
    content = _content(git, changed)
    known = list_files(git, parent)
    prove_no_secret(partial(old_content, git, known), content, head + b"\n\n" + message, forbidden)
    prove_unfiltered(git, commit, {**known, **changed}, changed)
    return tuple(sorted(differing))


def _content(git: Git, changed: dict[bytes, Entry]) -> dict[bytes, bytes]:
    """The changed files' bytes; refuses modes, names, links and sizes that a walk of a tree would refuse."""
    bad = [f"{shown(path)}: mode {entry.mode}" for path, entry in changed.items() if entry.mode not in _MODES]
    bad += [f"{shown(path)}: is a .git" for path in changed if any(map(is_git, path.split(b"/")))]
    sizes = {} if bad else _sizes(git, changed)
    bad += [f"{shown(path)}: has {size} bytes" for path, size in sizes.items() if size > MAX_FILE]
    if sum(sizes.values()) > MAX_CHANGE:
        bad.append(f"{len(sizes)} files: have more than {MAX_CHANGE} bytes together")
    if not bad:
        blobs = read_blobs(git, (entry.oid for entry in changed.values()))
        content = {path: blobs[entry.oid] for path, entry in changed.items()}
        links = {path for path, entry in changed.items() if entry.mode == "120000"}
        bad = [f"{shown(path)}: is a link out of the tree" for path in links if leaves_tree(path, content[path])]
        if not bad:
            return content
    raise WorkspaceError("check_failed", f"{len(bad)} path(s) can't be taken; {bad[0]}", tuple(bad))


_MODES = frozenset({"100644", "100755", "120000"})


def _sizes(git: Git, changed: dict[bytes, Entry]) -> dict[bytes, int]:
    oids = "".join(f"{entry.oid}\n" for entry in changed.values()).encode()
    out = git.run("cat-file", "--batch-check=%(objectsize)", stdin=oids).out
    return dict(zip(changed, map(int, out.split()), strict=True))
