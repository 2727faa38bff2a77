"""Speed and overspend, measured: `python -m bench` (or `make bench`) prints the tables."""
