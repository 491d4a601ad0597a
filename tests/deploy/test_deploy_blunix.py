"""Deployments on a scratch host with real git, a real Nix build and a real profile."""

from __future__ import annotations

import fcntl
import json
import os
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from scratch_host import BUILDER, FLAKE, FakeBoard, Machine, git

from intent_board.config import BoardConfig, Deploy
from intent_board.deploy import DeployRefused, Flags, Outcome, Report, deploy_blunix, recover, service
from intent_board.deploy.mirror import Mirror
from intent_board.deploy.record import Record, records

FIRST = Flags(first=True)


def deploy(machine: Machine, slug: str | None = "card", flags: Flags = FIRST, **host: Any) -> Report:
    """The last report of one run."""
    return deploy_blunix(machine.config, slug, flags=flags, host=machine.host(**host))[-1]


def last(machine: Machine) -> dict[str, dict[str, Any]]:
    """The newest record's lines by kind."""
    return {line["kind"]: line for line in records(machine.host())[-1].lines()}


def deployed(machine: Machine, board: FakeBoard, slug: str = "base") -> str:
    """A first deployment, so that what runs here is known.  Returns its commit."""
    commit = machine.commit()
    board.card(slug, commit)
    report = deploy(machine, slug)
    assert report.outcome is Outcome.DEPLOYED, report
    return commit


def test_the_reviewed_commit_is_built_switched_to_and_recorded(machine: Machine, board: FakeBoard) -> None:
    commit = machine.commit()
    board.card("neue-seite", commit)

    (report,) = deploy_blunix(machine.config, "neue-seite", flags=FIRST, host=machine.host())

    assert report.outcome is Outcome.DEPLOYED, report
    assert machine.current == machine.profile != machine.old_path
    (record,) = records(machine.host())
    lines = {line["kind"]: line for line in record.lines()}
    assert list(lines) == [
        "begin", "host", "fetch", "evidence", "commit", "build_begins", "build", "contained", "dry_activation",
        "switch_begins", "switch", "truth", "end", "reported",
    ]  # fmt: skip
    assert lines["dry_activation"]["units"] == {
        "stop": ["old.service"],
        "start": ["new.service"],
        "restart": ["nginx.service", "sshd.service"],
        "reload": ["dbus.service"],
    }
    assert lines["switch"]["argv"][-4:] == ["switch", "--no-reexec", "--store-path", machine.current]
    (told,) = board.told()
    assert (told["outcome"], told["commit"], told["path"]) == ("deployed", commit, machine.current)
    assert told["review"]["commit"] == commit
    assert json.dumps(told["before"]).count(machine.old_path) == 2


def test_a_system_that_runs_already_is_not_switched_again(machine: Machine, board: FakeBoard) -> None:
    deployed(machine, board)
    before = machine.activations()
    (machine.root / "remote/README").write_text("no part of the system")
    git(machine.root / "remote", "add", "README")
    git(machine.root / "remote", "commit", "--quiet", "-m", "words")
    commit = git(machine.root / "remote", "rev-parse", "HEAD")
    board.card("words", commit)

    report = deploy(machine, "words", Flags())

    assert report.outcome is Outcome.ALREADY, report
    assert machine.activations() == before and "switch_begins" not in last(machine)
    assert board.read()["cards"]["words"]["phase"] == "deployed"
    assert deploy(machine, "words", Flags()).outcome is Outcome.REFUSED


def test_an_unhealthy_generation_goes_back(machine: Machine, board: FakeBoard) -> None:
    deployed(machine, board)
    good, generation = machine.current, machine.generation
    board.card("card", machine.commit(SICK="1"))

    report = deploy(machine)

    assert report.outcome is Outcome.ROLLED_BACK and "it is sick" in report.sentence, report
    assert machine.current == machine.profile == good
    assert machine.generation == generation
    assert last(machine)["truth"]["complaints"] and not last(machine)["rollback"]["complaints"]
    assert board.told()[-1]["outcome"] == "rolled_back"


@pytest.mark.parametrize(
    ("behaviour", "words"),
    [
        ({"CODE": "2"}, "half switched"),
        ({"CODE": "2", "HALF": "1"}, "half switched"),
        ({"CODE": "1", "REFUSE": "1"}, "Pre-switch checks failed"),
        ({"CODE": "101"}, "unknown"),
        ({"CODE": "100", "HALF": "1"}, "needs a reboot"),
        ({"CODE": "7"}, "unknown"),
        ({"CODE": "0", "HALF": "1"}, "the running system is"),
        ({"CODE": "4", "FAILED": "nginx.service"}, "units failed: nginx.service"),
        ({"CODE": "0", "FAILED": "nginx.service, b.service"}, "units failed: b.service, nginx.service"),
        ({"CODE": "4"}, "units failed"),
    ],
)
def test_whatever_the_switch_says_a_bad_end_goes_back(
    machine: Machine, board: FakeBoard, behaviour: dict[str, str], words: str
) -> None:
    good, generation = machine.current, machine.generation
    board.card("card", machine.commit(**behaviour))

    report = deploy(machine)

    assert report.outcome is Outcome.ROLLED_BACK and words in report.sentence, report
    assert machine.current == machine.profile == good
    assert machine.generation == generation
    # A system that was never left is not activated again.
    action = "boot" if "HALF" in behaviour or "REFUSE" in behaviour else "switch"
    assert machine.activations()[-1] == f"{action} {good}"


def test_a_unit_that_had_failed_before_does_not_count(machine: Machine, board: FakeBoard) -> None:
    (machine.root / "failed").write_text("old-sorrow.service")
    board.card("card", machine.commit(CODE="4", FAILED="old-sorrow.service"))
    report = deploy(machine)
    assert report.outcome is Outcome.DEPLOYED and "old-sorrow.service had failed before" in report.sentence
    assert board.told()[-1]["discrepancies"]


def test_without_rollback_the_host_stays_and_the_card_says_so(machine: Machine, board: FakeBoard) -> None:
    machine.configure(rollback=False)
    board.card("card", machine.commit(SICK="1"))
    report = deploy(machine)
    assert report.outcome is Outcome.FAILED and "it stays as it is" in report.sentence
    assert machine.current == machine.profile != machine.old_path


def test_a_rollback_that_fails_is_said_loudest(machine: Machine, board: FakeBoard) -> None:
    machine.script("health", "#!/bin/sh\necho all is lost; exit 1\n")
    board.card("card", machine.commit())
    report = deploy(machine)
    assert report.outcome is Outcome.ROLLBACK_FAILED and "AND THE ROLLBACK FAILED" in report.sentence
    assert last(machine)["rollback"]["complaints"]


def test_a_switch_that_takes_too_long_is_ended_and_undone(machine: Machine, board: FakeBoard) -> None:
    good = machine.current
    board.card("card", machine.commit(SLEEP="60"))
    config = machine.config
    table = Deploy.model_construct(**{**dict(config.deploy), "timeout_minutes": 0.1})
    short = config.model_copy(update={"deploy": table})
    report = deploy_blunix(short, "card", flags=FIRST, host=machine.host())[-1]
    assert report.outcome is Outcome.ROLLED_BACK and "did not end within 6 s" in report.sentence, report
    assert machine.current == machine.profile == good
    stopped = "stop nixos-rebuild-switch-to-configuration.service"
    assert stopped in (machine.root / "systemctl-calls").read_text().splitlines()


@pytest.mark.parametrize(
    ("unit", "state"),
    [
        ("nixos-rebuild-switch-to-configuration", "failed"),
        ("intent-board-dry-activation", "failed"),
        ("intent-board-dry-activation", "active"),
    ],
)
def test_a_unit_that_an_earlier_run_left_behind_blocks_no_deployment(
    machine: Machine, board: FakeBoard, unit: str, state: str
) -> None:
    (machine.root / f"units/{unit}.service").write_text(f"{state}\n")
    if not unit.startswith("intent-board"):
        (machine.root / "switch-unit").write_text(f"{state}\n")
    board.card("card", machine.commit())
    report = deploy(machine)
    assert report.outcome is Outcome.DEPLOYED, report


@pytest.mark.parametrize("rollback", [True, False])
def test_an_activation_that_outlives_whoever_waited_for_it_is_waited_for(
    machine: Machine, board: FakeBoard, rollback: bool
) -> None:
    """systemd-run is ended while the unit that it started goes on and switches the host later."""
    good, root = machine.current, machine.root
    machine.configure(rollback=rollback)
    (root / "bin/systemd-run").rename(root / "bin/systemd-run-real")
    machine.script("later", f'#!/bin/sh\nsleep 1.5\nsystemd-run-real "$@"\necho inactive > {root}/switch-unit\n')
    machine.script(
        "systemd-run",
        f"""#!/bin/sh
for action; do :; done
if [ "$action" = switch ] && mkdir {root}/lost; then
  echo active > {root}/switch-unit
  setsid later "$@" > /dev/null 2>&1 &
  kill -9 $$
fi
exec systemd-run-real "$@"
""",
    )
    board.card("card", machine.commit())
    report = deploy(machine)
    assert (root / "switch-unit").read_text() == "inactive\n", "the host was judged while it was being switched"
    new = last(machine)["build"]["path"]
    assert report.outcome is (Outcome.ROLLED_BACK if rollback else Outcome.FAILED), report
    assert machine.current == machine.profile == (good if rollback else new)


def test_an_older_nixos_rebuild_is_replaced_by_its_steps(machine: Machine, board: FakeBoard) -> None:
    words = "nixos-rebuild: error: unrecognized arguments: --no-reexec --store-path"
    machine.script("nixos-rebuild", f"#!/bin/sh\necho '{words}' >&2; exit 2\n")
    board.card("card", machine.commit())
    assert deploy(machine).outcome is Outcome.DEPLOYED
    assert machine.current == machine.profile
    assert last(machine)["switch"]["argv"][-1] == "switch"


# --- busy ------------------------------------------------------------------------------------------------------


def test_a_host_that_somebody_else_switches_is_left_alone(machine: Machine, board: FakeBoard) -> None:
    board.card("card", machine.commit())
    with (machine.root / "run/switch.lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        report = deploy(machine)
    assert report.outcome is Outcome.BUSY and "switched by somebody else" in report.sentence
    assert machine.current == machine.profile == machine.old_path
    assert board.read()["cards"]["card"]["phase"] == "bereit_fuer_deployment"


def test_a_switch_that_comes_too_late_leaves_no_boot_entry_behind(machine: Machine, board: FakeBoard) -> None:
    """nixos-rebuild moves the profile before it finds the lock taken."""
    board.card("card", machine.commit(CODE="11", HALF="1"))
    report = deploy(machine)
    assert report.outcome is Outcome.BUSY, report
    assert machine.current == machine.profile == machine.old_path
    assert sum(line.startswith("switch ") for line in machine.activations()) == 2


def test_a_host_that_stays_busy_is_broken(machine: Machine, board: FakeBoard) -> None:
    board.card("card", machine.commit())
    with (machine.root / "run/switch.lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        outcomes = [deploy(machine, busy_seconds=0.0).outcome for _ in range(10)]
    assert outcomes == [Outcome.BUSY] * 9 + [Outcome.FAILED]


def test_outside_the_window_the_card_waits_for_it(machine: Machine, board: FakeBoard) -> None:
    opens = datetime.now() + timedelta(hours=2)
    machine.configure(window=f"{opens:%H:%M}-{opens + timedelta(hours=1):%H:%M}")
    board.card("card", machine.commit())
    for _ in range(11):
        report = deploy(machine)
    assert report.outcome is Outcome.BUSY and "window" in report.sentence
    assert abs(float(board.told()[-1]["not_before"]) - opens.timestamp()) < 120  # type: ignore[arg-type]
    assert machine.current == machine.old_path


def test_a_remote_that_cannot_be_reached_is_tried_later(machine: Machine, board: FakeBoard) -> None:
    board.card("card", machine.commit())
    (machine.root / "remote").rename(machine.root / "elsewhere")
    report = deploy(machine)
    assert report.outcome is Outcome.BUSY and "cannot be fetched" in report.sentence


# --- the wrong thing -------------------------------------------------------------------------------------------


def refused(machine: Machine, board: FakeBoard, words: str, slug: str = "card", flags: Flags = FIRST) -> None:
    before = (machine.current, machine.profile, len(machine.activations()))
    report = deploy(machine, slug, flags)
    assert report.outcome in (Outcome.REFUSED, Outcome.FAILED) and words in report.sentence, report
    assert (machine.current, machine.profile, len(machine.activations())) == before
    assert board.told()[-1]["outcome"] == report.outcome and last(machine)["end"]["sentence"] == report.sentence


APPROVED = "bereit_fuer_deployment"
OTHER = "1" * 40


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"reviews": []}, "no review names"),
        ({"reviews": [{"id": 1, "slug": "card", "commit": OTHER, "decision": APPROVED}]}, "no review names"),
        ({"reviews": [{"id": 1, "slug": "card", "commit": "C", "decision": "planung_mit_feedback"}]}, "newest review"),
        (
            {
                "reviews": [
                    {"id": 1, "slug": "card", "commit": "C", "decision": APPROVED},
                    {"id": 2, "slug": "card", "commit": "C", "decision": "planung_mit_feedback"},
                ]
            },
            "newest review",
        ),
        ({"phase": "im_review"}, "stands in im_review"),
        ({"phase": "archiviert"}, "stands in archiviert"),
        ({"kind": "child"}, "with its parent"),
        ({"kind": "synthesis"}, "with its parent"),
        ({"repository": "other"}, "is not configured"),
        ({"commit": None}, "no full hash"),
        ({"commit": "HEAD"}, "no full hash"),
        ({"commit": "main"}, "no full hash"),
        ({"commit": "--upload-pack=touch /x"}, "no full hash"),
        ({"commit": "refs/heads/main"}, "no full hash"),
    ],
)
def test_a_card_without_the_evidence_is_refused(
    machine: Machine, board: FakeBoard, changes: dict[str, Any], words: str
) -> None:
    commit = machine.commit()
    for review in changes.get("reviews", ()):
        review["commit"] = commit if review["commit"] == "C" else review["commit"]
    if isinstance(changes.get("commit"), str):
        changes["reviews"] = [{"id": 1, "slug": "card", "commit": changes["commit"], "decision": APPROVED}]
    board.card("card", commit, **changes)
    refused(machine, board, words)


def test_gate_owner_wants_the_release_of_this_hash(machine: Machine, board: FakeBoard) -> None:
    machine.configure(gate="owner")
    commit = machine.commit()
    for released in (None, OTHER):
        board.card("card", commit, released=released)
        refused(machine, board, "gate owner")
    board.card("card", commit, released=commit)
    assert deploy(machine).outcome is Outcome.DEPLOYED
    assert board.told()[-1]["gate"] == "owner"


def test_gate_commit_is_for_the_owners_own_direct_builds_only(machine: Machine, board: FakeBoard) -> None:
    machine.configure(gate="commit")
    commit = machine.commit()
    for changes in ({"by_hand": False}, {"by_hand": True, "requester": "anna"}):
        board.card("card", commit, reviews=[], **changes)
        refused(machine, board, "no review names")
    board.card("card", commit, reviews=[], by_hand=True)
    assert deploy(machine).outcome is Outcome.DEPLOYED
    assert last(machine)["evidence"]["by_hand"] is True


def test_a_commit_of_another_branch_is_refused(machine: Machine, board: FakeBoard) -> None:
    remote = machine.root / "remote"
    git(remote, "checkout", "--quiet", "-b", "side")
    commit = machine.commit()
    git(remote, "checkout", "--quiet", "main")
    machine.commit()
    board.card("card", commit)
    refused(machine, board, "is not on the remote's branch")


def test_a_branch_that_was_moved_takes_its_commits_along(machine: Machine, board: FakeBoard) -> None:
    commit = machine.commit()
    board.card("card", commit)
    assert deploy(machine).outcome is Outcome.DEPLOYED
    later = machine.commit()
    board.card("later", later)
    git(machine.root / "remote", "reset", "--quiet", "--hard", commit)
    machine.commit("# another way")
    refused(machine, board, "is not on the remote's branch", "later", Flags())


def test_an_older_commit_needs_a_persons_flag(machine: Machine, board: FakeBoard) -> None:
    older = deployed(machine, board)
    first_path = machine.current
    board.card("newer", machine.commit())
    assert deploy(machine, "newer", Flags()).outcome is Outcome.DEPLOYED
    board.card("card", older)
    refused(machine, board, "--allow-older", flags=Flags())
    refused(machine, board, "--allow-older", flags=Flags(first=True))
    # The refusal parked the card; the flag that it asked for works from there.
    report = deploy(machine, flags=Flags(allow_older=True))
    assert report.outcome is Outcome.DEPLOYED and machine.current == first_path
    assert board.told()[-1]["flags"] == {"allow_older": True}


def test_what_runs_here_must_be_known_or_a_person_says_first(machine: Machine, board: FakeBoard) -> None:
    board.card("card", machine.commit())
    refused(machine, board, "--first", flags=Flags())
    assert deploy(machine).outcome is Outcome.DEPLOYED
    # Somebody switches by hand: nobody knows what runs now.
    machine.nix("nix-env", "-p", str(machine.root / "profiles/system"), "--set", machine.old_path)
    (machine.root / "run/current-system").unlink()
    (machine.root / "run/current-system").symlink_to(machine.old_path)
    board.card("next", machine.commit())
    refused(machine, board, "--first", "next", Flags())


def test_a_card_that_does_not_exist_is_refused(machine: Machine, board: FakeBoard) -> None:
    report = deploy(machine, "no-such-card")
    assert report.outcome is Outcome.REFUSED and "no such card" in report.sentence


def test_a_wrong_host_is_refused_and_recorded(machine: Machine, board: FakeBoard) -> None:
    board.card("card", machine.commit())
    report = deploy(machine, hostname=lambda: "tnix")
    assert report.outcome is Outcome.REFUSED and "locked host" in report.sentence
    report = deploy(machine, hostname=lambda: "blunix2")
    assert report.outcome is Outcome.REFUSED and "no remote mode" in report.sentence
    assert machine.current == machine.old_path and not (machine.root / "build/mirrors").exists()


def test_a_repository_that_is_not_deployed_is_refused(machine: Machine, board: FakeBoard) -> None:
    board.card("card", machine.commit())
    config = machine.config
    off = config.repositories["nixos"].model_copy(update={"deploy": False})
    changed = BoardConfig.model_construct(**{**dict(config), "repositories": {"nixos": off}})
    report = deploy_blunix(changed, "card", host=machine.host())[-1]
    assert report.outcome is Outcome.REFUSED and "deploy = true" in report.sentence


@pytest.mark.parametrize("change", [{"phase": "archiviert"}, {"commit": OTHER}, {"reviews": []}])
def test_a_card_that_changes_while_it_is_built_is_not_switched_to(
    machine: Machine, board: FakeBoard, monkeypatch: pytest.MonkeyPatch, change: dict[str, Any]
) -> None:
    board.card("card", machine.commit())
    published = service.published

    def meanwhile(*words: Any) -> Any:
        data = board.read()
        data["cards"]["card"] |= change
        if "commit" in change:
            data["cards"]["card"]["reviews"][0]["commit"] = OTHER
        board.write(data)
        return published(*words)

    monkeypatch.setattr(service, "published", meanwhile)
    report = deploy(machine)
    assert report.outcome is Outcome.REFUSED, report
    assert machine.current == machine.profile == machine.old_path


def test_a_record_that_cannot_be_written_after_the_switch_is_no_refusal(
    machine: Machine, board: FakeBoard, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk must not make the deployer say that it did nothing."""
    board.card("card", machine.commit())
    add = Record.add

    def full(self: Record, kind: str, **data: Any) -> None:
        if kind == "switch":
            raise DeployRefused("the record cannot be written (No space left on device)")
        add(self, kind, **data)

    with monkeypatch.context() as patch:
        patch.setattr(Record, "add", full)
        with pytest.raises(DeployRefused, match="No space"):
            deploy(machine)
    assert board.told() == [] and "end" not in last(machine)
    assert machine.current == machine.profile != machine.old_path
    assert [report.outcome for report in recover(machine.config, host=machine.host())] == [Outcome.DEPLOYED]


# --- the mirror, and what stands in its way --------------------------------------------------------------------


def plant(machine: Machine, what: str) -> None:
    """Put something where the mirror is, as an agent or another user might."""
    mirror = machine.root / "build/mirrors/nixos"
    elsewhere = machine.root / "elsewhere"
    match what:
        case "owner":
            os.chown(mirror, 64209, 64209)
        case "owner of a part":
            os.chown(mirror / ".git/objects", 64209, 64209)
        case "owner of the configuration":
            os.chown(mirror / ".git/config", 64209, 64209)
        case "open":
            mirror.chmod(0o777)
        case "link":
            mirror.rename(elsewhere)
            mirror.symlink_to(elsewhere)
        case "link inside":
            (mirror / ".git/refs").rename(elsewhere)
            (mirror / ".git/refs").symlink_to(elsewhere)
        case "configuration":
            with (mirror / ".git/config").open("a") as file:
                file.write("[core]\n\tsshCommand = touch /tmp/x\n")
        case "include":
            with (mirror / ".git/config").open("a") as file:
                file.write(f"[include]\n\tpath = {elsewhere}\n")
        case "alternates":
            (mirror / ".git/objects/info").mkdir(exist_ok=True)
            (mirror / ".git/objects/info/alternates").write_text(f"{elsewhere}\n")
        case "grafts" | "attributes":
            (mirror / ".git/info").mkdir()
            (mirror / ".git/info" / what).write_text("* export-ignore\n")
            for path in (mirror / ".git/info", mirror / ".git/info" / what):
                os.chown(path, BUILDER.uid, BUILDER.gid)
        case "hook":
            (mirror / ".git/hooks").mkdir()
            (mirror / ".git/hooks/post-checkout").write_text("#!/bin/sh\n")
            for path in (mirror / ".git/hooks", mirror / ".git/hooks/post-checkout"):
                os.chown(path, BUILDER.uid, BUILDER.gid)
        case "file":
            (mirror / "flake.nix").write_text(FLAKE)
            os.chown(mirror / "flake.nix", BUILDER.uid, BUILDER.gid)
        case "parent":
            mirror.parent.rename(elsewhere)
            mirror.parent.symlink_to(elsewhere)


@pytest.mark.parametrize(
    "what",
    [
        "owner", "owner of a part", "owner of the configuration", "open", "link", "link inside", "configuration",
        "include", "alternates", "hook", "file", "parent", "grafts", "attributes",
    ],
)  # fmt: skip
def test_a_mirror_that_is_not_as_the_deployer_made_it_is_refused(machine: Machine, board: FakeBoard, what: str) -> None:
    Mirror(machine.host(), BUILDER, "nixos", machine.config.repositories["nixos"]).prepare()
    plant(machine, what)
    board.card("card", machine.commit())
    refused(machine, board, "remove")


def test_what_a_killed_git_left_behind_hurts_nobody(machine: Machine, board: FakeBoard) -> None:
    deployed(machine, board)
    git_dir = machine.root / "build/mirrors/nixos/.git"
    for name in ("refs/heads/main.lock", "packed-refs.lock", "HEAD.lock", "config.lock"):
        (git_dir / name).touch()
        os.chown(git_dir / name, BUILDER.uid, BUILDER.gid)
    board.card("card", machine.commit())
    assert deploy(machine, flags=Flags()).outcome is Outcome.DEPLOYED


@pytest.mark.parametrize("where", ["objects/pack", "refs/heads/main"])
def test_a_mirror_that_a_power_cut_broke_is_made_anew(machine: Machine, board: FakeBoard, where: str) -> None:
    deployed(machine, board)
    part = machine.root / "build/mirrors/nixos/.git" / where
    for file in [part] if part.is_file() else list(part.iterdir()):
        file.chmod(0o644)
        file.write_bytes(b"")
    board.card("card", machine.commit())
    report = deploy(machine, flags=Flags())
    assert report.outcome is Outcome.DEPLOYED, report


def test_a_users_own_nix_configuration_is_not_read(machine: Machine, board: FakeBoard) -> None:
    deployed(machine, board)
    evil = "post-build-hook = /nonexistent\nplugin-files = /nonexistent\naccept-flake-config = true\n"
    for where in ("home/.config/nix/nix.conf", "cache/nix/nix.conf"):
        path = machine.root / "build" / where
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(evil)
    trusted = machine.root / "build/home/.local/share/nix/trusted-settings.json"
    trusted.parent.mkdir(parents=True)
    trusted.write_text(json.dumps({"extra-experimental-features": {"ca-derivations": True}}))
    board.card("card", machine.commit())
    assert deploy(machine, flags=Flags()).outcome is Outcome.DEPLOYED


def test_a_flakes_own_settings_are_not_accepted(machine: Machine, board: FakeBoard) -> None:
    flake = machine.root / "remote/flake.nix"
    settings = '{ nixConfig.post-build-hook = "/nonexistent/evil"; nixConfig.sandbox = "relaxed"; outputs ='
    flake.write_text(flake.read_text().replace("{\n  outputs =", settings, 1))
    board.card("card", machine.commit())
    report = deploy(machine)
    assert report.outcome is Outcome.DEPLOYED, report
    assert "untrusted flake configuration setting" in last(machine)["build"]["output"]


def test_the_system_of_another_host_is_not_switched_to(machine: Machine, board: FakeBoard) -> None:
    board.card("card", machine.commit(HOSTNAME_="tnix"))
    refused(machine, board, "calls itself 'tnix'")


def test_an_input_that_is_not_locked_is_not_fetched(machine: Machine, board: FakeBoard) -> None:
    """What is reviewed is what the lock file pins; without it nix would take whatever is there today."""
    other = machine.root / "other"
    other.mkdir()
    git(other, "init", "--quiet")
    (other / "flake.nix").write_text("{ outputs = { self }: { }; }")
    git(other, "add", "--all")
    git(other, "commit", "--quiet", "-m", "x")
    for path in (other, other / ".git"):
        os.chown(path, BUILDER.uid, BUILDER.gid)
    flake = machine.root / "remote/flake.nix"
    inputs = f'{{ inputs.o.url = "git+file://{other}"; outputs = {{ self, o }}'
    flake.write_text(flake.read_text().replace("{\n  outputs = { self }", inputs, 1))
    board.card("card", machine.commit())
    refused(machine, board, "lock file")


NO_SYSTEM = "{ outputs = { self }: { nixosConfigurations.blunix.config.system.build.toplevel = 7; }; }"


@pytest.mark.parametrize("flake", ["{ outputs = { self }: { }; }", "{ this is no nix", NO_SYSTEM])
def test_a_commit_that_does_not_build_is_a_failed_deployment(machine: Machine, board: FakeBoard, flake: str) -> None:
    (machine.root / "remote/flake.nix").write_text(flake)
    board.card("card", machine.commit())
    refused(machine, board, "was not built")
    assert last(machine)["build"]["exit_code"] != 0


def test_what_is_no_nixos_system_is_not_switched_to(machine: Machine, board: FakeBoard) -> None:
    flake = machine.root / "remote/flake.nix"
    flake.write_text(flake.read_text().replace("echo 26.05 > $out/nixos-version", "true"))
    board.card("card", machine.commit())
    refused(machine, board, "has no nixos-version")


def test_a_dry_activation_that_fails_changes_nothing(machine: Machine, board: FakeBoard) -> None:
    board.card("card", machine.commit(DRY_CODE="1"))
    report = deploy(machine)
    assert report.outcome is Outcome.REFUSED and "dry activation" in report.sentence
    assert machine.current == machine.profile == machine.old_path


# --- several cards ---------------------------------------------------------------------------------------------


def test_of_several_the_newest_that_contains_the_others_is_deployed_once(machine: Machine, board: FakeBoard) -> None:
    deployed(machine, board)
    board.card("one", machine.commit())
    foreign = machine.commit()
    board.card("three", machine.commit())
    board.card("two", machine.commit())

    (report,) = deploy_blunix(machine.config, host=machine.host())

    assert (report.slug, report.outcome) == ("two", Outcome.DEPLOYED)
    told = board.told()[-1]
    assert (told["contained"], told["foreign"]) == (["one", "three"], [foreign])
    assert {card["phase"] for card in board.read()["cards"].values()} == {"deployed"}


def test_when_the_newest_is_bad_the_others_still_get_their_turn(machine: Machine, board: FakeBoard) -> None:
    deployed(machine, board)
    board.card("good", machine.commit())
    board.card("bad", machine.commit(SICK="1"))
    reports = deploy_blunix(machine.config, host=machine.host())
    assert [(one.slug, one.outcome) for one in reports] == [
        ("bad", Outcome.ROLLED_BACK), ("good", Outcome.DEPLOYED),
    ]  # fmt: skip


def test_nothing_that_waits_is_nothing_to_do(machine: Machine, board: FakeBoard) -> None:
    assert deploy_blunix(machine.config, host=machine.host()) == []
    assert records(machine.host()) == []


def test_the_build_keeps_its_root_only_as_long_as_it_is_needed(machine: Machine, board: FakeBoard) -> None:
    deployed(machine, board)
    assert list((machine.root / "build/roots").iterdir()) == []


def test_root_leaves_no_file_where_the_build_user_works(machine: Machine, board: FakeBoard) -> None:
    deployed(machine, board)
    strangers = [path for path in Path(machine.root / "build").rglob("*") if path.lstat().st_uid != BUILDER.uid]
    assert strangers == []


def test_the_build_user_has_the_fetch_key_only_while_it_fetches(
    machine: Machine, board: FakeBoard, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = machine.root / "keys"
    keys.mkdir(mode=0o700)
    (keys / "read-key").write_text("secret words")
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(keys))
    machine.configure()
    config = machine.config
    repository = config.repositories["nixos"].model_copy(update={"fetch_credential": "read-key"})
    config = config.model_copy(update={"repositories": {"nixos": repository}})
    # A git that looks whether the key is there while it fetches, and tells.
    seen = machine.root / "seen"
    seen.mkdir()
    seen.chmod(0o777)
    copy = machine.root / "build/credential"
    look = f"stat -c %a:%u {copy} > {seen}/key; cat {copy} >> {seen}/key"
    on = 'PATH=$(echo "$PATH" | cut -d: -f2-) exec git "$@"'
    machine.script("git", f'#!/bin/sh\ncase " $* " in *" fetch "*) {look};; esac\n{on}\n')
    board.card("card", machine.commit())
    report = deploy_blunix(config, "card", flags=FIRST, host=machine.host())[-1]
    assert report.outcome is Outcome.DEPLOYED, report
    assert (seen / "key").read_text() == f"600:{BUILDER.uid}\nsecret words"
    assert not copy.exists() and "secret words" not in records(machine.host())[-1].path.read_text()

    monkeypatch.delenv("CREDENTIALS_DIRECTORY")
    board.card("next", machine.commit())
    report = deploy_blunix(config, "next", host=machine.host())[-1]
    assert report.outcome is Outcome.REFUSED and "not loaded here" in report.sentence


def test_a_lock_that_is_taken_during_the_dry_activation_is_waited_for(machine: Machine, board: FakeBoard) -> None:
    board.card("card", machine.commit(DRY_CODE="11"))
    assert deploy(machine).outcome is Outcome.BUSY
    assert machine.current == machine.profile == machine.old_path
