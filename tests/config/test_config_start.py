"""What importing the package changes for the libraries that it loads."""

from __future__ import annotations

import subprocess
import sys


def printed(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def test_reading_a_configuration_looks_for_no_plugins() -> None:
    before = printed("import sys, click; print('importlib.metadata' in sys.modules)")
    after = printed("import sys, click, intent_board.config; print('importlib.metadata' in sys.modules)")
    assert (before, after) == ("False", "False")


def test_what_else_pydantic_asks_its_plugin_loader_is_answered_by_the_real_one() -> None:
    code = """
import sys, intent_board.config
from pydantic.plugin import _loader
print(list(_loader.get_plugins()), hasattr(_loader, "no such name"))
print(_loader.PYDANTIC_ENTRY_POINT_GROUP, sys.modules["pydantic.plugin._loader"].__file__ is not None)
"""
    assert printed(code) == "[] False\npydantic True"


def test_a_pydantic_that_is_loaded_already_keeps_its_own_loader() -> None:
    code = (
        "from pydantic.plugin import _loader; import sys, intent_board; print(sys.modules[_loader.__name__] is _loader)"
    )
    assert printed(code) == "True"


def test_what_was_registered_to_happen_at_the_end_still_happens() -> None:
    assert printed("import atexit, intent_board; atexit.register(print, 'done')") == "done"
