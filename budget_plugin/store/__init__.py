"""Remembers. Files and databases; decides nothing and never imports the engine."""
