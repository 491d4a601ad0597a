"""What a role may answer: pure functions from an answer's text to values, without any I/O.

A model's answer is untrusted data until one of these has accepted it whole.  Rules: docs/contracts.md.
"""

from intent_board.contracts.errors import Code, ContractError

__all__ = ["Code", "ContractError"]
