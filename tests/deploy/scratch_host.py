"""A whole host in a directory: real git, a real Nix store with its daemon, and a real profile; systemd and
nixos-rebuild are scripts that take the documented steps.

Run as a program it deploys, in a process of its own that a test may kill:
`python scratch_host.py ROOT deploy|recover|really [SLUG] [first]`; `really` asks the real store.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
import time
from pathlib import Path

from intent_board import config as configuration
from intent_board.deploy.host import Account, Host

BUILDER = Account("intent-board-deploy", 64201, 64201)
SERVICE = Account("intent-board", 64202, 64202)

FLAKE = """
{
  outputs = { self }: {
    nixosConfigurations.blunix.config.system.build.toplevel = derivation {
      name = "nixos-system-blunix";
      system = "SYSTEM";
      builder = "/bin/sh";
      PATH = "/usr/bin:/bin";
      behaviour = ./behaviour;
      activation = ./switch-to-configuration;
      args = [ "-c" ''
        set -e
        mkdir -p $out/bin $out/etc
        cat $behaviour > $out/behaviour
        . $out/behaviour
        echo 26.05 > $out/nixos-version
        echo ''${HOSTNAME_:-blunix} > $out/etc/hostname
        cp $activation $out/bin/switch-to-configuration
        chmod +x $out/bin/switch-to-configuration
      '' ];
    };
  };
}
"""

#: The codes and the order of effects are switch-to-configuration-ng's.
ACTIVATION = """#!/bin/sh
out=$(dirname "$(dirname "$(readlink -f "$0")")")
. "$out/behaviour"
echo "$1 $out" >> "$MACHINE/activations"
case $1 in
dry-activate)
  echo "would stop the following units: old.service" >&2
  echo "would activate the configuration..." >&2
  echo "would reload the following units: dbus.service" >&2
  echo "would restart the following units: nginx.service, sshd.service" >&2
  echo "would start the following units: new.service" >&2
  exit ${DRY_CODE:-0};;
boot) exit 0;;
esac
exec 9>>"$MACHINE/run/switch.lock"
flock -n 9 || { echo "Could not acquire lock" >&2; exit 11; }
[ -z "$SLEEP" ] || sleep "$SLEEP"
[ -z "$REFUSE" ] || { echo "Pre-switch checks failed" >&2; exit 1; }
echo "activating the configuration..." >&2
[ -n "$HALF" ] || ln -sfn "$out" "$MACHINE/run/current-system"
printf '%s' "$FAILED" > "$MACHINE/failed"
[ -z "$FAILED" ] || echo "warning: the following units failed: $FAILED" >&2
exit ${CODE:-0}
"""

SYSTEMD_RUN = """#!/bin/sh
export MACHINE={root}
while :; do
  case $1 in
  -E) shift 2;;
  --unit=*) unit={root}/units/${{1#--unit=}}.service; shift;;
  -*) shift;;
  *) break;;
  esac
done
[ ! -e "$unit" ] || {{
  echo "Failed to start transient service unit: Unit ${{unit##*/}} was already loaded or has a fragment file." >&2
  exit 1
}}
exec "$@"
"""

#: A file in `units` is a transient unit that an earlier run left, with its state: `active` until it is stopped, then
#: `failed` until it is reset.
SYSTEMCTL = """#!/bin/sh
echo "$*" >> {root}/systemctl-calls
unit={root}/units/$2
case $1 in
list-units) for unit in $(tr -d , < {root}/failed); do echo "$unit loaded failed failed A unit"; done;;
show) cat {root}/switch-unit;;
stop) [ ! -e "$unit" ] || echo failed > "$unit"; $0 idle "$2";;
reset-failed) ! grep -qs failed "$unit" || rm "$unit"; $0 idle "$2";;
idle) [ "$2" != nixos-rebuild-switch-to-configuration.service ] || echo inactive > {root}/switch-unit;;
esac
"""

#: nixos-rebuild-ng: `set_profile`, then `switch_to_configuration`; its parser's errors end with 2.
REBUILD = """#!/bin/sh
echo "$*" >> {root}/rebuild-calls
if [ "$1" != switch ]; then
  echo "usage: nixos-rebuild [--no-reexec] [--store-path STORE_PATH]" >&2
  exit 2
fi
test -f "$4/nixos-version" || exit 1
nix-env -p {root}/profiles/system --set "$4" || exit 1
exec systemd-run -E LOCALE_ARCHIVE -E NIXOS_INSTALL_BOOTLOADER --collect --no-ask-password --pipe --quiet \\
  --service-type=exec --unit=nixos-rebuild-switch-to-configuration "$4/bin/switch-to-configuration" switch
"""

#: The system that runs is healthy unless it says otherwise.
HEALTH = """#!/bin/sh
. {root}/run/current-system/behaviour
[ -z "$SICK" ] || {{ echo "it is sick" >&2; exit 1; }}
"""


#: Run as the service user: cards go the way that workers send them.
PRELUDE = """
import json, sys
from intent_board import config
from intent_board.store import open_store
store = open_store(config.load(sys.argv[1]))

def finish(queue, event, data):
    claim = store.claim(queue)
    assert claim is not None and store.finish(claim, event, data), (queue, event)

def ready(slug, commit, decision="approved", requester="root"):
    data = {"lane": "schwer", "iterations": None, "write_scope": ["**"]}
    intent = f"# Intent: {slug}\\n"
    store.submit(slug=slug, title=slug, intent=intent, repository="nixos", requester=requester,
                 event="build_by_hand", data=data)
    store.tick(__import__("time").time(), off_branch={})
    finish("builder-schwer", "built", {"commit": commit, "base": "0" * 40, "branch": "main", "checks": []})
    finish("review", decision, {"commit": commit, "report": {"summary": "good"}, "reason": "no"})
    if decision == "approved":
        finish("publish", "published", {"commit": commit})
"""


def why_not() -> str | None:
    """None when this machine can carry a scratch host, else what it lacks."""
    if os.geteuid() != 0:
        return "needs root, to build and answer as other users"
    missing = [name for name in ("nix", "nix-daemon", "git", "setpriv", "flock") if shutil.which(name) is None]
    return f"needs {', '.join(missing)}" if missing else None


def git(where: Path, *words: str) -> str:
    """Run git for a test's own repositories."""
    identity = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_COUNT": "1"}
    identity |= {"GIT_CONFIG_KEY_0": "safe.directory", "GIT_CONFIG_VALUE_0": "*"}
    for role in ("AUTHOR", "COMMITTER"):
        identity |= {f"GIT_{role}_NAME": "test", f"GIT_{role}_EMAIL": "test@localhost"}
    done = subprocess.run(
        ["git", "-C", str(where), *words], env=os.environ | identity, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


class Store:
    """A Nix store of its own with its daemon, for all tests of a session."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.environment = {
            "NIX_STORE_DIR": f"{root}/store",
            "NIX_STATE_DIR": f"{root}/state",
            "NIX_LOG_DIR": f"{root}/log",
            "NIX_CONF_DIR": f"{root}/etc",
            "NIX_DAEMON_SOCKET_PATH": f"{root}/socket",
            "NIX_REMOTE": f"unix://{root}/socket",
        }

    def start(self) -> None:
        (self.root / "etc").mkdir(parents=True)
        (self.root / "etc/nix.conf").write_text("sandbox = false\nbuild-users-group =\nsubstituters =\n")
        # By itself it would become a client of its own socket while the store is not made yet.
        environment = os.environ | self.environment | {"NIX_REMOTE": "local"}
        with (self.root / "daemon.log").open("wb") as log:
            # It goes with the tests, should they be killed.
            daemon = ["setpriv", "--pdeathsig=KILL", "--", "nix-daemon"]
            self.daemon = subprocess.Popen(daemon, env=environment, stdout=log, stderr=log)
        deadline = time.monotonic() + 20
        while not (self.root / "socket").exists():
            assert time.monotonic() < deadline, (self.root / "daemon.log").read_text()
            time.sleep(0.05)

    def stop(self) -> None:
        self.daemon.kill()
        self.daemon.wait()


class Machine:
    """One host.  `deploy` in `deploy.json` overrides values of the `[deploy]` table."""

    def __init__(self, root: Path, store_root: Path) -> None:
        self.root, self.store = root, Store(store_root)

    def make(self) -> None:
        """An installed host that runs a system of no known commit, and a remote with one commit."""
        for name in ("bin", "run", "profiles", "etc/intent-board", "deploy", "build", "remote", "units"):
            (self.root / name).mkdir(parents=True)
        os.chown(self.root / "build", BUILDER.uid, 0)
        (self.root / "build").chmod(0o750)
        (self.root / "deploy").chmod(0o700)
        scripts = {"systemd-run": SYSTEMD_RUN, "systemctl": SYSTEMCTL, "nixos-rebuild": REBUILD, "health": HEALTH}
        for name, text in scripts.items():
            self.script(name, text.format(root=self.root))
        (self.root / "etc/hostname").write_text("blunix\n")
        (self.root / "etc/NIXOS").touch()
        (self.root / "failed").touch()
        (self.root / "switch-unit").write_text("inactive\n")
        (self.root / "run/booted-system").symlink_to("/nonexistent")
        self._old_system()
        git(self.root / "remote", "init", "--quiet", "--initial-branch=main")
        (self.root / "remote/flake.nix").write_text(FLAKE.replace("SYSTEM", f"{platform.machine()}-linux"))
        (self.root / "remote/switch-to-configuration").write_text(ACTIVATION)
        self.commit()
        self.configure()

    def script(self, name: str, text: str) -> None:
        path = self.root / "bin" / name
        path.write_text(text)
        path.chmod(0o755)

    def _old_system(self) -> None:
        old = self.root / "old"
        (old / "bin").mkdir(parents=True)
        (old / "behaviour").write_text("")
        (old / "nixos-version").write_text("25.11\n")
        (old / "bin/switch-to-configuration").write_text(ACTIVATION)
        (old / "bin/switch-to-configuration").chmod(0o755)
        path = self.nix("nix-store", "--add", str(old))
        self.nix("nix-env", "-p", str(self.root / "profiles/system"), "--set", path)
        (self.root / "run/current-system").symlink_to(path)
        self.old_path = path

    def nix(self, *argv: str) -> str:
        environment = os.environ | self.store.environment
        return subprocess.run(argv, env=environment, check=True, capture_output=True, text=True).stdout.strip()

    def commit(self, text: str | None = None, **behaviour: str) -> str:
        """A new commit of the remote whose system behaves so.  Returns its hash."""
        remote = self.root / "remote"
        lines = [f"{key}='{value}'" for key, value in behaviour.items()]
        stamp = f"# {git(remote, 'rev-list', '--all', '--count')}" if text is None else text
        (remote / "behaviour").write_text("\n".join([stamp, *lines]) + "\n")
        git(remote, "add", "--all")
        git(remote, "commit", "--quiet", "--allow-empty", "-m", "a commit")
        return git(remote, "rev-parse", "HEAD")

    def configure(self, **deploy: object) -> None:
        """Write the TOML with these values in `[deploy]`."""
        raw = {
            "board": {"owner": "root", "state_dir": str(self.root / "board")},
            "repositories": {"nixos": {"remote_url": f"file://{self.root}/remote", "branch": "main", "deploy": True}},
            "deploy": {
                "repository": "nixos",
                "health_checks": [["health"]],
                "health_timeout_seconds": 1,
                **deploy,
            },
        }
        self.write_toml(raw)

    def write_toml(self, raw: dict[str, object]) -> None:
        path = self.root / "etc/intent-board/board.toml"
        path.write_text(configuration.to_toml(configuration.parse(raw)))

    @property
    def config(self) -> configuration.BoardConfig:
        return configuration.load(self.root / "etc/intent-board/board.toml")

    def host(self, **changes: object) -> Host:
        values: dict[str, object] = {
            "hostname": lambda: "blunix",
            "hostname_file": self.root / "etc/hostname",
            "nixos_marker": self.root / "etc/NIXOS",
            "config_file": self.root / "etc/intent-board/board.toml",
            "profile": self.root / "profiles/system",
            "current_system": self.root / "run/current-system",
            "store_dir": self.store.root / "store",
            "switch_lock": self.root / "run/switch.lock",
            "booted_system": self.root / "run/booted-system",
            "deploy_dir": self.root / "deploy",
            "build_dir": self.root / "build",
            "service_user": SERVICE,
            "build_user": BUILDER,
            "search_path": f"{self.root}/bin:{os.environ['PATH']}",
            "nix_environment": self.store.environment,
            "busy_seconds": 0.3,
            "poll_seconds": 0.05,
        }
        return Host(**(values | changes))  # type: ignore[arg-type]

    @property
    def current(self) -> str:
        return os.path.realpath(self.root / "run/current-system")

    @property
    def profile(self) -> str:
        return os.path.realpath(self.root / "profiles/system")

    @property
    def generation(self) -> str:
        """The profile's generation, as its link names it."""
        return str((self.root / "profiles/system").readlink())

    def activations(self) -> list[str]:
        path = self.root / "activations"
        return path.read_text().splitlines() if path.exists() else []

    def reboot(self) -> None:
        """What a boot does: the running system is the profile's."""
        current, booted = self.root / "run/current-system", self.root / "run/booted-system"
        current.unlink()
        current.symlink_to(self.profile)
        booted.unlink()
        time.sleep(0.01)
        booted.symlink_to(self.profile)


class FakeBoard:
    """What the store would answer, and what it was told, in one JSON file so that it outlives a killed deployer."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def read(self) -> dict[str, dict[str, object]]:
        return json.loads(self.file.read_text()) if self.file.exists() else {"cards": {}, "told": {}}

    def write(self, data: dict[str, object]) -> None:
        new = self.file.with_suffix(".new")
        new.write_text(json.dumps(data))
        new.replace(self.file)

    def card(self, slug: str, hash: str, /, **changes: object) -> None:
        data = self.read()
        data["cards"][slug] = {
            "slug": slug, "phase": "bereit_fuer_deployment", "status": "succeeded", "kind": "ordinary",
            "repository": "nixos", "requester": "root", "by_hand": False, "commit": hash, "released": None,
            "reviews": [{"id": 1, "slug": slug, "commit": hash, "decision": "bereit_fuer_deployment"}], **changes,
        }  # fmt: skip
        self.write(data)

    def told(self) -> list[dict[str, object]]:
        return list(self.read()["told"].values())

    def answer(self, question: dict[str, object]) -> dict[str, object]:
        data = self.read()
        cards = data["cards"]
        ready = [slug for slug, card in cards.items() if card["phase"] == "bereit_fuer_deployment"]
        match question["do"]:
            case "evidence":
                return cards[question["slug"]]
            case "ready":
                return {"slugs": ready}
            case "published":
                return {"cards": [[slug, cards[slug]["commit"], cards[slug]["phase"]] for slug in cards]}
            case "tell":
                return self._tell(data, question["result"])
        raise AssertionError(question)

    def _tell(self, data: dict[str, object], result: dict[str, object]) -> dict[str, object]:
        data["told"][str(result["deployment"])] = result
        if result["outcome"] in ("deployed", "already_deployed"):
            for slug in (result["slug"], *result["contained"]):
                data["cards"][slug]["phase"] = "deployed"
        elif result["outcome"] not in ("busy", "interrupted"):
            data["cards"][result["slug"]] |= {"phase": "klaerung_reparatur", "status": "deploy_failed"}
        self.write(data)
        return {"applied": True}


def use_fake_board(board: FakeBoard) -> None:
    """Answer the deployer's questions from here instead of from the service user's child."""
    from intent_board.deploy import service
    from intent_board.deploy.host import DeployRefused

    def ask(host: Host, answer: type, question: dict[str, object]) -> object:
        try:
            return answer.model_validate_json(json.dumps(board.answer(question)))
        except KeyError:
            raise DeployRefused("there is no such card") from None

    service._ask = ask  # type: ignore[assignment]


def main() -> None:
    from intent_board.deploy import Flags, deploy_blunix, recover

    root, what, *rest = sys.argv[1:]
    machine = Machine(Path(root), Path(json.loads((Path(root) / "store.json").read_text())))
    if what != "really":
        use_fake_board(FakeBoard(machine.root / "fake-board.json"))
    if what == "recover":
        reports = recover(machine.config, host=machine.host())
    else:
        slug = rest[0] if rest else None
        reports = deploy_blunix(machine.config, slug, flags=Flags(first="first" in rest), host=machine.host())
    print(json.dumps([report.outcome for report in reports]))
    print(*(report.sentence for report in reports), sep="\n", file=sys.stderr)


if __name__ == "__main__":
    main()
