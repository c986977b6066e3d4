"""Numbers of kernels as words: the text says the same, and few texts serve many lengths."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import re
import struct
from typing import Any

import pytest

import adjoint as ad
from adjoint.engine.backends.triton.launch_words import TABLE, Written
from adjoint.engine.backends.triton.runtime.arguments import spread, with_arguments
from adjoint.engine.backends.triton.runtime.compile import FUSION, function_of
from adjoint.engine.backends.triton.runtime.open_numbers import OpenNumbers, holes, opened
from adjoint.engine.backends.triton.target import EagerTarget
from adjoint.engine.compiler.executors import register_backend
from adjoint.engine.compiler.options import chosen
from adjoint.engine.compiler.schedule.build import plan_for
from adjoint.engine.compiler.schedule.steps import Launch
from adjoint.nn import functional as F


class CpuTarget(EagerTarget):
    """Eager mode's target on a GPU, for memory of the CPU's."""

    name = "eager triton on the cpu"
    device = "cpu"


class Planned(BaseException):
    """A plan was made."""


def kernels(run: Any, *given: Any) -> list[tuple[Written, int]]:
    """The kernels of a function's plan, each with the number of its words."""
    found: list[tuple[Written, int]] = []

    def make(mode: str, options: dict[str, Any]) -> Any:
        def executable(task: Any) -> Any:
            steps = plan_for(task, CpuTarget(), chosen(mode, options)).steps
            launches = [step for step in steps if isinstance(step, Launch)]
            texts = [(step.text, len(step.words)) for step in launches]
            found.extend([(t, count) for t, count in texts if isinstance(t, Written)])
            raise Planned

        return executable

    register_backend("planned-kernels", make)
    with pytest.raises(Planned):
        ad.compile(run, backend="planned-kernels")(*given)
    return found


def attend(x: Any) -> Any:
    heads = x.reshape(2, -1, 2, 16).transpose(1, 2)
    return F.scaled_dot_product_attention(heads, heads, heads, is_causal=True)


RUNS = {
    "norm and softmax": lambda x: F.layer_norm(x, (32,)).softmax(1),
    "attention": attend,
    "moments": lambda x: x.mean() + x.var(1),
    "pooling": lambda x: F.max_pool1d(x.transpose(1, 2), 3, 2),
    "a copy": lambda x: x.transpose(0, 1).contiguous(),
    "sums along lines": lambda x: x.cumsum(1),
    "order": lambda x: x.sort(1)[0],
    "a loss": lambda x: F.cross_entropy(x.flatten(0, 1), x.flatten(0, 1).argmax(1)),
    "choices": lambda x: ad.where(x[:, ::2] > 0, x[:, ::2], x[:, :1]),
    "a draw": lambda x: x + ad.rand(2, x.shape[1], 32),
}


class Closed(ast.NodeTransformer):
    """A tree with words by their numbers in the place of what they are called."""

    def __init__(self, numbers: dict[str, Any]) -> None:
        self.numbers = numbers

    def visit_Name(self, node: ast.Name) -> ast.AST:
        return self.numbers.get(node.id, node)


def closed(source: str, words: list[int], count: int) -> str:
    """An opened text with the words that it loads at its start put in."""
    tree = ast.parse(source)
    function: Any = tree.body[-1]
    numbers: dict[str, Any] = {}
    for line in function.body[1 : 1 + len(words)]:
        k = int(line.targets[0].id[1:])
        told = ast.unparse(line.value)
        assert f"w + {count + k})" in told, told
        if "float64" in told:
            value: Any = struct.unpack("=d", struct.pack("=q", words[k]))[0]
        else:
            value = words[k]
            said = re.match(r"tl\.multiple_of\(.*, (\d+)\)", told)
            assert said is None or value % int(said[1]) == 0
        kind = re.findall(r"\.to\((tl\.\w+)\)", told)[-1]
        text = str(value) if kind == "tl.int32" else f"tl.full((), {value}, {kind})"
        numbers[line.targets[0].id] = ast.parse(text, mode="eval").body
    del function.body[1 : 1 + len(words)]
    return ast.unparse(ast.fix_missing_locations(Closed(numbers).visit(tree)))


@pytest.mark.parametrize("name", RUNS)
def test_an_opened_text_says_the_same(name: str) -> None:
    for length in (17, 64, 100):
        for written, count in kernels(RUNS[name], ad.zeros(2, length, 32)):
            for way in (written, *written.others):
                if TABLE not in way.source:
                    continue
                source, words = opened(way.source, holes(way.source), count)
                assert closed(source, words, count) == ast.unparse(ast.parse(way.source))
                assert spread(source, count + len(words)) is not None


@pytest.mark.parametrize("name", RUNS)
def test_few_texts_serve_many_lengths(name: str) -> None:
    numbers = OpenNumbers()
    texts: list[set[str]] = []
    for length in range(130, 250, 3):
        texts.append(set())
        for written, count in kernels(RUNS[name], ad.zeros(2, length, 32)):
            launched, more = numbers.kernel(written, count)
            given = with_arguments(launched, count + len(more))
            assert given is not None
            texts[-1] |= {way.source for way in (given, *given.others)}
    late = set().union(*texts[20:]) - set().union(*texts[:20])
    assert len(late) <= 2 * len(texts[0]), f"{len(late)} more texts for the lengths to come"


@pytest.mark.parametrize(
    ("line", "values"),
    [
        ("x1 = x % 29", [29]),
        ("x = (p * 64 + tl.arange(0, 64))[:, None] // 64", [64]),  # the tile's own is none
        ("x = p * 64 + tl.arange(0, 32)", [64]),
        ("at = w + 3", []),  # which word it is
        ("y = x * 1 + 0", []),  # what says more than how many
        ("y = x * 4294967296", []),  # of 64 bits
        ("y = (4 * 70000) * 70000", []),  # Triton knows both sides
        ("y = x + 3 * 70000", []),  # the same, to the right
        ("y = x[:, None] * 768 + f(x) // 5", [768, 5]),
        ("for i in range(0, 29, 32):", [29]),
        ("for i in tl.range(32, 100, 32, num_stages=3):", [32, 100]),
        ("y = tl.full((), 10, tl.int64) + tl.full((), 0.5, tl.float32)", [10, 0.5]),
        ("y = tl.full((32, 16), 7, tl.float32)", []),  # its shape is the kernel's own
        ("y = tl.arange(0, 128) << 24", []),
        ("y = (29 - x % 30) * 2.5e3", [29, 30]),
        ("y = x // 29 * 464 + 5", [29, 464, 5]),
        ("y = tl.minimum(x + 29, 300) + tl.maximum(31, x)", [29, 300, 31]),
        ("y = tl.full((), 2146121005, tl.uint32)", []),  # no size
        ("left = 300 - part * 29", [300, 29]),
    ],
)
def test_which_numbers_may_be_open(line: str, values: list[Any]) -> None:
    assert [hole.value for hole in holes(f"    {line}\n")] == values


def reduced(written: Written) -> set[str]:
    """How elements lie in threads where a kernel reduces them, which decides the order."""
    triton: Any = importlib.import_module("triton")
    compiler: Any = importlib.import_module("triton.compiler")
    targets: Any = importlib.import_module("triton.backends.compiler")
    function = function_of(written.source, f"opened {hash(written.source)}")
    source = compiler.ASTSource(
        fn=function, signature=dict.fromkeys(function.arg_names, "i64"), constexprs={}, attrs={}
    )
    options = {"num_warps": written.warps, "num_stages": written.stages, FUSION: written.fused}
    target = targets.GPUTarget("cuda", 90, 32)
    text = triton.compile(source, target=target, options=options).asm["ttgir"]
    known = dict(re.findall(r"^(#\w+) = (#ttg\.\w+<.*>)$", text, re.MULTILINE))
    return {
        re.sub(r"#\w+", lambda name: known.get(name[0], name[0]), operands)
        for operands in re.findall(r"}\) : \((tensor<[^)]*)\) ->", text)
    }


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="needs Triton")
@pytest.mark.parametrize("name", RUNS)
def test_opened_kernels_compile_and_reduce_in_the_same_order(name: str) -> None:
    numbers = OpenNumbers()
    for length in (140, 152, 161, 166):
        for written, count in kernels(RUNS[name], ad.zeros(2, length, 32)):
            launched, more = numbers.kernel(written, count)
            given = with_arguments(launched, count + len(more))
            plain = with_arguments(written, count)
            assert given is not None
            assert plain is not None
            if more:
                assert reduced(given) == reduced(plain)
