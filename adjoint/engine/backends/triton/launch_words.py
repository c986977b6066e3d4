"""Words: what a launch of generated kernels is told, and the kernel it launches."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, Protocol

from adjoint.engine.backends.triton.emit import TileEmitter
from adjoint.engine.backends.triton.loose import rounds_to_halves
from adjoint.engine.backends.triton.schedule import PROCESSORS
from adjoint.engine.compiler.loops.ir import AffineReference, Kernel
from adjoint.engine.compiler.memory.places import OWN, Place, PlannedBuffer
from adjoint.engine.compiler.package.naming import digest
from adjoint.engine.compiler.schedule.steps import Address, HostNumber, Launch, Status, double_bits
from adjoint.engine.graph.ir import Value
from adjoint.engine.graph.sizes.extents import common_divisor

ALIGN = 16  # bytes that one instruction can load
WAVES = 4  # programs for each processor, of each of many kernels launched together
NAME = "kernel"  # in all sources; what is called is named by content
TABLE = "    w = words.to(tl.pointer_type(tl.int64))\n"  # of a kernel that has its words to itself


@dataclass(frozen=True, slots=True)
class Written:
    """A kernel's source, and how it is launched."""

    source: str
    grid: tuple[int, int]
    warps: int
    origin: str  # the operations it does, for people
    stages: int = 2  # loads of a loop that are under way together
    _: KW_ONLY
    registers: int = 0  # of a thread, at most; 0: as many as it takes
    # Whether products and sums may be rounded once, and subnormals be zeros: where halves follow.
    fused: bool = False
    # Whether strides of rows alone decide how wide its loads are (Note [open numbers]).
    by_rows: bool = False
    # Other ways to write and launch it; the fastest is found when it first runs.
    others: tuple[Written, ...] = ()

    def beside(self, others: list[Written]) -> Written:
        """The same, with others to choose from."""
        return replace(self, others=tuple(others))

    def codes(self) -> list[tuple[Any, ...]]:
        """All that decides the machine code of it and of others, which knows no grid."""
        return [(w.source, w.warps, w.stages, w.registers, w.fused) for w in (self, *self.others)]

    def __call__(self, name: str) -> tuple[str, set[str]]:
        """The text of a template's function."""
        return self.source, set()


class Aligning(Protocol):
    """Whoever knows what the addresses of buffers are multiples of."""

    def alignment(self, buffer: PlannedBuffer) -> int: ...


def fill_words(step: Launch, target: Aligning, sized: bool = True) -> None:
    """Write a launch's kernel and its words (Note [kernel table]).

    Without `sized` the first size is a word, so that one kernel serves many.
    """
    form, kernels = step.form, step.kernels
    aligned = [all(aligns(k.refs[r], target) for k in kernels) for r in range(len(form.refs))]
    stores = {r for _, r in form.stores}
    guarded = any(k.refs[r].buffer.kind not in OWN for k in kernels for r in stores)
    emitter = TileEmitter(form, kernels, aligned, guarded, sized)
    source = emitter.text(NAME)
    tiles = emitter.tiles
    blocks = max(emitter.blocks(k) for k in kernels)
    grid = (min(blocks, PROCESSORS * WAVES), len(kernels)) if emitter.many else (blocks, 1)
    origin, fused = "+".join(kernels[0].origin), rounds_to_halves(form, emitter.loose.values)
    step.text = Written(source, grid, tiles.warps, origin, fused=fused)
    step.function = f"t{digest(f'{source};{tiles.warps};{fused}')}"
    step.words = [word_of(k, what) for k in kernels for what in emitter.words.at] or [0]
    step.pieces = grid[0] * grid[1]


def aligns(ref: AffineReference, target: Aligning) -> bool:
    """Whether a reference's address is a multiple of 16 bytes."""
    buffer = ref.buffer
    if buffer is None or (ref.offset * ref.dtype.itemsize) % ALIGN:
        return False
    return target.alignment(buffer) >= ALIGN


def alignment(target: Any, place: Place) -> int:
    """What a place's address is a multiple of, in bytes."""
    item = place.buffer.dtype.itemsize
    return max(common_divisor(target.alignment(place.buffer), place.offset * item), item)


def is_aligned(target: Any, place: Place) -> bool:
    """Whether a template may take a place's address for a multiple of 16."""
    return alignment(target, place) >= ALIGN


def word_of(kernel: Kernel, what: tuple[Any, ...]) -> Any:
    """A word of a kernel, by what it is."""
    match what:
        case ("address", r):
            ref = kernel.refs[r]
            return Address(ref.buffer, ref.offset * ref.dtype.itemsize)
        case ("offset", r):
            return kernel.refs[r].offset
        case ("size", d):
            return (*kernel.outer, *kernel.inner)[d]
        case ("stride", r, d):
            return kernel.refs[r].strides[d]
        case ("pick", r, j):
            return kernel.refs[r].picks[j][0]
        case ("limit", r, j):
            return kernel.refs[r].picks[j][1]
        case ("extent", i):
            return kernel.extents[i]
        case ("fault", k, j):
            return kernel.faults[kernel.form.checks().index((k, j))]
        case ("status",):
            return Status()
        case ("host", h):
            host = kernel.hosts[h]
            if isinstance(host, Value):
                return HostNumber(host)
            return double_bits(host) if host.__class__ is float else host
    raise KeyError(what)
