"""import_clip: CLIP with OpenAI's or Hugging Face's names becomes the initialisation of models."""

import re

import pytest
import torch
from safetensors.torch import load_file, save_file

import models
from models.clip4idc.encoders import MEAN, STD, ClipSizes
from pipeline.authors_checkpoints import checkpoint_file
from pipeline.io.content_hashes import file_hash
from pipeline.io.errors import InputError
from pipeline.text.vocabularies import ClipVocabulary, exchanged
from pipeline.weights import imported_weights
from tests import clips
from tests.running import refuse, succeed


def drop(name):
    return lambda tensors: tensors.pop(name)


def put(name, tensor):
    return lambda tensors: tensors.update({name: tensor})


FORMATS = {"openai": clips.openai, "hugging_face": clips.hugging_face}


@pytest.fixture(scope="module")
def clip():
    return clips.made()


@pytest.fixture(params=FORMATS)
def theirs(request, clip, tmp_path):
    """Tensors in one of the formats; model.safetensors has them, too."""
    tensors = FORMATS[request.param](clip)
    save_file(tensors, tmp_path / "model.safetensors")
    return tensors


def sizes(intra=3, inter=0, longest=6):
    split = {"intra": intra, "inter": inter}
    return ClipSizes(3, (clips.SIDE, clips.SIDE), clips.VOCABULARY, longest, **(clips.SIZES | split))


def adapting(intra, inter):
    given = {"dropout": 0.0, "coef_lr": 1.0, "temperature": 0.07}
    return models.build("clip4idc", sizes(intra, inter), given, "adapt").eval()


def vectors(output):
    return output if isinstance(output, torch.Tensor) else output.pooler_output


@torch.inference_mode()
def test_vectors_are_those_of_the_file(theirs, clip, tmp_path):
    succeed(tmp_path, "import_clip model.safetensors --out clip.safetensors")
    model = adapting(3, 0)
    imported_weights.take_over(model, tmp_path / "clip.safetensors")
    model.inter.images.zero_()
    model.inter.positions.zero_()
    pixels = torch.randint(0, 256, (4, 3, clips.SIDE, clips.SIDE)).float()
    encoded = model.encoding(pixels)
    mean, std = (torch.tensor(values)[:, None, None] for values in (MEAN, STD))
    wanted = vectors(clip.get_image_features(pixel_values=(pixels / 255 - mean) / std))
    torch.testing.assert_close(model.pairs(encoded, encoded), wanted, rtol=1e-5, atol=1e-5)
    captions = ["a cube moved", "#$x", "a"]
    tokens = torch.zeros(3, 8, dtype=torch.long)
    for row, caption in enumerate(captions):
        ids = ClipVocabulary(8).encode(caption)
        tokens[row, : len(ids)] = torch.tensor(ids)
    clips_own = tokens.clone().apply_(exchanged)
    given = {"input_ids": clips_own, "attention_mask": torch.ones_like(clips_own)}
    torch.testing.assert_close(
        model.sentences(tokens), vectors(clip.get_text_features(**given)), rtol=1e-5, atol=1e-5
    )
    assert model.log_scale == clip.logit_scale


def test_both_formats_give_the_same_file_and_any_split_starts_from_it(clip, tmp_path):
    for name, convert in FORMATS.items():
        save_file(convert(clip), tmp_path / f"{name}.safetensors")
        succeed(tmp_path, f"import_clip {name}.safetensors --out {name}.out")
    one, two = (load_file(tmp_path / f"{name}.out") for name in FORMATS)
    assert one.keys() == two.keys()
    assert all(torch.equal(one[name], two[name]) for name in one)
    for intra, inter in ((0, 3), (2, 1)):
        model = adapting(intra, inter)
        before = {name: value.clone() for name, value in model.state_dict().items()}
        imported_weights.take_over(model, tmp_path / "openai.out")
        kept = {name for name, value in model.state_dict().items() if torch.equal(value, before[name])}
        assert kept == {"inter.images", "inter.positions"}
        block = model.state_dict()["inter.blocks.2.mlp.0.weight"]
        assert torch.equal(block, one["blocks.2.mlp.0.weight"])


@pytest.mark.parametrize("words", ["own", "clip"])
def test_a_captioner_starts_from_the_image_tower_and_with_words_clip_also_from_the_words(
    words, clip, tmp_path
):
    save_file(clips.openai(clip), tmp_path / "a.safetensors")
    succeed(tmp_path, "import_clip a.safetensors --out out")
    given = {"dropout": 0.0, "coef_lr": 1.0, "switches": {"words": words}}
    model = models.build("clip_ft", sizes(2, 1), given)
    imported_weights.take_over(model, tmp_path / "out")
    found, own = load_file(tmp_path / "out"), model.state_dict()
    assert torch.equal(own["encoding.blocks.2.mlp.0.weight"], found["blocks.2.mlp.0.weight"])
    same = torch.equal(own["decoder.tables.tokens.weight"], found["text.tables.tokens.weight"])
    assert same == (words == "clip")


def test_half_precision_and_files_of_torch_are_read(clip, tmp_path):
    tensors = {name: t.half() if t.is_floating_point() else t for name, t in clips.openai(clip).items()}
    torch.save(tensors, tmp_path / "half.pt")
    succeed(tmp_path, "import_clip half.pt --out out")
    found = load_file(tmp_path / "out")["blocks.0.mlp.0.weight"]
    assert found.dtype == torch.float32
    wanted = tensors["visual.transformer.resblocks.0.mlp.c_fc.weight"]
    assert torch.equal(found, wanted.float())


def spoilt(clip, tmp_path, change):
    tensors = clips.openai(clip)
    change(tensors)
    save_file(tensors, tmp_path / "model.safetensors")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (drop("ln_final.bias"), "ln_final.bias is missing"),
        (put("more", torch.ones(1)), "more is no tensor of this model"),
        (put("visual.proj", torch.ones(3)), "visual.proj is (3,), where the model has (D, E)"),
        (put("text_projection", torch.ones(3)), "text_projection is (3,), where the model has (8, 8)"),
        (put("visual.positional_embedding", torch.ones(8, 12)), "its image tower has 8 positions"),
        (put("ln_final.bias", torch.ones(8).int()), "ln_final.bias is torch.strided, torch.int32, not of"),
        (put("ln_final.bias", torch.full((8,), torch.nan)), "ln_final.bias has a number that is not finite"),
    ],
)
def test_a_tensor_that_does_not_fit_is_named(clip, tmp_path, change, said):
    spoilt(clip, tmp_path, change)
    refuse(tmp_path, "import_clip model.safetensors --out out", said)
    assert [path.name for path in tmp_path.iterdir()] == ["model.safetensors"]


def test_damaged_and_missing_files_and_an_existing_output_are_named(clip, tmp_path):
    spoilt(clip, tmp_path, lambda _: None)
    whole = (tmp_path / "model.safetensors").read_bytes()
    (tmp_path / "cut.safetensors").write_bytes(whole[:-100])
    (tmp_path / "taken").touch()
    torch.save({}, tmp_path / "model.pt")
    for arguments, said in (
        ("cut.safetensors --out out", "cut.safetensors cannot be read as a checkpoint"),
        ("none.safetensors --out out", "cannot be read (No such file or directory)"),
        ("cut.safetensors --out taken", "taken exists already; remove it"),
        ("cut.safetensors --out cut.safetensors", "is named twice"),
        ("model.pt --out out", "model.pt has no tensor of visual. or vision_model."),
    ):
        refuse(tmp_path, f"import_clip {arguments}", said)


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:.*torch.jit:FutureWarning")
def test_a_torchscript_archive_is_refused_with_the_command_that_converts_it(tmp_path, monkeypatch):
    torch.jit.save(torch.jit.script(torch.nn.Linear(2, 3)), tmp_path / "IN.pt")
    said = refuse(tmp_path, "import_clip IN.pt --out out", "is a TorchScript archive, a program")
    code, *files = re.search(r'python -c "(.+)" (IN\.pt) (OUT\.pth)', said).groups()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["-c", *files])
    exec(code)
    assert set(checkpoint_file.read("OUT.pth").tree) == {"weight", "bias"}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (drop("blocks.1.norm_1.bias"), "blocks.1.norm_1.bias is missing"),
        (put("project.map.weight", torch.ones(1)), "project.map.weight is (1,), where the model"),
        (
            put("text.tables.tokens.weight", torch.ones(1)),
            "where the model has (49408, 8)",
        ),
    ],
)
def test_an_initialisation_that_does_not_fit_is_named(clip, tmp_path, change, said):
    spoilt(clip, tmp_path, lambda _: None)
    succeed(tmp_path, "import_clip model.safetensors --out out")
    tensors = load_file(tmp_path / "out")
    change(tensors)
    save_file(tensors, tmp_path / "changed")
    with pytest.raises(InputError, match=re.escape(said)):
        imported_weights.take_over(adapting(2, 1), tmp_path / "changed")
    (tmp_path / "changed").write_bytes(b"nothing")
    with pytest.raises(InputError, match="changed does not load"):
        imported_weights.take_over(adapting(2, 1), tmp_path / "changed")
    with pytest.raises(InputError, match=r"none cannot be read \(No such file"):
        file_hash(tmp_path / "none")
