"""Folders of weights whose files and hashes were changed."""

import yaml

from pipeline.io.content_hashes import sha256
from pipeline.io.inputs import read_yaml
from pipeline.io.outputs import yaml_of
from pipeline.weights.model_description import hash_of
from pipeline.weights.trained_model import weights_file


def forge(folder):
    """Write the hashes of weights and model.yaml, as they are now, into model.yaml."""
    record = read_yaml(folder / "model.yaml", "")
    record["hashes"]["weights"] = sha256(weights_file(folder))
    record["hashes"]["model"] = hash_of(record)
    (folder / "model.yaml").write_text(yaml_of(record))


def unhash(folder):
    """Remove the hashes, as in weights of earlier versions."""
    record = yaml.safe_load((folder / "model.yaml").read_text())
    del record["hashes"]
    (folder / "model.yaml").write_text(yaml.safe_dump(record, sort_keys=False))
