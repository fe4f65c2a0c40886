"""Small random checkpoints of CLIP, in both formats, from the transformers package's model."""

import pytest
import torch

SIDE, PATCH, CONTEXT = 16, 8, 10
VOCABULARY = 49_408
# of ClipSizes, for models that start from it: 3 image blocks, 2 text blocks
SIZES = {"patch": 8, "width": 12, "heads": 2, "text_width": 8, "text_heads": 2, "text_layers": 2}
SIZES |= {"context": CONTEXT, "joint": 8, "caption_heads": 2, "caption_layers": 2}


def made():
    """Build a CLIP with random weights in the transformers package."""
    transformers = pytest.importorskip("transformers")
    vision = {"image_size": SIDE, "patch_size": PATCH, "hidden_size": 12, "num_attention_heads": 2}
    text = {"vocab_size": VOCABULARY, "max_position_embeddings": CONTEXT, "hidden_size": 8}
    text |= {"num_attention_heads": 2, "num_hidden_layers": 2, "intermediate_size": 32}
    config = transformers.CLIPConfig(
        vision_config=vision | {"num_hidden_layers": 3, "intermediate_size": 48},
        text_config=text | {"eos_token_id": 49_407, "bos_token_id": 49_406, "pad_token_id": 0},
        projection_dim=8,
    )
    torch.manual_seed(0)
    model = transformers.CLIPModel(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0.0, 0.2)
    return model


def hugging_face(model):
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


def openai(model):
    """Return the tensors in OpenAI's format, with three numbers."""
    theirs = model.state_dict()
    found = {
        "visual.conv1.weight": theirs["vision_model.embeddings.patch_embedding.weight"],
        "visual.class_embedding": theirs["vision_model.embeddings.class_embedding"],
        "visual.positional_embedding": theirs["vision_model.embeddings.position_embedding.weight"],
        "visual.proj": theirs["visual_projection.weight"].T,
        "text_projection": theirs["text_projection.weight"].T,
        "token_embedding.weight": theirs["text_model.embeddings.token_embedding.weight"],
        "positional_embedding": theirs["text_model.embeddings.position_embedding.weight"],
        "logit_scale": theirs["logit_scale"],
    }
    norms = {"visual.ln_pre": "vision_model.pre_layrnorm", "visual.ln_post": "vision_model.post_layernorm"}
    for ours, other in (norms | {"ln_final": "text_model.final_layer_norm"}).items():
        found |= {f"{ours}.{kind}": theirs[f"{other}.{kind}"] for kind in ("weight", "bias")}
    for tower, other, blocks in (("visual.", "vision", 3), ("", "text", 2)):
        for number in range(blocks):
            here, there = f"{tower}transformer.resblocks.{number}", f"{other}_model.encoder.layers.{number}"
            found |= block(theirs, here, there)
    numbers = {"input_resolution": SIDE, "context_length": CONTEXT, "vocab_size": VOCABULARY}
    found |= {name: torch.tensor(value) for name, value in numbers.items()}
    return {name: tensor.clone().contiguous() for name, tensor in found.items()}


def block(theirs, here, there):
    found = {}
    names = {"ln_1": "layer_norm1", "ln_2": "layer_norm2", "attn.out_proj": "self_attn.out_proj"}
    for kind in ("weight", "bias"):
        for ours, other in (names | {"mlp.c_fc": "mlp.fc1", "mlp.c_proj": "mlp.fc2"}).items():
            found[f"{here}.{ours}.{kind}"] = theirs[f"{there}.{other}.{kind}"]
        each = [theirs[f"{there}.self_attn.{part}_proj.{kind}"] for part in "qkv"]
        found[f"{here}.attn.in_proj_{kind}"] = torch.cat(each)
    return found
