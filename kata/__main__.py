"""``python -m kata``, and the script ``kata``: Ctrl-C ends them quietly, from the first moment on.

So the signal is dealt with before anything else is imported, which takes a quarter of a second.
``doctor`` is called from here, because what the other commands import may be what is broken.
"""

from __future__ import annotations

import os
import signal
import sys

# What a shell says of a program that Ctrl-C ended.
INTERRUPTED = 130
BROKEN = "error: {}\n`kata doctor` checks your setup and suggests fixes\n"


def main() -> int:
    """Run the command that the command line names; return the exit code."""
    signal.signal(signal.SIGINT, end_at_once)
    argv = sys.argv[1:]
    if "doctor" in [word for word in argv if not word.startswith("-")][:1]:
        from kata.commands import doctor

        return doctor.main([word for word in argv if word != "doctor"])
    try:
        from kata import command_line

        arguments = command_line.parsed(argv)
        # It tidies up when the process is ended, or its terminal is closed.
        for name in ("SIGTERM", "SIGHUP"):
            if hasattr(signal, name):
                signal.signal(getattr(signal, name), lambda *_: sys.exit(0))
        signal.signal(signal.SIGINT, interrupt)
        code = command_line.carried_out(arguments)
        # All that is left is Python's own end.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    except KeyboardInterrupt:
        return INTERRUPTED
    except (ImportError, SyntaxError) as error:
        sys.stderr.write(BROKEN.format(error))
        return 1
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
