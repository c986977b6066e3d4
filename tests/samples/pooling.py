"""Samples of pooling, folding, padding, resizing and pixel rearrangement."""

from tests.samples import S, T

F = "nn.functional."
ROWS = [
    S(f"{F}max_pool1d", T(2, 3, 8, kind="distinct"), 3, 2, 1, 1, True),
    S(f"{F}max_pool2d", T(2, 2, 6, 5, kind="distinct"), (2, 3), 2, (1, 0), (2, 1)),
    S(f"{F}max_pool2d", T(2, 5, 5, kind="distinct"), 2, return_indices=True),
    S(f"{F}max_pool3d", T(1, 2, 4, 4, 3, kind="distinct"), 2, ceil_mode=True),
    S(f"{F}avg_pool1d", T(2, 3, 7), 3, 2, 1),
    S(f"{F}avg_pool2d", T(2, 2, 5, 6), (3, 2), 2, 1, True, False),
    S(f"{F}avg_pool2d", T(2, 5, 6), 2, divisor_override=3),
    S(f"{F}avg_pool3d", T(1, 2, 4, 4, 3), 2, 1),
    S(f"{F}adaptive_avg_pool1d", T(2, 3, 7), 3),
    S(f"{F}adaptive_avg_pool2d", T(2, 2, 5, 6), (3, None)),
    S(f"{F}adaptive_avg_pool3d", T(1, 2, 3, 4, 5), 2),
    S(f"{F}adaptive_max_pool1d", T(2, 3, 7, kind="distinct"), 3),
    S(f"{F}adaptive_max_pool2d", T(2, 2, 5, 6, kind="distinct"), (3, 4), return_indices=True),
    S(f"{F}adaptive_max_pool3d", T(1, 2, 3, 4, 5, kind="distinct"), 2),
    *(
        S(
            f"{F}fractional_max_pool{rank}d",
            T(1, 2, *(6, 7, 5)[:rank], kind="distinct"),
            2,
            3,
            None,
            False,
            T(1, 2, rank, low=0.1, high=0.9, grad=False),
        )
        for rank in (2, 3)
    ),
    S(f"{F}lp_pool1d", T(2, 3, 7, kind="positive"), 2, 3, 2),
    S(f"{F}lp_pool2d", T(2, 3, 5, 6, kind="positive"), 3.0, 2),
    S(f"{F}lp_pool3d", T(1, 2, 3, 4, 4, kind="positive"), 2, 2),
    S(f"{F}local_response_norm", T(2, 5, 3, 3), 3, 0.5),
    S(f"{F}unfold", T(2, 3, 5, 6), (3, 2), (1, 2), 1, 2),
    S(f"{F}fold", T(2, 8, 12), (5, 6), 2, 1, 0, (1, 2)),
    S(f"{F}pad", T(2, 3, 4), (1, -1, 2, 0), "constant", 1.5),
    S(f"{F}pad", T(2, 3, 4, 5), (1, 2, 2, 1), "reflect"),
    S(f"{F}pad", T(2, 3, 4), (3, 1), "replicate"),
    S(f"{F}pad", T(1, 2, 2, 3, 3), (1, 2, -1, 1, 2, 0), "circular"),
    *(
        S(f"{F}interpolate", T(1, 2, 4, 5), size, None, mode, align)
        for size in ((7, 3), (8, 10))
        for mode, align in (
            ("nearest", None),
            ("nearest-exact", None),
            ("area", None),
            ("bilinear", False),
            ("bilinear", True),
            ("bicubic", False),
        )
    ),
    S(f"{F}interpolate", T(1, 2, 5), None, 1.7, "linear"),
    S(f"{F}interpolate", T(1, 2, 2, 3, 4), None, 2.0, "trilinear", True),
    S(f"{F}interpolate", T(1, 2, 6, 7), (3, 5), None, "bilinear", antialias=True),
    S(f"{F}interpolate", T(1, 2, 6, 7), (3, 9), None, "bicubic", antialias=True),
    S(f"{F}pixel_shuffle", T(2, 8, 2, 3), 2),
    S(f"{F}pixel_unshuffle", T(2, 2, 4, 6), 2),
    S(f"{F}channel_shuffle", T(2, 6, 3), 3),
    S(f"{F}affine_grid", T(2, 2, 3), (2, 1, 3, 4), False),
    S(f"{F}affine_grid", T(1, 3, 4), (1, 1, 2, 3, 2), True),
    S(f"{F}grid_sample", T(1, 2, 4, 5), T(1, 3, 2, 2), align_corners=False),
]
