"""The command line `otolith`.

Kept small: everything is imported inside `main`, so that an interrupt while modules load is met as well,
and a command pays only for what it uses.
"""

from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command.

    Args:
        argv: Arguments without the program name; those of the process when not given.

    Returns:
        The exit code: 0 done, 1 the answer is no or it failed, 2 wrong usage, 130 interrupted, 141 the
        reader of the output went away.
    """
    try:
        from otolith.cli._run import run

        return run(argv)
    except KeyboardInterrupt:
        return 130
