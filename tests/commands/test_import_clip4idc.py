"""CLIP4IDC's released checkpoints, of both phases, made up: read as they are, and refused by name."""

import re

import pytest
import torch

import models
from models.clip4idc.encoders import ClipSizes
from pipeline.authors_checkpoints import clip4idc
from pipeline.text import vocabularies
from pipeline.text.vocabularies import ClipVocabulary, exchanged
from pipeline.weights import trained_model
from tests import project_params
from tests.released import drop, put
from tests.running import refuse, succeed

SIZES = ClipSizes(3, (16, 16), 49_408, 9, 8, 128, 2, 2, 1, 64, 1, 1, 12, 64, 1, 1)
COMMAND = "import_checkpoint theirs.pt --vocab vocab.json --dataset clevr_change --intra 2"
PLACE = "data/imported/clevr_change/clip4idc/1"
FIXED = {
    "project": "conv1",
    "token": "class_embedding",
    "positions": "positional_embedding",
    "norm": "ln_pre",
}
BLOCK = {"norm_1": "ln_1", "norm_2": "ln_2", "mlp.0": "mlp.c_fc", "mlp.2": "mlp.c_proj"}
BLOCK |= {"attention.output": "attn.out_proj"}
OTHERS = {
    r"^text\.tables\.tokens": "clip.token_embedding",
    r"^text\.tables\.positions": "clip.positional_embedding",
    r"^text\.norm": "clip.ln_final",
    r"^log_scale": "clip.logit_scale",
    r"^(difference\.)?inter\.positions": "clip.visual.joint_positional_embedding",
    r"^(difference\.)?inter\.norm": "clip.visual.ln_mid",
    r"^(difference\.)?inter\.project\.norm": "clip.visual.ln_post",
    r"^decoder\.tables\.tokens": "decoder.embeddings.word_embeddings",
    r"^decoder\.tables\.positions": "decoder.embeddings.position_embeddings.weight",
    r"^decoder\.norm": "decoder.embeddings.LayerNorm",
    r"^decoder\.head\.0": "decoder.classifier.cls.predictions.transform.dense",
    r"^decoder\.head_norm": "decoder.classifier.cls.predictions.transform.LayerNorm",
    r"^decoder\.bias": "decoder.classifier.cls.predictions.bias",
}
LAYERS = {
    r"^difference\.memories\.layers\.(\d+)": {
        "attention": "decoder.encoder.layer.{}.slf_attn",
        "norms.0": "decoder.encoder.layer.{}.slf_attn.output.LayerNorm",
        "norms.1": "decoder.encoder.layer.{}.output.LayerNorm",
        "feed_forward.0": "decoder.encoder.layer.{}.intermediate.dense",
        "feed_forward.2": "decoder.encoder.layer.{}.output.dense",
    },
    r"^decoder\.layers\.(\d+)": {
        "self_attention": "decoder.decoder.layer.{}.slf_attn",
        "cross_attention": "decoder.decoder.layer.{}.enc_attn",
        "norms.0": "decoder.decoder.layer.{}.slf_attn.output.LayerNorm",
        "norms.1": "decoder.decoder.layer.{}.enc_attn.output.LayerNorm",
        "norms.2": "decoder.decoder.layer.{}.output.LayerNorm",
        "feed_forward.0": "decoder.decoder.layer.{}.intermediate.dense",
        "feed_forward.2": "decoder.decoder.layer.{}.output.dense",
    },
}


def built(first, sizes=SIZES):
    """A model of a phase with random weights."""
    torch.manual_seed(0)
    made = models.build("clip4idc", sizes, clip4idc.SETTINGS, "adapt" if first else None)
    with torch.no_grad():
        for parameter in made.parameters():
            if not parameter.is_meta:
                parameter.normal_(0.0, 0.1)
    return made.eval()


def theirs(made):
    """Its tensors as the released program names them."""
    found = {}
    for name, tensor in made.state_dict().items():
        if tensor.shape[:1] == (49_408,):
            tensor = tensor[[exchanged(number) for number in range(49_408)]]
        found |= renamed(name, tensor.clone())
    for name in [name for name in found if ".query." in name and "attn." not in name]:
        block, kind = name.split(".query.")
        rows = [found.pop(f"{block}.{part}.{kind}") for part in ("query", "key", "value")]
        found[f"{block}.in_proj_{kind}"] = torch.cat(rows)
    return found


def renamed(name, tensor):
    if match := re.match(r"(?:encoding|(?:difference\.)?inter|(text))\.blocks\.(\d+)\.(.+)\.(\w+)$", name):
        tower = "clip." if match[1] else "clip.visual."
        module = BLOCK.get(match[3], match[3].replace("attention.", "ATTN."))
        return {
            f"{tower}transformer.resblocks.{match[2]}.{module}.{match[4]}".replace("ATTN", "attn_"): tensor
        }
    if match := re.match(r"encoding\.patches\.(\w+)(.*)", name):
        return {f"clip.visual.{FIXED[match[1]]}{match[2]}": tensor}
    if re.search(r"inter\.images$", name):
        return {"clip.visual.bef_embedding": tensor[0], "clip.visual.aft_embedding": tensor[1]}
    if name.endswith("map.weight"):
        return {"clip.text_projection" if "text" in name else "clip.visual.proj": tensor.T}
    for pattern, parts in LAYERS.items():
        if match := re.match(rf"{pattern}\.(.+)\.(\w+)$", name):
            module, kind = match[2], match[3]
            attention, _, part = module.partition(".")
            if attention in parts:
                own = "output.dense" if part == "output" else f"att.{part}"
                return {f"{parts[attention].format(match[1])}.{own}.{kind}": tensor}
            return {f"{parts[module].format(match[1])}.{kind}": tensor}
    pattern = next(pattern for pattern in OTHERS if re.match(pattern, name))
    return {OTHERS[pattern] + re.sub(pattern, "", name): tensor}


def joined(found):
    return {name.replace(".attn_.", ".attn."): tensor for name, tensor in found.items()}


def checkpoint(first):
    """Of a phase; the second one's has the first one's text tower, and the words twice, on one storage."""
    found = joined(theirs(built(True)))
    if not first:
        found |= joined(theirs(built(False)))
        words = found["decoder.embeddings.word_embeddings.weight"]
        found["decoder.classifier.cls.predictions.decoder.weight"] = words
    return found


@pytest.fixture
def folder(tmp_path):
    project_params.write(tmp_path, dataset__clevr_change__features__pixels=[16, 16])
    vocabularies.save(tmp_path / "vocab.json", ClipVocabulary(9), {})
    return tmp_path


def images():
    return torch.randint(0, 256, (4, 3, 16, 16), generator=torch.Generator().manual_seed(0)).float()


TOKENS = torch.tensor([[2, 320, 5000, 3, 0], [2, 49_406, 49_407, 17, 3]])


@torch.inference_mode()
def test_the_adaptations_checkpoint(folder):
    torch.save(checkpoint(True), folder / "theirs.pt")
    succeed(folder, COMMAND)
    found, trained = trained_model.load_first(folder / PLACE / "first/weights")
    made, encoded = built(True), built(True).encoding(images())
    assert torch.equal(found.pairs(*encoded.chunk(2)), made.pairs(*encoded.chunk(2)))
    assert torch.equal(found.encoding(images()), encoded)
    assert torch.equal(found.sentences(TOKENS), made.sentences(TOKENS))
    assert (trained.shape, trained.longest, trained.vocabulary) == ((3, 16, 16), 9, 49_408)
    assert (folder / PLACE / "first/curves/validation.csv").read_text() == "iteration,R@1\n"
    assert (folder / PLACE / "first/curves/loss.csv").read_text() == "iteration,retrieval\n"


@torch.inference_mode()
@pytest.mark.parametrize("kind", [torch.float32, torch.float16])
def test_the_captionings_checkpoint(folder, kind):
    tensors = {name: tensor.to(kind) for name, tensor in checkpoint(False).items()}
    torch.save(tensors, folder / "theirs.pt")
    succeed(folder, COMMAND)
    found, _ = trained_model.load(folder / PLACE / "train/weights")
    made = built(False)
    if kind == torch.float16:
        made.load_state_dict({name: tensor.half().float() for name, tensor in made.state_dict().items()})
    before, after = images().chunk(2)
    difference = made.encode(before, after)
    assert torch.equal(found.encode(before, after).memory, difference.memory)
    assert torch.equal(found.decoder(TOKENS, difference).logits, made.decoder(TOKENS, difference).logits)
    assert (folder / PLACE / "train/curves/validation.csv").read_text() == "iteration,CIDEr-D\n"


@pytest.mark.parametrize(("first", "names"), [(True, 307), (False, 443)])
def test_as_many_names_as_the_released_files_have(first, names):
    full = ClipSizes(3, (224, 224), 49_408, 33, 32, 768, 12, 9, 3, 512, 8, 12, 77, 512, 8, 3)
    with torch.device("meta"):
        made = built(first, full)
    ours = {name: tuple(tensor.shape) for name, tensor in made.state_dict().items()}
    assert len(clip4idc.wanted(full, ours, captions=not first)) == names


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (drop("clip.ln_final.bias"), "clip.ln_final.bias is missing; name a released checkpoint"),
        (drop("clip.visual.aft_embedding"), "clip.visual.aft_embedding is missing"),
        (lambda t: t.update(more=torch.ones(1)), "more is no tensor of the model"),
        (
            put("decoder.encoder.layer.0.slf_attn.att.key.bias", torch.ones(3)),
            "decoder.encoder.layer.0.slf_attn.att.key.bias is (3,), where the model has (64,)",
        ),
        (
            put("decoder.classifier.cls.predictions.decoder.weight", torch.ones(49_408, 64)),
            "predictions.decoder.weight is not decoder.embeddings.word_embeddings.weight",
        ),
        (lambda t: t["clip.visual.ln_mid.bias"].fill_(torch.inf), "ln_mid.bias has a number that is not"),
    ],
)
def test_what_does_not_fit_is_named(folder, change, said):
    tensors = checkpoint(False)
    change(tensors)
    torch.save(tensors, folder / "theirs.pt")
    refuse(folder, COMMAND, said)
    assert not (folder / "data").exists()


def test_other_settings_are_refused(folder):
    torch.save(checkpoint(True), folder / "theirs.pt")
    refuse(folder, COMMAND.replace("--intra 2", "--intra 9"), "has 3 blocks, --intra is 9; mend it")
    other = COMMAND.replace("clevr_change", "tabletop")
    refuse(folder, other, "reads 16 x 16 pixels, and tabletop has 96 x 144; mend features.pixels")
    vocabularies.save(folder / "vocab.json", vocabularies.build(["a"], 1, True), {})
    refuse(folder, COMMAND, "goes with CLIP's tokens; make the vocabulary by text.tokeniser: clip_bpe")
    vocabularies.save(folder / "vocab.json", ClipVocabulary(33), {})
    refuse(folder, COMMAND, "captions have up to 33 tokens, context is 12")
