"""What turns the booted tree into a host that can be deployed.

NixOS's links, a Nix store with its daemon, a flake whose system is a plain derivation, and a switch-to-configuration
that treats units as the real one does.
"""

from __future__ import annotations

import platform
import shutil
from pathlib import Path

import boot_tree
import tomli_w
from boot_tree import inside, write

#: Keeps the rules of switch-to-configuration-ng that matter here: the lock, units whose files changed are restarted
#: unless they forbid it, systemd itself is restarted and reloaded, failed units end with 4.
ACTIVATION = """#!/bin/sh
out=$(dirname "$(dirname "$(readlink -f "$0")")")
. "$out/behaviour"
echo "$1 $out" >> /var/log/activations
[ "$1" = boot ] && exit 0
changed=$(cd "$out/units" && for unit in *; do cmp -s "$unit" "/etc/systemd/system/$unit" || echo "$unit"; done)
if [ "$1" = dry-activate ]; then
  echo "would restart the following units: $(echo $changed | sed 's/ /, /g')" >&2
  exit 0
fi
exec 9>> /run/nixos/switch-to-configuration.lock
flock -n 9 || { echo "Could not acquire lock" >&2; exit 11; }
echo "activating the configuration..." >&2
for unit in $changed; do cp "$out/units/$unit" "/etc/systemd/system/$unit"; done
ln -sfn "$out" /run/current-system
systemctl daemon-reexec
systemctl daemon-reload
sleep "${SLEEP:-0}"
for unit in $changed; do
  grep -q X-RestartIfChanged=false "/etc/systemd/system/$unit" || systemctl try-restart "$unit"
done
systemctl start --no-block web.service
sleep 1
systemctl is-failed --quiet web.service && { echo "warning: the following units failed: web.service" >&2; exit 4; }
exit 0
"""

FLAKE = """
{
  outputs = { self }: {
    nixosConfigurations.blunix.config.system.build.toplevel = derivation {
      name = "nixos-system-blunix";
      system = "SYSTEM";
      builder = "/bin/sh";
      PATH = "/usr/bin:/bin";
      files = ./.;
      args = [ "-c" ''
        set -e
        mkdir -p $out/etc
        cp -r $files/bin $files/units $files/behaviour $files/nixos-version $out/
        cp $files/hostname $out/etc/hostname
      '' ];
    };
  };
}
"""

REBUILD = """#!/bin/sh
[ "$1" = switch ] || { echo "usage: nixos-rebuild [--no-reexec] [--store-path STORE_PATH]" >&2; exit 2; }
test -f "$4/nixos-version" || exit 1
nix-env -p /nix/var/nix/profiles/system --set "$4" || exit 1
exec systemd-run -E LOCALE_ARCHIVE -E NIXOS_INSTALL_BOOTLOADER --collect --no-ask-password --pipe --quiet \\
  --service-type=exec --unit=nixos-rebuild-switch-to-configuration "$4/bin/switch-to-configuration" switch
"""

#: What stage 2 of a NixOS boot does.
STAGE_2 = """[Unit]
DefaultDependencies=no
Before=sysinit.target
[Service]
Type=oneshot
ExecStart=/bin/sh -c 'mkdir -p /run/nixos; \\
  for link in current booted; do ln -sfn $(readlink -f /nix/var/nix/profiles/system) /run/$link-system; done'
"""

#: A card on the way that workers send it, from `ready SLUG COMMIT`; and what became of it, from `card SLUG`.
BOARD_SCRIPT = """
import json, sys, time
from intent_board import config
from intent_board.store import open_store
store = open_store(config.load("/etc/intent-board/board.toml"))
def finish(queue, event, data):
    claim = store.claim(queue)
    assert claim is not None and store.finish(claim, event, data), (queue, event)
what, slug, *rest = sys.argv[1:]
if what == "ready":
    data = {"lane": "schwer", "iterations": None, "write_scope": ["**"]}
    store.submit(slug=slug, title=slug, intent="# Intent: x", repository="units", requester="lukas",
                 event="build_by_hand", data=data)
    store.tick(time.time(), off_branch={})
    commit = {"commit": rest[0]}
    finish("builder-schwer", "built", {**commit, "base": "0" * 40, "branch": "main", "checks": []})
    finish("review", "approved", {**commit, "report": {"summary": "good"}})
    finish("publish", "published", commit)
else:
    card = store.card(slug)
    jobs = [line.job.state.value for line in store.jobs(slug) if line.job.role == "deploy"]
    print(json.dumps({"phase": card.phase, "status": card.status, "reason": card.reason, "jobs": jobs}))
"""

COMMIT = """#!/bin/sh
# commit BEHAVIOUR MARK: a new commit of the configuration, whose units carry the mark in their description.
cd /srv/nixos
printf '%s\\n' "$1" > behaviour
for unit in units/*; do sed -i "s/^Description=.*/Description=generation $2/" "$unit"; done
export GIT_AUTHOR_NAME=t GIT_AUTHOR_EMAIL=t@localhost GIT_COMMITTER_NAME=t GIT_COMMITTER_EMAIL=t@localhost
git add --all
git commit --quiet --allow-empty --message "$2"
git rev-parse HEAD
"""

FIRST = """
cp -r /srv/nixos /srv/first
rm -rf /srv/first/.git
mkdir -p /nix/var/nix/profiles
export NIX_REMOTE=local
nix-env -p /nix/var/nix/profiles/system --set $(nix-store --add /srv/first)
"""

WEB = """[Unit]
Description=first
[Service]
ExecStart=/bin/sh -c 'test ! -e /run/current-system/sick && exec sleep infinity'
"""


def furnish(root: Path) -> None:
    """Add all of it to a furnished tree.  Nothing of the board starts by itself on it but the deployer."""
    host = boot_tree.rendered()
    for link in host["links"]:
        inside(root, f"/etc/systemd/system/{link}").unlink()
    settings = host["settings"]
    settings["repositories"]["units"] |= {"remote_url": "file:///srv/nixos", "branch": "main"}
    settings["deploy"] |= {
        "automatic": True,
        "health_checks": [["systemctl", "is-active", "web.service"]],
        "health_timeout_seconds": 3,
    }
    inside(root, host["configFile"]).chmod(0o644)
    write(root, host["configFile"], tomli_w.dumps(settings), 0o444)
    write(root, "/etc/NIXOS", "")
    write(root, "/etc/nix/nix.conf", "sandbox = false\nbuild-users-group =\nsubstituters =\n")
    _units(root)
    write(root, "/usr/bin/nixos-rebuild", REBUILD, 0o755)
    write(root, "/srv/commit", COMMIT, 0o755)
    write(root, "/srv/board.py", BOARD_SCRIPT)
    _repository(root)
    write(root, "/srv/first.sh", FIRST)
    # Nix wants /proc; it goes with the namespace.
    with_proc = 'mount -t proc proc "$0/proc" && exec chroot "$0" sh -e /srv/first.sh'
    boot_tree.run("unshare", "--mount", "sh", "-c", with_proc, root)


def _units(root: Path) -> None:
    daemon = "/nix/var/nix/daemon-socket/socket"
    texts = {
        "nix-daemon.socket": f"[Socket]\nListenStream={daemon}\n[Install]\nWantedBy=sockets.target\n",
        "nix-daemon.service": "[Service]\nExecStart=/usr/bin/nix-daemon --daemon\n",
        "stage-2.service": STAGE_2,
        "web.service": WEB,
    }
    for name, text in texts.items():
        write(root, f"/etc/systemd/system/{name}", text)
    wanted = {
        "sysinit.target": ("stage-2.service",),
        "sockets.target": ("nix-daemon.socket",),
        "multi-user.target": ("web.service", "intent-board-deploy.path", "intent-board-deploy-recover.service"),
    }
    for target, names in wanted.items():
        for name in names:
            link = inside(root, f"/etc/systemd/system/{target}.wants/{name}")
            link.parent.mkdir(exist_ok=True)
            link.symlink_to(f"../{name}")


def _repository(root: Path) -> None:
    write(root, "/srv/nixos/flake.nix", FLAKE.replace("SYSTEM", f"{platform.machine()}-linux"))
    write(root, "/srv/nixos/bin/switch-to-configuration", ACTIVATION, 0o755)
    write(root, "/srv/nixos/nixos-version", "26.05\n")
    write(root, "/srv/nixos/hostname", "blunix\n")
    write(root, "/srv/nixos/behaviour", "")
    inside(root, "/srv/nixos/units").mkdir()
    for name in ("intent-board-deploy.service", "intent-board-worker-operator-0.service", "web.service"):
        shutil.copy(inside(root, f"/etc/systemd/system/{name}"), inside(root, f"/srv/nixos/units/{name}"))
    boot_tree.run("chroot", root, "git", "-C", "/srv/nixos", "init", "--quiet", "--initial-branch=main")
