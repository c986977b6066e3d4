"""Build: from a task to the steps that do it.

The stages, in order: passes over the graph, rematerialise, legalise, fuse, order, place, kernels.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from adjoint.engine.compiler.flow.bodies import refusal
from adjoint.engine.compiler.fuse.fuse import Fusion, Unit
from adjoint.engine.compiler.fuse.ordering import ordered
from adjoint.engine.compiler.fuse.side_by_side import put_side_by_side
from adjoint.engine.compiler.loops.copying import copy_step, kernel_step
from adjoint.engine.compiler.loops.epilogues import attach, columns_of, epilogue_of
from adjoint.engine.compiler.loops.ir import LoopKernel
from adjoint.engine.compiler.loops.joint_launches import batch
from adjoint.engine.compiler.loops.nest import Nest
from adjoint.engine.compiler.lower.legalise import Legal
from adjoint.engine.compiler.memory.places import Place
from adjoint.engine.compiler.memory.placing import Placing, Taken, input_places
from adjoint.engine.compiler.options import Options
from adjoint.engine.compiler.package.work import PlannedWork
from adjoint.engine.compiler.schedule.lasting import kept_apart
from adjoint.engine.compiler.schedule.plan import Plan
from adjoint.engine.compiler.schedule.steps import EagerCall, Launch, Step, whole
from adjoint.engine.compiler.target import Setting, Target
from adjoint.engine.core.state.timeline import stage
from adjoint.engine.graph.execution import Task
from adjoint.engine.graph.ir import DataflowGraph, Node, Value, subgraphs
from adjoint.engine.graph.passes.pipeline import keeping, run_passes
from adjoint.engine.graph.passes.recomputation.recompute import NEAR
from adjoint.engine.graph.passes.recomputation.remat import rematerialise
from adjoint.engine.ops.shape.convert import CLONE


def plan_for(task: Task, target: Target, options: Options) -> Plan:
    """The plan of a task for a target."""
    in_blocks = task.fragment and target.blocks
    # What is checked step by step against the interpreter runs every step.
    lasting = task.lasting if target.keeps and not options.validate else frozenset()
    setting = Setting(target, options, planned, lasting=lasting, in_blocks=in_blocks)
    plan = planned(task, setting)
    plan.steps, plan.kept = kept_apart(plan.steps, plan.inputs, lasting)
    return plan


def planned(task: Task, setting: Setting) -> Plan:
    """The plan of a task, or of a loop's body, in a setting."""
    return PlanBuilder(task, setting).plan()


class PlanBuilder:
    """Makes a plan."""

    def __init__(self, task: Task, setting: Setting) -> None:
        with stage("passes over the graph"):
            flat = setting.target.prepare(run_passes(task.graph, keeping(setting.keeps)))
        with stage("decide what to compute again"):
            self.remat = rematerialise(flat, setting.options.remat, setting.target.costs)
        images = setting.target.images(self.remat.graph, setting)
        self.setting = setting = replace(setting, images=images)
        self.inputs, given = input_places(self.remat.graph, task.examples)
        with stage("legalise"):
            legal = Legal(self.remat.graph, given, setting)
        self.graph = legal.graph
        with stage("fuse"):
            target = setting.target
            self.fusion = Fusion(
                self.graph, legal.kinds, updates(self.graph, task), NEAR,
                target.columns, target.absorbs, target.level, legal.pairs,
                target.beside_each_other,
            )  # fmt: skip
            if target.beside_each_other:
                put_side_by_side(self.fusion)
            attach(self.fusion, self.graph, setting, legal.layout_of)
            self.units = ordered(self.fusion, self.graph)
        with stage("place in memory"):
            self.placing = Placing(
                task, self.graph, self.inputs, given, self.fusion, self.units, setting
            )
        self.places, self.place_of = self.placing.places, self.placing.place_of

    def plan(self) -> Plan:
        """The steps of all units, then the copies of what was not made where it belongs."""
        steps: list[Step] = []
        for unit in self.units:
            if unit.index not in self.placing.skipped:
                steps += self.unit_steps(unit)
        for value, place in self.placing.last:
            if 0 not in place.shape:
                steps.append(self.copy_step(value, place))
        return Plan(
            self.graph,
            batch(steps, self.setting.target),
            self.inputs,
            self.placing.targets,
            self.placing.results,
            self.places,
            self.remat,
        )

    def unit_steps(self, unit: Unit) -> list[Step]:
        """What a unit is done by."""
        node = unit.nodes[0]
        if unit.kind == "loop":
            kernel = self.loop_kernel(unit)
            return [] if kernel is None else [self.loop_step(unit, kernel, self.work(unit))]
        if unit.kind == "template":
            operands = [self.operand(x) for x in node.inputs]
            results = [None if self.is_unmade(unit, v) else self.places[v] for v in node.outputs]
            work = self.work(unit)
            steps = self.template_steps(unit, operands, results, work)
            for step in steps:
                if not isinstance(step, EagerCall):  # it is the reference itself
                    step.works = step.works or [work]  # a loop's body has told of its own
            return steps
        reads = tuple(
            whole(self.place_of(x).buffer)
            for x in node.inputs
            if isinstance(x, Value) and not x.host
        )
        writes = tuple(whole(self.places[v].buffer) for v in node.outputs)
        return [
            EagerCall(
                node, reads, writes, label=node.record.name, reason=why_called(self.setting, node)
            )
        ]

    def loop_kernel(self, unit: Unit) -> LoopKernel | None:
        """The kernel of fused nodes; None if nobody reads what it makes."""
        nest = Nest(unit, self.fusion, self.place_of)
        for member in unit.nodes:
            nest.visit(member)
        for member in unit.nodes:
            value = member.outputs[0]
            if value in self.places:
                nest.store(value, self.places[value])
        return nest.finish() if nest.stores else None

    def loop_step(self, unit: Unit, kernel: LoopKernel, work: PlannedWork) -> Launch:
        """A launch of generated code."""
        step = kernel_step(self.setting.target.schedule(kernel))
        step.reason = unit.reason
        step.works = [work]
        return step

    def template_steps(
        self, unit: Unit, operands: list[Any], results: list[Any], work: PlannedWork
    ) -> list[Any]:
        """A template's launches, its epilogue in the last of them or after it."""
        node, setting = unit.nodes[0], self.setting
        template = setting.template(node.record.name)
        kernel = None if unit.epilogue is None else self.loop_kernel(unit.epilogue)
        if unit.epilogue is None or kernel is None:
            return template.steps(setting, node, operands, results)
        place = results[0]
        columns = columns_of(place)
        epilogue = None if columns is None else epilogue_of(kernel, place.buffer, columns)
        if epilogue is not None and template.epilogue is not None:
            stored = unit.hidden is None
            steps = template.epilogue(setting, node, operands, place, epilogue, stored)
            if steps is not None:
                return steps
        steps = template.steps(setting, node, operands, results)
        return [*steps, self.loop_step(unit.epilogue, kernel, work)]

    def work(self, unit: Unit) -> PlannedWork:
        """What a unit's steps do (Note [works])."""
        results = [
            value for node in unit.nodes for value in node.outputs if value is not unit.hidden
        ]
        results = [value for value in results if not self.is_unmade(unit, value)]
        stores = [(value, self.places[value]) for value in results if value in self.places]
        return PlannedWork(unit.nodes, stores, self.fusion, self.place_of)

    def is_unmade(self, unit: Unit, value: Value) -> bool:
        """Whether a template need not make a result of its node, since nobody reads it."""
        node = unit.nodes[0]
        if unit.kind != "template" or value.node is not node or value in self.placing.readers:
            return False
        return node.outputs.index(value) in self.setting.template(node.record.name).optional

    def operand(self, x: Any) -> Any:
        """A template's operand: a place, a number, or None for what needs no memory."""
        if not isinstance(x, Value) or x.host:
            return x
        return None if x in self.fusion.fills else self.place_of(x)

    def copy_step(self, value: Any, place: Place) -> Step:
        """A copy of a value to another place."""
        source = value.place if isinstance(value, Taken) else self.place_of(value)
        if value.spec.dtype.name not in self.setting.target.dtypes:  # no kernel loads it
            original = Value("held", value.spec)
            node = Node(CLONE, (original,), {})
            node.outputs = (Value("copy", value.spec, node),)
            self.places[original], self.places[node.outputs[0]] = source, place
            reads, writes = (whole(source.buffer),), (whole(place.buffer),)
            return EagerCall(
                node, reads, writes, label="copy", reason=why_called(self.setting, node)
            )
        return copy_step(self.setting.target, source, place)


def why_called(setting: Setting, node: Node) -> str:
    """Why no native code does a node."""
    dtypes = {
        v.spec.dtype.name
        for v in (*node.outputs, *(x for x in node.inputs if isinstance(x, Value)))
    }
    foreign = sorted(dtypes - setting.target.dtypes)
    if foreign:
        return f"kernels do not compute in {', '.join(foreign)}"
    if any(0 in v.spec.shape for v in node.outputs):
        return "nothing to compute"
    return (subgraphs(node) and refusal(setting, node)) or "no native code for it"


def updates(graph: DataflowGraph, task: Task) -> frozenset[Node]:
    """Nodes whose results go nowhere but into state (Note [state updates])."""
    shown = {graph.outputs[k] for k in task.returned}
    only: set[Node] = set()
    outside: set[Value] = set(shown)  # values that something else uses
    for node in reversed(graph.nodes):
        if not any(v in outside for v in node.outputs):
            only.add(node)  # dead code is gone, so it leads to a write
        else:
            outside.update(x for x in node.inputs if isinstance(x, Value))
    return frozenset(only)
