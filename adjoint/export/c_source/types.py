"""Types of LLVM's text, and what C calls them.

Integers are unsigned, so that all wrap around; addresses are `uintptr_t`, so that arithmetic on
them is never undefined. Vectors are GCC's. Truth values are bytes that are 0 or 1; vectors of them
have elements of all ones or zeros, as comparisons of GCC's vectors give them.
"""

from __future__ import annotations

from dataclasses import dataclass

from adjoint.export.errors import ExportError

BITS = {"i1": 8, "i8": 8, "i16": 16, "i32": 32, "i64": 64, "float": 32, "double": 64}
SCALARS = {
    "i1": "uint8_t", "i8": "uint8_t", "i16": "uint16_t", "i32": "uint32_t", "i64": "uint64_t",
    "float": "float", "double": "double", "ptr": "uintptr_t", "void": "void",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Type:
    """A scalar, or a vector, array or structure of others."""

    kind: str  # a scalar's name, or "vector", "array", "struct"
    count: int = 0
    parts: tuple[Type, ...] = ()

    @property
    def element(self) -> Type:
        """What a vector or array is made of."""
        return self.parts[0]

    @property
    def is_vector(self) -> bool:
        return self.kind == "vector"

    @property
    def scalar(self) -> str:
        """The name of the scalar that it is, or that its elements are."""
        return self.parts[0].kind if self.is_vector else self.kind

    @property
    def is_float(self) -> bool:
        return self.scalar in ("float", "double")

    @property
    def name(self) -> str:
        """The type in C."""
        if self.kind in SCALARS:
            return SCALARS[self.kind]
        if self.is_vector:
            short = {"float": "f32", "double": "f64", "i1": "m8"}.get(self.scalar, self.scalar)
            return f"v{self.count}{short}"
        if self.kind == "struct":
            return "s_" + "_".join(part.name for part in self.parts)
        raise ExportError(f"export: C has no value of LLVM's type {self.kind}.")

    @property
    def nbytes(self) -> int:
        """Bytes in memory; addresses count by themselves (`size_text`)."""
        if self.kind == "array" or self.is_vector:
            return self.count * self.element.nbytes
        return BITS[self.kind] // 8

    def size_text(self) -> str:
        """Bytes in memory, as C writes them."""
        if self.kind == "ptr":
            return "sizeof(uintptr_t)"
        if self.kind == "array" and self.element.kind == "ptr":
            return f"{self.count} * sizeof(uintptr_t)"
        return str(self.nbytes)

    def lanes_of(self, scalar: str) -> Type:
        """The same number of lanes of another scalar."""
        return Type("vector", self.count, (Type(scalar),)) if self.is_vector else Type(scalar)


def parse_type(text: str, at: int = 0) -> tuple[Type, int]:
    """The type at a position, and where it ends."""
    if text[at] in "<[":
        close = {"<": ">", "[": "]"}[text[at]]
        count, rest = text[at + 1 :].split(" x ", 1)
        start = at + 1 + len(count) + 3
        inner, end = parse_type(text, start)
        assert rest
        if text[end] != close:
            raise ExportError(f"export: {text[at : at + 40]!r} is no type of LLVM's.")
        return Type("vector" if close == ">" else "array", int(count), (inner,)), end + 1
    if text[at] == "{":
        parts = []
        at += 2
        while True:
            part, at = parse_type(text, at)
            parts.append(part)
            if text[at] == ",":
                at += 2
                continue
            return Type("struct", len(parts), tuple(parts)), at + 2
    end = at
    while end < len(text) and (text[end].isalnum() or text[end] == "_"):
        end += 1
    word = text[at:end]
    if word not in SCALARS:
        raise ExportError(f"export: LLVM's type {word!r} has no form in C. Use machine='portable'.")
    return Type(word), end
