"""A torch.save pickle read as a description: nothing that it names is ever looked up, let alone called.

A pickle is a program whose instructions call whatever it names. Here its instructions are taken
apart by pickletools (which executes none) and acted out on inert values: dictionaries, lists,
tuples, text, numbers, and for everything else a note of what would have been made. So there is
nothing to escape from, and no list of safe functions of some torch version to rely on.
"""

import math
import pickletools
import sys
from _compat_pickle import IMPORT_MAPPING
from dataclasses import dataclass, field
from typing import IO, Any

MOST_OPERATIONS = 1_000_000  # a released checkpoint has about 3,000
REBUILD = "torch._utils._rebuild_tensor_v2"
ITEMS = {  # storage class -> bytes of an element
    "torch.FloatStorage": 4,
    "torch.DoubleStorage": 8,
    "torch.HalfStorage": 2,
    "torch.BFloat16Storage": 2,
    "torch.LongStorage": 8,
    "torch.IntStorage": 4,
    "torch.ByteStorage": 1,
    "torch.BoolStorage": 1,
}
# what the description of these is made of: their arguments are plain values
CONTAINERS = {"collections.OrderedDict": dict, "__builtin__.set": list, "builtins.set": list}
KNOWN = {REBUILD, *ITEMS, *CONTAINERS}
# modules that are installed wherever this runs, and the names of Python 2 that pickles call some of them by
INSTALLED = sys.stdlib_module_names | set(IMPORT_MAPPING) | {"torch", "torchvision", "numpy"}


class RefusedError(ValueError):
    """What the pickle asks for is not a description of tensors; says in words what it is."""


@dataclass(frozen=True)
class Named:
    """A class or function that the pickle names, by its dotted name: text, nothing else."""

    name: str


@dataclass(frozen=True)
class Foreign:
    """An object of a class that is not installed; what it holds is left out."""

    of: Named


@dataclass(frozen=True)
class Storage:
    """A run of numbers that stands elsewhere in the file."""

    kind: str  # of ITEMS
    key: str
    count: int

    @property
    def bytes(self) -> int:
        """Its length in the file."""
        return self.count * ITEMS[self.kind]


@dataclass(frozen=True)
class View:
    """A tensor: which elements of a storage it consists of."""

    storage: Storage
    offset: int
    size: tuple[int, ...]
    stride: tuple[int, ...]


@dataclass
class Machine:
    """The pickle's stack, its memo, and the storages that it names, by key."""

    storages: dict[str, Storage] = field(default_factory=dict)
    stack: list[Any] = field(default_factory=list)
    marks: list[int] = field(default_factory=list)
    memo: dict[int, Any] = field(default_factory=dict)

    def run(self, stream: IO[bytes]) -> Any:
        """The value that the next pickle of the stream describes. Raises ValueError saying what is wrong."""
        try:
            for count, (opcode, argument, _) in enumerate(pickletools.genops(stream)):
                if opcode.name == "STOP":
                    return self.stack.pop()
                if count == MOST_OPERATIONS:
                    raise RefusedError(f"its pickle has more than {MOST_OPERATIONS} operations")
                self._act(opcode.name, argument)
        except (IndexError, KeyError, TypeError) as error:
            raise ValueError(f"its pickle is damaged: {type(error).__name__}: {error}") from None
        raise ValueError("its pickle does not end")

    def _act(self, operation: str, argument: Any) -> None:
        """One instruction: those that torch.save writes, and nothing else."""
        push, pop = self.stack.append, self.stack.pop
        match operation:
            case "PROTO" | "FRAME":
                pass
            case "NONE" | "NEWTRUE" | "NEWFALSE":
                push({"NONE": None, "NEWTRUE": True, "NEWFALSE": False}[operation])
            case "BININT" | "BININT1" | "BININT2" | "LONG1" | "BINFLOAT" | "BINUNICODE" | "SHORT_BINUNICODE":
                push(argument)
            case "EMPTY_DICT" | "EMPTY_LIST" | "EMPTY_TUPLE":
                push({"EMPTY_DICT": dict, "EMPTY_LIST": list, "EMPTY_TUPLE": tuple}[operation]())
            case "MARK":
                self.marks.append(len(self.stack))
            case "TUPLE":
                push(tuple(self._since_mark()))
            case "TUPLE1" | "TUPLE2" | "TUPLE3":
                push(tuple([pop() for _ in range(int(operation[-1]))][::-1]))
            case "BINPUT" | "LONG_BINPUT":
                self.memo[argument] = self.stack[-1]
            case "MEMOIZE":
                self.memo[len(self.memo)] = self.stack[-1]
            case "BINGET" | "LONG_BINGET":
                push(self.memo[argument])
            case "APPEND":
                self._append([pop()])
            case "APPENDS":
                self._append(self._since_mark())
            case "SETITEM":
                self._set([pop(), pop()][::-1])
            case "SETITEMS":
                self._set(self._since_mark())
            case "GLOBAL":
                push(named(*argument.split(" ", 1)))
            case "STACK_GLOBAL":
                name, module = pop(), pop()
                push(named(module, name))
            case "BINPERSID":
                push(self._storage(pop()))
            case "REDUCE":
                arguments, called = pop(), pop()
                push(described(called, arguments))
            case "NEWOBJ":
                _, made = pop(), pop()
                push(foreign(made))
            case "BUILD":  # attributes: of a foreign object, or torch's `_metadata` of a state
                pop()
                self._accepts((dict, Foreign), "attributes")
            case _:
                raise RefusedError(
                    f"its pickle has the operation {operation}, which torch.save does not write"
                )

    def _since_mark(self) -> list[Any]:
        mark = self.marks.pop()
        items = self.stack[mark:]
        del self.stack[mark:]
        return items

    def _accepts(self, kinds: tuple[type, ...], what: str) -> Any:
        if not isinstance(top := self.stack[-1], kinds):
            raise RefusedError(f"its pickle gives {what} to {_shown(top)}")
        return top

    def _append(self, items: list[Any]) -> None:
        if isinstance(top := self._accepts((list, Foreign), "items"), list):
            top.extend(items)

    def _set(self, items: list[Any]) -> None:
        if isinstance(top := self._accepts((dict, Foreign), "items"), dict):
            for key, value in zip(items[::2], items[1::2], strict=True):
                # the hash of a tuple nested deeply enough overflows the interpreter's stack
                if type(key) not in (str, int):
                    raise RefusedError(f"its pickle has {_shown(key)} as a key")
                top[key] = value

    def _storage(self, identity: Any) -> Storage:
        """torch's reference to a storage: mark, class, key, device, count; of old files a view, none here."""
        match identity:
            case ("storage", Named(kind), str(key), str(), int(count), *views) if (
                kind in ITEMS and type(count) is int and count >= 0 and views in ([], [None])
            ):
                found = Storage(kind, key, count)
                if self.storages.setdefault(key, found) != found:
                    raise RefusedError(f"its pickle describes the storage {key} in two ways")
                return found
        raise RefusedError(f"its pickle refers to {_shown(identity)}, which is no storage of a tensor")


def named(module: Any, name: Any) -> Named:
    """What a pickle may name: what torch.save needs, and classes of programs that are not installed."""
    if not isinstance(module, str) or not isinstance(name, str):
        raise RefusedError("its pickle names a class without text")
    whole = f"{module}.{name}"
    if whole not in KNOWN and module.split(".")[0] in INSTALLED:
        raise RefusedError(f"its pickle names {whole}, which no checkpoint needs; nothing of it was executed")
    return Named(whole)


def described(called: Any, arguments: Any) -> Any:
    """In the place of a call: the tensor or the empty container that it would have made."""
    match called, arguments:
        case Named(name), () if name in CONTAINERS:
            return CONTAINERS[name]()
        case Named("__builtin__.set" | "builtins.set"), ([*items],):
            return items
        case Named(name), tuple() if name == REBUILD:
            return view(*arguments[:4])
    raise RefusedError(f"its pickle calls {_shown(called)}, which is not allowed; nothing of it was executed")


def foreign(made: Any) -> Foreign:
    """In the place of a new object of a class: a note of it, where the class is one that is not installed."""
    if not isinstance(made, Named) or made.name in KNOWN:
        raise RefusedError(f"its pickle makes an object of {_shown(made)}, which is not allowed")
    return Foreign(made)


def view(storage: Any, offset: Any, size: Any, stride: Any) -> View:
    """A tensor's description, checked to lie in its storage and to have no more elements than that."""
    if not isinstance(storage, Storage) or type(size) is not tuple or type(stride) is not tuple:
        raise RefusedError("its pickle describes a tensor without a storage, size or stride")
    numbers = (offset, *size, *stride)
    if any(type(n) is not int or n < 0 for n in numbers) or len(size) != len(stride) or 0 in size:
        raise RefusedError(f"its pickle describes a tensor of size {size}, stride {stride}, offset {offset}")
    last = offset + sum((n - 1) * step for n, step in zip(size, stride, strict=True))
    if last >= storage.count or math.prod(size) > storage.count:
        raise RefusedError(
            f"its pickle describes a tensor of size {size} that is not within its storage of {storage.count}"
        )
    return View(storage, offset, size, stride)


def _shown(value: Any) -> str:
    """A value in words, never in full: it may be nested without end."""
    return value.name if isinstance(value, Named) else f"a {type(value).__name__}"
