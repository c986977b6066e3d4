"""The statements of one function of C's, and what they need."""

from __future__ import annotations

from adjoint.export.c_source.types import Type

SIGNED = {"i1": "int8_t", "i8": "int8_t", "i16": "int16_t", "i32": "int32_t", "i64": "int64_t"}


class Body:
    """The statements of one function, and the variables they need."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.variables: dict[str, str] = {}  # name -> type in C
        self.vectors: set[Type] = set()
        self.structs: set[Type] = set()
        self.helpers: dict[str, str] = {}  # functions of C that are needed, by name
        self.masks: dict[str, int] = {}  # masks kept in the width of what was compared

    def note(self, of: Type) -> None:
        """Remember a type that C must know."""
        if of.is_vector:
            self.vectors.add(of)
        elif of.kind == "struct":
            self.structs.add(of)
            for part in of.parts:
                self.note(part)

    def let(self, name: str, of: Type, expression: str) -> None:
        """A value."""
        self.note(of)
        self.variables[name] = of.name
        self.lines.append(f"{name} = {expression};")

    def signed(self, of: Type) -> str:
        """The signed type of a vector or scalar."""
        self.note(of)
        return f"{of.name}_s" if of.is_vector else SIGNED[of.kind]

    def wide(self, mask: str, of: Type) -> str:
        """A mask as a vector of signed integers as wide as another type's elements."""
        bits = {"float": "i32", "double": "i64", "i1": "i8"}.get(of.scalar, of.scalar)
        width = of.lanes_of(bits)
        self.note(width)
        if self.masks.get(mask) == int(bits[1:]):
            return f"{mask}_w"
        narrow = of.lanes_of("i1")
        self.note(narrow)
        return f"__builtin_convertvector((v{of.count}m8_s){mask}, {width.name}_s)"
