"""The record: everything the framework knows about one operation, stated once.

A primitive says how its result looks (`infer`), how it differentiates (`vjp` and `jvp`, usually
derived by a family in `families`) and how it batches. A composite says what it is made of.
Lowerings are not here: each backend keeps its own table.

Note [rules]
    A rule's parameter names declare what it needs, and the tape saves only that:
        x y z / xs      operands            x_spec ... / x_specs   their shapes and dtypes
        out / outs      results             out_spec               the result's
        later_outs      all results but the first, which users may then write over
        first_outs      the first two: what comes after them users may write over
        g / gs          cotangents          tx ty tz / ts          tangents
        position        the operand's place, for a rule that serves several (a "*name")
    and any other name is a parameter of the operation.

    Where the derivatives of several operands share work (attention's scores, a solve), one `joint`
    rule states them together: it returns a cotangent, or None, for each operand. It may also ask
    for
        needed          whether each operand's cotangent is asked for; what else it returns is
                        dropped
        params          all parameters, by name
    and `joint_for` names operands and results that only some operands' cotangents are made of:
    the tape does not keep them for others, and the rule is then given None.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from adjoint.engine.core.operations.autocast import RECORDS
from adjoint.engine.core.operations.large import DEVICE_LAYOUTS, large, on_device
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.core.state.loading import bring
from adjoint.engine.core.value import TensorBase

OPERAND_NAMES = ("x", "y", "z", "w")
Shape = Sequence[int]


def _is_bare(fn: Callable[..., Any]) -> bool:
    """Whether its code alone says what it takes: most rules, of which there are hundreds."""
    code = getattr(fn, "__code__", None)
    if code is None or code.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS):
        return False
    return not (fn.__defaults__ or fn.__kwdefaults__ or hasattr(fn, "__wrapped__"))


@dataclass(frozen=True, slots=True)
class Rule:
    """A derivative rule with the names it asks for; `defaults` are of parameters one may omit."""

    fn: Callable[..., Any]
    names: tuple[str, ...]
    defaults: dict[str, Any] = field(default_factory=dict)

    @staticmethod
    def of(fn: Callable[..., Any] | None) -> Rule | None:
        """Read the parameter names, once, when the operation is declared."""
        if fn is None:
            return None
        if _is_bare(fn):
            code = fn.__code__
            return Rule(fn, code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])
        asked = inspect.signature(fn).parameters
        given = {n: p.default for n, p in asked.items() if p.default is not p.empty}
        return Rule(fn, tuple(asked), given)

    def __call__(self, look_up: Callable[[str], Any]) -> Any:
        return self.fn(*self.arguments(look_up))

    def arguments(self, look_up: Callable[[str], Any]) -> list[Any]:
        """What the rule asks for, in its order."""
        if not self.defaults:
            return [look_up(name) for name in self.names]
        arguments = []
        for name in self.names:
            try:
                arguments.append(look_up(name))
            except KeyError:
                arguments.append(self.defaults[name])
        return arguments


@dataclass(eq=False, slots=True)
class Record:
    """One operation. Calling it binds it: `ADD(x, y)`."""

    name: str
    family: str
    infer: Callable[..., Any]
    promotion: str | None = None  # a key of core.promotion.KINDS
    promotes_from: int = 0  # operands before this one (a condition) keep their dtype
    # Operands that, as numbers, are not rounded beside halves (Note [numbers beside halves]).
    unrounded: tuple[int, ...] = ()
    operands: tuple[str, ...] = ()  # their names; a last "*name" takes all the rest
    outputs: int = 1  # 0: a tuple whose length the parameters decide
    vjp: tuple[Rule | None, ...] = ()  # one per operand name
    jvp: Rule | None = None
    joint: Rule | None = None  # the vjp of all operands together (Note [rules])
    joint_for: dict[str, tuple[str, ...]] = field(default_factory=dict)
    # What puts a call on the tape, where no plan says what its node keeps and does:
    # attach(operands, params, outs, edges of the operands).
    attach: Callable[..., None] | None = None
    # Operations with subgraphs compute results and tangents together: push(operands, ts, params).
    push: Callable[..., Any] | None = None
    partials: tuple[Rule | float | None, ...] = ()  # elementwise
    batched_params: Callable[..., dict[str, Any]] | None = None  # of the batched operation
    batch: Callable[..., Any] | None = None  # when moving the batch to the front is not enough
    batch_mixed: Callable[..., Any] | None = None  # batching that profits from unbatched operands
    window: Callable[..., tuple[tuple[int, ...], int]] | None = None  # views: strides and offset
    is_view: bool = False  # whether it states a window
    # The result lies in memory as operands of its shape do, or as the first one, or by one of the
    # rules of `core.result_layouts`; else row by row. What indices pick lies as its source.
    keeps_layout: bool | Literal["first", "images", "convolved", "joined", "stacked", "picked"] = (
        False
    )
    native_check: bool = False  # the array library's own shape check is as strict as `infer`
    compose: Callable[..., Any] | None = None  # composites
    infer_specs: Callable[..., Any] | None = None  # of their results; None: compose it and see
    decompose: Callable[..., Any] | None = None
    one_node: bool = False  # on the tape: it is not differentiated part by part
    rules: tuple[Rule | float | None, ...] = ()  # vjp or partials, whichever the family states
    plans: dict[Any, Any] = field(default_factory=dict)  # eager execution's promotion cache
    tape: dict[Any, Any] = field(default_factory=dict)  # autodiff's plans, by tracked operands
    small: tuple[Any, ...] = ()  # programs for few elements, as native code compares them
    met: tuple[Any, ...] = ()  # the same of fragments on a GPU (Note [met launches])
    module: str = ""

    # What passes and compilers ask about it; a lowering is a row of a backend's own table.
    linear: bool = False  # in all its operands jointly
    # Its gradient by its first operand does not change with it, but at kinks: a second derivative
    # is zeros (Note [kinks]).
    kinked: bool = False
    cost: str = "cheap"  # of an element: "free", "cheap", "slow" (one instruction), "function"
    rounding: str = ""  # "exact", "arithmetic", "sum", "product", "function" (Note [tolerance])
    running: bool = False  # element by element along its parameter `dim`
    fails: str = ""  # "divisor": an integer zero; "values": what its operands hold
    draws: bool = False  # its results are random, whatever its operands are
    creates: bool = False  # it takes no tensors
    opaque: bool = False  # a function of the user's, whose errors are passed on as they are
    # It, or its rule, exchanges messages with other processes: each call does so once, and is never
    # tried, done again, or done by something that one process finds before others do.
    communicates: bool = False
    pointwise: bool = False  # element by element, though of no such family
    selects: bool = False  # its elements are elements of its first operand
    reinterprets: bool = False  # a view of its operand's bytes as another dtype
    # Operands hold positions in the first: "read", elements there are its result; "written", it is
    # the first with others put there.
    indexed: str = ""
    # Which of the dtypes that tensors are otherwise only kept in it takes: "unsigned", "all".
    takes_kept: str = ""
    # Multiplications and additions, from the shapes of operands and of the first result; None: as
    # many as `graph.flops` counts for its family.
    flops: Callable[[Sequence[Shape], Shape], int] | None = None
    never_negative_zero: bool = False  # -0.0 is not among its results
    logical: bool = False  # of a reduction: elements are true or false to it
    position_of: str = ""  # it says where the result of this reduction is
    # How eager mode runs it (Note [fragments], Note [straight programs]). As a fragment, by what it
    # does with an element: "plain" (where NumPy gives the same bits), "computed", "function",
    # "composed", "costly", "looped" (core.operations.large), "device" on a GPU alone, "host" and
    # "host_looped" on the CPU alone, "" never; by default elementwise operations and reductions
    # are, others are not.
    fragment: str | None = None
    large: int = 0  # elements of an operand from which it runs as a fragment; 0: never
    # The same of its rules, where they take several operations though it is no composite.
    pulled: str = ""
    pulled_large: int = 0  # and the elements from which those of such an operation are one
    # Whether it does, given operands of these shapes and parameters, though they have fewer: what
    # it does with each element is much, or its result is large.
    much: Callable[[Sequence[Shape], dict[str, Any]], bool] | None = None
    on_device: int = 0  # the same, on a GPU
    reads_float8: bool = False  # so do its kernels on a GPU, which no others do
    by_library: bool = False  # on a GPU libraries do it better than kernels of a fragment
    # Whether on a GPU the eager table does it better, given operands and parameters.
    by_table: Callable[[tuple[Any, ...], dict[str, Any]], bool] | None = None
    fills_zeros: bool = False  # its vjp puts values into zeros, which a program need not make first
    pulls_views: bool = False  # its vjp gives views, which on a GPU no program need write out
    of_rows: bool = False  # a product of rows, given another shape at the end (`fragments.as_made`)
    given_floats: bool = False  # a composite's operands that are floats differ at each call
    given_a_draw: bool = False  # the seed and the place of one, which differ at each call
    # Its results lie row after row, however its operands lie: to find that out by trying would take
    # memory that a fragment does without.
    lies_in_rows: bool = False
    # The same of images whose channels lie innermost, in the order in which they lie: what
    # fragments on the CPU record instead where an operand is such a one (`ops.common.channels`);
    # None: it is recorded as it is.
    by_channels: Callable[..., Any] | None = None
    # What it makes of all elements (`dims` are all dimensions) is the same in whatever order they
    # come, up to rounding: fragments on the CPU take that in which they lie.
    in_any_order: bool = False
    in_steps: bool = False  # no composite, but its kernel takes several: worth a straight program
    seen: int = 0  # calls of a single kernel on the tape (Note [seen on the tape])
    # Itself on batches and on duals, once `vmap` and `jvp` met it; False: never. See
    # Note [steps of levels].
    batched: Any = None
    pushed: Any = None
    # Of such a one: which results have a batch, where these operands have; None: all.
    with_batch: Callable[[Sequence[bool], dict[str, Any]], list[bool]] | None = None
    # A composite that forward mode goes through part by part, whatever vjp it states.
    part_by_part: bool = False
    listed: bool = True  # among all that there are; one that is made on the way is not
    # Autocast, by type of device (Note [autocast]); a record that is not listed there may say.
    policies: dict[str, str] | None = None

    def __post_init__(self) -> None:
        self.linear = self.linear or self.family == "linear"
        if self.policies is None:
            self.policies = RECORDS.get(self.name)
        if not self.rounding:
            self.rounding = self._usual_rounding()
        self.rules = self.partials or self.vjp
        self.is_view = self.window is not None
        self.one_node = self.compose is None or self.differentiable
        if self.fragment is None:
            self.fragment = self._usual_fragment()
        self.large = large(self.fragment)
        self.pulled_large = large(self.pulled)
        self.on_device = 0 if self.by_library else on_device(self.fragment)
        if not self.operands:
            self.operands = OPERAND_NAMES[: len(self.rules)]
        if self.listed and REGISTRY.setdefault(self.name, self) is not self:
            raise ValueError(f"record {self.name!r} is declared twice")

    def _usual_rounding(self) -> str:
        if self.window is not None or self.promotion in ("compare", "logical"):
            return "exact"
        return "sum" if self.linear or self.family == "bilinear" else "function"

    def _usual_fragment(self) -> str:
        if self.reduces:
            return "computed"
        if self.family != "elementwise" or self.draws:
            return ""
        return "function" if self.cost == "function" else "computed"

    @property
    def reduces(self) -> bool:
        """Whether it combines elements over its parameter `dims`, two at a time."""
        return self.family == "reduction"

    @property
    def differentiable(self) -> bool:
        return self.joint is not None or any(r is not None for r in self.rules)

    def rule_at(self, position: int) -> Rule | float | None:
        """The rule for the operand at a position; a starred name's serves all the rest."""
        last = len(self.rules) - 1
        if last < 0 or (position > last and not self.operands[-1].startswith("*")):
            return None
        return self.rules[min(position, last)]

    def operand(self, values: Any, name: str) -> Any:
        """The operand (or list of operands) called `name`, from `values` in order."""
        for position, operand in enumerate(self.operands):
            if operand == name:
                return values[position]
            if operand.startswith("*") and operand[1:] == name:
                return values[position:]
        raise KeyError(name)

    def has_operand(self, name: str) -> bool:
        """Whether a rule's name means an operand."""
        return name in self.operands or f"*{name}" in self.operands

    def __call__(self, *operands: Any, **params: Any) -> Any:
        """The one door: every operation enters here."""
        context = CONTEXT
        if context.plain:
            return HOOKS.run(self, operands, params)
        if (  # `bind` would find that autocast has nothing to say of it
            context.settled
            and self.policies is None
            and (self.on_device or self.is_view)
            and operands
            and getattr(operands[0], "_array", None).__class__ in DEVICE_LAYOUTS
        ):
            return HOOKS.run(self, operands, params)
        return HOOKS.bind(self, operands, params)

    def __repr__(self) -> str:
        return f"<{self.family} {self.name}>"

    def __reduce__(self) -> tuple[object, ...]:
        return (REGISTRY.__getitem__, (self.name,))


REGISTRY: dict[str, Record] = {}


def _as_given(bases: Any, _: Any) -> Any:
    return bases


def _unset(*_: Any) -> Any:
    raise RuntimeError("adjoint's layers are not assembled: import adjoint, not a part of it")


def _not_met(*_: Any) -> None:
    """No native code is loaded that could meet a call."""


def _scan_loaded(*args: Any, **options: Any) -> Any:
    """A loop, by what is loaded when one is first recorded."""
    bring(["adjoint.engine.graph.flow.scan"])
    return HOOKS.scan(*args, **options)


@dataclass(slots=True)
class Hooks:
    """What core calls in the layers above; each layer fills its part when it is imported."""

    run: Callable[..., Any] = (
        _unset  # eager, with the tape, in a plain context: backends.array.executor
    )
    execute: Callable[..., Any] = _unset  # eager execution alone: the same
    execute_beneath: Callable[..., Any] = _unset  # the same inside transforms
    compute_into: Callable[..., Any] = _unset  # eager execution in the memory of an operand
    compute_large: Callable[..., Any] = (
        _unset  # the same by one program, where it has many elements
    )
    put_into: Callable[..., bool] = _unset  # results in the memory of a GPU's tensors
    prepared_step: Callable[..., Any] = _unset  # a library's operation on such operands
    pull_prepared: Callable[..., Any] = _unset  # what a library gives for its rules
    attach: Callable[..., Any] = _unset  # the tape alone: autodiff.tape.tape
    bind: Callable[..., Any] = _unset  # everything else: core.operations.dispatch
    attach_constant: Callable[..., Any] = _unset  # a tracked tensor overwritten by a constant
    sequence_now: Callable[..., Any] = _unset  # the tape's clock
    keep_overwritten: Callable[..., Any] = _unset  # what an in-place operation saved of its target
    pack_saved: Callable[..., Any] = (
        _unset  # what nodes saved, by the hooks of `saved_tensors_hooks`
    )
    keep_retaining: Callable[..., Any] = _unset  # a non-leaf that keeps its gradient was rewritten
    assign_out: Callable[..., Any] = _unset  # the `out=` protocol
    find_method: Callable[..., Any] = _unset  # a Tensor method of a family not loaded yet
    load_rest: Callable[[], None] = _unset  # import the families and kernels not loaded yet
    rebind_window: Callable[..., Any] = _unset  # in-place changes of what a tensor shows
    turn_window: Callable[..., bool] = _unset  # the same at once, where nobody looks on
    write_back: Callable[..., Any] = _unset  # a write to a copy that stands for a view
    shortened: Callable[..., Any] = _unset  # a long chain of views: tensor.chains
    place_of: Callable[..., int] = _unset  # the offset of a view, without elements too: the same
    update: Callable[..., Any] = _unset  # an in-place operation: a result written into its target
    scan: Callable[..., Any] = _scan_loaded  # a loop as one operation of a captured graph
    view_scatter: Any = None  # the record of the inverse of views
    sparse: Any = None  # once `sparse` is loaded: what operations do with sparse operands
    load_sparse: Callable[[], Any] = _unset  # loads it, and returns the same
    wrappers: Any = None  # once a class has `__torch_dispatch__`: what its instances do
    load_wrappers: Callable[[], Any] = _unset  # loads it, and returns the same
    array: Any = None  # the backend that makes and reads buffers: backends.array
    native_loaded: bool = False  # whether native code and its workers are
    guard: Callable[[int, int, int], int] | None = None  # native, once `compile` was called
    # As well, of NumPy's own arrays: the address of the first element, and strides in elements
    # where those are as usual, given the bytes of one.
    address: Callable[[Any], int] | None = None
    steps: Callable[[Any, int], tuple[int, ...] | None] | None = None
    # The same of plain tensors (Note [looked at natively]); None: Python is to look.
    from_memory: Callable[[Any], Any] = _not_met  # a tensor on an array of NumPy's
    data_address: Callable[[Any], int | None] = _not_met  # of a tensor whose memory is shown
    storage_address: Callable[[Any], int | None] = _not_met  # the same of a storage
    untyped: Callable[[Any], Any] = _not_met  # a tensor's storage, as it is shown
    # As well: what `tensor.storage.count_writes` and `tensor.tensor.wrap_places` do.
    objects: tuple[Callable[..., None], Callable[..., list[Any]], int] | None = None
    fits: Callable[..., Any] | None = None  # makes the test of a call's arguments, natively
    # Modules that say how recordings take methods of theirs; they are loaded before the first one.
    recorded_by: list[str] = field(default_factory=list)
    backends: dict[str, str] = field(
        default_factory=dict
    )  # what `compile(backend=...)` loads, by name
    devices: dict[str, str] = field(default_factory=dict)  # what compiles programs on a device
    executor: Callable[[str], Any] = _unset  # what runs graphs, by name: compiler.executors
    compile_operation: Callable[[Any], Any] = _unset  # the program of an eager one: backends.llvm
    find_operation: Callable[..., Any] = _unset  # the same on disk, by its kind's name
    keep_operation: Callable[..., None] = _unset  # has it found there from now on
    find_family: Callable[..., Any] = _unset  # recordings for many sizes on disk, by a name
    keep_family: Callable[..., None] = _unset  # has them found there from now on
    keep_together: Callable[[], Any] = _unset  # a context: what is kept in it is written at its end
    fill_memory: Callable[..., None] = _unset  # by all workers: backends.llvm.program.moves
    fill_rows: Callable[..., None] = _unset  # the same
    copy_memory: Callable[..., None] = _unset  # the same
    join_memory: Callable[..., None] = _unset  # the same
    put_workers_first: Callable[[], None] = _unset  # NumPy's threads off: backends.threads
    fragments: Any = None  # what runs large eager operations: graph.eager.fragments
    compile_step: Callable[..., Any] = _unset  # what a transform makes of one: graph.higher
    straight: Any = None  # small operations made of many: graph.eager.straight
    straighten: Callable[..., Any] = _unset  # a graph as calls of kernels: backends.array.straight
    small_code: bool = False  # whether native code for few elements is loaded: backends.llvm.small
    small_call_code: bool = False  # and that for calls of public functions
    small_rows: Callable[..., Any] = _unset  # the same as native rows: backends.llvm.small
    small_entry: Callable[..., Any] = _unset  # what native code finds a small call by
    small_launches: Callable[..., Any] = _unset  # a fragment's launches so: the same folder
    small_update: Callable[..., Any] = _unset  # and those that write to their operand
    small_draw: Callable[..., Any] = _unset  # those of a call that draws: the same
    add_rows: Callable[..., bool] = _unset  # rows to a table in its memory: backends.llvm
    native_entry: Callable[..., Any] = (
        _unset  # a built-in function of assembled text: backends.llvm
    )
    meet: Callable[..., Any] = _unset  # runs the one of some such programs that operands fit
    device_entry: Callable[..., Any] = _unset  # what a GPU's fragment is found by: backends.llvm
    meeting_on: Callable[..., Any] = _unset  # native code that finds them: the same
    native_pieces: Callable[..., Any] = _unset  # makes arrays on a GPU: backends.llvm
    meet_on_device: Callable[..., Any] = _unset  # the same on the current stream: backends.triton
    meet_into: Callable[..., Any] = _unset  # the same, the results into arrays that are there
    meet_straight: Callable[..., Any] = _unset  # a function of tensors there: backends.triton
    straight_entry: Callable[..., Any] = _unset  # what that is found by: backends.llvm
    meet_call: Callable[..., Any] = _unset  # the same of a public function's, to tensors
    # The same once it is asked whether the call may be met (Note [asked first] in `small/calling`).
    meet_public: Callable[..., Any] = _not_met
    meet_into_small: Callable[..., Any] = _unset  # the same, written to its first operand
    # Puts an operation on the tape, where that is a matter of objects alone: backends.llvm
    note: Callable[[dict[Any, Any], tuple[Any, ...], dict[str, Any], Any], bool] | None = None
    show: Callable[..., Any] | None = None  # the same, with a view: a tensor, or None
    # Both, of a GPU's tensors: backends.triton.
    note_there: Callable[[dict[Any, Any], tuple[Any, ...], dict[str, Any], Any], bool] | None = None
    show_there: Callable[..., Any] | None = None
    meet_noted: Callable[..., Any] | None = None  # the same, with `meet`: a tensor, or arrays
    meet_rules: Callable[..., Any] | None = None  # `meet` of rules, to tensors
    pull_on_tape: Callable[..., Any] = _unset  # rules of a node on the tape: graph.higher.rules
    pull_at_level: Callable[..., Any] = _unset  # those of a transform's tape: the same folder
    pull: Callable[..., Any] | None = None  # the same of a node, if it has such a program
    pass_on: Callable[..., Any] | None = None  # cotangents to nodes: those that it has no way for
    view_call: Callable[..., Any] = _unset  # chains of views, to be followed: backends.array
    # What native code shows such a chain by (Note [views by words]): backends.llvm.small
    small_views: Callable[..., Any] = _unset
    note_call: Callable[..., Any] = _unset  # one that no program fits: graph.eager.small_calls
    note_taped: Callable[..., Any] = _unset  # the same on the tape: graph.higher.on_tape
    taped_entry: Callable[..., Any] = _unset  # what that is found by: backends.llvm.small
    note_on_device: Callable[..., Any] = _unset  # the same on a GPU: graph.eager.device_calls
    note_straight: Callable[..., Any] = _unset  # one that is run straight: the same folder
    note_making: Callable[..., Any] = _unset  # of numbers alone there: graph.eager.device_made
    same_arrays: Callable[..., bool] = _unset  # in every byte
    updates: Any = None  # rules that write to large tensors: graph.eager.updates
    vjp: Callable[..., Any] = _unset  # of a function: for rules that follow a composition
    call_at_levels: Callable[..., Any] = _unset  # a custom function inside a transform
    subclassed: Callable[[type], None] = _unset  # a subclass of Tensor was made
    bases_of: Callable[..., Any] = _as_given  # what it is derived from


HOOKS = Hooks()


def is_tensor(x: Any) -> bool:
    """Whether x is a tensor (of any level, concrete or symbolic)."""
    return isinstance(x, TensorBase)
