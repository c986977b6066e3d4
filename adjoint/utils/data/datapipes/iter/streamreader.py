"""A pipe of what files hold."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from adjoint.utils.data.datapipes.datapipe import IterDataPipe, functional_datapipe

__all__ = ["StreamReaderIterDataPipe"]


@functional_datapipe("read_from_stream")
class StreamReaderIterDataPipe(IterDataPipe):
    """Pieces of what files hold, each with the file's name."""

    def __init__(self, datapipe: Any, chunk: int | None = None) -> None:
        self.datapipe, self.chunk = datapipe, chunk

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        for name, stream in self.datapipe:
            with stream:
                while piece := stream.read(-1 if self.chunk is None else self.chunk):
                    yield name, piece
