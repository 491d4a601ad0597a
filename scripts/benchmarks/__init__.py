"""The speed of the board, measured on this machine: `scripts/bench`."""
