"""Make the HTML of a pair: both images, and each model's caption, word by word, with its truth.

An attention map is a tiny image of a single colour, whose opacity is the attention. page.js draws it
over the images.
"""

import base64
import io
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path

import numpy as np
from PIL import Image

from pipeline.captioning.features import Picture, opened, rotation_warning
from pipeline.captioning.judging import PairImages
from pipeline.captioning.overlay import HEAT, opacities
from pipeline.captioning.picture_captioner import ALL, Answer, Limits, PictureCaptioner
from pipeline.datasets.images import read_bytes
from pipeline.datasets.schema import Pair
from pipeline.decoding.attention_maps import Attended
from pipeline.io.errors import InputError
from pipeline.scoring.truth import Verdict, judge, marks, quoted

HERE = Path(__file__).parent
HEAD = f"<script>{(HERE / 'page.js').read_text(encoding='utf-8')}</script>"
CSS = (HERE / "page.css").read_text(encoding="utf-8")
SHOWN = 640  # pixels of an image's longer side, on the page
STRONGEST = 200  # opacity (of 255) of the cell with the most attention
LARGEST = 20_000_000  # bytes of an uploaded image
UNTRUE = ' aria-description="not true"'  # attribute of a wrong word; page.css underlines it
HINT = "Point at a word, or tap it: its attention is shown in red, in both images."


def answer(captioners: Mapping[str, PictureCaptioner], drawn: PairImages, limits: Limits = ALL) -> str:
    """Return the HTML section for a pair. Raises InputError for an image that does not open."""
    before, after = _opened(drawn.before, "before"), _opened(drawn.after, "after")
    note = rotation_warning(before, after)
    warning = f'<p class="lab-hint">Take care: {escape(note)}.</p>' if note else ""
    shown = _figure("before", before) + _figure("after", after)
    found = {name: captioner.answer(before, after, limits) for name, captioner in captioners.items()}
    said = "".join(_answer(name, answer, drawn.pair) for name, answer in found.items())
    hint = HINT if any(each.attended and each.attended.images for each in found.values()) else ""
    truth = drawn.pair.captions if drawn.pair else ()
    return (
        f'<section class="lab-answer"><div class="lab-pair">{shown}</div>{warning}{_truth(truth)}'
        f'<div class="lab-captions">{said}</div><p class="lab-hint" aria-live="polite">{hint}</p></section>'
    )


def _opened(picture: Picture, side: str) -> Image.Image:
    data = read_bytes(picture) if isinstance(picture, Path) else picture
    return opened(data, f"The {side} image")


def refusal(error: InputError) -> str:
    """Return an error message as HTML, in place of an answer."""
    return f'<p class="lab-error" role="alert">{escape(str(error))}.</p>'


def _figure(side: str, picture: Image.Image) -> str:
    small = picture.copy()
    small.thumbnail((SHOWN, SHOWN))
    image = f'<img src="{_uri(small, "JPEG")}" alt="the {side} image">'
    heat = '<img class="lab-heat" alt="" hidden>'
    return f'<figure><figcaption>{side}</figcaption><div class="lab-picture">{image}{heat}</div></figure>'


def _truth(truth: Sequence[str]) -> str:
    if not truth:
        return ""
    said = "; ".join(f"“{escape(each)}”" for each in truth[:2])
    return f'<p class="lab-truth"><b>True of this pair:</b> {said}</p>'


def _answer(name: str, answer: Answer, pair: Pair | None) -> str:
    chance = answer.probability
    small = "" if chance is None else f'<p class="lab-hint">probability {chance:.2f}</p>'
    if answer.attended is not None:
        return f"<article>{_caption(name, answer.attended, pair)}{small}</article>"
    reason = escape(answer.reason or "no caption")
    return f'<article><h3>{escape(name)}</h3><p class="lab-error">{reason}</p>{small}</article>'


def _caption(name: str, attended: Attended, pair: Pair | None) -> str:
    verdict = judge(attended.caption, pair) if pair else None
    marked = marks(attended.words, verdict.wrong if verdict else ())
    words = " ".join(
        f'<button type="button" class="lab-word"{UNTRUE if wrong else ""} aria-pressed="false"'
        f"{heat}>{escape(word)}</button>"
        for word, heat, wrong in zip(attended.words, _heat_attributes(attended), marked, strict=True)
    )
    return (
        f'<h3>{escape(name)}</h3><p class="lab-words">{words or "(it says nothing)"}</p>'
        f"{_judged(verdict, pair)}"
    )


def _judged(verdict: Verdict | None, pair: Pair | None) -> str:
    if verdict is None or pair is None:
        return ""
    if verdict.true:
        return '<p class="lab-verdict">✓ <b>True</b> of this pair.</p>'
    said = quoted(verdict.wrong)
    wrong = f": {escape(said)}" if said else ""
    return (
        f'<p class="lab-verdict">✗ <b>Not true</b>{wrong}. What happened: “{escape(pair.captions[0])}”.</p>'
    )


def _heat_attributes(attended: Attended) -> list[str]:
    """Return, for each word, the HTML attributes with the word's attention maps; "" without attention."""
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
