"""The steps of one deployment, from the proof of its commit to the verdict on what runs."""

from __future__ import annotations

from typing import Any

from intent_board.boundaries import boundary
from intent_board.config import BoardConfig
from intent_board.deploy import service
from intent_board.deploy.ending import close, deployed_commit
from intent_board.deploy.host import DeployRefused, Host
from intent_board.deploy.mirror import Mirror
from intent_board.deploy.nix import Built, build
from intent_board.deploy.outcome import Flags, Outcome, Report
from intent_board.deploy.record import Record
from intent_board.deploy.run import Done
from intent_board.deploy.switch import (
    LOCK_BUSY,
    UNITS_FAILED,
    Switch,
    has_store_path,
    meaning,
    parse_dry,
    parse_failed,
    wait_or_go_on,
    wait_until_free,
)
from intent_board.deploy.systemd import stop_activation
from intent_board.deploy.truth import Seen, check_health, complaints, look


class Deployment:
    """One deployment from its evidence to its end.  Every method leaves the record true at every line."""

    def __init__(self, config: BoardConfig, host: Host, held: int, record: Record, slug: str) -> None:
        self.config, self.host, self.record, self.slug = config, host, record, slug
        timeout = config.deploy.timeout_minutes * 60.0
        self.switch = Switch(host, record.path.with_suffix(""), timeout, (held,))
        self.timeout = timeout

    def carry_out(self, mirror: Mirror, branch: str, tip: str, proof: dict[str, Any], flags: Flags) -> Report:
        commit = str(proof["commit"])
        before = look(self.host)
        deployed = deployed_commit(self.host, before)
        self.record.add("commit", commit=commit, branch=branch, deployed=deployed)
        boundary("deploy: commit recorded")
        if not mirror.is_ancestor(commit, tip):
            raise DeployRefused(
                f"{commit} is not on the remote's branch {branch!r}; it was moved, publish the card anew"
            )
        self.prove_newer(mirror, commit, deployed, flags)
        built = self.build(mirror, commit)
        self.note_contained(mirror, commit, deployed)
        if before.runs(built.path):
            return self.already(before, built.path)
        waited = wait_until_free(self.host)
        dry = self.switch.dry(built.path)
        self.record.add(
            "dry_activation", waited=round(waited, 1), units=parse_dry(self.switch.output()), **dry.as_data()
        )
        boundary("deploy: dry activation recorded")
        if dry.exit_code == LOCK_BUSY:
            raise DeployRefused("another switch began during the dry activation; it is tried again", later=True)
        if not dry.ok:
            raise DeployRefused(f"the dry activation of {built.path} {dry.why}; nothing was changed")
        self.ask_again(proof, flags)
        return self.change(look(self.host), built.path)

    def prove_newer(self, mirror: Mirror, commit: str, deployed: str | None, flags: Flags) -> None:
        """The commit contains what runs, or a person said that it need not.  Raises DeployRefused."""
        if deployed is None and not flags.first:
            raise DeployRefused(
                "what this host runs was deployed by no record here, so nobody knows whether this is newer; "
                f"look, then: board-deploy --first {self.slug}"
            )
        if deployed is not None and not mirror.is_ancestor(deployed, commit) and not flags.allow_older:
            raise DeployRefused(
                f"{commit} does not contain {deployed}, which runs here; to go back all the same: "
                f"board-deploy --allow-older {self.slug}"
            )

    def ask_again(self, proof: dict[str, Any], flags: Flags) -> None:
        """Building took its time: the evidence must still be what it was.  Raises DeployRefused."""
        found = service.evidence(self.host, self.slug)
        now = service.check_evidence(found, self.config, by_person=flags.by_person)
        if now["commit"] != proof["commit"]:
            raise DeployRefused(f"{self.slug} has another commit now, {now['commit']}; it is deployed by itself")

    def build(self, mirror: Mirror, commit: str) -> Built:
        """The commit's system, recorded."""
        link = self.record.path.stem
        self.record.add("build_begins", link=link)
        built = build(self.host, mirror.account, mirror.path, commit, self.config.deploy.host, link=link,
                      timeout=self.timeout)  # fmt: skip
        boundary("deploy: built")
        self.record.add("build", path=built.path, **built.done.as_data())
        boundary("deploy: build recorded")
        return built

    def note_contained(self, mirror: Mirror, commit: str, deployed: str | None) -> None:
        """Which other cards, and whose commits besides, come along."""
        name = mirror.name
        published = service.published(self.host, name)
        brought = mirror.between(deployed if deployed and mirror.has(deployed) else None, commit)
        waiting = {slug: one for one, (slug, phase) in published.items() if phase == "bereit_fuer_deployment"}
        contained = sorted(s for s, one in waiting.items() if s != self.slug and mirror.is_ancestor(one, commit))
        foreign = [one for one in brought if one not in published] if deployed is not None else []
        self.record.add("contained", cards=contained, foreign=foreign, commits=len(brought))
        boundary("deploy: contained recorded")

    def already(self, before: Seen, path: str) -> Report:
        """The host runs this very system: nothing is switched, but it is looked at all the same."""
        health = check_health(self.host, self.config.deploy)
        found = complaints(before, before, path, health)
        self.record.add("truth", seen=before.as_data(), health=[done.as_data() for done in health], complaints=found)
        if found:
            return self.end(Outcome.FAILED, f"this host runs it already, but {'; '.join(found)}")
        return self.end(Outcome.ALREADY, f"this host runs {path} already")

    # --- the part that changes the host -----------------------------------------------------------------------

    def change(self, before: Seen, path: str) -> Report:
        """Switch to `path`, and judge it.  From the first line on, `recover` can go on from here."""
        by_rebuild = has_store_path(self.host)
        self.record.add("switch_begins", path=path, before=before.as_data(), by_rebuild=by_rebuild)
        boundary("deploy: switch announced")
        return self.switch_and_judge(before, path, by_rebuild)

    def switch_and_judge(self, before: Seen, path: str, by_rebuild: bool) -> Report:
        done = self.switched(path, by_rebuild)
        boundary("deploy: switched")
        self.record.add("switch", meaning=meaning(done), **done.as_data())
        boundary("deploy: switch recorded")
        return self.judge(before, path, done, self.switch.output())

    def switched(self, path: str, by_rebuild: bool) -> Done:
        """nixos-rebuild where it can take a path, else its steps.  A lock that is busy is waited for, once."""
        for last in (False, True):
            if by_rebuild:
                done = self.switch.rebuild(path)
            else:
                done = self.switch.set_profile(path)
                boundary("deploy: profile set")
                done = self.switch.activate(path) if done.ok else done
            if done.exit_code != LOCK_BUSY or last:
                break
            self.record.add("switch_busy", **done.as_data())
            wait_or_go_on(self.host)
        return done

    def judge(self, before: Seen, path: str, done: Done | None, output: str) -> Report:
        """Whether `path` runs, and well.  `done` is None when nobody saw the switch end (a reboot finished it)."""
        after = look(self.host)
        health = check_health(self.host, self.config.deploy) if after.current == path else []
        found = complaints(before, after, path, health)
        claimed, discrepancies = _claims(before, done, output)
        found += claimed
        self.record.add("truth", seen=after.as_data(), health=[one.as_data() for one in health], complaints=found,
                        discrepancies=discrepancies)  # fmt: skip
        boundary("deploy: truth recorded")
        if not found:
            note = f" ({'; '.join(discrepancies)})" if discrepancies else ""
            return self.end(Outcome.DEPLOYED, f"generation {after.generation} runs it and is healthy{note}")
        busy = done is not None and done.exit_code == LOCK_BUSY and after.current == before.current
        if (after.current, after.profile) == (before.current, before.profile):
            why = "; ".join(claimed) or "; ".join(found)
            return self.end(Outcome.BUSY if busy else Outcome.FAILED, f"nothing was switched: {why}")
        if not self.config.deploy.rollback and not busy:
            return self.end(Outcome.FAILED, f"{'; '.join(found)}; deploy.rollback is off, so it stays as it is")
        return self.roll_back(before, "; ".join(found), busy=busy)

    def roll_back(self, before: Seen, why: str, *, busy: bool = False) -> Report:
        """Back to what ran before, and look again.  `busy`: nothing was activated, only the profile goes back."""
        self.record.add("rollback_begins", why=why, before=before.as_data(), busy=busy)
        boundary("deploy: rollback announced")
        if before.current is None or before.profile is None:
            return self.end(Outcome.ROLLBACK_FAILED, f"{why}; what ran before is unknown, so nothing can go back")
        steps = [self.profile_back(before)]
        boundary("deploy: profile put back")
        if not busy:
            wait_or_go_on(self.host)
            unchanged = look(self.host).current == before.current
            # A system that was never left needs its boot entries back, and nothing restarted.
            steps.append(self.switch.activate(before.current, "boot" if unchanged else "switch"))
            boundary("deploy: rolled back")
        after = look(self.host)
        health = [] if busy else check_health(self.host, self.config.deploy)
        found = complaints(before, after, before.current, health)
        if after.profile == before.profile:
            found = [one for one in found if not one.startswith("the system profile is")]
        self.record.add("rollback", steps=[done.as_data() for done in steps], seen=after.as_data(),
                        health=[done.as_data() for done in health], complaints=found)  # fmt: skip
        boundary("deploy: rollback recorded")
        if found:
            return self.end(Outcome.ROLLBACK_FAILED, f"{why}; AND THE ROLLBACK FAILED: {'; '.join(found)}")
        if busy:
            return self.end(Outcome.BUSY, f"nothing was switched: {why}")
        return self.end(Outcome.ROLLED_BACK, f"{why}; this host is back on {before.current}")

    def profile_back(self, before: Seen) -> Done:
        """The profile as it was: the same generation, or a new one where that is gone."""
        assert before.profile is not None
        if before.generation is not None:
            done = self.switch.switch_generation(before.generation)
            if done.ok and look(self.host).profile == before.profile:
                return done
        return self.switch.set_profile(before.profile)

    def wait_for_the_switch(self) -> None:
        """The activation that a killed deployer left behind goes on by itself, and has the time that it always had."""
        try:
            wait_until_free(self.host, max(self.timeout, self.host.busy_seconds))
        except DeployRefused:
            stop_activation(self.host)

    def end(self, outcome: Outcome, sentence: str) -> Report:
        return close(self.config, self.host, self.record, self.slug, outcome, sentence)


def _claims(before: Seen, done: Done | None, output: str) -> tuple[list[str], list[str]]:
    """What the switch's end speaks against it: complaints, and what is only worth a note."""
    if done is None or done.ok:
        return [], []
    said = f"the switch {done.why} ({meaning(done)})"
    named = parse_failed(output)
    if done.exit_code == UNITS_FAILED and named and set(named) <= set(before.failed or ()):
        return [], [f"the switch says 4: {', '.join(named)} had failed before"]
    return [said], []
