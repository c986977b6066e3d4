"""What reading a file may take: memory in proportion to the file, stated before it is spent.

Note [reading what others wrote]
    A reader keeps a `Budget`. Before it makes something whose size the file decides, it spends
    that size; what a few bytes of a file can ask for over and over (a copy, a tensor, a comparison
    of keys) is spent each time, so that the budget bounds the time too. Damage and malice are told
    apart: bytes that make no sense are "damaged at ..."; what makes sense and is not to be had is
    "refused". A reader never runs anything that a file names.
"""

from __future__ import annotations

import json
import zlib
from collections import Counter
from typing import Any

from adjoint.engine.core.errors import FileError

FACTOR, BASE = 8, 48 << 20  # with what an allocator adds, ten times the file and 64 MiB
NESTING = 1000  # containers in containers
COLLISIONS = 256  # distinct keys of one hash


class Budget:
    """The bytes that reading one file may take.

    Args:
        size: of the file.
        what: the operation and the file, for messages.

    Example:
        >>> budget = Budget(10, "load: a.pt")
        >>> budget.spend(1000, "an image")
        >>> budget.spent, budget.limit
        (1000, 50331728)
    """

    __slots__ = ("_keys", "limit", "size", "spent", "what")

    def __init__(self, size: int, what: str) -> None:
        self.size = size
        self.what = what
        self.limit = FACTOR * size + BASE
        self.spent = 0
        self._keys: dict[int, Any] = {}  # by hash: a key, or the list of all that have it

    def spend(self, count: int, on: str) -> None:
        """Take so many bytes, or refuse."""
        self.spent += count
        if self.spent > self.limit:
            raise FileRefusal(
                f"{self.what}: refused: {on} would bring what reading takes to {self.spent} bytes; "
                f"{self.limit} are allowed for a file of {self.size} ({FACTOR} times its size and "
                f"{BASE >> 20} MiB)"
            )

    def enlarge(self, size: int) -> None:
        """Another file is read for the same value."""
        self.size += size
        self.limit += FACTOR * size

    def check_key(self, key: Any) -> None:
        """Refuse a key whose hash would take too long, or that has the hash of many others.

        Hashes of strings are drawn anew in each process; those of the other kinds can be made
        equal on purpose, and a table of equal hashes takes the square of its size.
        """
        kind = type(key)
        if kind in _SAFE_KEYS or (kind is int and -_MERSENNE < key < _MERSENNE):
            return
        self._walk_key(key)
        try:
            code = hash(key)
        except TypeError as error:
            raise ValueError(f"a {type(key).__name__} cannot be a key ({error})") from error
        known = self._keys.setdefault(code, key)
        self.spend(128, "a table")
        if known is key:
            return
        if type(known) is not _Alike:
            known = self._keys[code] = _Alike([known])
        if not any(_same(other, key) for other in known):
            known.append(key)
            if len(known) > COLLISIONS:
                raise FileRefusal(
                    f"{self.what}: refused: more than {COLLISIONS} keys of one table have the same "
                    "hash, made to take time"
                )

    def _walk_key(self, key: Any) -> None:
        """Spend as much as a hash of nested tuples takes; shared ones count each time."""
        waiting = [(key, 1)]
        while waiting:
            item, depth = waiting.pop()
            if isinstance(item, (tuple, frozenset)):
                self.spend(32 * len(item) + 32, "the hash of a key")
                if depth > NESTING:
                    raise self.too_deep("a key")
                waiting += [(part, depth + 1) for part in item]
            elif type(item) is int:
                self.spend(item.bit_length() >> 3, "the hash of a key")

    def too_deep(self, what: str) -> RuntimeError:
        """The refusal of nesting without end."""
        return FileRefusal(f"{self.what}: refused: {what} nests deeper than {NESTING} levels")


class FileRefusal(FileError):
    """A file that asks for more than reading it may take, or for what is not to be had."""


class _Alike(list[Any]):
    """Different keys of one hash."""


_SAFE_KEYS = frozenset({str, bytes, bool, float, type(None)})
_MERSENNE = (1 << 61) - 1  # whole numbers up to this have hashes of their own


def _same(a: Any, b: Any) -> bool:
    """Whether two keys are one, without asking what arrays or tensors say of equality."""
    return a is b or (type(a) is type(b) and isinstance(a, _COMPARED) and a == b)


_COMPARED = (int, complex, tuple, frozenset)


# -- formats that several readers meet ------------------------------------------------------------

# Bytes that a piece of JSON takes in memory, by the sign that announces it.
_JSON_COSTS = {b"{": 240, b"[": 72, b",": 64, b":": 64, b'"': 28}


def read_json(data: bytes, budget: Budget) -> Any:
    """The value of a JSON text; damage is a ValueError.

    Example:
        >>> read_json(b'{"a": [1, 2]}', Budget(13, "load"))
        {'a': [1, 2]}
    """
    cost = sum(data.count(sign) * price for sign, price in _JSON_COSTS.items())
    budget.spend(cost + 4 * len(data), "a JSON text")
    try:
        text = data.decode("utf-8")
        return json.loads(text, object_pairs_hook=_pairs, parse_constant=_no_constant)
    except RecursionError:
        raise budget.too_deep("a JSON text") from None


def read_json_object(data: bytes, budget: Budget) -> dict[str, Any]:
    """The object that a JSON file holds; anything else is the error of a file.

    Example:
        >>> read_json_object(b"[1]", Budget(3, "load: a.json"))
        Traceback (most recent call last):
            ...
        adjoint.errors.FileError: load: a.json holds a list, not an object
    """
    try:
        content = read_json(data, budget)
    except ValueError as error:
        raise FileError(f"{budget.what} is no JSON: {str(error)[:400]}") from error
    if not isinstance(content, dict):
        raise FileError(f"{budget.what} holds a {type(content).__name__}, not an object")
    return content


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        twice = Counter(name for name, _ in pairs).most_common(1)[0][0]
        raise ValueError(f"the name {twice[:80]!r} occurs twice in one object")
    return members


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no number of JSON")


def inflate(data: Any, size: int, form: int = zlib.MAX_WBITS) -> bytearray:
    """What was deflated, which must be `size` bytes: never more of it is made.

    Args:
        data: the deflated bytes.
        size: of the result.
        form: as zlib's `wbits`.
    """
    out = bytearray()
    while True:
        stream = zlib.decompressobj(form)
        out += stream.decompress(data, size - len(out) + 1)
        if len(out) > size:
            raise ValueError(f"it inflates to more than the {size} bytes it should have")
        if not stream.eof:
            raise ValueError("the deflated data ends early")
        data = stream.unused_data
        if form != GZIP or not data.strip(b"\0"):  # files of several parts are valid for gzip only
            break
    if len(out) != size:
        raise ValueError(f"it inflates to {len(out)} bytes, not the {size} it should have")
    return out


GZIP = 31  # zlib's `wbits` for a gzip file


def inflated_start(data: Any, count: int, form: int) -> bytes:
    """The first bytes of what was deflated."""
    return zlib.decompressobj(form).decompress(data, count)
