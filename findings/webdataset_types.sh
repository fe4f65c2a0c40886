#!/usr/bin/env bash
# load_dataset("webdataset") of Hugging Face datasets 5.2.0 takes columns and types from the first five samples.
# Later values are fitted to these types, mostly without an error: 0.5 becomes 0, the id "0002" becomes 2, and a
# column or file that first occurs in sample six is dropped. A column that is null five times is an error.
# Why it matters: a caption dataset whose first five pairs are unusual (no boxes, no second reference, whole
# numbers) loses information for everyone who loads it. The files themselves are correct.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/env"
"$folder/env/bin/pip" install -q --disable-pip-version-check datasets==5.2.0 pyarrow==26.0.1 huggingface_hub==2.4.0
export HF_HUB_OFFLINE=1 HF_HOME="$folder/cache"
cd "$folder"
"$folder/env/bin/python" -I - <<'END'
import io
import json
import sys
import tarfile

import datasets

CASES = {  # the first five samples, then the sixth
    "fraction": ({"json": {"share": 1}}, {"json": {"share": 0.5}}),
    "id": ({"json": {"id": 1}}, {"json": {"id": "0002"}}),
    "key": ({"json": {"caption": "a"}}, {"json": {"caption": "b", "second": "c"}}),
    "file": ({"txt": "a"}, {"txt": "b", "json": {"second": "c"}}),
    "null": ({"json": {"caption": "a", "second": None}}, {"json": {"caption": "b", "second": "c"}}),
}
EXPECTED = {
    "fraction": {"json": {"share": 0}},
    "id": {"json": {"id": 2}},
    "key": {"json": {"caption": "b"}},
    "file": {"txt": "b"},
    "null": "Couldn't cast array of type string to null",
}


def write(path, samples):
    with tarfile.open(path, "w") as shard:
        for number, sample in enumerate(samples):
            for ending, value in sample.items():
                content = (value if ending == "txt" else json.dumps(value)).encode()
                member = tarfile.TarInfo(f"{number:06}.{ending}")
                member.size = len(content)
                shard.addfile(member, io.BytesIO(content))


def sixth(name):
    """Return the sixth sample as loaded, or the message of the error that prevents the loading."""
    try:
        rows = datasets.load_dataset("webdataset", data_files={"train": f"{name}.tar"}, split="train")
    except datasets.exceptions.DatasetGenerationError as error:
        return str(error.__cause__)
    return {key: value for key, value in rows[5].items() if not key.startswith("__")}


print("datasets", datasets.__version__)
datasets.disable_progress_bars()
seen = {}
for name, (first, last) in CASES.items():
    write(f"{name}.tar", [first] * 5 + [last])
    seen[name] = sixth(name)
    print(f"{name}: samples 1 to 5 {first}, sample 6 {last}")
    print(f"    sample 6 as loaded: {seen[name]}")
if seen != EXPECTED:
    sys.exit(f"The behaviour has changed. Expected: {EXPECTED}")
print("As expected.")
END
