"""`board-deploy`: deploy on this host.  Root's own program; it takes a card's slug and reads one file."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path

import click

from intent_board.cli.context import print_json
from intent_board.cli.failure import Failure, sentences, visible
from intent_board.config import load
from intent_board.deploy import DeployRefused, Flags, Host, Outcome, Report, deploy_blunix, recover
from intent_board.deploy.host import prove_configuration
from intent_board.deploy.outcome import GOOD


@click.command(epilog="\b\nExamples:\n  board-deploy --dry-run backup\n  sudo board-deploy --first backup")
@click.argument("slug", required=False)
@click.option("--dry-run", "rehearse", is_flag=True, help="Only say what speaks for and against it; anybody may.")
@click.option("--recover", "only_recover", is_flag=True, help="Only finish what a power cut or kill left open.")
@click.option("--first", is_flag=True, help="Deploy although nobody knows which commit runs here.")
@click.option("--allow-older", is_flag=True, help="Deploy although the commit does not contain the one that runs here.")
@click.option("--config", type=click.Path(path_type=Path), help="With --dry-run: another board's configuration.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead of text.")
@click.version_option(package_name="intent-board", prog_name="board-deploy")
@click.pass_context
def main(
    context: click.Context,
    slug: str | None,
    rehearse: bool,
    only_recover: bool,
    first: bool,
    allow_older: bool,
    config: Path | None,
    as_json: bool,
) -> None:
    """Deploy the reviewed commit of the card SLUG on this host; without SLUG, of whatever waits the newest."""
    if config is not None and not rehearse:
        raise click.UsageError(f"--config goes with --dry-run only; board-deploy reads {Host().config_file}")
    if slug is None and (rehearse or first or allow_older):
        raise click.UsageError("name the card: --dry-run, --first and --allow-older are about one")
    if only_recover and (slug or rehearse):
        raise click.UsageError("--recover takes no card and no other option; it finishes what was begun")
    with sentences():
        if slug is not None:
            _prove_slug(slug)
        if rehearse and slug is not None:
            context.exit(_rehearse(slug, config, as_json))
        context.exit(_deploy(slug, Flags(first, allow_older), only_recover, as_json))


def _prove_slug(slug: str) -> None:
    import re

    from intent_board.config import SLUG_PATTERN

    if not re.fullmatch(SLUG_PATTERN.strip("^$"), slug):
        raise click.UsageError(f"{slug[:80]!r} is no card's slug; board list shows them")


def _deploy(slug: str | None, flags: Flags, only_recover: bool, as_json: bool) -> int:
    host = Host()
    if os.geteuid() != 0:
        raise Failure("only root deploys: sudo board-deploy, or board-deploy --dry-run for everybody")
    prove_configuration(host)
    config = load(host.config_file)
    try:
        reports = recover(config, host=host) if only_recover else deploy_blunix(config, slug, flags=flags, host=host)
    except DeployRefused as refusal:
        if slug is not None or not refusal.later:
            raise
        # For the units another deployment that runs is no failure: it, or the next tick, does what is left.
        click.echo(visible(str(refusal)), err=True)
        return 0
    if as_json:
        print_json([asdict(report) for report in reports])
    for report in () if as_json else reports:
        click.echo(visible(f"{report.slug}: {report.outcome} (deployment {report.deployment}): {report.sentence}"))
    return int(any(_is_failure(report, slug) for report in reports))


def _is_failure(report: Report, slug: str | None) -> bool:
    # For the unit, a card that has to wait is no failure: its job has its time.
    waits = slug is None and report.outcome in (Outcome.BUSY, Outcome.INTERRUPTED)
    return report.outcome not in GOOD and not waits


def _rehearse(slug: str, config: Path | None, as_json: bool) -> int:
    from dataclasses import replace

    from intent_board.deploy.rehearsal import dry_run

    host = Host() if config is None else replace(Host(), config_file=config.absolute())
    checks = dry_run(load(host.config_file), slug, host=host, real=config is None)
    if as_json:
        print_json([asdict(check) for check in checks])
    for check in () if as_json else checks:
        word = {True: "ok", False: "REFUSED", None: "not checked"}[check.ok]
        click.echo(visible(f"{check.name}: {word}: {check.text}"))
    return int(any(check.ok is False for check in checks))
