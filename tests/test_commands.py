"""Check every command of the pages by its own parser: options, stages and settings must exist.

The make targets run with programs that print their arguments, and these are parsed, too.
"""

import argparse
import importlib.util
import io
import re
import shlex
from contextlib import redirect_stderr, redirect_stdout, suppress
from functools import cache
from subprocess import CompletedProcess
from unittest.mock import patch

import pytest
import yaml
from dvc.cli import DvcParserError
from dvc.cli.parser import get_main_parser
from torch.distributed.run import get_args_parser

from benchmarks import __main__ as benchmarks
from change_captioning_lab.__main__ import COMMANDS as LIBRARY
from pipeline.config.params import Params
from tests import project_params, shipped
from tests.makefile import making
from tests.running import script
from tests.test_docs import PAGES, ROOT

FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"(?<!`)`((?:[A-Z_]+=\S+ )*(?:python -m|torchrun|dvc|make) [^`]+)`")
YAML_FENCE = re.compile(r"^```yaml\n(.*?)^```$", re.MULTILINE | re.DOTALL)
STAGE = re.compile(r"\b(?:stages|commands)\.(\w+)")
WHOLE = (ROOT / "README.md", ROOT / "docs/cookbook.md", ROOT / "docs/getting_started.md")
PROGRAMS = ("python ", "torchrun ", "srun ", "dvc ", "make ")
STAGES = yaml.safe_load((ROOT / "dvc.yaml").read_text(encoding="utf-8"))["stages"]
PARSED = argparse.ArgumentParser.parse_args


class CalledError(Exception):
    """Raised in place of a program's work, after its arguments were parsed."""


def commands(page: str, whole: bool) -> list[str]:
    """Return the commands of a page: lines of code blocks without a language, and inline code.

    If `whole` is false, code blocks may have other lines, and only lines that begin with a program count.
    """
    fences = "\n".join(text for language, text in FENCE.findall(page) if not language)
    lines = [line for line in fences.replace("\\\n", " ").splitlines() if line.strip()]
    inline = (" ".join(found.split()) for found in INLINE.findall(FENCE.sub("", page)))
    return [line for line in lines if whole or line.startswith(PROGRAMS)] + [*inline]


def calls(line: str) -> list[list[str]]:
    """Split a line into commands, and each command into words, without environment variables."""
    words = shlex.shlex(line, posix=True, punctuation_chars="&|;")
    words.whitespace_split = True
    found: list[list[str]] = [[]]
    for word in words:
        if word in ("&&", "|", ";"):
            found.append([])
        elif found[-1] or "=" not in word:
            found[-1].append(word)
    return found


def made_calls(done: CompletedProcess[str]) -> list[list[str]]:
    """Return the commands that a make target called; each program printed its arguments."""
    lines = [line for line in done.stdout.splitlines() if line.startswith("[")]
    return [re.findall(r"\[([^]]*)\]", line) for line in lines]


def wrong(command: str, made) -> str:
    """Return the fault of a line of commands, or an empty text."""
    for words in calls(command):
        if said := _wrong(words, made):
            return f"{shlex.join(words)}: {said}"
    return ""


def _wrong(words: list[str], made) -> str:
    match words:
        case ["python", "-m", module, *arguments]:
            return _module(module, arguments)
        case ["torchrun", *arguments]:
            return _torchrun(arguments)
        case ["srun", *arguments] if "torchrun" in arguments:
            return _torchrun(arguments[arguments.index("torchrun") + 1 :])
        case ["change-captioning", name, *arguments] if name in LIBRARY:
            return _module(f"{LIBRARY[name]}.{name}", arguments)
        case ["dvc", *arguments]:
            return _dvc(arguments)
        case ["make", *arguments]:
            return _make(arguments, made)
    known = ("export", "head", "mypy", "pip", "ruff", "tensorboard", "train")
    return "" if words[0] in known else "no known program"


def _said(parse) -> str:
    """Return the message of a parser about wrong arguments, or an empty text."""
    said = io.StringIO()
    try:
        with redirect_stderr(said), redirect_stdout(io.StringIO()):
            parse()
    except CalledError:
        return ""
    except (SystemExit, DvcParserError):
        return said.getvalue() or "it exits"
    return ""


def _module(module: str, arguments: list[str]) -> str:
    if module == "benchmarks" and (not arguments or arguments[0] not in benchmarks.COMMANDS):
        known = benchmarks.SIDE_BY_SIDE
        return ", ".join(f"no benchmark {name}" for name in arguments if name not in known)
    if module == "benchmarks":
        module, *arguments = f"benchmarks.{arguments[0]}", *arguments[1:]
    if importlib.util.find_spec(module) is None:
        return "no such module"
    if not module.startswith(("stages.", "commands.", "benchmarks.")) or not arguments:  # a name is no call
        return ""

    def parse(parser, args=None, namespace=None):
        PARSED(_loose(parser) if "…" in arguments else parser, [word for word in arguments if word != "…"])
        raise CalledError

    with patch.object(argparse.ArgumentParser, "parse_args", parse):
        return _said(importlib.import_module(module).main)


def _loose(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    """Make all arguments optional, for a command that a page abbreviates with …"""
    for action in [*parser._actions, *parser._mutually_exclusive_groups]:
        action.required = False
    return parser


def _torchrun(arguments: list[str]) -> str:
    found = []
    said = _said(lambda: found.append(get_args_parser().parse_args(arguments)))
    return said or _module(found[0].training_script, found[0].training_script_args)


def _dvc(arguments: list[str]) -> str:
    if arguments == ["exp"]:  # a name is no call
        return ""
    found = []
    if said := _said(lambda: found.append(get_main_parser().parse_args(arguments))):
        return said
    named = getattr(found[0], "targets", None) if found[0].cmd in ("repro", "run", "commit", "pull") else None
    lost = [name for name in named or [] if name.partition("@")[0] not in STAGES]
    lost += [
        key for key in getattr(found[0], "set_param", None) or [] if not _settable(key.partition("=")[0])
    ]
    return ", ".join(f"no {name}" for name in lost)


def _settable(key: str) -> bool:
    """Return True if `dvc exp run -S` can set the key: it exists, or has a plus and does not exist.

    `FILE:KEY` is a key of another file than params.yaml.
    """
    file, _, key = key.rpartition(":")
    *above, last = key.removeprefix("+").split(".")
    tree = yaml.safe_load(shipped.text(file) if file else project_params.FILE.read_text(encoding="utf-8"))
    for name in above:
        if name not in tree and not key.startswith("+"):
            return False
        tree = tree.get(name, {})
    return (last in tree) != key.startswith("+")


def _make(arguments: list[str], made) -> str:
    done = made(*arguments)
    if done.returncode:
        # a name is no call
        return "" if len(arguments) == 1 and "*** name a " in done.stderr else done.stderr
    return "; ".join(said for words in made_calls(done) if (said := _wrong(words, made)))


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return making(tmp_path_factory.mktemp("made"))


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_command_of_a_page_can_be_typed(path, made):
    said = commands(path.read_text(encoding="utf-8"), path in WHOLE)
    faults = [found for command in said if (found := wrong(command, made))]
    assert faults == []
    assert len(said) > {"cookbook.md": 90}.get(path.name, -1)


@pytest.mark.parametrize("path", WHOLE, ids=lambda path: path.name)
def test_options_in_sentences_exist_in_the_commands_of_the_section(path):
    assert lost_options(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("path", WHOLE, ids=lambda path: path.name)
def test_settings_that_a_page_shows_can_be_entered(path):
    for text in YAML_FENCE.findall(path.read_text(encoding="utf-8")):
        Params.model_validate(_over(project_params.tree(), yaml.safe_load(text)))


@cache
def _experiment_options() -> set[str]:
    shown = io.StringIO()
    with redirect_stdout(shown), suppress(SystemExit):
        get_main_parser().parse_args(["exp", "run", "--help"])
    return set(re.findall(r"--[a-z][\w-]*", shown.getvalue()))


def lost_options(page: str) -> list[str]:
    """Return options in the sentences of a section that no command named in the section has."""
    lost = []
    for section in re.split(r"^#+ ", page, flags=re.MULTILINE):
        said = " ".join(re.findall(r"`(--[^`]+)`", FENCE.sub("", section)))
        known = {option for name in sorted(set(STAGE.findall(section))) for option in _options(name)}
        known |= _experiment_options() if "dvc exp run" in section else set()
        lost += [option for option in re.findall(r"--[a-z][\w-]*", said) if option not in known]
    return lost


@cache
def _options(stage: str) -> frozenset[str]:
    found: list[argparse.ArgumentParser] = []

    def parse(parser, args=None, namespace=None):
        found.append(parser)
        raise CalledError

    with patch.object(argparse.ArgumentParser, "parse_args", parse), suppress(CalledError):
        script(stage).main()
    return frozenset(option for action in found[0]._actions for option in action.option_strings)


def _over(tree, entered):
    """Return a tree in which the keys of another tree replace its own."""
    if not isinstance(tree, dict) or not isinstance(entered, dict):
        return entered
    return tree | {key: _over(tree.get(key), value) for key, value in entered.items()}


@pytest.mark.parametrize("name", ["extract", "pretrain", "train"])
def test_stages_that_several_processes_share_can_be_started_by_torchrun(name):
    """torchrun would take an option for its own if the names are alike."""
    command = _filled(STAGES[name]["cmd"]).removeprefix("python ")
    assert _torchrun(["--nproc-per-node", "2", *shlex.split(command)]) == ""


def test_every_stages_own_command_is_parsed():
    for stage in STAGES.values():
        assert wrong(_filled(stage["cmd"]), None) == ""


def _filled(command: str) -> str:
    dataset = "cub" if "_pretraining " in command else "tabletop"
    command = command.replace("${item.input}", "grid").replace("${item.dataset}", dataset)
    return re.sub(r"\$\{[\w.]+\}", "1", command)


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("python -m stages.train --recipee r …", "unrecognized arguments: --recipee"),
        ("python -m commands.export --weights w", "arguments are required: --out"),
        ("python -m stages.gone", "no such module"),
        ("python -m benchmarks stepp", "no benchmark stepp"),
        ("torchrun --nproc-per-node 2 -m stages.train --start d …", "ambiguous option: --start"),
        ("torchrun --nproc-per-node 2 -m stages.extract --inputs grid …", "unrecognized arguments"),
        ("srun --ntasks 2 torchrun --nnodes 2 -m stages.extract --inputs grid …", "unrecognized arguments"),
        ("dvc repro report && dvc repro reports", "no reports"),
        ("dvc exp run -S loss.lambda_cb=1", "no loss.lambda_cb=1"),
        ("dvc exp run -S +loss.lambda_cbr=1", "no +loss.lambda_cbr=1"),
        ("dvc exp runn", "dvc exp runn: it exits"),
        ("make studdy", "No rule to make target"),
        ("make study NAME=a", "name a dataset"),
        ("make study NAME=a DATASET=t SEEDS=one", "argument --seeds"),
        ("mkae repro", "no known program"),
        ("change-captioning caption a b", "arguments are required: --weights"),
        ("change-captioning study", "no known program"),
    ],
)
def test_a_wrong_command_is_found(made, command, said):
    assert said in wrong(command, made)
