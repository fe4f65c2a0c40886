"""Read records from files, and check them with pydantic. A wrong record gives an InputError.

The type of a record is any type that pydantic supports: a dataclass, a model, tuple[Model, ...]. Types are
strict: the text "3" is not accepted as a number. The error message names the file, line and key, and ends
with a remedy: what the user can do.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic_core import SchemaValidator

from pipeline.io.errors import InputError, listed
from pipeline.io.inputs import HALF_SURROGATE, RepeatedKeyError, decoded, json_of, read_lines, read_text

Kind = TypeVar("Kind")
Extra = Literal["forbid", "ignore"]
CONTAINERS = ("tuple", "list", "dict", "model", "dataclass", "model-fields", "dataclass-args")
FAULTS = (RepeatedKeyError, ValueError, RecursionError)  # pydantic's ValidationError is a ValueError
LONGEST = 80  # maximum number of characters of a key or a wrong value that a message shows

_adapter: Callable[[Any], TypeAdapter[Any]] = cache(TypeAdapter)


def checked(kind: type[Kind], value: Any, source: str, remedy: str) -> Kind:
    """Convert a YAML value; an InputError names `source`, the first wrong key and `remedy`."""
    try:
        return _adapter(kind).validate_python(value)
    except ValidationError as error:
        raise InputError(f"{source}: {first_fault(error)}; {remedy}") from None


def parsed(kind: type[Kind], text: str, source: str, remedy: str, extra: Extra = "forbid") -> Kind:
    """Convert a JSON text; unknown keys are an error unless `extra` is "ignore"."""
    try:
        return _adapter(kind).validate_json(text, strict=True, extra=extra)
    except ValidationError as error:
        raise InputError(f"{source}: {first_fault(error)}; {remedy}") from None


def read_record(path: str | Path, kind: type[Kind], remedy: str, extra: Extra = "forbid") -> Kind:
    """Return a JSON file's value as `kind`; unknown keys are an error unless `extra` is "ignore"."""
    text = read_text(path, remedy)
    with suppress(*FAULTS):
        return _of_json(kind, text, extra)
    json_of(text, path, remedy)  # raises if the text is no JSON, or repeats a key
    return parsed(kind, text, str(path), remedy, extra)


def read_records(
    path: str | Path, kind: type[Kind], remedy: str, key: str | None = None, extra: Extra = "forbid"
) -> Iterator[Kind]:
    """Yield one record of the type `kind` per line of a file of JSON lines.

    Raises InputError for a line that does not fit, or that repeats an earlier value of the field `key`.
    The message ends with `remedy`: what the user can do. Unknown keys are an error unless `extra` is
    "ignore".
    """
    earlier_names = set()
    for number, line in enumerate(read_lines(path, remedy), 1):
        source = f"{path}, line {number}"
        record = _record(kind, line, source, remedy, extra)
        if key is not None:
            if (name := getattr(record, key)) in earlier_names:
                raise InputError(f"{source}: the {key} {name!r} is in an earlier line; {remedy}")
            earlier_names.add(name)
        yield record


def read_foreign(path: Path, kind: type[Kind], remedy: str) -> Kind:
    """Return the value of another project's JSON file as the type `kind`. Unknown keys are ignored.

    An InputError lists all faults, each with its key, and ends with `remedy`: what the user can do.
    """
    text = read_text(path, remedy)
    with suppress(*FAULTS):
        return _of_json(kind, text, "ignore")
    json_of(text, path, remedy)
    try:
        return _adapter(kind).validate_json(text, strict=True, extra="ignore")
    except ValidationError as error:
        raise all_faults(error, str(path), remedy) from None


def _record(kind: type[Kind], text: str, source: str, remedy: str, extra: Extra) -> Kind:
    with suppress(*FAULTS):
        return _of_json(kind, text, extra)
    record = parsed(kind, text, source, remedy, extra)  # raises, except for a fault that only json_of finds
    json_of(text, source, remedy)
    return record


def _of_json(kind: type[Kind], text: str, extra: Extra) -> Kind:
    """Convert a JSON text to the type `kind`, as `parsed` does, but parse it only once.

    Raises one of FAULTS, without a message for the user, for any fault: also for repeated keys.
    """
    value = decoded(text)
    if HALF_SURROGATE.search(text):
        json.dumps(value, ensure_ascii=False).encode()
    record: Kind = _validator(kind).validate_python(value, extra=extra)
    return record


def _validator_of(kind: Any) -> SchemaValidator:
    """Return a validator as strict as pydantic is with JSON texts; models' own would convert more."""
    return SchemaValidator(_strict_values(_adapter(kind).core_schema), _use_prebuilt=False)


_validator: Callable[[Any], SchemaValidator] = cache(_validator_of)


def _strict_values(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_strict_values(member) for member in schema]
    if not isinstance(schema, dict):
        return schema
    schema = {key: _strict_values(member) for key, member in schema.items()}
    if schema.get("type") in ("int", "float", "str", "bool"):
        return schema | {"strict": True}
    return schema | {"strict": False} if schema.get("type") in CONTAINERS else schema


def all_faults(error: ValidationError, source: str, remedy: str) -> InputError:
    """Return an InputError that names all wrong keys, each in its own line if there are several."""
    problems = [_fault_message(problem) for problem in error.errors(include_url=False)]
    if len(problems) > 1:
        return listed(problems, source, remedy)
    return InputError(f"{source}: {problems[0]}; {remedy}")


def first_fault(error: ValidationError) -> str:
    return _fault_message(error.errors(include_url=False)[0])


def _fault_message(problem: Any) -> str:
    location = problem["loc"]
    if location and isinstance(location[0], int):
        return f"entry {location[0]}: {_fault_message({**problem, 'loc': location[1:]})}"
    key = ".".join(str(part) for part in location if part != "[key]")[:LONGEST]
    if problem["type"] in ("extra_forbidden", "unexpected_keyword_argument"):
        return f"unknown key {key}"
    if problem["type"] == "missing":
        return f"the key {key} is missing"
    message = problem["msg"].removeprefix("Value error, ")
    value = repr(problem["input"])
    hides_value = isinstance(problem["input"], (dict, BaseModel)) or problem["type"] == "json_invalid"
    ending = "" if hides_value else f", not {value if len(value) <= LONGEST else value[:LONGEST] + '…'}"
    return f"{key}: {message}{ending}" if key else f"{message}{ending}"


def plain(path: Path, kind: type[Kind], record: Any, remedy: str, extra: Extra = "forbid") -> Kind:
    """Convert `record`, a value from an untrusted YAML or JSON file, to the type `kind`.

    `path` is the file. Unknown keys are an error unless `extra` is "ignore". An InputError names the
    file and the first wrong key. Its message ends with `remedy`, which says what the user can do.
    """
    try:
        text = json.dumps(record, default=str)  # YAML has dates
    # a key that is no text, a very large number, deep nesting
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(f"{path}: {error}; {remedy}") from None
    # from JSON, pydantic makes dataclasses of dictionaries, but converts no other types
    return parsed(kind, text, str(path), remedy, extra)
