"""Intent Board: intents in, reviewed commits out, one host deployed.

A role proposes, the wrapper disposes: every model answer is untrusted data until a strict contract has
accepted it whole.  The rooms of this package and their one-way imports are described in docs/architecture.md.
"""

import gc
import os

# Other packages' plugins have no business in how configurations are read, and looking for them costs each start.
os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")

# The programs here load many modules and live for seconds: with its defaults the collector takes a seventh of every
# start, to look again and again at what never goes away.
gc.set_threshold(200_000, 20, 100)
