"""Text, JSON and YAML are read as DVC reads them; a bad file is one line that names it."""

import os
from pathlib import Path

import pytest
from dvc.utils.serialize import load_yaml
from hypothesis import given
from hypothesis import strategies as st

from pipeline.io import inputs, outputs
from pipeline.io.errors import InputError
from tests.hostile import LEVELS, refused, shallow

ROOT = Path(__file__).parents[3]
NUMBERS = ["5e-05", "1e5", "0o17", "089", "1_000", "0x1f", ".5", "1.", "=", "<<", "~", "yes", "off", "1:30"]
TREES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.floats(allow_nan=False)
    | st.text(st.characters(exclude_categories=("Cs",)), max_size=8)
    | st.from_regex(r"\A[-+.0-9a-foxE_:]{1,8}\Z")
    | st.sampled_from([*NUMBERS, "2026-01-02", "null", "true", "- a", "a: b", "# a"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text("ab1e5", max_size=4), inner, max_size=3)
    ),
    max_leaves=6,
)


def written(folder, text):
    path = folder / "a.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: 1\nb: 2\na: 3\n", 'found duplicate key "a".*; correct it, or ask'),
        ("a: [", "is not valid YAML .*; correct it, or ask"),
        ("- " * (inputs.DEEPEST + 1), "is not valid YAML .*depth.*; correct it, or ask"),
        ("a: *nobody", "is not valid YAML .*undefined alias.*; correct it, or ask"),
        ("a: 1\n---\nb: 1\n", "is not valid YAML .*another document.*; correct it, or ask"),
        ("!!python/object/apply:os.getcwd []", "is not valid YAML .*; correct it, or ask"),
        ("a: 2026-99-99", "is not valid YAML .*; correct it, or ask"),
        ("a: =", "is not valid YAML .*; correct it, or ask"),  # as DVC refuses it
        ("a: \x1b[2J", "is not valid YAML .*; correct it, or ask"),
        (b"a: \xff", "is not UTF-8 text"),
        (
            "#" * (inputs.LARGEST_YAML + 1),
            "has 1,048,577 bytes, and the limit for .* is 1 MiB",
        ),
    ],
    ids=lambda each: repr(each)[:30],
)
@pytest.mark.parametrize("foreign", [False, True])
def test_yaml_that_is_refused(tmp_path, text, said, foreign):
    if foreign and "*" in str(text):
        said = "line 1: an alias"
    path = written(tmp_path, text)
    with pytest.raises(InputError, match=said) as caught:
        inputs.read_yaml(path, "ask", foreign=foreign)
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize(
    "name", ["params.yaml", "datasets.yaml", "dvc.yaml", "data/published/spot_the_diff.yaml"]
)
def test_yaml_is_what_dvc_reads(name):
    assert repr(inputs.read_yaml(ROOT / name, "")) == repr(load_yaml(str(ROOT / name)))  # types, order, too


@given(TREES)
def test_a_tree_that_is_written_as_yaml_is_read_equal(tmp_path_factory, tree):
    path = written(tmp_path_factory.getbasetemp(), outputs.yaml_of({"a": tree}))
    for foreign in (False, True):
        assert repr(inputs.read_yaml(path, "", foreign=foreign)) == repr({"a": tree})


def test_merge_keys_are_read_but_not_in_untrusted_files(tmp_path):
    path = written(tmp_path, "a: &a {x: 1, y: 2}\nb: {<<: *a, x: 3}\nc: *a\n")
    assert inputs.read_yaml(path, "") == {
        "a": {"x": 1, "y": 2},
        "b": {"x": 3, "y": 2},
        "c": {"x": 1, "y": 2},
    }
    with pytest.raises(InputError, match=r"a\.yaml, line 2: an alias"):
        inputs.read_yaml(path, "", foreign=True)


TEXT = '{"é": 1}'
SAVED = {
    "utf-8": ("utf-8", ""),
    "utf-8 with a mark": ("utf-8-sig", ""),
    "utf-16 with a mark": ("utf-16", "line 1 is UTF-16"),
    "utf-16, low byte first": ("utf-16-le", "line 1 is UTF-16"),
    "utf-16, high byte first": ("utf-16-be", "line 1 is UTF-16"),
    "Windows-1252": ("cp1252", "is not UTF-8 text (line 1: byte 0xe9)"),
}


@pytest.mark.parametrize(("encoding", "said"), SAVED.values(), ids=SAVED)
def test_one_reader_for_all_text(tmp_path, encoding, said):
    path = written(tmp_path, TEXT.encode(encoding))
    for read in (inputs.read_text, inputs.read_json, inputs.read_yaml, lambda *a: [*inputs.read_lines(*a)]):
        if said:
            assert said in refused(lambda read=read: read(path, "ask"))
        else:
            assert read(path, "ask") in (TEXT, {"é": 1}, [TEXT])


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_lines_are_counted_whatever_ends_them(tmp_path, end):
    assert [*inputs.read_lines(written(tmp_path, f"a{end}{end}b{end}"), "ask")] in (
        ["a", "", "b"],
        ["a", "", "b", ""],
    )
    path = written(tmp_path, f"a{end}{end}".encode() + b"\xff" + end.encode())
    for read in (lambda: inputs.read_text(path, "ask"), lambda: [*inputs.read_lines(path, "ask")]):
        assert "line 3" in refused(read)


def test_half_a_character_in_json_is_refused(tmp_path):
    assert "half a character" in refused(
        lambda: inputs.read_json(written(tmp_path, '{"a": "\\ud83d"}'), "ask")
    )
    assert inputs.read_json(written(tmp_path, '"\\ud83d\\ude00"'), "ask") == "😀"


def test_json_that_is_nested_too_deep_is_refused(tmp_path):
    path = written(tmp_path, "[" * LEVELS + "]" * LEVELS)
    with shallow():
        assert "is not valid JSON (maximum recursion depth" in refused(lambda: inputs.read_json(path, "ask"))


def test_each_caller_gets_a_tree_of_its_own(tmp_path):
    path = written(tmp_path, "a: {b: [1]}\n")
    inputs.read_yaml(path, "")["a"]["b"].append(2)
    assert inputs.read_yaml(path, "") == {"a": {"b": [1]}}
    written(tmp_path, "a: {b: [3]}\n")
    assert inputs.read_yaml(path, "") == {"a": {"b": [3]}}


def test_a_pipe_is_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for read in (inputs.read_text, inputs.read_json, inputs.read_yaml):
        for path in (tmp_path / "pipe", "/dev/null", "/dev/stdin"):
            if Path(path).is_file():  # what pytest was started with
                continue
            with pytest.raises(InputError, match=f"^{path} is a pipe or a device, which may never end"):
                read(path, "ask")


@pytest.mark.parametrize("parser", [inputs.CParser, None], ids=["libyaml", "pure Python"])
def test_yaml_is_read_alike_without_the_private_parser(tmp_path, monkeypatch, parser):
    monkeypatch.setattr(inputs, "CParser", parser)
    inputs._yaml_value.cache_clear()
    path = tmp_path / "x.yaml"
    path.write_text("a: [5e-05, off, yes, 010, ~]\nb: {c: 'd', e: !!str 1}\n")
    assert inputs.read_yaml(path, "restore it") == {
        "a": [5e-05, "off", "yes", 10, None],
        "b": {"c": "d", "e": "1"},
    }
    for wrong in ("a: [", "a: 1\na: 2", "[" * 100):
        path.write_text(wrong)
        with pytest.raises(InputError, match=r"x\.yaml"):
            inputs.read_yaml(path, "restore it")
    inputs._yaml_value.cache_clear()
