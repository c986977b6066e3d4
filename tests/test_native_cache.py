"""Compiled programs on disk: another process does not compile again, damage is repaired."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.forking import TRAINING, forking

PROGRAM = """
import adjoint as ad
from adjoint import nn
from adjoint.engine.backends.llvm.runtime import jit
from adjoint.nn import functional as F

made = []
assemble = jit.assemble
jit.assemble = lambda text: (made.append(text.count("define void @k")), assemble(text))[1]
ad.manual_seed(0)
net = nn.Sequential(*[m for _ in range(6) for m in (nn.Linear(8, 8), nn.LayerNorm(8), nn.Tanh())])
optimizer = ad.optim.Adam(net.parameters(), lr=0.1)

@ad.compile
def step(x):
    loss = (net(x) ** 2).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss

x = ad.randn(4, 8)
print([step(x).item() for _ in range(3)], sum(made), len(step.explain().splitlines()) - 1)
"""


Run = Callable[[Path], tuple[str, int, int]]
Filled = tuple[Path, tuple[str, int, int]]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """(losses, kernels assembled, launches) of the program in a process of its own."""
    program = tmp_path_factory.mktemp("program") / "program.py"
    program.write_text(PROGRAM)
    with forking(*TRAINING) as process:

        def run(folder: Path) -> tuple[str, int, int]:
            status, out, errors = process.run(program, ADJOINT_CACHE_DIR=str(folder))
            assert status == 0, errors
            losses, assembled, launches = out.rsplit(maxsplit=2)
            return losses, int(assembled), int(launches)

        yield run


def entries(folder: Path) -> list[Path]:
    return [p for p in folder.rglob("*") if p.is_file()]


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory, run: Run) -> Filled:
    folder = tmp_path_factory.mktemp("cache")
    return folder, run(folder)


def test_alike_layers_share_their_code(filled: Filled) -> None:
    """Six layers, forward and backward, take many launches of few kernels."""
    _, (_, assembled, launches) = filled
    assert launches > 30
    assert assembled < launches / 2


def test_another_process_compiles_nothing(filled: Filled, run: Run) -> None:
    folder, (losses, _, launches) = filled
    assert run(folder) == (losses, 0, launches)


@pytest.mark.parametrize("damage", ["truncated", "overwritten", "removed code"])
def test_damage_is_repaired(filled: Filled, run: Run, damage: str) -> None:
    folder, (losses, _, launches) = filled
    found = entries(folder)
    assert found
    for path in found:
        data = path.read_bytes()
        if damage == "truncated":
            path.write_bytes(data[: len(data) // 2])
        elif damage == "overwritten":
            path.write_bytes(bytes(len(data)))
        elif len(data) > 10_000:  # code rather than the program that calls it
            path.unlink()
    again = run(folder)
    assert (again[0], again[2]) == (losses, launches)
    assert run(folder) == (losses, 0, launches)
