"""How much the random and the crash tests do: little in CI, much with TESTS_LONG=1 (`make test-long`)."""

import os

LONG = os.environ.get("TESTS_LONG") == "1"


def effort(short: int, long: int) -> int:
    """Rounds, seconds or examples of a test."""
    return long if LONG else short
