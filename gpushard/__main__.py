"""`python -m gpushard` is the command `gpushard`."""

import sys

from gpushard._cli.main import main

if __name__ == "__main__":
    sys.exit(main())
