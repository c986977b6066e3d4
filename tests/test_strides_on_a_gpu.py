"""Results on a GPU lie in memory as the CPU's do.

Without a GPU they are made on a stand-in that lays them out as CuPy does, in a process of its own.
"""

from __future__ import annotations

import pytest

from tests.interpreted_process import needs_interpreter, run_by_interpreter
from tests.strides_on_a_gpu import FEW, check


def interpreted(paths: tuple[str, ...]) -> None:
    """Samples of these functions; of all functions without any."""
    run_by_interpreter("tests.strides_on_a_gpu", *paths, says="all lie alike", strict=False)


@needs_interpreter
def test_some_lie_alike() -> None:
    interpreted(("exp", "add", "frexp", "i0", "sum", "cumsum", "Tensor.expand"))


@pytest.mark.slow
@needs_interpreter
def test_more_lie_alike() -> None:
    interpreted(FEW)


# What cuDNN makes of samples whose channels lie innermost lies so too: convolutions are left out.
@pytest.mark.cuda
@pytest.mark.parametrize("path", [path for path in FEW if path != "conv1d"])
def test_on_a_gpu(path: str) -> None:
    check((path,), ("flipped", "stepped", "expanded"), ("all",))
