"""Intent Board: intents in, reviewed commits out, one host deployed.

A role proposes, the wrapper disposes: every model answer is untrusted data until a strict contract has
accepted it whole.  The rooms of this package and their one-way imports are described in docs/architecture.md.
"""

import atexit
import gc
import os
import sys
from types import ModuleType

# Other packages' plugins have no business in how configurations are read.
os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")

# The programs here load many modules and live for seconds: with its defaults the collector takes a seventh of every
# start, to look again and again at what never goes away.
gc.set_threshold(200_000, 20, 100)
# At the end it would look through all of it once more, which takes as long as a tenth of a short program.
atexit.register(gc.freeze)


def _plugin_loader() -> ModuleType:
    """Stands in for the module with which pydantic looks for plugins, and finds none.

    Plugins are off, yet that module loads importlib.metadata, which costs each start more than the configuration does.
    Should pydantic ever ask it for anything else, the real module answers.
    """
    loader = ModuleType("pydantic.plugin._loader")

    def from_the_real_one(name: str) -> object:
        if name.startswith("__"):  # what the import system asks of any module
            raise AttributeError(name)
        from importlib import import_module

        sys.modules.pop(loader.__name__, None)
        return getattr(import_module(loader.__name__), name)

    loader.__dict__.update(get_plugins=tuple, __getattr__=from_the_real_one)
    return loader


sys.modules.setdefault("pydantic.plugin._loader", _plugin_loader())
