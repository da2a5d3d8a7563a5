"""Where pytest begins: options, fixtures and reports are in the plugins named here."""

import sys
from importlib.util import find_spec

if not find_spec("torch"):  # one sentence says more than the traceback of an import
    words = "No module named 'torch': activate the environment first, `source .venv/bin/activate`"
    sys.exit(f"{words} (`kata doctor` checks your setup)")

pytest_plugins = [f"tests.suite.{name}" for name in ("plugin", "reporting", "scoreboard", "alone")]
