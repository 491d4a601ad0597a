"""What was cut off: found out from the host, and finished."""

from __future__ import annotations

from typing import Any

from intent_board.boundaries import boundary
from intent_board.config import BoardConfig
from intent_board.deploy.ending import hand_over
from intent_board.deploy.host import Host, prove_identity
from intent_board.deploy.outcome import Outcome, Report
from intent_board.deploy.record import Record, open_records, settle
from intent_board.deploy.run import Done
from intent_board.deploy.steps import Deployment
from intent_board.deploy.truth import Seen, look

#: A switch whose end nobody saw is made again this often; then the host goes back.
MAX_RECOVERIES = 3


def finish_open_records(config: BoardConfig, host: Host, held: int) -> list[Report]:
    """Every record without an end gets one, from what is true now; every end that the store misses is handed over."""
    reports, settled = [], True
    for record in open_records(host):
        kinds = {line["kind"] for line in record.lines()}
        if "end" not in kinds:
            reports.append(_finish(config, host, held, record))
        elif "reported" not in kinds:
            hand_over(host, record)
        settled = settled and record.find("reported") is not None
        if settled:
            settle(host, record.number)
    return reports


def _finish(config: BoardConfig, host: Host, held: int, record: Record) -> Report:
    begun = record.find("begin")
    slug = record.slug
    if begun is None:
        record.add("begin", deployment=record.number, slug=slug, note="its first line was lost")
    prove_identity(host, config.deploy)
    tries = sum(line["kind"] == "recover" for line in record.lines()) + 1
    boot = host.boot()
    record.add("recover", tries=tries, boot=boot)
    boundary("deploy: recovery begun")
    deployment = Deployment(config, host, held, record, slug)
    switching = record.find("switch_begins")
    if switching is None:
        return deployment.end(Outcome.INTERRUPTED, "the deployer was ended before it changed anything; it begins anew")
    deployment.wait_for_the_switch()
    before = Seen.from_data(switching["before"])
    path, seen = str(switching["path"]), look(host)
    rollback = record.find("rollback_begins")
    if rollback is not None:
        return deployment.roll_back(before, str(rollback["why"]), busy=bool(rollback["busy"]))
    if {seen.current, seen.profile} - {path, before.current, before.profile}:
        return deployment.end(Outcome.FAILED, f"somebody else switched this host meanwhile, it runs {seen.current}")
    if (seen.current, seen.profile) == (before.current, before.profile):
        return deployment.end(
            Outcome.INTERRUPTED, "the deployer was ended before anything was switched; it begins anew"
        )
    return _go_on(deployment, before, path, seen, switching, tries, boot)


def _go_on(
    deployment: Deployment, before: Seen, path: str, seen: Seen, switching: dict[str, Any], tries: int, boot: str
) -> Report:
    """The switch had begun and left its mark.  Its end decides; where nobody saw it, it is made again."""
    record = deployment.record
    ended = record.find("switch")
    if ended is not None:
        done = Done(tuple(ended["argv"]), ended["exit_code"], "", ended["output"], ended["started"], ended["seconds"],
                    bool(ended.get("timed_out")))  # fmt: skip
        return deployment.judge(before, path, done, ended["output"])
    if tries > MAX_RECOVERIES:
        return deployment.roll_back(before, f"the switch to {path} was interrupted {tries - 1} times")
    first_boot = (record.find("begin") or {}).get("boot")
    if seen.runs(path) and boot != first_boot:
        # Booting into a system activates the whole of it.
        return deployment.judge(before, path, None, "")
    return deployment.switch_and_judge(before, path, bool(switching["by_rebuild"]))
