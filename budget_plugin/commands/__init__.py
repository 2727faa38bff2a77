"""What a person can ask and tell: one function per command, the same through every door.

Import `commands.table` late: it brings SQLAlchemy. `commands.tree` and `commands.asking` are light.
"""
