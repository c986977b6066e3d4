"""Random generators: a seed and an offset into the stream of blocks it names.

Note [random streams]
    A generator names one stream of Philox 4x32-10: the seed is the key, and the offset counts
    the blocks of four 32-bit words taken so far. A draw takes a range of blocks whose length
    follows from its shape and dtype alone, so that the same program takes the same ranges on
    every device, eagerly and captured. The counter's upper half numbers the retries of samplers
    that reject, so that a retry costs nothing of the range.

Note [marks]
    While a function is recorded its generators stand still: the recording counts what was drawn,
    and each call reads where the stream is. A state cloned meanwhile therefore carries a mark,
    which says how far the recording had come, and going back to it (a checkpoint that draws its
    dropout masks again) moves that count.
"""

from __future__ import annotations

import os
import struct
from typing import Any

from numpy import frombuffer
from numpy import uint8 as NUMPY_UINT8

from adjoint.engine.core.device import CPU, CURRENT_INDEX, KNOWN_TYPES, Device
from adjoint.engine.core.dtype import uint8
from adjoint.engine.core.errors import CaptureError, DeviceError
from adjoint.engine.core.operations.public import PUBLIC
from adjoint.engine.core.operations.record import HOOKS, is_tensor
from adjoint.engine.core.state import forks
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.core.state.host import HostScalar, is_host
from adjoint.engine.core.state.stream_capture import STREAM_CAPTURE

MASK = (1 << 64) - 1
FRESH_SEED = 67280421310721  # a new Generator's, as in PyTorch
_STATE = struct.Struct("<QQ")


def check_seed(seed: Any) -> int:
    """A seed as an unsigned 64-bit number; negative ones count from the top."""
    if not hasattr(seed, "__index__") and not is_tensor(seed):
        raise RuntimeError(f"manual_seed: expected an integer, received {type(seed).__name__}")
    value = int(seed)
    if not -(1 << 63) <= value <= MASK:
        raise ValueError(
            f"manual_seed: overflow: received {value}, expected a value in "
            "[-0x8000_0000_0000_0000, 0xffff_ffff_ffff_ffff]"
        )
    return value & MASK


class Generator:
    """A source of random numbers, reproducible from its seed and offset.

    >>> g = Generator().manual_seed(7)
    >>> g.draw(10), g.draw(1), g.get_offset()
    ((7, 0), (7, 10), 11)
    """

    __slots__ = ("__weakref__", "_device", "_lock", "_mark", "_offset", "_seed")

    def __init__(self, device: Any = "cpu") -> None:
        self._device = CPU if device is None else Device(device)
        if self._device.type not in KNOWN_TYPES:
            raise DeviceError(f"Generator: there are no {self._device.type} devices here.")
        self._seed = FRESH_SEED
        self._offset = 0
        self._mark: Any = None  # of one cloned while a function is recorded: Note [marks]
        self._lock = forks.lock(forks.LockOrder.GENERATOR)
        if CONTEXT.capture is not None:
            CONTEXT.capture.made(self, FRESH_SEED)

    @property
    def device(self) -> Device:
        """The device whose tensors this generator fills."""
        return self._device

    def draw(self, count: int) -> tuple[Any, Any]:
        """Take `count` blocks: the seed and the offset they start at.

        While a capture is active both are host scalars: a captured function reads the generator
        at each call, so that every call draws anew.
        """
        if CONTEXT.capture is not None:
            return CONTEXT.capture.random(self, count)
        if STREAM_CAPTURE.graph is not None and self._device.type == "cuda":
            STREAM_CAPTURE.refuse(
                "random numbers are drawn",
                "Every replay would draw the same ones; adjoint.compile draws anew at each call.",
            )
        return self.taken(count)

    def taken(self, count: int) -> tuple[int, int]:
        """`draw` on the CPU, where nothing is recorded."""
        with self._lock:
            start = self._offset
            self._offset = (start + count) & MASK
            return self._seed, start

    def advance(self, count: int) -> None:
        """Skip `count` blocks (what a captured function drew during a call)."""
        with self._lock:
            self._offset = (self._offset + count) & MASK

    def manual_seed(self, seed: int) -> Generator:
        """Start the stream of `seed` from its beginning."""
        if CONTEXT.capture is not None:
            CONTEXT.capture.restart(self, _checked(seed))
        else:
            self.move(check_seed(seed), 0)
        return self

    def move(self, seed: int, offset: int) -> None:
        """Go to a place in the stream of a seed."""
        with self._lock:
            self._seed, self._offset = seed, offset & MASK

    def seed(self) -> int:
        """Start the stream of a seed taken from the operating system, and return the seed."""
        _refuse_in_capture("seed")
        self.manual_seed(int.from_bytes(os.urandom(8), "little"))
        return self._seed

    def initial_seed(self) -> int:
        """The seed of the present stream; while a function is recorded, a number of each call."""
        if CONTEXT.capture is not None:
            return CONTEXT.capture.now(self)[0]
        return self._seed

    def get_offset(self) -> int:
        """The number of blocks taken; while a function is recorded, a number of each call."""
        if CONTEXT.capture is not None:
            return CONTEXT.capture.now(self)[1]
        return self._offset

    def position(self) -> tuple[int, int]:
        """Seed and offset, whether a function is recorded or not."""
        return self._seed, self._offset

    def set_offset(self, offset: int) -> None:
        """Move to a place in the stream."""
        if CONTEXT.capture is not None:
            CONTEXT.capture.restart(self, CONTEXT.capture.seed(self), _checked(offset))
        else:
            self._offset = check_seed(offset)

    def get_state(self) -> Any:
        """Seed and offset as a uint8 tensor."""
        if CONTEXT.capture is not None:
            return self._state_of_call()
        packed = frombuffer(_STATE.pack(self._seed, self._offset), NUMPY_UINT8)
        return HOOKS.array.wrap(packed.copy())

    def _state_of_call(self) -> Any:
        """The state as a tensor that each call computes, and the recording knows again."""
        capture = CONTEXT.capture
        numbers = capture.now(self)
        single, whole = PUBLIC["", "full"].fn, PUBLIC["", "stack"].fn
        bytes_ = [HostScalar.computed(_byte, n, i) for n in numbers for i in range(8)]
        state = whole([single((), byte, dtype=uint8) for byte in bytes_])
        capture.taken[id(state)] = state, numbers
        return state

    def set_state(self, new_state: Any) -> Generator:
        """Return to a state that `get_state` gave."""
        if CONTEXT.capture is not None:
            known = CONTEXT.capture.taken.get(id(new_state))
            if known is None:
                _refuse_in_capture("set_state")
            CONTEXT.capture.restart(self, *known[1])
            return self
        if not is_tensor(new_state) or new_state.dtype is not uint8:
            raise TypeError(
                "set_state: expected a uint8 (ByteTensor) state, received "
                f"{getattr(new_state, 'dtype', type(new_state))}. Pass what get_state gave."
            )
        raw = new_state.cpu().numpy().tobytes()
        if len(raw) != _STATE.size:
            raise RuntimeError(
                f"set_state: RNG state is wrong size: received {len(raw)} bytes, expected "
                f"{_STATE.size}. Pass what get_state gave."
            )
        self._seed, self._offset = _STATE.unpack(raw)
        return self

    def clone_state(self) -> Generator:
        """Another generator at the same place."""
        with CONTEXT.having(capture=None):
            other = Generator(self._device)
        other._seed, other._offset = self._seed, self._offset
        other._mark = self._mark
        if CONTEXT.capture is not None:
            CONTEXT.capture.cloned(self, other)
            if other._mark is None:
                other._mark = CONTEXT.capture.mark(self)
        return other

    graphsafe_get_state = clone_state

    def graphsafe_set_state(self, state: Generator) -> Generator:
        """Move to the place of another generator."""
        if CONTEXT.capture is not None:
            CONTEXT.capture.go_back(self, state._mark)
            return self
        self._seed, self._offset = state._seed, state._offset
        return self

    def __copy__(self) -> Generator:
        return self.clone_state()

    def __deepcopy__(self, memo: object) -> Generator:
        return self.clone_state()

    def __reduce__(self) -> tuple[object, ...]:
        return (_restore, (str(self._device), self._seed, self._offset))

    def __repr__(self) -> str:
        return f"<Generator device={str(self._device)!r} seed={self._seed} offset={self._offset}>"


def _restore(device: str, seed: int, offset: int) -> Generator:
    generator = Generator(device)
    generator._seed, generator._offset = seed, offset
    return generator


def _byte(number: int, place: int) -> int:
    return number >> (8 * place) & 255


def _checked(seed: Any) -> Any:
    """A seed or offset of each call."""
    return HostScalar.computed(check_seed, seed) if is_host(seed) else check_seed(seed)


def _refuse_in_capture(what: str) -> None:
    if CONTEXT.capture is not None:
        raise CaptureError(
            f"{what}: not inside a captured function, whose graph reads the generator at each "
            "call. Do it outside; what can be used inside is manual_seed, fork_rng, and set_state "
            "with what get_state gave there."
        )


# One generator per device, all following `manual_seed`; each starts from an unpredictable seed.
_DEFAULTS: dict[Device, Generator] = {}
_LAST_SEED: list[int] = []  # what manual_seed set, for devices first used later


def default_generator_of(device: Device) -> Generator:
    """The generator a draw on `device` uses when none is given."""
    if device.type != "cpu" and device.index is None:
        device = Device(device.type, CURRENT_INDEX.get(device.type, int)())
    generator = _DEFAULTS.get(device)
    if generator is None:
        capture = CONTEXT.capture
        with CONTEXT.having(capture=None):  # it is none of the function's that is being recorded
            generator = _restore(str(device), int.from_bytes(os.urandom(8), "little"), 0)
        if _LAST_SEED:
            generator._seed = _LAST_SEED[-1]
        generator = _DEFAULTS.setdefault(device, generator)
        if capture is not None:
            capture.appeared(generator)
    return generator


def defaults() -> tuple[Device, ...]:
    """The devices whose default generator has been used."""
    return tuple(_DEFAULTS)


def seed_all(seed: Any) -> Generator:
    """Seed the default generator of every device; returns the CPU's."""
    if CONTEXT.capture is not None:
        CONTEXT.capture.restart_all(list(_DEFAULTS.values()), _checked(seed))
        return default_generator
    value = check_seed(int(seed))
    _LAST_SEED[:] = [value]
    for generator in _DEFAULTS.values():
        generator.manual_seed(value)
    return default_generator


default_generator = default_generator_of(CPU)


class Filling:
    """In the place of a generator: the one given, and the tensor that a draw is to be put into.

    `done`: the generator, how many blocks and parameters of a draw that was put there at once.
    """

    __slots__ = ("done", "generator", "target")

    def __init__(self, generator: Generator | None, target: Any) -> None:
        self.generator, self.target = generator, target
        self.done: tuple[Generator, int, dict[str, Any]] | None = None


def generator_for(name: str, generator: Any, device: Device) -> Generator:
    """The generator of a draw on `device`, refusing one that belongs to another kind of device."""
    if generator.__class__ is Filling:
        generator = generator.generator
    if generator is None:
        return default_generator_of(device)
    if not isinstance(generator, Generator):
        raise TypeError(
            f"{name}: argument 'generator' must be a Generator, received {type(generator).__name__}"
        )
    if generator.device.type != device.type:
        raise DeviceError(
            f"{name}: expected a '{device.type}' device type for generator but found "
            f"'{generator.device.type}'. Make one with Generator({device.type!r})."
        )
    return generator
