"""One performed operation as its rules see it, outside the tape (which follows plans instead)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from adjoint.engine.core.operations.families import pull, pull_jointly, push
from adjoint.engine.core.operations.record import Record, is_tensor


@dataclass(frozen=True, slots=True)
class Call:
    """An operation, its operands and its results."""

    record: Record
    operands: Sequence[Any]
    params: dict[str, Any]
    outs: tuple[Any, ...]

    def push(self, tangents: Sequence[Any]) -> Any:
        """The tangents of the results; NotImplemented where only a vjp is stated."""

        def look_up(name: str) -> Any:
            if name == "ts":
                return tangents
            if name[:1] == "t" and self.record.has_operand(name[1:]):
                return self.record.operand(tangents, name[1:])
            return self.look_up(name)

        return push(self.record, self.operands, tangents, look_up, self.params)

    def pull(self, gs: Sequence[Any], needed: Sequence[bool]) -> list[Any]:
        """The cotangents of the operands that are `needed`, from those of the results."""
        if self.record.joint is not None:
            return self._pull_jointly(gs, needed)
        return [self._pull_one(gs, position) if n else None for position, n in enumerate(needed)]

    def _pull_jointly(self, gs: Sequence[Any], needed: Sequence[bool]) -> list[Any]:
        def look_up(name: str) -> Any:
            match name:
                case "g":
                    return gs[0]
                case "gs":
                    return gs
                case "needed":
                    return needed
                case "params":
                    return self.params
            return self.look_up(name)

        return pull_jointly(self.record, needed, look_up)

    def _pull_one(self, gs: Sequence[Any], position: int) -> Any:
        def look_up(name: str) -> Any:
            match name:
                case "g":
                    return gs[0]
                case "gs":
                    return gs
                case "position":
                    return position
                case "spec":
                    return self.operands[position]._spec
            return self.look_up(name)

        return pull(self.record, position, look_up)

    def look_up(self, name: str) -> Any:
        """What a rule may ask for by name, besides cotangents and tangents (Note [rules])."""
        match name:
            case "out":
                return self.outs[0]
            case "outs":
                return self.outs
            case "later_outs":
                return self.outs[1:]
            case "first_outs":
                return self.outs[:2]
            case "out_spec":
                return self.outs[0]._spec
            case "out_specs":
                return tuple(out._spec for out in self.outs)
            case "x_specs":
                return self.specs()
        if self.record.has_operand(name):
            return self.record.operand(self.operands, name)
        if name.endswith("_spec") and self.record.has_operand(name[:-5]):
            return self.record.operand(self.specs(), name[:-5])
        return self.params[name]

    def specs(self) -> list[Any]:
        """The operands' specs; None for what is no tensor."""
        return [x._spec if is_tensor(x) else None for x in self.operands]
