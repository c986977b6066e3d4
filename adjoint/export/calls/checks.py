"""What a call from C can get wrong: each with a code of its own and what to say."""

from __future__ import annotations

from dataclasses import dataclass, field

from adjoint.export.calls.layout import Variant
from adjoint.export.interface import HandedBuffer, Interface
from adjoint.export.state import ALIGNED


@dataclass(slots=True)
class Codes:
    """Codes from 1 on, and what they mean."""

    messages: list[str] = field(default_factory=list)

    def add(self, message: str) -> int:
        """The code of a message."""
        self.messages.append(message)
        return len(self.messages)


@dataclass(frozen=True, slots=True)
class Checks:
    """The codes of a program."""

    codes: Codes
    sizes: dict[str, int]  # by name
    null: dict[str, int]
    aligned: dict[str, int]
    counts: dict[str, int]
    faults: dict[int, int]  # variant -> code before its first fault


def checks_of(interface: Interface, variants: list[Variant]) -> Checks:
    """All codes of a program, in the order in which a call looks at things."""
    codes = Codes()
    sizes = {s.name: codes.add(f"{s.name}: expected {s.low} to {s.high}") for s in interface.sizes}
    null, aligned, counts = {}, {}, {}
    for buffer in interface.buffers:
        null[buffer.name] = codes.add(f"{buffer.name}: the address is NULL")
        size = buffer.dtype.itemsize
        if size > 1:
            aligned[buffer.name] = codes.add(f"{buffer.name}: the address is no multiple of {size}")
        counts[buffer.name] = codes.add(f"{buffer.name}: expected {_elements(interface, buffer)}")
    blocks = [("state", f"at least {interface.state_bytes} bytes")] if interface.takes_state else []
    least = f"at least {max(interface.arena_bytes)} bytes"
    if interface.sizes:
        least = f"at least {interface.name}_arena_bytes(...) bytes"
    for name, wanted in [*blocks, ("arena", least)]:
        null[name] = codes.add(f"{name}: the address is NULL")
        aligned[name] = codes.add(f"{name}: the address is no multiple of {ALIGNED}")
        counts[name] = codes.add(f"{name}: expected {wanted}")
    faults = {}
    for k, variant in enumerate(variants):
        faults[k] = len(codes.messages)
        for message in variant.faults:
            codes.add(message.replace("{number}", "a number"))
    return Checks(codes, sizes, null, aligned, counts, faults)


def _elements(interface: Interface, buffer: HandedBuffer) -> str:
    dims = [interface.dimension(buffer, d) for d in range(len(buffer.shapes[0]))]
    if len(set(buffer.counts)) == 1:
        return f"{buffer.counts[0]} elements, the shape is ({', '.join(dims)})"
    return f"as many elements as the shape ({', '.join(dims)}) has"
