"""The first schema.  A store is made with the newest tables, so there is nothing older than this to change."""

revision = "0001"
down_revision = None

#: The oldest code, by its schema, that may go on with a store that has this one.
min_code = 1


def upgrade() -> None:
    """Nothing: see above."""
