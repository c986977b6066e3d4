"""Hooks that average gradients, some in fewer bits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from adjoint.distributed.communication.collectives import all_reduce
from adjoint.distributed.communication.reduce_op import RedOpType
from adjoint.distributed.groups.group import resolve
from adjoint.engine.core import dtype as dt
from adjoint.futures import Future

Hook = Callable[[Any, Any], Future]


def allreduce_hook(process_group: Any, bucket: Any) -> Future:
    """The average over the group, as without a hook."""
    return _averaged(process_group, bucket.buffer(), bucket.buffer())


def fp16_compress_hook(process_group: Any, bucket: Any) -> Future:
    """The average of gradients rounded to float16."""
    return _averaged(process_group, bucket.buffer().to(dt.float16), bucket.buffer())


def bf16_compress_hook(process_group: Any, bucket: Any) -> Future:
    """The average of gradients rounded to bfloat16."""
    return _averaged(process_group, bucket.buffer().to(dt.bfloat16), bucket.buffer())


def _averaged(process_group: Any, sent: Any, like: Any) -> Future:
    group = resolve(process_group)
    sent = sent / group.size() if sent is not like else sent.div_(group.size())
    work = all_reduce(sent, RedOpType.SUM, group, async_op=True)
    if work is None:
        raise ValueError("a communication hook needs a group that this process is in")
    return work.get_future().then(lambda done: done.value()[0].to(like.dtype))


def fp16_compress_wrapper(hook: Hook) -> Hook:
    """A hook that is handed gradients rounded to float16; its result has their dtype again."""
    return _in_fewer_bits(hook, dt.float16)


def bf16_compress_wrapper(hook: Hook) -> Hook:
    """A hook that is handed gradients rounded to bfloat16; its result has their dtype again."""
    return _in_fewer_bits(hook, dt.bfloat16)


def _in_fewer_bits(hook: Hook, dtype: dt.DType) -> Hook:
    def wrapped(state: Any, bucket: Any) -> Future:
        whole = bucket.buffer()
        bucket.set_buffer(whole.to(dtype))

        def restored(done: Future) -> Any:
            value = done.value()
            result = (value[0] if isinstance(value, list) else value).to(whole.dtype)
            bucket.set_buffer(whole)
            return whole.copy_(result)

        return hook(state, bucket).then(restored)

    return wrapped
