"""Generated Triton kernels compile for every generation of GPU, without one."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.engine.backends.triton import reducing
from adjoint.engine.backends.triton.launch_words import Written
from adjoint.engine.backends.triton.program.codes import ErrorNumbers
from adjoint.engine.backends.triton.program.program import GpuProgram
from adjoint.engine.backends.triton.runtime.compile import build
from adjoint.engine.backends.triton.target import TritonTarget
from adjoint.engine.backends.triton.templates import lines as along
from adjoint.engine.backends.triton.templates import scaled
from adjoint.engine.backends.triton.templates.groups import few, tiles
from adjoint.engine.backends.triton.templates.groups.few import FewWay
from adjoint.engine.backends.triton.templates.groups.form import GroupedRows
from adjoint.engine.backends.triton.templates.groups.tiles import TileWay
from adjoint.engine.backends.triton.templates.product import MatrixProduct
from adjoint.engine.backends.triton.templates.scaled import ScaledForm, ScaledWay
from adjoint.engine.compiler.executors import register_backend
from adjoint.engine.compiler.options import chosen
from adjoint.engine.compiler.package.naming import digest
from adjoint.engine.compiler.schedule.build import plan_for
from adjoint.engine.compiler.schedule.steps import EagerCall, Flow, Launch
from adjoint.engine.graph.execution import interpreted
from adjoint.nn import functional as F

from .test_new_operations import exponentials_added
from .triton_programs import PROGRAMS, training

pytest.importorskip("triton", reason="Triton (`pip install adjoint[cuda]`) compiles the kernels")
CAPABILITIES = (80, 90, 100)


class CpuTriton(TritonTarget):
    name = "triton on the cpu"
    device = "cpu"


class Compiling:
    """A machine that compiles kernels and runs none."""

    def __init__(self, capabilities: tuple[int, ...]) -> None:
        self.capabilities = capabilities
        self.kernels: dict[str, int] = {}
        word = np.zeros(1, np.int64)  # that kernels would report into
        self.faults = SimpleNamespace(errors=ErrorNumbers(), word=word, address=self.address(word))

    def active(self) -> Any:
        return contextlib.nullcontext()

    def empty(self, shape: Any, dtype: Any) -> Any:
        return np.empty(shape, dtype)

    def address(self, array: Any) -> int:
        return int(array.ctypes.data)

    def window(self, address: int, owner: Any, shape: Any, strides: Any, dtype: Any) -> Any:
        return np.empty(shape, dtype)

    def pinned(self, count: int) -> Any:
        return np.zeros(count, np.int64)

    def mark(self, again: Any) -> None:
        """There is nothing to wait for."""

    def order(self, by_library: bool) -> None:
        """No program is called."""

    def uploader(self, target: Any, source: Any) -> Callable[[], None]:
        return lambda: None

    def expect(self, works: list[Any]) -> None:
        pass

    def downloader(self, target: Any, source: Any) -> Callable[[], None]:
        return lambda: None

    copier = downloader

    def prepare(self, name: str, work: Any) -> Callable[[int], None]:
        if isinstance(work, Written) and name not in self.kernels:
            for way in (work, *work.others):
                for capability in self.capabilities:
                    made = build(way, digest(way.source), capability)
                    self.kernels[name] = len(made.cubin)
        return lambda words: None


def compile_all(run: Callable[[str], Any], capabilities: tuple[int, ...]) -> Compiling:
    """Compile the kernels of what is run with a backend."""
    machine: Any = Compiling(capabilities)

    def maker(mode: str, options: dict[str, Any]) -> Any:
        def executable(task: Any) -> Any:
            GpuProgram(task, chosen(mode, options), machine, CpuTriton)
            return interpreted(task)

        return executable

    register_backend("compiled-triton", maker)
    run("compiled-triton")
    return machine


@pytest.mark.parametrize("name", ["chain", "softmax", "long rows", "picked", "put", "draws"])
def test_kernels_compile(name: str) -> None:
    fn, arguments = PROGRAMS[name]
    made = compile_all(lambda backend: ad.compile(fn, backend=backend)(*arguments()), (90,))
    assert made.kernels
    assert min(made.kernels.values()) > 1000


def test_a_reduction_from_outside_compiles() -> None:
    with exponentials_added() as record:
        made = compile_all(
            lambda backend: ad.compile(
                lambda x: record(x * 2, dims=(1,), keepdim=False), backend=backend
            )(ad.randn(8, 40)),
            (90,),
        )
    assert made.kernels


def planned(fn: Callable[..., Any], *arguments: Any) -> list[Any]:
    """The launches of a function's program."""
    found: list[Any] = []

    def maker(mode: str, options: dict[str, Any]) -> Any:
        def executable(task: Any) -> Any:
            plan = plan_for(task, CpuTriton(), chosen(mode, options))
            found.extend(step for step in plan.steps if isinstance(step, Launch))
            return interpreted(task)

        return executable

    register_backend("planned-triton", maker)
    ad.compile(fn, backend="planned-triton")(*arguments)
    return found


def test_the_page_shows_a_kernel() -> None:
    folder = Path(reducing.__file__).parent
    (shown,) = re.findall(r"```text\n(.*?)```", (folder / "README.md").read_text(), re.S)
    (launch,) = planned(lambda x: F.softmax(x * 2, -1), ad.ones(1000, 768))
    assert dedent(shown).strip() == launch.text.source.strip()


def test_batches_that_do_not_follow_one_another_take_few_calls() -> None:
    """Heads that were split off rows: the largest of batches in a call, or copies and one call."""

    def attended(qkv: Any) -> Any:
        q, k, v = qkv.unflatten(-1, (3, -1, 32)).permute(2, 0, 3, 1, 4)
        return (q @ k.transpose(-2, -1)) @ v

    for windows, heads, most in ((64, 3, 3), (64, 6, 1), (5, 64, 1)):
        steps = planned(attended, ad.randn(windows, 49, 3 * heads * 32))
        products = [k for step in steps for k in step.kernels if isinstance(k, MatrixProduct)]
        assert 2 <= len(products) <= 2 * most, (windows, heads, len(products))
        assert sum(p.count for p in products) == 2 * windows * heads


def test_products_of_halves_are_products_of_halves() -> None:
    x = ad.randn(64, 64)

    def layer(x: Any) -> Any:
        return ad.addmm(x[0].bfloat16(), x.bfloat16(), x.t().bfloat16())

    products = [
        k for step in planned(layer, x) for k in step.kernels if isinstance(k, MatrixProduct)
    ]
    assert [(p.dtype, p.out, p.biased) for p in products] == [("bfloat16", "bfloat16", True)]
    products = [
        k
        for step in planned(lambda x: (x.half().float() @ x.half().float()).half() + 1, x)
        for k in step.kernels
        if isinstance(k, MatrixProduct)
    ]
    assert [(p.dtype, p.out) for p in products] == [("float16", "float16")]
    # What is no half stays what it is.
    products = [
        k
        for step in planned(lambda x: (x.half().float() * 0.3) @ x.half().float(), x)
        for k in step.kernels
        if isinstance(k, MatrixProduct)
    ]
    assert [(p.dtype, p.out) for p in products] == [("float32", "float32")]


def test_small_products_are_part_of_kernels() -> None:
    x, w, b = ad.randn(8, 8), ad.randn(8, 4), ad.randn(4)
    launches = planned(lambda x, w, b: F.linear(x, w.t(), b).tanh(), x, w, b)
    assert [step.label for step in launches] == ["mul+sum+add+tanh"]
    large = ad.randn(64, 64)
    launches = planned(lambda x: (x @ x).tanh(), large)
    assert any(isinstance(k, MatrixProduct) for step in launches for k in step.kernels)


def test_scans_are_launches_of_their_bodies() -> None:
    fn, arguments = PROGRAMS["scanned"]
    plans: list[Any] = []

    def maker(mode: str, options: dict[str, Any]) -> Any:
        def executable(task: Any) -> Any:
            plans.append(plan_for(task, CpuTriton(), chosen(mode, options)))
            return interpreted(task)

        return executable

    register_backend("scanned-triton", maker)
    ad.compile(fn, backend="scanned-triton")(*arguments())
    steps = [step for plan in plans for step in plan.steps]
    assert any(isinstance(step, Flow) for step in steps)
    assert not any(isinstance(step, EagerCall) for step in steps)


def test_what_all_turns_share_is_converted_once() -> None:
    fn, arguments = PROGRAMS["recurrent of halves"]
    flows: list[Any] = []

    def maker(mode: str, options: dict[str, Any]) -> Any:
        def executable(task: Any) -> Any:
            plan = plan_for(task, CpuTriton(), chosen(mode, options))
            flows.extend(step for step in plan.steps if isinstance(step, Flow))
            return interpreted(task)

        return executable

    register_backend("recurrent-triton", maker)
    ad.compile(fn, backend="recurrent-triton")(*arguments())
    assert flows
    for flow in flows:
        weights = [
            touch
            for _, steps in flow.parts
            for step in steps
            if str(step.label) == "cast"
            for touch in step.writes
            if touch.buffer.size == 64
        ]
        assert not weights


def test_what_lies_in_memory_anyway_is_kept_for_a_norm() -> None:
    w = ad.randn(64, 64).requires_grad_()
    weight = ad.ones(64).requires_grad_()

    def step(x: Any) -> Any:
        for _ in range(3):
            h = F.layer_norm(x, (64,), weight)
            for _ in range(4):
                h = (h.bfloat16() @ w.bfloat16()).float()
            x = x + h
        return ad.autograd.grad(x.sum(), (w, weight))

    launches = planned(step, ad.randn(512, 64))
    norms = [s for s in launches if s.form is not None and "rsqrt" in str(s.label)]
    forward = [s for s in norms if "cast" in str(s.label)]
    assert forward
    for launch in forward:  # x, its mean and deviation, and the result in halves; no fifth
        wide = [r for _, r in launch.form.stores if launch.form.refs[r][1][-1]]
        assert len(wide) <= 2


def test_attention_is_one_kernel_where_nobody_reads_its_weights() -> None:
    q = ad.randn(2, 3, 32, 16)
    attend = F.scaled_dot_product_attention
    launches = planned(lambda q: attend(q, q, q, is_causal=True), q)
    assert len(launches) == 1
    assert launches[0].function.startswith("attention")
    mask = ad.ones(32, 32).bool()
    masked = planned(lambda q: attend(q, q, q, attn_mask=mask), q)
    assert [step.function[:9] for step in masked] == ["attention"]
    dropped = planned(lambda q: attend(q, q, q, dropout_p=0.5), q)
    assert not any(step.function.startswith("attention") for step in dropped)


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_kernels_compile_for_every_generation(name: str) -> None:
    fn, arguments = PROGRAMS[name]
    known = CAPABILITIES if name != "scaled products to halves" else CAPABILITIES[1:]
    compile_all(lambda backend: ad.compile(fn, backend=backend)(*arguments()), known)


def test_products_of_few_bits_compile() -> None:
    rows = GroupedRows("bfloat16", 4, 96, 32, 96, "float32", "uint8", "float32", (16, 16))
    eights = ScaledForm(
        ("float8_e4m3fn", "float8_e5m2"), "bfloat16", "", 70, (70, 70), (True, False),
        (False, False), False,
    )  # fmt: skip
    small = ScaledWay(16, 16, 32, 4, 2, halves=True)
    for lines, capability in (
        (few.few_lines(rows, FewWay(2, 1, 1), 1), 90),
        (tiles.tile_lines(rows, TileWay(64, 16, 32, 4, 2), 2, ""), 90),
        (scaled.source_lines(eights, small), 80),
    ):
        way = along.written("product", lines, (1, 1), warps=4)
        assert len(build(way, digest(way.source), capability).cubin) > 1000


@pytest.mark.slow
@pytest.mark.parametrize("optimizer", ["AdamW", "SGD"])
def test_kernels_of_a_step_compile(optimizer: str) -> None:
    made = compile_all(lambda backend: training(backend, optimizer, steps=1), CAPABILITIES)
    assert made.kernels
