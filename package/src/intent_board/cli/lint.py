"""`board lint`: what is doubtful about an intent, before anybody works on it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from intent_board.cli.asker import STDIN, under_sudo
from intent_board.cli.context import MAX_FILE, example, json_option, print_json, read_text
from intent_board.cli.failure import Failure, visible

if TYPE_CHECKING:
    from intent_board.config import BoardConfig
    from intent_board.contracts.lint import Finding
    from intent_board.contracts.package_lists import PackageLists

#: So many files below `hosts/` are looked at; a repository with more is no host's configuration.
MAX_FILES = 200_000


@click.command(
    epilog=example(
        "board lint docs/intent/backup.md",
        "board lint docs/intent/backup.md --strict --tree ~/nixos-config",
        "board lint - --repository nixos-config --json < backup.md",
    )
)
@click.argument("file", metavar="INTENT")
@click.option("--strict", is_flag=True, help="Exit with 1 when there is any finding.")
@click.option("--repository", help="Look for package lists in what the board last fetched of this repository.")
@click.option("--tree", metavar="DIR", help="Look for package lists in this directory.  [default: INTENT's checkout]")
@json_option
@click.pass_context
def lint(
    context: click.Context, file: str, strict: bool, repository: str | None, tree: str | None, as_json: bool
) -> None:
    """Say what is doubtful about the intent in the file INTENT (- for stdin): sections, package lists, design step."""
    from intent_board.contracts import lint as rules

    if repository and tree:
        raise click.UsageError("--repository and --tree name two places to look in; give one of them")
    if tree and under_sudo():
        raise Failure("under sudo no directory can be named; run board lint without sudo, or use --repository")
    searched: str | None
    if repository:
        from intent_board.cli.desk import desk

        with desk(context, file) as board:
            text, (lists, searched) = read_text(file), mirrored(board.config, repository)
            if lists is None:
                raise Failure(searched)
    else:
        text = read_text(file)
        directory = Path(tree) if tree else _checkout(file)
        lists = of_directory(directory) if directory else None
        searched = str(directory) if directory else None
    found = rules.check(text, lists, slug=_stem(file))
    _show(found, file, searched, as_json)
    if any(finding.rule in rules.REFUSED for finding in found) or (strict and found):
        context.exit(1)


def _show(found: Iterable[Finding], file: str, searched: str | None, as_json: bool) -> None:
    from intent_board.contracts.lint import REFUSED

    findings = [
        {
            "line": finding.line,
            "rule": finding.rule,
            "severity": "error" if finding.rule in REFUSED else "warning",
            "text": finding.text,
        }
        for finding in found
    ]
    if as_json:
        print_json({"file": file, "searched": searched, "findings": findings})
        return
    for finding in findings:
        click.echo(visible(f"{file}:{finding['line']}: {finding['severity']}: {finding['text']} [{finding['rule']}]"))
    if searched is None:
        click.echo("note: no repository, so package lists were not looked for; name one with --tree", err=True)
    if not findings:
        click.echo("ok")


def _stem(file: str) -> str | None:
    """The slug that a file's name gives, where it lies in a directory of intents."""
    path = Path(file)
    return path.stem if file != STDIN and path.absolute().parts[-3:-1] == ("docs", "intent") else None


def _checkout(file: str) -> Path | None:
    """The checkout that a file lies in."""
    if file == STDIN or under_sudo():
        return None
    return next((parent for parent in Path(file).absolute().parents if (parent / ".git").exists()), None)


def of_directory(directory: Path) -> PackageLists:
    """The package lists below a directory, read with this user's rights and without following links."""
    from intent_board.contracts.package_lists import survey

    if not directory.is_dir():
        raise Failure(f"{directory} is no directory; name a checkout of the repository with --tree")
    return survey(_files(directory), lambda paths: {path: _text(directory / path) for path in paths})


def _files(directory: Path) -> Iterator[str]:
    left = MAX_FILES
    for parent, names, files in os.walk(directory / "hosts"):
        names.sort()
        for name in files:
            path = Path(parent, name)
            if not path.is_symlink():
                yield path.relative_to(directory).as_posix()
        left -= len(files) + 1
        if left < 0:
            raise Failure(f"{directory}/hosts has more than {MAX_FILES} files; name the right directory with --tree")


def _text(path: Path) -> str:
    try:
        # Not a pipe or a device that somebody put there.
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as source:  # noqa: PTH123
            return source.read(MAX_FILE).decode(errors="replace")
    except OSError as error:
        raise Failure(f"{path} cannot be read ({error.strerror}); make it readable, or name another --tree") from None


def mirrored(config: BoardConfig, repository: str) -> tuple[PackageLists | None, str]:
    """The package lists of a repository's branch as the board last fetched it, and the commit.

    Where the board has not fetched it, None and a sentence that says so.
    """
    from intent_board.contracts.package_lists import PackageLists, survey
    from intent_board.runtimes.credentials import Credentials
    from intent_board.workspace import Workspace, WorkspaceError

    workspace = Workspace(config, Credentials())
    try:
        commit = workspace.known(repository)
        if commit is None:
            return None, f"the board has not fetched {repository!r} yet, so package lists were not looked for"
        files = workspace.listing(repository, commit)

        def read(paths: tuple[str, ...]) -> Mapping[str, str]:
            return workspace.texts(repository, commit, paths)

        found = survey(files, read)
    except WorkspaceError as error:
        return None, f"package lists were not looked for: {error}"
    deploy = config.deploy
    ours = {deploy.host, *deploy.locked_hosts} if config.repositories[repository].deploy else set()
    return PackageLists(found.hosts | ours, found.packages), commit
