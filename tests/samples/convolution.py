"""Samples of convolutions."""

from tests.samples import S, T

ROWS = [
    S("conv1d", T(2, 4, 7), T(6, 2, 3), T(6), 2, 1, 1, 2),
    S("conv1d", T(4, 7), T(4, 1, 3), None, 1, "same", 2, 4),
    S("conv2d", T(2, 3, 5, 6), T(4, 3, 3, 2), T(4), (1, 2), (1, 0)),
    S("conv2d", T(2, 2, 6, 5), T(4, 1, 2, 3), None, 2, 1, (2, 1), 2),
    S("conv2d", T(2, 3, 4, 4), T(2, 3, 1, 1), T(2)),
    S("conv2d", T(1, 2, 4, 3, kind="complex"), T(2, 2, 2, 2, kind="complex"), None, 2),
    S("conv3d", T(1, 2, 3, 4, 3), T(2, 2, 2, 2, 2), T(2), 1, 1),
    S("conv_transpose1d", T(2, 4, 4), T(4, 2, 3), T(4), 2, 1, 1, 2),
    S("conv_transpose2d", T(2, 3, 3, 4), T(3, 2, 3, 2), T(2), (2, 1), 1, (1, 0)),
    S("conv_transpose2d", T(2, 3, 3), T(2, 1, 2, 2), None, 1, 0, 1, 2, 2),
    S("conv_transpose3d", T(1, 2, 2, 3, 2), T(2, 2, 2, 2, 2), T(2), 2),
]
