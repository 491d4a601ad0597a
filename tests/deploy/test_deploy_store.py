"""The deployer with the real store behind its child: what the service user says, and what becomes of the card."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from scratch_host import PRELUDE, SERVICE, Machine

from intent_board.deploy import Flags, Outcome, Report, deploy_blunix, recover, service
from intent_board.deploy.host import DeployRefused
from intent_board.deploy.record import records
from intent_board.store.tables import MIN_CODE, SCHEMA

FIRST = Flags(first=True)


class RealBoard:
    """Short words for a store that belongs to the service user."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.state = machine.root / "board"
        self.state.mkdir(mode=0o700)
        os.chown(self.state, SERVICE.uid, SERVICE.gid)

    def do(self, code: str) -> Any:
        """Run code as the service user; what it prints is JSON."""
        config = str(self.machine.root / "etc/intent-board/board.toml")
        drop = ["setpriv", f"--reuid={SERVICE.uid}", f"--regid={SERVICE.gid}", "--clear-groups", "--"]
        done = subprocess.run(
            [*drop, sys.executable, "-c", PRELUDE + code, config], check=False, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout or "null")

    def ready(self, slug: str, commit: str, **changes: str) -> None:
        self.do(f"ready({slug!r}, {commit!r}, **{changes!r})")

    def card(self, slug: str) -> dict[str, Any]:
        return self.do(
            f"slug = {slug!r}; card = store.card(slug)\n"
            "jobs = [line.job.state for line in store.jobs(slug) if line.job.role == 'deploy']\n"
            "notes = [one.data for one in store.attachments(slug, 'deployment')]\n"
            "shown = {name: getattr(card, name) for name in ('phase', 'status', 'reason')}\n"
            "print(json.dumps({**shown, 'jobs': jobs, 'notes': notes}))"
        )

    def deploy(self, slug: str | None = None, flags: Flags = Flags()) -> list[Report]:  # noqa: B008
        return deploy_blunix(self.machine.config, slug, flags=flags, host=self.machine.host())


@pytest.fixture
def real(machine: Machine) -> RealBoard:
    return RealBoard(machine)


def test_a_card_goes_from_ready_to_deployed_with_its_record(machine: Machine, real: RealBoard) -> None:
    commit = machine.commit()
    real.ready("card", commit)
    bell = real.state / "doorbells/deploy-0"
    assert bell.exists()

    # The unit's own way: no slug, and the first deployment of a host is a person's.
    (report,) = real.deploy()
    assert report.outcome is Outcome.REFUSED and "--first" in report.sentence
    assert not bell.exists()
    card = real.card("card")
    assert (card["phase"], card["status"], card["jobs"]) == ("klaerung_reparatur", "deploy_failed", ["done"])

    (report,) = real.deploy("card", FIRST)
    assert report.outcome is Outcome.DEPLOYED, report
    card = real.card("card")
    assert (card["phase"], card["status"]) == ("deployed", "succeeded")
    assert card["jobs"] == ["done", "done"]
    refused, deployed = card["notes"]
    assert (refused["outcome"], deployed["outcome"]) == ("refused", "deployed")
    assert (deployed["commit"], deployed["path"], deployed["flags"]) == (commit, machine.current, {"first": True})
    assert [step["kind"] for step in deployed["steps"]] == ["fetch", "build", "dry_activation", "switch"]


def test_what_came_along_is_deployed_too_and_its_job_is_over(machine: Machine, real: RealBoard) -> None:
    real.ready("base", machine.commit())
    assert real.deploy("base", FIRST)[0].outcome is Outcome.DEPLOYED
    real.ready("one", machine.commit())
    real.ready("two", machine.commit())

    (report,) = real.deploy()

    assert (report.slug, report.outcome) == ("two", Outcome.DEPLOYED)
    for slug in ("one", "two"):
        card = real.card(slug)
        assert (card["phase"], card["jobs"]) == ("deployed", ["done"]), slug
    assert real.deploy() == []


def test_a_failed_deployment_parks_the_card_and_a_retry_brings_it_back(machine: Machine, real: RealBoard) -> None:
    real.ready("base", machine.commit())
    assert real.deploy("base", FIRST)[0].outcome is Outcome.DEPLOYED
    real.ready("bad", machine.commit(SICK="1"))
    (report,) = real.deploy()
    assert report.outcome is Outcome.ROLLED_BACK
    card = real.card("bad")
    assert (card["phase"], card["status"]) == ("klaerung_reparatur", "deploy_failed") and "it is sick" in card["reason"]
    machine.script("health", "#!/bin/sh\nexit 0\n")
    real.do("store.happen('bad', 'retry', actor='root')")
    (report,) = real.deploy()
    assert report.outcome is Outcome.DEPLOYED and real.card("bad")["phase"] == "deployed"


def test_a_busy_host_lets_the_job_wait(machine: Machine, real: RealBoard) -> None:
    real.ready("base", machine.commit())
    assert real.deploy("base", FIRST)[0].outcome is Outcome.DEPLOYED
    real.ready("card", machine.commit())
    (machine.root / "switch-unit").write_text("active\n")
    (report,) = real.deploy()
    assert report.outcome is Outcome.BUSY
    card = real.card("card")
    assert (card["phase"], card["status"], card["jobs"]) == ("bereit_fuer_deployment", "queued", ["queued"])
    assert "switched by somebody else" in card["reason"]
    assert real.deploy() == [], "it has its time, and until then there is nothing to do"
    (machine.root / "switch-unit").write_text("inactive\n")
    assert real.deploy("card")[0].outcome is Outcome.DEPLOYED
    assert real.card("card")["jobs"] == ["done"]


def test_a_review_of_another_commit_is_no_review(machine: Machine, real: RealBoard) -> None:
    real.ready("card", machine.commit())
    other = machine.commit()
    real.do(
        "import sqlite3; c = sqlite3.connect(store.path); "
        f"c.execute('update cards set \"commit\" = ? where slug = ?', ({other!r}, 'card')); c.commit()"
    )
    (report,) = real.deploy("card", FIRST)
    assert report.outcome is Outcome.REFUSED and "no review names" in report.sentence


def test_a_card_that_was_not_approved_is_not_ready(machine: Machine, real: RealBoard) -> None:
    real.ready("card", machine.commit(), decision="negative")
    (report,) = real.deploy("card", FIRST)
    assert report.outcome is Outcome.REFUSED and "planung_mit_feedback" in report.sentence
    assert real.card("card")["phase"] == "planung_mit_feedback"
    assert "not possible" in records(machine.host())[-1].find("reported")["why"]  # type: ignore[index]


def test_the_same_result_twice_changes_nothing(machine: Machine, real: RealBoard) -> None:
    real.ready("card", machine.commit())
    assert real.deploy("card", FIRST)[0].outcome is Outcome.DEPLOYED
    from intent_board.deploy.ending import result_of

    (record,) = records(machine.host())
    told = service.tell(machine.host(), result_of(record))
    assert told.applied and len(real.card("card")["notes"]) == 1


def test_a_child_that_dies_while_it_writes_is_made_good(machine: Machine, real: RealBoard) -> None:
    """The job was claimed and its worker died: the next telling takes it over."""
    real.ready("card", machine.commit())
    real.do("import os; claim = store.claim('deploy'); os._exit(0)")
    assert real.card("card")["jobs"] == ["running"]
    assert real.deploy("card", FIRST)[0].outcome is Outcome.DEPLOYED
    card = real.card("card")
    assert (card["phase"], card["jobs"]) == ("deployed", ["done"])


def test_root_leaves_nothing_in_the_boards_directories(machine: Machine, real: RealBoard) -> None:
    real.ready("card", machine.commit())
    outside = machine.root / "outside"
    outside.write_text("kept")
    # Links that a service user could plant where root might write.
    for name in ("deployment.log", "records", "deploy.lock"):
        (real.state / name).symlink_to(outside)
    assert real.deploy("card", FIRST)[0].outcome is Outcome.DEPLOYED
    found = [path for path in real.state.rglob("*") if path.lstat().st_uid == 0 and not path.is_symlink()]
    assert found == [] and outside.read_text() == "kept"


ANSWERS: dict[str, Callable[[str], str]] = {
    "nothing": lambda good: "",
    "two lines": lambda good: good + good,
    "no end of line": lambda good: good.rstrip("\n"),
    "no JSON": lambda good: "yes\n",
    "a list": lambda good: f"[{good.strip()}]\n",
    "another card": lambda good: good.replace('"slug": "card"', '"slug": "other"', 1),
    "a key more": lambda good: good.replace("{", '{"approved": true, ', 1),
    "a key twice, abbreviated": lambda good: good.replace('"commit": "', '"commit": "0', 1),
    "a wrong type": lambda good: good.replace('"by_hand": true', '"by_hand": "yes"'),
}


@pytest.mark.parametrize("lie", ANSWERS)
def test_an_answer_that_is_not_exactly_one_good_line_is_not_believed(
    machine: Machine, real: RealBoard, monkeypatch: pytest.MonkeyPatch, lie: str
) -> None:
    real.ready("card", machine.commit())
    from intent_board.deploy.run import Done

    true_run = service.run

    def lying(*words: Any, **more: Any) -> Done:
        done = true_run(*words, **more)
        if b'"do": "evidence"' not in more.get("stdin", b""):
            return done
        return Done(done.argv, done.exit_code, ANSWERS[lie](done.answer), done.log, done.started, done.seconds)

    monkeypatch.setattr(service, "run", lying)
    (report,) = real.deploy("card", FIRST)
    assert report.outcome is Outcome.REFUSED, report
    assert machine.current == machine.profile == machine.old_path


def test_root_is_no_service_user(machine: Machine, real: RealBoard) -> None:
    real.ready("card", machine.commit())
    question = {"do": "evidence", "slug": "card", "config": str(machine.root / "etc/intent-board/board.toml")}
    done = subprocess.run(
        [sys.executable, "-m", "intent_board.deploy.evidence"],
        input=json.dumps(question) + "\n", check=False, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 1 and "not opened by root" in done.stderr and done.stdout == ""


def test_a_store_that_needs_newer_code_is_told_later(machine: Machine, real: RealBoard) -> None:
    """After a rollback the older package meets a newer store: the host is deployed, the record waits."""
    real.ready("card", machine.commit())
    real.do("print('null')")
    host = machine.host()
    marks = {"schema": SCHEMA, "min_code": MIN_CODE}
    newer = "".join(f"c.execute(\"update meta set value = 9999 where key = '{key}'\"); " for key in marks)
    older = "".join(f"c.execute(\"update meta set value = {was} where key = '{key}'\"); " for key, was in marks.items())
    opened = "import sqlite3; c = sqlite3.connect(store.path); "
    true_tell = service.tell

    def tell_after_migration(*words: Any) -> Any:
        real.do(opened + newer + "c.commit()")
        return true_tell(*words)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(service, "tell", tell_after_migration)
        (report,) = real.deploy("card", FIRST)
    assert report.outcome is Outcome.DEPLOYED
    assert "newer package" in records(host)[-1].lines()[-1]["why"]
    raw = f"import sqlite3; c = sqlite3.connect({str(real.state / 'board.sqlite3')!r}); "
    subprocess.run([sys.executable, "-c", raw + older + "c.commit()"], check=True)
    for path in real.state.glob("board.sqlite3*"):
        os.chown(path, SERVICE.uid, SERVICE.gid)
    assert recover(machine.config, host=host) == []
    assert real.card("card")["phase"] == "deployed"


def test_an_unknown_card_is_one_sentence(machine: Machine, real: RealBoard) -> None:
    real.do("print('null')")
    with pytest.raises(DeployRefused, match="no card"):
        service.evidence(machine.host(), "nobody")


def test_own_cpu_of_a_deployment_is_small(machine: Machine, real: RealBoard, tmp_path: Path) -> None:
    """Beside the programs that it runs: at most half a second, imports included."""
    real.ready("card", machine.commit())
    script = Path(__file__).with_name("scratch_host.py")
    code = (
        "import resource, runpy, sys; sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0], run_name='__main__'); "
        "u = resource.getrusage(resource.RUSAGE_SELF); print(u.ru_utime + u.ru_stime)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(script), str(machine.root), "really", "card", "first"],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    reports, used = done.stdout.splitlines()
    assert reports == '["deployed"]' and float(used) <= 0.5


def python_for_everybody(argv: list[str]) -> list[str]:
    """The same command where every user can reach this Python, which may be installed in root's own home."""
    prefix = Path(sys.base_prefix)
    closed = [parent for parent in reversed(prefix.parents) if not parent.stat().st_mode & 0o001]
    if not closed:
        return ["sh", "-c", 'umask 077 && exec "$@"', "sh", *argv]
    mounts = (
        f"umask 022 && mount --bind {prefix} /mnt && mount -t tmpfs -o mode=755 tmpfs {closed[0]} && "
        f'mkdir -p {prefix} && umask 077 && mount --bind /mnt {prefix} && exec "$@"'
    )
    return ["unshare", "--mount", "sh", "-c", mounts, "sh", *argv]


def test_root_needs_no_capability_but_to_become_the_other_users(machine: Machine, real: RealBoard) -> None:
    """The unit's bounding set: without CAP_DAC_OVERRIDE, CAP_CHOWN, CAP_FOWNER and CAP_KILL."""
    real.ready("card", machine.commit())
    script = Path(__file__).with_name("scratch_host.py")
    drop = ["setpriv", "--bounding-set=-all,+setuid,+setgid", "--no-new-privs", "--"]
    done = subprocess.run(
        python_for_everybody([*drop, sys.executable, str(script), str(machine.root), "really", "card", "first"]),
        check=False, capture_output=True, text=True,
    )  # fmt: skip
    assert done.stdout.strip() == '["deployed"]', done.stdout + done.stderr
    assert real.card("card")["phase"] == "deployed" and machine.current == machine.profile != machine.old_path
