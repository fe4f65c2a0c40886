"""SPICE driven through a Java that is made up: the right pair, one clear line, and nothing left behind."""

import json
import re
import threading
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from pipeline.compute import memory
from pipeline.io.errors import InputError
from pipeline.scoring import java, spice, spice_files
from pipeline.scoring.corpus import score
from tests.pipeline.scoring.conftest import left_behind

CAPTIONS = {"2": "a cat", "10": "a dog", "1": "é \u2028 ||| \ud800"}
REFERENCES = {"2": ["a cat sat"], "10": ["a dog", "dogs"], "1": ["a"]}
GIST = ' "scores": {"All": {"f": '
# f is a tenth of the number
ANSWER = f'[{{"image_id": 2,{GIST}0.2}}}}}}, {{"image_id": 0,{GIST}0}}}}}}, {{"image_id": 1,{GIST}0.1}}}}}}]'
WELL = f"echo '{ANSWER}' > \"$answer\""


class Fake:
    """A JAVA_HOME whose `java` notes its process id, keeps its questions, then does what the lines say."""

    def __init__(self, home: Path):
        self.home = home
        (home / "bin").mkdir(parents=True)

    def does(self, act: str, version: str = "21.0.1") -> None:
        script = self.home / "bin" / "java"
        script.write_text(
            f'#!/bin/sh\necho $$ >> "{self.home}/pids"\n'
            f"""case "$*" in *-version) echo 'openjdk version "{version}"' >&2; exit ;; esac\n"""
            f'echo "$@" >> "{self.home}/calls"\n'
            f'while [ "$1" != {spice.MAIN} ]; do shift; done\nquestion="$2"; answer="$4"; graphs="$9"\n'
            f'(cat "$question"; echo) >> "{self.home}/questions"\n{act}\n'
        )
        script.chmod(0o755)

    def questions(self) -> list[list[dict]]:
        return [json.loads(line) for line in (self.home / "questions").read_text().splitlines()]


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder, with all files taken for right, on a machine with 8 GiB free."""
    (tmp_path / "cache").mkdir()
    told = psutil.virtual_memory()._replace(available=2**33)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: told)
    monkeypatch.setattr(memory, "GROUPS", tmp_path / "groups")
    monkeypatch.setenv("SPICE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(spice_files, "problem", lambda: None)
    monkeypatch.setattr(spice, "CACHES", True)
    return tmp_path / "cache"


@pytest.fixture
def fake(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Fake]:
    fake = Fake(tmp_path / "java home")
    monkeypatch.setenv("JAVA_HOME", str(fake.home))
    fake.does(WELL)
    yield fake
    assert left_behind(fake.home / "pids") == []
    assert list(cache.glob("run-*")) == []


def refused(timeout: float = 60) -> str:
    with pytest.raises(InputError) as caught:
        spice.scores(CAPTIONS, REFERENCES, timeout)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_each_score_lands_on_its_pair(fake: Fake) -> None:
    scores = spice.scores(CAPTIONS, REFERENCES, 60)
    assert list(scores.items()) == [("2", 0.0), ("10", 0.1), ("1", 0.2)]
    items = [
        {"image_id": n, "test": CAPTIONS[key], "refs": REFERENCES[key]} for n, key in enumerate(CAPTIONS)
    ]
    assert fake.questions() == [items]


def test_it_is_available(fake: Fake) -> None:
    assert spice.unavailable(60) is None
    assert spice.VERSION == "1.0, CoreNLP 3.6.0"


@pytest.mark.parametrize("version", ["1.8.0_402", "10.0.2"])
def test_unavailable_with_an_old_java(fake: Fake, version: str) -> None:
    fake.does("exit 1", version)
    assert spice.unavailable(60) == f"Java is {version}, and SPICE needs 11 or later; {java.REMEDY}"


def test_unavailable_where_the_cache_cannot_be_written(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPICE_CACHE", "/proc/self")
    assert re.match(r"cannot write to \$SPICE_CACHE \(.+\); set SPICE_CACHE to", spice.unavailable(60))
    assert refused().startswith("SPICE cannot write to $SPICE_CACHE (")


def test_unavailable_where_java_cuts_the_path(
    fake: Fake, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SPICE_CACHE", str(tmp_path / "a:b"))
    assert "$SPICE_CACHE has ':' in its path" in spice.unavailable(60)


def test_unavailable_without_memory(fake: Fake, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(memory, "free", lambda: 2**30)
    assert spice.unavailable(60) == "1.0 GiB of memory are free, and SPICE needs 3; free some"


@pytest.mark.parametrize(
    ("act", "said"),
    [
        ("true", "SPICE wrote no answer (FileNotFoundError)"),
        ("echo '[{}]' > \"$answer\"", "SPICE answered no numbers: KeyError 'image_id'"),
        (WELL.replace("0.2", "null"), "SPICE answered no numbers: TypeError"),
        (WELL.replace("0.2", "NaN"), "SPICE answered 3 scores instead of 3 from 0 to 1"),
        (WELL.replace('"image_id": 2', '"image_id": 1'), "SPICE answered 2 scores"),
        (
            "echo 'Error: failed\norg.x.LMDBException: MDB_INVALID: no LMDB file' >&2; exit 1",
            "SPICE cannot use its cache (MDB_INVALID: no LMDB file); delete scene-graphs.mdb in $SPICE_CACHE",
        ),
        ("kill -9 $$", "SPICE: Java was killed by signal 9"),
        (
            f"{WELL}; echo 'WARNING: Parsing of sentence ran out of memory (length=99).  Will ignore.' >&2",
            "SPICE's parser ran out of its 3 GiB over a sentence of 99 words",
        ),
    ],
)
def test_a_jar_that_fails_is_one_line_and_nothing_is_kept(fake, cache, act, said):
    fake.does(f'echo parses > "$graphs/data.mdb"\n{act}')
    assert said in refused()
    assert [path.name for path in cache.iterdir() if path.name != spice.GRAPHS] == []
    if "exit code" in said or "memory" in said:
        assert not (cache / spice.GRAPHS).exists()


@pytest.mark.parametrize("where", ["caption", "reference"])
def test_a_sentence_that_is_too_long(cache: Path, where: str) -> None:
    long = "word " * 2000
    captions = {"1": "a", "x": long if where == "caption" else "a"}
    with pytest.raises(
        InputError, match=r"^SPICE: a sentence of x has 2000 words \('word word .*; shorten it$"
    ):
        spice.scores(captions, {"1": ["a"], "x": ["a", long if where == "reference" else "a"]}, 60)


def test_parses_are_kept_for_the_next_run(fake: Fake, cache: Path) -> None:
    parse = f'touch "$graphs/data.mdb"; grep -q x "$graphs/data.mdb" || echo x >> "$graphs/data.mdb"; {WELL}'
    fake.does(parse)
    spice.scores(CAPTIONS, REFERENCES, 60)
    assert (cache / spice.GRAPHS).read_text() == "x\n"
    fake.does(f'cat "$graphs/data.mdb" > "{fake.home}/read"; {WELL}')
    kept = (cache / spice.GRAPHS).stat()
    spice.scores(CAPTIONS, REFERENCES, 60)
    assert (fake.home / "read").read_text() == "x\n"
    assert (cache / spice.GRAPHS).stat() == kept, "nothing new, nothing written"


def test_runs_at_the_same_time_work_on_copies(fake: Fake, cache: Path) -> None:
    fake.does(f'[ ! -e "$graphs/data.mdb" ] || exit 1; echo $$ > "$graphs/data.mdb"; sleep 0.5; {WELL}')
    got: list[dict[str, float]] = []
    threads = [
        threading.Thread(target=lambda: got.append(spice.scores(CAPTIONS, REFERENCES, 60))) for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert got == [{"2": 0.0, "10": 0.1, "1": 0.2}] * 3
    assert (cache / spice.GRAPHS).read_text() in (fake.home / "pids").read_text()


def scored_many(fake: Fake, count: int) -> list[list[dict]]:
    """The questions asked for `count` captions that are one of seven sentences."""
    one = "[{" + f'"image_id": %d,{GIST}0.5' + "}}}]"
    answer = json.loads(one % 0)
    (fake.home / "answer").write_text(json.dumps([answer[0] | {"image_id": n} for n in range(count)]))
    fake.does(f'cp "{fake.home}/answer" "$answer"')
    captions = {str(n): f"sentence {n % 7}" for n in range(count)}
    assert spice.scores(captions, {key: ["a reference"] for key in captions}, 60) == dict.fromkeys(
        captions, 0.5
    )
    return fake.questions()


def test_repeated_sentences_are_parsed_once_and_in_portions(fake, monkeypatch):
    monkeypatch.setattr(spice, "PORTION", 5)
    *portions, whole = scored_many(fake, 60)
    assert [len(portion) for portion in portions] == [5, 3]
    parsed = [item["test"] for portion in portions for item in portion]
    assert sorted(parsed) == ["a reference", *(f"sentence {n}" for n in range(7))]
    assert len(whole) == 60


def test_without_a_cache_for_the_processor_all_is_parsed_in_one_run(fake, monkeypatch):
    monkeypatch.setattr(spice, "CACHES", False)
    assert [len(question) for question in scored_many(fake, 60)] == [60]
    assert "-cache" not in (fake.home / "calls").read_text()


@pytest.mark.usefixtures("without_java")
def test_where_spice_fails_the_other_metrics_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise InputError("SPICE took too long")

    monkeypatch.setattr(spice, "unavailable", lambda timeout: None)
    monkeypatch.setattr(spice, "scores", fail)
    found = score({"1": "a b", "2": "c"}, {"1": ["a b"], "2": ["d"]}, {}, 60, "none")
    assert found.subsets["total"]["SPICE"] is None
    assert found.subsets["total"]["METEOR"] == 0.5
    assert found.scorers["SPICE"] == "failed (SPICE took too long)"
    assert found.warnings[-1] == "SPICE: failed (SPICE took too long)"
