"""Deployments on a scratch host with real git, a real Nix build and a real profile."""

from __future__ import annotations

import json

from scratch_host import FakeBoard, Machine

from intent_board.deploy import Flags, Outcome, deploy_blunix
from intent_board.deploy.record import records

FIRST = Flags(first=True)


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
