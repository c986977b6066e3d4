"""The standard library's own tests, executed by the recorder: what Python passes, it passes.

A test may be refused (it compiles text, looks at frames, counts references); it may not come out
otherwise. Interpreters without the `test` package skip this.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import sys
import unittest
import warnings
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from adjoint.engine.capture.python.observation import observe
from adjoint.engine.core.errors import CaptureError

QUICK = ("test_except_star", "test_super", "test_with")
MORE = (
    "test_augassign", "test_compare", "test_enum", "test_functools", "test_generators", "test_iter",
    "test_list", "test_named_expressions", "test_patma", "test_property", "test_raise", "test_scope",
    "test_tuple", "test_unary",
)  # fmt: skip
# They ask iterators for their state, methods for what they wrap, lists that hold themselves for
# their text, and change a list while it is compared; the recorder raises where Python answers.
DIFFERENT = frozenset({
    "test_iter_neg_setstate", "test_iter_overflow", "test_reduce_mutating_builtins_iter",
    "test_double_wrapped_methods", "test_repr", "test_equal_operator_modifying_operand",
})  # fmt: skip
# The tests differ from release to release of Python; these were run.
RUN = frozenset({(3, 11, 7), (3, 12, 1), (3, 13, 0)})
pytestmark = pytest.mark.filterwarnings("ignore")


def cases_of(suite: Any) -> Iterator[Any]:
    if isinstance(suite, unittest.TestSuite):
        for part in suite:
            yield from cases_of(part)
    elif hasattr(suite, "_testMethodName") and type(suite).__name__ != "DocTestCase":
        yield suite


def outcome(case: Any, follow: bool) -> str:
    """How a test ends: "passed", "refused", or what it raised."""
    method = getattr(case, case._testMethodName)
    try:
        case.setUp()
        if not follow:
            method()
            return "passed"
        found = observe(method)
        found.roll_back()
        return "passed" if found.error is None else f"{type(found.error).__name__}: {found.error}"
    except CaptureError:
        return "refused"
    except BaseException as error:
        return f"{type(error).__name__}: {error}"
    finally:
        with contextlib.suppress(Exception):
            case.tearDown()
            case.doCleanups()


def check(module: str) -> Counter[str]:
    """Play the tests of a module by Python and by the recorder."""
    tests = pytest.importorskip(f"test.{module}", reason="Python came without its own tests")
    importlib.reload(tests)
    counts: Counter[str] = Counter()
    for case in cases_of(unittest.defaultTestLoader.loadTestsFromModule(tests)):
        told = io.StringIO()
        quiet = warnings.catch_warnings(action="ignore")
        with contextlib.redirect_stdout(told), contextlib.redirect_stderr(told), quiet:
            if outcome(case, follow=False) != "passed":
                continue
            found = outcome(case, follow=True)
        counts[found if found == "refused" else "passed"] += 1
        if case._testMethodName not in DIFFERENT:
            assert found in ("passed", "refused"), case.id()
    return counts


@pytest.mark.skipif(
    sys.version_info[:3] not in RUN, reason="the tests of this release of Python were not run"
)
@pytest.mark.parametrize("module", QUICK)
def test_tests_of_python(module: str) -> None:
    counts = check(module)
    assert counts["passed"] >= 10


@pytest.mark.slow
@pytest.mark.parametrize("module", MORE)
def test_more_tests_of_python(module: str) -> None:
    check(module)
