"""``python -m kata``, and the script ``kata``: Ctrl-C ends them quietly, from the first moment on.

So the signal is dealt with before anything else is imported, which takes a quarter of a second.
"""

from __future__ import annotations

import os
import signal
import sys

# What a shell says of a program that Ctrl-C ended.
INTERRUPTED = 130


def main() -> int:
    """Run the command that the command line names; return the exit code."""
    signal.signal(signal.SIGINT, end_at_once)
    from kata import command_line

    arguments = command_line.parsed(sys.argv[1:])
    signal.signal(signal.SIGINT, interrupt)
    try:
        code = command_line.carried_out(arguments)
        # All that is left is Python's own end.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    except KeyboardInterrupt:
        return INTERRUPTED
    return code


def end_at_once(*_: object) -> None:
    """End where there is nothing to tidy up yet."""
    os._exit(INTERRUPTED)


def interrupt(*_: object) -> None:
    """Interrupt the command, once: from here on it tidies up, and a second Ctrl-C can wait."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
