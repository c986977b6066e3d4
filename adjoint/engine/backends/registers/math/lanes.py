"""Functions of one lane called for each: loops that lanes leave at different times."""

from __future__ import annotations

from collections.abc import Sequence

from adjoint.engine.backends.registers.vector import Code, V, type_text


def struct(kinds: Sequence[str], lanes: int = 1) -> str:
    """The type of several results."""
    return "{ " + ", ".join(type_text(k, lanes) for k in kinds) + " }"


def by_lane(
    code: Code, name: str, text: str, operands: Sequence[V], results: Sequence[str]
) -> list[V]:
    """The results of a function of scalars, which `text` defines as `@name`, in every lane.

    It returns a struct of its results; it and the loop around it become part of the module.
    """
    lanes = operands[0].lanes
    code.declarations |= {text, _loop(name, lanes, [x.kind for x in operands], results)}
    given = ", ".join(f"{x.type} {x.ref}" for x in operands)
    whole = struct(results, lanes)
    whole_result = code.let(f"call {whole} @{name}.v{lanes}({given})")
    return [
        V(code, code.let(f"extractvalue {whole} {whole_result}, {i}"), kind, lanes)
        for i, kind in enumerate(results)
    ]


def _loop(name: str, lanes: int, kinds: Sequence[str], results: Sequence[str]) -> str:
    wide_in = [type_text(k, lanes) for k in kinds]
    wide_out = [type_text(k, lanes) for k in results]
    one, whole = struct(results), struct(results, lanes)
    lines = [
        *(f"%p{i} = alloca {t}" for i, t in enumerate(wide_in)),
        *(f"%q{i} = alloca {t}" for i, t in enumerate(wide_out)),
        *(f"store {t} %x{i}, ptr %p{i}" for i, t in enumerate(wide_in)),
        "br label %loop",
        "loop:",
        "%i = phi i64 [ 0, %entry ], [ %next, %loop ]",
    ]
    for i, kind in enumerate(kinds):
        element = type_text(kind, 1)
        lines.append(f"%a{i} = getelementptr {element}, ptr %p{i}, i64 %i")
        lines.append(f"%v{i} = load {element}, ptr %a{i}")
    given = ", ".join(f"{type_text(k, 1)} %v{i}" for i, k in enumerate(kinds))
    lines.append(f"%made = call {one} @{name}({given})")
    for i, kind in enumerate(results):
        element = type_text(kind, 1)
        lines.append(f"%r{i} = extractvalue {one} %made, {i}")
        lines.append(f"%b{i} = getelementptr {element}, ptr %q{i}, i64 %i")
        lines.append(f"store {element} %r{i}, ptr %b{i}")
    lines += [
        "%next = add i64 %i, 1",
        f"%more = icmp slt i64 %next, {lanes}",
        "br i1 %more, label %loop, label %done",
        "done:",
    ]
    last = "poison"
    for i, t in enumerate(wide_out):
        lines.append(f"%w{i} = load {t}, ptr %q{i}")
        lines.append(f"%s{i} = insertvalue {whole} {last}, {t} %w{i}, {i}")
        last = f"%s{i}"
    parameters = ", ".join(f"{t} %x{i}" for i, t in enumerate(wide_in))
    body = "\n  ".join([*lines, f"ret {whole} {last}"])
    return (
        f"define internal {whole} @{name}.v{lanes}({parameters}) noinline {{\nentry:\n  {body}\n}}"
    )
