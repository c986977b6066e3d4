"""Loaders, samplers and optimizers of the framework's own, whose state changes between calls."""

# Written as a user would, who annotates little.
# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

import tempfile
from typing import Any

import adjoint as ad
from adjoint.futures import Future
from adjoint.utils.data import DataLoader, SequentialSampler, Subset, TensorDataset
from adjoint.utils.flop_counter import FlopCounterMode

from .playing import Wrap, changed, ones, program, times


def loader() -> Any:
    return DataLoader(TensorDataset(ad.arange(6.0)), batch_size=2)


@program
def loader_advanced(wrap: Wrap) -> Any:
    batches = iter(loader())
    return times(wrap(lambda x: x * next(batches)[0].sum()))


@program
def loader_that_is_given_other_data(wrap: Wrap) -> Any:
    of = loader()

    def f(x):
        of.asked = getattr(of, "asked", 0) + 1
        return x * len(of) + of.batch_size + len(of.dataset) * of.asked

    return changed(wrap, f, lambda: setattr(of.dataset, "tensors", (ad.ones(9),))), of.asked


@program
def loader_gone_through(wrap: Wrap) -> Any:
    of = loader()
    return changed(
        wrap, lambda x: sum(x * batch.sum() for (batch,) in of),
        lambda: of.dataset.tensors[0].add_(1),
        lambda: setattr(of.dataset, "tensors", (ad.ones(4),)),
    )  # fmt: skip


@program
def subset_of_others(wrap: Wrap) -> Any:
    part: Any = Subset(TensorDataset(ad.arange(6.0)), [1, 3])
    drawn = SequentialSampler(range(3))
    return changed(
        wrap, lambda x: x * part[0][0] + len(part) + sum(drawn),
        lambda: part.indices.__setitem__(0, 5), lambda: setattr(part, "indices", [2, 2, 4]),
        lambda: setattr(drawn, "data_source", range(5)),
    )  # fmt: skip


@program
def file_loaded(wrap: Wrap) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/rate.pt"
        ad.save(2.0, path)
        return changed(wrap, lambda x: x * ad.load(path), lambda: ad.save(3.0, path))


@program
def operations_counted_around(wrap: Wrap) -> Any:
    run, counts = wrap(lambda x: x @ x), []
    for _ in range(3):
        with FlopCounterMode(display=False) as counter:
            run(ad.ones(3, 3))
        counts.append(counter.get_total_flops())
    return counts


@program
def groups_of_an_optimizer(wrap: Wrap) -> Any:
    of: Any = ad.optim.SGD([ones(2).requires_grad_()], lr=0.5)

    def f(x):
        of.asked = getattr(of, "asked", 0) + 1
        return x * of.param_groups[0]["lr"] + of.asked

    def other_groups():
        of.param_groups = [{**of.param_groups[0], "lr": 7.0}]

    return changed(wrap, f, other_groups, lambda: delattr(of, "asked")), of.asked


@program
def future_that_is_set_later(wrap: Wrap) -> Any:
    of: Any = ad.futures.Future()
    return changed(
        wrap, lambda x: x * (of.value() if of.done() else 5.0), lambda: of.set_result(9.0)
    )


@program
def casts_that_are_turned_off(wrap: Wrap) -> Any:
    casts, weight = ad.autocast("cpu", dtype=ad.bfloat16), ad.ones(2, 2)

    def f(x):
        with casts:
            return x @ weight

    return changed(wrap, f, lambda: setattr(casts, "_enabled", False))


@program
def interval_of_a_scaler(wrap: Wrap) -> Any:
    of = ad.amp.GradScaler("cpu", init_scale=4.0)
    return changed(
        wrap, lambda x: of.scale(x.sum()) * of.get_growth_interval(),
        lambda: of.set_growth_interval(7),
    )  # fmt: skip


@program
def interval_of_a_scaler_set_inside(wrap: Wrap) -> Any:
    of = ad.amp.GradScaler("cpu", init_scale=4.0)

    def f(x):
        of.set_growth_interval(of.get_growth_interval() + 1)
        return x * of.get_growth_interval()

    return times(wrap(f)), of.get_growth_interval()


@program
def traced_module_that_is_edited(wrap: Wrap) -> Any:
    of = ad.fx.symbolic_trace(ad.nn.Sequential(ad.nn.ReLU()))

    def negate():
        node = next(node for node in of.graph.nodes if node.op == "call_module")
        with of.graph.inserting_after(node):
            negated = of.graph.call_function(ad.neg, (node,))
        node.replace_all_uses_with(negated)
        negated.args = (node,)
        of.recompile()

    return changed(wrap, of, negate)


@program
def callback_added_to_a_future(wrap: Wrap) -> Any:
    future, called = Future(), list[int]()

    def f(x: Any) -> Any:
        future.add_done_callback(lambda done: called.append(1))
        return x * 2

    r = wrap(f)
    out = [r(ones(2)) for _ in range(3)]
    future.set_result(None)
    return out, called
