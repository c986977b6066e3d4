"""The CPU as a target of the compiler: what its kernels know, and the templates it has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, final

from adjoint.engine.backends.llvm.ir.machine import is_this_process, machine
from adjoint.engine.backends.llvm.loops import advancing
from adjoint.engine.backends.llvm.loops.launch_words import fill_words, joined
from adjoint.engine.backends.llvm.templates.bags import template as bags
from adjoint.engine.backends.llvm.templates.borrowed import substitutes
from adjoint.engine.backends.llvm.templates.borrowed import template as borrowed
from adjoint.engine.backends.llvm.templates.convolution import folds, patches
from adjoint.engine.backends.llvm.templates.convolution import template as convolution
from adjoint.engine.backends.llvm.templates.convolution.pixels.images import images_in_pixels
from adjoint.engine.backends.llvm.templates.distances import template as distances
from adjoint.engine.backends.llvm.templates.elements import substitutes as element_substitutes
from adjoint.engine.backends.llvm.templates.elements import template as elements
from adjoint.engine.backends.llvm.templates.factors import further as further_factors
from adjoint.engine.backends.llvm.templates.factors import template as factors
from adjoint.engine.backends.llvm.templates.groups import template as groups
from adjoint.engine.backends.llvm.templates.integers import template as integers
from adjoint.engine.backends.llvm.templates.lapack import substitutes as routine_substitutes
from adjoint.engine.backends.llvm.templates.lapack import template as routines
from adjoint.engine.backends.llvm.templates.padding import template as padding
from adjoint.engine.backends.llvm.templates.pooling import template as pooling
from adjoint.engine.backends.llvm.templates.product import template as product
from adjoint.engine.backends.llvm.templates.rows import template as rows
from adjoint.engine.backends.llvm.templates.running import template as running
from adjoint.engine.backends.llvm.templates.sampling import template as sampling
from adjoint.engine.backends.llvm.templates.searching import template as searching
from adjoint.engine.backends.llvm.templates.searching import weighed
from adjoint.engine.backends.llvm.templates.sorting import random_order
from adjoint.engine.backends.llvm.templates.sorting import template as sorting
from adjoint.engine.backends.llvm.templates.spectra import template as spectra
from adjoint.engine.backends.registers import distributions
from adjoint.engine.backends.registers.operations import KIND, reduces_in, supports
from adjoint.engine.compiler import flow
from adjoint.engine.compiler.loops.ir import Kernel, LoopKernel
from adjoint.engine.compiler.loops.schedule import schedule
from adjoint.engine.compiler.lower import joins, pair_functions, pairs
from adjoint.engine.compiler.schedule.steps import Launch
from adjoint.engine.compiler.target import Setting, Target
from adjoint.engine.core.dtype import DType
from adjoint.engine.graph.forms.writing import with_compiled_forms
from adjoint.engine.graph.ir import DataflowGraph


@final
class LlvmTarget(Target):
    """Native code of the CPU, through LLVM."""

    name = "llvm"
    device = "cpu"
    dtypes = frozenset(KIND)
    widened = frozenset(
        {
            "convolution", "convolution_transpose", "convolution_weight", "matmul", "max_pool",
            "max_pool_of_channels", "resample", "unfold_windows", "fold_windows", "scatter",
            "scatter_reduce", "index_put", "searchsorted", *borrowed.SPECIAL,
        }
    )  # fmt: skip
    kept_whole = frozenset(
        {*bags.TEMPLATES, *distances.TEMPLATES, *groups.TEMPLATES, *sampling.TEMPLATES}
    ).union(padding.KEPT_WHOLE, pooling.KEPT_WHOLE, random_order.KEPT_WHOLE, running.KEPT_WHOLE)
    permutes = True
    keeps = True
    narrow_positions = True
    reads_parts = True
    few_columns = 1024
    blocks = True
    templates = {
        **joins.TEMPLATES, "cat": joined(joins.TEMPLATES["cat"]),
        **pairs.TEMPLATES, **flow.TEMPLATES,
        **bags.TEMPLATES, **borrowed.TEMPLATES, **convolution.TEMPLATES, **folds.TEMPLATES,
        **distances.TEMPLATES, **elements.TEMPLATES, **groups.TEMPLATES,
        **routines.beside({**factors.TEMPLATES, **further_factors.TEMPLATES}),
        **routines.of_pairs(borrowed.FACTOR_TEMPLATE),
        **integers.TEMPLATES, **padding.TEMPLATES, **pooling.TEMPLATES, **product.TEMPLATES,
        **random_order.TEMPLATES, **rows.TEMPLATES, **running.TEMPLATES, **sampling.TEMPLATES,
        **searching.TEMPLATES, **sorting.TEMPLATES, **spectra.TEMPLATES, **weighed.TEMPLATES,
    }  # fmt: skip

    def prepare(self, graph: DataflowGraph) -> DataflowGraph:
        graph = with_compiled_forms(
            graph, lambda node, _: node.record.name in self.kept_whole, weighed.takes
        )
        graph = element_substitutes.substituted(substitutes.substituted(graph))
        graph = patches.substituted(routine_substitutes.substituted(graph))
        return pair_functions.paired(graph, self.dtypes)

    def images(self, graph: DataflowGraph, setting: Setting) -> frozenset[tuple[int, ...]]:
        return images_in_pixels(graph, setting)

    def computes(self, name: str, compute: DType, params: Mapping[str, Any]) -> bool:
        return supports(name, compute, dict(params))

    def reduces(self, name: str, compute: DType) -> bool:
        return reduces_in(name, compute)

    def draws(self, law: str, args: tuple[Any, ...], dtype: DType) -> bool:
        return distributions.supports(law, args, dtype)

    def advances(self) -> bool:
        return is_this_process()  # exported programs keep their words apart

    def advancing(
        self, moves: list[tuple[int, Any, Any]], count: int, turns: int, goes_on: Any
    ) -> tuple[Launch, Launch]:
        return advancing.launches(moves, count, turns, goes_on)

    def schedule(self, kernel: LoopKernel) -> Kernel:
        return schedule(kernel, reads_backwards=machine().reads_backwards)

    def fill_words(self, launch: Launch) -> None:
        fill_words(launch)


LLVM = LlvmTarget()
