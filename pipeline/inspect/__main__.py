"""`python -m pipeline.inspect [name=value ...]` draws one episode as a timeline picture."""

import sys

from pipeline.inspect.command import main
from pipeline.stage import error_border

if __name__ == "__main__":
    with error_border():
        main(sys.argv[1:])
