"""Put the font of the social cards where the plugin looks for it: ``python -m tools.pages.fonts``.

The plugin would fetch it from the web. The package ``font-roboto`` has the same files.
"""

from __future__ import annotations

import shutil
from importlib.util import find_spec
from pathlib import Path

from kata.paths import ROOT

PACKAGE, FAMILY = "font_roboto", "Roboto"
CACHE = ROOT / ".cache/plugin/social/fonts"


def copy_fonts(files: Path, cache: Path = CACHE) -> list[Path]:
    """Copy ``Roboto-Bold.ttf`` to ``Roboto/Bold.ttf`` in the cache, and so on; return the copies.

    Args:
        files: The folder that has the files of the family.
        cache: The plugin's folder of fonts.
    """
    folder = cache / FAMILY
    folder.mkdir(parents=True, exist_ok=True)
    fonts = sorted(files.glob(f"{FAMILY}-*.ttf"))
    return [
        Path(shutil.copy(font, folder / font.name.removeprefix(f"{FAMILY}-"))) for font in fonts
    ]


def main() -> None:
    # Found, not imported: it reads its folder of files at import.
    spec = find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        raise SystemExit(f"install {PACKAGE.replace('_', '-')} first: `nox -s publish` does")
    copies = copy_fonts(Path(spec.origin).parent / "files")
    if not copies:
        raise SystemExit(f"{PACKAGE} has no {FAMILY}-*.ttf")
    print(f"{len(copies)} fonts in {CACHE.relative_to(ROOT)}/{FAMILY}")


if __name__ == "__main__":
    main()
