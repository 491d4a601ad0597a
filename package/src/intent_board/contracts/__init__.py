"""What a role may answer: pure functions from text to values.  No I/O."""
