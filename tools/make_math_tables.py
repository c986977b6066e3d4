"""Compute the polynomials of adjoint/backends/llvm/math and write its tables.py.

Each is the minimax approximation of a function on an interval (weighted, usually for least
relative error of the final result), found by Lawson's algorithm in 60 digits with mpmath; coefficients are then rounded to the target precision one after the other, lowest power
first, each time refitting the rest, so that rounding one is made good by the others.

    python tools/make_math_tables.py            # rewrites tables.py, in a few minutes
    python tools/make_math_tables.py ERF GAMMA  # only the tables so called
    python tools/make_math_tables.py --errors   # prints the error of each in units of 2**-p
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mpmath as mp

mp.mp.dps = 60
TARGET = Path(__file__).parent.parent / "adjoint/engine/backends/registers/math/tables.py"
Fn = Callable[[Any], Any]
BITS = {"f32": 24, "f64": 53}


def rounded(value: Any, kind: str) -> Any:
    """A number of 60 digits rounded to the precision of a kind."""
    m, e = mp.frexp(value)
    return mp.ldexp(mp.nint(mp.ldexp(m, BITS[kind])), int(e) - BITS[kind])


def fit(points: list[tuple[Any, Any, Any]], powers: list[int]) -> list[Any]:
    """Coefficients c of least max |weight * (value - sum c_k x**p_k)| over (x, value, weight).

    Lawson's algorithm: least squares whose squared weights are multiplied by the errors they
    leave, until all errors are alike.
    """
    n = len(powers)
    columns = [[x**p for p in powers] for x, _, _ in points]
    lawson = [mp.mpf(1)] * len(points)
    best: tuple[list[Any], Any] = ([], mp.inf)
    for _ in range(25 if n < 10 else 6):
        rows, right = mp.matrix(n, n), mp.matrix(n, 1)
        for i in range(n):
            for j in range(i, n):
                rows[i, j] = rows[j, i] = mp.fsum(
                    extra * w * w * c[i] * c[j]
                    for c, (_, _, w), extra in zip(columns, points, lawson, strict=True)
                )
            right[i] = mp.fsum(
                extra * w * w * c[i] * v
                for c, (_, v, w), extra in zip(columns, points, lawson, strict=True)
            )
        solution = mp.lu_solve(rows, right)
        c = [solution[j] for j in range(n)]
        errors = [
            abs(w * (v - mp.fdot(c, row))) for row, (_, v, w) in zip(columns, points, strict=True)
        ]
        if max(errors) < best[1]:
            best = (c, max(errors))
        lawson = [old * e for old, e in zip(lawson, errors, strict=True)]
        total = mp.fsum(lawson)
        lawson = [each / total + mp.mpf("1e-12") for each in lawson]
    return best[0]


@dataclass
class Table:
    """A polynomial: sum c_k x**powers[k] close to f, error measured times weight."""

    name: str
    f: Fn
    low: Any
    high: Any
    powers: list[int]
    weight: Fn
    kind: str
    note: str = ""

    def solve(self) -> tuple[list[Any], Any]:
        """The rounded coefficients, and the largest weighted error on a finer grid."""
        grid = self.points(6 * len(self.powers))
        fine = self.points(401)
        done: list[Any] = []
        for k, power in enumerate(self.powers):
            first = rounded(fit(grid, self.powers[k:])[0], self.kind)
            done.append(first)
            grid = [(x, v - first * x**power, w) for x, v, w in grid]
            fine = [(x, v - first * x**power, w) for x, v, w in fine]
        return done, max(abs(v * w) for _, v, w in fine)

    def points(self, count: int) -> list[tuple[Any, Any, Any]]:
        """Where the error is measured: denser towards the ends, never at 0."""
        a, b = mp.mpf(self.low), mp.mpf(self.high)
        nodes = [mp.cos(mp.pi * (k + 0.5) / count) for k in range(count + count % 2)]
        where = [(a + b) / 2 + (b - a) / 2 * node for node in nodes]
        return [(x, self.f(x), self.weight(x)) for x in where]


def relative(f: Fn) -> Fn:
    return lambda x: 1 / abs(f(x))


def span(n: int) -> list[int]:
    return list(range(n))


ROOT = mp.sqrt(2)
HALF_LN2 = mp.log(2) / 2 * mp.mpf("1.002")


def near(fn: Fn, at_zero: Any) -> Fn:
    """fn, with its limit where it is 0/0."""
    return lambda x: at_zero if abs(x) < mp.mpf("1e-25") else fn(x)


def tables() -> list[Table]:
    out: list[Table] = []

    def add(
        name: str, f: Fn, low: Any, high: Any, f32: int, f64: int, weight: Fn | None = None,
        note: str = "",
    ) -> None:  # fmt: skip
        for kind, count in (("f32", f32), ("f64", f64)):
            if count:
                w = weight or relative(f)
                out.append(
                    Table(f"{name}_{kind.upper()}", f, low, high, span(count), w, kind, note=note)
                )

    # e**r = 1 + r + r**2 q(r)
    add("EXP", near(lambda r: (mp.expm1(r) - r) / r**2, mp.mpf(1) / 2), -HALF_LN2, HALF_LN2, 5, 10,
        lambda r: r**2 / mp.exp(r), "e**r = 1 + r + r**2 p(r)")  # fmt: skip
    add("EXPM1", near(lambda r: (mp.expm1(r) - r) / r**2, mp.mpf(1) / 2), -HALF_LN2, HALF_LN2, 5, 11,
        lambda r: abs(r), "e**r - 1 = r + r**2 p(r)")  # fmt: skip
    add("EXP2", near(lambda r: (mp.power(2, r) - 1) / r, mp.log(2)), -0.501, 0.501, 6, 12,
        lambda r: abs(r), "2**r = 1 + r p(r)")  # fmt: skip
    # log(1 + f) on [sqrt(1/2), sqrt(2)]
    add("LOG", near(lambda f: (mp.log1p(f) - f + f * f / 2) / f**3, mp.mpf(1) / 3),
        1 / ROOT - 1, ROOT - 1, 8, 0, lambda f: abs(f**3 / mp.log1p(f)),
        "log(1 + f) = f - f**2 / 2 + f**3 p(f)")  # fmt: skip
    s_end = (ROOT - 1) / (ROOT + 1)
    add("ATANH", near(lambda z: (2 * mp.atanh(mp.sqrt(z)) / mp.sqrt(z) - 2) / z, mp.mpf(2) / 3),
        0, s_end**2, 0, 7, lambda z: z / 2,
        "log((1 + s) / (1 - s)) = 2 s + s z p(z), z = s**2")  # fmt: skip
    add("ATANH2", near(
            lambda z: (2 * mp.atanh(mp.sqrt(z)) / mp.sqrt(z) - 2 - z * 2 / 3) / z**2, mp.mpf(2) / 5),
        0, s_end**2, 4, 8, lambda z: z**2 / 2,
        "log((1 + s) / (1 - s)) = 2 s + s z (2/3 + z p(z)), z = s**2")  # fmt: skip
    # sine and cosine on [-pi/4, pi/4], z = x**2
    quarter = (mp.pi / 4 * mp.mpf("1.001")) ** 2
    add("SIN", near(lambda z: (mp.sin(mp.sqrt(z)) / mp.sqrt(z) - 1) / z, -mp.mpf(1) / 6),
        0, quarter, 4, 7, lambda z: z, "sin x = x + x z p(z), z = x**2")  # fmt: skip
    add("COS", near(lambda z: (mp.cos(mp.sqrt(z)) - 1 + z / 2) / z**2, mp.mpf(1) / 24),
        0, quarter, 3, 6, lambda z: z**2, "cos x = 1 - z / 2 + z**2 p(z)")  # fmt: skip
    add("ATAN", near(lambda z: (mp.atan(mp.sqrt(z)) / mp.sqrt(z) - 1) / z, -mp.mpf(1) / 3),
        0, mp.tan(mp.pi / 8) ** 2 * mp.mpf("1.001"), 5, 13, lambda z: z,
        "atan x = x + x z p(z), z = x**2, |x| <= tan(pi/8)")  # fmt: skip
    add("ASIN", near(lambda z: (mp.asin(mp.sqrt(z)) / mp.sqrt(z) - 1) / z, mp.mpf(1) / 6),
        0, mp.mpf("0.2501"), 5, 13, lambda z: z,
        "asin x = x + x z p(z), z = x**2, |x| <= 1/2")  # fmt: skip
    # error functions
    add("ERF", lambda z: mp.erf(mp.sqrt(z)) / mp.sqrt(z) - 1, 0, mp.mpf("0.89") ** 2, 6, 0,
        lambda z: mp.mpf(1), "erf x = x + x p(z), z = x**2, |x| <= 0.89")  # fmt: skip
    add("ERF", lambda z: mp.erf(mp.sqrt(z)) / mp.sqrt(z) - 1, 0, mp.mpf("0.76") ** 2, 0, 11,
        lambda z: mp.mpf(1), "erf x = x + x p(z), z = x**2, |x| <= 0.76")  # fmt: skip
    add("ERF_TAIL", lambda u: mp.sqrt(mp.sqrt(mp.erfc(u + 1))), mp.mpf("-0.13"), mp.mpf("2.95"),
        9, 0, lambda u: 4 * mp.erfc(u + 1) ** 0.75 / mp.erf(u + 1),
        "erfc t = p(t - 1)**4, 0.87 <= t <= 3.95")  # fmt: skip
    add("ERFCX", scaled_erfcx, -1, 1, 0, 27, relative(scaled_erfcx),
        "e**(t**2) erfc(t) (1 + 2 t) = p(u), u = (t - 4) / (t + 4), t >= 0")  # fmt: skip
    # the gamma function
    add("LGAMMA", near(lambda t: mp.loggamma(2 + t) / t, 1 - mp.euler), -0.5, 0.5, 0, 18,
        note="log gamma(2 + t) = t p(t), |t| <= 1/2")  # fmt: skip
    add("STIRLING", stirling, 0, mp.mpf(1) / 64, 0, 8, lambda z: mp.mpf(1),
        note="log gamma(x) = (x - 1/2) log x - x + log(2 pi) / 2 + p(z) / x, z = x**-2, x >= 8")  # fmt: skip
    add("DIGAMMA", digamma_tail, 0, mp.mpf(1) / 64, 0, 8, lambda z: mp.mpf(1),
        note="digamma(x) = log x - 1 / (2 x) - z p(z), z = x**-2, x >= 8")  # fmt: skip
    add("TRIGAMMA", trigamma_tail, 0, mp.mpf(1) / 64, 0, 8, lambda z: mp.mpf(1),
        note="trigamma(x) = 1 / x + z / 2 + z p(z) / x, z = x**-2, x >= 8")  # fmt: skip
    return out


def digamma_tail(z: Any) -> Any:
    with mp.workdps(90):
        x = 1 / mp.sqrt(z)
        return (mp.log(x) - 1 / (2 * x) - mp.digamma(x)) / z


def trigamma_tail(z: Any) -> Any:
    with mp.workdps(90):
        x = 1 / mp.sqrt(z)
        return (mp.psi(1, x) - 1 / x - z / 2) * x / z


def stirling(z: Any) -> Any:
    x = 1 / mp.sqrt(z)
    with mp.workdps(90):
        rest = mp.loggamma(x) - ((x - mp.mpf(1) / 2) * mp.log(x) - x + mp.log(2 * mp.pi) / 2)
        return rest * x


def scaled_erfcx(u: Any) -> Any:
    t = 4 * (1 + u) / (1 - u)
    return mp.exp(t * t) * mp.erfc(t) * (1 + 2 * t)


def parts(value: Any, bits: list[int]) -> list[Any]:
    """A number as a sum of numbers of so many bits each."""
    out = []
    for width in bits:
        m, e = mp.frexp(value)
        out.append(mp.ldexp(mp.nint(mp.ldexp(m, width)), int(e) - width))
        value -= out[-1]
    return out


# Constants in parts; first parts are short where their product with an exponent must be exact.
CONSTANTS: dict[str, tuple[Any, list[int]]] = {
    "LN2_F32": (mp.log(2), [15, 24]),
    "LN2_F64": (mp.log(2), [41, 53]),
    "LOG2_E_F32": (1 / mp.log(2), [24, 24]),
    "LOG2_E_F64": (1 / mp.log(2), [53, 53]),
    "LOG10_E_F32": (1 / mp.log(10), [24, 24]),
    "LOG10_E_F64": (1 / mp.log(10), [53, 53]),
    "LOG10_2_F32": (mp.log10(2), [15, 24]),
    "LOG10_2_F64": (mp.log10(2), [41, 53]),
    "HALF_PI_F32": (mp.pi / 2, [11, 11, 11, 24]),
    "HALF_PI_F32_FUSED": (mp.pi / 2, [24, 24, 24]),
    "HALF_PI_F64": (mp.pi / 2, [33, 33, 33, 53]),
    "PI_F32": (mp.pi, [24, 24]),
    "PI_F64": (mp.pi, [53, 53]),
    "ROOT_HALF": (mp.sqrt(mp.mpf(1) / 2), [53, 53]),
    "TWO_THIRDS_F32": (mp.mpf(2) / 3, [24, 24]),
    "TWO_THIRDS_F64": (mp.mpf(2) / 3, [53, 53]),
}


def report(table: Table) -> str:
    c, error = table.solve()
    return f"{table.name:16} {len(c):3} terms, error 2**{float(mp.log(error, 2)):.1f}"


def hex_line(x: Any) -> str:
    return f'    float.fromhex("{float(x).hex()}"),'


def block(name: str, note: str, lines: list[str]) -> str:
    head = [f"# {note}"] if note else []
    return "\n".join([*head, f"{name} = (", *lines, ")"])


def blocks(wanted: list[str]) -> dict[str, str]:
    """The text of every table; those not wanted are taken from the file as it is."""
    new_tables = {}
    for name, (value, bits) in CONSTANTS.items():
        new_tables[name] = block(name, "", [hex_line(x) for x in parts(value, bits)])
    with mp.workdps(400):
        digits = [int(mp.floor(2 / mp.pi * 2 ** (24 * (j + 1)))) % 2**24 for j in range(52)]
    rows = [f"    {', '.join(map(str, digits[i : i + 8]))}," for i in range(0, 52, 8)]
    new_tables["TWO_OVER_PI"] = block("TWO_OVER_PI", "2/pi in pieces of 24 bits", rows)
    old_tables = {}
    if wanted and TARGET.exists():
        for text in re.findall(r"# [^\n]*\n[A-Z0-9_]+ = \(.*?\n\)", TARGET.read_text(), re.S):
            old_tables[text.split("\n")[1].split(" ")[0]] = text
    for table in tables():
        if wanted and table.name in old_tables and not any(part in table.name for part in wanted):
            new_tables[table.name] = old_tables[table.name]
            continue
        c, error = table.solve()
        note = f"{table.note}; error 2**{float(mp.log(error, 2)):.1f}"
        new_tables[table.name] = block(table.name, note, [hex_line(x) for x in c])
    return new_tables


def write(wanted: list[str]) -> None:
    head = '"""Minimax polynomials, lowest power first. Made by tools/make_math_tables.py."""'
    TARGET.write_text(
        "\n".join([head, "", "# fmt: off", *blocks(wanted).values(), "# fmt: on"]) + "\n"
    )


if __name__ == "__main__":
    if "--errors" in sys.argv:
        for table in tables():
            if all(name.startswith("-") or name in table.name for name in sys.argv[1:]):
                print(report(table), flush=True)
    else:
        write(sys.argv[1:])
