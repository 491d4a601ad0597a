"""`board plan`: write an intent together with an agent, in this terminal and as oneself."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from intent_board.cli.asker import under_sudo
from intent_board.cli.context import example, load_config, read_text
from intent_board.cli.failure import Failure, visible

if TYPE_CHECKING:
    from intent_board.config import BoardConfig
    from intent_board.roles.dialogue import Dialogue

#: So many paths that should not have changed are named.
SHOWN = 10


@click.command(
    epilog=example("board plan", "board plan ~/nixos-config --slug nightly-backup", "board plan --runtime codex --pane")
)
@click.argument("directory", metavar="[REPO]", default=".")
@click.option("--runtime", type=click.Choice(["claude", "codex"]), help="The agent program.  [default: the Planner's]")
@click.option("--slug", help="The intent is docs/intent/SLUG.md.  [default: asked for]")
@click.option("--repository", help="The repository to hand it over for.  [default: the configured one]")
@click.option("--pane", is_flag=True, help="Talk in a new tab of Herdr, which is not brought to the front.")
@click.pass_context
def plan(
    context: click.Context, directory: str, runtime: str | None, slug: str | None, repository: str | None, pane: bool
) -> None:
    """Write an intent with an interactive agent in the checkout REPO; only docs/intent/SLUG.md may change.

    Afterwards the board checks that, looks the intent over, and hands it in if you say so.
    """
    if under_sudo():
        raise Failure("board plan runs as yourself; leave sudo out")
    if pane:
        _in_a_tab(context, Path(directory))
        return
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise Failure("board plan is a conversation and needs a terminal; run it in one, or use --pane inside Herdr")
    from intent_board.contracts import intent
    from intent_board.roles.dialogue import begin

    config = load_config(context)
    wanted = slug or intent.slugify(click.prompt("What is the intent about, in a few words"))
    dialogue = begin(Path(directory), intent.submitted_slug(wanted))
    _talk(config, dialogue, runtime)
    _hand_over(context, dialogue, repository)


def _talk(config: BoardConfig, dialogue: Dialogue, runtime: str | None) -> None:
    """The conversation; raises Failure when it cannot begin, or left more behind than the one file."""
    from intent_board.roles.dialogue import changes, command, environment, picture, program

    argv = command(dialogue, config, program(config, runtime))
    before, had = picture(dialogue), _content(dialogue)
    # Ctrl-C belongs to the agent program; a handler, unlike "ignored", is not inherited by it.
    handler = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        subprocess.run(argv, cwd=dialogue.checkout, env=environment(os.environ), check=False)
    except OSError as error:
        raise Failure(
            f"{argv[0]} cannot be started ({error.strerror}); install it or choose another --runtime"
        ) from None
    finally:
        signal.signal(signal.SIGINT, handler)
    if others := changes(before, picture(dialogue), dialogue):
        shown = ", ".join(others[:SHOWN]) + (f" and {len(others) - SHOWN} more" if len(others) > SHOWN else "")
        raise Failure(
            f"more than {dialogue.file.name} changed while you talked: {shown}; "
            "look at it, and hand the intent over with board submit if it is right"
        )
    if _content(dialogue) == had:
        raise Failure(f"{dialogue.file} was not written, so there is nothing to hand over; run board plan again")


def _content(dialogue: Dialogue) -> bytes | None:
    if dialogue.file.is_symlink() or (dialogue.file.exists() and not dialogue.file.is_file()):
        raise Failure(f"{dialogue.file} is no plain file any more; remove it")
    return dialogue.file.read_bytes() if dialogue.file.exists() else None


def _hand_over(context: click.Context, dialogue: Dialogue, repository: str | None) -> None:
    from intent_board.cli.lint import of_directory
    from intent_board.contracts import lint

    text = read_text(str(dialogue.file))
    found = lint.check(text, of_directory(dialogue.checkout), slug=dialogue.slug)
    for finding in found:
        click.echo(visible(f"{dialogue.file}:{finding.line}: {finding.text}"))
    if any(finding.rule in lint.REFUSED for finding in found):
        raise Failure(f"{dialogue.file} can't be handed over like this; correct it, then board submit it")
    if not click.confirm(f"Hand {dialogue.file.name} over to the board?", default=False):
        click.echo(f"Not handed over.  Later: board submit {shlex.quote(str(dialogue.file))} --slug {dialogue.slug}")
        return
    words = ["submit", f"--slug={dialogue.slug}", *([f"--repository={repository}"] if repository else [])]
    done = subprocess.run([*_board(context), *words, "--", str(dialogue.file)], check=False)
    context.exit(done.returncode)


def _board(context: click.Context) -> list[str]:
    """`board` again, with the configuration that this one was given."""
    chosen: Path | None = context.find_root().params.get("config")
    return [str(Path(sys.argv[0]).absolute()), *(["--config", str(chosen.absolute())] if chosen else [])]


# --- Herdr ----------------------------------------------------------------------------------------------------------


def _new_tab(directory: Path) -> list[str]:
    # Herdr's CLI reference: prints JSON with the new tab's pane as result.root_pane.pane_id.
    return ["herdr", "tab", "create", "--cwd", str(directory), "--label", "board plan", "--no-focus"]


def _typed(pane: str, words: list[str]) -> list[str]:
    # Types the text into the pane's shell, and Enter.
    return ["herdr", "pane", "run", pane, shlex.join(words)]


def _in_a_tab(context: click.Context, directory: Path) -> None:
    """Start the same command, without --pane, in a new tab."""
    from intent_board.cli.desk import command_line

    checkout = directory.absolute()
    if shutil.which("herdr") is None:
        raise Failure("there is no herdr on PATH; run board plan without --pane")
    if not str(checkout).isprintable():
        raise Failure(f"{str(checkout)!r} can't be typed into a terminal; go there and run board plan without --pane")
    context.params["pane"] = False
    words = [*_board(context), *command_line(context, {"directory": str(checkout)})]
    made = subprocess.run(_new_tab(checkout), capture_output=True, text=True, check=False)
    try:
        pane = str(json.loads(made.stdout)["result"]["root_pane"]["pane_id"])
    except (ValueError, KeyError, TypeError):
        said = (made.stderr or made.stdout).strip()[:200]
        raise Failure(f"herdr made no tab ({said}); run board plan without --pane") from None
    typed = subprocess.run(_typed(pane, words), capture_output=True, text=True, check=False)
    if typed.returncode != 0:
        raise Failure(
            f"herdr did not take the command ({typed.stderr.strip()[:200]}); type it into the tab: board plan"
        )
    click.echo(f"started in the tab of pane {visible(pane)}")
