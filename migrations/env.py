"""Alembic environment: runs on the connection that the ledger hands over, inside its transaction.

The package is not imported here: in a directory install it has another name than `budget_plugin`.
"""

from alembic import context

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=context.config.attributes["metadata"],
    transactional_ddl=True,
    render_as_batch=True,
)
with context.begin_transaction():
    context.run_migrations()
