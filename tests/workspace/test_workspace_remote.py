"""Remotes of every kind: how they are reached, what they see of us, and what git never shows."""

from __future__ import annotations

import base64
import contextlib
import http.server
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from serving import serving
from workspace_bench import Bench, Files, git, make_bench, make_config

from intent_board.config import Repository
from intent_board.workspace import Published, Workspace, WorkspaceError
from intent_board.workspace.remote import access, scheme


def build_and_publish(bench: Bench, branch: str = "main") -> str:
    """A card's whole way on this remote."""
    tree, base = bench.clone()
    (tree / "x").write_text("1\n")
    made = bench.commit(base)
    assert bench.workspace.run_checks("code", made.hash) == []
    assert bench.workspace.publish("code", branch, made.hash) == Published(made.hash)
    assert git("rev-parse", branch, cwd=bench.remote) == made.hash
    return str(made.hash)


# --- local paths ---------------------------------------------------------------------------------------------------


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a repository to another user")
def test_a_local_remote_of_another_user_is_read_and_pushed_to(bench: Bench) -> None:
    for path in (bench.remote, *bench.remote.rglob("*")):
        os.chown(path, 65534, 65534)
    fetched = subprocess.run(
        ["git", "-c", "safe.directory=", "ls-remote", str(bench.remote)],
        env={"PATH": os.environ["PATH"], "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": "/dev/null"},
        capture_output=True, check=False,
    )  # fmt: skip
    assert b"dubious ownership" in fetched.stderr, "plain git refuses it"
    tree, base = bench.clone()
    (tree / "x").write_text("1\n")
    made = bench.commit(base)
    assert bench.workspace.publish("code", "main", made.hash) == Published(made.hash)
    bench.workspace.fetch("code")
    assert bench.workspace.tip("code", "main") == made.hash


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a repository to another user")
def test_a_mirror_and_a_clone_that_belong_to_another_user_stop_nothing(bench: Bench) -> None:
    """As after the service user's number changed, or a restored backup: git itself would refuse both."""
    tree, base = bench.clone()
    (tree / "x").write_text("1\n")
    for path in (bench.mirror, tree):
        for entry in (path, *path.rglob("*")):
            os.chown(entry, 65534, 65534, follow_symlinks=False)
    assert "x" in str(bench.workspace.tree_report("code", "my-card"))
    made = bench.commit(base)
    assert bench.workspace.publish("code", "main", made.hash) == Published(made.hash)
    checkout = bench.workspace.checkout("code", made.hash, "1-1")
    assert bench.workspace.unchanged(checkout, "code", made.hash)
    assert bench.workspace.clone("code", "another", made.hash).is_dir()
    bench.workspace.remove_tree("code", "my-card")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a repository to another user")
def test_an_empty_local_remote_of_another_user_is_read(tmp_path: Path) -> None:
    bench = make_bench(tmp_path, branch=None)
    for path in (bench.remote, *bench.remote.rglob("*")):
        os.chown(path, 65534, 65534)
    assert bench.workspace.fetch("code") == "main"


@pytest.mark.parametrize("form", ["path", "file"])
def test_a_remote_may_lie_at_any_path(tmp_path: Path, form: str) -> None:
    place = tmp_path / "with space, ü and 'quote'"
    place.mkdir()
    bench = make_bench(place)
    if form == "file":
        bench.config = make_config(place, f"file://{bench.remote}")
        bench.workspace = Workspace(bench.config, Files())
    bench.write({"a": "1\n"})
    build_and_publish(bench)


def test_a_changed_address_holds_from_the_next_fetch_on(tmp_path: Path) -> None:
    bench = make_bench(tmp_path)
    bench.write({"a": "1\n"})
    bench.workspace.fetch("code")
    (tmp_path / "second").mkdir()
    second = make_bench(tmp_path / "second")
    tip = second.write({"b": "1\n"}, message="Elsewhere")
    config = make_config(tmp_path, str(second.remote))
    workspace = Workspace(config, Files())
    assert workspace.tip("code", workspace.fetch("code")) == tip


def test_a_sha256_repository_goes_the_whole_way(tmp_path: Path) -> None:
    bench = make_bench(tmp_path, init=("--object-format=sha256",))
    shutil.rmtree(bench.person)
    git("init", "-q", "-b", "main", "--object-format=sha256", str(bench.person), cwd=tmp_path)
    git("remote", "add", "origin", str(bench.remote), cwd=bench.person)
    bench.write({"a": "1\n"})
    assert len(build_and_publish(bench)) == 64


def test_an_empty_sha256_remote_is_known_for_what_it_is(tmp_path: Path) -> None:
    bench = make_bench(tmp_path, init=("--object-format=sha256",), branch=None)
    assert bench.workspace.fetch("code") == "main"
    (bench.workspace.clone("code", "my-card", None) / "x").write_text("1\n")
    made = bench.commit(None)
    assert len(made.hash) == 64
    assert bench.workspace.publish("code", "main", made.hash) == Published(made.hash)


def test_a_shallow_remote_goes_the_whole_way(tmp_path: Path) -> None:
    bench = make_bench(tmp_path)
    for number in range(4):
        bench.write({"a": f"{number}\n"}, message=f"Commit {number}")
    shallow = tmp_path / "shallow.git"
    git("clone", "-q", "--bare", "--depth=2", f"file://{bench.remote}", str(shallow), cwd=tmp_path)
    bench.remote = shallow
    bench.config = make_config(tmp_path, str(shallow))
    bench.workspace = Workspace(bench.config, Files())
    commit = build_and_publish(bench)
    tree = bench.workspace.checkout("code", commit, "1-1")
    assert git("log", "--format=%s", cwd=tree).split("\n") == ["A title", "Commit 3", "Commit 2"]
    assert git("log", "--format=%s", cwd=bench.config.state_dir / "trees" / "my-card").split("\n")[0] == "Commit 3"
    made = bench.workspace.save_tree("code", "my-card")
    assert made is not None


# --- branches ------------------------------------------------------------------------------------------------------


def test_the_default_branch_is_the_remotes_own_and_may_change(tmp_path: Path) -> None:
    bench = make_bench(tmp_path, branch=None)
    bench.write({"a": "1\n"})
    bench.write({"a": "2\n"}, branch="trunk/next")
    assert bench.workspace.fetch("code") == "main"
    git("symbolic-ref", "HEAD", "refs/heads/trunk/next", cwd=bench.remote)
    assert bench.workspace.fetch("code") == "trunk/next"
    git("update-ref", "-d", "refs/heads/main", cwd=bench.remote)
    assert bench.workspace.fetch("code") == "trunk/next"
    assert bench.workspace.tip("code", "main") is None
    git("symbolic-ref", "HEAD", "refs/heads/nowhere", cwd=bench.remote)
    with pytest.raises(WorkspaceError, match="HEAD in the remote of 'code' names no branch"):
        bench.workspace.fetch("code")


def test_a_configured_branch_that_the_remote_lacks_is_no_unborn_branch(tmp_path: Path) -> None:
    bench = make_bench(tmp_path, branch="mian")
    bench.write({"a": "1\n"})
    with pytest.raises(WorkspaceError, match="no branch 'mian'; it has main"):
        bench.workspace.fetch("code")


def test_a_branch_may_become_a_directory_of_branches(bench: Bench) -> None:
    bench.write({"b": "1\n"}, branch="topic")
    bench.workspace.fetch("code")
    git("update-ref", "-d", "refs/heads/topic", cwd=bench.remote)
    tip = bench.write({"b": "2\n"}, branch="topic/one")
    bench.workspace.fetch("code")
    assert bench.workspace.tip("code", "topic/one") == tip


@pytest.mark.parametrize("name", [b"line\xe2\x80\xa8end", b"next\xc2\x85line", b"paragraph\xe2\x80\xa9", b"caf\xe9"])
def test_a_branch_of_any_name_beside_ours_disturbs_nothing(bench: Bench, name: bytes) -> None:
    """U+2028 and its like end a line for Python and not for git; a name need not be UTF-8 either."""
    tip = git("rev-parse", "main", cwd=bench.remote)
    subprocess.run(["git", "update-ref", b"refs/heads/" + name, tip], cwd=bench.remote, check=True)
    build_and_publish(bench)
    wrong = Workspace(make_config(bench.root, str(bench.remote), branch="mian"), Files())
    with pytest.raises(WorkspaceError, match="no branch 'mian'; it has"):
        wrong.fetch("code")


def test_a_default_branch_whose_name_is_no_text_must_be_named_otherwise(tmp_path: Path) -> None:
    bench = make_bench(tmp_path, branch=None)
    bench.write({"a": "1\n"})
    subprocess.run(["git", "branch", "-m", "main", b"caf\xe9"], cwd=bench.remote, check=True)
    with pytest.raises(WorkspaceError, match="the remote of 'code'"):
        bench.workspace.fetch("code")
    with pytest.raises(WorkspaceError, match=r"set repositories\.code\.branch"):
        bench.workspace.fetch("code")


# --- https ---------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def web(root: Path, password: str) -> Iterator[tuple[str, list[str]]]:
    """git's own http-backend behind a small server that wants a password; yields its address and the users seen."""
    users: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def answer(self) -> None:
            given = self.headers.get("Authorization", "").removeprefix("Basic ")
            user, _, secret = base64.b64decode(given).decode().partition(":")
            if secret != password:
                self.send_response(401)
                self.send_header("WWW-Authenticate", 'Basic realm="git"')
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            users.append(user)
            path, _, query = self.path.partition("?")
            environment = {
                "PATH": os.environ["PATH"], "GIT_PROJECT_ROOT": str(root), "GIT_HTTP_EXPORT_ALL": "1",
                "PATH_INFO": path, "HTTP_GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
                "QUERY_STRING": query, "REQUEST_METHOD": self.command, "REMOTE_USER": user or "x",
                "CONTENT_TYPE": self.headers.get("Content-Type", ""),
                "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
            }  # fmt: skip
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            done = subprocess.run(
                ["git", "http-backend"], env=environment, input=body, capture_output=True, check=False
            )
            head, _, content = done.stdout.partition(b"\r\n\r\n")
            fields = dict(line.split(": ", 1) for line in head.decode().split("\r\n"))
            self.send_response(int(fields.pop("Status", "200").split()[0]))
            for name, value in fields.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = answer

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    with serving(server):
        yield f"http://127.0.0.1:{server.server_port}", users


@pytest.mark.parametrize(
    ("text", "user"), [("t0ken-123\n", ""), ("t0ken-123", ""), ("t0ken-123\r\n", ""), ("t0ken-123\nmore", "me")]
)
def test_a_token_reaches_the_remote_and_nobody_else(tmp_path: Path, text: str, user: str) -> None:
    bench = make_bench(tmp_path)
    bench.write({"a": "1\n"})
    git("config", "http.receivepack", "true", cwd=bench.remote)
    token = tmp_path / "the 'token'"
    token.write_bytes(text.encode())
    with web(tmp_path, "t0ken-123") as (address, users):
        url = f"{address.replace('//', f'//{user}@' if user else '//')}/remote.git"
        bench.config = make_config(tmp_path, url, credential="forge")
        bench.workspace = Workspace(bench.config, Files({"forge": token}))
        build_and_publish(bench)
        assert set(users) == {user or "git"}
        assert "t0ken" not in (bench.mirror / "config").read_text()
        token.write_text("wrong\n")
        with pytest.raises(WorkspaceError, match=r"can't be read: (fatal|remote): Authentication failed") as error:
            bench.workspace.fetch("code")
        assert error.value.kind == "failed"
    with pytest.raises(WorkspaceError, match="can't be reached") as error:
        bench.workspace.fetch("code")
    assert error.value.kind == "outage"


def test_no_secret_is_in_what_git_is_started_with(tmp_path: Path) -> None:
    secret = tmp_path / "key"
    secret.write_text("s3cret-value\n")
    for url in ("https://forge.example.org/a/b.git", "ssh://git@forge.example.org/a/b.git"):
        settings, environment = access("code", Repository(remote_url=url, credential="key"), Files({"key": secret}))
        assert "s3cret" not in repr((settings, environment))
        assert str(secret) in repr((settings, environment))


def test_a_credential_is_not_sent_over_plain_http(tmp_path: Path) -> None:
    secret = tmp_path / "key"
    secret.write_text("x")
    repository = Repository(remote_url="http://forge.example.org/a.git", credential="key")
    with pytest.raises(WorkspaceError, match="unprotected over http; use https"):
        access("code", repository, Files({"key": secret}))


def test_only_a_push_takes_the_key_that_may_push(tmp_path: Path) -> None:
    files = {name: tmp_path / name for name in ("read", "write")}
    for path in files.values():
        path.write_text("x")

    def key(push: bool, has: tuple[str, ...], **repository: str) -> str:
        configured = Repository(remote_url="git@host:a", **repository)
        _, environment = access("code", configured, Files({name: files[name] for name in has}), push=push)
        words = environment["GIT_SSH_COMMAND"].split()
        return Path(words[words.index("-i") + 1]).name

    both = {"credential": "write", "fetch_credential": "read"}
    assert key(False, ("read",), **both) == key(False, ("read", "write"), **both) == "read"
    assert key(True, ("read", "write"), **both) == "write"
    assert key(False, (), credential="write") == "null", "a unit without the key still reads a public remote"
    assert key(False, ("write",), credential="write") == "write"
    with pytest.raises(WorkspaceError, match="'write' of repository 'code' is not loaded here"):
        key(True, ("read",), **both)


def test_a_credential_that_this_unit_does_not_have_is_named(tmp_path: Path) -> None:
    bench = make_bench(tmp_path, fetch_credential="forge")
    with pytest.raises(WorkspaceError, match="credential 'forge' of repository 'code' is not loaded here"):
        bench.workspace.fetch("code")


# --- ssh -----------------------------------------------------------------------------------------------------------


def test_ssh_gets_this_key_and_these_hosts_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = make_bench(tmp_path)
    bench.write({"a": "1\n"})
    tools, log = tmp_path / "tools", tmp_path / "log"
    tools.mkdir()
    (tools / "ssh").write_text(
        f'#!/bin/sh\nfor word; do echo "$word" >> {log}; done\nenv >> {log}\n'
        'while [ "$1" != git@forge.example.org ]; do shift; done\nshift\nexec sh -c "$*"\n'
    )
    (tools / "ssh").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    for name in ("SSH_AUTH_SOCK", "GIT_SSH_COMMAND", "GIT_SSH", "GIT_CONFIG_PARAMETERS", "OPENAI_API_KEY"):
        monkeypatch.setenv(name, f"ours-{name}")
    key, hosts = tmp_path / "a key", tmp_path / "known hosts"
    key.write_text("k3y")
    bench.config = make_config(
        tmp_path, f"git@forge.example.org:{bench.remote}", credential="push", known_hosts=str(hosts)
    )
    bench.workspace = Workspace(bench.config, Files({"push": key}))
    build_and_publish(bench)
    words = log.read_text().split("\n")
    assert words[words.index("-i") + 1] == str(key)
    assert words[words.index("-F") + 1] == "/dev/null"
    options = {words[place + 1] for place, word in enumerate(words) if word == "-o"}
    assert options >= {
        "StrictHostKeyChecking=yes", "IdentitiesOnly=yes", "IdentityAgent=none", "BatchMode=yes",
        f'UserKnownHostsFile="{hosts}"', "GlobalKnownHostsFile=/dev/null",
    }  # fmt: skip
    assert "ours-" not in log.read_text() and "k3y" not in log.read_text()


def test_the_real_ssh_understands_our_options(tmp_path: Path) -> None:
    if shutil.which("ssh") is None:
        pytest.skip("ssh is not installed")
    repository = Repository(remote_url="git@127.0.0.1:a", known_hosts=tmp_path / "known hosts")
    _, environment = access("code", repository, Files())
    done = subprocess.run(
        ["sh", "-c", f"{environment['GIT_SSH_COMMAND']} -G git@127.0.0.1"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    said = done.stdout.lower()
    assert "stricthostkeychecking true" in said and "identitiesonly yes" in said and "batchmode yes" in said
    assert f"userknownhostsfile {tmp_path}/known hosts\n" in said


@pytest.mark.parametrize(
    ("url", "kind"),
    [
        ("/srv/a.git", "file"), ("a/b:c", "file"), ("file:///srv/a", "file"), ("git@host:a", "ssh"), ("host:a", "ssh"),
        ("ssh://host/a", "ssh"), ("git+ssh://host/a", "ssh"), ("https://host/a", "https"), ("HTTPS://host/a", "https"),
        ("git://host/a", "git"),
    ],
)  # fmt: skip
def test_the_transport_is_the_one_that_git_takes(url: str, kind: str) -> None:
    assert scheme(url) == kind


@pytest.mark.parametrize("url", ["ext::sh -c id", "ftp://host/a", "fd::7", "foo://host"])
def test_other_transports_are_refused(tmp_path: Path, url: str) -> None:
    witness = Repository.model_construct(remote_url=url, credential=None, known_hosts=None)
    try:
        settings, _ = access("code", witness, Files())
    except WorkspaceError as error:
        assert "not supported" in str(error)
    else:
        # git itself then finds that transport switched off.
        assert not any(key.startswith(("protocol.ext", "protocol.fd")) for key, _ in settings)
