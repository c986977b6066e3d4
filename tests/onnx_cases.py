"""The node cases of ONNX's own test suite, run on Adjoint: `python -m tests.onnx_cases [pattern]`."""

from __future__ import annotations

import collections
import importlib
import sys
import warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from onnx import numpy_helper

from adjoint.onnx import backend


@dataclass
class Score:
    passed: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{len(self.passed)} of {len(self.passed) + len(self.failed)} node cases pass"


def cases(pattern: str = "", module: str | None = None) -> list[Any]:
    """Those whose names have a pattern; of one module of theirs, or of all, which takes seconds."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from onnx.backend.test.case import node

        if module is None:
            found = node.collect_testcases(None)
        else:
            importlib.import_module(f"{node.__name__}.{module}")
            found = node._NodeTestCases
        return [case for case in found if pattern in case.name]


def plain(value: Any) -> Any:
    """What a case states, as arrays."""
    if hasattr(value, "dims"):
        return numpy_helper.to_array(value)
    return value


def check(case: Any) -> None:
    """Raise unless the backend gives what the case states."""
    from onnx.backend.test.runner import Runner

    prepared = backend.prepare(case.model)
    for inputs, wanted in case.data_sets:
        found = prepared.run([plain(v) for v in inputs])
        Runner.assert_similar_outputs([plain(v) for v in wanted], list(found), case.rtol, case.atol)


def score(pattern: str = "", module: str | None = None) -> Score:
    made = Score()
    for case in cases(pattern, module):
        try:
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                check(case)
            made.passed.append(case.name)
        except Exception as error:
            made.failed[case.name] = f"{type(error).__name__}: {' '.join(str(error).split())[:160]}"
    return made


def main() -> None:
    result = score(sys.argv[1] if len(sys.argv) > 1 else "")
    for name, why in result.failed.items():
        print(f"{name:60} {why}")
    print(collections.Counter(why.split(":")[0] for why in result.failed.values()))
    print(result)


if __name__ == "__main__":
    main()
