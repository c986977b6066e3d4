"""What PyTorch says of operations beside their schemas."""

from __future__ import annotations

from enum import Enum, auto


class Tag(Enum):
    """A property of an operation; definitions take them, and nothing here depends on them."""

    core = auto()
    cudagraph_unsafe = auto()
    data_dependent_output = auto()
    dynamic_output_shape = auto()
    flexible_layout = auto()
    generated = auto()
    inplace_view = auto()
    maybe_aliasing_or_mutating = auto()
    needs_contiguous_strides = auto()
    needs_exact_strides = auto()
    needs_fixed_stride_order = auto()
    nondeterministic_bitwise = auto()
    nondeterministic_seeded = auto()
    pointwise = auto()
    pt2_compliant_tag = auto()
    reduction = auto()
    view_copy = auto()
