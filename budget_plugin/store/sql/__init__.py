"""The ledger's database: opening, locking, migrating, statements, and the tables."""
