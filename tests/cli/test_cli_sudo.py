"""`board` on a host with real users and the real sudo: a member, the owner, and a stranger.

Runs as root in a mount namespace of its own, where /etc is a copy with a few users more.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import intent_board

USERS = {"intent-board": 61990, "lukas": 61501, "mara": 61502, "eve": 61503}
INTENT = "# Intent: Nightly backup\n"


def why_not() -> str | None:
    if os.geteuid() != 0:
        return "only root can make users and mounts; run it as root"
    if missing := [name for name in ("sudo", "unshare", "setpriv") if shutil.which(name) is None]:
        return f"{missing[0]} is not installed; install it"
    if subprocess.run(["unshare", "-m", "true"], capture_output=True, check=False).returncode != 0:
        return "this machine allows no mount namespace"
    return None


pytestmark = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))


@dataclass
class Host:
    """A directory with the host's /etc, and how to run something on it."""

    directory: Path
    board: Path

    def run(self, user: str, *words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        uid = str(USERS[user])
        inner = ["setpriv", "--reuid", uid, "--regid", uid, "--init-groups", "--reset-env", *words]
        script = f'set -e\n{mounts(self.directory)}\nexec "$@"'
        command = ["unshare", "-m", "bash", "-c", script, "bash", *inner]
        return subprocess.run(command, input=stdin, capture_output=True, text=True, check=False, timeout=60, cwd="/")

    def as_(self, user: str, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        return self.run(user, str(self.board), *arguments, stdin=stdin)


def mounts(directory: Path) -> str:
    """A copy of /etc, and what the program needs where it lies behind a directory that only root may enter."""
    needed = [Path(sys.prefix), Path(sys.base_prefix), Path(intent_board.__file__).parents[1]]
    closed = {closed for path in needed if (closed := _closed(path))}
    lines = [f"mount --bind {directory}/etc /etc"]
    if closed:
        lines += [f"mkdir -p {directory}/all", f"mount --rbind / {directory}/all"]
        lines += [f"mount -t tmpfs -o mode=0755 none {top}" for top in closed]
        for path in needed:
            if _closed(path):
                lines += [f"(umask 022; mkdir -p {path})", f"mount --bind {directory}/all{path} {path}"]
    return "\n".join(lines)


def _closed(path: Path) -> Path | None:
    """The outermost directory on the way to `path` that others may not enter."""
    return next((parent for parent in reversed(path.parents) if not parent.stat().st_mode & 0o001), None)


@pytest.fixture(scope="module")
def host() -> Iterator[Host]:
    # Not pytest's own directory: only root may enter that.
    directory = Path(tempfile.mkdtemp(prefix="board-sudo-", dir="/tmp"))
    directory.chmod(0o755)
    try:
        etc = directory / "etc"
        shutil.copytree("/etc", etc, symlinks=True, ignore_dangling_symlinks=True)
        _own_as_the_original(etc)
        board = directory / "bin" / "board"
        board.parent.mkdir()
        main = "import sys; from intent_board.cli.board import main; sys.exit(main())"
        board.write_text(f"#!{sys.executable}\n{main}\n")
        board.chmod(0o755)
        _add_users(etc)
        rule = etc / "sudoers.d" / "intent-board"
        rule.write_text(f"Defaults env_reset\n%intent-board ALL=(intent-board) NOPASSWD: {board}\n")
        rule.chmod(0o440)
        state = directory / "state"
        state.mkdir(mode=0o700)
        os.chown(state, USERS["intent-board"], USERS["intent-board"])
        (etc / "intent-board").mkdir()
        (etc / "intent-board" / "board.toml").write_text(
            f'[board]\nowner = "lukas"\nstate_dir = "{state}"\n[repositories.site]\nremote_url = "/srv/site.git"\n'
        )
        yield Host(directory, board)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _own_as_the_original(etc: Path) -> None:
    # copytree keeps modes and not owners; sudo wants its files to be root's, which they are, and no more matters.
    assert (etc / "passwd").stat().st_uid == 0


def _add_users(etc: Path) -> None:
    with (etc / "passwd").open("a") as passwd, (etc / "group").open("a") as group, (etc / "shadow").open("a") as shadow:
        for name, uid in USERS.items():
            passwd.write(f"{name}:x:{uid}:{uid}::/nonexistent:/bin/sh\n")
            group.write(f"{name}:x:{uid}:{'lukas,mara' if name == 'intent-board' else ''}\n")
            shadow.write(f"{name}:*:20000::::::\n")


def test_a_member_hands_over_a_file_that_only_she_can_read(host: Host) -> None:
    intent = host.directory / "mara.md"
    intent.write_text(INTENT)
    intent.chmod(0o600)
    os.chown(intent, USERS["mara"], USERS["mara"])
    done = host.as_("mara", "submit", str(intent), "--slug", "from-mara")
    assert (done.returncode, done.stdout) == (0, "from-mara: wartet_auf_startfreigabe (queued)\n"), done.stderr
    assert '"requester": "mara"' in host.as_("lukas", "show", "from-mara", "--json").stdout


def test_the_owner_passes_the_gate_and_a_member_does_not(host: Host) -> None:
    assert host.as_("mara", "submit", "-", "--slug", "gate", stdin=INTENT).returncode == 0
    refused = host.as_("mara", "accept", "gate")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "only the owner (lukas)" in refused.stderr
    assert host.as_("lukas", "accept", "gate").stdout == "gate: operator_pruefung (queued)\n"


def test_the_owners_own_intent_starts_by_itself(host: Host) -> None:
    assert host.as_("lukas", "submit", "-", "--slug", "own", stdin=INTENT).stdout == "own: operator_pruefung (queued)\n"


def test_a_stranger_sees_and_does_nothing(host: Host) -> None:
    for words in (["list"], ["submit", "-"], ["status", "--once"]):
        done = host.as_("eve", *words, stdin=INTENT)
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.startswith("board: you may not use the board of the user intent-board")


@pytest.mark.parametrize(
    "words",
    [
        ["--config", "/tmp/evil.toml", "accept", "gate"],
        ["submit", "/etc/shadow"],
        ["config", "check", "/etc/shadow"],
        ["build", "/etc/shadow"],
    ],
    ids=lambda words: words[0],
)
def test_sudo_called_by_hand_reads_no_file_that_a_member_names(host: Host, words: list[str]) -> None:
    done = host.run("mara", "sudo", "-n", "-u", "intent-board", str(host.board), *words)
    assert (done.returncode, done.stdout) == (1, ""), done.stderr
    assert "root:" not in done.stderr
    assert "under sudo" in done.stderr or "only the owner" in done.stderr


def test_a_member_can_not_pretend_to_be_the_owner(host: Host) -> None:
    assert host.as_("mara", "submit", "-", "--slug", "pretend", stdin=INTENT).returncode == 0
    pretended = ["env", f"SUDO_UID={USERS['lukas']}", "SUDO_USER=lukas", "USER=lukas"]
    for through in ([], ["sudo", "-n", "-u", "intent-board"]):
        done = host.run("mara", *pretended, *through, str(host.board), "accept", "pretend")
        assert done.returncode == 1 and done.stdout == ""
    for variable in (f"SUDO_UID={USERS['lukas']}", "INTENT_BOARD_CONFIG=/tmp/evil.toml", "PYTHONPATH=/tmp"):
        done = host.run("mara", "sudo", "-n", "-u", "intent-board", variable, str(host.board), "accept", "pretend")
        assert done.returncode == 1 and done.stdout == ""
    assert '"phase": "wartet_auf_startfreigabe"' in host.as_("lukas", "show", "pretend", "--json").stdout


def test_nobody_reads_the_store_beside_the_program(host: Host) -> None:
    host.as_("lukas", "list")
    assert host.run("mara", "ls", str(host.directory / "state")).returncode != 0
    for other in (["sh", "-c", "id"], ["cat", "/etc/shadow"]):
        assert host.run("mara", "sudo", "-n", "-u", "intent-board", *other).returncode != 0
