"""Normalise captions, and name the traces of programs in captions that a person should have written.

- `normalised` is applied before words are counted, tokenised or scored.
- `findings` names what a program left in one caption, and `warnings` counts this over many captions.
- `refusal` is the message for a caption that cannot be a person's: a list or a missing value as text.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable

from pipeline.io.errors import printable

LIST, MISSING = "a list as text", "a missing value as text"
ENTITY, TAG = "an HTML entity", "a tag or a special token"
ESCAPE, NUMBER = "an escape sequence as text", "only a number or truth value"
ENCODING, INVISIBLE = "text in a wrong encoding", "an invisible character"
FORM, SPACES, NO_WORD = "a letter in an unusual form", "words without spaces between them", "no word"
REMEDIES = {
    LIST: "write each sentence as a caption of its own (in a table: caption, caption_2 …)",
    MISSING: "write a caption, or leave it out",
    ENTITY: "write the character itself",
    TAG: "each counts as a word; remove it",
    ESCAPE: "write the character itself",
    NUMBER: "write a sentence",
    ENCODING: "save the file as UTF-8 again",
    INVISIBLE: "words that look equal differ; remove it",
    FORM: "words that look equal differ; write the usual letter",
    SPACES: "each counts as one word; put a space between words",
    NO_WORD: "they score 0",
}
"""What a caption can hold -> advice to the user, or the effect on the scores."""
REFUSED = (LIST, MISSING)

# lists, tuples, dictionaries and arrays as str() writes them, with or without quotation marks
_LIST = re.compile(
    r"""(?:array\()?[\[({]+\s*[rbu]?['"].*['"][\s\])},]*(?:dtype=\w+\))?|\[.*\]|\{.*\}|b(['"]).*\1""",
    re.DOTALL,
)
_MISSING = frozenset(("nan", "none", "null", "nil", "nat", "na", "n/a", "#n/a", "<na>", "undefined"))
_NUMBER = re.compile(r"[-+]?(?:\d+(?:[.,]\d*)?|\.\d+)(?:e[-+]?\d+)?|true|false", re.IGNORECASE)
_ENTITY = re.compile(
    r"&(?:#\d+|#x[\da-f]+|[a-z][a-z\d]{1,31});|&(?:quot|amp|lt|gt|nbsp|apos)\b", re.IGNORECASE
)
_TAG = re.compile(
    r"<[/|]?[^\W\d_][^<>]{0,60}>|<\|[^<>]{1,60}>|<0x[\da-f]{2}>|<</?sys>>"
    r"|\[/?(?:pad|unk|cls|sep|mask|bos|eos|inst|start|end|null)\]"
    r"|\u2581|(?<!\S)##\w|\w@@(?!\S)|[a-z]\u0120[a-z]",  # marks that tokenizers put between pieces of words
    re.IGNORECASE,
)
_ESCAPE = re.compile(r"""\\(?:[nrt"']|u[\da-f]{4}|x[\da-f]{2})""", re.IGNORECASE)
_FORM = re.compile(
    "[\ufb00-\ufb06\uff21-\uff3a\uff41-\uff5a\U0001d400-\U0001d7ff]"  # ligatures, full width, mathematics
    "|[a-zA-Z][\u0370-\u03ff\u0400-\u052f]|[\u0370-\u03ff\u0400-\u052f][a-zA-Z]"  # two alphabets in a word
)
_BLANK_LETTERS = "\u034f\u115f\u1160\u2800\u3164\uffa0"  # Unicode calls them letters, marks or symbols
_JOINERS = "\u200c\u200d"  # belong to the spelling from Hebrew on, and to emoji
_FIRST_WITH_JOINERS = "\u0590"
_EAST_ASIAN = (
    "\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff66-\uff9f"
    "\U00020000-\U0003ffff"
)
_SOUTH_EAST_ASIAN = "\u0e00-\u0e4f\u0e80-\u0ecf\u0f40-\u0fbc\u1000-\u103f\u1050-\u109f\u1780-\u17d3"
_UNSPACED = [  # scripts without spaces, and the length in characters that few words exceed
    (re.compile(f"[{_EAST_ASIAN}]+"), 3),
    (re.compile(f"[{_SOUTH_EAST_ASIAN}]+"), 7),
]
_PLAIN = re.compile(r"[A-Za-z]+ [A-Za-z][A-Za-z ,.;'-]*")  # captions that need no further look


def normalised(text: str) -> str:
    return unicodedata.normalize("NFC", text)


def one_line(text: str) -> str:
    return " ".join(normalised(text).split())


def findings(caption: str) -> dict[str, str]:
    """Return what a program left in a caption: key of REMEDIES -> first such text or character's name."""
    if _PLAIN.fullmatch(caption):
        return {}
    text = caption.strip()
    bare = text.strip(" .\"'").casefold()
    found: dict[str, str] = {}
    if not any(map(str.isalnum, text)):
        found[NO_WORD] = text
    elif _LIST.fullmatch(text):
        found[LIST] = text
    elif bare in _MISSING:
        found[MISSING] = text
    elif _NUMBER.fullmatch(bare):
        found[NUMBER] = text
    for name, pattern in ((ENTITY, _ENTITY), (TAG, _TAG), (ESCAPE, _ESCAPE)):
        if match := pattern.search(text):
            found[name] = match[0]
    return found | _of_characters(text)


def refusal(caption: str) -> str | None:
    """Return a message if the caption is a list or a missing value (REFUSED); None for all others."""
    name = next((name for name in findings(caption) if name in REFUSED), None)
    return name and f"the caption {_shown(caption)} is {name}: {REMEDIES[name]}"


def warnings(captions: Iterable[tuple[str, str]], items: str = "captions") -> list[str]:
    """Return a warning for each kind of finding in (name, text), with their number and the first example."""
    known: dict[str, dict[str, str]] = {}
    counts, firsts = Counter[str](), dict[str, tuple[str, str]]()
    named = list(captions)
    for name, text in named:
        if text not in known:
            known[text] = findings(text)
        for kind, piece in known[text].items():
            counts[kind] += 1
            firsts.setdefault(kind, (piece, name))
    return [
        f"{counts[kind]:,} of {len(named):,} {items} hold {kind} (the first: {_shown(piece)}, {name}): "
        f"{REMEDIES[kind]}"
        for kind, (piece, name) in firsts.items()
    ]


def _shown(text: str) -> str:
    return repr(printable(text if len(text) <= 60 else text[:60] + "…"))


def _of_characters(text: str) -> dict[str, str]:
    """Return the findings that only a text with characters outside of ASCII, or control characters, has."""
    found: dict[str, str] = {}
    invisible = [
        character
        for before, character in zip(" " + text, text, strict=False)
        if character in _BLANK_LETTERS
        or (
            unicodedata.category(character) in ("Cc", "Cf", "Co", "Cs")
            and not character.isspace()
            and not (character in _JOINERS and before >= _FIRST_WITH_JOINERS)
        )
    ]
    if invisible:
        found[INVISIBLE] = f"U+{ord(invisible[0]):04X}"
    if text.isascii():
        return found
    from ftfy.badness import is_bad

    if "\ufffd" in text or is_bad(text):
        found[ENCODING] = text
    letters = sum(map(str.isalpha, text))
    for pattern, longest in _UNSPACED:
        runs = pattern.findall(text)
        characters = sum(map(len, runs))
        if characters > longest * len(runs) and 2 * characters > letters:
            found[SPACES] = max(runs, key=len)
    if not found.keys() & {SPACES, ENCODING} and (match := _FORM.search(text)):
        found[FORM] = match[0]
    return found
