"""The instructions of Python 3.12."""

from __future__ import annotations

from adjoint.engine.capture.python.decoding import (
    Table,
    const,
    forward,
    name,
    name_shifted,
    name_shifted_twice,
    raw,
)

from . import building as b
from . import flow as f
from . import groups as g
from . import variables as v
from .py311 import COMMON as COMMON_311

COMMON: Table = COMMON_311 | {
    "BEFORE_ASYNC_WITH": (f.refused, raw),
    "BEFORE_WITH": (f.before_with, raw),
    "BINARY_SLICE": (b.binary_slice, raw),
    "CALL_INTRINSIC_1": (b.call_intrinsic_1, raw),
    "CALL_INTRINSIC_2": (g.call_intrinsic_2, raw),
    "CLEANUP_THROW": (f.cleanup_throw, raw),
    "END_SEND": (f.end_send, raw),
    "LOAD_ASSERTION_ERROR": (f.load_assertion_error, raw),
    "LOAD_FAST_AND_CLEAR": (v.load_fast_and_clear, raw),
    "LOAD_FAST_CHECK": (v.load_fast, raw),
    "LOAD_FROM_DICT_OR_DEREF": (v.load_from_dict_or_deref, raw),
    "LOAD_FROM_DICT_OR_GLOBALS": (v.load_from_dict_or_globals, name),
    "LOAD_LOCALS": (v.load_locals, raw),
    "POP_JUMP_IF_FALSE": (f.pop_jump_if_false, forward),
    "POP_JUMP_IF_NONE": (f.pop_jump_if_none, forward),
    "POP_JUMP_IF_NOT_NONE": (f.pop_jump_if_not_none, forward),
    "POP_JUMP_IF_TRUE": (f.pop_jump_if_true, forward),
    "RETURN_CONST": (f.return_const, const),
    "SEND": (f.send_keeping, forward),
    "STORE_SLICE": (b.store_slice, raw),
}

TABLE: Table = COMMON | {
    "CALL": (b.call, raw),
    "CALL_FUNCTION_EX": (b.call_function_ex, raw),
    "COMPARE_OP": (b.compare_op_shifted, raw),
    "END_FOR": (f.end_for, raw),
    "FORMAT_VALUE": (b.format_value, raw),
    "FOR_ITER": (f.for_iter_then_end, forward),
    "KW_NAMES": (b.kw_names, const),
    "LOAD_ATTR": (v.load_attr_or_method, name_shifted),
    "LOAD_GLOBAL": (v.load_global, name_shifted),
    "LOAD_SUPER_ATTR": (v.load_super_attr, name_shifted_twice),
    "MAKE_FUNCTION": (b.make_function, raw),
}
