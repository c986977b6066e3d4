"""Draws whose place in a stream is a tensor: Philox by whole tensors of integers.

Kernels that compute the words they need read seed and offset from memory; what they do is said here
in operations (Note [random streams]; `backends.array.kernels.random.philox` has the words).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from adjoint.engine.core.device import Device
from adjoint.engine.core.dtype import int64
from adjoint.engine.core.state.host import HostScalar, is_host
from adjoint.engine.ops.create.creation import ARANGE, full
from adjoint.engine.ops.elementwise.condition import where
from adjoint.engine.ops.shape.join import stack

if TYPE_CHECKING:
    from adjoint.engine.tensor.tensor import Tensor

LOW = (1 << 32) - 1
MULTIPLIERS, STEPS = (0xD2511F53, 0xCD9E8D57), (0x9E3779B9, 0xBB67AE85)
ROUNDS = 10


def _signed(number: int) -> int:
    """A word of 64 bits as a signed number."""
    return number - (1 << 64) if number >> 63 else number


def place_tensor(seed: Any, offset: Any, device: Device) -> Tensor:
    """Seed and offset as a tensor of two numbers; in a recording, those of each call.

    Those that are known are made at once, as a sequence of two whose step runs over.
    """
    if not (is_host(seed) or is_host(offset)):
        step = _signed((offset - seed) % (1 << 64))
        return ARANGE(start=_signed(seed), step=step, length=2, dtype=int64, device=device)
    numbers = [
        HostScalar.computed(_signed, x) if is_host(x) else _signed(x) for x in (seed, offset)
    ]
    return stack([full((), x, dtype=int64, device=device) for x in numbers])


def words_at(place: Tensor, index: Tensor) -> Tensor:
    """The 32-bit words at places of a stream that begins at `place`, as int64.

    >>> import adjoint as ad
    >>> from adjoint.engine.core.device import CPU
    >>> words_at(place_tensor(7, 3, CPU), ad.arange(3)).shape
    adjoint.Size([3])
    """
    seed, offset = place[0], place[1]
    counter = offset + (index >> 2)
    keys = [seed & LOW, (seed >> 32) & LOW]
    c0, c1 = counter & LOW, (counter >> 32) & LOW
    c2 = c3 = index.new_zeros(())
    for _ in range(ROUNDS):
        p, q = c0 * MULTIPLIERS[0], c2 * MULTIPLIERS[1]  # their bits, though the sign may be one
        c0, c1 = ((q >> 32) & LOW) ^ c1 ^ keys[0], q & LOW
        c2, c3 = ((p >> 32) & LOW) ^ c3 ^ keys[1], p & LOW
        keys = [(key + step) & LOW for key, step in zip(keys, STEPS, strict=True)]
    which = index & 3
    return where(which < 2, where(which == 0, c1, c0), where(which == 2, c3, c2))
