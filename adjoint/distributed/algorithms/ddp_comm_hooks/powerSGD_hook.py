"""PowerSGD: gradients as products of two thin matrices, which are what travels.

T. Vogels, S. P. Karimireddy, M. Jaggi: PowerSGD, NeurIPS 2019. A gradient M (n x m) becomes
P = M Q, averaged and made orthonormal, then Q = M' P, averaged; P Q' stands for the average of M.
What is lost is added to the next gradient (error feedback), and Q is where the next one starts.
"""

from __future__ import annotations

from typing import Any

from adjoint.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
from adjoint.distributed.communication.collectives import all_reduce
from adjoint.distributed.communication.reduce_op import RedOpType
from adjoint.distributed.groups.group import resolve
from adjoint.engine.core.state.rng import Generator
from adjoint.engine.ops.create.creation import zeros
from adjoint.engine.ops.linalg.qr import qr
from adjoint.engine.ops.random.random import randn
from adjoint.engine.tensor.tensor import Tensor
from adjoint.futures import Future


class PowerSGDState:
    """What the hooks know and keep.

    Args:
        process_group: the processes; all unless given.
        matrix_approximation_rank: how many columns P and Q have.
        start_powerSGD_iter: the iteration from which gradients are compressed.
        min_compression_rate: gradients that would not get smaller by this factor travel whole.
        use_error_feedback: whether what is lost is added to the next gradient.
        warm_start: whether Q is where the next iteration starts.
        orthogonalization_epsilon: accepted as PyTorch has it: a factorisation needs none.
        random_seed: of the first Q, which is the same on every process.
        compression_stats_logging_frequency: accepted as PyTorch has it.
        batch_tensors_with_same_shape: accepted: it changes the speed, and no result.
    """

    def __init__(
        self, process_group: Any, matrix_approximation_rank: int = 1,
        start_powerSGD_iter: int = 1_000, min_compression_rate: float = 2,
        use_error_feedback: bool = True, warm_start: bool = True,
        orthogonalization_epsilon: float = 0, random_seed: int = 0,
        compression_stats_logging_frequency: int = 10_000,
        batch_tensors_with_same_shape: bool = False,
    ) -> None:  # fmt: skip
        if (use_error_feedback or warm_start) and start_powerSGD_iter <= 1:
            raise ValueError(
                "Expect `start_powerSGD_iter` > 1 if `use_error_feedback` or `warm_start` is "
                "enabled, because PowerSGD can only be applied after the first two iterations in "
                "DDP."
            )
        self.process_group = process_group
        self.matrix_approximation_rank = matrix_approximation_rank
        self.start_powerSGD_iter = start_powerSGD_iter
        self.min_compression_rate = min_compression_rate
        self.use_error_feedback = use_error_feedback
        self.warm_start = warm_start
        self.generator = Generator().manual_seed(random_seed)
        self.errors: dict[int, Tensor] = {}  # by bucket
        self.starts: dict[tuple[int, int], Tensor] = {}  # Q, by bucket and place in it
        self.iter = 0

    def maybe_increase_iter(self, bucket: Any) -> None:
        """Count iterations, by their last bucket."""
        if bucket.is_last():
            self.iter += 1

    def compresses(self, rows: int, columns: int) -> bool:
        """Whether a matrix of these sizes gets small enough."""
        thin = (rows + columns) * self.matrix_approximation_rank
        return thin * self.min_compression_rate < rows * columns

    def start(self, key: tuple[int, int], columns: int, rank: int, like: Tensor) -> Tensor:
        """Q at the beginning: the last one, or random and the same on every process."""
        if self.warm_start and key in self.starts:
            return self.starts[key]
        drawn = randn(columns, rank, generator=self.generator)
        return qr(drawn.to(like.device))[0].to(like.dtype)


def powerSGD_hook(state: PowerSGDState, bucket: Any) -> Future:
    """Average a bucket matrix by matrix; vectors and small matrices travel whole."""
    if state.iter < state.start_powerSGD_iter:
        state.maybe_increase_iter(bucket)
        return allreduce_hook(state.process_group, bucket)
    flat = _with_feedback(state, bucket)
    given = flat.clone()
    gradients = _views(flat, bucket.gradients())
    whole = []
    for at, gradient in enumerate(gradients):
        matrix = gradient.view(gradient.shape[0], -1) if gradient.ndim else gradient.view(1, 1)
        if gradient.ndim > 1 and state.compresses(*matrix.shape):
            _approximate(state, (bucket.index(), at), matrix)
        else:
            whole.append(gradient)
    for gradient in whole:
        all_reduce(gradient, RedOpType.AVG, state.process_group)
    return _finished(state, bucket, given, flat)


def batched_powerSGD_hook(state: PowerSGDState, bucket: Any) -> Future:
    """Average a bucket as one square matrix: quicker, and less exact."""
    if state.iter < state.start_powerSGD_iter:
        state.maybe_increase_iter(bucket)
        return allreduce_hook(state.process_group, bucket)
    flat = _with_feedback(state, bucket)
    given = flat.clone()
    length = flat.shape[0]
    side = next(n for n in range(int(length**0.5), length + 2) if n * n >= length)
    square = zeros(side * side, dtype=flat.dtype, device=flat.device)
    square[:length] = flat
    _approximate(state, (bucket.index(), 0), square.view(side, side))
    flat.copy_(square[:length])
    return _finished(state, bucket, given, flat)


def _with_feedback(state: PowerSGDState, bucket: Any) -> Tensor:
    flat: Tensor = bucket.buffer()
    lost = state.errors.get(bucket.index())
    if state.use_error_feedback and lost is not None:
        flat.add_(lost)
    return flat


def _views(flat: Tensor, like: list[Tensor]) -> list[Tensor]:
    views, at = [], 0
    for tensor in like:
        views.append(flat[at : at + tensor.numel()].view(tensor.shape))
        at += tensor.numel()
    return views


def _approximate(state: PowerSGDState, key: tuple[int, int], matrix: Tensor) -> None:
    """Replace a matrix by the approximated average over the group, in place."""
    rank = min(*matrix.shape, state.matrix_approximation_rank)
    right = state.start(key, int(matrix.shape[1]), rank, matrix)
    left = matrix @ right
    all_reduce(left, RedOpType.SUM, state.process_group)
    left = qr(left)[0]
    right = matrix.t() @ left / resolve(state.process_group).size()
    all_reduce(right, RedOpType.SUM, state.process_group)
    if state.warm_start:
        state.starts[key] = qr(right)[0]
    matrix.copy_(left @ right.t())


def _finished(state: PowerSGDState, bucket: Any, given: Tensor, flat: Tensor) -> Future:
    if state.use_error_feedback:
        state.errors[bucket.index()] = given - flat
    state.maybe_increase_iter(bucket)
    done = Future()
    done.set_result(flat)
    return done
