"""Make the HTML of a pair: both images, each model's caption, and the verdict on each caption.

The template of the HTML is pair.html.j2. A caption is shown word by word, and each word has its
attention maps. An attention map is a tiny image of a single colour, whose opacity is the attention.
page.js draws the map over the images.
"""

import base64
import io
from collections.abc import Mapping
from html import escape
from pathlib import Path

import numpy as np
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from PIL import Image

from pipeline.captioning.feature_backbone import ImageInput, opened, rotation_warning
from pipeline.captioning.judging import PairImages
from pipeline.captioning.overlay import HEAT, opacities
from pipeline.captioning.pair_captioner import ALL, Answer, Limits, PairCaptioner
from pipeline.datasets.images import read_bytes
from pipeline.datasets.schema import Pair
from pipeline.io.errors import InputError
from pipeline.judging.strict import judge
from pipeline.judging.verdicts import Verdict, marks, quoted

HERE = Path(__file__).parent
HEAD = f"<script>{(HERE / 'page.js').read_text(encoding='utf-8')}</script>"
CSS = (HERE / "page.css").read_text(encoding="utf-8")
SHOWN = 640  # pixels of an image's longer side, on the page
STRONGEST = 200  # opacity (of 255) of the cell with the most attention
LARGEST = 20_000_000  # bytes of an uploaded image
HINT = "Point at a word, or tap it: its attention is shown in red, in both images."


def answer(captioners: Mapping[str, PairCaptioner], drawn: PairImages, limits: Limits = ALL) -> str:
    """Return the HTML for a pair: images, and each captioner's caption, or the reason why it is withheld."""
    before, after = _opened(drawn.before, "before"), _opened(drawn.after, "after")
    answers = {name: captioner.answer(before, after, limits) for name, captioner in captioners.items()}
    has_attention = any(item.attended and item.attended.images for item in answers.values())
    environment = Environment(
        loader=FileSystemLoader(HERE),
        autoescape=True,  # a caption may contain any text
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["quoted"] = quoted
    return environment.get_template("pair.html.j2").render(
        images={"before": _thumbnail(before), "after": _thumbnail(after)},
        warning=rotation_warning(before, after),
        captions=drawn.pair.captions if drawn.pair else (),
        answers=[(name, item, *_judged(item, drawn.pair)) for name, item in answers.items()],
        hint=HINT if has_attention else "",
    )


def _opened(image: ImageInput, side: str) -> Image.Image:
    data = read_bytes(image) if isinstance(image, Path) else image
    return opened(data, f"The {side} image")


def refusal(error: InputError) -> str:
    return f'<p class="lab-error" role="alert">{escape(str(error))}.</p>'


def _thumbnail(image: Image.Image) -> str:
    small = image.copy()
    small.thumbnail((SHOWN, SHOWN))
    return _address(small, "JPEG")


def _judged(answer: Answer, pair: Pair | None) -> tuple[Verdict | None, list[tuple[str, bool, list[str]]]]:
    """Return a verdict (None without `pair`), and words: (text, is wrong, attention maps as PNG)."""
    if answer.attended is None:
        return None, []
    verdict = judge(answer.attended.caption, pair) if pair else None
    words = answer.attended.words
    maps = [[_address(_heat(map_), "PNG") for map_ in maps] for maps in answer.attended.maps]
    return verdict, [*zip(words, marks(words, verdict.wrong if verdict else ()), maps, strict=True)]


def _heat(map_: np.ndarray) -> Image.Image:
    opaque = opacities(map_, STRONGEST)
    return Image.fromarray(np.dstack([np.full((*opaque.shape, 3), HEAT, np.uint8), opaque]))


def _address(image: Image.Image, form: str) -> str:
    """Return an image as a data URL, for the attribute `src`. `form` is the image format, "JPEG" or "PNG"."""
    file = io.BytesIO()
    image.save(file, form)
    return f"data:image/{form.lower()};base64,{base64.b64encode(file.getvalue()).decode()}"
