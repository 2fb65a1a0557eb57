"""`python -m pipeline.testbed --out FOLDER --policy NAME ...` records a serving log."""

import sys

from pipeline.testbed.command import main

if __name__ == "__main__":
    sys.exit(main())
