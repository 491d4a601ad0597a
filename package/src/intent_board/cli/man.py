"""`board man`: the manual page, made from the commands that there are."""

from __future__ import annotations

import click

from intent_board.cli.board import SECTIONS
from intent_board.cli.context import example

HEAD = """\
.TH BOARD 1 "" "intent-board" "User Commands"
.SH NAME
board \\- hand work to headless coding agents, watch it, and decide what people have to decide
.SH SYNOPSIS
.B board
.RB [ \\-\\-config
.IR FILE ]
.I COMMAND
.RI [ ARGUMENT ...]
.SH DESCRIPTION
.B board
is the program for people of an intent board: it hands intents over, shows what became of them, and takes the decisions
that no agent may take.
Everything else is done by units that systemd starts and that end by themselves.
.PP
Members of the board's group (intent\\-board, unless the host says otherwise) may use it.
The store belongs to the service user alone, so
.B board
runs itself again as that user through
.BR sudo (8),
without asking for a password; who asks is what sudo reports.
A file that you name is read with your own rights and handed over.
Commands marked
.I owner
are for the one user whom the configuration names.
.PP
.B board
.I COMMAND
.B \\-\\-help
shows the arguments of each command and an example.
Commands that print a table take
.BR \\-\\-json .
"""
TAIL = """\
.SH OPTIONS
.TP
.BI \\-\\-config " FILE"
The configuration.
Refused under sudo, where it is always the host's own.
.TP
.B \\-\\-version
Show the version and exit.
.TP
.B \\-\\-help
Show a summary and exit.
.SH EXIT STATUS
.TP
.B 0
Done.
.TP
.B 1
Refused or failed; one sentence on standard error says what, where, and what to do.
.TP
.B 2
Wrong usage.
.SH ENVIRONMENT
.TP
.B INTENT_BOARD_CONFIG
The configuration, where
.B \\-\\-config
does not name one.
Refused under sudo.
.SH FILES
.TP
.I /etc/intent\\-board/board.toml
The configuration; on NixOS the module writes it.
.TP
.I /var/lib/intent\\-board
The state, unless the configuration says otherwise: the store
.RI ( board.sqlite3 ),
its
.IR backups ,
the
.IR mirrors ,
.I trees
of unfinished cards, projected
.IR intents ,
and
.IR failures ,
one note per unit that has failed.
.TP
.I /var/lib/intent\\-board\\-deploy
Root's records of deployments.
.SH LOGS
Each unit logs to the journal:
.PP
.RS
.nf
journalctl \\-u 'intent\\-board\\-*'
journalctl \\-u intent\\-board\\-worker\\-builder\\-schwer\\-0 \\-f
systemctl list\\-units 'intent\\-board*'
.fi
.RE
.PP
A unit that ended with status 243/CREDENTIALS was never started: a file that
.I services.intent\\-board.credentials
names is missing on this host.
.PP
.B systemctl stop intent\\-board.target
starts nothing more; jobs that run come to their end.
.SH EXAMPLES
.nf
board submit docs/intent/backup.md
board submit \\- < intent.md
board why backup
board answer backup "The mail host, not the web host."
board status \\-\\-once
.fi
.SH SEE ALSO
.BR systemd.unit (5),
.BR sudo (8),
.BR journalctl (1)
"""


@click.command(epilog=example("board man | man -l -"))
def man() -> None:
    """Print the manual page, as man reads it."""
    click.echo(HEAD + _commands() + TAIL, nl=False)


def _commands() -> str:
    lines = [".SH COMMANDS"]
    for section, commands in SECTIONS.items():
        lines.append(f".SS {section}")
        for name, (_, text) in commands.items():
            lines += [".TP", f".B {name}", text]
    return "\n".join(lines) + "\n"
