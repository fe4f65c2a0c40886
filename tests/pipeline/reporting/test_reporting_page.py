"""The page: one file, the same bytes each time, and safe for any caption."""

import base64
import hashlib
import re
from itertools import pairwise
from pathlib import Path

from pipeline.reporting import page
from tests.report_page import DATA, Reader, render, saying

HOSTILE = '<script>alert(1)</script><img src=x onerror="alert(2)">{{ 7 * 7 }}" onload=\'alert(3)\' &amp;'


def test_no_request_leaves_the_page(html, read):
    written = DATA.sub("", re.sub(r"data:image/jpeg;base64,[\w+/=]*", "data:", html))
    written = re.sub(r"(?m)^ *// .*$", "", written)  # the script's own comments
    assert not re.search(r"(?i)https?:|ftp:|file:|//\w|@import|url\((?!#)|srcset|<base", written)
    assert set(re.findall(r'\bsrc="([^,]*),', html)) == {"data:image/jpeg;base64"}
    assert len(re.findall(r"\ssrc=", written)) == len(read.all("img")) == 2 * 20 * 2
    assert [link["href"] for link in read.all("link")] == ["data:,"]
    assert all(link["href"].startswith("#") for link in read.all("a"))
    assert all(use["xlink:href"].startswith("#") for use in read.all("use"))
    assert not re.search(r"fetch|XMLHttp|WebSocket|EventSource|sendBeacon|import\(|innerHTML|eval", written)
    (policy,) = [meta["content"] for meta in read.all("meta") if "http-equiv" in meta]
    assert policy.startswith("default-src 'none'; ")


def test_one_script_runs_and_its_hash_is_in_the_policy(html, read):
    assert [script for script in read.all("script") if script != {"type": "application/json"}] == [{}]
    (script,) = re.findall(r"(?s)<script>(.*?)</script>", html)
    assert script == (Path(page.__file__).parent / "report.js").read_text()
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    (policy,) = [meta["content"] for meta in read.all("meta") if "http-equiv" in meta]
    assert f"script-src 'sha256-{digest}';" in policy


def test_ids_are_unique_and_links_lead_somewhere(html, read):
    ids = [attributes["id"] for _, attributes in read.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    targets = [link["href"] for link in read.all("a")] + re.findall(r"url\((#[^)]*)\)", html)
    targets += [use["xlink:href"] for use in read.all("use")]
    assert {target[1:] for target in targets} <= set(ids)


def test_tables_and_images_have_texts_for_screen_readers(read):
    assert len(read.all("caption")) == len(read.all("table")) >= 2 * 8
    assert {header["scope"] for header in read.all("th")} == {"col", "row"}
    assert all(image["alt"] for image in read.all("img"))
    assert all(a["aria-label"] for a in read.all("figure") if a.get("role") == "img")
    assert read.all("html") == [{"lang": "en"}]
    levels = [int(tag[1]) for tag, _ in read.tags if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1
    assert all(later - earlier <= 1 for earlier, later in pairwise(levels))


def test_a_hostile_caption_is_text(study):
    html = saying(study, HOSTILE)
    assert HOSTILE in "".join(Reader(html).text)
    assert html.count("<script>") == 1
    assert html.count("</script>") == 1 + 20
    assert "<img src=x" not in html


def test_equal_runs_give_equal_bytes(study, html):
    results, params = study
    assert render(results, params) == html
    assert saying(study, "one") == saying(study, "one") != saying(study, "another")
