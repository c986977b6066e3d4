"""Collectives on real ranks, against the same values computed by NumPy."""

from __future__ import annotations

import sys
import warnings
from functools import reduce
from typing import Any

import numpy as np
import pytest

import adjoint as ad
import adjoint.distributed as dist
import adjoint.distributed._functional_collectives as funcol
import adjoint.distributed.nn as dist_nn
from adjoint.engine.core.errors import CaptureError
from tests.ranks.checks import run, same

DTYPES = [
    ad.bool, ad.uint8, ad.int8, ad.int16, ad.int32, ad.int64, ad.float16, ad.bfloat16, ad.float32,
    ad.float64, ad.complex64, ad.complex128, ad.uint16, ad.uint32, ad.uint64, ad.float8_e4m3fn,
    ad.float8_e5m2,
]  # fmt: skip
NOT_OF_NUMPY = (ad.bfloat16, ad.float8_e4m3fn, ad.float8_e5m2)


def values(rank: int, dtype: Any, shape: tuple[int, ...] = (3, 4)) -> Any:
    drawn = np.random.default_rng(rank).integers(0, 3, shape)
    return ad.tensor(drawn.tolist()).to(dtype)


COMBINE: dict[Any, Any] = {
    dist.ReduceOp.SUM: np.add,
    dist.ReduceOp.PRODUCT: np.multiply,
    dist.ReduceOp.MIN: np.minimum,
    dist.ReduceOp.MAX: np.maximum,
    dist.ReduceOp.BAND: np.bitwise_and,
    dist.ReduceOp.BOR: np.bitwise_or,
    dist.ReduceOp.BXOR: np.bitwise_xor,
}


def as_numpy(x: Any) -> Any:
    return x.float().numpy() if x.dtype in NOT_OF_NUMPY else x.numpy()


def check_reductions(rank: int, size: int) -> None:
    for dtype in DTYPES:
        every = [as_numpy(values(r, dtype)) for r in range(size)]
        for op, combine in COMBINE.items():
            x = values(rank, dtype)
            exact = not (dtype.is_floating_point or dtype.is_complex)
            bitwise = op in (dist.ReduceOp.BAND, dist.ReduceOp.BOR, dist.ReduceOp.BXOR)
            ordered = op in (dist.ReduceOp.MIN, dist.ReduceOp.MAX)
            if (bitwise and not exact) or (ordered and dtype.is_complex):
                with pytest.raises(RuntimeError):
                    dist.all_reduce(x, op)
                continue
            dist.all_reduce(x, op)
            same(as_numpy(x), reduce(combine, every))
            part = ad.zeros(12 // size, dtype=dtype)
            dist.reduce_scatter_tensor(part, values(rank, dtype).reshape(-1), op)
            whole = reduce(combine, every).reshape(size, -1)
            same(as_numpy(part), whole[rank])
        y = values(rank, dtype)
        dist.reduce(y, dst=size - 1)
        if rank == size - 1:
            same(as_numpy(y), reduce(np.add, every))
    x = ad.full((2,), float(rank))
    dist.all_reduce(x, dist.ReduceOp.AVG)
    same(x, [(size - 1) / 2] * 2)
    x = ad.tensor([float("nan") if rank == 1 else 1.0, 2.0])
    dist.all_reduce(x, dist.ReduceOp.MAX)
    assert np.isnan(x.tolist()[0])
    assert x.tolist()[1] == 2


def check_moving(rank: int, size: int) -> None:
    for dtype in DTYPES:
        every = [as_numpy(values(r, dtype)) for r in range(size)]
        x = values(rank, dtype)
        dist.broadcast(x, src=1)
        same(as_numpy(x), every[1])
        found = [ad.zeros(3, 4, dtype=dtype) for _ in range(size)]
        dist.all_gather(found, values(rank, dtype))
        for got, wanted in zip(found, every, strict=True):
            same(as_numpy(got), wanted)
        out = ad.zeros(4, 3 * size, dtype=dtype).T  # not contiguous
        dist.all_gather_into_tensor(out, values(rank, dtype))
        same(as_numpy(out), np.concatenate(every))
        part = ad.zeros(3, 4, dtype=dtype)
        dist.scatter(part, [values(r, dtype) for r in range(size)] if rank == 0 else None, src=0)
        same(as_numpy(part), every[rank])
        kept = [ad.zeros(3, 4, dtype=dtype) for _ in range(size)] if rank == 1 else None
        dist.gather(values(rank, dtype), kept, dst=1)
        for got, wanted in zip(kept or [], every, strict=False):
            same(as_numpy(got), wanted)
        rows = ad.arange(size).to(dtype) if dtype is not ad.bool else ad.ones(size).to(dtype)
        swapped = ad.zeros(size, dtype=dtype)
        dist.all_to_all_single(swapped, rows)
        same(as_numpy(swapped), as_numpy(rows[rank].expand(size)))
    gives = [(rank + r) % 3 for r in range(size)]
    takes = gives  # symmetric
    out = ad.zeros(sum(takes), 2)
    dist.all_to_all_single(out, ad.full((sum(gives), 2), float(rank)), takes, gives)
    same(out[:, 0], np.repeat(np.arange(size), takes))
    wrong = [1] * size
    mine = [2, *([1] * (size - 2)), 0] if rank == 0 else wrong
    with pytest.raises(dist.DistBackendError, match="expects"):
        dist.all_to_all_single(ad.zeros(size), ad.zeros(size), wrong, mine)


def check_messages(rank: int, size: int) -> None:
    peer = rank ^ 1
    for dtype in DTYPES:
        got = ad.zeros(3, 4, dtype=dtype)
        works = dist.batch_isend_irecv(
            [
                dist.P2POp(dist.irecv, got, peer),
                dist.P2POp(dist.isend, values(rank, dtype), peer),
            ]
        )
        for work in works:
            work.wait()
        same(as_numpy(got), as_numpy(values(peer, dtype)))
    if rank == 0:
        for _ in range(size - 1):
            got = ad.zeros(1)
            source = dist.recv(got, tag=3)
            assert got.tolist() == [source]
    else:
        dist.send(ad.full((1,), float(rank)), 0, tag=3)
    if rank == 0:
        dist.send_object_list(["a", {"b": 1}], 1)
        big = ad.ones(1 << 18)
        dist.send(big, 1)
    if rank == 1:
        objects: list[Any] = [None, None]
        assert dist.recv_object_list(objects, 0) == 0
        assert objects == ["a", {"b": 1}]
        big = ad.zeros(1 << 18)
        dist.recv(big, 0)
        assert big.sum().item() == 1 << 18


def check_objects(rank: int, size: int) -> None:
    every: list[Any] = [None] * size
    dist.all_gather_object(every, "x" * rank)
    assert every == ["x" * r for r in range(size)]
    held = [rank, {"deep": [rank]}]
    dist.broadcast_object_list(held, src=1)
    assert held == [1, {"deep": [1]}]
    out: list[Any] = [None]
    dist.scatter_object_list(out, list("abcd"[:size]) if rank == 0 else None, src=0)
    assert out == ["abcd"[rank]]
    kept: Any = [None] * size if rank == 0 else None
    dist.gather_object(rank, kept, dst=0)
    assert rank or kept == list(range(size))


def check_asynchronous(rank: int, size: int) -> None:
    tensors = [ad.full((1000 * (i + 1),), float(rank + i)) for i in range(8)]
    works = [dist.all_reduce(t, async_op=True) for t in tensors]
    for i, (tensor, work) in enumerate(zip(tensors, works, strict=True)):
        assert work is not None
        assert work.wait()
        assert work.is_completed()
        assert tensor[0].item() == sum(r + i for r in range(size))
    future = dist.all_reduce(ad.ones(2), async_op=True).get_future()  # type: ignore[union-attr]
    assert future.then(lambda f: f.value()[0].tolist()).wait() == [size, size]


def check_groups(rank: int, size: int) -> None:
    pair = dist.new_group([0, size - 1])
    if rank in (0, size - 1):
        x = ad.ones(1)
        dist.all_reduce(x, group=pair)
        assert x.item() == 2
        assert dist.get_rank(pair) == (0 if rank == 0 else 1)
        assert dist.get_global_rank(pair, 1) == size - 1
    else:
        assert pair is dist.GroupMember.NON_GROUP_MEMBER
        assert dist.get_rank(pair) == -1
    mine, _ = dist.new_subgroups(size // 2 or 1)
    x = ad.full((1,), float(rank))
    dist.all_reduce(x, group=mine)
    assert x.item() == sum(dist.get_process_group_ranks(mine))
    with pytest.raises(ValueError, match="different ranks"):
        dist.new_group([0, size])


def check_mismatches(rank: int, size: int) -> None:
    with pytest.raises(dist.DistBackendError, match=r"rank 1: all_reduce sum \(3,\)"):
        dist.all_reduce(ad.ones(3 if rank == 1 else 2))
    other = dist.broadcast if rank == 0 else dist.all_reduce
    with pytest.raises(dist.DistBackendError, match="rank 0: broadcast"):
        other(ad.ones(2))
    with pytest.raises(dist.DistBackendError, match="float64"):
        dist.all_reduce(ad.ones(2, dtype=ad.float64 if rank == 0 else ad.float32))
    x = ad.ones(2)  # and all go on
    dist.all_reduce(x)
    assert x.tolist() == [size, size]


def uneven(size: int) -> list[int]:
    return [1 + r % 2 for r in range(size)]


def derivatives_of(size: int) -> dict[str, tuple[Any, tuple[int, ...]]]:
    """Differentiable collectives, as functions of one tensor of a shape."""
    world = dist.group.WORLD
    ops = {name: getattr(dist.ReduceOp, name) for name in ("SUM", "AVG", "PRODUCT", "MAX", "MIN")}
    rows, parts = sum(uneven(size)), uneven(size)

    def exchange(x: Any) -> Any:  # symmetric: everybody gives and takes the same numbers of rows
        mine = [parts[dist.get_rank()] * n for n in parts]
        return funcol.all_to_all_single(x[: sum(mine)], mine, mine, world)

    return {
        **{f"all_reduce {n}": (lambda x, op=op: dist_nn.all_reduce(x, op), (3,)) for n, op in ops.items()},
        "broadcast": (lambda x: dist_nn.broadcast(x, 1), (3,)),
        "reduce": (lambda x: dist_nn.reduce(x, 1), (3,)),
        "all_gather": (lambda x: ad.stack(list(dist_nn.all_gather(x))), (2, 3)),
        "gather": (lambda x: ad.stack(list(dist_nn.gather(x, 1))), (2, 3)),
        "scatter": (lambda x: dist_nn.scatter(list(x), 1), (size, 3)),
        "reduce_scatter": (lambda x: dist_nn.reduce_scatter(x[0], list(x)), (size, 3)),
        "all_to_all": (lambda x: ad.stack(list(dist_nn.all_to_all([x], list(x)))), (size, 3)),
        "all_to_all_single": (lambda x: dist_nn.all_to_all_single(x, x), (2 * size, 2)),
        "uneven all_to_all_single": (exchange, (2 * rows, 2)),
        "functional all_reduce": (lambda x: funcol.all_reduce(x * x, "avg", world), (3,)),
        "functional all_gather": (lambda x: funcol.all_gather_tensor(x * x, 1, world), (2, 3)),
        "functional reduce_scatter": (
            lambda x: funcol.reduce_scatter_tensor(x * x, "sum", 1, world), (2, 2 * size)),
        "functional broadcast": (lambda x: funcol.broadcast(x * x, 1, world), (3,)),
        "permute": (
            lambda x: funcol.permute_tensor(x, [(r + 1) % size for r in range(size)], world), (3, 2)),
    }  # fmt: skip


def check_derivatives(rank: int, size: int) -> None:
    """Each rule against differences, of the sum over ranks and along one direction of all."""
    rng = np.random.default_rng(100 + rank)

    def draw(*shape: int) -> Any:
        return ad.tensor(rng.normal(size=shape).tolist(), dtype=ad.float64)

    step = 1e-5
    for name, (f, shape) in derivatives_of(size).items():
        x = draw(*shape).requires_grad_()
        out = f(x)
        y, t = draw(*out.shape), draw(*shape)
        (grad,) = ad.autograd.grad(out, x, y)
        with ad.no_grad():
            change = ((f(x + step * t) - f(x - step * t)) * y).sum() / (2 * step)
            sides = ad.stack([change, (t * grad).sum()])
            dist.all_reduce(sides)
        assert abs(sides[0].item() - sides[1].item()) < 1e-7, (name, sides.tolist())


def check_split_groups(rank: int, size: int) -> None:
    halves = [list(range(size // 2)), list(range(size // 2, size))]
    mine = dist.split_group(split_ranks=halves)
    members = halves[rank >= size // 2]
    x = ad.full((2,), float(rank))
    dist.all_reduce(x, group=mine)
    same(x, [float(sum(members))] * 2)
    assert dist.get_process_group_ranks(mine) == members
    pairs = dist.split_group(split_ranks=[[size - 1, 0]])  # the others are in none
    assert (pairs is None) == (rank not in (0, size - 1))
    if pairs is not None:
        dist.broadcast(x, group=pairs, group_src=1)
        same(x, [float(sum(halves[1]))] * 2)
    inner = dist.split_group(mine, [[0]])  # of a part, by ranks in the part
    assert (inner is None) == (rank not in (0, size // 2))
    with pytest.raises(ValueError, match="different ranks"):
        dist.split_group(split_ranks=[[0], [0]])


def check_compiled(rank: int, size: int) -> None:
    @ad.compile
    def step(x: Any) -> Any:
        y = x * 2
        dist.all_reduce(y)
        return y.sum() + dist_nn.all_reduce(x).mean()

    x = ad.arange(4.0) + rank
    wanted = np.sum([2 * (np.arange(4.0) + r) for r in range(size)], 0)
    mean = np.mean(wanted) / 2
    for _ in range(3):
        same(step(x), wanted.sum() + mean, 1e-6)


def check_compiled_works(rank: int, size: int) -> None:
    """Each call of a compiled function has works of its own, of its own tensors."""
    kept: list[Any] = []

    @ad.compile(fullgraph=True)
    def step(x: Any) -> Any:
        y = x * 2
        kept.append(dist.all_reduce(y, async_op=True))
        return y

    results = [step(ad.full((2,), float(k))) for k in range(3)]
    assert len({id(work) for work in kept}) == 3
    for k, (work, result) in enumerate(zip(kept, results, strict=True)):
        assert work.wait()
        assert work.result()[0] is result
        same(result, [2.0 * k * size] * 2)


def check_compiled_refusals(rank: int, size: int) -> None:
    """What a program cannot do again is refused; else only the recorded call would communicate."""
    every: list[Any] = [None] * size
    x = ad.ones(size)
    calls: list[Any] = [
        dist.barrier,
        lambda: dist.all_gather_object(every, rank),
        lambda: dist.broadcast_object_list(every, 0),
        lambda: dist.reduce(x, 0),
        lambda: dist.all_to_all_single(ad.empty(size), x),
        lambda: dist.new_group([0]),
    ]
    for call in calls:
        with pytest.raises(CaptureError, match="captured"):
            ad.compile(lambda y, call=call: (call(), y * 2)[1], fullgraph=True)(ad.ones(2))

    def agreed(y: Any) -> Any:
        numbers = [rank + 2.0]
        dist.broadcast_object_list(numbers, 0)
        return y * numbers[0]

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it runs as Python
        compiled = ad.compile(agreed, fullgraph=False)
        for _ in range(3):
            same(compiled(ad.ones(2)), [2.0, 2.0])


def check_again(rank: int, size: int) -> None:
    dist.destroy_process_group()
    assert not dist.is_initialized()
    dist.init_process_group("gloo", timeout=60)
    x = ad.ones(1)
    dist.all_reduce(x)
    assert x.item() == size


if __name__ == "__main__":
    run(sys.modules[__name__])
