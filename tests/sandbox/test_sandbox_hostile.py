"""What a hostile agent tries from inside its box.  Each test asserts that the attack fails."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import tempfile
import textwrap
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from intent_board import sandbox
from intent_board.sandbox import Box, Completed, Mount

PYTHON = shutil.which("python3", path="/usr/bin:/run/current-system/sw/bin")
PRELUDE = """
    import ctypes, errno, json, os, signal, socket, subprocess, sys, time
    def attempt(action):
        try:
            return ["done", repr(action())]
        except OSError as error:
            return ["refused", errno.errorcode.get(error.errno, str(error))]
    def tell(value):
        print(json.dumps(value), flush=True)
"""


class Host:
    """A board's directories, and a box for one tree of it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.tree, self.sibling = folder, folder / "trees" / "card", folder / "trees" / "other"
        self.store, self.credentials = folder / "board.sqlite3", folder / "credentials"
        for path in (self.tree, self.sibling, self.credentials):
            path.mkdir(parents=True)
        self.store.write_text("the store")
        (self.sibling / "file").write_text("another card's")
        (self.credentials / "push-key").write_text("secret of another role")

    def attack(self, script: str, *, network: bool = False, timeout: float = 20, **options: Any) -> Completed:
        assert PYTHON is not None
        source = self.folder / "attack.py"
        source.write_text(textwrap.dedent(PRELUDE) + textwrap.dedent(script))
        mounts = (Mount(self.tree, self.tree, writable=True), Mount(source, Path("/run/attack.py")))
        box = Box(cwd=self.tree, mounts=mounts, environment={"HOST": str(self.folder)}, network=network)
        argv = [PYTHON, "/run/attack.py"]
        return sandbox.run(argv, box, mode="required", timeout=timeout, output_limit=1 << 20, **options)

    def told(self, script: str, **options: Any) -> Any:
        done = self.attack(script, **options)
        assert done.exit_code == 0, done.output
        assert done.sandboxed
        return json.loads(done.output)


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    if (reason := sandbox.available()) is not None:
        pytest.skip(reason)
    if PYTHON is None:
        pytest.skip("no python3 that a box has")
    made = Host(tmp_path)
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(made.credentials))
    return made


def test_links_out_of_the_tree(host: Host) -> None:
    told = host.told("""
        host = os.environ["HOST"]
        os.symlink(host + "/board.sqlite3", "store")
        os.symlink(host + "/trees/other", "sibling")
        os.symlink("/proc/1/root" + host + "/board.sqlite3", "through-proc")
        tell([
            attempt(lambda: open("store").read()),
            attempt(lambda: open("sibling/file").read()),
            attempt(lambda: open("sibling/file", "w")),
            attempt(lambda: open("through-proc").read()),
            attempt(lambda: os.link(host + "/board.sqlite3", "hard")),
        ])
    """)
    assert told == [["refused", "ENOENT"]] * 5
    assert (host.sibling / "file").read_text() == "another card's"


def test_what_lies_beside_the_tree(host: Host) -> None:
    told = host.told("""
        host = os.environ["HOST"]
        tell([
            os.listdir(host), os.listdir(".."), os.environ.get("CREDENTIALS_DIRECTORY"),
            attempt(lambda: open(host + "/board.sqlite3").read()),
            attempt(lambda: open("../other/file").read()),
            attempt(lambda: os.listdir(host + "/credentials")),
            attempt(lambda: os.listdir("/run/credentials")),
            [path for path in ("/home", "/root", "/var", "/srv", "/etc/shadow", "/etc/ssh", "/sys", "/boot", "/opt")
             if os.path.exists(path)],
        ])
    """)
    assert told[:3] == [["trees"], ["card"], None]
    assert told[3:7] == [["refused", "ENOENT"]] * 4
    assert told[7] == []


def test_the_root_holds_the_list_and_nothing_else(host: Host) -> None:
    root, etc = host.told("tell([sorted(os.listdir('/')), sorted(os.listdir('/etc'))])", network=True)
    top = set(host.tree.parts[1:2])
    usual = "bin dev etc lib lib32 lib64 libx32 nix proc run sbin tmp usr"
    assert set(root) <= top | set(usual.split())
    names = "alternatives group hosts ld.so.cache localtime nsswitch.conf passwd resolv.conf ssl static"
    assert set(etc) <= set(names.split())


def test_writing_outside_the_tree(host: Host) -> None:
    places = ["/", "/usr", "/usr/bin", "/etc", "/dev", "/proc", "/run", "/proc/sys/kernel"]
    told = host.told(f"tell([attempt(lambda: open(place + '/new', 'w')) for place in {places}])")
    assert {outcome for outcome, _ in told} == {"refused"}
    told = host.told("""
        tell([attempt(lambda: open(path, "r+")) for path in ("/etc/passwd", "/usr/bin/env", "/run/attack.py")])
    """)
    assert told == [["refused", "EROFS"]] * 3


def test_devices(host: Host) -> None:
    told = host.told("""
        tell([
            sorted(os.listdir("/dev")),
            attempt(lambda: os.mknod("disk", 0o600 | 0o060000, os.makedev(8, 0))),
            attempt(lambda: os.mknod("memory", 0o600 | 0o020000, os.makedev(1, 1))),
            attempt(lambda: open("/dev/tty")),
            attempt(lambda: open("/proc/kcore")),
            attempt(lambda: open("/proc/sysrq-trigger", "w")),
        ])
    """)
    usual = "core fd full null ptmx pts random shm stderr stdin stdout tty urandom zero"
    assert set(told[0]) <= set(usual.split())
    assert [outcome for outcome, _ in told[1:]] == ["refused"] * 5


def test_a_device_file_that_stands_in_the_tree(host: Host) -> None:
    try:
        os.mknod(host.tree / "memory", 0o666 | 0o020000, os.makedev(1, 5))
    except PermissionError:
        pytest.skip("only root can prepare a device file")
    assert host.told("tell(attempt(lambda: open('memory', 'rb').read(1)))") == ["refused", "EACCES"]


def test_rights_to_get_more(host: Host) -> None:
    told = host.told("""
        status = dict(line.split(":", 1) for line in open("/proc/self/status").read().splitlines())
        rights = [status[name].strip() for name in ("CapInh", "CapPrm", "CapEff", "CapAmb", "NoNewPrivs")]
        mount = ["unshare", "-Urm", "sh", "-c", "mount -o remount,bind,rw /usr && touch /usr/new"]
        tell([
            os.getuid(), rights,
            attempt(lambda: os.setuid(0)), attempt(lambda: os.setgroups([0])), attempt(lambda: os.chroot("/")),
            subprocess.run(["mount", "-o", "remount,rw", "/"], capture_output=True).returncode == 0,
            subprocess.run(["umount", "/tmp"], capture_output=True).returncode == 0,
            subprocess.run(mount, capture_output=True).returncode == 0,
        ])
    """)
    assert told[0] == sandbox.BOX_UID
    assert told[1] == ["0000000000000000"] * 4 + ["1"]
    assert [outcome for outcome, _ in told[2:5]] == ["refused"] * 3
    assert told[5:] == [False, False, False]
    assert not Path("/usr/new").exists()


@pytest.fixture
def service() -> Iterator[tuple[int, str, list[int]]]:
    """A service on loopback and one on an abstract socket; the list grows with every visitor."""
    name, visits = f"board-test-{uuid.uuid4()}", []
    with socket.create_server(("127.0.0.1", 0)) as tcp, socket.socket(socket.AF_UNIX) as unix:
        unix.bind("\0" + name)
        unix.listen()

        def serve(listening: socket.socket) -> None:
            while True:
                try:
                    listening.accept()[0].close()
                except OSError:
                    return
                visits.append(1)

        for listening in (tcp, unix):
            threading.Thread(target=serve, args=(listening,), daemon=True).start()
        yield tcp.getsockname()[1], name, visits


def test_services_of_the_host_without_network(host: Host, service: tuple[int, str, list[int]]) -> None:
    port, name, visits = service
    told = host.told(f"""
        tell([
            attempt(lambda: socket.create_connection(("127.0.0.1", {port}), 3)),
            attempt(lambda: socket.socket(socket.AF_UNIX).connect("\\0{name}")),
            attempt(lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)),
            sorted(name for _, name in socket.if_nameindex()),
        ])
    """)
    assert told == [["refused", "ECONNREFUSED"], ["refused", "ECONNREFUSED"], ["refused", "EPERM"], ["lo"]]
    assert visits == []


def test_the_network_is_there_when_it_is_asked_for(host: Host, service: tuple[int, str, list[int]]) -> None:
    port, _, visits = service
    told = host.told(f"tell(attempt(lambda: socket.create_connection(('127.0.0.1', {port}), 3).close()))", network=True)
    assert told == ["done", "None"]
    assert visits == [1]


@pytest.mark.parametrize("network", [False, True])
def test_sockets_of_the_system(host: Host, network: bool) -> None:
    told = host.told(
        """
        paths = ["/run/dbus/system_bus_socket", "/var/run/dbus/system_bus_socket", "/run/systemd/journal/socket",
                 "/run/systemd/notify", "/run/systemd/private", "/dev/log", "/run/user",
                 "/nix/var/nix/daemon-socket/socket", "/var/run/docker.sock"]
        tell([path for path in paths if os.path.exists(path)])
        """,
        network=network,
    )
    assert told == []


def test_processes_of_others(host: Host) -> None:
    told = host.told(f"""
        tell([
            sorted(int(name) for name in os.listdir("/proc") if name.isdigit()),
            os.getpid(),
            attempt(lambda: os.kill({os.getpid()}, 0)),
            attempt(lambda: os.listdir("/proc/1/root" + os.environ["HOST"])),
            open("/proc/1/environ").read().split(chr(0)),
        ])
    """)
    assert told[0] == [1, 2]
    assert told[1] == 2
    assert told[2] == ["refused", "ESRCH"]
    assert told[3] == ["done", "['trees']"]
    assert not [pair for pair in told[4] if "push-key" in pair or pair.startswith("CREDENTIALS")]


@pytest.mark.faults
@pytest.mark.parametrize("target", ["-1", "os.getppid()", "1", "0"])
def test_killing_whoever_can_be_reached(host: Host, target: str) -> None:
    done = host.attack(f"""
        if os.fork() == 0:
            os.setsid()
            time.sleep(0.2)
            open("survived", "w").close()
            os._exit(0)
        attempt(lambda: os.kill({target}, signal.SIGKILL))
        tell("still here")
    """)
    # Itself, perhaps; never the supervisor, the board, or the end of the run.
    assert done.exit_code in (0, 128 + 9)
    time.sleep(0.4)
    assert not (host.tree / "survived").exists()


@pytest.mark.faults
def test_a_daemon_that_is_left_behind(host: Host) -> None:
    told = host.told("""
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
                    signal.signal(number, signal.SIG_IGN)
                while True:
                    open("heartbeat", "w").write(str(time.time()))
                    time.sleep(0.01)
            os._exit(0)
        while not os.path.exists("heartbeat"):
            time.sleep(0.01)
        tell("left behind")
    """)
    assert told == "left behind"
    last = (host.tree / "heartbeat").stat().st_mtime_ns
    time.sleep(0.2)
    assert (host.tree / "heartbeat").stat().st_mtime_ns == last


def test_inherited_descriptors(host: Host) -> None:
    leaked = os.open(host.store, os.O_RDONLY)
    lock = os.open(host.folder / "lock", os.O_RDWR | os.O_CREAT)
    os.set_inheritable(leaked, True)
    try:
        told = host.told(
            """
            def opened(pid):
                folder = f"/proc/{pid}/fd/"
                names = [name for name in os.listdir(folder) if os.path.lexists(folder + name)]
                return {name: os.readlink(folder + name) for name in names}
            tell([opened("self"), opened(1)])
            """,
            lock_fd=lock,
        )
    finally:
        os.close(leaked)
        os.close(lock)
    own, init = told
    assert set(own) - {"3"} == {"0", "1", "2"}
    for name, target in {**own, **init}.items():
        assert str(host.folder) not in target, (name, target)


def test_secrets_stand_on_no_command_line(host: Host) -> None:
    mounts = (Mount(host.tree, host.tree, writable=True),)
    box = Box(cwd=host.tree, mounts=mounts, environment={"KEY": "sk-unseen-4711"})
    seen: list[bytes] = []

    def look() -> None:
        while not (host.tree / "up").exists():
            time.sleep(0.01)
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    seen.append((entry / "cmdline").read_bytes())
                except OSError:
                    continue
        (host.tree / "seen").touch()

    looking = threading.Thread(target=look)
    looking.start()
    argv = ["/bin/sh", "-c", "touch up; while ! test -e seen; do sleep 0.02; done; test -n $KEY"]
    done = sandbox.run(argv, box, mode="required", timeout=20, output_limit=1000)
    looking.join()
    assert done.exit_code == 0
    assert any(b"touch up" in line for line in seen)
    assert not any(b"sk-unseen" in line for line in seen)


def test_memory_through_files(host: Host) -> None:
    told = host.told("""
        size = lambda path: os.statvfs(path).f_blocks * os.statvfs(path).f_frsize
        tell([size("/tmp"), size("/dev/shm"), [line.split()[1] for line in open("/proc/mounts")
              if line.split()[2] == "tmpfs" and "rw" in line.split()[3].split(",")]])
    """)
    assert told[0] == sandbox.TMP_BYTES
    assert told[1] == sandbox.SHM_BYTES
    assert sorted(told[2]) == ["/dev/shm", "/tmp"]


def test_an_output_that_is_made_a_hole(host: Host) -> None:
    done = host.attack("""
        with open("/proc/self/fd/1", "r+b") as out:
            out.truncate(1 << 42)
        time.sleep(0.5)
        tell("end")
    """)
    assert done.exit_code == 0
    assert done.cut
    assert len(done.output) <= 1 << 20
    assert done.output.endswith(b'"end"\n')


def test_input_that_is_written_back(host: Host) -> None:
    given = b"the order"
    done = host.attack("open('/proc/self/fd/0', 'r+b').write(b'another'); tell(sys.stdin.read())", stdin=given)
    assert given == b"the order"
    assert done.exit_code in (0, 1)


AS_USER = """
    import os, sys
    from pathlib import Path
    os.setgroups([]); os.setgid(65534); os.setuid(65534)
    sys.path.insert(0, sys.argv[1])
    from intent_board import sandbox
    tree = Path(sys.argv[1], "tree"); tree.mkdir()
    lock = os.open(Path(sys.argv[1], "lock"), os.O_RDWR | os.O_CREAT)
    box = sandbox.Box(cwd=tree, mounts=(sandbox.Mount(tree, tree, True),), environment={})
    command = "setsid sleep 60 & touch made; id -u; cat /etc/shadow; ls " + str(Path.home())
    done = sandbox.run(["/bin/sh", "-c", command], box, mode="required", timeout=20, output_limit=1000, lock_fd=lock)
    argv = ["/bin/sh", "-c", "setsid sleep 61 & sleep 62"]
    slow = sandbox.run(argv, box, mode="required", timeout=0.3, output_limit=9)
    print([done.output.splitlines()[0], (tree / "made").stat().st_uid, done.sandboxed, slow.timed_out])
"""


def test_an_ordinary_user_can_run_a_box_too() -> None:
    if os.getuid() != 0:
        pytest.skip("only root can become another user; as that user the other tests show it")
    if PYTHON is None or (reason := sandbox.available()) is not None:
        pytest.skip(reason if PYTHON else "no python3 for other users")
    # The sandbox needs the standard library alone, so a Python that everybody may read can run it.
    folder = Path(tempfile.mkdtemp(prefix="board-user-"))
    try:
        source = Path(sandbox.__file__).parent
        shutil.copytree(source, folder / "intent_board/sandbox")
        shutil.copy(source.parent / "__init__.py", folder / "intent_board")
        os.chown(folder, 65534, 65534)
        argv = [PYTHON, "-c", textwrap.dedent(AS_USER), str(folder)]
        done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)
        assert done.stdout == "[b'1000', 65534, True, True]\n", done.stderr
    finally:
        shutil.rmtree(folder)
