"""Samplers that reject or walk, as one launch on a GPU: what `tensor_parameters` does, per element.

The arithmetic is that of `portable`, operation by operation and without fused multiply-adds, so
samples have the CPU's bits. Tables and constants are those of the Python text.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from adjoint.engine.backends.array.gpu.driver import PackedLaunch, kernels_of
from adjoint.engine.backends.array.gpu.reports import REPORT, Report, fault_of
from adjoint.engine.backends.array.kernels.random import portable
from adjoint.engine.backends.array.kernels.random.philox import LOW, rounds_text
from adjoint.engine.ops.random.tensor_parameters import NEGATIVE_RATE

Array = Any
# The key of the streams that words name; any fixed number will do (these are digits of pi).
STREAMS = 0x243F6A8885A308D3
SMALL_MEAN = 10.0
INVERSES = 48  # of whole numbers by which a walk divides
MOST_STEPS = 1000  # of a walk or of rejection; never met by finite parameters
HALF_LOG_TAU = 0.91893853320467274178
FACTORIAL = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156)
STIRLING = (
    0.0810614667953272, 0.0413406959554092, 0.0276779256849983, 0.02079067210376509,
    0.0166446911898211, 0.0138761288230707, 0.0118967099458917, 0.0104112652619720,
    0.00925546218271273, 0.00833056343336287,
)  # fmt: skip


def horner(name: str, coefficients: tuple[float, ...]) -> str:
    """A polynomial as `portable.polynomial` computes it."""
    lines = [f"double t = x * {coefficients[-1]!r};"]
    for c in coefficients[-2:0:-1]:
        lines += [f"t = t + {c!r};", "t = t * x;"]
    lines.append(f"return t + {coefficients[0]!r};")
    return f"__device__ double {name}(double x) {{ {' '.join(lines)} }}"


def preamble() -> str:
    """The functions of `portable`, `distributions` and `philox` in C."""
    of = portable.FLOAT[np.dtype("float64")]
    rounds = rounds_text(f"{STREAMS & LOW}u", f"{STREAMS >> 32}u", "*first", "*second")
    tables = {
        "log_odd": of.log_odd, "log_even": of.log_even, "exp_terms": portable.EXP,
        "central_top": of.central[0], "central_bottom": of.central[1],
        "middle_top": of.middle[0], "middle_bottom": of.middle[1],
        "far_top": of.far[0], "far_bottom": of.far[1], "factorial_terms": FACTORIAL,
    }  # fmt: skip
    inverses = ", ".join(repr(1 / k) for k in range(1, INVERSES))
    placed = rounds_text("(unsigned int)seed", "(unsigned int)(seed >> 32)", "*first", "*second")
    return (
        "\n".join(horner(name, table) for name, table in tables.items())
        + f"""
typedef unsigned long long word;
__device__ double larger(double x, double y) {{ return x > y || x != x ? x : y; }}
__device__ double smaller(double x, double y) {{ return x < y || x != x ? x : y; }}
__device__ double log_from(double k, double f) {{
    double s = f / (f + 2.0), z = s * s, w = z * z;
    double r = log_odd(w) * z + log_even(w) * w;
    double half_square = f * f * 0.5;
    double inner = half_square - (s * (half_square + r) + k * {of.ln2_low!r});
    return k * {of.ln2_high!r} - (inner - f);
}}
__device__ void split(double x, double* k, double* f) {{
    long long bits = __double_as_longlong(x) + {of.one - of.half_root}ll;
    *k = (double)((bits >> 52) - 1023);
    bits = (bits & {(1 << 52) - 1}ll) + {of.half_root}ll;
    *f = __longlong_as_double(bits) - 1.0;
}}
__device__ double portable_log(double x) {{
    double k, f;
    split(x, &k, &f);
    return log_from(k, f);
}}
__device__ double log_one_minus(double x) {{
    double k, f;
    split(larger(1.0 - x, {float(np.finfo(np.float64).tiny)!r}), &k, &f);
    return x < 0.25 ? log_from(0.0, -x) : log_from(k, f);
}}
__device__ double power_of_two(long long k) {{ return __longlong_as_double((k + 1023) << 52); }}
__device__ double portable_exp(double x) {{
    x = smaller(larger(x, -760.0), 720.0);
    double k = floor(x * {1.44269504088896338700!r} + 0.5);
    double high = x - k * {of.ln2_high!r}, low = k * {of.ln2_low!r}, r = high - low, t = r * r;
    double c = r - t * exp_terms(t);
    double y = 1.0 - ((low - (r * c) / (2.0 - c)) - high);
    long long whole = (long long)k, half = whole >> 1;
    return y * power_of_two(half) * power_of_two(whole - half);
}}
__device__ void drawn(word counter, unsigned int retry, word* first, word* second) {{{rounds}}}
// A block of the stream that a seed names.
__device__ void placed(word seed, word counter, word* first, word* second) {{
    unsigned int retry = 0;
    {placed}
}}
// x / k, rounded once: the product with a reciprocal, corrected by what is left.
__constant__ double inverses[{INVERSES}] = {{0, {inverses}}};
__device__ double over(double x, int k) {{
    if (k >= {INVERSES}) return x / (double)k;
    double about = x * inverses[k];
    return fma(fma(-about, (double)k, x), inverses[k], about);
}}
__device__ double unit(word x) {{ return (double)(x >> 11) * {2.0**-53!r}; }}
__device__ void centered(word x, double* q, double* r) {{
    long long k = (long long)x, distance = {(1 << 63) - 1}ll - ((k >> 63) ^ k);
    *q = ((double)k + 0.5) * {2.0**-64!r};
    *r = ((double)distance + 0.5) * {2.0**-64!r};
}}
__device__ double normal_quantile(double q, double r) {{
    double square = 0.180625 - q * q;
    if (!(r < 0.075)) return central_top(square) / central_bottom(square) * q;
    double s = sqrt(-portable_log(r)), m = s - 1.6, n = s - 5.0;
    double size = s > 5.0 ? far_top(n) / far_bottom(n) : middle_top(m) / middle_bottom(m);
    return copysign(size, q);
}}
__device__ double log_factorial(double k) {{
    double x = k + 1.0, product = x;
    bool small = x < 7.0;
    for (int i = 1; i < 7; i++) product = small ? product * (x + (double)i) : 1.0;
    x = small ? x + 7.0 : x;
    double inverse = 1.0 / x, square = inverse * inverse, tail = factorial_terms(square) * inverse;
    double value = (x - 0.5) * portable_log(x) - x + {HALF_LOG_TAU!r} + tail;
    return small ? value - portable_log(product) : value;
}}
__device__ double stirling_tail(double k) {{
    const double table[10] = {{{", ".join(map(repr, STIRLING))}}};
    double x = k + 1.0, square = x * x;
    double series = ({1 / 12!r} - ({1 / 360!r} - {1 / 1260!r} / square) / square) / x;
    return k <= 9.0 ? table[(int)smaller(k, 9.0)] : series;
}}
__device__ double poisson_of(word id, double mean) {{
    word first, second;
    if (!(mean > 0)) return 0.0;
    if (mean < {SMALL_MEAN!r}) {{
        drawn(id, 0, &first, &second);
        double uniform = unit(first), term = portable_exp(-mean), total = term, count = 0.0;
        for (int k = 0; k < {MOST_STEPS}; k++) {{
            if (!(uniform >= total)) break;
            count = (double)(k + 1);
            term = term * over(mean, k + 1);
            total = total + term;
            if (term < 1e-18) uniform = -1.0;
        }}
        return count;
    }}
    double root = sqrt(mean), log_rate = portable_log(mean), b = root * 2.53 + 0.931;
    double a = b * 0.02483 - 0.059, level_of = portable_log(1.1328 / (b - 3.4) + 1.1239);
    double quick = 0.9277 - 3.6224 / (b - 2.0), count = 0.0;
    for (int retry = 0; retry < {MOST_STEPS}; retry++) {{
        double u, distance;
        drawn(id, retry, &first, &second);
        centered(first, &u, &distance);
        double v = 1.0 - unit(second);
        double k = floor((a * 2.0 / distance + b) * u + mean + 0.43);
        bool sure = distance >= 0.07 && v <= quick;
        bool hopeless = k < 0 || (distance < 0.013 && v > distance);
        count = larger(k, 0.0);
        if (sure) break;
        if (hopeless) continue;
        double slope = portable_log(a / (distance * distance) + b);
        double level = portable_log(v) + level_of - slope;
        if (level <= count * log_rate - mean - log_factorial(count)) break;
    }}
    return count;
}}
__device__ double binomial_of(word id, double n, double p) {{
    word first, second;
    bool flipped = p > 0.5;
    double q = flipped ? 1.0 - p : p, out = 0.0;
    if (n != n || p != p) return n + p;
    if (n > 0 && q > 0 && n * q < {SMALL_MEAN!r}) {{
        double odds = q / (1.0 - q), term = portable_exp(n * log_one_minus(q)), total = term;
        drawn(id, 0, &first, &second);
        double uniform = unit(first);
        for (int k = 0; k < {MOST_STEPS}; k++) {{
            if (!(uniform >= total)) break;
            out = (double)(k + 1);
            term = term * (larger(n - (double)k, 0.0) / (double)(k + 1) * odds);
            total = total + term;
            if (term < 1e-18) uniform = -1.0;
        }}
    }} else if (n > 0 && q > 0) {{
        double deviation = sqrt(n * q * (1.0 - q)), b = deviation * 2.53 + 1.15;
        double a = b * 0.0248 - 0.0873 + q * 0.01, center = n * q + 0.5;
        double quick = 0.92 - 4.2 / b, alpha = (5.1 / b + 2.83) * deviation;
        double odds = q / (1.0 - q), mode = floor((n + 1.0) * q);
        for (int retry = 0; retry < {MOST_STEPS}; retry++) {{
            double u, distance;
            drawn(id, retry, &first, &second);
            centered(first, &u, &distance);
            double v = 1.0 - unit(second);
            double k = floor((a * 2.0 / distance + b) * u + center);
            bool inside = k >= 0 && k <= n;
            out = smaller(larger(k, 0.0), n);
            if (distance >= 0.07 && v <= quick && inside) break;
            if (!inside) continue;
            double level = portable_log(v * alpha / (a / (distance * distance) + b));
            double bound = (mode + 0.5) * portable_log((mode + 1.0) / (odds * (n - mode + 1.0)));
            bound = bound + (n + 1.0) * portable_log((n - mode + 1.0) / (n - out + 1.0));
            bound = bound + (out + 0.5) * portable_log(odds * (n - out + 1.0) / (out + 1.0));
            bound = bound + stirling_tail(mode);
            bound = bound + stirling_tail(n - mode);
            bound = bound + stirling_tail(out) * -1.0;
            bound = bound + stirling_tail(n - out) * -1.0;
            if (level <= bound) break;
        }}
    }}
    return flipped ? larger(n, 0.0) - out : out;
}}
__device__ double gamma_of(word id, double a, double least) {{
    word first, second;
    if (a != a) return a;
    bool small = a < 1.0;
    double d = (small ? a + 1.0 : a) - {1.0 / 3.0!r}, c = 1.0 / sqrt(d * 9.0), cube = 0.0;
    for (int retry = 0; retry < {MOST_STEPS}; retry++) {{
        double u, distance;
        drawn(id, retry, &first, &second);
        centered(first, &u, &distance);
        double v = 1.0 - unit(second), x = normal_quantile(u, distance), root = x * c + 1.0;
        cube = root > 0 ? root * root * root : 1.0;
        double level = x * x * 0.5 + d * (1.0 - cube + portable_log(cube));
        if (root > 0 && portable_log(v) < level) break;
    }}
    double sample = d * cube;
    if (small) {{
        drawn(id, {MOST_STEPS}, &first, &second);
        sample = sample * portable_exp(portable_log(1.0 - unit(first)) / a);
    }}
    return larger(sample, least);
}}
"""
    )


# What each is called with, after the word of each sample, and its text.
LAWS = {
    "poisson": (("mean",), "poisson_of(id, (double)mean)"),
    "binomial": (("count", "chance"), "binomial_of(id, floor((double)count), (double)chance)"),
    "gamma": (("shape",), "gamma_of(id, (double)shape, least)"),
}
# One launch from a place in a stream: word i is half a block. `least` is of gamma's alone.
DRAWN = """
extern "C" __global__ void adjoint_drawn(
    const KIND* given, long long n, word seed, word offset, word status, long long code, int bits,
    double least, KIND* out)
{
    const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    word first, second;
    placed(seed, offset + (i >> 1), &first, &second);
    const word id = i & 1 ? second : first;
    const KIND PARAMETER = given[i];
    CHECK
    out[i] = TEXT;
}
"""
THREADS = 256
KINDS = {"f": "float", "d": "double"}
RATES = fault_of(RuntimeError(NEGATIVE_RATE))
CHECKED = "if (!(mean >= 0)) report((unsigned long long*)status, code, bits, 0);"


@lru_cache(maxsize=6)
def _kernel(xp: Any, name: str, kind: str) -> Any:
    """One launch from words and parameters of a dtype to samples of it."""
    parameters, text = LAWS[name]
    given = ["uint64 id", *[f"{kind} {parameter}" for parameter in parameters]]
    check = ""
    if name == "poisson":
        given += ["uint64 status", "int64 code", "int32 bits"]
        check = CHECKED
    if name == "gamma":
        given += ["float64 least"]
    return xp.ElementwiseKernel(
        ", ".join(given), f"{kind} sample", f"{check} sample = {text};", f"adjoint_{name}",
        preamble=REPORT + preamble(), options=("--fmad=false",),
    )  # fmt: skip


def _sampled(xp: Any, name: str, words: Array, given: tuple[Array, ...], *rest: Any) -> Array:
    """Samples in the dtype of the parameters; of halves they are rounded once, at the end."""
    dtype = given[0].dtype
    kind = "float32" if dtype == np.float32 else "float64"
    wide = [x.astype(kind, copy=False) for x in given]
    shape = np.broadcast_shapes(words.shape, *[x.shape for x in wide])
    out = xp.empty(shape, kind)
    _kernel(xp, name, kind)(words.view(np.uint64), *wide, *rest, out)
    return out.astype(dtype, copy=False)


@lru_cache(maxsize=16)
def _drawing(xp: Any, device: int, name: str, kind: str) -> PackedLaunch:
    (parameter,), text = LAWS[name]
    body = DRAWN
    for word, meaning in (
        ("PARAMETER", parameter), ("CHECK", CHECKED if name == "poisson" else ""),
        ("TEXT", text), ("KIND", KINDS[kind]),
    ):  # fmt: skip
        body = body.replace(word, meaning)
    kernel = "adjoint_drawn", THREADS, "PqQQQqidP"
    return kernels_of(xp, REPORT + preamble() + body, kernel, options=("--fmad=false",))[0]


def drawn(xp: Any, name: str, given: Array, seed: int, offset: int, least: float = 0.0) -> Array:
    """Samples of a contiguous parameter in float32 or float64, from blocks of a stream on."""
    out = xp.ndarray(given.shape, given.dtype)
    if given.size:
        launch = _drawing(xp, xp.cuda.runtime.getDevice(), name, given.dtype.char)
        words: tuple[int, ...] = 0, 0, 0
        report = None
        if name == "poisson":
            report = Report(xp, given.data.device_id, RATES)
            words = report.words
        launch(
            -(-given.size // THREADS), given.data.ptr, given.size, seed, offset, *words, least,
            out.data.ptr,
        )  # fmt: skip
        if report is not None:
            report.look()
    return out


def poisson(xp: Any, words: Array, rate: Array) -> Array:
    """Counts of a rate each; one that is negative is reported (Note [late faults])."""
    report = Report(xp, words.data.device_id, RATES)
    out = _sampled(xp, "poisson", words, (rate,), *report.words)
    report.look()
    return out


def binomial(xp: Any, words: Array, count: Array, chance: Array) -> Array:
    """How many of `count`, a whole number, come about."""
    return _sampled(xp, "binomial", words, (count, chance))


def gamma(xp: Any, words: Array, shape: Array, least: float) -> Array:
    """Samples of a shape each, `least` at least."""
    return _sampled(xp, "gamma", words, (shape,), least)
