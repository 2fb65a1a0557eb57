"""`python -m pipeline.arena scenario=NAME [name=value ...]` holds the league of a scenario."""

import sys

from pipeline.arena.command import main
from pipeline.stage import error_border

if __name__ == "__main__":
    with error_border():
        sys.exit(main(sys.argv[1:]))
