"""Loaders and loops of libraries: streams, workers, buckets, samplers, states, datasets of datasets."""

import tempfile

import datasets
import numpy as np
import torch
from accelerate import Accelerator
from accelerate.data_loader import prepare_data_loader, skip_first_batches
from accelerate.utils import DataLoaderConfiguration, find_executable_batch_size, send_to_device
from common import fill, parts, picture
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    IterableDataset,
    RandomSampler,
    Sampler,
    SequentialSampler,
    TensorDataset,
    WeightedRandomSampler,
)
from torchdata.stateful_dataloader import StatefulDataLoader


class Numbers(IterableDataset):
    """A stream that is divided among workers."""

    def __iter__(self):
        worker = torch.utils.data.get_worker_info()
        step, start = (1, 0) if worker is None else (worker.num_workers, worker.id)
        return iter(torch.arange(start, 10, step).unbind())


class Own(IterableDataset):
    """Its own iterator."""

    def __iter__(self):
        self.left = iter(range(7))
        return self

    def __next__(self):
        return next(self.left)


def streams():
    """Streams with and without workers, by accelerate too."""
    found = []
    for source in (Numbers(), Own()):
        found.append([batch.tolist() for batch in DataLoader(source, batch_size=3)])
        found.append(
            [
                batch.tolist()
                for batch in prepare_data_loader(
                    DataLoader(source, batch_size=3), put_on_device=False
                )
            ]
        )
        found.append([int(item) for item in DataLoader(source, batch_size=None)])
    found.append(
        sorted(
            n
            for batch in DataLoader(Numbers(), batch_size=2, num_workers=2)
            for n in batch.tolist()
        )
    )
    return found


class Longest(Sampler):
    """Rows from the longest to the shortest."""

    def __init__(self, rows):
        self.rows = rows

    def __iter__(self):
        return iter(sorted(range(len(self.rows)), key=lambda i: -len(self.rows[i])))

    def __len__(self):
        return len(self.rows)


def samplers():
    """Samplers of a program's own, with collators."""
    rows = [torch.arange(n).float() for n in (3, 1, 4, 2, 5)]

    def padded(batch):
        return torch.nn.utils.rnn.pad_sequence(batch, batch_first=True)

    loader = DataLoader(
        rows, batch_sampler=BatchSampler(Longest(rows), 2, False), collate_fn=padded
    )
    found = [batch for batch in loader]
    generator = torch.Generator().manual_seed(0)
    drawn = list(WeightedRandomSampler([0.0, 0.0, 1.0], 4, generator=generator))
    found += [
        drawn,
        len(list(RandomSampler(rows, replacement=True, num_samples=7))),
        list(SequentialSampler(rows)),
    ]
    return found


def accelerated():
    """accelerate's loaders: even batches, skipped ones, states, sizes that are tried."""
    accelerator = Accelerator(
        cpu=True,
        dataloader_config=DataLoaderConfiguration(use_seedable_sampler=True, even_batches=True),
    )
    data = TensorDataset(torch.arange(10).float().unsqueeze(1))
    loader = accelerator.prepare(DataLoader(data, batch_size=3, shuffle=True))
    found = [
        sum(int(batch[0].sum()) for batch in loader),
        len(loader),
        loader.total_batch_size,
        loader.total_dataset_length,
    ]
    plain = accelerator.prepare(DataLoader(data, batch_size=4))
    found.append([batch[0].flatten().tolist() for batch in skip_first_batches(plain, 1)])
    moved = send_to_device({"a": torch.ones(2), "b": [torch.zeros(1), "text"]}, torch.device("cpu"))
    found += [moved["a"], len(moved["b"])]

    @find_executable_batch_size(starting_batch_size=16)
    def attempt(size):
        if size > 4:
            raise torch.cuda.OutOfMemoryError("CUDA out of memory.")
        return size

    return [*found, attempt()]


def hugging():
    """datasets' tables as tensors: formats, maps, batches, streams, shards."""
    table = datasets.Dataset.from_dict(
        {"x": [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], "y": [0, 1, 0], "text": ["a", "bb", "ccc"]}
    )
    torchy = table.with_format("torch", columns=["x", "y"])
    found = [torchy[0]["x"], torchy[:2]["y"], torchy["x"][:]]
    doubled = table.map(lambda row: {"z": row["y"] * 2}, load_from_cache_file=False).with_format(
        "torch"
    )
    found.append(
        [batch["z"] for batch in DataLoader(doubled.select_columns(["x", "z"]), batch_size=2)]
    )
    stream = (
        table.to_iterable_dataset(num_shards=1)
        .map(lambda row: {"n": len(row["text"])})
        .with_format("torch")
    )
    found.append(
        [batch["n"].tolist() for batch in DataLoader(stream.select_columns(["n"]), batch_size=2)]
    )
    split = table.train_test_split(test_size=1, shuffle=False)
    found += [
        len(split["train"]),
        table.filter(lambda row: row["y"] == 0, load_from_cache_file=False).num_rows,
        table.sort("y")["y"][:],
    ]
    with tempfile.TemporaryDirectory() as folder:
        table.save_to_disk(folder)
        again = datasets.load_from_disk(folder).with_format("torch")
        found.append(again[1]["x"])
        del again
    many = datasets.concatenate_datasets([table, table]).with_format("numpy")
    return [
        *found,
        float(np.asarray(many["x"][:]).sum()),
        datasets.interleave_datasets([table, table]).num_rows,
    ]


def stateful():
    """torchdata's loader, stopped and continued."""
    data = TensorDataset(torch.arange(12).float())
    loader = StatefulDataLoader(data, batch_size=2)
    batches = iter(loader)
    found = [next(batches)[0].tolist() for _ in range(2)]
    state = loader.state_dict()
    again = StatefulDataLoader(data, batch_size=2)
    again.load_state_dict(state)
    return [found, [batch[0].tolist() for batch in again]]


parts(streams, samplers, accelerated, hugging, stateful)
