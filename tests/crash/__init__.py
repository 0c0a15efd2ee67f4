"""Crash tests through the public API: `python -m crash kills|stops|damage|soak|report`.

Each run prints its figures, writes them as JSON, and ends with exit code 1 if something was found that must
not be; docs/reliability.md tells what they do.
Processes are forked from a parent that never opens a store, so that starting one costs milliseconds.
"""
