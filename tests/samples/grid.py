"""Samples of the grid samplers."""

from tests.samples import S, T

ROWS = [
    *(
        S("grid_sampler_2d", T(2, 3, 4, 5), T(2, 3, 2, 2), mode, padding, align)
        for mode in (0, 2)
        for padding in (0, 1, 2)
        for align in (False, True)
    ),
    *(
        S("grid_sampler_2d", T(1, 2, 4, 5), T(1, 3, 2, 2, grad=False), 1, padding, padding == 1)
        for padding in (0, 1, 2)
    ),
    *(
        S("grid_sampler_3d", T(1, 2, 3, 2, 3), T(1, 2, 1, 2, 3), 0, padding, padding == 1)
        for padding in (0, 1, 2)
    ),
    S("grid_sampler_3d", T(1, 2, 3, 2, 3), T(1, 2, 1, 2, 3, grad=False), 1, 0, False),
    S("grid_sampler", T(1, 0, 3, 3), T(1, 2, 2, 2), 0, 0, False),
]
