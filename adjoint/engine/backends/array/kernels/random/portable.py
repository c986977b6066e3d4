"""Logarithm, exponential, tangent and the normal quantile, the same in every bit on every machine.

Library functions differ in the last bit between machines and devices. These use integer
operations and + - * / sqrt alone, which IEEE 754 rounds correctly, one operation at a time and in
a fixed order: nothing here may be contracted to a fused multiply-add or reassociated. Arguments
are arrays of at least one dimension. The expansions are those of fdlibm (log, exp, sin, cos) and
of Wichura, Algorithm AS 241 (the normal quantile).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

Array = Any
Table = tuple[float, ...]


@cache
def _constants(coefficients: Table, dtype: Any, host: bool) -> tuple[Any, ...]:
    # NumPy takes arrays a third faster than scalars; CuPy takes NumPy's scalars only.
    return tuple(np.array(c, dtype) if host else dtype.type(c) for c in coefficients)


def polynomial(x: Array, coefficients: Table) -> Array:
    """c0 + x * (c1 + x * (c2 + ...)), by Horner's rule; scalars take x's dtype."""
    scalars = _constants(coefficients, x.dtype, isinstance(x, np.ndarray))
    total = x * scalars[-1]
    for c in scalars[-2:0:-1]:
        total += c
        total *= x
    total += scalars[0]
    return total


@dataclass(frozen=True, slots=True)
class Float:
    """What the algorithms need to know of a floating dtype."""

    bits: Any  # the integer dtype of the same width
    mantissa: int
    half_root: int  # the bits of sqrt(2) / 2, cut short
    one: int  # the bits of 1.0
    log_odd: Table
    log_even: Table
    ln2_high: float
    ln2_low: float
    central: tuple[Table, Table]  # |q| <= 0.425
    middle: tuple[Table, Table]  # sqrt(-log r) <= 5
    far: tuple[Table, Table]


FLOAT = {
    np.dtype("float64"): Float(
        bits=np.int64,
        mantissa=52,
        half_root=0x3FE6A09E << 32,
        one=0x3FF << 52,
        log_odd=(
            6.666666666666735130e-01, 2.857142874366239149e-01,
            1.818357216161805012e-01, 1.479819860511658591e-01,
        ),
        log_even=(3.999999999940941908e-01, 2.222219843214978396e-01, 1.531383769920937332e-01),
        ln2_high=6.93147180369123816490e-01,
        ln2_low=1.90821492927058770002e-10,
        central=(
            (
                3.3871328727963666080e0, 1.3314166789178437745e2, 1.9715909503065514427e3,
                1.3731693765509461125e4, 4.5921953931549871457e4, 6.7265770927008700853e4,
                3.3430575583588128105e4, 2.5090809287301226727e3,
            ),
            (
                1.0, 4.2313330701600911252e1, 6.8718700749205790830e2, 5.3941960214247511077e3,
                2.1213794301586595867e4, 3.9307895800092710610e4, 2.8729085735721942674e4,
                5.2264952788528545610e3,
            ),
        ),
        middle=(
            (
                1.42343711074968357734e0, 4.63033784615654529590e0, 5.76949722146069140550e0,
                3.64784832476320460504e0, 1.27045825245236838258e0, 2.41780725177450611770e-1,
                2.27238449892691845833e-2, 7.74545014278341407640e-4,
            ),
            (
                1.0, 2.05319162663775882187e0, 1.67638483018380384940e0, 6.89767334985100004550e-1,
                1.48103976427480074590e-1, 1.51986665636164571966e-2, 5.47593808499534494600e-4,
                1.05075007164441684324e-9,
            ),
        ),
        far=(
            (
                6.65790464350110377720e0, 5.46378491116411436990e0, 1.78482653991729133580e0,
                2.96560571828504891230e-1, 2.65321895265761230930e-2, 1.24266094738807843860e-3,
                2.71155556874348757815e-5, 2.01033439929228813265e-7,
            ),
            (
                1.0, 5.99832206555887937690e-1, 1.36929880922735805310e-1,
                1.48753612908506148525e-2,
                7.86869131145613259100e-4, 1.84631831751005468180e-5, 1.42151175831644588870e-7,
                2.04426310338993978564e-15,
            ),
        ),
    ),
    np.dtype("float32"): Float(
        bits=np.int32,
        mantissa=23,
        half_root=0x3F3504F3,
        one=0x7F << 23,
        log_odd=(0.66666662693023682, 0.28498786687850952),
        log_even=(0.40000972151756287, 0.24279078841209412),
        ln2_high=6.9313812255859375e-01,
        ln2_low=9.0580006144591607e-06,
        central=(
            (3.3871327179e0, 5.0434271938e1, 1.5929113202e2, 5.9109374720e1),
            (1.0, 1.7895169469e1, 7.8757757664e1, 6.7187563600e1),
        ),
        middle=(
            (1.4234372777e0, 2.7568153900e0, 1.3067284816e0, 1.7023821103e-1),
            (1.0, 7.3700164250e-1, 1.2021132975e-1),
        ),
        far=(
            (6.6579051150e0, 3.0812263860e0, 4.2868294337e-1, 1.7337203997e-2),
            (1.0, 2.4197894225e-1, 1.2258202635e-2),
        ),
    ),
}  # fmt: skip


def log_from(k: Array, f: Array) -> Array:
    """log(2**k * (1 + f)) for f between sqrt(1/2) - 1 and sqrt(2) - 1."""
    of = FLOAT[f.dtype]
    real = f.dtype.type
    s = f / (f + real(2))
    z = s * s
    w = z * z
    r = polynomial(w, of.log_odd) * z + polynomial(w, of.log_even) * w
    half_square = f * f * real(0.5)
    inner = half_square - (s * (half_square + r) + k * real(of.ln2_low))
    return k * real(of.ln2_high) - (inner - f)


def split(x: Array) -> tuple[Array, Array]:
    """k and f with x = 2**k * (1 + f), as `log_from` wants them; x positive and normal."""
    of = FLOAT[x.dtype]
    bits = x.view(of.bits) + of.bits(of.one - of.half_root)
    k = (bits >> of.mantissa) - of.bits(of.one >> of.mantissa)
    bits &= of.bits((1 << of.mantissa) - 1)
    bits += of.bits(of.half_root)
    return k.astype(x.dtype), bits.view(x.dtype) - x.dtype.type(1)


def log(x: Array) -> Array:
    """Natural logarithm of positive normal numbers."""
    return log_from(*split(x))


def log1m(xp: Any, x: Array) -> Array:
    """log(1 - x) for 0 <= x < 1, accurate for small x."""
    real = x.dtype.type
    small = x < real(0.25)
    k, f = split(xp.maximum(real(1) - x, xp.finfo(x.dtype).tiny))
    return log_from(xp.where(small, real(0), k), xp.where(small, -x, f))


EXP = (
    1.66666666666666019037e-01, -2.77777777770155933842e-03, 6.61375632143793436117e-05,
    -1.65339022054652515390e-06, 4.13813679705723846039e-08,
)  # fmt: skip


def _power_of_two(k: Array) -> Array:
    return ((k + np.int64(1023)) << 52).view(np.float64)


def exp(xp: Any, x: Array) -> Array:
    """Exponential, in float64."""
    of = FLOAT[np.dtype("float64")]
    x = xp.minimum(xp.maximum(x, -760.0), 720.0)
    k = xp.floor(x * 1.44269504088896338700 + 0.5)
    high = x - k * of.ln2_high
    low = k * of.ln2_low
    r = high - low
    t = r * r
    c = r - t * polynomial(t, EXP)
    y = 1.0 - ((low - (r * c) / (2.0 - c)) - high)
    whole = k.astype(np.int64)
    half = whole >> 1  # in two steps, since 2**k alone may not be a normal number
    return y * _power_of_two(half) * _power_of_two(whole - half)


SIN = (
    -1.66666666666666324348e-01, 8.33333333332248946124e-03, -1.98412698298579493134e-04,
    2.75573137070700676789e-06, -2.50507602534068634195e-08, 1.58969099521155010221e-10,
)  # fmt: skip
COS = (
    4.16666666666666019037e-02, -1.38888888888741095749e-03, 2.48015872894767294178e-05,
    -2.75573143513906633035e-07, 2.08757232129817482790e-09, -1.13596475577881948265e-11,
)  # fmt: skip


def tan(x: Array) -> Array:
    """Tangent for |x| <= pi/4, in float64, as sine over cosine."""
    z = x * x
    sine = x + x * z * polynomial(z, SIN)
    cosine = 1.0 - (z * 0.5 - z * z * polynomial(z, COS))
    return sine / cosine


def _quotient(x: Array, tables: tuple[Table, Table]) -> Array:
    top = polynomial(x, tables[0])
    top /= polynomial(x, tables[1])
    return top


def _tail_size(xp: Any, r: Array) -> Array:
    """|z| for a tail of probability r < 0.075."""
    of = FLOAT[r.dtype]
    real = r.dtype.type
    s = xp.sqrt(-log(r))
    far = s > real(5)
    middle = _quotient(s - real(1.6), of.middle)
    if xp is np and not far.any():  # one in 10**11: rarely worth the second quotient
        return middle
    return xp.where(far, _quotient(s - real(5), of.far), middle)


def normal_quantile(xp: Any, q: Array, r: Array) -> Array:
    """The x with P(X <= x) = q + 1/2, where r = 1/2 - |q| is given to its own precision."""
    of = FLOAT[q.dtype]
    real = q.dtype.type
    square = q * q
    z = _quotient(xp.subtract(real(0.180625), square, out=square), of.central)
    z *= q
    tail = r < real(0.075)
    if xp is np:
        where = np.flatnonzero(tail)
        z[where] = np.copysign(_tail_size(np, r[where]), q[where])
        return z
    # Where finding the tail would stop the device, compute it everywhere and select.
    size = _tail_size(xp, xp.where(tail, r, real(0.05)))
    return xp.where(tail, xp.copysign(size, q), z)
