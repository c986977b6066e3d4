"""Notations of operations as objects: PyTorch's `FunctionSchema` and what it is made of."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from typing import Any

from adjoint.library.notation import enclosed, parts, read_notation

# How the compiled module calls kinds, where it does not say what is written.
_SHOWN = {"SymInt": "int", "SymBool": "bool", "SymFloat": "float", "Scalar": "number"}
_NUMBERED = {"ScalarType": "int", "Layout": "int", "MemoryFormat": "int"}
_DECLARED = re.compile(r"(\w+)(?:\(([\w!|*> -]*)\))?((?:\[\d*\]|\?)*)(?:\s+(\w+))?")


@dataclass(frozen=True)
class AliasInfo:
    """What an argument's or result's memory is, by the letters that a notation gives it."""

    before_set: frozenset[str]
    after_set: frozenset[str]
    is_write: bool


@dataclass(frozen=True)
class SchemaType:
    """A kind; its text is PyTorch's."""

    text: str

    def __str__(self) -> str:
        return self.text

    def annotation_str(self) -> str:
        """The text, as it stands in annotations."""
        return self.text


@dataclass(frozen=True)
class ParsedArgument:
    """An argument or a result."""

    name: str
    type: SchemaType
    real_type: SchemaType
    N: int | None
    default_value: Any
    kwarg_only: bool
    alias_info: AliasInfo | None
    written: str  # as the notation has it, without the default
    default_text: str | None

    def has_default_value(self) -> bool:
        """Whether it may be left out."""
        return self.default_text is not None

    @property
    def is_out(self) -> bool:
        """Whether it is written to, and only given by name."""
        return self.kwarg_only and self.is_write

    @property
    def is_write(self) -> bool:
        """Whether it is written to."""
        return self.alias_info is not None and self.alias_info.is_write

    def __str__(self) -> str:
        shown = self.written if not self.name else f"{self.written} {self.name}"
        if self.default_text is None:
            return shown
        if isinstance(self.default_value, str) and self.written.startswith("str"):
            return f'{shown}="{self.default_value}"'
        one_for_all = self.default_text.isdigit() and "[" in self.written
        return f"{shown}={self.default_text if one_for_all else _shown(self.default_value)}"


@dataclass(frozen=True)
class FunctionSchema:
    """What a notation says of an operation."""

    name: str
    overload_name: str
    arguments: list[ParsedArgument]
    returns: list[ParsedArgument]

    @property
    def is_mutable(self) -> bool:
        """Whether it writes to an argument."""
        return any(argument.is_write for argument in self.arguments)

    def __str__(self) -> str:
        shown, by_name = [], False
        for argument in self.arguments:
            if argument.kwarg_only and not by_name:
                shown.append("*")
            by_name = argument.kwarg_only
            shown.append(str(argument))
        results = ", ".join(map(str, self.returns))
        if len(self.returns) != 1 or self.returns[0].name:
            results = f"({results})"
        name = f"{self.name}.{self.overload_name}" if self.overload_name else self.name
        return f"{name}({', '.join(shown)}) -> {results}"

    __repr__ = __str__


def parse_schema(text: str, allow_typevars: bool = False) -> FunctionSchema:
    """What a notation says, part by part; what is none is refused.

    >>> schema = parse_schema("mine::add.two(Tensor x, int[2] by=[1, 2]) -> Tensor")
    >>> schema.name, schema.overload_name, str(schema.arguments[1].type)
    ('mine::add', 'two', 'List[int]')
    """
    notation = read_notation(text)
    full, _, _ = text.strip().partition("(")
    name, _, overload = full.strip().partition(".")
    inside, rest = enclosed(text, text.index("("))
    returned = rest.partition("->")[2].strip()
    returned = enclosed(returned, 0)[0] if returned.startswith("(") else returned
    declared = [part.strip() for part in parts(inside) if part.strip() != "*"]
    arguments = [
        _argument(part, a.default, by_name=a.by_name)
        for part, a in zip(declared, notation.arguments, strict=True)
    ]
    results = [_argument(part.strip(), None, by_name=False) for part in parts(returned)]
    return FunctionSchema(name, overload, arguments, results)


def _argument(part: str, default: str | None, *, by_name: bool) -> ParsedArgument:
    found = _DECLARED.fullmatch(part.partition("=")[0].strip())
    if found is None:
        raise RuntimeError(f"parse_schema: expected a plain kind and a name, found {part!r}")
    kind, memory, behind, name = found.groups()
    sizes = re.findall(r"\[(\d+)\]", behind)
    count = int(sizes[0]) if sizes else None
    written = kind + (f"({memory})" if memory is not None else "") + behind
    return ParsedArgument(
        name=name or "",
        type=SchemaType(_wrapped(_SHOWN.get(kind, _NUMBERED.get(kind, kind)), behind)),
        real_type=SchemaType(_wrapped(_SHOWN.get(kind, kind), behind)),
        N=count,
        default_value=None if default is None else _value(default, kind, behind, count),
        kwarg_only=by_name,
        alias_info=None if memory is None else _alias(memory, of_list="[" in behind),
        written=written,
        default_text=default,
    )


def _wrapped(kind: str, behind: str) -> str:
    """`Optional[...]` and `List[...]` around a kind, from what stands behind it."""
    for mark in re.findall(r"\[\d*\]|\?", behind):
        kind = f"Optional[{kind}]" if mark == "?" else f"List[{kind}]"
    return kind


def _alias(memory: str, *, of_list: bool) -> AliasInfo:
    if of_list:  # the letters are those of its elements
        return AliasInfo(frozenset(), frozenset(), "!" in memory)
    before, arrow, after = (s.strip() for s in memory.partition("->"))
    first = frozenset(s.strip() for s in before.rstrip("!").split("|"))
    last = frozenset(s.strip() for s in after.split("|")) if arrow else first
    return AliasInfo(first, last, "!" in memory)


def _value(default: str, kind: str, behind: str, count: int | None) -> Any:
    """What a default's text means; names of dtypes and formats stay text."""
    try:
        value = ast.literal_eval(default)
    except (ValueError, SyntaxError):
        return default
    if kind in ("float", "complex") and type(value) is int:
        value = float(value)
    if kind in ("float", "complex") and isinstance(value, list):
        value = [float(v) for v in value]
    many = "[" in behind and count is not None and not isinstance(value, list)
    return [value] * count if many and value is not None else value  # type: ignore[operator]


def _shown(value: Any) -> str:
    """A default as PyTorch writes it."""
    if isinstance(value, float) and value.is_integer():
        return f"{int(value)}."
    if isinstance(value, list):
        return f"[{', '.join(map(_shown, value))}]"
    if isinstance(value, float):
        return f"{value:.17g}"
    return str(value)
