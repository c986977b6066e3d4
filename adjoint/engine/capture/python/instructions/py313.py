"""The instructions of Python 3.13."""

from __future__ import annotations

from adjoint.engine.capture.python.decoding import (
    Table,
    forward,
    halves,
    name_shifted,
    name_shifted_twice,
    raw,
)

from . import building as b
from . import flow as f
from . import variables as v
from .py312 import COMMON as COMMON_312

COMMON: Table = COMMON_312 | {
    "CALL": (b.call_null_after, raw),
    "CALL_KW": (b.call_kw, raw),
    "COMPARE_OP": (b.compare_op_flagged, raw),
    "CONVERT_VALUE": (b.convert_value, raw),
    "END_FOR": (v.pop_top, raw),
    "FORMAT_SIMPLE": (b.format_simple, raw),
    "FORMAT_WITH_SPEC": (b.format_with_spec, raw),
    "FOR_ITER": (f.for_iter_then_pop, forward),
    "LOAD_ATTR": (v.load_attr_null_after, name_shifted),
    "LOAD_FAST_LOAD_FAST": (v.load_fast_load_fast, halves),
    "LOAD_GLOBAL": (v.load_global_null_after, name_shifted),
    "LOAD_SUPER_ATTR": (v.load_super_attr_null_after, name_shifted_twice),
    "MAKE_FUNCTION": (b.make_function_bare, raw),
    "SET_FUNCTION_ATTRIBUTE": (b.set_function_attribute, raw),
    "STORE_FAST_LOAD_FAST": (v.store_fast_load_fast, halves),
    "STORE_FAST_STORE_FAST": (v.store_fast_store_fast, halves),
    "TO_BOOL": (f.to_bool, raw),
}

TABLE: Table = COMMON | {
    "CALL_FUNCTION_EX": (b.call_function_ex_null_after, raw),
}
