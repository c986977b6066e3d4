"""Nodes and views of a GPU's tensors that native code makes are those that Python makes.

TRITON_INTERPRET=1 python -m tests.nodes_on_a_gpu
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.engine.autodiff.tape import tape
from adjoint.engine.core.operations.record import HOOKS
from adjoint.nn import functional as F

TIMES = 5  # after some calls a fragment is found by native code


@contextlib.contextmanager
def by_python() -> Iterator[list[str]]:
    """A block in which Python makes all nodes and views; the records that were met there."""
    native = HOOKS.meet_on_device, HOOKS.note_there, HOOKS.show_there
    met: list[str] = []

    def meet(
        name: str, programs: Any, operands: Any, params: Any, rest: Any, record: Any = None
    ) -> Any:
        out = native[0](name, programs, operands, params, rest)
        if out is not None and record is not None:
            met.append(name)
            tape.attach(record, operands, params, out)
        return out

    HOOKS.meet_on_device, HOOKS.note_there, HOOKS.show_there = meet, None, None
    try:
        yield met
    finally:
        HOOKS.meet_on_device, HOOKS.note_there, HOOKS.show_there = native


class Special(ad.Tensor):
    """Some user's tensors."""


def results() -> tuple[list[Any], Any]:
    """Tensors of all kinds, and a leaf that all follow from."""
    ad.manual_seed(3)
    rng = np.random.default_rng(1)

    def on(*shape: int) -> Any:
        return ad.from_numpy(rng.standard_normal(shape).astype(np.float32)).to("cuda")

    x = on(4, 6).requires_grad_()
    y, row, mean, var = on(4, 6), on(6), on(3), on(3).abs() + 1
    images, filters = on(2, 3, 6, 6), on(3, 3, 3, 3).requires_grad_()
    base = x * 2
    part = base[1]
    made = [part, part.unsqueeze(0), base.t(), base + 1, base.sum(1), base[:, 1:3], base[None]]
    base.mul_(3)
    made += [part * 2, base.t(), part[1:], base.detach()[0], *ad.max(base, 1), base.view(3, 8)]
    made += [base.exp(), base / row, base @ base.t(), ad.cat([base, y]), 1 - base, base + y]
    made += [
        base.half(),
        base.bfloat16() * 2,
        base.double(),
        base.long(),
        base > 0,
        base.sort(1)[0],
    ]
    made += [*base.chunk(2, 1), *base.topk(2), base.permute(1, 0), base.expand(2, 4, 6), base + x]
    made += [F.layer_norm(base, (6,)), F.gelu(base), F.softmax(base, 1), F.dropout(base, 0.5)]
    made += [F.linear(base, y, row[:4]), F.cross_entropy(base, ad.arange(4, device="cuda"))]
    made += [base.to(ad.complex64).real, ad.where(y > 0, base, 0.0), base[y > 9], base.relu()]
    scaled = images * base.mean()
    made += [F.conv2d(scaled, filters), F.conv2d(scaled, filters, row[:3], padding=1)]
    made += [F.conv2d(images, filters), *F.max_pool2d(scaled, 2, return_indices=True)]
    made += [F.batch_norm(scaled, mean, var, training=True), F.silu(scaled), F.pad(scaled, (1, 2))]
    made += [F.batch_norm(scaled, mean, var, row[:3], row[3:]), scaled.flatten(1), scaled.sum(())]
    with ad.autocast("cuda", dtype=ad.bfloat16):
        made += [F.linear(base, y), F.conv2d(scaled, filters), F.silu(F.linear(x, y))]
    with ad.no_grad():
        made += [base[0], part.view(2, 3), base * 2]
    made += [base.as_subclass(Special) * 2, x.detach() * 2, x.as_subclass(Special)[1:]]
    return made, x


def told(t: Any) -> list[Any]:
    """All that the tape has of a tensor."""
    node = t.grad_fn
    about = [
        type(t), t.dtype, t.shape, t.stride(), t.requires_grad, t._is_view(), t.output_nr,
        [(record.name, params) for record, params in t._chain],
    ]  # fmt: skip
    if t._base is not None:
        about += [t._base[0].shape, type(t._base[1])]
    if node is None:
        return about
    about += [type(node), node.outputs, node.extra, [(type(n), k) for n, k in node.next_functions]]
    if isinstance(node, tape.RecordNode):
        saved = [
            (x.shape, x.dtype, x._node is None, x.requires_grad) if isinstance(x, ad.Tensor) else x
            for x in node.saved or ()
        ]
        about += [node.specs, node.out_specs, node.versions, node.params, node.plan.saves, saved]
    return about


def seen() -> list[Any]:
    """What is told of every result, and the gradient of their sum."""
    for _ in range(TIMES):
        made, leaf = results()
    about = [told(t) for t in made]
    floats = [t for t in made if t.requires_grad]
    sum((t.float().sum() for t in floats), ad.zeros((), device="cuda")).backward()
    return [*about, leaf.grad.cpu().numpy().tobytes()]


def check_nodes() -> None:
    """What native code makes is what Python makes."""
    assert HOOKS.note_there is not None
    got = seen()
    with by_python() as met:
        want = seen()
    for mine, theirs in zip(got, want, strict=True):
        assert mine == theirs
    names = {"mul", "batch_norm", "relu", "layer_norm", "cast", "max_pool"}
    assert names <= {*met}, names - {*met}  # several results too are those of native code


def check_python_is_asked() -> None:
    """Where native code does not know a result's dtype, Python puts it on the tape."""
    x = ad.ones(3, 4, device="cuda", requires_grad=True)
    with ad.inference_mode():
        inferred = ad.ones(3, 4, device="cuda")
    for _ in range(TIMES):
        with pytest.raises(RuntimeError, match="[Ii]nference tensors cannot be saved"):
            x * inferred
        assert (x + inferred).grad_fn is not None


def check_raised() -> None:
    """An interrupt in the Python code that native code calls comes through."""
    x, row = ad.ones(3, 1, device="cuda").requires_grad_(), ad.ones(3, device="cuda")

    class Interrupt(BaseException):
        pass

    def raise_in_specs(frame: Any, event: str, _: Any) -> None:
        if event == "call" and frame.f_code is tape.specs_of.__code__:
            raise Interrupt

    for _ in range(TIMES):
        x * row
    for _ in range(3):
        sys.setprofile(raise_in_specs)
        try:
            with pytest.raises(Interrupt):
                x * row
        finally:
            sys.setprofile(None)


def check_held() -> None:
    """The collector may run where anything is made, and have a tensor's base let go of."""
    before = gc.get_threshold()
    for threshold in range(1, 13):  # for it to run at each of the places
        view = (ad.ones(4, device="cuda", requires_grad=True) * 2)[1:]

        def let_go(*_: Any, view: Any = view) -> None:
            view._base, view._chain, view._node = None, (), None

        gc.collect()
        gc.callbacks.append(let_go)
        gc.set_threshold(threshold)
        try:
            shown = view[1:]
        finally:
            gc.set_threshold(*before)
            gc.callbacks.remove(let_go)
        assert shown._base is not None
        assert shown._base[0]._storage is shown._storage
        assert shown.tolist() == [2.0, 2.0]


CHECKS = {
    check.__name__: check
    for check in (check_nodes, check_python_is_asked, check_raised, check_held)
}


def main(names: list[str]) -> None:
    gpu = importlib.import_module("tests.cupy_stand_in").connect()
    importlib.import_module("tests.convolutions_stand_in").connect(gpu)
    for name in names or CHECKS:
        CHECKS[name]()
        print(f"{name}: holds")
    print("all cases hold")


if __name__ == "__main__":
    main(sys.argv[1:])
