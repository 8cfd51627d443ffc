"""The command `edbatch`, also as `python -m edbatch`."""

import signal
import sys

from ._native import run_command


def main() -> int:
    # The command does not return to Python for its handler of Ctrl-C.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    return run_command(["edbatch", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
