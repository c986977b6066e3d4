"""PyTorch's notation of an operation: its arguments, those it writes to, what it returns."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

# The kinds an argument or a result may be of.
KINDS = frozenset(
    "Tensor int SymInt float SymFloat bool SymBool str Scalar number complex ScalarType Device "
    "DeviceIndex Layout MemoryFormat Generator Dimname QScheme Storage Stream Any any t".split()
)
_KIND = re.compile(r"(\w+)(\([\w!|*> -]*\)|!)?((?:\[\d*\]|\?)*)")  # `Tensor(a!)[]?`
_NAME = re.compile(r"\s*([\w.:]*)\s*\(")
_OPEN, _CLOSE = "([{", ")]}"


class SchemaArgument(NamedTuple):
    """One argument."""

    kind: str  # without what is said of memory: "Tensor?", "int[2]"
    name: str
    default: str | None  # as it is written
    by_name: bool
    written: bool


class Notation(NamedTuple):
    """What the notation of an operation says of it."""

    written: tuple[str, ...]  # the names of arguments that it writes to
    results: tuple[str, ...]  # the kinds of what it returns
    arguments: tuple[SchemaArgument, ...]


def read_notation(text: str) -> Notation:
    """What a notation says.

    >>> read_notation("(Tensor x, Tensor(a!) out, int? axis=None) -> ()")[:2]
    (('out',), ())
    >>> read_notation("both(Tensor x, float[2] by) -> (Tensor, Tensor? rest)").results
    ('Tensor', 'Tensor?')
    """
    head = _NAME.match(text)
    if head is None:
        raise RuntimeError(f"expected ( but found none here: {text}")
    inside, rest = enclosed(text, head.end() - 1)
    arrow, _, returned = rest.partition("->")
    if arrow.strip() or "->" not in rest:
        found = arrow.strip() or "eof"
        raise RuntimeError(f"expected arrow but found {found!r} here: {text}: it must have '->'")
    inner = returned.strip()
    if not inner:
        raise RuntimeError(f"expected a kind but found 'eof' here: {text}: nothing is written ()")
    inner = enclosed(inner, 0)[0] if inner.startswith("(") else inner
    results = tuple(_kind(part.strip().split(" ")[0], text)[0] for part in parts(inner))
    arguments: list[SchemaArgument] = []
    by_name = False
    for part in parts(inside):
        if part.strip() == "*":
            by_name = True
        else:
            argument = _argument(part.strip(), by_name, text)
            follows = bool(arguments) and not by_name and arguments[-1].default is not None
            if follows and argument.default is None:
                raise RuntimeError(
                    "Non-default positional argument follows default argument. Parameter "
                    f"{argument.name} in {text}"
                )
            arguments.append(argument)
    written = tuple(argument.name for argument in arguments if argument.written)
    return Notation(written, results, tuple(arguments))


def enclosed(text: str, start: int) -> tuple[str, str]:
    """What a bracket holds, and what follows it."""
    depth = 0
    for place, letter in enumerate(text[start:], start):
        depth += (letter in _OPEN) - (letter in _CLOSE)
        if depth == 0:
            return text[start + 1 : place], text[place + 1 :]
    raise RuntimeError(f"expected ) but found the end here: {text}")


def parts(text: str) -> list[str]:
    """What stands between commas that no bracket or quote holds."""
    found, depth, quote, start = [], 0, "", 0
    for place, letter in enumerate(text):
        if quote or letter in "\"'":
            quote = "" if letter == quote else quote or letter
            continue
        depth += (letter in _OPEN) - (letter in _CLOSE)
        if letter == "," and depth == 0:
            found.append(text[start:place])
            start = place + 1
    return [part for part in (*found, text[start:]) if part.strip()]


def _argument(part: str, by_name: bool, text: str) -> SchemaArgument:
    declared, equals, default = part.partition("=")
    kind_text, _, name = declared.strip().rpartition(" ")
    if not kind_text or not name.isidentifier():
        raise RuntimeError(f"expected a kind and a name but found {part!r} here: {text}")
    kind, written = _kind(kind_text.strip(), text)
    return SchemaArgument(kind, name, default.strip() if equals else None, by_name, written)


def _kind(word: str, text: str) -> tuple[str, bool]:
    """A kind without what is said of memory, and whether that is written to."""
    if word.startswith("Dict("):
        return word, False
    found = _KIND.fullmatch(word)
    if found is None or not (found[1] in KINDS or found[1].startswith("__torch__")):
        raise RuntimeError(
            f"unknown type specifier {word!r} here: {text}. Common valid schema types include "
            "Tensor, SymInt, int, float, bool, Scalar"
        )
    return found[1] + found[3], "!" in (found[2] or "")


# -- arguments against a notation ------------------------------------------------------------------

# Of plain values of these classes it is known which kinds they are none of.
_PLAIN = (str, bool, int, float, complex, dict, type(None))
_TAKES: dict[str, tuple[type, ...]] = {
    "Tensor": (),
    "int": (int,),
    "SymInt": (int,),
    "float": (int, float),
    "SymFloat": (int, float),
    "bool": (bool,),
    "SymBool": (bool,),
    "str": (str,),
    "Scalar": (int, float, complex),
    "number": (int, float, complex),
    "complex": (int, float, complex),
}


def _fits(kind: str, value: Any) -> bool:
    """Whether a value may be of a kind; what is no plain value may be of any."""
    if kind.endswith("?"):
        return value is None or _fits(kind[:-1], value)
    base, bracket, size = kind.partition("[")
    if bracket and isinstance(value, (list, tuple)):
        return all(_fits(base, item) for item in value)
    if bracket and not size[:-1].isdigit() and isinstance(value, _PLAIN):
        return False  # one for all where a number of them is said: `int[2] size`
    return not isinstance(value, _PLAIN) or base not in _TAKES or isinstance(value, _TAKES[base])


def mismatch(notation: Notation, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str | None:
    """What is wrong with arguments, or None.

    >>> mismatch(read_notation("(Tensor x, int n) -> Tensor"), ("x", 1), {})
    "Expected a value of type 'Tensor' for argument 'x' but instead found type 'str'."
    """
    places = [argument for argument in notation.arguments if not argument.by_name]
    if len(args) > len(places):
        return f"expected at most {len(places)} argument(s) but received {len(args)} argument(s)."
    given = {a.name: value for a, value in zip(places, args, strict=False)}
    unknown = sorted(kwargs.keys() - {argument.name for argument in notation.arguments})
    if unknown or given.keys() & kwargs.keys():
        which = unknown or sorted(given.keys() & kwargs.keys())
        return f"Unknown keyword argument {which[0]!r}, or one given twice."
    given |= kwargs
    for argument in notation.arguments:
        if argument.name not in given:
            if argument.default is None:
                return f"is missing value for argument {argument.name!r}."
        elif not _fits(argument.kind, given[argument.name]):
            found = type(given[argument.name]).__name__
            return (
                f"Expected a value of type {argument.kind!r} for argument {argument.name!r} but "
                f"instead found type {found!r}."
            )
    return None
