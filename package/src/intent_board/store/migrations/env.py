"""What Alembic runs: the scripts, inside the transaction that `store.migrate` has begun."""

from __future__ import annotations

from alembic import context

context.configure(connection=context.config.attributes["connection"])
context.run_migrations()
