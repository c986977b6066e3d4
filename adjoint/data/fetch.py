"""Reading one batch from a dataset."""

from __future__ import annotations

from typing import Any

from adjoint.data.dataset import is_stream


class Fetcher:
    """Reads batches from a dataset and collates them."""

    def __init__(
        self,
        dataset: Any,
        auto_collation: bool,
        collate_fn: Any,
        drop_last: bool,
        stream: bool | None = None,
    ) -> None:
        self.dataset = dataset
        self.auto_collation = auto_collation
        self.collate_fn = collate_fn
        self.drop_last = drop_last
        self.is_stream = is_stream(dataset) if stream is None else stream
        self.dataset_iter = iter(dataset) if self.is_stream else None
        self.ended = False

    def fetch(self, indices: Any) -> Any:
        """The batch at `indices`; of a stream, the next batch of that many items."""
        items = None if self.dataset_iter is None else self._next_items(indices)
        try:
            return self.collate_fn(self._items_at(indices) if items is None else items)
        except StopIteration as error:  # would end the epoch early, without a word
            raise RuntimeError(
                "DataLoader: the dataset's __getitem__ or the collate_fn raised StopIteration, at "
                f"{indices}. Only the end of an IterableDataset ends an epoch; an iterator that a "
                "__getitem__ reads from may have run out."
            ) from error

    def _items_at(self, indices: Any) -> Any:
        if not self.auto_collation:
            return self.dataset[indices]
        many = getattr(self.dataset, "__getitems__", None)
        return many(indices) if callable(many) else [self.dataset[i] for i in indices]

    def _next_items(self, indices: Any) -> Any:
        if self.ended:
            raise StopIteration
        if not self.auto_collation:
            return next(self.dataset_iter)  # type: ignore[arg-type]
        items = []
        for _ in indices:
            try:  # `islice` asks for an iterator anew: a stream that is its own would start over
                items.append(next(self.dataset_iter))  # type: ignore[arg-type]
            except StopIteration:
                self.ended = True
                break
        if not items or (self.drop_last and self.ended):
            raise StopIteration
        return items
