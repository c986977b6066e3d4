"""RuleOptimizer: an optimizer given by one update rule, for one parameter or many at once."""

from __future__ import annotations

from functools import partial
from operator import is_
from typing import Any, ClassVar, TypeVar

from adjoint.engine.autodiff.tape.modes import enable_grad
from adjoint.engine.core.operations.record import HOOKS, is_tensor
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.ops.create.creation import full
from adjoint.engine.ops.shape.reinterpret import view_as_complex, view_as_real
from adjoint.engine.tensor.tensor import Tensor
from adjoint.optim.optimizer import Closure, Optimizer, _use_grad_for_differentiable
from adjoint.optim.stepping.groups import ParamGroup
from adjoint.optim.stepping.large_parameters import LargeParameters
from adjoint.optim.stepping.on_device import are_on_device, update_together
from adjoint.optim.stepping.scalars import counter_dtype
from adjoint.optim.stepping.together import NO_STATE, Plans

# Classes whose rules are the package's, and pure, with the rule of each as it was stated.
OWN: dict[type, Any] = {}
# What a user's subclass of one may state without stating another rule.
_HARMLESS = frozenset(
    "__init__ __module__ __qualname__ __doc__ __annotations__ __dict__ __weakref__ __repr__ "
    "__firstlineno__ __static_attributes__ __annotate__ __annotate_func__ "
    "__annotations_cache__ __orig_bases__ __parameters__ __type_params__".split()
)

C = TypeVar("C", bound="type[RuleOptimizer]")


def own_rule(cls: C) -> C:
    """Declare that a class's rule depends on nothing but what it is given (Note [own rules])."""
    OWN[cls] = cls.update
    return cls


class RuleOptimizer(Optimizer):
    """An optimizer given by one update rule, applied to each parameter that has a gradient.

    A subclass states `create`, the state of a parameter before its first step, and `update`, the
    rule. Complex parameters are seen by the rule as pairs of reals. Both serve eager and captured
    steps: rules do arithmetic on numbers and never look at them, but through a guard.

    Where the rule works element by element, an eager step applies it to many parameters at once
    (Note [together]) and a captured one records it once (Note [any shape]), unless the group says
    `foreach=False`.

    Note [own rules]
        To apply a rule to many parameters at once, or to record it once for all, is right only for
        a rule that sees nothing of a parameter but its elements, and nothing else besides. The
        package's rules are declared to be such (`own_rule`). A user's may read an attribute of the
        parameter, its shape, or a table of its own, so it runs for each parameter by itself. A
        subclass that states nothing but how it is constructed has the rule it inherits.
    """

    elementwise: ClassVar[bool | None] = True  # False: the rule looks at a parameter as a whole
    sparse: ClassVar[bool] = False  # whether `update_sparse` is stated
    numbers: ClassVar[frozenset[str]] = frozenset({"step"})  # state that is one number a parameter
    steps_are_tensors: ClassVar[bool] = True  # else numbers of Python's
    listed: ClassVar[tuple[str, ...]] = ()  # the state that `_init_group` lists, in its order
    _plans: Plans | None = None
    _large: dict[int, LargeParameters] | None = None  # by group

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take over a state, an older release's too: options it lacks, steps that were numbers.

        Of optimizers that others wrote nothing is known: theirs stays as it was saved.
        """
        super().__setstate__(state)
        for group in self.param_groups:
            for name, default in self.defaults.items():
                group.setdefault(name, default)
            for p in group["params"] if self.steps_are_tensors else ():
                of_param = self.state.get(p)
                if of_param and "step" in of_param and not is_tensor(of_param["step"]):
                    device = p.device if self._counts_on_device(group) else None
                    of_param["step"] = full(
                        (), float(of_param["step"]), dtype=counter_dtype(), device=device
                    )

    def create(self, p: Tensor, group: ParamGroup) -> dict[str, Any]:
        """The state of a parameter before its first step."""
        raise NotImplementedError

    def update(self, p: Tensor, grad: Tensor, state: dict[str, Any], group: ParamGroup) -> None:
        """Change the parameter, and its state, for a gradient."""
        raise NotImplementedError

    def update_sparse(self, p: Tensor, grad: Any, state: dict[str, Any], group: ParamGroup) -> None:
        """The same for a sparse gradient, by a rule that is stated only where `sparse` says so."""
        raise NotImplementedError

    def refuse_sparse(self) -> None:
        """PyTorch's error for a sparse gradient."""
        raise RuntimeError(f"{type(self).__name__} does not support sparse gradients")

    @_use_grad_for_differentiable
    def step(self, closure: Closure | None = None) -> Any:
        """Update every parameter that has a gradient; returns the closure's loss, if given one."""
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        for i, group in enumerate(self.param_groups):
            if type(self)._init_group is not RuleOptimizer._init_group:
                params, grads = self._chosen(group)
                for p, grad in zip(params, grads, strict=True):
                    self._apply(p, grad, group)
                continue
            if self._together(group):
                self._step_together(i, group)
                continue
            repeats, whole = None, None
            if self._has_own_rule():
                if CONTEXT.capture is not None:
                    repeats = CONTEXT.capture.repeats()
                elif CONTEXT.plain and not CONTEXT.grad_enabled:
                    whole = self._for_large(i, group)
            for p in group["params"]:
                grad = p.grad
                if grad is not None:
                    self._apply(p, grad, group, repeats, whole)
        return loss

    def _init_group(
        self, group: ParamGroup, params: list[Tensor], grads: list[Tensor], *states: list[Any]
    ) -> Any:
        """Append the parameters of a group that have gradients, those, and their state by kind.

        As in PyTorch, for subclasses with a `step` of their own; what one puts in its place says
        which parameters a step updates, and with which gradients. Returns whether some parameter is
        complex; SGD's whether some gradient is sparse, and Adagrad's both.
        """
        sparse = False
        for p in group["params"]:
            grad = p.grad
            if grad is None:
                continue
            if grad.is_sparse:
                sparse = True
                if not self.sparse:
                    self.refuse_sparse()
            params.append(p)
            grads.append(grad)
            state = self._state_of(p, group)
            for name, entries in zip(self.listed, states, strict=True):
                if name in state:
                    entries.append(state[name])
                elif not (state or self.stateless(group)):  # SGD's buffer comes with its first step
                    entries.append(None)
        return self._told(sparse, any(p.is_complex() for p in params))

    def _told(self, sparse: bool, complex_: bool) -> Any:
        """What `_init_group` returns of what it saw."""
        return complex_

    def _chosen(self, group: ParamGroup) -> tuple[list[Tensor], list[Tensor]]:
        """Parameters and gradients that a subclass's `_init_group` lists."""
        params: list[Tensor] = []
        grads: list[Tensor] = []
        self._init_group(group, params, grads, *[[] for _ in self.listed])
        return params, grads

    def capture_watch(self) -> list[tuple[Any, ...]]:
        """Which rule it is, besides."""
        stating = next(cls for cls in type(self).__mro__ if "update" in vars(cls))
        return [*super().capture_watch(), ("stated", stating, "update")]

    def _together(self, group: ParamGroup) -> bool:
        """Whether a group's parameters may be updated many at once."""
        if group.get("differentiable"):
            if group.get("foreach"):
                raise AssertionError(
                    f"{type(self).__name__}: foreach=True does not support differentiable=True, "
                    "because it updates copies of the parameters. Leave one of them out."
                )
            return False
        return self._by_element(group) and CONTEXT.plain and not CONTEXT.grad_enabled

    def _by_element(self, group: ParamGroup) -> bool:
        """Whether the rule does the same to every element, whatever tensor it is in."""
        return bool(self.elementwise) and group.get("foreach") is not False and self._has_own_rule()

    def _has_own_rule(self) -> bool:
        """Whether the rule is one that the package declares pure (Note [own rules])."""
        for cls in type(self).__mro__:
            if cls in OWN:
                if type(self).update is not OWN[cls]:  # somebody has put another there
                    return False
                own_names = vars(self).keys() - {"step"}  # which schedulers count, and then call
                return not any(callable(getattr(cls, name, None)) for name in own_names)
            if not vars(cls).keys() <= _HARMLESS:
                return False
        return False

    def _step_together(self, index: int, group: ParamGroup) -> None:
        if self._plans is None or self._plans.state is not self.state:
            self._plans = Plans(self.state, self.numbers)
        plans = self._plans
        with_grad = [
            p for p in group["params"] if p._grad_meta is not None and p._grad_meta.grad is not None
        ]
        if HOOKS.sparse is not None:
            for p in [p for p in with_grad if p._grad_meta.grad.is_sparse]:
                self._apply(p, p.grad, group)
                with_grad = [other for other in with_grad if other is not p]
            if not with_grad:
                return
        if are_on_device(with_grad):
            if self.stateless(group):
                states = [self.state.get(p, NO_STATE) for p in with_grad]
            else:
                states = [self.state[p] or self._state_of(p, group) for p in with_grad]
            if update_together(self._for_large(index, group), with_grad, states):
                return
        place = ~index if self.stateless(group) else index  # with or without state: other plans
        plan = plans.find(place, with_grad)
        if plan is None:
            for p in with_grad:
                self._state_of(p, group)
            plan = plans.make(place, with_grad)
        whole = self._for_large(index, group)

        def rule(p: Tensor, grad: Tensor, state: dict[str, Any]) -> None:
            if not (self.is_started(state, group) and whole.update(p, grad, state)):
                self._rule(p, grad, state, group)

        for bundle in plan.bundles:
            bundle.run(rule)
        for p in plan.rest:
            self._apply(p, p.grad, group, large=whole)

    def _for_large(self, index: int, group: ParamGroup) -> LargeParameters:
        """The group's rule for large parameters."""
        if self._large is None:
            self._large = {}
        rules = self._large
        rule = rules.get(index)
        if rule is None or not rule.read(group):
            rule = rules[index] = LargeParameters(
                type(self), self._rule, group, elementwise=bool(self.elementwise)
            )
            rule.read(group)
        return rule

    def prepare_state(self) -> None:
        """Make the state of every parameter that has a gradient, as its first step would."""
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    self._state_of(p, group)

    def stateless(self, group: ParamGroup) -> bool:
        """Whether the rule keeps nothing of a group's parameters."""
        return False

    def is_started(self, state: dict[str, Any], group: ParamGroup) -> bool:
        """Whether the rule finds all of its state; programs do not put any there."""
        return True

    def _state_of(self, p: Tensor, group: ParamGroup) -> dict[str, Any]:
        if self.stateless(group):  # no entry, as in PyTorch
            return self.state.get(p, NO_STATE)
        state: dict[str, Any] = self.state[p]
        if not state:
            with CONTEXT.having(capture=None, grad_enabled=False):
                state.update(self.create(p, group))
        return state

    def _rule(self, p: Tensor, grad: Tensor, state: dict[str, Any], group: ParamGroup) -> None:
        self.update(p, -grad if group.get("maximize") else grad, state, group)

    def _apply(
        self,
        p: Tensor,
        grad: Tensor,
        group: ParamGroup,
        repeats: Any = None,
        large: LargeParameters | None = None,
    ) -> None:
        """The rule for one parameter; `repeats` records it once for those alike, in a capture."""
        if HOOKS.sparse is not None and grad.is_sparse:
            if not self.sparse:
                self.refuse_sparse()
            grad = -grad if group.get("maximize") else grad
            self.update_sparse(p, grad, self._state_of(p, group), group)
            return
        state = self._state_of(p, group)
        if not p.dtype.is_complex:
            if large is not None and self.is_started(state, group) and large.update(p, grad, state):
                return
            entries = list(state.values())
            if repeats is None or not all(map(is_tensor, entries)):
                self._rule(p, grad, state, group)
                return
            rule = partial(self._rule, p, grad, state, group)
            alike = self._by_element(group)
            repeats.run(tuple(state), [p, grad, *entries], rule, elementwise=alike)
            if len(state) != len(entries) or not all(map(is_, state.values(), entries)):
                repeats.forget()  # the rule has put something else there
            return
        pairs = {
            k: view_as_real(v) if is_tensor(v) and v.dtype.is_complex else v
            for k, v in state.items()
        }
        known = set(pairs)
        self._rule(view_as_real(p), view_as_real(grad), pairs, group)
        for key in pairs.keys() - known:
            state[key] = view_as_complex(pairs[key])
