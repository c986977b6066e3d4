"""A model cut into stages: it is recorded once, and its operations are divided at marks.

Note [stages of a recording]
    `pipe_split()`, or a module that `split_spec` names, leaves a mark among the recorded
    operations. What lies between two marks is a stage. A value that a later stage needs is handed
    on by all stages in between, so that a stage has to do with its two neighbours only.
    Parameters and buffers lie in the stage that reads them, under the names they have in the model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from enum import Enum
from typing import Any

from adjoint.distributed.pipelining.pipe import Pipe, RecordedModel
from adjoint.engine.backends.array.table import lowers
from adjoint.engine.capture.program.program import Program
from adjoint.engine.core.device import CPU
from adjoint.engine.core.dtype import bool_
from adjoint.engine.core.operations.families import primitive
from adjoint.engine.core.operations.record import HOOKS, Record
from adjoint.engine.core.spec import Spec
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.graph.record.sources import CallArgument, Source, State
from adjoint.engine.tensor.storage import Storage
from adjoint.engine.tensor.tensor import Tensor
from adjoint.export.graphs.exporting import ForwardRecorder
from adjoint.fx.captured import CannotWrite, GraphWriter, is_memory, meta_tensor, write_
from adjoint.fx.graph import Graph
from adjoint.fx.node import Node
from adjoint.nn.modules.module import Module
from adjoint.utils._python_dispatch import overload_of

# Marks a place among recorded operations; it computes nothing that anybody reads.
PIPE_SPLIT: Record = primitive("pipe_split", lambda: Spec((0,), bool_, CPU), creates=True)


@lowers(PIPE_SPLIT)
def split_kernel(xp: Any) -> Any:
    """Nothing."""
    return xp.zeros(0, bool)


class SplitPoint(Enum):
    """Where a model is cut: before a module runs, or after it."""

    BEGINNING = 1
    END = 2


def pipe_split() -> None:
    """Marks where `pipeline` cuts a model; it does nothing when the model runs."""
    if CONTEXT.capture is not None:
        PIPE_SPLIT()


def pipeline(
    module: Module,
    mb_args: tuple[Any, ...],
    mb_kwargs: Mapping[str, Any] | None = None,
    split_spec: Mapping[str, SplitPoint] | None = None,
    split_policy: Callable[..., Any] | None = None,
) -> Pipe:
    """Record a model and cut it into stages.

    Args:
        module: the model, in the mode that its stages are to be in. It is not changed.
        mb_args: example arguments, of a microbatch; stages take tensors of these shapes only.
        mb_kwargs: example arguments by name.
        split_spec: the names of modules before or after which it is cut; without them it is cut
            where its `forward` calls `pipe_split()`.
        split_policy: not supported.

    Returns:
        The stages: `pipe.build_stage(index, device, group)` gives one to a schedule.

    Example:
        >>> import adjoint as ad
        >>> net = ad.nn.Sequential(ad.nn.Linear(3, 4), ad.nn.Tanh(), ad.nn.Linear(4, 2))
        >>> pipe = pipeline(net, (ad.zeros(5, 3),), split_spec={"2": SplitPoint.BEGINNING})
        >>> pipe.num_stages, [name for name, _ in pipe.get_stage_module(1).named_parameters()]
        (2, ['2.weight', '2.bias'])
        >>> x = ad.randn(5, 3)
        >>> bool(ad.allclose(pipe(x), net(x)))
        True
    """
    if split_spec is not None and split_policy is not None:
        raise ValueError(
            "Cannot specify both `split_spec` and `split_policy`. Please use only one of them."
        )
    if split_policy is not None:
        raise NotImplementedError(
            "pipeline: split_policy is not supported. Name modules in split_spec, or call "
            "pipe_split() in forward."
        )
    if not isinstance(module, Module):
        raise TypeError(f"pipeline: expected a module, received {type(module).__name__}")
    recorder = ForwardRecorder(module, tuple(mb_args), dict(mb_kwargs or {}))
    with marked(module, split_spec or {}):
        program, _ = recorder.record([])
    try:
        return Pipe(StageWriter(module, recorder, program).write())
    except CannotWrite as error:
        raise RuntimeError(
            f"pipeline: {type(module).__name__} cannot be cut by recording it: {error}. Make a "
            "module of each stage's layers and a PipelineStage of it."
        ) from None


@contextmanager
def marked(module: Module, split_spec: Mapping[str, SplitPoint]) -> Iterator[None]:
    """Modules that leave a mark before or after they run, inside a `with` block."""
    known = dict(module.named_modules())
    changed: list[Module] = []
    try:
        for name, point in split_spec.items():
            if name not in known:
                raise AttributeError(f"Specified target {name} referenced nonexistent module")
            if not isinstance(point, SplitPoint):
                raise ValueError(f"Unknown split point type: {point!r} of {name!r}")
            inner = known[name]
            around = _before if point is SplitPoint.BEGINNING else _after
            if "forward" in inner.__dict__:
                raise NotImplementedError(
                    f"pipeline: {name!r} has a forward of its own object (fully_shard, or one that "
                    "was assigned), which cannot be marked. Call pipe_split() in the outer forward."
                )
            object.__setattr__(inner, "forward", around(inner.forward))
            changed.append(inner)
        yield
    finally:
        for inner in changed:
            del inner.__dict__["forward"]


def _before(forward: Callable[..., Any]) -> Callable[..., Any]:
    def run(*args: Any, **kwargs: Any) -> Any:
        pipe_split()
        return forward(*args, **kwargs)

    return run


def _after(forward: Callable[..., Any]) -> Callable[..., Any]:
    def run(*args: Any, **kwargs: Any) -> Any:
        result = forward(*args, **kwargs)
        pipe_split()
        return result

    return run


class StageWriter:
    """Writes a recording as a graph whose nodes know their stage."""

    def __init__(self, module: Module, recorder: ForwardRecorder, program: Program) -> None:
        self.recorder, self.program = recorder, program
        self.owners = {
            id(t._storage): (name, t)
            for name, t in [*module.named_buffers(), *module.named_parameters()]
        }
        self.training = module.training
        self.graph = Graph()
        self.state: dict[str, Tensor] = {}
        self.reads: dict[str, Node] = {}
        self.persistent = {
            name for name, _ in module.named_buffers() if name in module.state_dict()
        }

    def write(self) -> RecordedModel:
        """The graph, what its stages hold, and the structures of a call."""
        arguments: dict[int, Node] = {}
        places = self.recorder.places
        for at, leaf in enumerate(self.recorder.leaves):
            node = self.graph.placeholder(f"argument_{at}")
            if at in places:
                arguments[places.index(at)] = node
                node.meta["val"] = meta_tensor(leaf._spec)
        writer = GraphWriter(self.graph, arguments, self._read, draws=True)
        written = writer.write(self.program)
        for source, value in written.writes:
            self.graph.call_function(write_, (self._target(source), value))
        self.graph.output(tuple(written.results))
        return RecordedModel(
            graph=self.graph,
            split=overload_of(PIPE_SPLIT),
            state=self.state,
            persistent=frozenset(self.persistent),
            leaves=tuple(self.recorder.leaves),
            in_spec=self.recorder.structure,
            out_spec=self.program.results.structure,
            moves=self.program.effects.moves,
            training=self.training,
        )

    def _read(self, storage: Storage) -> Node:
        name, tensor = self.owners.get(id(storage), ("", None))
        if tensor is None:
            name = f"lifted_tensor_{len(self.state)}"
            tensor = HOOKS.array.wrap(storage.buffer)
            tensor._storage = storage
            self.owners[id(storage)] = name, tensor
        elif not is_memory(tensor):
            raise CannotWrite(f"{name!r} is a view of another tensor; give it memory of its own")
        if name not in self.reads:
            self.state[name] = tensor
            self.reads[name] = self.graph.get_attr(name)
            self.reads[name].meta["val"] = meta_tensor(tensor._spec)
        return self.reads[name]

    def _target(self, source: Source) -> Node:
        """What takes a value in the end: a buffer of the model."""
        if isinstance(source, CallArgument):
            raise CannotWrite("it writes into an argument, which another process has")
        if not isinstance(source, State) or id(source.own_storage) not in self.owners:
            raise CannotWrite("it writes into a tensor that is no buffer; register it as one")
        return self._read(source.own_storage)
