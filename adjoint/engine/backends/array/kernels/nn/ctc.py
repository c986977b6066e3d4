"""Connectionist temporal classification on a GPU: all steps of a sample in one block.

What `ops.nn.losses.ctc` composes of a launch or more a step. A path is at one of the states
b l1 b l2 b ... of its target (labels with blanks around each). `alpha` is the logarithm of the sum
of all paths that are there after a step, that step's part included, `beta` that of all ways on from
there to the end. Their sums over equal labels are added in one order, so results repeat.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from adjoint.engine.backends.array.gpu.reports import REPORT, Report, fault_of
from adjoint.engine.backends.array.kernels.reduce.reduction import widen
from adjoint.engine.backends.array.table import lowers_on_gpu
from adjoint.engine.ops.common.checks import NUMBER
from adjoint.engine.ops.index.index import out_of_bounds
from adjoint.engine.ops.nn.losses.ctc import CTC_LOSS_GRADIENT, CTC_LOSS_SMALL

Array = Any
SHARED = 48 << 10  # bytes that any block may have
WIDEST = 1024  # threads
ROW = 256  # threads that go through the classes of a step
HOW = {"none": 0, "mean": 1, "sum": 2}

SOURCE = r"""
typedef REAL real;
#define NEVER (-(real)__int_as_float(0x7f800000))
#define UNDEFINED ((real)__int_as_float(0x7fc00000))

struct Sizes {
    long long t_stride, n_stride, c_stride;
    int width, steps, batch, classes, blank;
};
// What all kernels are given first, and how they take it.
#define GIVEN const real* scores, const long long* targets, const long long* lengths, \
    const long long* target_lengths, long long t_stride, long long n_stride, long long c_stride, \
    int width, int steps_given, int batch, int classes, int blank
#define TAKEN {t_stride, n_stride, c_stride, width, steps_given, batch, classes, blank}

__device__ long long label(const long long* target, int s, Sizes of) {
    long long found = s & 1 ? target[s >> 1] : of.blank;
    return found < 0 || found >= of.classes ? of.blank : found;
}
__device__ bool may_skip(const long long* target, int s, Sizes of) {
    if (s < 2 || !(s & 1)) return false;
    long long own = target[s >> 1];
    return own != of.blank && own != target[(s >> 1) - 1];
}
__device__ real log_add(real a, real b, real c) {
    if (a != a || b != b || c != c) return UNDEFINED;
    real top = a > b ? a : b;
    top = top > c ? top : c;
    if (top == NEVER) return NEVER;
    return log(exp(a - top) + exp(b - top) + exp(c - top)) + top;
}

// Block n follows the paths of sample n forward; with `beta` block batch + n does so backward.
// Rows of `alpha` and `beta` are kept for every step, or two of them in turn.
extern "C" __global__ void __launch_bounds__(WIDEST) adjoint_ctc_paths(
    GIVEN, int kept, int shared, real* alpha, real* beta,
    real* losses, unsigned long long* status, long long code, int bits)
{
    extern __shared__ __align__(8) unsigned char room[];
    Sizes of = TAKEN;
    bool back = blockIdx.x >= of.batch;
    int n = back ? blockIdx.x - of.batch : blockIdx.x, full = 2 * of.width + 1;
    long long read = lengths[n], wanted = target_lengths[n];
    int steps = read < of.steps ? (int)read : of.steps;
    int length = wanted < of.width ? (int)wanted : of.width, states = 2 * length + 1;
    const long long* target = targets + (long long)n * of.width;
    const real* heard = scores + n * of.n_stride;
    real* rows = back ? beta : alpha;
    real* near = (real*)room;
    if (!back) for (int j = threadIdx.x; j < length; j += blockDim.x)
        if (target[j] < 0 || target[j] >= of.classes) report(status, code, bits, target[j]);
    if (steps <= 0) {
        if (!back && !threadIdx.x) losses[n] = length ? -NEVER : (real)0;
        return;
    }
    int own = threadIdx.x;
    long long own_label = own < states ? label(target, own, of) : of.blank;
    bool own_skip = own < states && may_skip(target, own, of);
    bool own_two = own + 2 < states && may_skip(target, own + 2, of);
    real own_heard = heard[(back ? steps - 1 : 0) * of.t_stride + own_label * of.c_stride];
    for (int k = 0; k < steps; k++) {
        int t = back ? steps - 1 - k : k;
        real* row = rows + ((long long)(kept ? t : t & 1) * of.batch + n) * full;
        int before = back ? t + 1 : t - 1;
        real* last = rows + ((long long)(kept ? before : before & 1) * of.batch + n) * full;
        if (shared) last = near + (before & 1) * full;
        // What comes next is on its way while this step is computed.
        int after = back ? t - 1 : t + 1;
        real next = k + 1 < steps ? heard[after * of.t_stride + own_label * of.c_stride] : 0;
        for (int s = own; s < states; s += blockDim.x) {
            bool first = s == own;
            real here = first ? own_heard
                              : heard[t * of.t_stride + label(target, s, of) * of.c_stride];
            bool two = first ? (back ? own_two : own_skip)
                             : (!back || s + 2 < states) && may_skip(target, back ? s + 2 : s, of);
            real sum;
            if (!k) sum = (back ? s >= states - 2 : s < 2) ? (real)0 : NEVER;
            else {
                bool one = back ? s + 1 < states : s > 0;
                int by = back ? 1 : -1;
                sum = log_add(last[s], one ? last[s + by] : NEVER, two ? last[s + 2 * by] : NEVER);
            }
            // Backward, states hand on what follows and their own part; what is kept is without it.
            real passed = sum + here;
            if (shared) near[(t & 1) * full + s] = passed;
            if (kept || !shared) row[s] = back && shared ? sum : passed;
        }
        own_heard = next;
        __syncthreads();
    }
    if (back || threadIdx.x) return;
    int end = steps - 1;
    real* row = shared ? near + (end & 1) * full
                       : rows + ((long long)(kept ? end : end & 1) * of.batch + n) * full;
    losses[n] = -log_add(row[states - 1], length ? row[states - 2] : NEVER, NEVER);
}

// One block: what a loss is told as.
extern "C" __global__ void adjoint_ctc_told(
    const real* losses, const long long* target_lengths, int batch, int how, int zero, real* out)
{
    __shared__ real sums[ROW_THREADS];
    real sum = 0;
    for (int n = threadIdx.x; n < batch; n += ROW_THREADS) {
        real loss = zero && losses[n] == -NEVER ? (real)0 : losses[n];
        if (!how) { out[n] = loss; continue; }
        sum += how == 1 ? loss / (real)(target_lengths[n] > 1 ? target_lengths[n] : 1) : loss;
    }
    sums[threadIdx.x] = sum;
    for (int half = ROW_THREADS / 2; half; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) sums[threadIdx.x] += sums[threadIdx.x + half];
    }
    if (how && !threadIdx.x) out[0] = how == 1 ? sums[0] / (real)batch : sums[0];
}

__device__ real block_max(real x, real* shared) {
    shared[threadIdx.x] = x;
    for (int half = ROW_THREADS / 2; half; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half && shared[threadIdx.x + half] > shared[threadIdx.x])
            shared[threadIdx.x] = shared[threadIdx.x + half];
    }
    __syncthreads();
    real found = shared[0];
    __syncthreads();
    return found;
}
__device__ real block_sum(real x, real* shared) {
    shared[threadIdx.x] = x;
    for (int half = ROW_THREADS / 2; half; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) shared[threadIdx.x] += shared[threadIdx.x + half];
    }
    __syncthreads();
    real found = shared[0];
    __syncthreads();
    return found;
}

// A block for each step of each sample: softmax less how likely each class is there.
extern "C" __global__ void adjoint_ctc_gradient(
    GIVEN, const real* alpha, const real* beta, int passed,
    const real* losses, const real* g, int how, int zero, real* out)
{
    __shared__ real shared[ROW_THREADS];
    Sizes of = TAKEN;
    int n = blockIdx.x % of.batch, t = blockIdx.x / of.batch, full = 2 * of.width + 1;
    real* row = out + ((long long)t * of.batch + n) * of.classes;
    const real* heard = scores + t * of.t_stride + n * of.n_stride;
    const long long* target = targets + (long long)n * of.width;
    long long wanted = target_lengths[n];
    int length = wanted < of.width ? (int)wanted : of.width, states = 2 * length + 1;
    real loss = losses[n];
    bool impossible = loss == -NEVER;
    if (t >= lengths[n] || impossible || loss != loss) {
        real all = t >= lengths[n] || (impossible && zero) ? (real)0 : UNDEFINED;
        for (int c = threadIdx.x; c < of.classes; c += ROW_THREADS) row[c] = all;
        return;
    }
    real weight = how ? g[0] : g[n];
    if (how == 1) weight = weight / (real)of.batch / (real)(length > 1 ? length : 1);
    real top = NEVER, total = 0;
    for (int c = threadIdx.x; c < of.classes; c += ROW_THREADS)
        if (heard[c * of.c_stride] > top) top = heard[c * of.c_stride];
    top = block_max(top, shared);
    for (int c = threadIdx.x; c < of.classes; c += ROW_THREADS)
        total += exp(heard[c * of.c_stride] - top);
    total = block_sum(total, shared);
    for (int c = threadIdx.x; c < of.classes; c += ROW_THREADS)
        row[c] = weight * (exp(heard[c * of.c_stride] - top) / total);
    const real* a = alpha + ((long long)t * of.batch + n) * full;
    const real* b = beta + ((long long)t * of.batch + n) * full;
    // Rows that were their own `last` hold each state's part too.
#define OWN(s) (passed ? heard[label(target, s, of) * of.c_stride] : (real)0)
#define LIKELY(s) exp(a[s] + (b[s] - OWN(s)) + loss)
    real blanks = 0;
    for (int s = threadIdx.x; s < states; s += ROW_THREADS)
        if (a[s] != NEVER && label(target, s, of) == of.blank) blanks += LIKELY(s);
    blanks = block_sum(blanks, shared);
    if (!threadIdx.x) row[of.blank] -= weight * blanks;
    for (int j = threadIdx.x; j < length; j += ROW_THREADS) {
        long long mine = label(target, 2 * j + 1, of);
        bool first = mine != of.blank;
        for (int i = 0; i < j && first; i++) first = label(target, 2 * i + 1, of) != mine;
        if (!first) continue;
        real sum = 0;
        for (int i = j; i < length; i++)
            if (label(target, 2 * i + 1, of) == mine && a[2 * i + 1] != NEVER)
                sum += LIKELY(2 * i + 1);
        row[mine] -= weight * sum;
    }
}
"""


@lru_cache(maxsize=2)
def _kernels(xp: Any, real: str) -> Any:
    text = (
        (REPORT + SOURCE)
        .replace("ROW_THREADS", str(ROW))
        .replace("WIDEST", str(WIDEST))
        .replace("REAL", real)
    )
    return xp.RawModule(code=text)


class CtcOperands:
    """Operands as the kernels take them."""

    def __init__(
        self, xp: Any, x: Array, targets: Array, lengths: Array, target_lengths: Array, blank: int
    ) -> None:
        self.xp, self.x = xp, widen(x)
        self.kind = self.x.dtype
        self.kernels = _kernels(xp, "double" if self.kind.itemsize == 8 else "float")
        self.steps, self.batch, self.classes = x.shape
        self.width = targets.shape[1]
        whole = [xp.ascontiguousarray(a) for a in (targets, lengths, target_lengths)]
        strides = [np.int64(s // self.kind.itemsize) for s in self.x.strides]
        sizes = [np.int32(n) for n in (self.width, *x.shape, blank)]
        self.words = (self.x, *whole, *strides, *sizes)
        self.target_lengths = whole[2]

    def paths(self, history: bool) -> tuple[Array, Array, Array, bool]:
        """Logarithms of paths to and from all states, minus those of all, and how rows are kept."""
        xp, states = self.xp, 2 * self.width + 1
        wide = 2 * states * self.kind.itemsize
        shared = wide <= SHARED
        rows = self.steps if history else 0 if shared else 2
        alpha, beta = (
            xp.empty((max(rows, 1) if used else 1, self.batch, states), self.kind)
            for used in (rows, rows and history)
        )
        losses = xp.empty(self.batch, self.kind)
        wrong = out_of_bounds("gather", NUMBER, 2, self.classes)
        report = Report(xp, self.x.device.id, fault_of(wrong))
        status, code, bits = report.words
        told = np.uint64(status), np.int64(code), np.int32(bits)
        threads = min(WIDEST, -(-states // 32) * 32)
        given = (
            *self.words, np.int32(history), np.int32(shared), alpha, beta, losses, *told
        )  # fmt: skip
        blocks = self.batch * (2 if history else 1)
        launch = self.kernels.get_function("adjoint_ctc_paths")
        launch((blocks,), (threads,), given, shared_mem=wide if shared else 0)
        report.look()
        return alpha, beta, losses, not shared

    def told(self, losses: Array, zero: bool, how: str) -> Array:
        """The losses as they are asked for."""
        out = self.xp.empty(self.batch if how == "none" else (), self.kind)
        given = (losses, self.target_lengths, np.int32(self.batch), np.int32(HOW[how]))
        launch = self.kernels.get_function("adjoint_ctc_told")
        launch((1,), (ROW,), (*given, np.int32(zero), out))
        return out


@lowers_on_gpu(CTC_LOSS_SMALL)
def ctc_loss(
    xp: Any,
    x: Array,
    targets: Array,
    lengths: Array,
    target_lengths: Array,
    blank: int,
    zero_infinity: bool,
    how: str,
) -> Array:
    sample = CtcOperands(xp, x, targets, lengths, target_lengths, blank)
    losses = sample.paths(history=False)[2] if sample.batch else xp.empty(0, sample.kind)
    return sample.told(losses, zero_infinity, how).astype(x.dtype, copy=False)


@lowers_on_gpu(CTC_LOSS_GRADIENT)
def ctc_loss_gradient(
    xp: Any,
    g: Array,
    x: Array,
    targets: Array,
    lengths: Array,
    target_lengths: Array,
    blank: int,
    zero_infinity: bool,
    how: str,
) -> Array:
    sample = CtcOperands(xp, x, targets, lengths, target_lengths, blank)
    out = xp.empty(x.shape, sample.kind)
    if not out.size:
        return out.astype(x.dtype, copy=False)
    alpha, beta, losses, passed = sample.paths(history=True)
    given = (
        *sample.words, alpha, beta, np.int32(passed), losses,
        xp.ascontiguousarray(g.astype(sample.kind, copy=False)),
        np.int32(HOW[how]), np.int32(zero_infinity), out,
    )  # fmt: skip
    launch = sample.kernels.get_function("adjoint_ctc_gradient")
    launch((sample.steps * sample.batch,), (ROW,), given)
    return out.astype(x.dtype, copy=False)
