"""PyTorch's operation database with one operand changed: both refuse, or both answer alike.

    python -m tests.compare.operands                      every operation
    python -m tests.compare.operands 'index_*' linear     by name or pattern

Each tensor of some samples is replaced by one of another rank, size or dtype. What PyTorch refuses
and we accept is listed first: there a wrong operand goes unnoticed. Differing answers and what
only we refuse follow. Each operation runs in a process of its own, since PyTorch may crash.
"""

from __future__ import annotations

import fnmatch
import os
import signal
import sys
import warnings
from collections.abc import Iterator
from itertools import islice
from typing import Any

import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._pytree import tree_flatten, tree_unflatten

from tests.compare.bridge import Unsupported, ours
from tests.compare.names import NONDETERMINISTIC
from tests.compare.opinfo import compare, resolve
from tests.compare.refusals import changes as other_sizes

SAMPLES = 5
SECONDS = 10  # for a call of both


def changes(t: torch.Tensor) -> Iterator[tuple[str, torch.Tensor]]:
    """(what was changed, the tensor changed)."""
    if t.is_floating_point():
        yield from other_sizes(t)
        if t.ndim >= 2:
            yield "transposed", t.transpose(-1, -2).contiguous()
        if t.ndim:
            yield "first of 1", t.new_ones((1, *t.shape[1:]))
        for dtype in (torch.float64, torch.int64, torch.bool):
            yield str(dtype)[6:], t.to(dtype)
        return
    yield "rank + 1", t.unsqueeze(0)
    yield "no dimensions", t.new_zeros(())
    if t.ndim and 0 not in t.shape:
        yield "one sample", t[0]
        yield "last + 1", torch.cat([t, t[..., :1]], -1)
        yield "first + 1", torch.cat([t, t[:1]])
    for dtype in (torch.float32, torch.int32, torch.bool):
        yield str(dtype)[6:], t.to(dtype)


def attempt(fn: Any, args: Any, kwargs: Any) -> tuple[Any, Exception | None]:
    try:
        return fn(*args, **kwargs), None
    except TimeoutError:
        raise
    except Exception as error:
        return None, error


def judged(name: str, theirs: tuple[Any, Any], mine: tuple[Any, Any]) -> tuple[str, str] | None:
    """(kind, reason) of a disagreement."""
    (want, refused), (got, complaint) = theirs, mine
    if refused is not None:
        return None if complaint is not None else ("ACCEPTED", str(refused))
    if complaint is not None:
        return "REFUSED", f"{type(complaint).__name__} {complaint}"
    try:
        if name not in NONDETERMINISTIC:
            compare(got, want, "value")
    except Unsupported:
        return None
    except Exception as error:
        return "DIFFERS", str(error)
    return None


def disagreements(op: Any) -> Iterator[str]:
    fn = resolve(op.name)
    if fn is None or torch.float32 not in op.supported_dtypes("cpu"):
        return
    samples = list(islice(op.sample_inputs("cpu", torch.float32, requires_grad=False), 40))
    seen = set()
    for sample in samples[:: max(1, len(samples) // SAMPLES)][:SAMPLES]:
        leaves, structure = tree_flatten(((sample.input, *sample.args), dict(sample.kwargs)))
        for place, leaf in enumerate(leaves):
            if not isinstance(leaf, torch.Tensor) or leaf.layout is not torch.strided:
                continue
            for what, changed in changes(leaf):
                many = [*leaves[:place], changed, *leaves[place + 1 :]]
                copies = [x.clone() if isinstance(x, torch.Tensor) else x for x in many]
                args, kwargs = tree_unflatten(copies, structure)
                try:
                    mine = ours(args), ours(kwargs)
                except (Unsupported, ValueError):
                    continue
                signal.alarm(SECONDS)
                verdict = judged(op.name, attempt(op.op, args, kwargs), attempt(fn, *mine))
                signal.alarm(0)
                if verdict and (*verdict, place, what) not in seen:
                    seen.add((*verdict, place, what))
                    sizes = [tuple(x.shape) if isinstance(x, torch.Tensor) else x for x in leaves]
                    reason = " ".join(verdict[1].split())[:160]
                    yield f"{verdict[0]} {op.name} operand {place} {what} of {sizes}: {reason}"


def _late(*_: Any) -> None:
    raise TimeoutError


def _apart(op: Any) -> int:
    """Run an operation in a child; its status."""
    sys.stdout.flush()
    child = os.fork()
    if child:
        return os.waitpid(child, 0)[1]
    torch.set_num_threads(1)
    signal.signal(signal.SIGALRM, _late)
    try:
        for line in sorted(disagreements(op)):
            print(line)
    except TimeoutError:
        print(f"LATE {op.name}")
    finally:
        sys.stdout.flush()
        os._exit(0)


def main(patterns: list[str]) -> None:
    warnings.simplefilter("ignore")
    for op in op_db:
        if any(fnmatch.fnmatch(op.name, pattern) for pattern in patterns or ["*"]):
            status = _apart(op)
            if status:
                print(f"CRASH {op.name} ({status})")


if __name__ == "__main__":
    main(sys.argv[1:])
