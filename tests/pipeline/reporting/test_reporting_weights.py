"""Weights of a decoder's inputs at each word: a bar below the word, numbers for the script, a legend."""

import json
import re

import pytest

from pipeline.reporting import dataset_results
from tests.report_lab import make_study
from tests.report_page import undrawn

WORD = re.compile(r'<button [^>]*data-model="(\w+)" data-place="(\d+)">[^<]*(.*?)</button>')


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    root = tmp_path_factory.mktemp("study")
    params = make_study(root, models=("subtraction", "duda"), seeds=(1,))
    return dataset_results.read(root, params), params


@pytest.fixture(scope="module")
def html(made):
    return undrawn(*made)


def bars(html):
    """Model -> position of a word -> percentages of its bar on the first card; () without a bar."""
    found = {}
    for model, place, inside in WORD.findall(html[: html.index("</article>")]):
        shares = re.findall(r'<i class="share-(\d)" style="flex: (\d+)"></i>', inside)
        assert [int(number) for number, _ in shares] == list(range(len(shares)))
        assert (inside == "") == (not shares)
        assert inside == "" or inside.startswith('<span class="shares" aria-hidden="true">')
        found.setdefault(model, {})[int(place)] = tuple(int(percent) for _, percent in shares)
    return found


def test_a_bar_below_each_word_of_a_model_with_weights(html):
    found = bars(html)
    assert found["duda"] == dict(enumerate([(12, 80, 8), (8, 12, 80), (80, 8, 12)] * 2))
    assert set(found["subtraction"].values()) == {()}


def test_the_script_has_the_same_numbers(html):
    maps = json.loads(re.search(r'(?s)<script type="application/json">(.*?)</script>', html)[1])
    assert maps["duda"]["weighed"] == ["before", "the difference", "after"]
    assert maps["duda"]["weights"] == [list(percents) for percents in bars(html)["duda"].values()]
    assert not {"weighed", "weights"} & maps["subtraction"].keys()
