"""Which keys each query sees where sequences of different lengths lie one after another."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adjoint.engine.core.dtype import int32, int64
from adjoint.engine.core.operations.families import composite
from adjoint.engine.core.operations.record import Record

if TYPE_CHECKING:
    from adjoint.engine.tensor.tensor import Tensor


def _ranges(
    starts: Tensor, key_starts: Tensor, *used: Tensor, rows: int, left: int, right: int
) -> tuple[Tensor, Tensor]:
    """The first key that each query sees, and one past the last: (rows, 1) of int32."""
    starts, key_starts = starts.to(int64), key_starts.to(int64)
    place = starts.new_arange(rows)
    # How many sequences have begun; one that is empty has ended where it began.
    sequence = (place.unsqueeze(-1) >= starts[1:]).sum(-1).clamp(max=starts.shape[0] - 2)
    first, last = key_starts[sequence], key_starts[sequence + 1]
    if used:
        last = first + used[0].to(int64)[sequence]
    own = place - starts[sequence + 1] + last  # the key at a query's place, counted from the ends
    low, high = first, last
    if left >= 0:
        low = low.maximum(own - left)
    if right >= 0:
        high = high.minimum(own + right + 1)
    inside = place < starts[-1]
    low, high = low.where(inside, 0), high.where(inside, 0)
    return low.to(int32).unsqueeze(-1), high.maximum(low).to(int32).unsqueeze(-1)


# KEY_RANGES(where queries' sequences begin, where keys' do, [how many keys of each are used])
KEY_RANGES: Record = composite(
    "key_ranges", _ranges, operands=("starts", "key_starts", "*used"), outputs=2, fragment="device"
)
