"""The table of recall: what one default configuration reaches on every set, and what is asked of it."""
