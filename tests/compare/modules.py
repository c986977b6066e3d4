"""PyTorch's own module database, run through both frameworks: the same weights, the same inputs.

    python -m tests.compare.modules                     every module both have
    python -m tests.compare.modules 'Batch*' LayerNorm  by name or pattern

For each module and sample: outputs, gradients of inputs and parameters, buffers afterwards, the
printed form, and five captured steps against five eager ones.
"""

from __future__ import annotations

import copy
import fnmatch
import inspect
import sys
import traceback
import warnings
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch.testing._internal.common_modules import module_db
from torch.utils._pytree import tree_leaves, tree_map

import adjoint as ad
from adjoint.engine.core.tree import flatten
from adjoint.graph import capture
from tests.compare.bridge import Unsupported, ours, theirs

# Random in training: only shapes are compared there, and values in evaluation.
RANDOM = frozenset(
    """
    AlphaDropout Dropout Dropout1d Dropout2d Dropout3d FeatureAlphaDropout FractionalMaxPool2d
    FractionalMaxPool3d RReLU
    """.split()
)
TOLERANCE = {"float64": 1e-7, "float32": 2e-4}


def entries(patterns: list[str] | None = None) -> Iterator[tuple[str, Any]]:
    """(name, database entry) of each module that both have."""
    for info in module_db:
        name = info.module_cls.__name__
        here = info.module_cls.__module__.startswith("torch.nn.modules")
        both = here and hasattr(ad.nn, name) and info.module_cls is getattr(torch.nn, name, None)
        if both and (not patterns or any(fnmatch.fnmatchcase(name, p) for p in patterns)):
            yield name, info


def samples(info: Any, training: bool, dtype: torch.dtype, limit: int | None) -> list[Any]:
    """The database's constructor and forward arguments."""
    torch.manual_seed(0)
    made = info.module_inputs_func(
        info, device="cpu", dtype=dtype, requires_grad=True, training=training
    )
    return list(made)[:limit]


def translate(x: Any) -> Any:
    """Constructor and forward arguments as ours; functions and layers by their names."""
    if isinstance(x, torch.nn.TransformerEncoderLayer):
        return encoder_layer(x)
    if isinstance(x, torch.nn.Module):
        raise Unsupported(f"a module as an argument: {type(x).__name__}")
    if inspect.isroutine(x):
        for space, here in ((torch.nn.functional, ad.nn.functional), (torch, ad)):
            if getattr(space, getattr(x, "__name__", ""), None) is x:
                return getattr(here, x.__name__)
        raise Unsupported(f"a function as an argument: {x}")
    if isinstance(x, (list, tuple)) and not hasattr(x, "_fields"):
        return type(x)(translate(v) for v in x)
    if isinstance(x, dict):
        return {k: translate(v) for k, v in x.items()}
    return ours(x)


def encoder_layer(x: Any) -> Any:
    """Ours with the options of PyTorch's; the module it becomes part of gets the weights."""
    return ad.nn.TransformerEncoderLayer(
        x.self_attn.embed_dim,
        x.self_attn.num_heads,
        x.linear1.out_features,
        x.dropout.p,
        translate(x.activation),
        x.norm1.eps,
        x.self_attn.batch_first,
        x.norm_first,
        x.linear1.bias is not None,
        dtype=ours(x.linear1.weight.dtype),
    )


def tensors_of(x: Any) -> list[Any]:
    """The tensors in a result of either framework, in order."""
    if isinstance(x, torch.nn.utils.rnn.PackedSequence):
        return [x.data]
    if isinstance(x, torch.Tensor) or not isinstance(x, (tuple, list, dict)):
        leaves = tree_leaves(x) if not isinstance(x, ad.Tensor) else [x]
    else:
        leaves = flatten(x)[0] if _has_ours(x) else tree_leaves(x)
    return [t for t in leaves if isinstance(t, (torch.Tensor, ad.Tensor))]


def _has_ours(x: Any) -> bool:
    if isinstance(x, dict):
        return any(map(_has_ours, x.values()))
    if isinstance(x, (tuple, list)):
        return any(map(_has_ours, x))
    return isinstance(x, ad.Tensor)


def close(got: Any, want: Any, what: str) -> None:
    """Raise unless two lists of tensors agree."""
    assert len(got) == len(want), f"{what}: {len(got)} tensors, PyTorch has {len(want)}"
    for i, (g, w) in enumerate(zip(got, want, strict=True)):
        tolerance = TOLERANCE.get(str(w.dtype)[6:], 0)
        torch.testing.assert_close(
            theirs(g),
            w.detach().contiguous(),
            rtol=tolerance,
            atol=tolerance,
            equal_nan=True,
            msg=lambda m, i=i: f"{what}[{i}]: {m}",
        )


def seeded(tensors: list[Any]) -> list[np.ndarray[Any, Any]]:
    """A cotangent per output, the same for both frameworks."""
    rng = np.random.default_rng(0)
    return [rng.uniform(-1, 1, tuple(t.shape)) for t in tensors]


class Pair:
    """One sample: PyTorch's module and ours with the same state, and their arguments."""

    def __init__(self, info: Any, name: str, sample: Any, training: bool) -> None:
        made, given = sample.constructor_input, sample.forward_input
        torch.manual_seed(1)
        self.theirs = info.module_cls(*made.args, **made.kwargs)
        self.theirs.train(training)
        kind = getattr(ad.nn, name)
        self.ours = kind(*translate(list(made.args)), **translate(dict(made.kwargs)))
        self.ours.train(training)
        dtype = next((t.dtype for t in self.theirs.state_dict().values()
                      if t.dtype.is_floating_point), None)  # fmt: skip
        floating = [t for t in tensors_of((given.args, given.kwargs)) if t.is_floating_point()]
        if floating and dtype is not None and dtype is not floating[0].dtype:
            self.theirs.to(floating[0].dtype)
            self.ours.to(ours(floating[0].dtype))
        self.args = (list(given.args), dict(given.kwargs))
        self.our_args = translate((list(given.args), dict(given.kwargs)))
        self.lazy = "Lazy" in name
        if not self.lazy:
            self.share_state()

    def share_state(self) -> None:
        """Give our module PyTorch's parameters and buffers."""
        state = {k: ours(v.detach().clone()) for k, v in self.theirs.state_dict().items()}
        self.ours.load_state_dict(state)

    def forward(self) -> tuple[list[Any], list[Any]]:
        """The outputs of both."""
        if self.lazy:  # first calls make the parameters
            with torch.no_grad():
                copy.deepcopy(self.theirs)(*self.args[0], **self.args[1])
                self.theirs(*self.args[0], **self.args[1])
            with ad.no_grad():
                self.ours(*self.our_args[0], **self.our_args[1])
            self.share_state()
        want = self.theirs(*self.args[0], **self.args[1])
        got = self.ours(*self.our_args[0], **self.our_args[1])
        return tensors_of(got), tensors_of(want)

    def backward(self, got: list[Any], want: list[Any]) -> None:
        """Backward from the same cotangents; gradients are compared."""
        wants = [w for w in want if w.requires_grad and w.is_floating_point()]
        gots = [g for g, w in zip(got, want, strict=True) if w.requires_grad]
        if not wants:
            return
        seeds = seeded(wants)
        cotangents = [torch.tensor(s, dtype=w.dtype) for s, w in zip(seeds, wants, strict=True)]
        torch.autograd.backward(wants, cotangents)
        ad.autograd.backward(gots, [ours(c) for c in cotangents])
        pairs = zip(tensors_of(self.our_args), tensors_of(self.args), strict=True)
        both = [(g, w, "input") for g, w in pairs]
        names = dict(self.theirs.named_parameters())
        mine = dict(self.ours.named_parameters())
        assert list(names) == list(mine), f"parameters: {list(mine)} != {list(names)}"
        both += [(mine[n], names[n], n) for n in names]
        for g, w, what in both:
            if not w.is_leaf:
                continue
            if w.grad is None:
                assert g.grad is None, f"{what}: a gradient"
            else:
                assert g.grad is not None, f"{what}: no gradient"
                close([g.grad], [w.grad], f"gradient of {what}")


def check(info: Any, name: str, sample: Any, training: bool) -> None:
    """One sample, both ways."""
    pair = Pair(info, name, sample, training)
    got, want = pair.forward()
    if name in RANDOM and training:
        assert [tuple(t.shape) for t in got] == [tuple(t.shape) for t in want]
        return
    close(got, want, "output")
    pair.backward(got, want)
    states = pair.ours.state_dict(), pair.theirs.state_dict()
    assert list(states[0]) == list(states[1]), f"state: {list(states[0])} != {list(states[1])}"
    close(list(states[0].values()), list(states[1].values()), "state")
    assert repr(pair.ours) == repr(pair.theirs), f"{pair.ours!r} != {pair.theirs!r}"


def check_capture(info: Any, name: str, sample: Any) -> None:
    """Five captured training steps equal five eager ones, state included."""
    made, given = sample.constructor_input, sample.forward_input

    def run(wrap: Any) -> list[np.ndarray[Any, Any]]:
        ad.manual_seed(3)
        module = getattr(ad.nn, name)(*translate(list(made.args)), **translate(dict(made.kwargs)))
        floats = [t for t in tensors_of((given.args, given.kwargs)) if t.is_floating_point()]
        if floats:
            module.to(ours(floats[0].dtype))
        args, kwargs = tree_map(_constant, translate((list(given.args), dict(given.kwargs))))

        @wrap
        def step(*args: Any, **kwargs: Any) -> Any:
            outs = tensors_of(module(*args, **kwargs))
            loss = sum((o * o).sum() for o in outs if o.dtype.is_floating_point)
            if getattr(loss, "requires_grad", False):
                loss.backward()
                with ad.no_grad():
                    for p in module.parameters():
                        if p.grad is not None:
                            p -= 0.01 * p.grad
                            p.grad = None
            return [o.detach() for o in outs]

        found = []
        for _ in range(5):
            found += [np.array(o.numpy()) for o in step(*args, **kwargs)]
        return found + [np.array(v.detach().numpy()) for v in module.state_dict().values()]

    eager, captured = run(lambda f: f), run(capture)
    # Captured, a recurrent layer sums the gradient of a weight over all steps in one product;
    # eagerly, norms of many rows and CTC are one program, whose sums run in an order of its own, and so
    # are convolutions, of which five steps of a transposed one grow to hundreds.
    reordered = ("RNN", "LSTM", "GRU", "LayerNorm", "RMSNorm", "CTCLoss")
    tolerance = 1e-12 if name in reordered else 1e-10 if name.startswith("Conv") else 0.0
    for e, c in zip(eager, captured, strict=True):
        np.testing.assert_allclose(c, e, rtol=tolerance, atol=tolerance)


def _constant(x: Any) -> Any:
    return x.detach() if isinstance(x, ad.Tensor) else x


def failures(
    name: str, info: Any, limit: int | None = None, dtype: torch.dtype = torch.float64
) -> tuple[int, list[str]]:
    """(samples that agree, what went wrong with the others)."""
    good, bad = 0, []
    modes = (True, False) if info.train_and_eval_differ else (True,)
    for training in modes:
        for sample in samples(info, training, dtype, limit):
            made = sample.constructor_input
            mode = "train" if training else "eval"
            where = f"{name} {mode} {made.args} {made.kwargs} {sample.desc}"
            try:
                check(info, name, sample, training)
                if training and "Lazy" not in name:
                    check_capture(info, name, sample)
                good += 1
            except Unsupported:
                continue
            except Exception as error:
                last = traceback.extract_tb(error.__traceback__)[-1]
                bad.append(
                    f"{where}: {type(error).__name__}: {str(error)[:300]} "
                    f"({last.filename.rsplit('/', 1)[-1]}:{last.lineno})"
                )
    return good, bad


def main() -> int:
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    counts: Counter[str] = Counter()
    for name, info in entries(sys.argv[1:]):
        good, bad = failures(name, info)
        counts["good"] += good
        counts["bad"] += len(bad)
        if bad:
            print(f"FAIL {len(bad)} of {good + len(bad)}: {bad[0]}")
        elif not good:
            print(f"(no sample of {name} could be translated)")
    print(dict(counts))
    return 1 if counts["bad"] else 0


if __name__ == "__main__":
    sys.exit(main())
