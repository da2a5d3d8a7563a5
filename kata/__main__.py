"""``python -m kata``, and the script ``kata``: Ctrl-C ends them quietly.

``doctor`` is called from here, because what the other commands import may be what is broken.
"""

from __future__ import annotations

import signal
import sys

# What a shell says of a program that Ctrl-C ended.
INTERRUPTED = 130
BROKEN = "error: {}\n`kata doctor` checks your setup and suggests fixes\n"


def main() -> int:
    """Run the command that the command line names; return the exit code."""
    signal.signal(signal.SIGINT, interrupt)
    # A command also tidies up when its process is ended, or its terminal is closed.
    for name in ("SIGTERM", "SIGHUP"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), lambda *_: sys.exit(0))
    argv = sys.argv[1:]
    try:
        if argv[:1] == ["doctor"]:
            from kata.commands import doctor

            return doctor.main(argv[1:])
        from kata import command_line

        return command_line.run(argv)
    except KeyboardInterrupt:
        return INTERRUPTED
    except (ImportError, SyntaxError) as error:
        sys.stderr.write(BROKEN.format(error))
        return 1


def interrupt(*_: object) -> None:
    """Interrupt the command, once: it then tidies up, and a second Ctrl-C can wait."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
