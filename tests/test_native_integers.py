"""Products of int8 in native code: every edge of a tile, every kind of dot, against int64."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import adjoint as ad
from adjoint.compiler import compile
from adjoint.engine.backends.llvm.target import LLVM
from adjoint.engine.backends.llvm.templates.groups import template as groups
from adjoint.engine.backends.llvm.templates.integers import dots, kernel, template
from adjoint.engine.ops.quantized.products import INTEGER_MATMUL, grouped_linear, integer_matmul
from adjoint.quantization.weights import pack
from tests.assembly_text import assembly_of
from tests.test_llvm_targets import TARGETS

# What this machine can run whatever it is; its own best besides.
HERE = sorted({"widened", "unsigned", dots.host_dot().name})
SHAPES = [
    *product((1, 2, 3, 5, 9), (1, 3, 4, 5, 9), (1, 7, 15, 16, 17, 33, 63, 64, 65, 130)),
    (70, 33, 1000),
    (0, 3, 4),
    (3, 4, 0),
]


def whole_numbers(random: np.random.Generator, *shape: int) -> Any:
    array = random.integers(-128, 128, shape).astype(np.int8)
    array.reshape(-1)[: array.size // 3] = -128  # the extreme, whose products are the largest
    return array


@pytest.fixture(params=HERE)
def dot(request: pytest.FixtureRequest, anew: None, monkeypatch: pytest.MonkeyPatch) -> str:
    name: str = request.param
    monkeypatch.setattr(template, "host_dot", lambda: dots.DOTS[name])
    return name


def test_edges_of_tiles(dot: str) -> None:
    random = np.random.default_rng(0)
    arrays = [(whole_numbers(random, m, k), whole_numbers(random, n, k)) for m, n, k in SHAPES]
    tensors = [tuple(map(ad.tensor, pair)) for pair in arrays]
    run = compile(lambda pairs: [INTEGER_MATMUL(a, b) for a, b in pairs], backend="native")
    for shape, (a, b), got in zip(SHAPES, arrays, run(tensors), strict=True):
        want = a.astype(np.int64) @ b.astype(np.int64).T
        assert got.dtype is ad.int32
        assert (got.numpy() == want).all(), (dot, shape)


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.integers(1, 3), max_size=3),
    st.integers(1, 9),
    st.integers(1, 9),
    st.integers(1, 40),
    st.sampled_from(["nn", "nt", "tn", "tt", "ss"]),
    st.booleans(),
)
def test_batches_and_layouts(
    batch: list[int], m: int, n: int, k: int, layout: str, shared: bool
) -> None:
    random = np.random.default_rng(m * n * k)

    def operand(rows: int, columns: int, how: str, lead: list[int]) -> tuple[Any, Any]:
        if how == "t":
            return whole_numbers(random, *lead, columns, rows), lambda x: x.mT
        if how == "s":
            return whole_numbers(random, *lead, rows * 2, columns * 3), lambda x: x[..., ::2, ::3]
        return whole_numbers(random, *lead, rows, columns), lambda x: x

    x, see_x = operand(m, k, layout[0], batch)
    y, see_y = operand(k, n, layout[1], [] if shared else batch)

    def run(x: Any, y: Any) -> Any:
        return integer_matmul(see_x(x), see_y(y))

    a, b = ad.tensor(x), ad.tensor(y)
    want = see_x(a).numpy().astype(np.int64) @ see_y(b).numpy().astype(np.int64)
    for got in (run(a, b), compile(run, backend="native")(a, b)):
        assert (got.numpy() == want).all()


GROUPED = [
    (bits, group, rows, outputs, zero, bias)
    for bits, group in ((4, 32), (4, 64), (8, 32), (8, 96))
    for rows, outputs in ((1, 1), (1, 33), (2, 7), (3, 5), (4, 64))
    for zero, bias in ((None, False), ("whole", True), ("part", False))
]


@pytest.mark.parametrize("way", HERE)
@pytest.mark.usefixtures("anew")
def test_weights_in_groups(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A few rows times packed weights, against what the weights stand for in float64."""
    monkeypatch.setattr(groups, "host_dot", lambda: dots.DOTS[way])
    taken: list[int] = []
    given = groups.TEMPLATES["grouped_linear"]

    def steps(*args: Any) -> list[Any]:
        taken.append(1)
        return given.steps(*args)

    templates = {**LLVM.templates, "grouped_linear": replace(given, steps=steps)}
    monkeypatch.setattr(type(LLVM), "templates", templates)
    random = np.random.default_rng(0)
    for case, (bits, group, rows, outputs, zero, bias) in enumerate(GROUPED):
        features = group * (5 if case % 2 else 1)
        shape = outputs, features // group
        low, high = (0, 16) if bits == 4 else (-128, 128)
        numbers = random.integers(low, high, (outputs, features))
        scale = random.uniform(0.01, 0.1, shape).astype(np.float32)
        points = random.integers(low, high, shape) + (0.25 if zero == "part" else 0)
        held = {None: None, "whole": np.uint8 if bits == 4 else np.int8, "part": np.float32}[zero]
        weight = ad.tensor(numbers.astype(np.uint8 if bits == 4 else np.int8))
        point = None if held is None else ad.tensor(points.astype(held))
        offset = ad.randn(outputs) if bias else None
        x = ad.randn(rows, features)
        packed = pack(weight) if bits == 4 else weight
        got = compile(
            lambda x, w, s, z, b, bits=bits, group=group: grouped_linear(
                x, w, s, z, b, bits, group
            ),
            backend="native",
        )(x, packed, ad.tensor(scale), point, offset)
        moved = numbers - (0 if zero is None else np.repeat(points, group, 1))
        want = x.numpy().astype(float) @ (moved * np.repeat(scale, group, 1).astype(float)).T
        want = want if offset is None else want + offset.numpy()
        np.testing.assert_allclose(got.numpy(), want, rtol=1e-4, atol=1e-3)
    assert len(taken) == len(GROUPED)


@pytest.mark.parametrize("way", HERE)
@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.usefixtures("anew")
def test_inputs_of_weights_in_groups(bits: int, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of every kind of number: within what summing in float32 loses, whatever the outliers."""
    monkeypatch.setattr(groups, "host_dot", lambda: dots.DOTS[way])
    random = np.random.default_rng(bits)
    group, outputs = 64, 9
    rows = random.standard_normal((4, 5 * group)).astype(np.float32)
    rows[0, :group] = 0
    rows[0, 70], rows[1, 3], rows[1, 100], rows[2, 5] = 1e8, 3e38, 1e-40, 20
    rows[2, group : 2 * group] *= np.float32(1e-35)
    rows[3] = np.exp2(random.uniform(-20, 20, rows.shape[1]))
    low, high = (0, 16) if bits == 4 else (-128, 128)
    numbers = random.integers(low, high, (outputs, rows.shape[1]))
    points = random.integers(low, high, (outputs, 5))
    numbers[:, [3, 70]] = points[:, [0, 1]]  # the largest inputs meet weights of zero
    scale = random.uniform(0.01, 0.1, points.shape).astype(np.float32)
    kind = np.uint8 if bits == 4 else np.int8
    weight = ad.tensor(numbers.astype(kind))
    packed = pack(weight) if bits == 4 else weight
    given = packed, ad.tensor(scale), ad.tensor(points.astype(kind))
    run = compile(
        lambda x, w, s, z: grouped_linear(x, w, s, z, None, bits, group), backend="native"
    )
    real = (numbers - np.repeat(points, group, 1)) * np.repeat(scale, group, 1).astype(float)
    want = rows.astype(float) @ real.T
    bound = np.abs(rows.astype(float)) @ np.abs(real).T
    assert (np.abs(run(ad.tensor(rows), *given).numpy() - want) <= 4e-6 * bound).all()

    rows[0, 200], rows[1, 1], rows[2, 300] = np.inf, np.nan, -np.inf
    got = run(ad.tensor(rows), *given).numpy()
    assert not np.isfinite(got[:3]).any()
    assert np.isfinite(got[3]).all()


def test_depths_beyond_what_floats_hold() -> None:
    x = ad.full((2, 5000), -128, dtype=ad.int8)
    assert (ad._int_mm(x, x.t()).numpy() == 5000 * 2**14).all()


@pytest.mark.parametrize(
    ("name", "cpu", "instruction"),
    [
        ("vnni512", "x86-64-v4", "vpdpbusd"),
        ("pairs512", "x86-64-v4", "vpmaddwd"),
        ("pairs256", "x86-64-v3", "vpmaddwd"),
        ("pairs128", "x86-64", "pmaddwd"),
        ("sdot", "generic", "sdot"),
    ],
)
@pytest.mark.parametrize("rows", [1, 4])
def test_code_for_other_processors(name: str, cpu: str, instruction: str, rows: int) -> None:
    text, declared = kernel.integer_text("f", name, rows)
    if name.startswith("vnni"):
        text = text.replace(
            "i64 %workers)", 'i64 %workers) "target-features"="+avx512f,+avx512vnni"'
        )
    module = "\n".join([*sorted(declared), text])
    assert instruction in assembly_of(module, TARGETS[cpu][0], cpu)


@pytest.mark.parametrize(
    ("machine", "have", "name"),
    [
        ("aarch64", {"dotprod"}, "sdot"),
        ("aarch64", set(), "widened"),
        ("x86_64", {"sse2", "avx2", "avx512f", "avx512bw", "avx512vnni"}, "vnni512"),
        ("x86_64", {"sse2", "avx2", "avxvnni"}, "vnni256"),
        ("x86_64", {"sse2", "avx2"}, "pairs256"),
        ("x86_64", {"sse2"}, "pairs128"),
        ("riscv64", set(), "widened"),
    ],
)
def test_the_best_of_a_processor(machine: str, have: set[str], name: str) -> None:
    assert dots.best_dot(machine, have).name == name
