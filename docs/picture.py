"""Make docs/report.png: the head of results/report/index.html above one pair of the page's gallery.

Run `make picture` after `make repro`. A headless Chromium draws the page. Its path is $CHROMIUM, or that of
chromium, chromium-browser or google-chrome. 256 colours keep the file small.
"""

import io
import os
import shutil
import sys
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

PAGE, OUT = Path("results/report/index.html"), Path("docs/report.png")
WIDTH, HEAD, PAIR = 820, 545, 640  # pixels
NAMES = ("chromium", "chromium-browser", "google-chrome")


def main() -> None:
    browser = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
    if browser is None:
        sys.exit(f"error: no browser; set CHROMIUM, or install {NAMES[0]}")
    if not PAGE.exists():
        sys.exit(f"error: {PAGE} is missing; run `make repro`")
    with sync_playwright() as playwright:
        # no sandbox: containers have none to give
        running = playwright.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        page = running.new_page(viewport={"width": WIDTH, "height": HEAD}, color_scheme="light")
        page.goto(PAGE.absolute().as_uri())
        head = page.screenshot()
        page.add_style_tag(
            content="form { display: none !important }"
        )  # the gallery's filter lies over its first pair
        parts = head, page.locator("article:visible").first.screenshot()
        running.close()
    save(*(Image.open(io.BytesIO(part)).convert("RGB") for part in parts))


def save(head: Image.Image, pair: Image.Image) -> None:
    """Save an image of the page's head with the pair below."""
    pair = pair.crop((0, 0, pair.width, min(pair.height, PAIR)))
    whole = Image.new("RGB", (WIDTH, head.height + pair.height + 24), head.getpixel((0, 0)))
    whole.paste(head, (0, 0))
    whole.paste(pair, ((WIDTH - pair.width) // 2, head.height + 12))
    whole.quantize(256).save(OUT, optimize=True)
    print(f"{OUT}: {OUT.stat().st_size // 1000} kB")


if __name__ == "__main__":
    main()
