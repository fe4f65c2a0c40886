"""Check README and docs: links, references from the code, and descriptions that must not be missing."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from dataclasses import fields
from functools import cache
from pathlib import Path

import pytest
import yaml

from models.common.switches import PAPER, RELEASED, RELEASED_DIRL, Switches
from tests import project_params

ROOT = Path(__file__).parents[1]
SOURCES = [
    ROOT / "setup.py",
    *(
        path
        for folder in (
            "benchmarks",
            "change_captioning_lab",
            "models",
            "pipeline",
            "stages",
            "commands",
            "tests",
        )
        for path in sorted((ROOT / folder).rglob("*.py"))
    ),
]
PROGRAM = [path for path in SOURCES if path.relative_to(ROOT).parts[0] != "tests"]
PAGES = [
    *(ROOT / name for name in ("README.md", "data/README.md", "benchmarks/README.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
]
FENCE = re.compile(r"^ *(```|~~~).*?^ *\1[^\n]*$", re.MULTILINE | re.DOTALL)
REFERENCE = re.compile(r"([\w./-]+\.md)\b(?:, \"([^\"]+)\")?")
NAMED = re.compile(r"(?<![\w./])(?:docs/|data/|benchmarks/|)[\w-]+\.md\b")
MODULE = re.compile(r"(?<![\w./*-])(?:[\w-]+/)*\w[\w-]*\.(?:py|j2|js)\b")
LINK = re.compile(r"\]\(([^()\s]+)\)")
CITATION = {"cff-version", "message", "type", "title", "authors", "license", "references"}


def headings(page: str) -> list[str]:
    """Return the headings of a page without Markdown."""
    found = re.findall(r"^#{1,6} +(.+?)(?: +#+)? *$", FENCE.sub("", page), re.MULTILINE)
    return [re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", text).replace("`", "") for text in found]


def anchors(page: str) -> set[str]:
    """Return GitHub's anchors: lower case, no punctuation, hyphens; a repeated anchor ends in -1, -2, ..."""
    found: dict[str, int] = {}
    for text in headings(page):
        slug = re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")
        count = found.get(slug, 0)
        found[slug] = count + 1
        if count:
            found[f"{slug}-{count}"] = 1
    return set(found)


@cache
def prose(source: str) -> tuple[str, ...]:
    """Return the docstrings and blocks of comments of a Python source, with collapsed white space."""
    return tuple(_prose(source))


def _prose(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and (
            text := ast.get_docstring(node)
        ):
            yield " ".join(text.split())
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    comments = {
        token.start[0]: token.string.lstrip("#") for token in tokens if token.type == tokenize.COMMENT
    }
    run = ""
    for line, text in comments.items():
        run += text
        if line + 1 not in comments:
            yield " ".join(run.split())
            run = ""


def lost_references(source: str, root: Path) -> list[str]:
    """Return the faults of a source's references to pages: each must name a file and a heading."""
    problems = []
    for text in prose(source):
        for name, heading in REFERENCE.findall(text):
            if not (root / name).is_file():
                problems.append(f"{name} does not exist")
            elif not heading:
                problems.append(f'{name} without a heading; write {name}, "Heading"')
            elif heading not in headings((root / name).read_text(encoding="utf-8")):
                problems.append(f"{name} has no heading {heading!r}")
    return problems


def lost_pages(source: str, root: Path) -> list[str]:
    """Return the pages that the strings of a source name and that do not exist."""
    texts = [node.value for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Constant)]
    named = {name for text in texts if isinstance(text, str) for name in NAMED.findall(text)}
    return sorted(name for name in named if not (root / name).is_file())


def lost_modules(text: str, files: list[str]) -> list[str]:
    """Return the modules and templates that a text names (by path or name) and that are not in `files`."""
    return [
        name for name in MODULE.findall(text) if not any(f"/{file}".endswith(f"/{name}") for file in files)
    ]


def lost_links(page: Path) -> list[str]:
    """Return the relative links of a page that lead to no file or heading."""
    text = page.read_text(encoding="utf-8")
    problems = []
    for link in LINK.findall(re.sub(r"`[^`\n]*`", "", FENCE.sub("", text))):
        if re.match(r"[a-z]+:", link):
            continue
        name, _, anchor = link.partition("#")
        target = page.parent / name if name else page
        if not target.exists():
            problems.append(f"{link}: there is no such file")
        elif anchor and anchor not in anchors(target.read_text(encoding="utf-8")):
            problems.append(f"{link}: there is no such heading")
    return problems


def unnamed(names: list[str], page: str) -> list[str]:
    """Return the names that the page does not have as code."""
    return [name for name in names if f"`{name}`" not in page]


def switch_rows(page: str) -> dict[str, list[str]]:
    """Read the table of switches (name, subject, three values). Return switch -> its values."""
    rows = re.findall(r"^\| `(\w+)` \| [^|]+ \| (\S+) \| (\S+) \| (\S+) \|$", page, re.MULTILINE)
    return {name: list(values) for name, *values in rows}


def faults(citation: str) -> list[str]:
    """Return what a CITATION.cff lacks."""
    record = yaml.safe_load(citation)
    missing = [f"{key} is missing" for key in sorted(CITATION - set(record))]
    for entry in [record, *record.get("references", [])]:
        authors = entry.get("authors") or [{}]
        if any(not ({"name", "family-names"} & set(author)) for author in authors):
            missing.append(f"{entry.get('title')}: an author without a name")
    for reference in record.get("references", []):
        missing += [
            f"{reference.get('title')}: {key}" for key in ("type", "title", "year") if key not in reference
        ]
    return missing


def test_references_from_code_lead_to_headings():
    found = {path: lost_references(path.read_text(encoding="utf-8"), ROOT) for path in SOURCES}
    assert {path: lost for path, lost in found.items() if lost} == {}


def test_messages_name_pages_that_exist():
    found = {path: lost_pages(path.read_text(encoding="utf-8"), ROOT) for path in PROGRAM}
    assert {path: lost for path, lost in found.items() if lost} == {}


def test_named_modules_exist():
    there = [
        *SOURCES,
        *(path for ending in ("j2", "js") for path in (ROOT / "pipeline").rglob(f"*.{ending}")),
    ]
    files = [str(path.relative_to(ROOT)) for path in there]
    texts = {path: "\n".join(prose(path.read_text(encoding="utf-8"))) for path in PROGRAM}
    texts |= {path: path.read_text(encoding="utf-8").replace("\\", "") for path in PAGES}
    found = {path: lost_modules(text, files) for path, text in texts.items()}
    assert {path: lost for path, lost in found.items() if lost} == {}


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_to_files_and_headings(path):
    assert lost_links(path) == []


def test_every_switch_is_described_with_its_values():
    rows = switch_rows((ROOT / "docs/methods.md").read_text(encoding="utf-8"))
    variants = (PAPER, RELEASED, RELEASED_DIRL)

    def shown(value):
        return str(value).lower() if isinstance(value, bool) else str(value)

    assert rows == {
        field.name: [shown(getattr(variant, field.name)) for variant in variants]
        for field in fields(Switches)
    }


def test_every_dataset_is_described():
    assert (
        unnamed([*project_params.tree()["dataset"]], (ROOT / "docs/datasets.md").read_text(encoding="utf-8"))
        == []
    )


def test_the_citation_is_complete():
    text = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert faults(text) == []
    assert "doi" not in text


def test_a_lost_reference_is_found(tmp_path):
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/a.md").write_text("# A page\n\n```\n# not a heading\n```\n## `x` and y\n")
    good = '"""See docs/a.md,\n"x and y"."""\nn = 1  # as docs/a.md,\n# "A page" says\n'
    assert lost_references(good, tmp_path) == []
    bad = (
        '"""docs/b.md, "A page"."""\n'
        'def f():\n    """docs/a.md, "A\npage that is not"."""\n'
        "# docs/a.md section 9\n"
        '# docs/a.md, "not a heading"\n'
    )
    assert lost_references(bad, tmp_path) == [
        "docs/b.md does not exist",
        "docs/a.md has no heading 'A page that is not'",
        'docs/a.md without a heading; write docs/a.md, "Heading"',
        "docs/a.md has no heading 'not a heading'",
    ]


def test_a_lost_page_is_found(tmp_path):
    (tmp_path / "here.md").write_text("")
    source = 'raise E(f"{x}; see data/README.md")\nprint("here.md", f"{x}.md", b"gone.md", "a.mdx")\n'
    assert lost_pages(source, tmp_path) == ["data/README.md"]


def test_a_lost_module_is_found():
    files = ["models/scorer.py", "pipeline/demo/page.js"]
    assert (
        lost_modules("scorer.py; models/scorer.py, demo/page.js, models/<yours>.py, test_*_x.py", files) == []
    )
    assert lost_modules("orer.py; models/page.js", files) == ["orer.py", "models/page.js"]


def test_a_lost_link_is_found(tmp_path):
    page = tmp_path / "a.md"
    page.write_text(
        "# What's new: 2,000 `x_y`?\n## Twice\n## Twice\n"
        "[1](#whats-new-2000-x_y) [2](#twice-1) [3](a.md#twice) [4](https://example.org/no.md) `[5](no.md)`\n"
    )
    assert lost_links(page) == []
    page.write_text("# Here\n[1](no.md) [2](#gone) [3](a.md#Here)\n```\n[4](no.md)\n```\n")
    assert lost_links(page) == [
        "no.md: there is no such file",
        "#gone: there is no such heading",
        "a.md#Here: there is no such heading",
    ]


def test_what_a_page_leaves_out_is_found():
    assert unnamed(["tabletop", "clevr_dc"], "`tabletop`, clevr_dc") == ["clevr_dc"]
    table = "| switch | concerns | a | b | c |\n|---|---|---|---|---|\n"
    table += "| `mtm` | Eq. 2 | x | y | z |\n| `mean` | no | x |\n"
    assert switch_rows(table) == {"mtm": ["x", "y", "z"]}


def test_a_poor_citation_is_found():
    text = "cff-version: 1.2.0\nmessage: m\ntype: software\ntitle: t\nauthors: [{name: n}]\nlicense: MIT\n"
    assert faults(text) == ["references is missing"]
    text += "references: [{title: r, type: article, authors: [{orcid: o}]}]\n"
    assert faults(text) == ["r: an author without a name", "r: year"]
