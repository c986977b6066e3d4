"""Attention by rows: what each query asks is independent of other queries.

Note [attention]
    The weights are quadratic in the length of the sequence, so they are not kept for backward: the
    rule keeps queries, keys, values, the result and the logsumexp of every row of scores, and makes
    the weights again as exp(scores - logsumexp). Nor are factors of dropout kept: they are drawn
    again from the same place of the generator's stream. On a GPU that place is a tensor of two
    numbers, so that one kernel, which computes the words it needs, serves all draws.

    In a recording, a long sequence is a loop over blocks of queries, forward and backward, so that
    the memory of a program grows with the length and not with its square. A block's factors of
    dropout are the same numbers as in the whole: rows are drawn one after another, all batches of a
    row together, each from the beginning of one of the stream's blocks: what is left of the last
    one of a row is not used.

    Where queries see no later keys, and there is nothing else to look up, a sequence is a few
    parts in a recording for the CPU, each perhaps in blocks: its queries meet only the keys up to
    their last, which is five eighths of the work (of long sequences there are twice as many parts,
    and nine sixteenths of it). The weights of other keys are zeros, and zero
    times NaN or an infinity is NaN wherever attention is computed on the CPU: what parts do not
    see is added to their results as sums of its products with zero.

    Sequences of any length may lie one after another, each query with the range of keys that it
    sees: two numbers a query, where a mask would be quadratic in the length of all of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from adjoint.engine.core.dtype import bool_, float32
from adjoint.engine.core.operations.record import HOOKS
from adjoint.engine.core.spec import broadcast_shapes, may_narrow, pinned
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.core.state.host import HostScalar
from adjoint.engine.ops.products.matmul import product
from adjoint.engine.ops.random.placed import words_at
from adjoint.engine.ops.random.random import RANDOM, blocks, word_bits
from adjoint.engine.ops.shape.join import cat

if TYPE_CHECKING:
    from adjoint.engine.tensor.tensor import Tensor

NAME = "scaled_dot_product_attention"
ROWS = 128  # queries in a block
PARTS, PART = 4, 24  # of causal sequences, and the least queries of one
LONG = 1 << 22  # scores, of all batches, from which a recording goes by blocks
Rows = dict[str, Any]  # tensors whose last dimension but one goes along the queries
Found = tuple[list[Any], list[Any]]  # results by rows, and those that add up over them
Compute = Callable[[Rows, Any], Found]  # of some rows, from where draws begin
Tails = list[Any]  # what zero weights add to the sums of each key that a part does not see
Unseen = Callable[[Rows, Found], tuple[Found, Tails]]  # of zeros of later keys, a part's results


@dataclass(frozen=True, slots=True)
class How:
    """The parameters of the operation, which also say what its further operands are."""

    scale: float
    causal: bool
    safe: bool  # a row that may attend to nothing gets zeros, where softmax would give nan
    masked: bool  # the first of the further operands is a mask
    dropout: float
    drawn: bool  # the last is a tensor of dropout's factors, not the place of a draw
    placed: bool = False  # the last is a tensor: seed and offset of their draw
    ranged: bool = (
        False  # the further operands are the first key of each query, and one past the last
    )

    def split(self, extras: Sequence[Any]) -> tuple[Any, Any, Any]:
        """Mask, factors of dropout, and seed and offset of their draw, those there are."""
        rest = [] if self.ranged else list(extras)
        mask = rest.pop(0) if self.masked else None
        if self.drawn:
            return mask, rest[0], None
        if self.placed:
            return mask, None, rest[0]
        return mask, None, (rest[0], rest[1]) if rest else None


class Problem:
    """One call: its operands in the dtype it is computed in."""

    def __init__(self, query: Tensor, key: Tensor, value: Tensor, extras: Any, how: How) -> None:
        self.how = how
        self.mask, keep, self.draw = how.split(extras)
        self.key, self.value = widened(key), widened(value)
        self.length, self.keys = query.shape[-2], key.shape[-2]
        self.is_part = False  # of a problem's queries, with the keys that they see
        self.batch = batch_of(query, key)
        self.rows: Rows = {"query": widened(query)}
        if how.causal or how.placed:
            self.rows["place"] = query.new_arange(self.length).unsqueeze(-1)
        if how.ranged:
            self.rows["low"], self.rows["high"] = extras
        if keep is not None:
            self.rows["keep"] = widened(keep)
        self.mask_has_rows = self.mask is not None and self.mask.shape[-2] != 1
        if self.mask_has_rows:
            self.rows["mask"] = self.mask

    def scores(self, rows: Rows) -> Tensor:
        """Those of some rows: (..., rows, keys)."""
        scores = product(rows["query"] * self.how.scale, self.key.transpose(-2, -1))
        if self.how.causal:
            scores = scores.masked_fill(self.future(rows), -math.inf)
        if self.how.ranged:
            low, high = rows["low"], rows["high"]
            here = low.new_arange(self.keys)
            scores = scores.masked_fill((here < low) | (here >= high), -math.inf)
        mask = rows.get("mask", self.mask)
        if mask is None:
            return scores
        return scores.masked_fill(~mask, -math.inf) if mask.dtype is bool_ else scores + mask

    def future(self, rows: Rows) -> Tensor:
        """Keys that come after the query: of all rows a triangle, which takes no memory.

        Of a part the number of its first row would be in the text of a kernel, another one for
        each length.
        """
        place = rows["place"]
        if rows is self.rows and not self.is_part:
            return place.new_ones((self.length, self.keys), dtype=bool_).triu(1)
        return place.new_arange(self.keys) > place

    def keep(self, rows: Rows, begin: Any) -> Any:
        """The factors that dropout applies to the weights of some rows."""
        if "keep" in rows or not self.how.dropout:
            return rows.get("keep")
        like = rows["query"]
        if self.how.dropout == 1:
            return like.new_zeros(())
        stays = 1.0 - self.how.dropout
        words = row_words(self.keys)
        shape = (like.shape[-2], *self.batch, words)
        if self.how.placed:
            kept = self.within(self.kept(rows["place"], shape, stays), words)
            return kept.movedim(0, -2).to(like.dtype) / stays
        mask = RANDOM(
            self.draw[0], begin,
            law="bernoulli", args=(stays,), shape=shape, dtype=like.dtype, device=like.device,
        )  # fmt: skip
        return self.within(mask, words).movedim(0, -2) / stays

    def within(self, drawn: Tensor, words: int) -> Tensor:
        """What was drawn for keys, of so many words of each row."""
        return drawn if words == self.keys else drawn[..., : self.keys]

    def kept(self, place: Tensor, shape: tuple[int, ...], stays: float) -> Tensor:
        """Which weights of some rows stay, by the words of a draw whose place is a tensor."""
        every = math.prod(shape[1:])
        inside = place.new_arange(every).reshape((1, *shape[1:]))
        first = (place * every).reshape((-1, *[1] * (len(shape) - 1)))
        return words_at(self.draw, first + inside) < math.ceil(stays * 2.0**32)

    def forward(self, rows: Rows, begin: Any) -> Found:
        """The result and the logsumexp of some rows."""
        scores, safe = self.scores(rows), self.how.safe
        if not self.keys:
            return [product(scores, self.value), scores.sum(-1, keepdim=True) - math.inf], []
        top = scores.amax(-1, keepdim=True)
        if safe:
            top = top.masked_fill(top == -math.inf, 0)
        e = (scores - top).exp()
        total = e.sum(-1, keepdim=True)
        keep = self.keep(rows, begin)
        out = product(e if keep is None else e * keep, self.value)
        return [out / (total.masked_fill(total == 0, 1) if safe else total), total.log() + top], []

    def unseen_forward(self, later: Rows, results: Found) -> tuple[Found, Tails]:
        """A part's results, to which zero weights of the keys after it add zeros or NaN."""
        (out, lse), none = results
        return ([out + later["value"], lse], none), []

    def unseen_backward(self, needed: Sequence[bool]) -> Unseen:
        """The same of cotangents: a NaN of a row is in its lse and its shift too."""

        def add(later: Rows, results: Found) -> tuple[Found, Tails]:
            (by_row, sums), tails, rows = results, [], self.rows
            if needed[0]:
                zeros = later["key"]
                every = broadcast_shapes(NAME, zeros.shape, by_row[0].shape)
                by_row = [by_row[0] + zeros.expand(every).sum_to_size(by_row[0].shape)]
            if needed[2]:
                zeros = zeros_of(rows["g"]) + zeros_of(rows["lse"])
                tails.append(zeros.sum_to_size((*self.value.shape[:-2], 1, zeros.shape[-1])))
            if needed[1]:
                zeros = zeros_of(rows["shift"])
                tails.append(zeros.sum_to_size((*self.key.shape[:-2], 1, 1)))
            return (by_row, sums), tails

        return add

    def backward(self, needed: Sequence[bool]) -> Callable[[Rows, Any], Found]:
        """Cotangents: of query (and mask) by rows, of key and value (and mask) as sums."""

        def pull(rows: Rows, begin: Any) -> Found:
            by_row: list[Any] = []
            sums: list[Any] = []
            base = rows["lse"]
            if self.how.safe:
                base = base.masked_fill(base == -math.inf, 0)
            weights = (self.scores(rows) - base).exp()
            keep, g = self.keep(rows, begin), rows["g"]
            if needed[2]:
                seen = weights if keep is None else weights * keep
                grad = product(seen.transpose(-2, -1), g)
                sums.append(grad.sum_to_size(self.value.shape))
            if not (needed[0] or needed[1] or any(needed[3:])):
                return by_row, sums
            total = product(g, self.value.transpose(-2, -1)).sum_to_size(weights.shape)
            if keep is not None:
                total = total * keep
            moved = weights * (total - rows["shift"])  # the cotangent of the scores
            # Scaled here, in registers: both products then write their results once.
            query, scaled = rows["query"], moved * self.how.scale
            if needed[0]:
                by_row.append(product(scaled, self.key).sum_to_size(query.shape))
            if needed[1]:
                grad = product(scaled.transpose(-2, -1), query)
                sums.append(grad.sum_to_size(self.key.shape))
            if any(needed[3:]):
                mask = rows.get("mask", self.mask)
                (by_row if self.mask_has_rows else sums).append(moved.sum_to_size(mask.shape))
            return by_row, sums

        return pull

    # -- all rows, at once or by blocks ----------------------------------------------------------

    def run(
        self,
        compute_of: Callable[[Problem], Compute],
        unseen_of: Callable[[Problem], Unseen],
        like: Sequence[Tensor] = (),
    ) -> Found:
        """Compute for all rows what a problem says; `like` are tensors that the sums resemble."""
        begin = None if self.draw is None or self.how.placed else self.draw[1]
        blocked = self.in_blocks(begin)
        if self.in_parts():
            return self.by_parts(compute_of, unseen_of, like, blocked)
        compute = compute_of(self)
        return self.by_blocks(compute, like, begin) if blocked else compute(self.rows, begin)

    def by_blocks(self, compute: Compute, like: Sequence[Tensor], begin: Any) -> Found:
        """A loop over blocks of queries."""
        count, rest = divmod(self.length, ROWS)
        full = self.length - rest
        taken = draw_blocks(ROWS, self.batch, self.keys)

        def step(sums: list[Any], rows: Rows) -> tuple[list[Any], list[Any]]:
            results, more = compute(rows, begin)
            return [a + b for a, b in zip(sums, more, strict=True)], results

        zeros = [x.new_zeros(x.shape, dtype=self.key.dtype) for x in like]
        split = {name: _split(x, count) for name, x in self.rows.items()}
        sums, results = HOOKS.scan(
            step, zeros, split, growing=[] if begin is None else [(begin, taken)]
        )
        results = [_joined(x) for x in results]
        if rest:
            last = {name: x[..., full:, :] for name, x in self.rows.items()}
            ends, more = compute(last, None if begin is None else begin + count * taken)
            results = [cat([a, b], -2) for a, b in zip(results, ends, strict=True)]
            sums = [a + b for a, b in zip(sums, more, strict=True)]
        return results, sums

    def part(self, first: int, stop: int) -> Problem:
        """The same of some queries, and the keys that they see."""
        part = copy(self)
        part.is_part, part.length, part.keys = True, stop - first, stop
        part.key, part.value = self.key[..., :stop, :], self.value[..., :stop, :]
        part.rows = {name: x[..., first:stop, :] for name, x in self.rows.items()}
        return part

    def by_parts(
        self,
        compute_of: Callable[[Problem], Compute],
        unseen_of: Callable[[Problem], Unseen],
        like: Sequence[Tensor],
        blocked: bool,
    ) -> Found:
        """Part by part, the last first: it has sums for every key, to which others are added."""
        # Parts of less than two blocks are not in blocks, and would keep all of their weights.
        count = 2 * PARTS if self.length >= 2 * PARTS * 2 * ROWS else PARTS
        size = -(-self.length // count)
        parts: list[list[Any]] = []
        sums: list[Any] = []
        later: Rows = {}
        for number in reversed(range(count)):  # none of them is empty from `PARTS * PART` on
            first = number * size
            stop = self.length if number == count - 1 else first + size
            part = self.part(first, stop)
            compute = compute_of(part)
            if blocked and part.length >= 2 * ROWS:
                rows, more = part.by_blocks(compute, [x[..., :stop, :] for x in like], None)
            else:
                rows, more = compute(part.rows, None)
            if stop < self.length:
                (rows, more), tails = unseen_of(part)(later, (rows, more))
                more = [
                    cat([a[..., :stop, :] + b, a[..., stop:, :] + tail], -2)
                    for a, b, tail in zip(sums, more, tails, strict=True)
                ]
            parts.insert(0, rows)
            sums = more
            for name, x in (("key", self.key), ("value", self.value)):
                zeros = zeros_of(x[..., first:stop, :])
                later[name] = later[name] + zeros if name in later else zeros
        return [cat(list(blocks), -2) for blocks in zip(*parts, strict=True)], sums

    def in_parts(self) -> bool:
        """Whether to go by parts: in recordings of known lengths, without masks."""
        return (
            CONTEXT.capture is not None
            and self.how.causal
            and self.mask is None
            and self.draw is None
            and "keep" not in self.rows
            and self.key.device.type == "cpu"
            and not _is_open(self.length)
            and self.length == self.keys
            and self.length >= PARTS * PART
        )

    def in_blocks(self, begin: Any) -> bool:
        """Whether to loop: in recordings of long lengths, which hold for these alone."""
        sizes = (*self.batch, self.length, self.keys)
        is_long = (
            CONTEXT.capture is not None
            and (not self.mask_has_rows or self.mask.shape[-2] == self.length)
            and all(map(may_narrow, sizes))
            and self.length >= 2 * ROWS
            and math.prod(self.batch) * self.length * self.keys >= LONG
            and (begin is None or isinstance(begin, HostScalar))
        )
        if is_long:
            self.batch = tuple(map(pinned, self.batch))
            self.length, self.keys = pinned(self.length), pinned(self.keys)
        return is_long


def _is_open(length: Any) -> bool:
    """Whether parts are not chosen by a length: it is free, or the check of a recording's free one.

    Parts are as right at every length, and would be another graph for each.
    """
    leave_open = getattr(length, "leave_open", None)
    return length in CONTEXT.open_sizes if leave_open is None else bool(leave_open())


def _split(x: Tensor, count: int) -> Tensor:
    """Blocks of rows, (count, ..., ROWS, n)."""
    return x[..., : count * ROWS, :].unflatten(-2, (count, ROWS)).movedim(-3, 0)


def _joined(x: Tensor) -> Tensor:
    return x.movedim(0, -3).flatten(-3, -2)


def zeros_of(x: Tensor) -> Tensor:
    """Zero times all rows, as one row of sums: zeros, or NaN where a row is not finite."""
    return (x * 0.0).sum(-2, keepdim=True)


def widened(x: Tensor) -> Tensor:
    """In float32 where it is narrower: one rounding, at the end."""
    return x.float() if x.dtype.is_half else x


def row_words(keys: Any) -> Any:
    """The words of a draw that a row of weights takes: whole blocks."""
    return -(-keys // 4) * 4


def draw_blocks(rows: Any, batch: Sequence[Any], keys: Any) -> Any:
    """The blocks of a stream that the weights of some rows take."""
    return blocks(rows * math.prod(batch) * row_words(keys), word_bits("bernoulli", float32))


def batch_of(query: Tensor, key: Tensor) -> tuple[int, ...]:
    """The batch dimensions of the weights."""
    return tuple(broadcast_shapes(NAME, query.shape[:-2], key.shape[:-2]))
