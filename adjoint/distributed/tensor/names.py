"""Which functions work on parts as they do on whole tensors, by their names.

Note [operations on parts]
    A function that is in no table is computed on the whole tensor by every process: right for
    all, and as slow as gathering is. The tables are for what training does often.
"""

from __future__ import annotations

_UNARY = (
    "abs absolute neg negative exp exp2 expm1 log "
    "log2 log10 log1p sqrt rsqrt square reciprocal sin "
    "cos tan sinh cosh tanh asin acos atan sigmoid "
    "relu relu6 gelu silu mish softplus elu selu celu "
    "leaky_relu hardtanh hardswish hardsigmoid logsigmoid erf "
    "erfc sign round floor ceil trunc frac "
    "isnan isinf isfinite logical_not bitwise_not "
    "nan_to_num clamp clamp_min clamp_max clip threshold "
    "tanhshrink softsign positive conj"
)
_BINARY = (
    "add sub subtract mul multiply div divide "
    "true_divide floor_divide remainder fmod pow rsub atan2 "
    "maximum minimum fmax fmin eq ne lt le gt ge logical_and logical_or logical_xor bitwise_and "
    "bitwise_or bitwise_xor where lerp addcmul addcdiv masked_fill xlogy hypot copysign"
)
_OPERATORS = (
    "add radd sub rsub mul rmul truediv rtruediv "
    "floordiv rfloordiv mod rmod pow rpow neg pos invert "
    "abs eq ne lt le gt ge and or xor rand ror rxor"
)
_INPLACE_OPERATORS = "iadd isub imul itruediv ifloordiv imod ipow iand ior ixor"

POINTWISE = frozenset(
    (*_UNARY.split(), *_BINARY.split(), *(f"__{name}__" for name in _OPERATORS.split()))
)
POINTWISE_IN_PLACE = frozenset(
    (
        *(f"{name}_" for name in (*_UNARY.split(), *_BINARY.split())),
        *(f"__{name}__" for name in _INPLACE_OPERATORS.split()),
        "zero_",
        "fill_",
        "copy_",
    )
)
# The same function of each part, placed as the tensor is; sums that are not made yet included.
OF_EACH_PART = frozenset(
    "detach clone contiguous to cpu cuda float double half bfloat16 type type_as zeros_like "
    "empty_like alias requires_grad".split()
)
# The same, where a sum that is not made yet has to be made first.
OF_EACH_WHOLE_PART = frozenset("ones_like full_like".split())
# What is asked of, or done to, the tensor object itself.
OF_ITSELF = frozenset(
    "requires_grad_ register_post_accumulate_grad_hook retain_grad detach_ is_floating_point "
    "is_complex is_signed is_contiguous is_inference is_same_size _is_view element_size data_ptr "
    "is_shared is_pinned get_device is_sparse is_neg is_conj storage_offset type_of".split()
)
DRAWS = frozenset(
    "dropout dropout1d dropout2d dropout3d feature_dropout alpha_dropout feature_alpha_dropout "
    "dropout_ feature_dropout_ alpha_dropout_ feature_alpha_dropout_ native_dropout bernoulli "
    "normal poisson binomial rrelu_ fractional_max_pool2d fractional_max_pool3d "
    "bernoulli_ normal_ uniform_ random_ exponential_ "
    "log_normal_ cauchy_ geometric_ rand_like randn_like randint_like multinomial rrelu "
    "gumbel_softmax".split()
)
PRODUCTS = frozenset("matmul mm __matmul__ linear".split())
# Functions along one dimension, or the last ones: no matter how the others are divided.
ALONG = frozenset("softmax log_softmax cumsum cumprod normalize".split())
