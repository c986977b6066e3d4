"""Samples of special functions."""

from tests.samples import S, T

_EVERYWHERE = "bessel_j0 bessel_j1 i0e i1 i1e erfcx log_ndtr ndtr modified_bessel_i0 "
_EVERYWHERE += "modified_bessel_i1 spherical_bessel_j0 airy_ai"
_POSITIVE = "bessel_y0 bessel_y1 entr modified_bessel_k0 modified_bessel_k1 "
_POSITIVE += "scaled_modified_bessel_k0 scaled_modified_bessel_k1"
_POLYNOMIALS = """
    chebyshev_polynomial_t chebyshev_polynomial_u chebyshev_polynomial_v chebyshev_polynomial_w
    hermite_polynomial_h hermite_polynomial_he laguerre_polynomial_l legendre_polynomial_p
    shifted_chebyshev_polynomial_t shifted_chebyshev_polynomial_u shifted_chebyshev_polynomial_v
    shifted_chebyshev_polynomial_w
"""

ROWS = [
    *(S(f"special.{name}", T(2, 3)) for name in _EVERYWHERE.split()),
    *(S(f"special.{name}", T()) for name in _EVERYWHERE.split()),
    *(S(f"special.{name}", T(3, kind="int"), _grad=False) for name in _EVERYWHERE.split()),
    *(S(f"special.{name}", T(2, 3, kind="positive")) for name in _POSITIVE.split()),
    *(S(f"special.{name}", T(0)) for name in _POSITIVE.split()),
    S("special.ndtri", T(2, 3, kind="real", low=0.1, high=0.9)),
    S("special.xlog1py", T(2, 3), T(3, kind="positive")),
    S("special.xlog1py", T(3, kind="positive"), 2),
    S("special.xlog1py", 0.5, T(3, kind="positive")),
    S("special.zeta", T(2, 3, kind="real", low=2, high=4, grad=False), T(3, kind="positive")),
    S("special.zeta", T(2, kind="real", low=2, high=4), 1.5, _grad=False),
    S("special.zeta", 2.5, T(2, kind="positive")),
    *(S(f"special.{name}", T(2, 3), 3) for name in _POLYNOMIALS.split()),
    *(
        S(f"special.{name}", T(2, 1), T(3, kind="int", low=-1, high=5))
        for name in _POLYNOMIALS.split()
    ),
    *(
        S(f"special.{name}", T(2, 3, low=0, high=1), T(3, kind="int", low=0, high=30), _grad=False)
        for name in _POLYNOMIALS.split()
        if "hermite" not in name
    ),
    S("special.legendre_polynomial_p", 0.5, T(3, kind="int", low=-1, high=9), _grad=False),
    S("special.softmax", T(2, 3), -1),
    S("special.log_softmax", T(2, 3), dim=0),
    S("special.logsumexp", T(2, 3), 1, keepdim=True),
]
