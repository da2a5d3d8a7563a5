"""Draw what a link to the site shows: ``python -m tools.previews``.

That is a PNG in ``docs/assets/``. A browser takes it; the build doesn't need one.
"""

from __future__ import annotations

import io
import shutil
from pathlib import Path

from drawing import draw
from drawing.figure import STYLE
from kata.paths import ROOT
from tools.pictures.recorded import recorded_gate

PAGE = """<!doctype html><style>{style}
body {{ margin: 0; width: 1200px; height: 630px; overflow: hidden; background: #fff; color: #1f2430;
        font: 32px system-ui, sans-serif; display: grid; grid-template-columns: 1fr 1fr; }}
main {{ background: #0f4c5c; color: #fff; padding: 60px; }}
h1 {{ font-size: 66px; line-height: 1.15; margin: 0 0 40px; }}
svg.fx-graph {{ width: auto !important; height: 530px; max-width: 540px; margin: 50px 30px; }}
</style><main><h1>Build torch.fx yourself</h1>
<p>Short lessons, and PyTorch's own code checks every step.</p>
<p><b>fx-kata</b></p></main>{svg}"""


def write(file: Path) -> None:
    """Take the picture, in as few colours as it needs."""
    from PIL import Image
    from playwright.sync_api import sync_playwright

    program = shutil.which("chromium") or shutil.which("google-chrome")
    style = STYLE.read_text(encoding="utf-8")
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1200, "height": 630})
        page.set_content(PAGE.format(style=style, svg=draw(recorded_gate(), "fx").svg))
        taken = Image.open(io.BytesIO(page.screenshot()))
        taken.quantize(64).save(file, optimize=True)


if __name__ == "__main__":
    write(ROOT / "docs/assets/preview.png")
