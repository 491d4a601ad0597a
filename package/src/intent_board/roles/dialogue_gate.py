"""The hook that Claude Code asks before it writes: exactly one file, and nothing else.

Started as a file of its own, by path and with nothing but the standard library, so that it works wherever Python does.
Exit code 2 refuses the write; whoever starts it turns every other failure into 2.
"""

import json
import os
import sys


def main(allowed: str) -> int:
    """Judge the call on stdin: 0 when it writes `allowed` (an absolute path without links), else 2."""
    call = json.load(sys.stdin)
    given = call["tool_input"]
    path = given.get("file_path") or given["notebook_path"]
    if os.path.realpath(os.path.join(call.get("cwd") or ".", path)) == allowed:  # noqa: PTH118
        return 0
    print(f"In this dialogue only {allowed} may be written.", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
