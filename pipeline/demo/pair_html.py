"""What the page shows of a pair: both pictures, each model's caption word by word, and whether it is true.

A word carries its attention map as a tiny picture of one colour, whose opacity is the attention; page.js lays
it over both pictures, or each image's own over its picture, and page.css stretches it.
"""

import base64
import io
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path

import numpy as np
from PIL import Image

from pipeline.captioning.features import opened, turned
from pipeline.captioning.overlay import HEAT, opacities
from pipeline.captioning.picture_captioner import PictureCaptioner
from pipeline.datasets.images import read_bytes
from pipeline.datasets.schema import Pair
from pipeline.decoding.attention_maps import Attended
from pipeline.demo.drawn_scenes import Drawn
from pipeline.io.errors import InputError
from pipeline.scoring.truth import Verdict, judge, marks

HERE = Path(__file__).parent
HEAD = f"<script>{(HERE / 'page.js').read_text(encoding='utf-8')}</script>"
CSS = (HERE / "page.css").read_text(encoding="utf-8")
SHOWN = 640  # pixels of a picture's longer side, on the page
STRONGEST = 200  # opacity of the cell that was looked at most, of 255
LARGEST = 20_000_000  # bytes of an uploaded picture
UNTRUE = ' aria-description="not true"'  # of a word; page.css underlines it
HINT = "Point at a word, or tap it: where the model looked is red, in both pictures."


def answer(captioners: Mapping[str, PictureCaptioner], drawn: Drawn) -> str:
    """The page's part about a pair, as HTML. Raises InputError for a picture that does not open."""
    before, after = _opened(drawn.before, "before"), _opened(drawn.after, "after")
    warning = f'<p class="lab-hint">Take care: {escape(note)}.</p>' if (note := turned(before, after)) else ""
    shown = _figure("before", before) + _figure("after", after)
    found = {name: captioner.attended(before, after) for name, captioner in captioners.items()}
    said = "".join(_caption(name, attended, drawn.pair) for name, attended in found.items())
    hint = HINT if any(attended.images for attended in found.values()) else ""
    truth = drawn.pair.captions if drawn.pair else ()
    return (
        f'<section class="lab-answer"><div class="lab-pair">{shown}</div>{warning}{_truth(truth)}'
        f'<div class="lab-captions">{said}</div><p class="lab-hint" aria-live="polite">{hint}</p></section>'
    )


def _opened(picture: bytes | Path, side: str) -> Image.Image:
    data = read_bytes(picture) if isinstance(picture, Path) else picture
    if len(data) > LARGEST:
        raise InputError(f"The {side} picture has more than {LARGEST // 10**6} MB; scale it down")
    return opened(data, f"The {side} picture")


def refusal(error: InputError) -> str:
    """One sentence in place of an answer."""
    return f'<p class="lab-error" role="alert">{escape(str(error))}.</p>'


def _figure(side: str, picture: Image.Image) -> str:
    small = picture.copy()
    small.thumbnail((SHOWN, SHOWN))
    image = f'<img src="{_uri(small, "JPEG")}" alt="the {side} picture">'
    heat = '<img class="lab-heat" alt="" hidden>'
    return f'<figure><figcaption>{side}</figcaption><div class="lab-picture">{image}{heat}</div></figure>'


def _truth(truth: Sequence[str]) -> str:
    if not truth:
        return ""
    said = "; ".join(f"“{escape(each)}”" for each in truth[:2])
    return f'<p class="lab-truth"><b>True of this pair:</b> {said}</p>'


def _caption(name: str, attended: Attended, pair: Pair | None) -> str:
    verdict = judge(attended.caption, pair) if pair else None
    marked = marks(attended.words, verdict.wrong if verdict else None)
    words = " ".join(
        f'<button type="button" class="lab-word"{UNTRUE if wrong else ""} aria-pressed="false"'
        f"{heat}>{escape(word)}</button>"
        for word, heat, wrong in zip(attended.words, _heats(attended), marked, strict=True)
    )
    return (
        f'<article><h3>{escape(name)}</h3><p class="lab-words">{words or "(it says nothing)"}</p>'
        f"{_judged(verdict, pair)}</article>"
    )


def _judged(verdict: Verdict | None, pair: Pair | None) -> str:
    """Whether the caption is true, the words that are not, and a sentence that is; nothing where unknown."""
    if verdict is None or pair is None:
        return ""
    if verdict.true:
        return '<p class="lab-verdict">✓ <b>True</b> of this pair.</p>'
    wrong = f": “{escape(verdict.wrong)}”" if verdict.wrong else ""
    return (
        f'<p class="lab-verdict">✗ <b>Not true</b>{wrong}. What happened: “{escape(pair.captions[0])}”.</p>'
    )


def _heats(attended: Attended) -> list[str]:
    """Each word's attributes: its map, or that of before and that of after; nothing where it has none."""
    names = ("heat", "heat-after")[: attended.images]
    return [
        "".join(f' data-{name}="{_uri(_heat(map_), "PNG")}"' for name, map_ in zip(names, own, strict=True))
        for own in attended.maps
    ]


def _heat(map_: np.ndarray) -> Image.Image:
    opaque = opacities(map_, STRONGEST)
    return Image.fromarray(np.dstack([np.full((*opaque.shape, 3), HEAT, np.uint8), opaque]))


def _uri(picture: Image.Image, form: str) -> str:
    file = io.BytesIO()
    picture.save(file, form)
    return f"data:image/{form.lower()};base64,{base64.b64encode(file.getvalue()).decode()}"
