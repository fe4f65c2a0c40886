"""The report in a real browser: layout, clicks and keys."""

import pytest

from pipeline.reporting import dataset_results, page
from tests.report_lab import make_study

MODELS = ("subtraction", "scorer", "scorer_cbr", "duda")
WIDTHS = (390, 1440)


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    """Page of 20 test pairs; scorer is right about all, subtraction only about the changed ones."""
    root = tmp_path_factory.mktemp("study")
    params = make_study(root, models=MODELS, seeds=(1, 2, 3))
    results = dataset_results.read(root, params)
    (root / "index.html").write_text(page.render(results, params), encoding="utf-8")
    return (root / "index.html").as_uri()


@pytest.fixture(params=WIDTHS)
def view(browser, address, request):
    """Open the page at a width; check afterwards that it made no request and printed no error."""
    context = browser.new_context(viewport={"width": request.param, "height": 900}, color_scheme="dark")
    opened, said, asked = context.new_page(), [], []
    opened.on("console", lambda message: said.append(message.text))
    opened.on("pageerror", lambda error: said.append(str(error)))
    opened.on("request", lambda one: asked.append(one.url))
    opened.goto(address)
    yield opened
    context.close()
    assert said == []
    assert [url for url in asked if not url.startswith("data:")] == [address]


def shown(view):
    return view.locator("article:visible")


def choose(view, **choices):
    for name, value in choices.items():
        view.locator(f"select[name={name}]").select_option(value)


def test_nothing_is_wider_than_the_page_and_every_table_and_diagram_is_there(view):
    assert view.evaluate("document.documentElement.scrollWidth <= innerWidth")
    view.locator("summary").evaluate_all("all => all.forEach((one) => one.click())")
    assert view.evaluate("document.documentElement.scrollWidth <= innerWidth")
    titles = ["Scores", "Which differences are significant", "Learning curves", "Test pairs"]
    assert view.locator("h3").all_text_contents() == titles
    assert view.locator("table:visible").count() == 8
    for diagram in view.locator(".panels svg").all():
        assert diagram.bounding_box()["height"] > 150
    assert view.locator("img").evaluate_all("all => all.every((one) => one.naturalWidth === 48)")


def test_pairs_are_filtered_by_kind_and_by_correctness(view):
    output = view.locator("output")
    assert (shown(view).count(), output.text_content()) == (20, "20 of 20 pairs shown")
    choose(view, kind="move")
    assert shown(view).evaluate_all("all => all.map((one) => one.dataset.kind)") == ["move", "move"]
    assert output.text_content() == "2 of 20 pairs shown"
    choose(view, kind="", verdict="wrong", model="subtraction")
    assert shown(view).evaluate_all("all => [...new Set(all.map((one) => one.dataset.kind))]") == [
        "no change"
    ]
    assert shown(view).count() == 10
    choose(view, model="scorer")
    assert (shown(view).count(), output.text_content()) == (0, "0 of 20 pairs shown")
    choose(view, verdict="right", kind="color")
    assert shown(view).count() == 2


def heat(card, picture):
    """The overlay's opacity at each cell, row by row; None where there is no overlay."""
    canvas = card.locator(f".{picture} canvas.heat")
    if not canvas.count():
        return None
    read = (
        "c => [...c.getContext('2d').getImageData(0, 0, c.width, c.height).data].filter((_, i) => i % 4 == 3)"
    )
    return canvas.evaluate(read)


def test_a_word_shows_its_attention_on_both_pictures(view):
    card = shown(view).nth(2)
    words = card.locator(".words button[data-model=scorer]")
    assert words.all_text_contents() == ["the", "ball", "moved,", "says", "scorer", "1"]
    assert heat(card, "before") is None
    words.nth(1).click()
    for picture in ("before", "after"):
        box, image = (card.locator(f".{picture} {part}").bounding_box() for part in ("canvas", "img"))
        assert box == image
        found = heat(card, picture)
        assert len(found) == 16
        # a word looks at the cell after that of the word before it, and a little everywhere
        brightest = found.index(max(found))
        assert sorted(found)[-2] < 0.5 * max(found)
    status = card.locator(".status")
    assert status.text_content() == (
        "“ball”, scorer: the brightest cell has 53.1 % of the attention (uniform attention: 6.3 %)."
    )
    words.nth(2).click()
    moved = heat(card, "after")
    assert moved.index(max(moved)) == (brightest + 1) % 16
    assert words.evaluate_all("all => all.map((one) => one.ariaPressed)").count("true") == 1
    words.nth(2).click()
    assert heat(card, "after") is None
    assert heat(shown(view).nth(3), "after") is None


def test_a_word_with_weights_has_a_bar_and_a_text(view):
    card = shown(view).nth(2)
    word = card.locator(".words button[data-model=duda]").nth(1)
    bar, box = word.locator(".shares").bounding_box(), word.bounding_box()
    assert box["y"] + box["height"] / 2 < bar["y"] < bar["y"] + bar["height"] <= box["y"] + box["height"]
    widths = word.locator(".shares i").evaluate_all(
        "all => all.map((one) => one.getBoundingClientRect().width)"
    )
    assert [width / sum(widths) for width in widths] == pytest.approx([0.08, 0.12, 0.8], abs=0.02)
    word.click()
    assert card.locator(".status").text_content() == (
        "“ball”, duda: the brightest cell has 53.1 % of the attention (uniform attention: 6.3 %); "
        "weights: before 8 %, the difference 12 %, after 80 %."
    )
    assert card.locator(".words button[data-model=scorer] .shares").count() == 0


def test_the_keyboard_goes_from_word_to_word(view):
    card = shown(view).nth(0)
    words = card.locator(".words button[data-model=scorer]")
    assert words.evaluate_all("all => all.map((one) => one.tabIndex)") == [0, -1, -1, -1, -1, -1]
    words.nth(0).focus()
    view.keyboard.press("Enter")
    first = heat(card, "after")
    view.keyboard.press("ArrowRight")
    assert words.nth(1).evaluate("one => one === document.activeElement && one.ariaPressed") == "true"
    assert heat(card, "after") not in (None, first)
    view.keyboard.press("ArrowLeft")
    assert heat(card, "after") == first
    view.keyboard.press("Escape")
    assert heat(card, "after") is None


def test_a_cell_of_the_after_image_shows_its_alignment(view):
    card = shown(view).nth(0)
    after = card.locator(".after .picture")
    after.scroll_into_view_if_needed()
    box = after.bounding_box()
    after.click(position={"x": 0.3 * box["width"], "y": 0.6 * box["height"]})  # row 2, column 1 of 4 x 4
    found = heat(card, "before")
    assert found.index(max(found)) == 2 * 4 + 1 + 1  # the next cell
    assert heat(card, "after") is None
    cell = card.locator(".after .cell").bounding_box()
    assert cell["x"] - box["x"] == pytest.approx(box["width"] / 4, abs=1)
    assert cell["y"] - box["y"] == pytest.approx(box["height"] / 2, abs=1)
    view.keyboard.press("ArrowDown")
    choose(view, aligned="scorer_cbr")
    said = "scorer_cbr aligns row 4, column 2 of after with row 4, column 3 of before."
    assert card.locator(".status").text_content() == said
