"""State: what a program holds besides its arguments, as one block of memory.

Weights, buffers, an optimizer's state, numbers a user may set (`lr`) and the place of a random
generator lie one after the other, wide elements first, so that each is aligned without gaps. The
block is what follows the header of a safetensors file; a training step reads and writes it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

from adjoint.engine.backends.array.dtypes import NUMPY_OF
from adjoint.engine.core import dtype as dt
from adjoint.engine.core.dtype import DType
from adjoint.engine.tensor.storage import Storage
from adjoint.engine.tensor.tensor import DTYPE_OF
from adjoint.io.safetensors import CODES

ALIGNED = 64


@dataclass(frozen=True, slots=True)
class StateTensor:
    """A tensor of the state: where it lies in the block, and what it is at first."""

    name: str
    dtype: DType
    shape: tuple[int, ...]
    offset: int
    array: Any
    written: bool

    @property
    def nbytes(self) -> int:
        """Bytes of its elements."""
        return self.dtype.itemsize * prod(self.shape)


@dataclass(slots=True)
class ProgramState:
    """All of it."""

    tensors: list[StateTensor] = field(default_factory=list)
    places: dict[Any, int] = field(default_factory=dict)  # what it stands for -> place in the list

    @property
    def nbytes(self) -> int:
        """Bytes of the block."""
        return sum(tensor.nbytes for tensor in self.tensors)

    @property
    def written(self) -> bool:
        """Whether a call changes it."""
        return any(tensor.written for tensor in self.tensors)

    def offset(self, key: Any) -> int:
        """Where something lies."""
        return self.tensors[self.places[key]].offset

    def block(self) -> bytes:
        """The block at first."""
        return b"".join(tensor.array.tobytes() for tensor in self.tensors)

    def header(self) -> bytes:
        """What stands before the block in a safetensors file."""
        listed: dict[str, Any] = {
            tensor.name: {
                "dtype": CODES[tensor.dtype],
                "shape": list(tensor.shape),
                "data_offsets": [tensor.offset, tensor.offset + tensor.nbytes],
            }
            for tensor in self.tensors
        }
        text = json.dumps(listed, separators=(",", ":")).encode()
        text += b" " * (-(8 + len(text)) % ALIGNED)
        return len(text).to_bytes(8, "little") + text


class StateBuilder:
    """Collects what a program holds; names are made unique."""

    def __init__(self, names: dict[int, str]) -> None:
        self.names = names  # id of a storage -> name
        self.entries: dict[Any, tuple[str, DType, Any, bool]] = {}

    def add(self, storage: Storage, *, written: bool) -> None:
        """A tensor that the function reached by itself."""
        key = id(storage)
        array = np.asarray(storage.buffer)
        stem = self.names.get(key, f"constant_{len(self.entries)}")
        known = self.entries.get(key)
        if known is not None:
            self.entries[key] = (*known[:3], known[3] or written)
            return
        self.entries[key] = (self._unique(stem), DTYPE_OF[array.dtype], array, written)

    def add_number(self, key: Any, name: str, value: float) -> None:
        """A number that the host may change between calls."""
        self._put(key, name, dt.float64, np.array(value, np.float64), written=False)

    def add_generator(self, generator: Any) -> None:
        """Seed and offset of a random generator."""
        words = np.array([generator.initial_seed(), generator.get_offset()], np.uint64)
        self._put(("generator", id(generator)), "random", dt.int64, words.view(np.int64), True)

    def _put(self, key: Any, name: str, dtype: DType, array: Any, written: bool) -> None:
        if key not in self.entries:
            self.entries[key] = (self._unique(name), dtype, array, written)

    def _unique(self, name: str) -> str:
        taken, unique, k = {entry[0] for entry in self.entries.values()}, name, 1
        while unique in taken:
            unique, k = f"{name}_{k}", k + 1
        return unique

    def state(self) -> ProgramState:
        """All of it, wide elements first."""
        state, at = ProgramState(), 0
        for key, (name, dtype, array, written) in sorted(
            self.entries.items(), key=lambda item: -item[1][1].itemsize
        ):
            array = np.array(array, NUMPY_OF[dtype], order="C")
            state.places[key] = len(state.tensors)
            state.tensors.append(StateTensor(name, dtype, tuple(array.shape), at, array, written))
            at += state.tensors[-1].nbytes
        return state
