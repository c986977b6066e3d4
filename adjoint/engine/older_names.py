"""Top-level names that older programs use, beside those of `engine.assembly`."""

from __future__ import annotations

# With the module that has them: loaded when read.
OLDER: dict[str, str] = {
    "sym_constrain_range": "adjoint.checks",
    "sym_constrain_range_for_size": "adjoint.checks",
    "sym_sqrt": "adjoint.checks",
    "DisableTorchFunction": "adjoint._C",
    "DisableTorchFunctionSubclass": "adjoint._C",
    "ScriptFunction": "adjoint.jit.modules",
    "set_anomaly_enabled": "adjoint.engine.autodiff.tape.anomaly",
    **dict.fromkeys(
        "embedding_bag frobenius_norm norm_except_dim nuclear_norm affine_grid_generator "
        "_shape_as_tensor get_device is_signed is_vulkan_available smm hsmm hspmm saddmm sspaddmm "
        "to_dlpack has_lapack has_mkl has_openmp has_spectral int_repr q_scale q_zero_point "
        "q_per_channel_axis q_per_channel_scales q_per_channel_zero_points solve lstsq eig symeig "
        "matrix_rank compiled_with_cxx11_abi".split(),
        "adjoint.older",
    ),
    **dict.fromkeys(
        "FloatStorage DoubleStorage HalfStorage BFloat16Storage ByteStorage CharStorage "
        "ShortStorage IntStorage LongStorage BoolStorage ComplexFloatStorage "
        "ComplexDoubleStorage".split(),
        "adjoint.engine.tensor.typed_storages",
    ),
}

# In-place methods that are also functions in PyTorch (`relu_(x)`).
INPLACE_FUNCTIONS = frozenset(
    """
    abs_ acos_ acosh_ addmv_ arccos_ arccosh_ arcsin_ arcsinh_ arctan_ arctanh_ as_strided_ asin_
    asinh_ atan_ atanh_ ceil_ clamp_ clamp_max_ clamp_min_ clip_ conj_physical_ cos_ cosh_ deg2rad_
    detach_ erf_ erfc_ exp2_ exp_ expm1_ fill_ fix_ floor_ frac_ gcd_ i0_ index_put_ lcm_ ldexp_
    log10_ log1p_ log2_ log_ logit_ nan_to_num_ neg_ negative_ rad2deg_ reciprocal_ relu_ resize_as_
    round_ rsqrt_ sigmoid_ sin_ sinc_ sinh_ sqrt_ square_ tan_ tanh_ trunc_ xlogy_ zero_
    """.split()
)
