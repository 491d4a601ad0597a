"""What each target got of each notification, so that one that is dead makes nobody else hear a fact twice."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

#: The oldest code, by its schema, that may go on with a store that has this one.
min_code = 1


def upgrade() -> None:
    """Two tables that older code does not know and does not miss."""
    op.create_table(
        "deliveries",
        sa.Column("notification_id", sa.Integer, sa.ForeignKey("notifications.id"), primary_key=True),
        sa.Column("target", sa.Text, primary_key=True),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("tries", sa.Integer, nullable=False, server_default="0"),
        sa.Column("retry_at", sa.Float, nullable=False, server_default="0"),
        sa.Column("begun_at", sa.Float, nullable=False),
        sa.Column("error", sa.Text, nullable=False, server_default=""),
    )
    op.create_table(
        "notify_targets",
        sa.Column("target", sa.Text, primary_key=True),
        sa.Column("failures", sa.Integer, nullable=False, server_default="0"),
        sa.Column("retry_at", sa.Float, nullable=False, server_default="0"),
        sa.Column("error", sa.Text, nullable=False, server_default=""),
    )
