"""Machines: what the text of kernels depends on, for this processor and for others.

Kernels are written for the machine of the moment, this one unless `writing_for` names another: the
export of programs writes for processors that are elsewhere. Plans are made within it too, since
how matrices are packed depends on the registers there are.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache

from adjoint.engine.backends.registers.vector import Features as Features


@dataclass(frozen=True, slots=True)
class CodeMachine:
    """A processor, as far as text is written for it."""

    features: Features
    bits: int  # of a vector register
    registers: int  # how many there are
    by_lane: bool  # products by one lane of a vector are one instruction (NEON)
    dot: str = ""  # how sums of int8 products are made; of this machine, as it finds out itself
    masks: bool = False  # some lanes of a vector are read and written by one instruction
    indexes: bool = False  # an address may be a base, a multiple of an index and a distance
    reads_backwards: bool = False  # as quickly as forwards; to write backwards takes longer


@cache
def this_machine() -> CodeMachine:
    """The machine this process runs on; LLVM calls library functions for features it lacks."""
    import platform

    if platform.machine().lower() in ("aarch64", "arm64"):
        return CodeMachine(Features(overwrites=True, folds=True), 128, 32, by_lane=True)
    from llvmlite import binding

    have = binding.get_host_cpu_features()
    features = Features(
        fused=bool(have.get("fma")),
        halves=bool(have.get("f16c")),
        nan_bounds=False,
        slow_underflow=True,
        scales=512 if have.get("avx512f") else 0,
    )
    if have.get("avx512f"):
        masks = bool(have.get("avx512bw") and have.get("avx512vl"))
        return CodeMachine(
            features, 512, 32, False, masks=masks, indexes=True, reads_backwards=True
        )
    bits = 256 if have.get("avx") else 128
    return CodeMachine(features, bits, 16, by_lane=False, indexes=True, reads_backwards=True)


_written_for: ContextVar[CodeMachine | None] = ContextVar("written_for", default=None)


def machine() -> CodeMachine:
    """The machine that text is written for."""
    return _written_for.get() or this_machine()


def is_this_process() -> bool:
    """Whether what is written runs here, beside this process's libraries."""
    return _written_for.get() is None


def host_features() -> Features:
    """What the machine that text is written for can do."""
    return machine().features


@contextmanager
def writing_for(other: CodeMachine) -> Iterator[None]:
    """Plan and write for another machine than this one.

    >>> with writing_for(CodeMachine(Features(fused=False), 128, 16, by_lane=False)):
    ...     host_features().fused
    False
    """
    token = _written_for.set(other)
    try:
        yield
    finally:
        _written_for.reset(token)
