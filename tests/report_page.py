"""Render the report's page of made-up runs, and parse it."""

import re
from dataclasses import replace
from html.parser import HTMLParser
from unittest.mock import patch

from pipeline.reporting import figures, page
from pipeline.statistics.pair_scores import ScoredPair
from tests.report_lab import attended

VOID = {"meta", "link", "img", "br", "rect", "line"}
DATA = re.compile(r'(?s)<script type="application/json">.*?</script>')


class Reader(HTMLParser):
    """Text, tags with their attributes, and the cells of every table; refuses tags that are not closed."""

    def __init__(self, html):
        super().__init__()
        self.text, self.tags, self.open, self.tables = [], [], [], []
        self.feed(html)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("th", "td"):
            self.tables[-1][-1].append("")

    def handle_endtag(self, tag):
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.text.append(data)
        if {"th", "td"} & set(self.open):
            self.tables[-1][-1][-1] += data

    def all(self, tag):
        return [attributes for name, attributes in self.tags if name == tag]


def render(results, params):
    return page.render(results, params)


def undrawn(results, params):
    """Render the page with empty diagrams, which is faster."""
    empty = '<svg viewBox="0 0 1 1" aria-hidden="true"></svg>'
    with patch.object(figures, "svg", lambda draw, salt: empty):
        return render(results, params)


def saying(study, caption):
    """Render the page of the first dataset, with this caption of the first model for every pair."""
    (results, _), params = study
    first, *others = results.runs
    first = replace(
        first,
        captions=dict.fromkeys(first.captions, caption),
        attended={pair: attended(caption, 0, "subtraction") for pair in first.attended},
    )
    return undrawn([replace(results, runs=[first, *others])], params)


def told(cider_d, **known):
    """Return the scores of a caption."""
    return ScoredPair.model_construct(cider_d=cider_d, **{"right": None} | known)
