"""The largest elements of windows, of images whose channels lie innermost."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from adjoint.engine.backends.llvm.templates.convolution.pixels import pooling_kernel as kernels
from adjoint.engine.backends.llvm.templates.convolution.windowed import KINDS, address
from adjoint.engine.backends.llvm.templates.product.tiles import has_wide_registers, tiled
from adjoint.engine.compiler.memory.places import Place
from adjoint.engine.compiler.schedule.steps import Launch, whole
from adjoint.engine.graph.sizes.extents import is_extent
from adjoint.engine.ops.image.resample import Rule


def pools_pixels(x: Place, out: Place, windows: Sequence[Rule]) -> bool:
    """Whether pixels are whole in memory, and windows have no gaps."""
    numbers = (*x.shape, *x.strides, *out.shape, *out.strides)
    if any(map(is_extent, numbers)) or not has_wide_registers():
        return False
    if len(x.shape) != len(windows) + 2 or len(windows) > kernels.PLANE:
        return False
    plain = all(rule[0] == "window" and rule[6] == 1 for rule in windows)
    return plain and x.strides[1] == out.strides[1] == 1


def pixel_pool_steps(x: Place, out: Place, windows: Sequence[Rule]) -> list[Launch]:
    """The launch of what `pools_pixels`."""
    kind = KINDS[out.buffer.dtype.name]
    missing = kernels.PLANE - len(windows)
    rules: list[Rule] = [("window", 1, 1, 1, 1, 0, 1)] * missing + list(windows)
    given, sizes, extents, steps, starts = ([rule[n] for rule in rules] for n in (1, 2, 3, 4, 5))
    source_steps, target_steps = (
        [place.strides[0], *[0] * missing, *place.strides[2:]] for place in (x, out)
    )
    vectors = kernels.vectors_of(kind, out.shape[1])
    pieces = out.shape[0] * sizes[0]
    words = kernels.PixelPoolWords(
        address(x, x.offset), address(out, out.offset), out.shape[1], pieces, given, sizes,
        extents, steps, starts, source_steps, target_steps,
    ).listed()  # fmt: skip
    launch = Launch(
        function=f"pixel_pool_{tiled(kind)}_{vectors}",
        text=partial(kernels.pixel_pool_text, kind=kind, vectors=vectors),
        words=words,
        reads=(whole(x.buffer),),
        writes=(whole(out.buffer),),
        pieces=pieces,
        cost=pieces * sizes[1] * out.shape[1] * extents[0] * extents[1] / 4,
        label="max_pool",
    )
    return [launch]
