"""One file per role: from a claimed job to the event that the store applies.

A model role makes an order, runs an agent program in its sandbox, has the contract judge the answer, and does the
trusted work that follows.  `publish` is trusted code alone.
"""
