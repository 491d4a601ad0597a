"""Intent Board: intents in, reviewed commits out, one host deployed.

A role proposes, the wrapper disposes: every model answer is untrusted data until a strict contract has
accepted it whole.  The rooms of this package and their one-way imports are described in docs/architecture.md.
"""
