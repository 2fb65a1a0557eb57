"""`python -m pipeline.sources PATH ...` says which reader fits each file or folder, and why."""

import sys

from pipeline.sources.command import main

if __name__ == "__main__":
    sys.exit(main())
