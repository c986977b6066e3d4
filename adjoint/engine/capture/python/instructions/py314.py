"""The instructions of Python 3.14, by its published list: no 3.14 was at hand to run them."""

from __future__ import annotations

from adjoint.engine.capture.python.decoding import Table, halves, raw

from . import building as b
from . import flow as f
from . import variables as v
from .py313 import COMMON as COMMON_313

TABLE: Table = COMMON_313 | {
    "BUILD_INTERPOLATION": (f.refused, raw),
    "BUILD_TEMPLATE": (f.refused, raw),
    "CALL_FUNCTION_EX": (b.call_function_ex_always, raw),
    "LOAD_COMMON_CONSTANT": (b.load_common_constant, raw),
    "LOAD_FAST_BORROW": (v.load_fast, raw),
    "LOAD_FAST_BORROW_LOAD_FAST_BORROW": (v.load_fast_load_fast, halves),
    "LOAD_SMALL_INT": (b.load_small_int, raw),
    "LOAD_SPECIAL": (f.load_special, raw),
    "NOT_TAKEN": (v.nothing, raw),
    "POP_ITER": (v.pop_top, raw),
    "WITH_EXCEPT_START": (f.with_except_start_null, raw),
}
