"""The demo's answer in a real browser: attention of a word, and marks of wrong words."""

import pytest

from pipeline.demo import drawn_scenes, pair_html
from pipeline.demo.pair_html import CSS, HEAD
from pipeline.tabletop.words import COLORS
from tests.pipeline.demo.test_pair_html import SETTINGS, Brightness, Saying


@pytest.fixture
def opened(browser, tmp_path):
    """Show HTML as a page of a width."""

    def show(html, width):
        (tmp_path / "page.html").write_text(f"{HEAD}<style>{CSS}</style>{html}", encoding="utf-8")
        view = browser.new_page(viewport={"width": width, "height": 900})
        view.goto((tmp_path / "page.html").as_uri())
        return view

    return show


@pytest.mark.parametrize("width", [390, 1440])
def test_a_word_shows_its_attention_in_both_images(opened, width):
    drawn = drawn_scenes.draw(SETTINGS, "color", "moderate", 1)
    html = pair_html.answer({"one": Brightness()}, drawn)
    view = opened(html, width)
    heat, words = view.locator(".lab-heat:visible"), view.locator(".lab-word")
    assert (heat.count(), words.count()) == (0, 3)
    words.nth(1).hover()
    assert heat.count() == 2
    picture = view.locator(".lab-picture > img").first.bounding_box()
    assert heat.first.bounding_box() == picture
    assert view.evaluate("document.documentElement.scrollWidth <= innerWidth")
    view.mouse.move(0, 0)
    assert heat.count() == 0
    words.nth(0).focus()
    assert heat.count() == 2
    words.nth(0).click()
    view.mouse.move(0, 0)
    assert (heat.count(), words.nth(0).get_attribute("aria-pressed")) == (2, "true")
    words.nth(0).click()
    words.nth(0).blur()
    view.mouse.move(0, 0)
    assert heat.count() == 0


@pytest.mark.parametrize("width", [390, 1440])
def test_a_wrong_word_is_underlined_and_named(opened, width):
    drawn = drawn_scenes.draw(SETTINGS, "color", "moderate", 1)
    true = drawn.pair.captions[0]
    value = next(color for color in COLORS if color not in true)
    models = {"honest": Saying(true), "liar": Saying(" ".join([*true.split()[:-1], value]))}
    html = pair_html.answer(models, drawn)
    view = opened(html, width)
    verdicts = view.locator(".lab-verdict")
    assert verdicts.nth(0).inner_text() == "✓ True of this pair."
    assert verdicts.nth(1).inner_text() == f"✗ Not true: “{value}”. What happened: “{true}”."
    underlined = view.locator(".lab-word").evaluate_all(
        "all => all.filter((one) => getComputedStyle(one).textDecorationLine === 'underline')"
        ".map((one) => one.textContent)"
    )
    assert underlined == [value]
    assert view.evaluate("document.documentElement.scrollWidth <= innerWidth")
