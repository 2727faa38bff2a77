"""Joins policy and store. Import `engine.engine` late: it brings SQLAlchemy."""
