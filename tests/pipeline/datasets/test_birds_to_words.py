"""The Birds-to-Words reader: a table of addresses, and the files of their images."""

import pytest

from pipeline.datasets import readers
from pipeline.datasets.birds_to_words import caption
from pipeline.datasets.schema import Pair
from pipeline.io.errors import InputError
from tests.synthetic_real import BIRD_COLUMNS, make_birds_to_words, write_json

TABLE = "birds-to-words-v1.0.tsv"
ADDRESS = "https://static.inaturalist.org/photos/{}/large.jpg?1"


@pytest.fixture
def root(tmp_path):
    return make_birds_to_words(tmp_path / "raw")


def edit(root, line, **fields):
    """Replace fields of one line of the table, counted from 1 below its head."""
    lines = (root / TABLE).read_text().split("\n")
    row = dict(zip(BIRD_COLUMNS, lines[line].split("\t"), strict=True))
    lines[line] = "\t".join((row | fields).values())
    (root / TABLE).write_text("\n".join(lines))


def read(root):
    return readers.read("birds_to_words", root)


def test_all_descriptions_of_two_images_are_one_pair(root):
    pairs = read(root)
    captions = tuple(
        f"animal1 has {note} spots, while animal2 is grey. animal2 is taller." for note in (1, 2)
    )
    assert pairs[0] == Pair("101_200", "101_200", "train", "images/101.jpg", "images/200.jpg", captions)
    # the next pair has the same first bird
    assert [(pair.pair_id, pair.scene_id) for pair in pairs[1:3]] == [
        ("101_201", "101_200"),
        ("102_202", "102_202"),
    ]


@pytest.mark.parametrize(
    ("description", "expected"),
    [
        ("Animal 1 is RED; Animal  2, isn't.", "animal1 is red; animal2, isn't."),
        ("animal 12 and animals 1", "animal 12 and animals 1"),
        (' "Animal 2" ', '"animal2"'),
    ],
)
def test_the_processed_form(description, expected):
    assert caption(description) == expected


def test_quotation_marks_of_csv_writers_go_and_others_stay(root):
    edit(root, 1, description='"A ""big"" bird"')
    edit(root, 2, description='"Animal 1 sings" louder')
    assert read(root)[0].captions == ('a "big" bird', '"animal1 sings" louder')


def test_the_observation_names_the_photo_if_its_address_does_not(root):
    for line in (1, 2):
        edit(root, line, img1ImgURL="https://example.org/large.jpg")
    assert read(root)[0].before == "images/101.jpg"


FILES = {ADDRESS.format(n): f"mine/{n}.png" for n in (*range(101, 120), *range(200, 220))}


def test_images_json_names_the_files(root):
    write_json(root / "images.json", FILES)
    assert (read(root)[0].pair_id, read(root)[0].after) == ("101_200", "mine/200.png")


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({200: "../200.png"}, r"images\.json(?s:.)*must be a file in the dataset's folder"),
        ({219: None}, "line 40: no file is known for "),
        ({219: "other/218.jpg", 119: "x/118.jpg"}, "two pairs are called 118_218"),
    ],
)
def test_a_wrong_images_json_is_refused(root, changed, named):
    files = FILES | {ADDRESS.format(number): file for number, file in changed.items()}
    write_json(root / "images.json", {address: file for address, file in files.items() if file})
    with pytest.raises(InputError, match=named):
        read(root)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"split": "trian"}, "line 2: the split is 'trian', not train, val or test"),
        ({"split": "val"}, "line 3: the pair is in val and in train"),
        ({"annN": "1\t2"}, "line 2 has 12 fields, not 11"),
        (
            {"img1ImgURL": "http://a/b.jpg", "img1ObservationURL": "http://a/photos/x"},
            "line 2: no file is known for 'http://a/b.jpg'",
        ),
    ],
)
def test_wrong_lines_are_named(root, fields, said):
    edit(root, 1, **fields)
    with pytest.raises(InputError, match=rf"v1\.0\.tsv(?s:.)*{said}"):
        read(root)


def test_pairs_without_a_caption_are_named(root):
    edit(root, 1, description=" ")
    assert len(read(root)[0].captions) == 1
    edit(root, 2, description="")
    with pytest.raises(InputError, match="the pair 101_200 has no caption"):
        read(root)


def test_tables_of_another_kind(root):
    lines = (root / TABLE).read_text().split("\n")
    (root / TABLE).write_text("\n".join(lines[1:]))
    with pytest.raises(InputError, match="its first line must name the columns img1ObservationURL"):
        read(root)
    (root / TABLE).write_text("\n".join([lines[0], *(line for line in lines[1:] if "\ttest\t" not in line)]))
    with pytest.raises(InputError, match=r"v1\.0\.tsv has no pair in 'test'"):
        read(root)
