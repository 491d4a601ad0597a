"""A board's workspace beside a real remote on this machine."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from intent_board.config import BoardConfig, parse
from intent_board.workspace import Workspace

WHEN = 1_700_000_000
TRAILERS = {"Intent": "my-card", "Board-Job": "7"}


@dataclass
class Files:
    """The credentials of a test: names and the files that hold them."""

    files: dict[str, Path] = field(default_factory=dict)

    def path(self, name: str) -> Path | None:
        return self.files.get(name)


def git(*argv: str, cwd: Path, check: bool = True, **environment: str) -> str:
    """Plain git as a person runs it, with nothing of this machine's configuration."""
    own = {
        "PATH": os.environ["PATH"],
        "HOME": str(cwd),
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_AUTHOR_NAME": "A Person",
        "GIT_AUTHOR_EMAIL": "person@example.org",
        "GIT_COMMITTER_NAME": "A Person",
        "GIT_COMMITTER_EMAIL": "person@example.org",
    }
    done = subprocess.run(["git", *argv], cwd=cwd, env=own | environment, capture_output=True, check=False)
    assert not check or done.returncode == 0, done.stderr.decode()
    return done.stdout.decode(errors="surrogateescape").strip()


@dataclass
class Bench:
    """A state directory, a bare remote with a person's clone of it, and the workspace under test."""

    root: Path
    config: BoardConfig
    workspace: Workspace
    remote: Path
    person: Path

    def write(self, files: dict[str, bytes | str], *, message: str = "Work", branch: str = "main") -> str:
        """A person's commit on the remote; returns its hash."""
        for name, content in files.items():
            path = self.person / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content.encode() if isinstance(content, str) else content)
        git("add", "-A", "-f", cwd=self.person)
        git("commit", "-q", "--allow-empty", "-m", message, cwd=self.person)
        git("push", "-q", "origin", f"HEAD:{branch}", cwd=self.person)
        return git("rev-parse", "HEAD", cwd=self.person)

    def clone(self, slug: str = "my-card") -> tuple[Path, str]:
        """The card's clone at the branch's tip."""
        tip = self.workspace.tip("code", self.workspace.fetch("code"))
        assert tip is not None
        return self.workspace.clone("code", slug, tip), tip

    def commit(
        self, base: str | None, *, slug: str = "my-card", scope: tuple[str, ...] = ("**",), **values: Any
    ) -> Any:
        """commit_tree with the values that most tests don't care for."""
        given: dict[str, Any] = {
            "title": "A title", "body": "Why.", "trailers": TRAILERS, "forbidden_values": (), "when": WHEN
        }  # fmt: skip
        return self.workspace.commit_tree("code", slug, base=base, scope=scope, **(given | values))

    @property
    def mirror(self) -> Path:
        return self.config.state_dir / "mirrors" / "code.git"

    def files(self, commit: str) -> dict[str, bytes]:
        """Every file of a commit in the mirror, with its bytes."""
        names = git("ls-tree", "-r", "-z", "--name-only", commit, cwd=self.mirror).split("\0")[:-1]
        return {
            name: subprocess.run(
                ["git", "--git-dir", str(self.mirror), "cat-file", "blob", f"{commit}:{name}"],
                capture_output=True, check=True,
            ).stdout
            for name in names
        }  # fmt: skip


def make_config(root: Path, remote: str, **repository: Any) -> BoardConfig:
    return parse(
        {
            "board": {"owner": "lukas", "state_dir": str(root / "state"), "sandbox": "when_available"},
            "repositories": {"code": {"remote_url": remote, "branch": "main"} | repository},
        }
    )


def make_bench(root: Path, *, init: tuple[str, ...] = (), **repository: Any) -> Bench:
    remote, person = root / "remote.git", root / "person"
    git("init", "-q", "--bare", "-b", "main", *init, str(remote), cwd=root)
    git("clone", "-q", str(remote), str(person), cwd=root)
    git("checkout", "-q", "-B", "main", cwd=person)
    config = make_config(root, str(remote), **repository)
    return Bench(root, config, Workspace(config, Files()), remote, person)
