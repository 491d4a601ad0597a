"""A box on a host that is laid out like NixOS: programs in a store, the rest links into it."""

from __future__ import annotations

import json
import shutil
import subprocess
import textwrap
from pathlib import Path

import pytest

from intent_board import sandbox

SYSTEM = "/nix/store/aaa-system"
USR = "/nix/store/bbb-usr"

INSIDE = """
    import json, os, sys
    from pathlib import Path
    sys.path.insert(0, "/board")
    from intent_board import sandbox
    tree = Path("/var/lib/board/trees/card")
    tree.mkdir(parents=True)
    box = sandbox.Box(cwd=tree, mounts=(sandbox.Mount(tree, tree, True),), environment={}, network=True)
    def run(*argv):
        done = sandbox.run(argv, box, mode="required", timeout=30, output_limit=10_000)
        return [done.exit_code, done.output.decode()]
    print(json.dumps([
        sandbox.available(),
        run("/bin/sh", "-c", "echo hello > made; id -un"),
        run("/usr/bin/env", "ls", "/etc", "/run", "/"),
        run("cat", "/etc/resolv.conf", "/etc/ssl/certs/ca-bundle.crt"),
        run("ls", "/var/lib/board", "/home", "/nix"),
        run("readlink", "/run/current-system/sw", "/etc/static"),
        run("sh", "-c", "echo $PATH"),
        os.listdir(tree),
    ]))
"""


def _host(tmp_path: Path) -> list[str]:
    """The command line of a host like NixOS, with our own /usr as a store path."""
    system = tmp_path / "system"
    (system / "etc/ssl/certs").mkdir(parents=True)
    (system / "etc/ssl/certs/ca-bundle.crt").write_text("certificates\n")
    (system / "sw").symlink_to(USR)
    resolve = tmp_path / "resolve"
    resolve.mkdir()
    (resolve / "stub-resolv.conf").write_text("nameserver 127.0.0.53\n")
    board = tmp_path / "board"
    source = Path(sandbox.__file__).parent
    shutil.copytree(source, board / "intent_board/sandbox")
    shutil.copy(source.parent / "__init__.py", board / "intent_board")
    (board / "inside.py").write_text(textwrap.dedent(INSIDE))
    command = ["bwrap", "--ro-bind", str(system), SYSTEM, "--ro-bind", "/usr", USR, "--dev", "/dev"]
    # The host's own /proc: a covered one, as --proc makes it, can't be mounted anew inside.
    command += ["--bind", "/proc", "/proc"]
    for target, link in {
        f"{USR}/bin/sh": "/bin/sh",
        f"{USR}/bin/env": "/usr/bin/env",
        f"{USR}/lib": "/lib",
        f"{USR}/lib64": "/lib64",
        SYSTEM: "/run/current-system",
        f"{SYSTEM}/etc": "/etc/static",
        "/etc/static/ssl/certs/ca-bundle.crt": "/etc/ssl/certs/ca-bundle.crt",
        "/run/systemd/resolve/stub-resolv.conf": "/etc/resolv.conf",
    }.items():
        command += ["--symlink", target, link]
    command += ["--ro-bind", str(resolve), "/run/systemd/resolve", "--ro-bind", str(board), "/board"]
    command += ["--tmpfs", "/var", "--tmpfs", "/home", "--tmpfs", "/tmp", "--dir", "/run/dbus"]
    for name, value in {"PATH": "/run/current-system/sw/bin", "PYTHONHOME": USR, "LANG": "C.UTF-8"}.items():
        command += ["--setenv", name, value]
    return command


def test_a_box_on_a_host_like_nixos(tmp_path: Path) -> None:
    if (reason := sandbox.available()) is not None:
        pytest.skip(reason)
    if not Path("/usr/bin/python3").exists() or not Path("/bin").is_symlink():
        pytest.skip("this host's /usr can't stand for a store path")
    command = [*_host(tmp_path), f"{USR}/bin/python3", "/board/inside.py"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, env={})
    assert done.returncode == 0, done.stderr
    available, shell, env, files, listed, links, path, made = json.loads(done.stdout)
    assert available is None
    assert shell == [0, "agent\n"]
    assert env[0] == 0
    assert set(env[1].split()) >= {"current-system", "nix", "static", "ssl", "tmp"}
    assert not set(env[1].split()) & {"dbus", "systemd", "board", "home", "sys"}
    assert files == [0, "nameserver 127.0.0.53\ncertificates\n"]
    assert listed[0] != 0
    assert listed[1].endswith("/nix:\nstore\n\n/var/lib/board:\ntrees\n")
    assert links == [0, f"{USR}\n{SYSTEM}/etc\n"]
    assert path[1].startswith("/run/current-system/sw/bin:")
    assert made == ["made"]
