"""A whole module of LLVM's text as one C file."""

from __future__ import annotations

import re

from adjoint.export.c_source.body import Body
from adjoint.export.c_source.instructions import RULES
from adjoint.export.c_source.types import Type, parse_type
from adjoint.export.c_source.values import c_name, number, parse_value, skip
from adjoint.export.errors import ExportError

_PHI = re.compile(r"\[ (.*?), %([\w.]+) \]")
_HEAD = re.compile(
    r"^define (internal )?(?:dso_local )?(.*?) @([\w.]+)\((.*)\)(?: noinline)?[^()]*\{$"
)


def c_text(text: str, header: str, own: str) -> str:
    """The C file of a module in the form that LLVM prints, for the functions of a header."""
    bodies: list[tuple[str, Body]] = []
    shared = Body()
    constants: list[str] = []
    lines = iter(text.splitlines())
    for line in lines:
        if line.startswith("@"):
            constants.append(_constant(line))
        elif line.startswith("define "):
            inner = []
            for text_line in lines:
                if text_line == "}":
                    break
                inner.append(text_line)
            bodies.append(_function(line, inner, shared))
    return _file(header, own, shared, constants, bodies)


def _file(
    header: str, own: str, shared: Body, constants: list[str], bodies: list[tuple[str, Body]]
) -> str:
    types = []
    for of in sorted(shared.vectors, key=lambda t: (t.scalar, t.count)):
        bits = {"float": 4, "double": 8, "i1": 1}.get(of.scalar) or int(of.scalar[1:]) // 8
        element = of.element.name
        types.append(
            f"typedef {element} {of.name} __attribute__((vector_size({bits * of.count})));"
        )
        if not of.is_float:
            signed = "int8_t" if of.scalar == "i1" else element[1:]
            types.append(
                f"typedef {signed} {of.name}_s __attribute__((vector_size({bits * of.count})));"
            )
    for of in sorted(shared.structs, key=lambda t: t.name):
        fields = " ".join(f"{part.name} m{k};" for k, part in enumerate(of.parts))
        types.append(f"typedef struct {{ {fields} }} {of.name};")
    heads = [f"{head};" for head, _ in bodies]
    written = [f"{head} {{\n{_text(body)}\n}}" for head, body in bodies]
    return "\n".join(
        [_PREFACE.replace("OWN", own), *types, *shared.helpers.values(), *heads, *constants,
         "", *written, *_wrappers(header), ""]
    )  # fmt: skip


def _wrappers(header: str) -> list[str]:
    """The functions that a header declares, which call those that LLVM's became."""
    wrappers = []
    plain = header.replace("ADJOINT_RESTRICT", "restrict")
    for kind, name, given in re.findall(r"^([a-z][\w ]*?[ *]+)(\w+)\(([^;]*?)\);$", plain, re.M):
        listed = [" ".join(part.split()) for part in given.split(",")]
        arguments = []
        for parameter in listed:
            own = re.split(r"[ *]", parameter)[-1]
            cast = (
                "uintptr_t"
                if "*" in parameter
                else {"int64_t": "uint64_t", "int": "uint32_t"}.get(parameter.split()[0], "")
            )
            arguments.append(f"({cast}){own}" if cast else own)
        call = f"g_{name}({', '.join(arguments)})"
        back = "" if kind.strip() == "void" else f"return ({kind.strip()})"
        wrappers.append(f"{kind}{name}({', '.join(listed)}) {{ {back}{call}; }}")
    return wrappers


_PREFACE = """\
/* OWN: a program of Adjoint's as one C file, for GCC and Clang. See OWN.h.
 * Compile it with -O2 or -O3, and not with -ffast-math: NaN and rounding are meant. */
#include "OWN.h"
#pragma GCC diagnostic ignored "-Wpsabi"
#pragma GCC diagnostic ignored "-Wunused-but-set-variable"
#pragma GCC diagnostic ignored "-Wunused-function"
#pragma GCC diagnostic ignored "-Wunused-label"
#pragma GCC diagnostic ignored "-Wunused-parameter"
#pragma GCC diagnostic ignored "-Wunused-variable"
#ifndef __clang__
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#if defined(__has_builtin)
#if __has_builtin(__builtin_shufflevector)
#define ADJOINT_SHUFFLE(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#endif
#endif
#ifndef ADJOINT_SHUFFLE
#error "this file needs GCC 12 or Clang"
#endif
"""


def _text(body: Body) -> str:
    declared = []
    for name, kind in body.variables.items():
        declared.append(f"  {kind};" if kind.startswith("unsigned char ") else f"  {kind} {name};")
    return "\n".join([*declared, *(f"  {line}" for line in body.lines)])


def _label(name: str) -> str:
    return c_name(f"%{name}").replace("l_", "b_", 1)


def _function(line: str, inner: list[str], shared: Body) -> tuple[str, Body]:
    head = _HEAD.match(line)
    if head is None:
        raise ExportError(f"export: {line!r} has no form in C.")
    of, _ = parse_type(head[2])
    body = Body()
    body.vectors, body.structs, body.helpers = shared.vectors, shared.structs, shared.helpers
    body.note(of)
    given, at, listed = [], 0, head[4]
    while at < len(listed):
        kind, at = parse_type(listed, at)
        body.note(kind)
        name = re.match(r"[^%]*%([\w.]+)", listed[at:])
        assert name is not None
        given.append(f"{kind.name} {c_name('%' + name[1])}")
        at = skip(listed, at + name.end() + 1)
    _write(body, _blocks(inner), of)
    attribute = "__attribute__((noinline)) " if " noinline " in line else ""
    return (
        f"static {attribute}{of.name} {c_name('@' + head[3])}({', '.join(given) or 'void'})",
        body,
    )


def _blocks(inner: list[str]) -> list[tuple[str, list[str]]]:
    """The blocks of a function by their labels; instructions over several lines put together."""
    blocks: list[tuple[str, list[str]]] = []
    for raw in inner:
        line = raw.split(" ; preds")[0].rstrip()
        label = re.match(r"^([\w.]+):", line)
        if label is not None:
            blocks.append((label[1], []))
        elif line.strip():
            if not blocks:
                blocks.append(("entry", []))
            text = line.strip()
            if blocks[-1][1] and _open(blocks[-1][1][-1]):
                blocks[-1][1][-1] += f" {text}"
            else:
                blocks[-1][1].append(text)
    return blocks


def _open(text: str) -> bool:
    """Whether a switch's list goes on."""
    return text.startswith("switch ") and "]" not in text


def _write(body: Body, blocks: list[tuple[str, list[str]]], of: Type) -> None:
    phis: dict[str, list[tuple[str, Type, dict[str, str]]]] = {}
    for label, lines in blocks:
        for line in lines:
            name, _, rest = line.partition(" = phi ")
            if not rest:
                continue
            kind, _ = parse_type(rest)
            body.note(kind)
            sources = {b: parse_value(kind, v, 0)[0] for v, b in _PHI.findall(rest)}
            own = c_name(name)
            body.variables[own] = body.variables[f"{own}_next"] = kind.name
            phis.setdefault(label, []).append((own, kind, sources))
    for label, lines in blocks:
        body.lines.append(f"{_label(label)}:;")
        for own, _, _ in phis.get(label, []):
            body.lines.append(f"{own} = {own}_next;")
        for line in lines:
            if " = phi " in line:
                continue
            _instruction(body, line, label, phis, of)


def _edge(label: str, to: str, phis: dict[str, list[tuple[str, Type, dict[str, str]]]]) -> str:
    """A jump, after what the values at its end are."""
    moves = " ".join(f"{own}_next = {sources[label]};" for own, _, sources in phis.get(to, []))
    return f"{{ {moves} goto {_label(to)}; }}" if moves else f"goto {_label(to)};"


def _instruction(
    body: Body,
    line: str,
    label: str,
    phis: dict[str, list[tuple[str, Type, dict[str, str]]]],
    of: Type,
) -> None:
    name, rest = "", line
    assignment = re.match(r"^(%[\w.]+) = (.*)$", line)
    if assignment is not None:
        name, rest = c_name(assignment[1]), assignment[2]
    rest = rest.removeprefix("tail ").removeprefix("musttail ")
    operation, _, operands = rest.partition(" ")
    if operation == "br":
        ends = re.findall(r"label %([\w.]+)", operands)
        if len(ends) == 1:
            body.lines.append(_edge(label, ends[0], phis))
            return
        by, _ = parse_value(Type("i1"), operands, 3)
        body.lines.append(f"if ({by}) {_edge(label, ends[0], phis)}")
        body.lines.append(f"else {_edge(label, ends[1], phis)}")
    elif operation == "switch":
        kind, at = parse_type(operands)
        value, at = parse_value(kind, operands, at)
        default = re.search(r"label %([\w.]+)", operands[at:])
        assert default is not None
        cases = re.findall(r"i\d+ (-?\d+), label %([\w.]+)", operands[at + default.end() :])
        body.lines.append(f"switch ({value}) {{")
        for case, to in cases:
            body.lines.append(f"case {number(kind, case)}: {_edge(label, to, phis)}")
        body.lines.append(f"default: {_edge(label, default[1], phis)} }}")
    elif operation == "ret":
        body.lines.append(
            "return;"
            if operands == "void"
            else f"return {parse_value(of, operands, parse_type(operands)[1])[0]};"
        )
    elif operation == "unreachable":
        body.lines.append("__builtin_unreachable();")
    elif operation in RULES:
        RULES[operation](body, name, operands)
    else:
        raise ExportError(f"export: LLVM's instruction {operation!r} has no form in C.")


# -- constants ------------------------------------------------------------------------------------


def _constant(line: str) -> str:
    definition = re.match(
        r"^@([\w.]+) = (internal |private )?(?:unnamed_addr )?constant (.*)$", line
    )
    if definition is None:
        raise ExportError(f"export: {line[:80]!r} has no form in C.")
    name, rest = definition[1], definition[3]
    kind, at = parse_type(rest)
    aligned = re.search(r", align (\d+)$", rest)
    align = f" __attribute__((aligned({aligned[1]})))" if aligned else ""
    own_name, head = c_name(f"@{name}"), "static "
    element = kind.element.name if kind.kind == "array" else kind.name
    if kind.kind == "array" and kind.element.kind == "ptr":
        items = re.findall(r"ptr @([\w.]+)", rest[at:])
        listed = ", ".join(f"(void *)&{c_name('@' + item)}" for item in items)
        return f"static void *const {own_name}[{kind.count}] = {{{listed}}};"
    if "unsigned char" in element or (kind.kind == "array" and kind.element.kind == "i8"):
        data = _bytes(rest, at, kind.count)
        return f"{head}const unsigned char {own_name}[{max(kind.count, 1)}]{align} = {{{data}}};"
    if rest[at:].lstrip().startswith("zeroinitializer"):
        return f"{head}const {element} {own_name}[{max(kind.count, 1)}]{align} = {{0}};"
    if kind.kind != "array":
        value, _ = parse_value(kind, rest, at)
        return f"{head}const {element} {own_name}{align} = {value};"
    body = rest[at:].strip().split("]")[0].lstrip("[")
    listing = re.findall(rf"{kind.element.kind} ([^,]+)", body) or ["0"]
    listed = ", ".join(number(kind.element, item) for item in listing)
    return f"{head}const {element} {own_name}[{max(kind.count, 1)}]{align} = {{{listed}}};"


def _bytes(rest: str, at: int, count: int) -> str:
    """A string of LLVM's as numbers."""
    text = rest[at:].lstrip()
    if text.startswith("zeroinitializer"):
        return "0"
    if not text.startswith('c"'):
        raise ExportError(f"export: {text[:60]!r} has no form in C.")
    data: list[int] = []
    k = 2
    while len(data) < count:
        if text.startswith("\\\\", k):
            data.append(ord("\\"))
            k += 2
        elif text[k] == "\\":
            data.append(int(text[k + 1 : k + 3], 16))
            k += 3
        else:
            data.append(ord(text[k]))
            k += 1
    return ",".join(map(str, data)) or "0"
