"""Find the answer in the output of a language model: without thoughts, prompts, labels and wrappers.

Models think aloud before the answer (<think> … </think>), and programs put marks around it: <answer>,
\\boxed{}, "ASSISTANT:", code fences, tokens such as <|im_end|>. Words of these parts are no claims about the
images.
"""

import json
import re
from typing import Any

TEXTS = (
    *("caption", "prediction", "answer", "response", "output", "text"),
    *("pred", "predicted", "predicted_caption", "generated", "generated_text", "generated_caption"),
    *("completion", "hypothesis", "model_output", "model_answer", "model_response"),
)
"""Keys that an answer may have."""

THOUGHTS = "think|thinking|thought|thoughts|reasoning|reason|reflection|scratchpad|analysis|rationale|cot"
OPEN = re.compile(
    rf"<(?:\w+:)?(?:{THOUGHTS})\b[^<>]*>|◁(?:{THOUGHTS})▷|\[(?:{THOUGHTS})\]|<\|begin_of_thought\|>"
    r"|<\|channel\|>\s*analysis",
    re.IGNORECASE,
)
CLOSE = re.compile(
    rf"</(?:\w+:)?(?:{THOUGHTS})\s*>|◁/(?:{THOUGHTS})▷|\[/(?:{THOUGHTS})\]|<\|end_of_thought\|>",
    re.IGNORECASE,
)
PROMPT = re.compile(
    r"<\|im_start\|>\s*assistant|<\|start_header_id\|>\s*assistant\s*<\|end_header_id\|>|<\|assistant\|>"
    r"|<start_of_turn>\s*model|<\|channel\|>\s*final\s*<\|message\|>|\[/INST\]"
    r"|(?:^|(?<=\s))(?:###\s*)?assistant\s*:",
    re.IGNORECASE,
)
"""The end of a prompt that a program left before the answer."""
END = re.compile(
    r"<\|(?:im_end|eot_id|end|endoftext|end_of_text|return)\|>|</s>|<end_of_turn>|<eos>|<end>", re.IGNORECASE
)
"""A token at which the answer ends."""
TOKEN = re.compile(r"<\|\w{1,40}\|>|</?(?:s|bos|eos|pad|unk|null|start|end)>", re.IGNORECASE)
WRAPPERS = "answer|final_answer|final|response|output|caption|result|description|solution|conclusion"
TAG = re.compile(rf"<({WRAPPERS})\b[^<>]*>(.*?)(?:</\1\s*>|\Z)", re.IGNORECASE | re.DOTALL)
STRAY_TAG = re.compile(rf"</(?:{WRAPPERS})\s*>", re.IGNORECASE)
BOXED = re.compile(r"\\f?boxed\s*\{")
LATEX = re.compile(r"\\(?:text|textbf|textit|mathrm|mbox|mathbf)\s*\{([^{}]*)\}")
MATHS = re.compile(r"^\s*(?:\$\$?|\\\[|\\\()(.*?)(?:\$\$?|\\\]|\\\))\s*\.?\s*$", re.DOTALL)
FENCE = re.compile(r"^[ \t]*(?:```|~~~)[ \t]*\w*[ \t]*$\n?", re.MULTILINE)
INLINE_FENCE = re.compile(r"^\s*```(?:(?:json|text|txt|markdown|md|plaintext)\b)?(.*?)```\s*$", re.DOTALL)
MARKS = r"[\s>#*_`~]{0,40}"
ANSWER = re.compile(
    rf"(?:^{MARKS}|(?<=[.!?…]\s)[*_]*)(?:(?:so|thus|therefore|hence),?\s+)?(?:the |my )?(?:final )?answer"
    rf"(?:\s+is)?[*_`]*\s*:{MARKS}|^[ \t]*(?:#+|\*\*)\s*(?:final )?answer\s*\**[ \t]*$",
    re.IGNORECASE | re.MULTILINE,
)
"""A label behind which the answer follows; what is before it is not the answer."""
LEADING = re.compile(
    rf"\A{MARKS}(?:caption|response|output|prediction|model|ai|bot|gpt|chatgpt|a)[*_`]*\s*:{MARKS}",
    re.IGNORECASE,
)
QUOTED = re.compile(r"""\A\s*(["'“‘«*_`]{1,3})(?=\S)(.*?\S)["'”’»*_`]{1,3}\s*\Z""", re.DOTALL)
NO_ANSWER = {"nan", "NaN", "NAN", "null", "NULL", "None", "<NA>", "N/A", "n/a", "#N/A", "undefined"}
"""Texts that programs write where there is no answer."""
MOST_WRAPPERS = 8  # more of them within each other are no answer of a program


def answer_of(text: str) -> str:
    """Return the answer in a model's output, unchanged if nothing is around it; "" if there is no answer.

    There is no answer if the output is empty, a null as text, or thoughts that do not end: the model was
    stopped before it answered.
    """
    for _ in range(MOST_WRAPPERS):
        inner = _unwrapped(text)
        if inner == text:
            break
        text = inner
    return "" if text.strip() in NO_ANSWER or not text.strip() else text


def _unwrapped(text: str) -> str:
    text = _after_last(PROMPT, text)
    text = _after_last(CLOSE, text)
    if OPEN.search(text):
        return ""
    text = END.split(text.lstrip() if END.match(text.lstrip()) else text)[0]
    text = TOKEN.sub(" ", text) if TOKEN.search(text) else text
    if tags := TAG.findall(text):
        text = tags[-1][1]
    text = STRAY_TAG.sub(" ", text)
    text = _of_maths(text)
    text = _after_last(ANSWER, text)
    text = LEADING.sub("", text)
    fenced = INLINE_FENCE.match(text)
    text = fenced[1] if fenced else FENCE.sub("", text)
    return _of_json(_without_quotes(text))


def _after_last(mark: re.Pattern[str], text: str) -> str:
    """Return the text after the last match of `mark`; the whole text without a match."""
    matches = [*mark.finditer(text)]
    return text[matches[-1].end() :] if matches else text


def _of_maths(text: str) -> str:
    """Return the content of the last \\boxed{} of a text, without LaTeX; the whole text without a box."""
    if boxes := [*BOXED.finditer(text)]:
        start, depth = boxes[-1].end(), 1
        end = start
        while end < len(text) and depth:
            depth += {"{": 1, "}": -1}.get(text[end], 0)
            end += 1
        text = LATEX.sub(r"\1", text[start : end - 1 if depth == 0 else end]).replace("\\ ", " ")
    return match[1] if (match := MATHS.match(text)) else text


def _without_quotes(text: str) -> str:
    """Return a text without quotation marks, or marks of Markdown, around all of it."""
    match = QUOTED.match(text)
    return match[2] if match and not set(match[1]) & set(match[2]) else text


def _of_json(text: str) -> str:
    """Return the text in {"answer": "…"}, or in a list of one text; other texts unchanged."""
    if text.strip()[:1] not in ("{", "["):
        return text
    try:
        tree: Any = json.loads(text)
    except (ValueError, RecursionError):
        return text
    tree = tree[0] if isinstance(tree, list) and len(tree) == 1 else tree
    if isinstance(tree, dict):
        texts = [tree[name] for name in (*TEXTS, "final_answer", "description", "change") if name in tree]
        tree = texts[0] if len(texts) == 1 else tree
    return tree if isinstance(tree, str) else text
