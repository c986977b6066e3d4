"""What a kernel finds wrong on a GPU is told once, and nothing writes state meanwhile.

Without a GPU it is found on a stand-in by Triton's interpreter, in a process of its own.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.faults_on_a_gpu import ON_A_GPU
from tests.interpreted_process import ROOT, needs_interpreter, run_by_interpreter

SAYS = "all cases hold"


@needs_interpreter
def test_interpreted() -> None:
    run_by_interpreter("tests.faults_on_a_gpu", says=SAYS)


@needs_interpreter
def test_blocking_interpreted() -> None:
    run_by_interpreter("tests.faults_on_a_gpu", "blocking", says=SAYS, ADJOINT_LAUNCH_BLOCKING="1")


@pytest.mark.cuda
@pytest.mark.parametrize("name", ON_A_GPU)
def test_on_a_gpu(name: str) -> None:
    ON_A_GPU[name]()


@pytest.mark.cuda
def test_blocking_on_a_gpu() -> None:
    call = "import tests.faults_on_a_gpu as faults; faults.blocking()"
    environment = {**os.environ, "ADJOINT_LAUNCH_BLOCKING": "1", "PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, "-c", call], env=environment, cwd=ROOT, check=True)
