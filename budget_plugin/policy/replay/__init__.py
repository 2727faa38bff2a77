"""Replay: what other limits would have done to the runs that are recorded.

`recorded` is what the ledger kept, as a stream in the order of time; a `Player` plays it under one
candidate, through the functions that the live gates ask; `outcome` adds up and compares.
"""
