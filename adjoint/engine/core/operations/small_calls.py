"""Public functions whose calls on few elements become programs (Note [small calls])."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.core.state.timeline import LISTENERS

# Results are new tensors that arguments decide, by their layouts and elements alone: no views of
# arguments, no draws, no warnings, no checks of elements that a recording would leave out.
ELEMENTWISE = (
    "abs absolute acos acosh add addcdiv addcmul asin asinh atan atan2 atanh bitwise_and "
    "bitwise_not bitwise_or bitwise_xor ceil clamp clamp_max clamp_min clip copysign cos cosh div "
    "divide eq erf erfc exp exp2 expm1 float_power floor floor_divide fmax fmin fmod frac ge "
    "greater greater_equal gt heaviside hypot isclose isfinite isinf isnan le lerp less "
    "less_equal log log10 log1p log2 logaddexp logical_and logical_not logical_or logical_xor "
    "logit lt masked_fill maximum minimum mul multiply nan_to_num ne neg negative not_equal pow "
    "reciprocal relu remainder round rsqrt sigmoid sign signbit sgn sin sinc sinh sqrt square sub "
    "subtract tan tanh true_divide trunc where xlogy"
)
REDUCTIONS = (
    "all amax amin aminmax any argmax argmin count_nonzero cummax cummin cumprod cumsum kthvalue "
    "logcumsumexp logsumexp max mean median min nanmean nansum norm prod std std_mean sum trace "
    "var var_mean vector_norm matrix_norm"
)
ORDER = "argsort sort topk bucketize histc searchsorted"
SHAPE = (
    "cat clone column_stack concat concatenate diag diag_embed dstack flip fliplr flipud gather "
    "hstack index_add index_select kron pixel_shuffle pixel_unshuffle repeat "
    "repeat_interleave roll rot90 row_stack scatter scatter_add stack take take_along_dim tile "
    "tril triu vstack pad one_hot"
)
CREATION = (
    "arange eye full full_like linspace logspace ones ones_like zeros zeros_like new_full "
    "new_ones new_zeros tril_indices triu_indices"
)
PRODUCTS = (
    "addbmm addmm addmv addr baddbmm bmm cdist chain_matmul cross dot einsum inner linear matmul "
    "matrix_power mm mv outer tensordot vdot"
)
NETWORKS = (
    "adaptive_avg_pool1d adaptive_avg_pool2d avg_pool1d avg_pool2d avg_pool3d celu conv1d conv2d "
    "conv3d cosine_similarity elu gelu glu hardshrink hardsigmoid hardswish hardtanh huber_loss "
    "l1_loss layer_norm leaky_relu log_softmax logsigmoid max_pool1d max_pool2d mish mse_loss "
    "normalize pairwise_distance prelu relu6 rms_norm selu silu smooth_l1_loss softmax softmin "
    "softplus softshrink softsign tanhshrink unfold binary_cross_entropy_with_logits "
    "binary_cross_entropy cross_entropy group_norm kl_div nll_loss"
)
CONVERSION = "bool byte char double float int long short to type type_as"
COMPLEX = (
    "angle complex conj conj_physical fft fft2 fftn ifft ifft2 ifftn irfft polar rfft rfft2 rfftn"
)
LINALG = (
    "cholesky det eigh eigvalsh inv inverse lu pinv qr slogdet solve solve_triangular svd svdvals"
)
# More of them, which on a GPU are as they are.
SPECIAL = (
    "airy_ai bessel_j0 bessel_j1 bessel_y0 bessel_y1 bitwise_left_shift bitwise_right_shift "
    "chebyshev_polynomial_t chebyshev_polynomial_u chebyshev_polynomial_v chebyshev_polynomial_w "
    "deg2rad digamma dist entr erfcx erfinv frexp gammainc gammaincc gammaln gcd "
    "hermite_polynomial_h hermite_polynomial_he i0 i0e i1 i1e igamma igammac isneginf isposinf "
    "isreal laguerre_polynomial_l lcm ldexp legendre_polynomial_p lgamma log_ndtr logaddexp2 "
    "modified_bessel_i0 modified_bessel_i1 modified_bessel_k0 modified_bessel_k1 multigammaln "
    "mvlgamma ndtr ndtri nextafter polygamma psi rad2deg rsub scaled_modified_bessel_k0 "
    "scaled_modified_bessel_k1 shifted_chebyshev_polynomial_t shifted_chebyshev_polynomial_u "
    "shifted_chebyshev_polynomial_v shifted_chebyshev_polynomial_w spherical_bessel_j0 threshold "
    "xlog1py zeta"
)
ARRANGING = (
    "block_diag cartesian_prod channel_shuffle combinations constant_pad_nd "
    "corrcoef cov cumulative_trapezoid diagflat diagonal_scatter diff gradient histogram "
    "index_copy index_fill index_put index_reduce isin mode msort nanmedian nanquantile put "
    "quantile renorm scatter_reduce select_scatter slice_scatter sum_to_size trapezoid trapz "
    "unravel_index vander"
)
MADE = (
    "bartlett bartlett_window blackman blackman_window cosine fftfreq gaussian "
    "general_cosine general_hamming hamming hamming_window hann hann_window kaiser kaiser_window "
    "new_arange new_eye nuttall rfftfreq scalar_tensor"
)
LAYERS = (
    "adaptive_avg_pool3d adaptive_max_pool1d adaptive_max_pool1d_with_indices adaptive_max_pool2d "
    "adaptive_max_pool2d_with_indices adaptive_max_pool3d adaptive_max_pool3d_with_indices "
    "affine_grid bilinear conv_transpose1d conv_transpose2d conv_transpose3d "
    "cosine_embedding_loss fold gaussian_nll_loss grid_sample hinge_embedding_loss interpolate "
    "local_response_norm lp_pool1d lp_pool2d lp_pool3d margin_ranking_loss "
    "max_pool1d_with_indices max_pool2d_with_indices max_pool3d max_pool3d_with_indices "
    "max_unpool1d max_unpool2d max_unpool3d multi_margin_loss multilabel_margin_loss "
    "multilabel_soft_margin_loss pdist poisson_nll_loss soft_margin_loss triplet_margin_loss"
)
MATRICES = (
    "cholesky_ex cholesky_inverse cholesky_solve cond eig eigvals fftshift geqrf hfft hfft2 hfftn "
    "householder_product ifftshift ihfft ihfft2 ihfftn inv_ex irfft2 irfftn ldl_factor "
    "ldl_factor_ex ldl_solve logdet lstsq lu_factor lu_factor_ex lu_solve lu_unpack matrix_exp "
    "matrix_rank multi_dot orgqr ormqr pinverse solve_ex stft tensorinv tensorsolve "
    "triangular_solve vecdot"
)
NARROW = "bfloat16 cdouble cfloat half"
MORE = f"{SPECIAL} {ARRANGING} {MADE} {LAYERS} {MATRICES} {NARROW}"
# Or they are drawn, or whatever was in memory (Note [small draws]).
DRAWS = (
    "_standard_gamma bernoulli binomial empty empty_like empty_strided multinomial new_empty "
    "normal poisson rand rand_like randint randint_like randn randn_like randperm"
)
# Or drawn into their first argument.
FILLS = "bernoulli_ cauchy_ exponential_ geometric_ log_normal_ normal_ random_ uniform_"
# Or all of them are views of tensors among the arguments. Not `as_strided`, which may count
# from where memory begins: that is no matter of how its argument lies.
VIEWS = (
    "T adjoint broadcast_tensors broadcast_to chunk diagonal dsplit expand expand_as flatten "
    "hsplit imag mT meshgrid moveaxis movedim narrow permute ravel real reshape select split "
    "split_with_sizes squeeze swapaxes swapdims t tensor_split transpose unbind unflatten "
    "unsqueeze view view_as view_as_complex view_as_real vsplit unfold"
)
# Whose first argument is a list of tensors.
JOINING = frozenset(
    "cat column_stack concat concatenate dstack hstack multi_dot row_stack stack vstack "
    "chain_matmul".split()
)
OF_NEW = (ELEMENTWISE, REDUCTIONS, ORDER, SHAPE, CREATION, PRODUCTS, NETWORKS)
DRAWING = frozenset(f"{DRAWS} {FILLS}".split())
NAMES = frozenset(" ".join((*OF_NEW, CONVERSION, COMPLEX, LINALG, MORE, DRAWS, VIEWS)).split())
# Whose second argument is a list of tensors.
SPREADING = frozenset({"index_put"})
# Of which some are in place.
WRITING = NAMES - frozenset(f"{DRAWS} {VIEWS} {CREATION} {MADE}".split())
VIEWING = frozenset(VIEWS.split())
# Of which these ask of further tensors how they lie, no more (`tensor_split` may read another's
# elements).
VIEWING_SEVERAL = frozenset({"broadcast_tensors", "expand_as", "meshgrid", "view_as"})
# Of which no gradient is asked by programs.
CREATING = frozenset(CREATION.split()).union(
    "empty empty_like empty_strided rand rand_like randn randn_like".split()
)
# Whose results no gradient leads to, so that the tape may follow what they are given.
UNFOLLOWED = frozenset(
    "all any argmax argmin argsort bool bucketize byte char count_nonzero empty_like eq full_like "
    "ge greater greater_equal gt int isclose isfinite isin isinf isnan isneginf isposinf isreal le "
    "less less_equal logical_and logical_not logical_or logical_xor long lt ne new_empty new_full "
    "new_ones new_zeros not_equal ones_like rand_like randint_like randn_like searchsorted short "
    "signbit zeros_like".split()
)
# Of which these give one value in all elements, and these ask their operand how it lies alone.
FILLED = frozenset(
    "full full_like ones ones_like zeros zeros_like new_full new_ones new_zeros".split()
)
LIKE = FILLED.union({"empty_like", "new_empty"}) - {"full", "ones", "zeros"}
# Which read few elements of their first argument, however many it has, where others are few.
PICKING = frozenset("diag gather getitem index_select nll_loss take take_along_dim trace".split())
# On a GPU those that its fragments do as one (Note [calls on a device]): these, and lists above.
DEVICE_ONLY = frozenset(
    "adaptive_avg_pool3d affine_grid block_diag cartesian_prod channel_shuffle combinations "
    "corrcoef cosine_embedding_loss cov cumulative_trapezoid diagflat diff dist entr "
    "embedding embedding_bag gaussian_nll_loss hinge_embedding_loss index_copy interpolate "
    "ldexp local_response_norm log_ndtr logaddexp2 lp_pool1d lp_pool2d lp_pool3d "
    "margin_ranking_loss masked_scatter max_pool3d max_unpool1d max_unpool2d max_unpool3d mode "
    "multi_margin_loss multigammaln mvlgamma multilabel_margin_loss multilabel_soft_margin_loss "
    "nanmedian nanquantile pdist poisson_nll_loss polygamma quantile renorm scatter_reduce "
    "soft_margin_loss trapezoid trapz threshold triplet_margin_loss "
    "triplet_margin_with_distance_loss vander xlog1py".split()
)
ON_DEVICE = DEVICE_ONLY.union(
    " ".join((ELEMENTWISE, REDUCTIONS, SHAPE, CREATION, PRODUCTS, NETWORKS, CONVERSION)).split(),
    ORDER.split(),
) - frozenset("conv1d conv2d conv3d unfold cdist".split())
# Those that make a tensor of numbers alone, where they are told (Note [made on a device]).
MAKING = frozenset(
    "arange bartlett_window blackman_window empty eye fftfreq full hamming_window hann_window "
    "kaiser_window linspace logspace normal ones rand randint randn rfftfreq tril_indices "
    "triu_indices zeros".split()
)
# What native code finds there before Python looks at arguments (Note [calls heard before]): these
# look at no elements.
STRAIGHT = frozenset(
    "_scaled_mm conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d "
    "cross_entropy embedding_bag empty_like grid_sample huber_loss kl_div l1_loss layer_norm "
    "linear mse_loss multi_margin_loss new_empty nll_loss rand_like randint_like randn_like "
    "smooth_l1_loss".split()
).union(VIEWS.split()) - frozenset("adjoint dsplit hsplit split_with_sizes unfold vsplit".split())
EVERY = 8  # calls that no program fits, of which one is looked at
FIRST_HEARD = 512  # such calls of a function, which are all listened to
FIRST = 64  # such calls of a function, an operation or its rules, which are all looked at
_WORD = 1 << 32
_GOLDEN = 0x9E3779B1  # of a word, the golden section


class Newcomers:
    """Whose calls are looked at less often by now, and whether all are to be as at first."""

    __slots__ = ("begins_anew", "tired")

    def __init__(self) -> None:
        self.tired: list[Any] = []
        self.begins_anew = False


NEWCOMERS = Newcomers()


def is_looked_at(owner: Any) -> bool:
    """Whether a program is looked for at one more call that none of its owner's fits.

    At all of the first, since a training step is to be quick from its fifth time on; then at so few
    that functions of ever new shapes pay little. Not at every eighth one: where a step has eight or
    sixteen of them, it would always be the same. Where parameters were made, another model begins.
    At none beside a recording: an optimizer makes a hundred states there, once.
    """
    if CONTEXT.recording:
        return False
    owner.seen = seen = owner.seen + 1
    if seen <= FIRST:
        return True
    if seen == FIRST + 1:
        NEWCOMERS.tired.append(owner)
    if (seen * _GOLDEN % _WORD) * EVERY >= _WORD:
        return False
    if NEWCOMERS.begins_anew:
        NEWCOMERS.begins_anew = False
        tired, NEWCOMERS.tired = NEWCOMERS.tired, []
        for each in tired:
            each.seen = 0
    return True


def is_heard(calls: SmallCalls) -> bool:
    """Whether one more call is listened to that no operations are known of (Note [calls heard
    before]): at first every one, since a network has many kinds of a call, then few."""
    calls.seen_straight = seen = calls.seen_straight + 1
    return seen <= FIRST_HEARD or (seen * _GOLDEN % _WORD) * EVERY < _WORD


RARELY = 64  # calls on the tape, of which one is looked at where none came to one operation


def is_looked_at_on_tape(calls: SmallCalls) -> bool:
    """The same of a call on the tape, which most functions have in a few kinds."""
    if not is_looked_at(calls):
        return False
    return bool(calls.taped) or calls.seen <= FIRST or not calls.seen % RARELY


class SmallCalls:
    """The programs of a public function, and how often it was called without one."""

    __slots__ = (
        "creates", "draws", "goes_straight", "into", "joins", "kind", "makes", "may_write", "met",
        "name", "off_tape", "on_cpu", "on_device", "rebuild", "seen", "seen_straight", "seen_there",
        "small", "spreads", "straight", "taped", "unfollowed",
    )  # fmt: skip

    def __init__(self, name: str, *, into: bool = False) -> None:
        self.name = name
        self.into = into  # whether results are written to the first argument
        self.joins, self.creates, self.draws = name in JOINING, name in CREATING, name in DRAWING
        self.spreads = name in SPREADING
        self.unfollowed = name in UNFOLLOWED and not into
        # Whether it has no program for what the tape follows.
        self.off_tape = name not in VIEWING and not self.unfollowed
        self.may_write = False  # to its argument, if `inplace` is true
        self.on_cpu, self.on_device = name in NAMES, name in ON_DEVICE
        self.makes, self.goes_straight = name in MAKING, name in STRAIGHT
        self.small: tuple[Any, ...] = ()  # as native code compares them (Note [meeting])
        self.met: tuple[Any, ...] = ()  # the same on a GPU (Note [met launches])
        self.taped: tuple[Any, ...] = ()  # the same of calls on the tape (Note [one operation])
        self.straight: tuple[Any, ...] = ()  # the same of calls there (Note [calls heard before])
        self.kind: Any = None  # what several results come in
        self.rebuild: Callable[[Any], Any] = tuple  # makes it of them
        self.seen = self.seen_there = self.seen_straight = 0  # on the CPU, twice on a GPU


def small_writes(name: str) -> SmallCalls | None:
    """The same of a function's in-place form (Note [small writes])."""
    return SmallCalls(name, into=True) if name in WRITING else None


def small_calls(name: str) -> SmallCalls | None:
    """Where a function's programs are kept; None where it has none."""
    known = name in NAMES or name in DEVICE_ONLY or name in STRAIGHT
    return SmallCalls(name) if known else None


KERNEL = "kernel"  # where a record's plans keep the CPU's


def runs_by_kernel(record: Any) -> bool:
    """Whether a call is that of a single kernel: no composite, or one that was seen to have one."""
    return record.compose is None or KERNEL in record.plans


# What an operation fails by (`Record.fails`) that none fails by which has a gradient: a divisor of
# zero is refused among whole numbers.
FLOATS_SUCCEED = ("", "divisor")
FEW_ON_TAPE = 1 << 12  # elements of an operand: beyond, a kernel takes longer than what is around


def is_sighted(record: Any, arrays: list[Any]) -> bool:
    """Whether a call of a single kernel, on the tape, is one to look for a program at.

    Note [seen on the tape]
        What a public function does with few elements off the tape is one program (Note [small
        calls]). On the tape each operation is a node of its own, so there it is the record that has
        programs, as composites have (Note [straight programs]): native rows take half the time that
        promotion, kernel and wrapping do. As there, of calls that none fits few are looked at after
        the first, so that operations of ever new shapes or numbers pay little. A composite that has
        a kernel is called as that (`linear`), so it is one of them.
    """
    if not is_looked_at(record) or LISTENERS or not runs_by_kernel(record):
        return False
    if record.fails not in FLOATS_SUCCEED or record.draws or record.creates:
        return False
    if record.opaque or record.communicates:
        return False
    return all(getattr(a, "size", 1) <= FEW_ON_TAPE for a in arrays)
