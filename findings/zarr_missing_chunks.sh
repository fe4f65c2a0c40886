#!/usr/bin/env bash
# zarr-python 3.1.6 and 3.4.2 read missing shards and chunks as zeros (the fill value), without an error.
# 3.1.6 has no option against it. 3.4.2 (Python 3.12 or newer) has `array.read_missing_chunks: False`. That option
# finds a missing shard, but no chunk that is missing inside a shard. It also refuses a complete array of zeros.
# Why it matters: if a copy or a job was interrupted, a model captions features of zeros, and the scores are a
# little worse for no visible reason. Record which images are written, for example in the array's attributes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cat >"$folder/check.py" <<'END'
import os
import sys

import numpy as np
import zarr

SHARD_LOST = [1, 2, 3, 4, 0, 0, 0, 0]
CHUNK_LOST = [1, 2, 3, 4, 5, 6, 0, 0]
ZEROS = [0, 0, 0, 0, 0, 0, 0, 0]
DEFAULT = {"a shard is deleted": SHARD_LOST, "a chunk was never written": CHUNK_LOST, "zeros, complete": ZEROS}
STRICT = {
    "a shard is deleted": "ChunkNotFoundError",
    "a chunk was never written": CHUNK_LOST,
    "zeros, complete": "ChunkNotFoundError",
}
EXPECTED = {"3.1.6": (DEFAULT, None), "3.4.2": (DEFAULT, STRICT)}


def array(path):
    """Create an array of 8 rows: 2 rows per chunk, and 2 chunks per shard."""
    return zarr.create_array(path, shape=(8,), chunks=(2,), shards=(4,), dtype="float32")


def read():
    found = {}
    for path in DEFAULT:
        try:
            found[path] = zarr.open_array(path)[:].astype(int).tolist()
        except ValueError as error:
            found[path] = type(error).__name__
        print(f"    {path}: {found[path]}")
    return found


array("a shard is deleted")[:] = np.arange(1, 9)
os.remove("a shard is deleted/c/1")
array("a chunk was never written")[:6] = np.arange(1, 7)
array("zeros, complete")[:] = np.zeros(8)
print("zarr", zarr.__version__, "by default:")
seen = read(), None
if zarr.config.get("array.read_missing_chunks", None) is None:
    print("    no option array.read_missing_chunks")
else:
    with zarr.config.set({"array.read_missing_chunks": False}):
        print("    with array.read_missing_chunks: False")
        seen = seen[0], read()
if seen != EXPECTED[zarr.__version__]:
    sys.exit(f"The behaviour has changed. Expected: {EXPECTED[zarr.__version__]}")
print("As expected.")
END

check() { # PYTHON VERSION: check this version of zarr-python
    "$1" -m venv "$folder/$2"
    "$folder/$2/bin/pip" install -q --disable-pip-version-check zarr=="$2" numpy==2.4.6
    mkdir "$folder/arrays-$2"
    (cd "$folder/arrays-$2" && "$folder/$2/bin/python" -I ../check.py)
}

check "${PYTHON:-python3}" 3.1.6
for python in "${PYTHON:-python3}" python3.12 python3.13 python3.14; do
    if "$python" -c 'import sys; sys.exit(sys.version_info < (3, 12))' 2>/dev/null; then
        check "$python" 3.4.2
        exit
    fi
done
echo "zarr 3.4.2 is NOT checked: it needs Python 3.12 or newer (set PYTHON to its path)."
