"""DataLoader's worker processes: order, errors, deaths, leaks."""

from __future__ import annotations

import gc
import itertools
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import time
import warnings
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.utils.data import DataLoader, Dataset, IterableDataset, get_worker_info
from adjoint.utils.data.dataloader import (
    _MultiProcessingDataLoaderIter,
    _SingleProcessDataLoaderIter,
)


class Images(Dataset[Any]):
    def __init__(self, n: int = 48, fail: Any = None) -> None:
        self.n = n
        self.fail = fail

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, i: int) -> Any:
        if self.fail is not None and i == self.n // 2:
            self.fail()
        return ad.full((3, 64, 64), float(i)), i


class Noisy(Dataset[Any]):
    def __len__(self) -> int:
        return 24

    def __getitem__(self, i: int) -> Any:
        return ad.rand(2), random.random(), np.random.rand()


class Stream(IterableDataset[int]):
    def __iter__(self) -> Any:
        info = get_worker_info()
        first, step = (0, 1) if info is None else (info.id, info.num_workers)
        return iter(range(first, 11, step))


def raise_error() -> None:
    raise ZeroDivisionError("in the dataset")


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def leave() -> None:
    os._exit(7)


def loader(*args: Any, **kwargs: Any) -> DataLoader[Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # more workers than processors
        return DataLoader(*args, **kwargs)


def shared_memory() -> set[str]:
    return set(os.listdir("/dev/shm")) if os.path.isdir("/dev/shm") else set()


@pytest.fixture(autouse=True)
def leaves_nothing() -> Any:
    before = shared_memory()
    yield
    gc.collect()
    deadline = time.monotonic() + 60
    while multiprocessing.active_children() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert multiprocessing.active_children() == []
    assert {n for n in shared_memory() - before if "adjoint" in n} == set()


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.parametrize("workers", [0, 1, 2, 3])
def test_order_depends_on_the_seed_alone(workers: int) -> None:
    ad.manual_seed(5)
    orders = []
    for _ in range(2):
        order = []
        for images, labels in loader(Images(), 5, shuffle=True, num_workers=workers):
            assert (images[:, 0, 0, 0] == labels).all()
            order += labels.tolist()
        orders.append(order)
    ad.manual_seed(5)
    plain: DataLoader[Any] = DataLoader(Images(), 5, shuffle=True)
    wanted = [[i for _, labels in plain for i in labels.tolist()] for _ in range(2)]
    assert orders == wanted
    assert orders[0] != orders[1]


def test_random_transforms_do_not_depend_on_the_number_of_workers() -> None:
    results = []
    for workers in (1, 2, 3):
        ad.manual_seed(9)
        batches = list(loader(Noisy(), 4, num_workers=workers))
        results.append([[part.tolist() for part in batch] for batch in batches])
    assert results[0] == results[1] == results[2]
    assert results[0][0] != results[0][1]


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_other_start_methods(method: str) -> None:
    if method not in multiprocessing.get_all_start_methods():
        pytest.skip("not on this system")
    made = loader(Images(8), 4, num_workers=1, multiprocessing_context=method)
    assert [labels.tolist() for _, labels in made] == [[0, 1, 2, 3], [4, 5, 6, 7]]


def test_stream_shared_by_workers() -> None:
    made = loader(Stream(), 2, num_workers=2)
    assert sorted(i for batch in made for i in batch.tolist()) == list(range(11))


@pytest.mark.parametrize(
    ("fail", "kind", "text"),
    [
        (raise_error, ZeroDivisionError, "(?s)worker process.*Traceback.*in raise_error"),
        (die, RuntimeError, "killed by signal"),
        (leave, RuntimeError, "exit code 7"),
    ],
)
def test_failure_is_reported(fail: Any, kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=text):
        list(loader(Images(fail=fail), 4, num_workers=2))


def test_killed_while_idle_is_reported() -> None:
    batches = iter(loader(Images(200), 4, num_workers=2))
    next(batches)
    os.kill(multiprocessing.active_children()[0].pid, signal.SIGKILL)  # type: ignore[arg-type]
    with pytest.raises(RuntimeError, match="killed by signal"):
        list(batches)


def test_timeout() -> None:
    class Slow(Images):
        def __getitem__(self, i: int) -> Any:
            time.sleep(60)

    with pytest.raises(RuntimeError, match="timed out after 0.3"):
        list(loader(Slow(), 4, num_workers=1, timeout=0.3))


def test_unpicklable_batches_are_an_error() -> None:
    with pytest.raises(Exception, match="(?s)worker process.*pickle"):
        list(loader(Images(4), 2, num_workers=1, collate_fn=lambda batch: lambda: None))


def test_init_function_and_its_failure() -> None:
    def init(worker: int) -> None:
        info = get_worker_info()
        assert info is not None
        info.dataset.n = 100 + worker

    class Said(Images):
        def __getitem__(self, i: int) -> Any:
            return self.n

    made = loader(Said(4), 1, num_workers=2, worker_init_fn=init)
    assert [b.item() for b in made] == [100, 101, 100, 101]
    with pytest.raises(ZeroDivisionError, match="worker process 0"):
        list(loader(Images(), 4, num_workers=1, worker_init_fn=lambda _: raise_error()))


def test_leaving_early_ends_the_workers() -> None:
    for _ in loader(Images(), 4, num_workers=2):
        break
    gc.collect()
    assert multiprocessing.active_children() == []

    def loop() -> None:
        for _ in loader(Images(), 4, num_workers=2):
            raise KeyError("in the loop")

    with pytest.raises(KeyError):
        loop()
    gc.collect()
    assert multiprocessing.active_children() == []


def test_persistent_workers_stay_and_restart_epochs() -> None:
    made = loader(Images(), 4, num_workers=2, persistent_workers=True)
    pids = set()
    for epoch in range(4):
        seen = []
        for _, labels in made:
            seen += labels.tolist()
            pids |= {p.pid for p in multiprocessing.active_children()}
            if epoch == 1 and len(seen) == 8:
                break
        assert seen == list(range(len(seen)))
        assert len(seen) == (8 if epoch == 1 else 48)
    assert len(pids) == 2


def test_batches_stay_valid_while_they_are_held() -> None:
    held = list(loader(Images(), 4, num_workers=2))
    views = [images[1] for images, _ in held]
    for k, (images, labels) in enumerate(held):
        assert labels.tolist() == list(range(4 * k, 4 * k + 4))
        assert (images[:, 1, 2, 3] == labels).all()
        images += 1  # writable
    assert [v[0, 0, 0].item() for v in views] == [4.0 * k + 2 for k in range(12)]


def test_memory_and_descriptors_do_not_grow() -> None:
    def epoch() -> None:
        for _ in loader(Images(16), 4, num_workers=1):
            pass

    epoch()
    gc.collect()
    files = descriptors()
    for _ in range(50):
        epoch()
    gc.collect()
    assert descriptors() <= files
    with open("/proc/self/maps") as maps:
        assert not any("adjoint-batch" in line for line in maps)


@pytest.mark.parametrize("ending", ["pass", "raise KeyboardInterrupt", "os.kill(os.getpid(), 9)"])
def test_no_process_outlives_the_program(ending: str) -> None:
    program = f"""
import os, multiprocessing, adjoint as ad
from adjoint.utils.data import DataLoader, TensorDataset
it = iter(DataLoader(TensorDataset(ad.zeros(64, 3, 64, 64)), 4, num_workers=2))
next(it)
print(*[p.pid for p in multiprocessing.active_children()], flush=True)
{ending}
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=300, check=False
    )
    pids = [int(pid) for pid in done.stdout.split()]
    assert len(pids) == 2
    deadline = time.monotonic() + 60
    while any(map(_alive, pids)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not any(map(_alive, pids))


def _alive(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("batches", [0, 1, 5, 12])
def test_resumed_epoch_continues_exactly(workers: int, batches: int) -> None:
    ad.manual_seed(3)
    whole = loader(Images(), 4, shuffle=True, num_workers=workers)
    iterator = iter(whole)
    for _ in range(batches):
        next(iterator)
    ad.rand(3)
    state, rng = whole.position(), ad.get_rng_state()
    rest = [labels.tolist() for _, labels in iterator]
    after = [labels.tolist() for _, labels in whole]
    ad.manual_seed(77)
    again = loader(Images(), 4, shuffle=True, num_workers=workers)
    again.continue_from(state)
    ad.set_rng_state(rng)
    assert [labels.tolist() for _, labels in again] == rest
    assert [labels.tolist() for _, labels in again] == after


def test_libraries_do_not_take_it_for_torchdatas() -> None:
    assert not {"state_dict", "load_state_dict"} & set(dir(ad.data.DataLoader))


def test_resumed_epoch_of_noisy_data_and_streams() -> None:
    ad.manual_seed(3)
    whole = loader(Noisy(), 4, num_workers=2)
    iterator = iter(whole)
    next(iterator)
    state = whole.position()
    rest = [[p.tolist() for p in batch] for batch in iterator]
    again = loader(Noisy(), 4, num_workers=1)
    again.continue_from(state)
    assert [[p.tolist() for p in batch] for batch in again] == rest
    stream = loader(Stream(), 2, num_workers=2)
    batches = iter(stream)
    next(batches)
    next(batches)
    position = stream.position()
    left = [b.tolist() for b in batches]
    later = loader(Stream(), 2, num_workers=2)
    later.continue_from(position)
    assert [b.tolist() for b in later] == left


class OwnLoader:
    """A library's own loader, which is its own dataset (fastai's): what it gives are batches."""

    _dataset_kind, _auto_collation, _IterableDataset_len_called = 1, False, None
    drop_last = pin_memory = persistent_workers = False
    generator = worker_init_fn = multiprocessing_context = None
    in_order, prefetch_factor, timeout = True, 2, 0

    def __init__(self, num_workers: int) -> None:
        self.dataset, self.num_workers = self, num_workers
        self._index_sampler = itertools.count()

    def collate_fn(self, batch: Any) -> Any:
        return batch

    def __iter__(self) -> Any:
        info = get_worker_info()
        first, step = (0, 1) if info is None else (info.id, info.num_workers)
        return (ad.tensor([2.0 * i, 2.0 * i + 1]) for i in range(first, 4, step))


@pytest.mark.parametrize("workers", [0, 2])
def test_loaders_of_libraries_that_take_our_iterators(workers: int) -> None:
    kind = _MultiProcessingDataLoaderIter if workers else _SingleProcessDataLoaderIter
    batches = [batch.tolist() for batch in kind(OwnLoader(workers))]
    assert batches == [[0.0, 1.0], [2.0, 3.0], [4.0, 5.0], [6.0, 7.0]]


class Repeated:
    """Batches without end."""

    def __init__(self, sampler: Any) -> None:
        self.sampler = sampler

    def __iter__(self) -> Any:
        while True:
            yield from self.sampler


class Endless(DataLoader[Any]):
    """A loader that keeps one pass over all epochs (ultralytics')."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        object.__setattr__(self, "batch_sampler", Repeated(self.batch_sampler))
        self.kept = self._get_iterator()

    def __iter__(self) -> Any:
        return (next(self.kept) for _ in range(2))


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.filterwarnings("ignore:DataLoader will create")  # on one processor
def test_a_pass_that_a_library_keeps_over_epochs(workers: int) -> None:
    batches = Endless(list(range(6)), batch_size=3, num_workers=workers)
    for _ in range(3):
        assert [batch.tolist() for batch in batches] == [[0, 1, 2], [3, 4, 5]]


class Wrapped(DataLoader[Any]):
    """A loader that wraps the pass it inherits (torch_geometric's loaders of neighbours)."""

    def _get_iterator(self) -> Any:
        return (batch * 2 for batch in super()._get_iterator())


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.filterwarnings("ignore:DataLoader will create")  # on one processor
def test_a_pass_that_a_library_wraps(workers: int) -> None:
    batches = Wrapped(list(range(4)), batch_size=2, num_workers=workers)
    for _ in range(2):
        assert [batch.tolist() for batch in batches] == [[0, 2], [4, 6]]


class Kept(ad.Tensor):
    """A tensor whose class says what a stack of it is."""


class Given(Dataset[Any]):
    def __init__(self, *items: Any) -> None:
        self.items = items

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, i: int) -> Any:
        if self.items[i] is StopIteration:
            raise StopIteration
        return self.items[i]


@pytest.mark.parametrize("workers", [0, 1])
def test_batches_are_of_one_class_with_and_without_workers(workers: int) -> None:
    for x in (ad.ones(2).as_subclass(Kept), ad.eye(2).to_sparse(), ad.ones(2)):
        (batch,) = DataLoader(Given(x, x), batch_size=2, num_workers=workers)
        assert type(batch) is type(x)
        assert batch.to_dense().tolist() == [x.to_dense().tolist()] * 2


@pytest.mark.parametrize("workers", [0, 1])
def test_an_example_of_another_type_is_named(workers: int) -> None:
    for other, name in ((None, "NoneType"), (np.ones(1), "ndarray"), (1, "int")):
        with pytest.raises(TypeError, match=f"expected Tensor as element 1, .* got {name}. Let"):
            list(DataLoader(Given(ad.ones(1), other), batch_size=2, num_workers=workers))


@pytest.mark.parametrize("workers", [0, 1])
def test_an_iterator_that_ran_out_inside_a_dataset_ends_no_epoch(workers: int) -> None:
    """PyTorch's loader ends there without a word, and the rest of the dataset is never seen."""
    loader: DataLoader[Any] = DataLoader(
        Given(1, 2, StopIteration, 4), batch_size=2, num_workers=workers
    )
    batches = iter(loader)
    assert next(batches).tolist() == [1, 2]
    with pytest.raises(RuntimeError, match="raised StopIteration, at .2, 3."):
        next(batches)

    def collate(batch: Any) -> Any:
        raise StopIteration

    with pytest.raises(RuntimeError, match="raised StopIteration"):
        list(DataLoader(Given(1, 2), collate_fn=collate, num_workers=workers))
