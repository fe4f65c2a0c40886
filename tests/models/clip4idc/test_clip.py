"""CLIP's two towers against an independent implementation with the same made-up weights."""

import pytest
import torch

from models.clip4idc.encoders import MEAN, STD, ClipSizes, ImageEncoder, Patches, Projection, TextEncoder
from models.clip4idc.switches import ClipSwitches

SIZES = ClipSizes(3, (32, 32), 60, 9, 8, 24, 3, 2, 2, 16, 2, 3, 12, 20, 2, 2)


def theirs():
    """The same sizes in the transformers package, end token 3."""
    transformers = pytest.importorskip("transformers")  # its import takes seconds
    vision = {"image_size": 32, "patch_size": 8, "hidden_size": 24, "num_attention_heads": 3}
    text = {"vocab_size": 60, "max_position_embeddings": 12, "hidden_size": 16, "num_attention_heads": 2}
    config = transformers.CLIPConfig(
        vision_config=vision | {"num_hidden_layers": 4, "intermediate_size": 96},
        text_config=text
        | {"num_hidden_layers": 3, "intermediate_size": 64, "eos_token_id": 3, "bos_token_id": 2}
        | {"pad_token_id": 0},
        projection_dim=20,
    )
    torch.manual_seed(0)
    model = transformers.CLIPModel(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():  # its own first biases are zeros
            parameter.normal_(0.0, 0.2)
    return model


def copy(ours, found):
    """Load `found` into our module: every tensor by name and shape."""
    ours.load_state_dict(found)
    return ours.eval()


def block(found, prefix):
    names = {"norm_1": "layer_norm1", "norm_2": "layer_norm2", "mlp.0": "mlp.fc1", "mlp.2": "mlp.fc2"}
    names |= {f"attention.{a}": f"self_attn.{b}_proj" for a, b in zip(PARTS, "qkv", strict=False)}
    names |= {"attention.output": "self_attn.out_proj"}
    return {
        f"{a}.{kind}": found[f"{prefix}.{b}.{kind}"] for a, b in names.items() for kind in ("weight", "bias")
    }


PARTS = ("query", "key", "value")


def image_tower(found):
    tensors = {
        "patches.project.weight": found["vision_model.embeddings.patch_embedding.weight"],
        "patches.token": found["vision_model.embeddings.class_embedding"],
        "patches.positions": found["vision_model.embeddings.position_embedding.weight"],
        "patches.norm.weight": found["vision_model.pre_layrnorm.weight"],
        "patches.norm.bias": found["vision_model.pre_layrnorm.bias"],
    }
    for number in range(4):
        layer = block(found, f"vision_model.encoder.layers.{number}")
        tensors |= {f"blocks.{number}.{name}": value for name, value in layer.items()}
    return copy(ImageEncoder(SIZES, ClipSwitches(), 4), tensors)


def projection(found):
    names = {
        "norm.weight": "vision_model.post_layernorm.weight",
        "norm.bias": "vision_model.post_layernorm.bias",
    }
    names |= {"map.weight": "visual_projection.weight"}
    return copy(Projection(SIZES), {a: found[b] for a, b in names.items()})


def text_tower(found):
    names = {
        "tables.tokens.weight": "text_model.embeddings.token_embedding.weight",
        "tables.positions": "text_model.embeddings.position_embedding.weight",
        "norm.weight": "text_model.final_layer_norm.weight",
        "norm.bias": "text_model.final_layer_norm.bias",
        "map.weight": "text_projection.weight",
    }
    tensors = {a: found[b] for a, b in names.items()}
    for number in range(3):
        layer = block(found, f"text_model.encoder.layers.{number}")
        tensors |= {f"blocks.{number}.{name}": value for name, value in layer.items()}
    return copy(TextEncoder(SIZES), tensors)


def of(output):
    """The vectors: newer versions of the package wrap them."""
    return output if isinstance(output, torch.Tensor) else output.pooler_output


@torch.inference_mode()
def test_image_vectors_are_those_of_an_independent_implementation():
    model = theirs()
    found = model.state_dict()
    pixels = torch.randint(0, 256, (5, 3, 32, 32)).float()
    mean, std = (torch.tensor(values)[:, None, None] for values in (MEAN, STD))
    wanted = of(model.get_image_features(pixel_values=(pixels / 255 - mean) / std))
    ours = projection(found)(image_tower(found)(pixels))[:, 0]
    torch.testing.assert_close(ours, wanted, rtol=1e-5, atol=1e-5)
    assert wanted.std() > 0.1


@torch.inference_mode()
def test_text_vectors_are_those_of_an_independent_implementation():
    model = theirs()
    tokens = torch.randint(4, 60, (4, 9))
    tokens[:, 0] = 2
    for row, length in enumerate((3, 6, 9, 2)):
        tokens[row, length - 1] = 3
        tokens[row, length:] = 0
    wanted = of(model.get_text_features(input_ids=tokens, attention_mask=torch.ones_like(tokens)))
    ours = text_tower(model.state_dict())(tokens)
    torch.testing.assert_close(ours, wanted, rtol=1e-5, atol=1e-5)
    assert wanted.std(0).mean() > 0.03


def test_patches_of_features_are_a_map_of_the_mean_of_some_cells():
    sizes = ClipSizes(**(vars(SIZES) | {"channels": 5, "grid": (4, 6), "patch": 2}))
    made, features = Patches(sizes, ClipSwitches(patches="features")), torch.randn(3, 5, 4, 6)
    W, bias = made.project[1].weight[:, :, 0, 0], made.project[1].bias
    tokens = [made.token.expand(3, -1)]
    for row in (0, 2):
        for column in (0, 2, 4):
            cells = [features[:, :, row + i, column + j] for i in (0, 1) for j in (0, 1)]
            tokens.append(sum(cells) / 4 @ W.T + bias)
    expected = made.norm(torch.stack(tokens, 1) + made.positions)
    torch.testing.assert_close(made(features), expected)
    assert not torch.allclose(made(features / 255), expected)


def test_convolutions_need_a_patch_that_halves_to_one():
    with pytest.raises(ValueError, match="a patch of 2, 4, 8 or 16, not 32"):
        Patches(ClipSizes(**(vars(SIZES) | {"patch": 32})), ClipSwitches(patches="convolutions"))
