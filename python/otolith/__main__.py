"""`python -m otolith` is the command line."""

import sys

from otolith.cli import main

if __name__ == "__main__":
    sys.exit(main())
