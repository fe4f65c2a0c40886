"""Commands that judge captions of other programs, and compare metrics with these verdicts."""

import json
from dataclasses import replace

import pytest

from pipeline.datasets.schema import write_pairs
from pipeline.io.content_hashes import file_hash
from tests import project_params
from tests.pipeline.free_english.scenes import SCENES
from tests.running import refuse, succeed
from tests.scored import SCORED, line, write

NAMES = ("color", "drop", "none", "move")
PAIRS = [replace(SCENES[name], pair_id=f"{name}.png", scene_id=name[0]) for name in NAMES]
SAID = [
    "A yellow cylinder became turquoise.",
    "The big blue cylinder became invisible to me.",
    "Both scenes are the same; nothing was altered.",
    "The small green cube was moved. The red cylinder disappeared.",
]


@pytest.fixture
def place(tmp_path):
    project_params.write(tmp_path)
    write_pairs(tmp_path / "pairs.jsonl", PAIRS)
    rows = [{"id": pair.pair_id, "prediction": said} for pair, said in zip(PAIRS, SAID, strict=True)]
    (tmp_path / "answers.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return tmp_path


def rows(said):
    """Name of a row -> its numbers, as printed."""
    found = [line.split() for line in said.splitlines()]
    return {words[0]: words[1:] for words in found if len(words) > 4 and words[1].isdigit()}


def test_free_english_is_judged(place, capsys):
    outputs = "--name some --row row.json --out v.jsonl"
    succeed(place, f"judge answers.jsonl --pairs pairs.jsonl --reader free {outputs}")
    said = capsys.readouterr().out
    found = rows(said)
    assert (found["all"][:2], found["changed"][:2]) == (["4", "50.0"], ["3", "33.3"])
    assert found["changed"][-1] == "33.3"
    assert "unreadable: 1 of 4 captions" in said
    assert "drop.png: The big blue cylinder became invisible" in said
    row = json.loads((place / "row.json").read_text())
    assert (row["name"], row["reader"], row["judged_by"], row["scenes"]) == ("some", "free", "scene", 4)
    assert row["true"]["all"]["value"] == 0.5
    assert row["true"]["all"]["low"] < 0.5 < row["true"]["all"]["high"]
    assert row["unreadable"]["value"] == 0.25
    assert row["hashes"]["captions"] == file_hash(place / "answers.jsonl")
    verdicts = [json.loads(line) for line in (place / "v.jsonl").read_text().splitlines()]
    assert [each["true"] for each in verdicts] == [True, False, True, False]
    assert [claim["verdict"] for claim in verdicts[3]["claims"]] == ["correct", "wrong"]


def test_the_strict_grammar_is_the_default(place, capsys):
    succeed(place, "judge answers.jsonl --pairs pairs.jsonl --show 0")
    found = rows(capsys.readouterr().out)
    assert found["changed"][1] == "0.0"
    assert found["changed"][-1] == "100.0"


def test_the_strict_grammar_knows_the_sentences_of_no_change(place, capsys):
    texts = ["the yellow cylinder turned cyan", "x", "the scene is the same as before", "nothing has changed"]
    results = [{"image_id": pair.pair_id, "caption": text} for pair, text in zip(PAIRS, texts, strict=True)]
    (place / "captions.json").write_text(json.dumps(results))
    succeed(place, "judge captions.json --pairs pairs.jsonl --show 0 --out verdicts.jsonl")
    assert rows(capsys.readouterr().out)["unchanged"][:2] == ["1", "100.0"]
    verdicts = [json.loads(line)["true"] for line in (place / "verdicts.jsonl").read_text().splitlines()]
    assert verdicts == [True, False, True, False]


def test_without_scenes_the_references_are_compared(place, capsys):
    captions = "the yellow cylinder turned cyan", "the large blue cylinder is gone", "there is no change", "x"
    bare = [replace(pair, scene=None, captions=(said,)) for pair, said in zip(PAIRS, captions, strict=True)]
    write_pairs(place / "pairs.jsonl", bare)
    succeed(place, "judge answers.jsonl --pairs pairs.jsonl --reader free --row row.json")
    assert rows(capsys.readouterr().out)["unchanged"][1] == "100.0"
    row = json.loads((place / "row.json").read_text())
    assert (row["judged_by"], row["true"]["color"]["value"]) == ("references", 1.0)
    false = ["the red ball is gone"] * 4
    results = [{"id": pair.pair_id, "caption": said} for pair, said in zip(PAIRS, false, strict=True)]
    (place / "false.json").write_text(json.dumps(results))
    capsys.readouterr()
    succeed(place, "judge false.json --pairs pairs.jsonl --row row.json")
    said = " ".join(capsys.readouterr().out.split())
    assert "faults (captions)" not in said
    assert "no faults are named for 4 false captions" in said
    assert json.loads((place / "row.json").read_text())["faults_of_changed"] is None
    unknown = [replace(each, change_type=None, captions=("the ball looks nice",)) for each in bare]
    write_pairs(place / "pairs.jsonl", unknown)
    refuse(place, "judge answers.jsonl --pairs pairs.jsonl", "pair color.png has no scene")


def test_thoughts_and_nulls_are_no_answers(place, capsys):
    said = [f"<think>\nThe red ball moved.\n</think>\n\n**Answer:** {SAID[0]}", None, f"<think>\n{SAID[2]}"]
    rows_of = [
        {"id": pair.pair_id, "caption": pair.captions[0], "output": text}
        for pair, text in zip(PAIRS, [*said, SAID[3]], strict=True)
    ]
    (place / "outputs.json").write_text(json.dumps(rows_of))
    refuse(place, "judge outputs.json --pairs pairs.jsonl --reader free", "outputs.json")
    capsys.readouterr()
    out = "--key output --out v.jsonl --row row.json"
    succeed(place, f"judge outputs.json --pairs pairs.jsonl --reader free {out}")
    printed = capsys.readouterr().out
    assert "unreadable: 2 of 4 captions" in printed
    assert "2 of these are no answer" in printed
    assert json.loads((place / "row.json").read_text())["missing"] == 2
    verdicts = [json.loads(line) for line in (place / "v.jsonl").read_text().split("\n") if line]
    assert [each["true"] for each in verdicts] == [True, False, False, False]
    assert [each["caption"] for each in verdicts[:3]] == [SAID[0], "", ""]


def test_wrong_arguments_are_refused(place):
    refuse(place, "judge none.jsonl --pairs pairs.jsonl", "none.jsonl is missing")
    refuse(place, "judge answers.jsonl --pairs answers.jsonl", "answers.jsonl")
    refuse(place, "judge answers.jsonl --pairs pairs.jsonl --row answers.jsonl", "named twice")


def test_scores_of_other_judges_are_compared_with_truth(place, capsys):
    succeed(place, "judge answers.jsonl --pairs pairs.jsonl --reader free --out v.jsonl")
    scores = {"color.png": 9, "drop.png": 2, "none.png": 5, "move.png": 4}
    (place / "good.json").write_text(json.dumps(scores))
    (place / "bad.csv").write_text("id,score\n" + "".join(f"{key},{-own}\n" for key, own in scores.items()))
    capsys.readouterr()
    succeed(place, "agreement v.jsonl --scores LLM good.json --scores inverse bad.csv")
    said = [line.split() for line in capsys.readouterr().out.splitlines()]
    found = {words[0]: words for words in said if words}
    assert found["LLM"][-2:] == ["100", "%"]
    assert found["inverse"][-2:] == ["0", "%"]
    (place / "short.json").write_text(json.dumps({"color.png": 1}))
    for arguments, said in (
        ("--scores LLM good.json bad.csv", "LLM has 2 file(s) of scores for 1 run(s)"),
        ("", "no metric to compare"),
        ("--models a b --scores LLM good.json", "--models has 2 name(s)"),
        ("--scores LLM short.json", "short.json lacks pairs"),
    ):
        refuse(place, f"agreement v.jsonl {arguments}", said)


def test_runs_that_were_not_scored_alike_are_not_ranked(place, capsys):
    def run(name, **changes):
        truths = [line(n) | {"changed": True, "true": n < 3} | changes for n in range(6)]
        return write(place / f"{name}.jsonl", truths)

    run("a")
    run("tokeniser", scored=SCORED | {"tokeniser": "none"})
    run("references", references="other")
    write(place / "pairs2.jsonl", [line(n) | {"changed": True, "true": n < 9} for n in range(4, 12)])
    for other, said in (
        ("tokeniser", "different tokenisers"),
        ("references", "different references"),
        ("pairs2", "not of the same pairs"),
    ):
        refuse(place, f"agreement a.jsonl {other}.jsonl", said)
        refuse(place, f"agreement a.jsonl {other}.jsonl", f"{other}.jsonl")


def test_several_runs_are_ranked(place, capsys):
    for number in range(4):
        lines = [
            {"pair_id": str(n), "scene_id": str(n), "changed": True, "true": n < 2 + number} for n in range(8)
        ]
        (place / f"run{number}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        own = {str(n): 2.0 * (n < 2 + number) for n in range(8)}
        (place / f"score{number}.json").write_text(json.dumps(own))
    runs, files = (
        " ".join(f"{name}{n}.{end}" for n in range(4)) for name, end in (("run", "jsonl"), ("score", "json"))
    )
    interval = "1.00 [1.00, 1.00]"
    # runs of one model, as of several seeds, are no pairs of models
    for models, wrong in (("", "0 %"), ("--models a a a a", "–")):
        succeed(place, f"agreement {runs} --scores perfect {files} {models}")
        (line,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("perfect")]
        assert " ".join(line.split()) == f"perfect {interval} {wrong} {interval} 100 %"
