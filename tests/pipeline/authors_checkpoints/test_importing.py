"""Synthetic checkpoints of every system: imported by the table of their system, or refused by name."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from pipeline.authors_checkpoints import clip, importing, tensor_table
from pipeline.authors_checkpoints.checkpoint_file import CheckpointFile, tensors_of
from pipeline.authors_checkpoints.importing import SYSTEMS, check_features
from pipeline.config.store_contents import IMPORTED
from pipeline.decoding.greedy import greedy
from pipeline.io.errors import InputError
from pipeline.text import vocabularies
from pipeline.text.vocabularies import PCL_MARKS, PCL_OTHERS, exchanged
from pipeline.weights import trained_model
from tests import project_params, released
from tests.reference import dynamic
from tests.released import CASES
from tests.running import refuse, succeed

GOLDEN = Path(__file__).parents[2] / "golden"
RECORD = {  # our parameters, and the tensors of the authors' modules of which they consist
    title.strip(): [tuple(line.split()) for line in lines.strip().split("\n")]
    for title, lines in re.findall(r"\[(.+)\]\n([^[]+)", (GOLDEN / "released_tensors.txt").read_text())
}
EVERY = pytest.mark.parametrize("name", CASES)


def rows_on_record(title, table, sizes, alias=str):
    rows = tensor_table.expected_rows(table, sizes)
    for ours in {line[0] for line in RECORD[title]}:
        found = {(row.stored, row.how.replace(" ", "")) for row in rows if row.parameter == alias(ours)}
        found = {(name, "-" if how in ("", "last") else how) for name, how in found}
        assert found == {line[1:] for line in RECORD[title] if line[0] == ours}, ours


@pytest.mark.parametrize("name", RECORD)
def test_names_are_those_on_record(name):
    if name in CASES:
        case, layers = CASES[name], {} if "clip" in name else {"n": 1, "m": 1}
        rows_on_record(name, case.system.table, case.sizes | layers | {"V": 2}, case.system.alias)
    else:
        tower = "visual." if "openai" in name else "vision_model."
        rows_on_record(name, clip.FORMATS[tower], released.CLIP)


@pytest.mark.parametrize(("name", "sizes"), [("scorer", (76, 24)), ("dirl_ccr", (87, 40))])
def test_shapes_are_the_released_ones(name, sizes):
    title = CASES[name].system.title.lower()
    golden = json.loads((GOLDEN / f"released_{title}_shapes.json").read_text())
    known = {"D": 512, "C": 1024, "e": 300, "n": 2, "m": 2} | dict(zip("VL", sizes, strict=True))
    assert {row.stored: row.shape for row in tensor_table.expected_rows(CASES[name].system.table, known)} == {
        f"{state}.{tensor}": tuple(shape)
        for state, shapes in golden.items()
        for tensor, shape in shapes.items()
    }


@pytest.mark.parametrize(("name", "count"), [("clip4idc adapt", 307), ("clip4idc None", 443)])
def test_as_many_names_as_clip4idcs_files_have(name, count):
    sizes = {"D": 768, "T": 512, "E": 512, "p": 32, "N": 50, "C": 77, "n": 12, "k": 12, "m": 3}
    assert len({row.stored for row in tensor_table.expected_rows(CASES[name].system.table, sizes)}) == count


def ids_of(case, vocabulary):
    """Return the row of each of our words in the authors' tables."""
    title = case.system.title
    if title == "CLIP4IDC":
        return [exchanged(number) for number in range(vocabulary)]
    if title in ("DUDA", "VARD"):
        return [3, 1, 2, 0, *range(4, vocabulary)]
    words = sorted((word for word in case.ids if word[0] != "<"), key=case.ids.get)
    return [
        case.ids[word] for word in ((*PCL_MARKS, *words, *PCL_OTHERS) if title == "IDC-PCL" else case.ids)
    ]


def made_of(tensors, how, ids):
    tensor = tensors[0] if len(tensors) == 1 else torch.stack(tensors)
    if how.startswith("third"):
        width = len(tensor) // 3
        return tensor[width * int(how[-1]) :][:width]
    if how == "one":
        return tensor[None]
    return tensor.T if how == "T" else tensor[ids] if how == "words" else tensor


@EVERY
def test_weights_are_the_files_numbers(tmp_path, name):
    case = CASES[name]
    flat = released.tensors(case)
    succeed(tmp_path, f"{released.prepare(tmp_path, case, flat)} --seed 3")
    model, _, phase = name.partition(" ")
    stage = "pretrain" if phase in ("pretrain", "adapt") else "train"
    kept = tmp_path / f"data/imported/{case.dataset}/{model}/3/{stage}"
    made, trained = trained_model.load(kept / "weights", stage)
    assert (trained.recipe.model, trained.recipe.dataset, trained.seed) == (model, case.dataset, 3)
    assert (trained.shape, trained.vocabulary, trained.longest) == (case.shape, case.words, case.longest)
    assert trained.recipe.settings["variant"] == "released"
    switches = {"coordinates": {"coordinates": True}, "without judging": {"distractor_judging": False}}
    assert trained.recipe.settings["switches"] == switches.get(phase, {})
    header = (kept / "curves/loss.csv").read_text()
    assert header == f"iteration,{case.terms}\n", f"enter {name}'s terms in CASES of {released.__file__}"
    metric = "R@1" if phase == "adapt" else "CIDEr-D"
    assert (kept / "curves/validation.csv").read_text() == f"iteration,{metric}\n"
    own, record = made.state_dict(), RECORD[name if name in RECORD else model.replace("pcl", "pcl None")]
    for ours in {line[0] for line in record} & own.keys():
        lines = [line for line in record if line[0] == ours]
        names = [line[1].replace("scorer.0.attention.logit", "scorer.1.attention.logit") for line in lines]
        expected = made_of([flat[each] for each in names], lines[0][2], ids_of(case, case.words))
        assert torch.equal(own[ours], expected), ours


def spoilt(case, flat):
    """Return the error message about these tensors."""
    found = tensors_of(CheckpointFile(Path("their.pt"), "", released.tree(flat)))
    system = importing.system_of(Path("their.pt"), found)
    with pytest.raises(InputError) as error:
        importing.checked(Path("their.pt"), system, found, case.words)
    assert "\n" not in str(error.value)
    assert str(error.value).startswith("their.pt: ")
    assert f"released checkpoint of {case.system.title}" in str(error.value)
    return str(error.value)


@EVERY
def test_every_tensor_is_needed_and_of_its_shape(name):
    case = CASES[name]
    flat = released.tensors(case)
    rows = tensor_table.expected_rows(case.system.table, {"V": case.words} | case.sizes)
    for row in rows:
        if row.how == "ignored":
            continue
        assert f"{row.stored} is missing" in spoilt(case, {k: t for k, t in flat.items() if k != row.stored})
        assert f"{row.stored} is (1, 3, 1, 2, 1), where" in spoilt(
            case, flat | {row.stored: torch.ones(1, 3, 1, 2, 1)}
        )


@EVERY
def test_other_tensors_and_numbers_are_refused(name):
    case = CASES[name]
    flat = released.tensors(case)
    part = next(iter(flat)).partition(".")[0]
    assert f"{part}.more is no tensor of this model" in spoilt(case, flat | {f"{part}.more": torch.ones(1)})
    some = next(reversed([row for row in flat if flat[row].dim() == 1 and "pooler" not in row]))
    assert f"{some} is torch.strided, torch.int64" in spoilt(case, flat | {some: flat[some].long()})
    changes = {some: torch.full_like(flat[some], torch.nan), "": torch.zeros(1)}
    changes |= {
        row.stored: torch.ones_like(flat[row.stored])
        for row in case.system.table
        if row.how.startswith("=") or row.how == "sinusoids"
    }
    for tensor, value in changes.items():
        with pytest.raises(InputError, match=rf"their\.pt: {re.escape(tensor)} (is|has a number that is) no"):
            importing.checked(Path("their.pt"), case.system, flat | {tensor: value}, case.words)


@pytest.mark.parametrize("name", ["scorer", "clip4idc adapt"])
def test_other_settings_and_damaged_files_are_refused(tmp_path, name):
    case = CASES[name]
    command = released.prepare(tmp_path, case)
    option, key, changed = ("--heads 3", "features.stride", {"features__stride": 32})
    if case.system.features is None:
        pixels = {"dataset__clevr_change__features__pixels": [16, 24]}
        option, key, changed = "--intra 4", "features.pixels", pixels
    refuse(tmp_path, f"{command} {option}", option.partition(" ")[0])
    project_params.write(tmp_path, **case.params | changed)
    refuse(tmp_path, command, key)
    project_params.write(tmp_path, **case.params)
    whole = (tmp_path / "their.pt").read_bytes()
    (tmp_path / "their.pt").write_bytes(whole[: len(whole) // 2])
    refuse(tmp_path, command, "their.pt cannot be read as a checkpoint")
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("name", ["scorer", "idc_pcl None"])
def test_another_vocabulary_is_refused(tmp_path, name):
    case = CASES[name]
    command = released.prepare(tmp_path, case)
    others = [
        ({**case.ids, "more": len(case.ids)}, "vocabulary that it was trained with"),
        ({**case.ids, "more": len(case.ids) + 1}, "vocab.json"),
    ]
    if name != "scorer":
        others.append((released.IDS, "vocab.json lacks <"))
    for ids, said in others:
        (tmp_path / "vocab.json").write_text(json.dumps(ids))
        refuse(tmp_path, command, said)
    assert not (tmp_path / "data").exists()


def test_clip4idc_goes_with_clips_tokens_of_its_context(tmp_path):
    case = CASES["clip4idc adapt"]
    command = released.prepare(tmp_path, replace(case, longest=33))
    refuse(tmp_path, command, "captions have up to 33 tokens, context is 12")
    vocabularies.save(tmp_path / "vocab.json", vocabularies.build(["a"], 1, True), {})
    refuse(tmp_path, command, "text.tokeniser: clip_bpe")


@pytest.mark.parametrize(
    ("name", "sizes", "said"),
    [
        ("dirl_ccr", {"C": 1023}, "change_detector_state.img.0.weight gives (8, 1023, 1, 1)"),
        ("clip4idc adapt", {"N": 8}, "its image tower has 8 positions"),
    ],
)
def test_sizes_that_a_table_leaves_open_are_the_models(tmp_path, name, sizes, said):
    case = CASES[name]
    flat = released.tensors(replace(case, sizes=case.sizes | sizes))
    refuse(tmp_path, released.prepare(tmp_path, case, flat), said)


def test_a_file_of_no_system_is_refused(tmp_path):
    case = CASES["scorer"]
    command = released.prepare(tmp_path, case, {"layer.0.weight": torch.zeros(1)})
    said = refuse(tmp_path, command, "their.pt has no tensors of CLIP4IDC, ")
    assert all(system.title in said for system in SYSTEMS)
    flat = released.tensors(case)
    released.prepare(tmp_path, case, {k: t for k, t in flat.items() if k.startswith("change")})
    refuse(tmp_path, command, "speaker_state.core.embed.weight is missing")


def test_features_are_those_of_the_program_or_imported():
    system = CASES["card"].system
    check_features(replace(system.features, weights=IMPORTED, resize=IMPORTED), system)
    check_features(replace(system.features, resize="pil_bicubic"), system)  # the paper does not say which
    for key, value in {"backbone": "resnet18", "weights": "w.pth", "finer": True, "size": 64}.items():
        with pytest.raises(InputError, match=rf"features\.{key} is {value!r}, the checkpoint was trained"):
            check_features(replace(system.features, **{key: value}), system)


def said(made, vectors):
    """Return the greedy caption in the authors' ids, in which <NULL> ends a caption."""
    tokens = [2]
    while len(tokens) < 24 and (len(tokens) == 1 or tokens[-1] != 0):
        tokens.append(int(dynamic.spoken(made.decoder, *vectors, tokens)[-1][0].argmax()))
    return [token for token in tokens[1:] if token > 0]


@pytest.mark.parametrize(("name", "ends"), [("duda", 1.0), ("vard", 0.7)])
@torch.no_grad()
def test_an_imported_speaker_writes_the_captions_of_the_authors_speaker(tmp_path, name, ends):
    flat = {key: tensor * 2.5 for key, tensor in released.tensors(CASES[name]).items()}
    flat["change_detector_state.att.bias"].fill_(-4.0)  # low attention, because 196 cells are summed
    flat["speaker_state.logit.bias"][0] = ends  # captions of different lengths
    succeed(tmp_path, f"{released.prepare(tmp_path, CASES[name], flat)} --out ours")
    ours = trained_model.load(tmp_path / "ours")[0].double()
    torch.manual_seed(0)
    difference = ours.encode(*torch.randn(2, 8, 1024, 14, 14, dtype=torch.float64))
    words = greedy(ours, difference).tolist()
    for part in (ours.decoder.words.weight, ours.decoder.vocabulary.weight, ours.decoder.vocabulary.bias):
        part[[0, 3]] = part[[3, 0]]  # back to the authors' order
    wanted = [said(ours, vectors) for vectors in difference.memory]
    assert [[{0: 3}.get(token, token) for token in row[: [*row, 3].index(3)]] for row in words] == wanted
    assert min(map(len, wanted)) < 23
    assert any(wanted)
