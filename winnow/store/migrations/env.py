"""What Alembic runs to migrate: over the connection it is handed, inside the transaction that is open there."""

from __future__ import annotations

from alembic import context

from winnow.store.migrations import VERSION_TABLE
from winnow.store.tables import Base

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=Base.metadata,
    version_table=VERSION_TABLE,
    # The tables of others in a shared database are not Winnow's to compare or drop.
    include_name=lambda name, kind, parents: kind != "table" or str(name).startswith("winnow_"),
)
with context.begin_transaction():
    context.run_migrations()
