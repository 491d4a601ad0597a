"""`board completion`: what a shell needs to complete `board`."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from intent_board.cli.context import example


@click.command(
    epilog=example('eval "$(board completion bash)"', "board completion fish > ~/.config/fish/completions/board.fish")
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the completion script for SHELL."""
    found = get_completion_class(shell)
    if found is None:
        raise click.UsageError(f"there is no completion for {shell}")
    click.echo(found(context.find_root().command, {}, "board", "_BOARD_COMPLETE").source())
