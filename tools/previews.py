"""Draw what a link to the site shows: ``python -m tools.previews``.

That is one picture, and the icon for a phone's home screen, as PNG below ``docs/assets/``. A
browser takes them; the build doesn't need one.
"""

from __future__ import annotations

import io
import shutil
from pathlib import Path

from drawing import draw
from drawing.figure import STYLE
from kata.paths import ROOT
from tools.pictures.recorded import recorded_gate

ASSETS = ROOT / "docs" / "assets"
PAGE = """<!doctype html><style>{style}
body {{ margin: 0; width: 1200px; height: 630px; overflow: hidden; background: #fff; color: #1f2430;
        font: 32px system-ui, sans-serif; display: grid; grid-template-columns: 1fr 1fr; }}
main {{ background: #0f4c5c; color: #fff; padding: 60px; }}
h1 {{ font-size: 66px; line-height: 1.15; margin: 0 0 40px; }}
svg.fx-graph {{ width: auto !important; height: 530px; max-width: 540px; margin: 50px 30px; }}
</style><main><h1>Build torch.fx yourself</h1>
<p>Short lessons, and PyTorch's own code checks every step.</p>
<p><b>fx-kata</b></p></main>{svg}"""
ICON = """<!doctype html><style>body {{ margin: 0; background: #0f4c5c; }}
svg {{ width: 140px; height: 140px; margin: 20px; }}</style>{svg}"""


def pages() -> dict[str, tuple[str, int, int]]:
    """Each file's page, with the width and the height of its picture."""
    style, logo = (file.read_text(encoding="utf-8") for file in (STYLE, ASSETS / "logo.svg"))
    preview = PAGE.format(style=style, svg=draw(recorded_gate(), "fx").svg)
    return {
        "preview.png": (preview, 1200, 630),
        "touch-icon.png": (ICON.format(svg=logo), 180, 180),
    }


def write(folder: Path) -> None:
    """Take all pictures, in as few colours as they need."""
    from PIL import Image
    from playwright.sync_api import sync_playwright

    program = shutil.which("chromium") or shutil.which("google-chrome")
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program, args=["--no-sandbox"])
        for file, (text, width, height) in pages().items():
            page = browser.new_page(viewport={"width": width, "height": height})
            page.set_content(text)
            taken = Image.open(io.BytesIO(page.screenshot()))
            taken.quantize(64).save(folder / file, optimize=True)


if __name__ == "__main__":
    write(ASSETS)
