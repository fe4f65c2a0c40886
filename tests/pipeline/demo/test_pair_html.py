"""The demo without its server: new scenes with their truth, uploads, and messages about broken uploads."""

import gc
import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

from commands import demo
from pipeline.captioning.feature_backbone import opened
from pipeline.captioning.pair_captioner import Answer, Limits
from pipeline.config.params import Tabletop
from pipeline.decoding.attention_maps import Attended
from pipeline.demo import drawn_scenes, pair_html
from pipeline.io.errors import InputError
from pipeline.judging.strict import judge

SETTINGS = Tabletop(
    scenes=20, seed=1, min_objects=3, max_objects=4, width=96, height=64, viewpoint="moderate"
)


class Brightness:
    """Fake captioner: its caption is the brightness of both images, with attention on one cell."""

    trained = SimpleNamespace(recipe=SimpleNamespace(model="brightness"), seed=1)

    def answer(self, before, after, limits):
        attended = self.attended(before, after)
        if limits.at_least > 0.8:
            return Answer(None, 0.8, "not <sure>")
        return Answer(attended.caption, 0.8, attended=attended)

    def check_limits(self, search, limits):
        pass

    def attended(self, before, after):
        words = tuple(f"{np.asarray(opened(side)).mean():.3f}" for side in (before, after))
        maps = np.zeros((2, 1, 2, 3), dtype=np.float16)
        maps[:, :, 0, 1] = 1
        return Attended((*words, "<b>"), np.concatenate([maps, maps[:1]]))


class Saying(Brightness):
    """Fake captioner with the same caption for every pair."""

    def __init__(self, caption, images=1):
        self.words, self.images = tuple(caption.split()), images

    def attended(self, before, after):
        maps = np.full((len(self.words), self.images, 2, 3), 1 / 6, dtype=np.float16)
        return Attended(self.words, maps)


@pytest.fixture(scope="session")
def page():
    """Module `page`. It is imported late, because importing Gradio takes seconds."""
    from pipeline.demo import page

    return page


@pytest.fixture
def events(page):
    return page.Events({"one": Brightness(), "two": Brightness()}, SETTINGS)


def words(html):
    return re.findall(r'class="lab-word"[^>]*>([^<]*)</button>', html)


@pytest.mark.parametrize("kind", drawn_scenes.KINDS)
def test_a_scene_of_each_kind_of_change_has_true_captions(kind):
    drawn = drawn_scenes.draw(SETTINGS, kind, "moderate", 5)
    assert drawn == drawn_scenes.draw(SETTINGS, kind, "moderate", 5)
    assert drawn.before != drawn_scenes.draw(SETTINGS, kind, "moderate", 6).before
    assert drawn.after != drawn.before
    assert len(drawn.pair.captions) == 6
    assert all(judge(caption, drawn.pair).true for caption in drawn.pair.captions)
    assert drawn.after != drawn_scenes.draw(SETTINGS, kind, "extreme", 5).after


def test_a_scene_is_captioned_by_each_model(events):
    html = events.scene("color", "moderate")
    assert len(words(html)) == 6
    assert "&lt;b&gt;" in html
    assert "True of this pair" in html
    assert html.count("✗ <b>Not true</b>: “") == 2
    assert html.count("data:image/png") == 6


def test_captions_of_a_rendered_scene_are_judged_and_wrong_words_are_marked():
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
    unchanged = drawn_scenes.draw(SETTINGS, drawn_scenes.NOTHING, "moderate", 5)
    honest, _, silent = pair_html.answer(models, unchanged).split("<article>")[1:]
    assert "<b>True</b>" in silent
    assert "Not true" in honest


@pytest.mark.parametrize("images", [0, 1, 2])
def test_a_word_has_its_attention_maps(images):
    html = pair_html.answer(
        {"one": Saying("nothing changed", images)}, drawn_scenes.draw(SETTINGS, "add", "moderate", 5)
    )
    assert html.count(' data-heat="') == 2 * (images > 0)
    assert html.count(' data-heat-after="') == 2 * (images > 1)
    assert (pair_html.HINT in html) == (images > 0)


def test_uploads_that_are_broken_or_missing_get_an_error(events, tmp_path):
    sound, cut, text = (str(tmp_path / name) for name in ("sound", "cut", "text"))
    image = drawn_scenes.draw(SETTINGS, "add", "moderate", 1).before
    for name, data in ((sound, image), (cut, image[:900]), (text, b"<script>")):
        Path(name).write_bytes(data)
    html = events.uploaded(sound, sound)
    assert words(html)[0] == words(html)[1]
    assert "lab-verdict" not in html
    for before, after, said in (
        (sound, None, "Choose a before and an after image first."),
        (sound, cut, "The after image does not open"),
        (text, sound, "The before image is no image with pixels"),
    ):
        html = events.uploaded(before, after)
        assert re.fullmatch(rf'<p class="lab-error" role="alert">{said}.*</p>', html)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_port_that_is_taken_is_named(page, monkeypatch):
    def launch(*_, **__):
        raise OSError("in use")

    monkeypatch.setattr(page.gr.Blocks, "launch", launch)
    with pytest.raises(InputError, match="port 7931"):
        demo.serve({"one": Brightness()}, SETTINGS, 7931, False, Limits())


# Gradio opens event loops for its locks and never closes them
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_the_page_loads_nothing_from_other_servers(page):
    made = page.page({"one": Brightness()}, SETTINGS)
    said = str(made.get_config_file())
    del made
    gc.collect()
    said += pair_html.HEAD + pair_html.CSS + str(page.THEME.__dict__)
    assert "lab-answer" in said
    assert not re.search(r"https?://(?!127\.0\.0\.1)[\w.]*(google|gstatic|jsdelivr|cloudflare)", said)


def test_a_caption_has_its_probability_and_a_withheld_caption_a_reason():
    drawn = drawn_scenes.draw(SETTINGS, "color", "moderate", 1)
    html = pair_html.answer({"one": Brightness()}, drawn)
    assert "probability 0.80" in html
    assert "lab-word" in html
    html = pair_html.answer({"one": Brightness()}, drawn, Limits(0.9))
    assert "not &lt;sure&gt;" in html
    assert 'class="lab-word"' not in html
    assert "lab-verdict" not in html


def test_two_orientations_give_a_warning(events, tmp_path):
    picture, exif, files = Image.new("RGB", (64, 48)), Image.Exif(), []
    for turn in (1, 6):
        exif[0x0112] = turn
        files.append(str(tmp_path / f"{turn}.jpg"))
        picture.save(files[-1], exif=exif)
    assert "orientation of before is 1, of after 6" in events.uploaded(*files)
    assert "orientation" not in events.uploaded(files[1], files[1])
