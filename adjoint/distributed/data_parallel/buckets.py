"""Gradients in buckets: flat tensors that travel together while backward goes on."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from adjoint.distributed.communication.collectives import all_reduce
from adjoint.distributed.communication.operations import begin_all_reduce, end_all_reduce
from adjoint.distributed.communication.reduce_op import RedOpType
from adjoint.distributed.data_parallel.rows import summed_rows
from adjoint.distributed.groups.group import ProcessGroup
from adjoint.engine.autodiff.tape.engine import queue_callback
from adjoint.engine.autodiff.tape.modes import no_grad
from adjoint.engine.core.errors import CaptureError
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.ops.create.creation import zeros, zeros_like
from adjoint.engine.ops.shape.join import cat
from adjoint.engine.tensor.tensor import Tensor
from adjoint.futures import Future

MIB = 1 << 20
_SETTINGS = ("group", "hook", "divide_by", "find_unused", "static")
FIRST = 1 * MIB  # bytes of the first bucket: small, so that sending begins soon


@dataclass(slots=True, eq=False)
class Bucket:
    """Parameters whose gradients travel together."""

    number: int
    parameters: list[Tensor]
    names: list[str]
    sparse: bool = False  # one parameter, whose gradient has some rows only
    ready: set[int] = field(default_factory=set)
    flat: Any = None
    answer: Future | None = None

    @property
    def full(self) -> bool:
        return len(self.ready) == len(self.parameters)


class GradBucket:
    """A bucket as communication hooks see it."""

    def __init__(self, bucket: Bucket, last: bool) -> None:
        self._bucket, self._last = bucket, last

    def index(self) -> int:
        """Its number, in the order of sending."""
        return self._bucket.number

    def buffer(self) -> Tensor:
        """All gradients, flat."""
        return self._bucket.flat

    def set_buffer(self, tensor: Tensor) -> None:
        """Replace the gradients."""
        self._bucket.flat = tensor

    def parameters(self) -> list[Tensor]:
        """The parameters."""
        return list(self._bucket.parameters)

    def gradients(self) -> list[Tensor]:
        """Each parameter's part of the buffer."""
        return cut(self._bucket.flat, self._bucket.parameters)

    def is_last(self) -> bool:
        """Whether no bucket comes after it."""
        return self._last


def cut(flat: Tensor, like: Sequence[Tensor]) -> list[Tensor]:
    """A flat tensor as views in the shapes of others."""
    views, at = [], 0
    for tensor in like:
        count = tensor.shape.numel()
        views.append(flat[at : at + count].reshape(tensor.shape))
        at += count
    return views


def fill_buckets(
    named: Sequence[tuple[str, Tensor]], limit: int, sparse: Container[int] = ()
) -> list[Bucket]:
    """Parameters in buckets, the last ones first: their gradients come first."""
    buckets: list[Bucket] = []
    open_: dict[Any, tuple[Bucket, int]] = {}
    for name, parameter in reversed(named):
        if id(parameter) in sparse:
            buckets.append(Bucket(len(buckets), [parameter], [name], sparse=True))
            continue
        kind = (parameter.dtype, parameter.device)
        size = parameter.shape.numel() * parameter.dtype.itemsize
        bucket, used = open_.get(kind, (None, 0))
        most = FIRST if bucket is not None and bucket.number == 0 else limit
        if bucket is None or used + size > min(most, limit):
            bucket, used = Bucket(len(buckets), [], []), 0
            buckets.append(bucket)
        bucket.parameters.append(parameter)
        bucket.names.append(name)
        open_[kind] = (bucket, used + size)
    return buckets


Hook = Callable[[GradBucket], Future]


@dataclass(slots=True)
class RecordedBackward:
    """Whether the recording that holds a forward holds its averages of gradients as well."""

    inside: bool = False


def keeps_nothing(hook: Hook) -> bool:
    """Whether a hook is one of `default_hooks`, which depend on the bucket alone."""
    fn, state = getattr(hook, "func", hook), getattr(hook, "args", (None,))[0]
    plain = state is None or isinstance(state, ProcessGroup)
    return plain and getattr(fn, "__module__", "").endswith("ddp_comm_hooks.default_hooks")


class Reducer:
    """Collects gradients as they come and averages them over a group, bucket after bucket.

    Note [static graphs]
        A program that promises the same graph in every iteration may have parameters that get no
        gradient, and others that get theirs in several parts: reentrant checkpoints run a backward
        of their own each. So the first backward sends nothing before its end, and counts; later
        ones send a bucket when each of its parameters has come as often as it did then.
    """

    def __init__(
        self,
        named: Sequence[tuple[str, Tensor]],
        group: ProcessGroup,
        limit: int,
        unused: bool,
        sparse: Container[int] = (),
        static: bool = False,
    ) -> None:
        self.group = group
        self.buckets = fill_buckets(named, limit, sparse)
        self.place = {id(p): b for b in self.buckets for p in b.parameters}
        self.find_unused = unused
        self.static = static
        self.counts: dict[int, int] = {}  # how often a gradient came in this backward
        self.expected: dict[int, int] | None = None  # and in the first one, of a static graph
        self.used: set[int] | None = None  # by some process, in a static graph
        self.ending = False  # whether averages are made, and the backward goes on
        self.armed = False
        self.hook: Hook | None = None
        self.next = 0
        self.absent: set[int] = set()  # parameters without a gradient here
        self.recorded = RecordedBackward()  # of the forward before
        self.divide_by: int | None = None  # processes that averages are over, where not all
        self.iterations = 0  # averaged backward passes
        self.sent = 0  # buckets of the last one

    def capture_children(self) -> Iterator[tuple[str, Any]]:
        """Nothing in it but what `capture_watch` names: gradients come and go within a call."""
        yield from ()

    def capture_watch(self) -> list[tuple[Any, ...]]:
        """The settings that a recording of a backward depends on."""
        own = vars(self)
        return [("item", own, name) for name in _SETTINGS]

    def arm(self, unused: set[int]) -> None:
        """Expect a backward, in which some parameters get no gradient."""
        self.armed = True
        self.ending = False
        self.next = 0
        self.counts = {}
        if self.expected is not None:
            unused = {i for i in self.place if i not in self.expected}
        self.absent = unused
        for bucket in self.buckets:
            bucket.ready = {id(p) for p in bucket.parameters if id(p) in unused}
            bucket.flat, bucket.answer = None, None

    def arrived(self, parameter: Tensor) -> None:
        """A parameter's gradient is whole, or one of several parts of it has come."""
        key = id(parameter)
        if not self.armed:
            if self.ending:
                self._refuse_twice(key)
            return
        count = self.counts[key] = self.counts.get(key, 0) + 1
        bucket = self.place[key]
        if self.static and self.expected is None:
            if len(self.counts) == 1 and count == 1:
                queue_callback(self.end_first)
            return
        if count < (1 if self.expected is None else self.expected.get(key, 1)):
            return
        if key in bucket.ready:
            self._refuse_twice(key)
        bucket.ready.add(key)
        self.send_full()

    def end_first(self) -> None:
        """The first backward of a static graph has ended: average what came."""
        if not self.armed:
            return
        self.expected = dict(self.counts)
        self.absent = {i for i in self.place if i not in self.expected}
        for bucket in self.buckets:
            bucket.ready = {id(p) for p in bucket.parameters}
        self.send_full()

    def _refuse_twice(self, key: int) -> None:
        bucket = self.place[key]
        name = next(n for n, p in zip(bucket.names, bucket.parameters, strict=True) if id(p) == key)
        raise RuntimeError(
            "DistributedDataParallel: Expected to mark a variable ready only once. A gradient of "
            f"{name!r} came after it had been averaged, or after it was found to be unused: it is "
            "used by several reentrant checkpoints, or outside of forward. Pass "
            "use_reentrant=False to checkpoint, or static_graph=True if every iteration is the "
            "same."
        )

    def send_full(self) -> None:
        """Send buckets that are full, in order; after the last, wait for all."""
        while self.next < len(self.buckets) and self.buckets[self.next].full:
            self.send(self.buckets[self.next])
            self.next += 1
        if self.next == len(self.buckets):
            self.armed = False
            self.finish()
            self.ending = True
            queue_callback(self.ended)

    def ended(self) -> None:
        """The backward that was averaged has ended."""
        self.ending = False

    def send(self, bucket: Bucket) -> None:
        """Begin to average a bucket."""
        if bucket.sparse:
            gradient = bucket.parameters[0].grad
            if gradient is None or gradient.is_sparse:
                bucket.flat = self.average_rows(bucket, gradient)
                return
            raise NotImplementedError(
                f"DistributedDataParallel: the gradient of {bucket.names[0]!r} is dense, but its "
                "layer was made with sparse=True: the weight is used elsewhere, too. Make the "
                "layer with sparse=False."
            )
        with no_grad():
            gradients = [
                zeros_like(p) if p.grad is None else p.grad.detach() for p in bucket.parameters
            ]
            for name, gradient in zip(bucket.names, gradients, strict=True):
                if gradient.is_sparse:
                    raise NotImplementedError(
                        f"DistributedDataParallel: the gradient of {name!r} is sparse, and its "
                        "module has no attribute sparse=True that says so on every process."
                    )
            bucket.flat = cat([g.reshape(-1) for g in gradients])
        last = bucket.number == len(self.buckets) - 1
        if CONTEXT.capture is not None and self.hook is not None and not keeps_nothing(self.hook):
            raise CaptureError(
                "DistributedDataParallel: a communication hook is called in every backward, and a "
                "compiled step would call it once. Leave the backward outside of the compiled "
                "function, or use a hook of default_hooks, which keeps nothing."
            )
        bucket.answer = (self.hook or self.average)(GradBucket(bucket, last))

    def average_rows(self, bucket: Bucket, gradient: Any) -> Any:
        """The average of a sparse gradient; it is made at once."""
        if self.hook is not None or CONTEXT.capture is not None:
            how = "a communication hook" if self.hook is not None else "a compiled step"
            raise NotImplementedError(
                f"DistributedDataParallel: the gradient of {bucket.names[0]!r} is sparse, which "
                f"{how} cannot average. Make the layer with sparse=False."
            )
        total = summed_rows(gradient, bucket.parameters[0], self.group)
        return total / (self.divide_by or self.group.size())

    def average(self, bucket: GradBucket) -> Future:
        """What is done with a bucket unless a hook does it."""
        flat = bucket.buffer()
        if CONTEXT.capture is not None:
            return self.average_recorded(flat)
        work = all_reduce(flat, RedOpType.AVG, self.group, async_op=True)
        future = Future()
        if work is None:
            future.set_result(flat)
            return future
        factor = 1.0 if self.divide_by is None else self.group.size() / self.divide_by

        def averaged(done: Future) -> Tensor:
            total: Tensor = done.value()[0]
            return total if factor == 1.0 else total.mul_(factor)

        return work.get_future().then(averaged)

    def average_recorded(self, flat: Tensor) -> Future:
        """The same as two nodes of a program: it goes on with backward between them."""
        number = begin_all_reduce(flat, RedOpType.AVG, self.group)
        future = Future()
        future._drive = lambda: future.set_result(end_all_reduce(number, flat, self.group))
        return future

    def finish(self) -> None:
        """Wait for all buckets and give parameters their averaged gradients."""
        self.recorded.inside = CONTEXT.capture is not None
        used = self.used_anywhere()
        self.iterations, self.sent = self.iterations + 1, len(self.buckets)
        with no_grad():
            for bucket in self.buckets:
                if bucket.sparse:
                    parameter = bucket.parameters[0]
                    if used is None or id(parameter) in used:
                        parameter.grad = bucket.flat
                    bucket.flat = None
                    continue
                flat = bucket.answer.wait() if bucket.answer is not None else bucket.flat
                flat = flat[0] if isinstance(flat, (list, tuple)) else flat
                for parameter, part in zip(
                    bucket.parameters, cut(flat, bucket.parameters), strict=True
                ):
                    if parameter.grad is not None:
                        parameter.grad.copy_(part)
                    elif used is None or id(parameter) in used:
                        parameter.grad = part.clone().to(parameter.dtype)
                bucket.flat, bucket.answer = None, None

    def used_anywhere(self) -> set[int] | None:
        """The parameters some process has a gradient for; None if nobody looks for the others."""
        if not self.find_unused and not self.static:
            return None
        if self.used is not None:
            return self.used
        every = [p for b in self.buckets for p in b.parameters]
        flags = zeros(len(every))
        for at, parameter in enumerate(every):
            if id(parameter) not in self.absent:
                flags[at] = 1.0
        all_reduce(flags, RedOpType.MAX, self.group)
        used = {id(p) for p, flag in zip(every, flags.tolist(), strict=True) if flag}
        if self.static:
            self.used = used
        return used

    def missing(self) -> list[str]:
        """The parameters an unfinished backward gave no gradient."""
        return [
            name
            for bucket in self.buckets
            for name, p in zip(bucket.names, bucket.parameters, strict=True)
            if id(p) not in bucket.ready
        ]

    def shadow(self) -> None:
        """Take part in the others' averages without gradients of one's own."""
        for bucket in self.buckets:
            first = bucket.parameters[0]
            if bucket.sparse:
                self.average_rows(bucket, None)
                continue
            size = sum(p.shape.numel() for p in bucket.parameters)
            bucket.flat = zeros(size, dtype=first.dtype, device=first.device)
            last = bucket.number == len(self.buckets) - 1
            (self.hook or self.average)(GradBucket(bucket, last)).wait()
            bucket.flat = None
        if self.find_unused or self.static:
            self.absent = {id(p) for b in self.buckets for p in b.parameters}
            self.used_anywhere()
