"""What training is made of besides: scales of gradients, data, initial weights, vectors of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.recorded import Program, refusal


def scaled(lib: Any, found: tuple[int, ...], given: dict[str, Any]) -> list[Any]:
    """The scale and the count of good steps, where these steps meet an infinity."""
    scaler = lib.amp.GradScaler("cpu", **given)
    p = lib.ones(2, requires_grad=True)
    optimizer = lib.optim.SGD([p], lr=0.1)
    seen = []
    for step in range(8):
        optimizer.zero_grad()
        scaler.scale((p * p).sum() * (float("inf") if step in found else 1.0)).backward()
        if step % 2:
            scaler.unscale_(optimizer)
        scaler.step(optimizer)
        scaler.update(5.0 if step == 6 else None)
        seen.append([scaler.get_scale(), scaler._get_growth_tracker(), p.detach().clone()])
    if not given.get("enabled", True):
        return [seen, scaler.state_dict()]
    held = scaler.state_dict()
    again = lib.amp.GradScaler("cpu", init_scale=3.0)
    again.load_state_dict(held)
    used = lib.amp.GradScaler("cpu", init_scale=3.0)
    used.scale(lib.ones(1))
    used.load_state_dict(held)
    after = [[s.get_scale(), s._get_growth_tracker(), s.get_growth_factor()] for s in (again, used)]
    return [seen, held, after, scaler.get_backoff_factor(), scaler.get_growth_interval()]


def scaler_refused(lib: Any) -> list[str]:
    make = lib.amp.GradScaler
    stepped, unscaled = make("cpu"), make("cpu")
    p = lib.ones(2, requires_grad=True)
    optimizer = lib.optim.SGD([p], lr=0.1)
    for scaler in (stepped, unscaled):
        scaler.scale(p.sum()).backward()
        scaler.unscale_(optimizer)
    stepped.step(optimizer)
    calls: list[Callable[[], Any]] = [
        lambda: make("cpu").load_state_dict({}),
        lambda: stepped.step(optimizer),
        lambda: stepped.unscale_(optimizer),
        lambda: unscaled.unscale_(optimizer),
        lambda: make("cpu", enabled=False).load_state_dict({}),
    ]
    return [refusal(call) for call in calls]


def sizes_of_splits(lib: Any) -> list[Any]:
    split = lib.utils.data.random_split
    sized = [
        (10, [0.75, 0.25]), (10, [1 / 3] * 3), (7, [0.5, 0.5]), (9, [0.1, 0.1, 0.8]),
        (3, [0.5, 0.5, 0.0]), (10, [4, 6]), (1, [1]), (5, [1.0]), (4, [0.25] * 4),
    ]  # fmt: skip
    found = [[len(part) for part in split(range(n), lengths)] for n, lengths in sized]
    covered = [
        sorted(i for part in split(range(n), lengths) for i in part) for n, lengths in sized[:4]
    ]
    wrong = [(10, [0.5, 0.6]), (10, [-0.5, 1.5]), (10, [3, 4]), (5, [1.5, -0.5])]
    return [found, covered, [refusal(lambda n=n, k=k: split(range(n), k)) for n, k in wrong]]  # type: ignore[misc]


class Squares:
    def __init__(self, count: int) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, at: int) -> int:
        if not 0 <= at < self.count:
            raise IndexError(at)
        return at * at


def data(lib: Any) -> list[Any]:
    made = lib.utils.data
    joined = made.ConcatDataset([Squares(3), Squares(2), Squares(4)])
    part = made.Subset(joined, [7, 0, 4])
    pairs = made.StackDataset(Squares(3), list(range(3)))
    named = made.StackDataset(a=Squares(3), b=list(range(3)))
    table = made.TensorDataset(lib.arange(6).reshape(3, 2), lib.tensor([5, 6, 7]))
    found: list[Any] = [
        [joined[i] for i in range(9)], joined[-1], joined[-9], len(joined), joined.cumulative_sizes,
        [part[i] for i in range(3)], len(part), [pairs[i] for i in range(3)], named[1], len(named),
        table[1], table[[0, 2]], len(table),
    ]  # fmt: skip
    order = made.SequentialSampler(Squares(5))
    for size, last in ((2, False), (2, True), (5, True), (3, False)):
        batches = made.BatchSampler(order, size, last)
        loader = made.DataLoader(Squares(7), size, drop_last=last)
        found += [list(batches), len(batches), list(loader), len(loader)]
    group = [
        made.DistributedSampler(Squares(n), 3, rank, shuffle=False, drop_last=last)
        for n in (7, 9, 2) for last in (False, True) for rank in range(3)
    ]  # fmt: skip
    found += [[list(sampler), len(sampler)] for sampler in group]
    weighted = made.WeightedRandomSampler([0.0, 1.0, 0.0], 4)
    return [*found, list(weighted), sorted(made.RandomSampler(Squares(6)))]


def data_refused(lib: Any) -> list[str]:
    made = lib.utils.data
    nine = Squares(9)
    calls: list[Callable[[], Any]] = [
        lambda: made.ConcatDataset([Squares(3)])[4],
        lambda: made.ConcatDataset([Squares(3)])[-4],
        lambda: made.BatchSampler(made.SequentialSampler(nine), 0, False),
        lambda: made.BatchSampler(made.SequentialSampler(nine), 2, 1),
        lambda: made.BatchSampler(made.SequentialSampler(nine), True, False),
        lambda: made.DistributedSampler(nine, 2, 2),
        lambda: made.DistributedSampler(nine, 2, -1),
        lambda: made.RandomSampler(nine, replacement=1),
        lambda: made.RandomSampler(nine, num_samples=0),
        lambda: made.WeightedRandomSampler([0.5], 0),
        lambda: made.WeightedRandomSampler([[0.5]], 1),
        lambda: made.WeightedRandomSampler([0.5], 1, replacement=1),
        lambda: made.DataLoader(nine, 2, shuffle=True, sampler=made.SequentialSampler(nine)),
        lambda: made.DataLoader(nine, 2, batch_sampler=[[0]]),
        lambda: made.DataLoader(nine, None, shuffle=True, drop_last=True),
        lambda: made.DataLoader(nine, 2, num_workers=-1),
        lambda: made.DataLoader(nine, 2, timeout=-1),
        lambda: made.DataLoader(nine, 2, prefetch_factor=2),
        lambda: made.DataLoader(nine, 2, persistent_workers=True),
        lambda: made.DataLoader(nine, 0),
        lambda: made.StackDataset(),
    ]
    return [refusal(call) for call in calls]


def collated(lib: Any) -> list[Any]:
    put = lib.utils.data.default_collate
    batches: list[Any] = [
        [1, 2, 3], [1.5, 2.5], [True, False], ["a", "b"], [(1, 2.0), (3, 4.0)], [[1, "x"], [2, "y"]],
        [{"a": 1, "b": [2, 3]}, {"a": 4, "b": [5, 6]}], [lib.tensor([1, 2]), lib.tensor([3, 4])],
        [lib.tensor(1.5), lib.tensor(2.5)],
    ]  # fmt: skip
    wrong: list[Any] = [[lib.ones(2), lib.ones(3)], [[1, 2], [3]], [object()]]
    found = [put(batch) for batch in batches]
    kinds = [str(x.dtype).rsplit(".", maxsplit=1)[-1] for x in found if hasattr(x, "dtype")]
    return [found, kinds, [refusal(lambda batch=batch: put(batch)) for batch in wrong]]  # type: ignore[misc]


def beginnings(lib: Any) -> list[Any]:
    """Weights that no draw decides, and the widths of draws."""
    init, wide = lib.nn.init, lib.empty(40, 50, dtype=lib.float64)
    kinds = ("linear", "conv2d", "sigmoid", "tanh", "relu", "selu", "leaky_relu")
    gains = [init.calculate_gain(kind) for kind in kinds]
    gains += [init.calculate_gain("leaky_relu", 0.3), init.calculate_gain("leaky_relu", 2)]
    filled = [
        init.constant_(lib.empty(2, 2), 0.3), init.ones_(lib.empty(2)), init.zeros_(lib.empty(2)),
        init.eye_(lib.empty(2, 3)), init.dirac_(lib.empty(4, 2, 3)), init.dirac_(lib.empty(4, 1, 3, 3), 2),
    ]  # fmt: skip
    draws: list[Callable[[], Any]] = [
        lambda: init.xavier_uniform_(wide, 2.0),
        lambda: init.kaiming_uniform_(wide, 0.5),
        lambda: init.kaiming_uniform_(wide, mode="fan_out", nonlinearity="relu"),
        lambda: init.uniform_(wide, -3.0, 1.0),
    ]
    # Of thousands, the furthest is within a hundredth of the end.
    ends = [round(draw().abs().max().item(), 1) for draw in draws]
    bounded = init.trunc_normal_(wide, 1.0, 5.0, -2.0, 3.0)
    q = init.orthogonal_(wide, 1.5)
    held = [
        round(bounded.min().item()),
        round(bounded.max().item()),
        (q @ q.T - 2.25 * lib.eye(40, dtype=lib.float64)).abs().max() < 1e-9,
    ]
    sparse = (init.sparse_(wide, 0.3) == 0).sum(0).tolist()
    return [gains, filled, ends, held, sparse]


def beginnings_refused(lib: Any) -> list[str]:
    init = lib.nn.init
    calls: list[Callable[[], Any]] = [
        lambda: init.calculate_gain("cube"),
        lambda: init.calculate_gain("leaky_relu", "x"),
        lambda: init.eye_(lib.empty(2)),
        lambda: init.dirac_(lib.empty(2, 2)),
        lambda: init.dirac_(lib.empty(3, 2, 2), 2),
        lambda: init.orthogonal_(lib.empty(2)),
        lambda: init.sparse_(lib.empty(2), 0.1),
        lambda: init.xavier_uniform_(lib.empty(2)),
        lambda: init.kaiming_normal_(lib.empty(2, 2), mode="both"),
    ]
    return [refusal(call) for call in calls]


def vectors(lib: Any) -> list[Any]:
    """Parameters as one vector and back, and norms of weights as parametrizations have them."""
    utils = lib.nn.utils
    layer = lib.nn.Linear(3, 2).double()
    with lib.no_grad():
        utils.vector_to_parameters(lib.arange(8, dtype=lib.float64).sin(), layer.parameters())
    flat = utils.parameters_to_vector(layer.parameters())
    x = lib.arange(6, dtype=lib.float64).cos().reshape(2, 3)
    normed = utils.parametrizations.weight_norm(layer)
    rows = [normed(x), *(p for p in normed.parameters())]
    whole = lib.nn.Linear(3, 2).double()
    with lib.no_grad():
        utils.vector_to_parameters(flat.detach(), whole.parameters())
    whole = utils.parametrizations.weight_norm(whole, dim=1)
    return [flat, rows, whole(x), *(p for p in whole.parameters())]


PROGRAMS: dict[str, Program] = {
    "scaler": lambda lib: scaled(lib, (), {"init_scale": 4.0, "growth_interval": 3}),
    "scaler that meets infinities": lambda lib: scaled(
        lib, (0, 3, 4), {"init_scale": 4.0, "growth_interval": 2, "growth_factor": 3.0, "backoff_factor": 0.25}
    ),
    "scaler by itself": lambda lib: scaled(lib, (2,), {}),
    "scaler off": lambda lib: scaled(lib, (), {"enabled": False}),
    "scaler refused": scaler_refused,
    "sizes of splits": sizes_of_splits,
    "data": data,
    "data refused": data_refused,
    "collated": collated,
    "beginnings": beginnings,
    "beginnings refused": beginnings_refused,
    "vectors": vectors,
}  # fmt: skip
