"""The demo without its server: new scenes with their truth, uploads, and what is said of broken ones."""

import gc
import pickle
import re
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

from commands import demo
from pipeline.captioning.features import opened
from pipeline.captioning.picture_captioner import Answer, Limits
from pipeline.config.params import Tabletop
from pipeline.decoding.attention_maps import Attended
from pipeline.demo import drawn_scenes, pair_html
from pipeline.io.errors import InputError
from pipeline.scoring.truth import judge

SETTINGS = Tabletop(
    scenes=20, seed=1, min_objects=3, max_objects=4, width=96, height=64, viewpoint="moderate"
)


class Told:
    """In place of a captioner: it tells how bright its pictures are, and looks at one cell."""

    trained = SimpleNamespace(recipe=SimpleNamespace(model="told"), seed=1)

    def answer(self, before, after, limits):
        attended = self.attended(before, after)
        return Answer(attended.caption, attended=attended)

    def attended(self, before, after):
        words = tuple(f"{np.asarray(opened(side)).mean():.3f}" for side in (before, after))
        maps = np.zeros((2, 1, 2, 3), dtype=np.float16)
        maps[:, :, 0, 1] = 1
        return Attended((*words, "<b>"), np.concatenate([maps, maps[:1]]))


class Saying(Told):
    """It says a sentence of every pair."""

    def __init__(self, caption, images=1):
        self.words, self.images = tuple(caption.split()), images

    def attended(self, before, after):
        maps = np.full((len(self.words), self.images, 2, 3), 1 / 6, dtype=np.float16)
        return Attended(self.words, maps)


@pytest.fixture(scope="session")
def page():
    """Its module, imported by the tests that need it: with Gradio that takes seconds."""
    from pipeline.demo import page

    return page


@pytest.fixture
def events(page):
    return page.Events({"one": Told(), "two": Told()}, SETTINGS)


def words(html):
    return re.findall(r'class="lab-word"[^>]*>([^<]*)</button>', html)


@pytest.mark.parametrize("kind", drawn_scenes.KINDS)
def test_a_scene_of_each_kind_with_what_is_true_of_it(kind):
    drawn = drawn_scenes.draw(SETTINGS, kind, "moderate", 5)
    assert drawn == drawn_scenes.draw(SETTINGS, kind, "moderate", 5)
    assert drawn.before != drawn_scenes.draw(SETTINGS, kind, "moderate", 6).before
    assert drawn.after != drawn.before
    said = drawn.pair.captions[0]
    verbs = {
        "add": "appeared|added|placed",
        "drop": "missing|gone|disappeared|no longer",
        "move": "moved|location",
    }
    assert len(drawn.pair.captions) == 6
    assert all(judge(caption, drawn.pair).true for caption in drawn.pair.captions)
    if kind in verbs:
        assert re.search(verbs[kind], said)
    assert drawn.after != drawn_scenes.draw(SETTINGS, kind, "extreme", 5).after


def test_a_scene_is_shown_with_every_models_words_and_swapped(events):
    shown, html = events.scene("color", "moderate")
    assert len(words(html)) == 6
    assert "&lt;b&gt;" in html
    assert "True of this pair" in html
    assert html.count("✗ <b>Not true</b>: “") == 2  # numbers are no caption of anything
    assert html.count("data:image/png") == 6
    turned, again = events.swapped(shown)
    assert (turned.before, turned.after) == (shown.after, shown.before)
    assert words(again)[:2] == words(html)[:2][::-1]
    assert "True of this pair" not in again
    assert "lab-verdict" not in again
    assert "not true" not in again


def test_a_drawn_scenes_caption_is_marked_true_or_not_and_the_wrong_words():
    drawn = drawn_scenes.draw(SETTINGS, "color", "moderate", 5)
    true = drawn.pair.captions[0]
    wrong = re.sub(r"\S+$", "purple" if not true.endswith("purple") else "green", true)
    models = {"honest": Saying(true), "liar": Saying(wrong), "silent": Saying("there is no change")}
    html = pair_html.answer(models, drawn)
    honest, liar, silent = html.split("<article>")[1:]
    assert '<p class="lab-verdict">✓ <b>True</b> of this pair.</p>' in honest
    assert "not true" not in honest
    assert f"✗ <b>Not true</b>: “{wrong.split()[-1]}”. What happened: “{true}”.</p>" in liar
    assert re.findall(r'aria-description="not true"[^>]*>([^<]*)<', liar) == [wrong.split()[-1]]
    assert len(words(liar)) == len(wrong.split())
    assert "✗ <b>Not true</b>: “there is no change”" in silent
    unmoved = drawn_scenes.draw(SETTINGS, drawn_scenes.NOTHING, "moderate", 5)
    html = pair_html.answer(models, unmoved)
    honest, liar, silent = html.split("<article>")[1:]
    assert "<b>True</b>" in silent
    assert "Not true" in honest
    assert "Not true" in liar


@pytest.mark.parametrize("images", [0, 1, 2])
def test_a_word_carries_as_many_maps_as_it_has(images):
    html = pair_html.answer(
        {"one": Saying("nothing changed", images)}, drawn_scenes.draw(SETTINGS, "add", "moderate", 5)
    )
    assert html.count(' data-heat="') == 2 * (images > 0)
    assert html.count(' data-heat-after="') == 2 * (images > 1)
    assert (pair_html.HINT in html) == (images > 0)


def test_uploads_that_are_broken_missing_or_too_large_get_one_sentence(events, monkeypatch, tmp_path):
    def file(data):
        path = tmp_path / str(len(data))
        path.write_bytes(data)
        return str(path)

    whole = drawn_scenes.draw(SETTINGS, "add", "moderate", 1).before
    sound = file(whole)
    shown, html = events.uploaded(sound, sound)
    assert words(html)[0] == words(html)[1]
    assert shown.pair is None
    assert "lab-verdict" not in html
    monkeypatch.setattr(pair_html, "LARGEST", 10**6)
    for before, after, said in (
        (sound, None, "Choose a before and an after image first."),
        (sound, file(whole[:900]), "The after picture does not open"),
        (file(b"<script>"), sound, "The before picture is no image with pixels"),
        (sound, file(bytes(10**6 + 1)), "The after picture has more than 1 MB; scale it down."),
    ):
        shown, html = events.uploaded(before, after)
        assert shown is None
        assert re.fullmatch(rf'<p class="lab-error" role="alert">{said}.*</p>', html)
    assert "no pair to swap" in events.swapped(None)[1]


def test_what_is_kept_of_uploads_is_where_they_are(events, tmp_path):
    """A session is kept for an hour after it ends: pictures in it would add up in memory."""
    noise = Image.effect_noise((600, 600), 90)
    noise.save(tmp_path / "a.png")
    shown, html = events.uploaded(*[str(tmp_path / "a.png")] * 2)
    assert len(pickle.dumps(shown)) < 1000
    assert words(events.swapped(shown)[1]) == words(html)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("error", [OSError("in use"), RuntimeError("a\nb")])
def test_a_page_that_does_not_start_is_one_line(page, monkeypatch, tmp_path, error):
    def launch(*_, **__):
        raise error

    monkeypatch.setattr(page.gr.Blocks, "launch", launch)
    with pytest.raises(InputError) as caught:
        demo.serve({"told": Told()}, SETTINGS, tmp_path, 7931, False, Limits())
    assert "\n" not in str(caught.value)
    assert ("port 7931" in str(caught.value)) == isinstance(error, OSError)


# Gradio opens event loops for its locks and never closes them
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_the_page_needs_nobody_elses_server(page):
    made = page.page({"one": Told()}, SETTINGS)
    said = str(made.get_config_file())
    del made
    gc.collect()
    said += pair_html.HEAD + pair_html.CSS + str(page.THEME.__dict__)
    assert "lab-answer" in said
    assert not re.search(r"https?://(?!127\.0\.0\.1)[\w.]*(google|gstatic|jsdelivr|cloudflare)", said)


def test_a_refused_pair_has_a_reason_in_place_of_a_caption_and_a_caption_its_probability():
    class Unsure(Told):
        def answer(self, before, after, limits):
            attended = self.attended(before, after)
            if limits.at_least <= 0.8:
                return Answer(attended.caption, 0.8, None, attended)
            return Answer(None, 0.8, "not <sure>")

    drawn = drawn_scenes.draw(SETTINGS, "color", "moderate", 1)
    html = pair_html.answer({"one": Unsure()}, drawn)
    assert "probability 0.80" in html
    assert "lab-word" in html
    html = pair_html.answer({"one": Unsure()}, drawn, Limits(0.9))
    assert "not &lt;sure&gt;" in html
    assert 'class="lab-word"' not in html
    assert "lab-verdict" not in html


def test_two_orientations_are_told(events, tmp_path):
    picture, exif, files = Image.new("RGB", (64, 48)), Image.Exif(), []
    for turn in (1, 6):
        exif[0x0112] = turn
        files.append(str(tmp_path / f"{turn}.jpg"))
        picture.save(files[-1], exif=exif)
    assert "orientation of before is 1, of after 6" in events.uploaded(*files)[1]
    assert "orientation" not in events.uploaded(files[1], files[1])[1]
