"""SPICE with a made-up Java: each score on its pair, faults in one line, and nothing left behind."""

import hashlib
import json
from pathlib import Path

import pytest

from pipeline.compute import memory
from pipeline.io.errors import InputError
from pipeline.scoring import java, spice
from pipeline.scoring.corpus import score

CAPTIONS = {"2": "a cat", "10": "a dog", "1": "é \u2028 ||| \ud800"}
REFERENCES = {"2": ["a cat sat"], "10": ["a dog", "dogs"], "1": ["a"]}
ITEM = '{"image_id": %d, "scores": {"All": {"f": %s}}}'
DISTINCT = 6  # sentences
WHOLE = f"[{ITEM % (2, 0.2)}, {ITEM % (0, 0)}, {ITEM % (1, 0.1)}]"
PARSED = f"[{', '.join(ITEM % (n, 1) for n in range(DISTINCT))}]"
CONTENT = {"alpha-1.jar": b"the first", "beta-2-models.jar": b"the second"}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """SPICE's folder with two made-up jars, on a machine with 8 GiB of free memory."""
    (tmp_path / "cache").mkdir()
    for name, content in CONTENT.items():
        (tmp_path / "cache" / name).write_bytes(content)
    jars = {name: ("org:" + name, hashlib.sha256(content).hexdigest()) for name, content in CONTENT.items()}
    monkeypatch.setattr(spice, "JARS", jars)
    monkeypatch.setenv("SPICE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(spice, "CACHES", True)
    monkeypatch.setattr(memory, "free", lambda: 2**33)
    return tmp_path / "cache"


@pytest.fixture
def fake(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Write a `java` that keeps its questions in a file, and then runs a shell command."""
    home = tmp_path / "java home"
    (home / "bin").mkdir(parents=True)
    monkeypatch.setenv("JAVA_HOME", str(home))

    def write(command: str = "", version: str = "21.0.1", whole: str = WHOLE) -> Path:
        for name, answer in (("whole", whole), ("parsed", PARSED)):
            (home / name).write_text(answer)
        (home / "bin/java").write_text(
            f'#!/bin/sh\ncd "{home}"\n'
            f"""case "$*" in *-version) echo 'openjdk version "{version}"' >&2; exit ;; esac\n"""
            f'while [ "$1" != {spice.MAIN} ]; do shift; done\nquestion="$2"; answer="$4"; graphs="$9"\n'
            '(cat "$question"; echo) >> questions\n'
            'if [ -n "$graphs" ]; then cat "$graphs/data.mdb" >> caches; echo x >> "$graphs/data.mdb"; fi\n'
            f'if grep -q "a cat sat.*image_id.*: 5" "$question"; then cp parsed "$answer"; exit; fi\n'
            f'cp whole "$answer"\n{command}\n'
        )
        (home / "bin/java").chmod(0o755)
        return home

    yield write
    assert {path.name for path in folder.iterdir()} <= {*CONTENT, spice.GRAPHS}


def questions(home: Path) -> list[list[dict]]:
    return [json.loads(line) for line in (home / "questions").read_text().splitlines()]


def test_distinct_sentences_are_parsed_first_and_each_score_is_its_pairs(fake, folder) -> None:
    home = fake()
    assert spice.unavailable(60) is None
    assert list(spice.scores(CAPTIONS, REFERENCES, 60).items()) == [("2", 0.0), ("10", 0.1), ("1", 0.2)]
    parsed, whole = questions(home)
    assert [item["test"] for item in parsed] == [*CAPTIONS.values(), "a cat sat", "dogs", "a"]
    assert whole == [
        {"image_id": n, "test": CAPTIONS[key], "refs": REFERENCES[key]} for n, key in enumerate(CAPTIONS)
    ]
    # each run of Java found the sentences of the run before
    assert (folder / spice.GRAPHS).read_text() == "x\nx\n"
    assert (home / "caches").read_text() == "x\n"


def test_without_a_cache_for_the_processor_there_is_one_run(fake, folder, monkeypatch) -> None:
    monkeypatch.setattr(spice, "CACHES", False)
    home = fake()
    spice.scores(CAPTIONS, REFERENCES, 60)
    assert [len(items) for items in questions(home)] == [3]
    assert not (folder / spice.GRAPHS).exists()


def test_sentences_are_parsed_in_portions(fake, monkeypatch) -> None:
    monkeypatch.setattr(spice, "PORTION", 3)
    home = fake()
    spice.scores(CAPTIONS, REFERENCES, 60)
    assert [len(items) for items in questions(home)] == [3, 3, 3]


@pytest.mark.parametrize(
    ("command", "whole", "said"),
    [
        ('rm "$answer"', WHOLE, "SPICE gave no scores (FileNotFoundError)"),
        ("", "[{}]", "SPICE gave no scores (KeyError)"),
        ("", WHOLE.replace("0.2", "null"), "SPICE gave no scores (TypeError)"),
        ("", WHOLE.replace('"image_id": 2', '"image_id": 1'), "SPICE gave 2 scores instead of 3"),
        (
            "echo 'Error: failed\norg.x.LMDBException: MDB_INVALID' >&2; exit 1",
            WHOLE,
            "(LMDBException: MDB_INVALID); free some memory or disk space, or delete scene-graphs.mdb in $",
        ),
        ("kill -9 $$", WHOLE, "SPICE: Java ended with exit code -9"),
        (
            "echo 'WARNING: Parsing of sentence ran out of memory (length=99).  Will ignore.' >&2",
            WHOLE,
            "over a sentence of 99 words",
        ),
    ],
)
def test_a_jar_that_fails_is_one_line(fake, command: str, whole: str, said: str) -> None:
    fake(command, whole=whole)
    with pytest.raises(InputError) as caught:
        spice.scores(CAPTIONS, REFERENCES, 60)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("where", ["caption", "reference"])
def test_a_sentence_that_is_too_long(where: str) -> None:
    long = "word " * 2000
    references = {"1": ["a"], "x": ["a", long if where == "reference" else "a"]}
    with pytest.raises(InputError, match="a sentence of x has 2000 words"):
        spice.scores({"1": "a", "x": long if where == "caption" else "a"}, references, 60)


def test_reasons_why_it_is_unavailable(fake, folder, monkeypatch) -> None:
    fake(version="1.8.0_402")
    assert spice.unavailable(60) == f"Java is 1.8.0_402, and SPICE needs 11 or later; {java.REMEDY}"
    fake()
    monkeypatch.setattr(memory, "free", lambda: 2**30)
    assert spice.unavailable(60) == "1.0 GiB of memory are free, and SPICE needs 3; free some"
    (folder / "beta-2-models.jar").write_bytes(b"the thirst")
    assert spice.unavailable(60).startswith("beta-2-models.jar in $SPICE_CACHE is not the published file")
    (folder / "alpha-1.jar").unlink()
    assert spice.unavailable(60) == (
        "alpha-1.jar is not in $SPICE_CACHE; put Maven's org:alpha-1.jar there (docs/evaluation.md#spice)"
    )


def test_the_folder(monkeypatch) -> None:
    monkeypatch.delenv("SPICE_CACHE", raising=False)
    assert spice.folder() == Path(__file__).parents[3] / ".cache/spice"
    assert spice.folder_name() == ".cache/spice"
    monkeypatch.setenv("SPICE_CACHE", "/proc/self")
    assert (spice.folder(), spice.folder_name()) == (Path("/proc/self"), "$SPICE_CACHE")
    with pytest.raises(InputError, match=r"SPICE cannot write to \$SPICE_CACHE"):
        spice.scores(CAPTIONS, REFERENCES, 60)


@pytest.mark.usefixtures("without_java")
def test_if_spice_fails_the_other_metrics_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise InputError("SPICE took too long")

    monkeypatch.setattr(spice, "unavailable", lambda timeout: None)
    monkeypatch.setattr(spice, "scores", fail)
    found = score({"1": "a b", "2": "c"}, {"1": ["a b"], "2": ["d"]}, {}, 60, "none")
    assert found.subsets["total"]["SPICE"] is None
    assert found.subsets["total"]["METEOR"] == 0.0
    assert found.scorers["SPICE"] == "failed (SPICE took too long)"
    assert found.warnings[-1] == "SPICE: failed (SPICE took too long)"
