"""Which blocks of queries and keys meet in attention."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from math import ceil, prod
from typing import Any

from numpy import ndindex

from adjoint.engine.core.dtype import bool_, int32
from adjoint.engine.ops.create.ranges import arange
from adjoint.engine.tensor.tensor import Tensor


def ordered(dense: Tensor) -> tuple[Tensor, Tensor]:
    """How many blocks of each row hold, and the columns with those first."""
    marks = dense.to(int32)
    order = marks.argsort(dim=-1, descending=True, stable=True)
    return marks.sum(-1).to(int32), order.to(int32)


def _dense(counts: Tensor, indices: Tensor, columns: int) -> Tensor:
    """The opposite: which blocks hold."""
    valid = arange(0, indices.shape[-1], device=counts.device) < counts.unsqueeze(-1)
    table = indices.new_zeros((*indices.shape[:-1], columns), dtype=int32)
    return table.scatter_add(-1, indices.long(), valid.to(int32)) > 0


class BlockMask:
    """A mask function, and for each block of queries the blocks of keys in which it ever holds.

    In `kv_indices` are blocks where the function must be asked, in `full_kv_indices` those where it
    always holds; of each row the first `kv_num_blocks` count. `create_block_mask` makes one.
    """

    def __init__(
        self,
        seq_lengths: tuple[int, int],
        kv_num_blocks: Tensor,
        kv_indices: Tensor,
        full_kv_num_blocks: Tensor | None,
        full_kv_indices: Tensor | None,
        BLOCK_SIZE: tuple[int, int],
        mask_mod: Callable[..., Tensor],
    ) -> None:
        self.seq_lengths = seq_lengths
        self.kv_num_blocks, self.kv_indices = kv_num_blocks, kv_indices
        self.full_kv_num_blocks, self.full_kv_indices = full_kv_num_blocks, full_kv_indices
        self.BLOCK_SIZE = BLOCK_SIZE
        self.mask_mod = mask_mod

    @classmethod
    def from_dense_blocks(
        cls,
        partial: Tensor,
        whole: Tensor,
        block_size: tuple[int, int],
        mask_mod: Callable[..., Tensor],
        lengths: tuple[int, int],
    ) -> BlockMask:
        """From which blocks hold in part, and which wholly."""
        return cls(lengths, *ordered(partial), *ordered(whole), block_size, mask_mod)

    @classmethod
    def from_kv_blocks(
        cls,
        kv_num_blocks: Tensor,
        kv_indices: Tensor,
        full_kv_num_blocks: Tensor | None = None,
        full_kv_indices: Tensor | None = None,
        BLOCK_SIZE: int | tuple[int, int] = 128,
        mask_mod: Callable[..., Tensor] | None = None,
        seq_lengths: tuple[int, int] | None = None,
        compute_q_blocks: bool = True,
    ) -> BlockMask:
        """From the blocks of keys of each block of queries."""
        if (full_kv_num_blocks is None) != (full_kv_indices is None):
            raise AssertionError("full_kv_num_blocks and full_kv_indices go together")
        size = (BLOCK_SIZE, BLOCK_SIZE) if isinstance(BLOCK_SIZE, int) else BLOCK_SIZE
        if seq_lengths is None:
            seq_lengths = (kv_indices.shape[-2] * size[0], kv_indices.shape[-1] * size[1])
        return cls(
            seq_lengths, kv_num_blocks, kv_indices, full_kv_num_blocks, full_kv_indices, size,
            mask_mod or everywhere,
        )  # fmt: skip

    def dense_blocks(self) -> tuple[Tensor, Tensor]:
        """Which blocks hold in part, and which wholly."""
        columns = self.kv_indices.shape[-1]
        partial = _dense(self.kv_num_blocks, self.kv_indices, columns)
        if self.full_kv_num_blocks is None or self.full_kv_indices is None:
            return partial, partial.new_zeros(partial.shape, dtype=bool_)
        return partial, _dense(self.full_kv_num_blocks, self.full_kv_indices, columns)

    def to_dense(self) -> Tensor:
        """Which blocks hold anywhere, as 0 and 1."""
        partial, whole = self.dense_blocks()
        return (partial | whole).to(int32)

    def _transposed(self, place: int) -> tuple[Tensor, Tensor]:
        return ordered(self.dense_blocks()[place].transpose(-2, -1))

    @property
    def q_num_blocks(self) -> Tensor:
        """How many blocks of queries meet each block of keys, in part."""
        return self._transposed(0)[0]

    @property
    def q_indices(self) -> Tensor:
        """Which those are."""
        return self._transposed(0)[1]

    @property
    def full_q_num_blocks(self) -> Tensor | None:
        """How many blocks of queries meet each block of keys, wholly; None if not listed apart."""
        return None if self.full_kv_num_blocks is None else self._transposed(1)[0]

    @property
    def full_q_indices(self) -> Tensor | None:
        """Which those are."""
        return None if self.full_kv_num_blocks is None else self._transposed(1)[1]

    def as_tuple(self, flatten: bool = True) -> tuple[Any, ...]:
        """All of it, in PyTorch's order."""
        lengths = self.seq_lengths if flatten else (self.seq_lengths,)
        sizes = self.BLOCK_SIZE if flatten else (self.BLOCK_SIZE,)
        return (
            *lengths, self.kv_num_blocks, self.kv_indices, self.full_kv_num_blocks,
            self.full_kv_indices, self.q_num_blocks, self.q_indices, self.full_q_num_blocks,
            self.full_q_indices, *sizes, self.mask_mod,
        )  # fmt: skip

    @property
    def shape(self) -> tuple[int, ...]:
        """Batch, heads, and the lengths of queries and keys."""
        return (*map(int, self.kv_indices.shape[:-2]), *self.seq_lengths)

    def numel(self) -> int:
        """The number of elements of the mask."""
        batch, heads, queries, keys = self.shape
        return batch * heads * queries * keys

    def sparsity(self) -> float:
        """Which share of the elements lies in blocks that are left out, in percent."""
        rows, columns = self.BLOCK_SIZE
        return 100.0 * (1 - float(self.to_dense().sum()) * rows * columns / self.numel())

    def to(self, device: Any) -> BlockMask:
        """The same on a device."""
        tensors = (
            self.kv_num_blocks, self.kv_indices, self.full_kv_num_blocks, self.full_kv_indices,
        )  # fmt: skip
        moved = [None if x is None else x.to(device) for x in tensors]
        return BlockMask(self.seq_lengths, *moved, self.BLOCK_SIZE, self.mask_mod)  # type: ignore[arg-type,call-arg]

    def __getitem__(self, index: Any) -> BlockMask:
        """Some batches and heads, or some blocks of queries, keeping all dimensions."""
        parts = index if isinstance(index, tuple) else (index,)
        parts = tuple(slice(p, p + 1) if isinstance(p, int) and p != -1 else p for p in parts)
        parts = tuple(slice(-1, None) if isinstance(p, int) else p for p in parts)
        tensors = (
            self.kv_num_blocks, self.kv_indices, self.full_kv_num_blocks, self.full_kv_indices,
        )  # fmt: skip
        parts_of = [None if x is None else x[parts[:3]] for x in tensors]
        chosen = BlockMask(self.seq_lengths, *parts_of, self.BLOCK_SIZE, refuse_places)  # type: ignore[arg-type,call-arg]
        rows = chosen.kv_num_blocks.shape[2]
        if rows != self.kv_num_blocks.shape[2]:
            chosen.seq_lengths = rows * self.BLOCK_SIZE[0], self.seq_lengths[1]
        return chosen

    def to_string(self, grid_size: int | tuple[int, int] = (20, 20), limit: int = 4) -> str:
        """A picture of the blocks: full where all of them hold, grey where some do.

        Args:
            grid_size: the most rows and columns, all blocks being shown for -1.
            limit: how many batches and heads are shown.

        Example:
            >>> from adjoint.nn.attention.flex_attention import create_block_mask
            >>> mask = create_block_mask(lambda b, h, q, kv: q >= kv, 1, 1, 256, 256)
            >>> print(mask.to_string().replace(" ", "."))
            (0,.0)
            ██..
            ████
            <BLANKLINE>
        """
        dense = self.to_dense()
        batches, (rows, columns) = dense.shape[:-2], dense.shape[-2:]
        most = (rows, columns) if grid_size == -1 else grid_size
        down, across = (most, most) if isinstance(most, int) else most
        cell = max(1, ceil(rows / down)), max(1, ceil(columns / across))
        shown = islice(ndindex(*batches), limit)
        pictures = [f"{place}\n{_picture(dense[place].tolist(), cell)}" for place in shown]
        if prod(batches) > limit:
            pictures.append(
                "...\nTo print out more, set BlockMask.to_string(limit=N)\nYou can also index "
                "(BlockMask[batch, head]) to choose a specific batch or head"
            )
        return "\n".join(pictures)

    def __str__(self) -> str:
        about = f"BlockMask(shape={self.shape}, sparsity={self.sparsity():.2f}%, \n"
        return about + self.to_string().strip() + "\n)"

    def __repr__(self) -> str:
        def shown(value: Any) -> str:
            return str(value.shape if isinstance(value, Tensor) else value)

        names = "kv_num_blocks kv_indices full_kv_num_blocks full_kv_indices q_num_blocks q_indices"
        listed = [*names.split(), "full_q_num_blocks", "full_q_indices", "BLOCK_SIZE", "shape"]
        lines = [f"{name}={shown(getattr(self, name))}" for name in listed]
        lines.append(f"sparsity={self.sparsity():.2f}%")
        lines.append(f"mask_mod={getattr(self.mask_mod, '__name__', self.mask_mod)}")
        return "BlockMask(\n    " + ",\n    ".join(lines) + "\n)"


def _picture(blocks: list[list[int]], cell: tuple[int, int]) -> str:
    """Lines of two characters for each cell of blocks."""
    lines = []
    for top in range(0, len(blocks), cell[0]):
        line = ""
        for left in range(0, len(blocks[0]), cell[1]):
            part = [x for row in blocks[top : top + cell[0]] for x in row[left : left + cell[1]]]
            line += "██" if all(part) else "░░" if any(part) else "  "
        lines.append(f"{line}\n")
    return "".join(lines)


def everywhere(b: Tensor, h: Tensor, q: Tensor, kv: Tensor) -> Tensor:
    """Everything meets."""
    return b.new_ones((), dtype=bool_)


def refuse_places(b: Tensor, h: Tensor, q: Tensor, kv: Tensor) -> Tensor:
    """The function of a part of a block mask: which places the part has, only its maker knows."""
    raise RuntimeError(
        "BlockMask: a part of a block mask needs a mask function of its own places. Set its "
        "mask_mod, offsetting the places."
    )
