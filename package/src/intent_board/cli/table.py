"""Plain tables.  Nothing is cut, so that a table can be read by `grep` as well as by a person."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from intent_board.cli.failure import visible


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Columns aligned by their widest cell; the last column is as long as it likes."""
    lines = [list(head), *([_cell(cell) for cell in row] for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head) - 1)]
    return "\n".join(
        "  ".join([cell.ljust(width) for cell, width in zip(line, widths, strict=False)] + [line[-1]]).rstrip()
        for line in lines
    )


def _cell(value: object) -> str:
    """A cell is one line whatever stands in it; leading blanks show what belongs to the line above."""
    if value in (None, ""):
        return "-"
    text = str(value)
    return " " * (len(text) - len(text.lstrip(" "))) + visible(" ".join(text.split()))


def facts(pairs: Iterable[tuple[str, object]]) -> str:
    """Names and values below each other; what is empty is left out, further lines are indented."""
    shown = [(name, visible(str(value))) for name, value in pairs if value not in (None, "", (), [])]
    width = max((len(name) for name, _ in shown), default=0)
    return "\n".join(f"{name.ljust(width)}  " + value.replace("\n", "\n" + " " * (width + 2)) for name, value in shown)
