#!/usr/bin/env bash
# Gets this machine ready for the scripts beside it, and does nothing when it is.
#
#   . scripts/setup.sh; set_up runtime     from another script: what the package needs to run
#   scripts/setup.sh [runtime|test|lowest] by hand
#
# runtime  the package with its libraries
# test     and with pytest, ruff and mypy
# lowest   as test, in a virtual environment of its own, with the lowest versions that pyproject.toml declares
#
# Afterwards ROOT is the top of the repository, and `python`, `board` and the other entry points come first in PATH.

ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
# Sourced without arguments, a file sees its caller's: those a re-run inside `nix develop` needs.
SETUP_ARGUMENTS=("$@")

say() { echo "${0##*/}: $*" >&2; }
give_up() { say "$*"; exit 1; }

# One quiet step of the set-up; its output is shown only when it fails.
step() {
    local what="$1" log
    shift
    say "$what ..."
    log="$(mktemp)"
    if ! "$@" </dev/null >"$log" 2>&1; then
        tail -n 30 "$log" >&2
        rm -f "$log"
        give_up "$what failed; the lines above say why"
    fi
    rm -f "$log"
}

install_packages() {
    if ! command -v apt-get >/dev/null || [ "$(id -u)" != 0 ]; then
        give_up "needs $*; install that with your package manager, on Debian: sudo apt-get install $*"
    fi
    # A fresh container has no package lists, and old lists name files that are gone.
    step "fetching the package lists" apt-get update
    step "installing $*" env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@"
}

# The first Python that is new enough.  A candidate is run, since a version manager's shim may stand for nothing.
find_python() {
    local candidate
    for candidate in python3 python3.13 python3.12 python3.11 python3.14; do
        if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            echo "$candidate"
            return
        fi
    done
    return 1
}

in_nix_shell() { [ -n "${IN_NIX_SHELL:-}" ]; }

enter_nix_shell() {
    command -v nix >/dev/null || give_up "needs Python 3.11 or newer, or nix to bring it; install one of them"
    say "entering the development shell of flake.nix"
    exec nix --extra-experimental-features "nix-command flakes" develop "$ROOT" --command bash "$0" "${SETUP_ARGUMENTS[@]}"
}

# Wheels with programs in them do not run on NixOS, so there the shell's own Python carries every library, and only
# the entry points are made here.
make_nix_entry_points() {
    VENV="$ROOT/.venv-nix"
    mkdir -p "$VENV/bin"
    python3 - "$ROOT" "$VENV/bin" <<'PYTHON'
import pathlib, sys, tomllib
root, target = map(pathlib.Path, sys.argv[1:])
project = tomllib.loads((root / "package/pyproject.toml").read_text())["project"]
for name, place in project["scripts"].items():
    module, function = place.split(":")
    script = target / name
    script.write_text(f"#!{sys.executable}\nimport sys\nfrom {module} import {function}\nsys.exit({function}())\n")
    script.chmod(0o755)
PYTHON
    export PYTHONPATH="$ROOT/package/src${PYTHONPATH:+:$PYTHONPATH}"
}

lowest_versions() {
    "$VENV/bin/python" - "$ROOT/package/pyproject.toml" <<'PYTHON'
import pathlib, sys, tomllib
project = tomllib.loads(pathlib.Path(sys.argv[1]).read_text())["project"]
for line in project["dependencies"] + project["optional-dependencies"]["test"]:
    name, lower = line.split(">=")
    print(f"{name}=={lower}")
PYTHON
}

make_venv() {
    local mode="$1" python="$2" extra="" constraints
    if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
        install_packages python3-venv
    fi
    rm -rf "$VENV"
    step "making ${VENV#"$ROOT"/}" "$python" -m venv "$VENV"
    [ "$mode" = runtime ] || extra="[test]"
    constraints="$VENV/constraints.txt"
    : >"$constraints"
    [ "$mode" != lowest ] || lowest_versions >"$constraints" || give_up "cannot read package/pyproject.toml"
    step "installing the package and its libraries" "$VENV/bin/python" -m pip install --quiet \
        --disable-pip-version-check --constraint "$constraints" --editable "$ROOT/package$extra"
}

# Everything that would make the virtual environment wrong when it changes.
fingerprint() { echo "$1 $ROOT"; cat "$ROOT/package/pyproject.toml"; }

venv_is_current() {
    "$VENV/bin/python" -c '' 2>/dev/null || return 1
    fingerprint "$1" | cmp --silent - "$VENV/stamp" ||
        { [ "$1" = runtime ] && fingerprint test | cmp --silent - "$VENV/stamp"; }
}

prepare_venv() {
    local mode="$1" python
    VENV="$ROOT/.venv"
    [ "$mode" != lowest ] || VENV="$ROOT/.venv-lowest"
    # Two scripts at once must not build the same environment; the lock goes with this subshell.  `set -e` is off in
    # here, so each command that can fail ends it by itself.
    (
        flock 9
        venv_is_current "$mode" && exit 0
        # Whoever ran the tests here once will do so again.
        [ "$mode" != runtime ] || ! grep -q "^test " "$VENV/stamp" 2>/dev/null || mode=test
        python="$(find_python)" || { install_packages python3 python3-venv; python="$(find_python)"; } ||
            give_up "needs Python 3.11 or newer, and this system's is older"
        make_venv "$mode" "$python"
        fingerprint "$mode" >"$VENV/stamp" || exit 1
    ) 9>"$VENV.lock" || exit 1
}

set_up() {
    local mode="${1:-test}" missing=()
    case "$mode" in runtime | test | lowest) ;; *) give_up "there is no set-up '$mode'; use runtime, test or lowest" ;; esac
    if ! in_nix_shell && { [ -e /etc/NIXOS ] || { ! command -v apt-get >/dev/null && ! find_python >/dev/null; }; }; then
        enter_nix_shell
    fi
    command -v git >/dev/null || missing+=(git)
    command -v bwrap >/dev/null || missing+=(bubblewrap)
    [ "${#missing[@]}" = 0 ] || install_packages "${missing[@]}"
    if in_nix_shell; then make_nix_entry_points; else prepare_venv "$mode"; fi
    export PATH="$VENV/bin:$PATH" ROOT
    # A program is started for nearly everything here; compiling each module each time would double its cost.
    unset PYTHONDONTWRITEBYTECODE
    # `board` refuses to take a configuration from somebody who came through sudo.  Whoever may run a script may do
    # anything as this user, so here that protects nothing.
    unset SUDO_UID SUDO_GID SUDO_USER SUDO_COMMAND
}

if [ "${BASH_SOURCE[0]}" = "$0" ]; then
    set -euo pipefail
    set_up "${1:-test}"
fi
