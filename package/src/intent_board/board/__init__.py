"""The rules of the board: cards, families, scheduling, the ladder, explanations.  Pure: values in, values out."""
