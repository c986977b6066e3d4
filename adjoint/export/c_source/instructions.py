"""Instructions of LLVM's as statements of C; `RULES` is the table of those that there are."""

from __future__ import annotations

import re
from collections.abc import Callable

from adjoint.export.c_source.body import SIGNED, Body
from adjoint.export.c_source.intrinsics import call_intrinsic
from adjoint.export.c_source.types import Type, parse_type
from adjoint.export.c_source.values import c_name, parse_value, skip, zero
from adjoint.export.errors import ExportError

BYTE = Type("i1")
_FLAGS = re.compile(r"^(?:nuw|nsw|exact|disjoint|nneg|inbounds|samesign|nusw) ")


def flagless(text: str) -> str:
    """What follows an operation's flags."""
    while (flag := _FLAGS.match(text)) is not None:
        text = text[flag.end() :]
    return text


def _two(text: str) -> tuple[Type, str, str]:
    of, at = parse_type(flagless(text))
    a, at = parse_value(of, flagless(text), at)
    b, _ = parse_value(of, flagless(text), at + 1)
    return of, a, b


def _binary(sign: str) -> Callable[[Body, str, str], None]:
    def rule(body: Body, name: str, text: str) -> None:
        of, a, b = _two(text)
        if of.kind in ("i8", "i16", "i1"):  # C would compute these as signed ints
            body.let(name, of, f"({of.name})((uint32_t){a} {sign} (uint32_t){b})")
        else:
            body.let(name, of, f"({of.name})({a} {sign} {b})")

    return rule


def _signed(sign: str) -> Callable[[Body, str, str], None]:
    def rule(body: Body, name: str, text: str) -> None:
        of, a, b = _two(text)
        signed = body.signed(of)
        body.let(name, of, f"({of.name})(({signed}){a} {sign} ({signed}){b})")

    return rule


def _shift(sign: str, *, signed: bool = False) -> Callable[[Body, str, str], None]:
    """A shift; by too many bits, which LLVM leaves open, by some number of them."""

    def rule(body: Body, name: str, text: str) -> None:
        of, a, b = _two(text)
        bits = int(of.scalar[1:])
        by = f"({b} & ({of.name}){{{', '.join([str(bits - 1)] * of.count)}}})"
        if not of.is_vector:
            by = f"({b} & {bits - 1})"
        if signed:
            kind = body.signed(of)
            shifted = f"({kind}){a} {sign} ({kind}){by}"
        else:
            shifted = f"({of.name}){a} {sign} {by}"
        body.let(name, of, f"({of.name})({shifted})")

    return rule


_INTEGER = {
    "eq": ("==", False), "ne": ("!=", False), "slt": ("<", True), "sle": ("<=", True),
    "sgt": (">", True), "sge": (">=", True), "ult": ("<", False), "ule": ("<=", False),
    "ugt": (">", False), "uge": (">=", False),
}  # fmt: skip
# Ordered comparisons are C's; unordered ones the opposites of their opposites.
_FLOAT = {
    "oeq": "{a} == {b}", "ogt": "{a} > {b}", "oge": "{a} >= {b}", "olt": "{a} < {b}",
    "ole": "{a} <= {b}", "une": "{a} != {b}",
    "one": "({a} < {b}) | ({a} > {b})", "ord": "({a} == {a}) & ({b} == {b})",
    "uno": "({a} != {a}) | ({b} != {b})",
    "ueq": "({a} == {b}) | ({a} != {a}) | ({b} != {b})",
    "ugt": "({a} > {b}) | ({a} != {a}) | ({b} != {b})",
    "uge": "({a} >= {b}) | ({a} != {a}) | ({b} != {b})",
    "ult": "({a} < {b}) | ({a} != {a}) | ({b} != {b})",
    "ule": "({a} <= {b}) | ({a} != {a}) | ({b} != {b})",
}  # fmt: skip


def _compared(body: Body, name: str, of: Type, expression: str) -> None:
    """A truth value, or a mask that is kept as wide as it was made too."""
    truth = of.lanes_of("i1")
    if not of.is_vector:
        body.let(name, truth, f"(uint8_t)({expression})")
        return
    bits = {"float": "i32", "double": "i64", "i1": "i8", "ptr": "i64"}.get(of.scalar, of.scalar)
    width = of.lanes_of(bits)
    body.note(width)
    body.note(truth)
    body.variables[f"{name}_w"] = f"{width.name}_s"
    body.masks[name] = int(bits[1:])
    body.lines.append(f"{name}_w = ({width.name}_s)({expression});")
    body.let(name, truth, f"({truth.name})__builtin_convertvector({name}_w, v{of.count}m8_s)")


def _icmp(body: Body, name: str, text: str) -> None:
    text = flagless(text)
    predicate, rest = text.split(" ", 1)
    of, a, b = _two(rest)
    sign, is_signed = _INTEGER[predicate]
    cast = f"({body.signed(of)})" if is_signed else ""
    _compared(body, name, of, f"{cast}{a} {sign} {cast}{b}")


def _fcmp(body: Body, name: str, text: str) -> None:
    predicate, rest = text.split(" ", 1)
    of, a, b = _two(rest)
    body.note(of)
    _compared(body, name, of, _FLOAT[predicate].format(a=a, b=b))


def _logic(sign: str) -> Callable[[Body, str, str], None]:
    plain = _binary(sign)

    def rule(body: Body, name: str, text: str) -> None:
        of, a, b = _two(text)
        if not (of.is_vector and of.scalar == "i1"):
            plain(body, name, text)
            return
        width = body.masks.get(a) or body.masks.get(b)
        body.let(name, of, f"{a} {sign} {b}")
        if width and (body.masks.get(a), body.masks.get(b)) == (width, width):
            kind = of.lanes_of(f"i{width}")
            body.variables[f"{name}_w"] = f"{kind.name}_s"
            body.masks[name] = width
            body.lines.append(f"{name}_w = {a}_w {sign} {b}_w;")

    return rule


def _fneg(body: Body, name: str, text: str) -> None:
    of, at = parse_type(text)
    value, _ = parse_value(of, text, at)
    body.let(name, of, f"-{value}")


def _cast(kind: str) -> Callable[[Body, str, str], None]:
    def rule(body: Body, name: str, text: str) -> None:
        text = flagless(text)
        of, at = parse_type(text)
        value, at = parse_value(of, text, at)
        to, _ = parse_type(text, text.index(" to ", at) + 4)
        body.note(of)
        body.let(name, to, _casted(body, kind, of, to, value))

    return rule


def _casted(body: Body, kind: str, of: Type, to: Type, value: str) -> str:
    if kind == "bitcast":
        if of.is_vector and to.is_vector and "i1" not in (of.scalar, to.scalar):
            return f"({to.name}){value}"
        helper = f"bits_{of.name}_{to.name}"
        body.helpers[helper] = (
            f"static inline {to.name} {helper}({of.name} x) "
            f"{{ {to.name} r; __builtin_memcpy(&r, &x, sizeof r); return r; }}"
        )
        return f"{helper}({value})"
    if of.scalar == "i1":
        return _from_truth(body, kind, of, to, value)
    if to.scalar == "i1":
        bit = f"({value} & 1)"
        if not to.is_vector:
            return f"(uint8_t){bit}"
        one = f"({of.name}){{{', '.join(['1'] * of.count)}}}"
        wide = f"({body.signed(of)})(({value} & {one}) != 0)"
        body.note(to)
        return f"({to.name})__builtin_convertvector({wide}, v{of.count}m8_s)"
    signs = {"sitofp": (True, False), "sext": (True, True), "fptosi": (False, True)}
    takes, gives = signs.get(kind, (False, False))
    source = f"({body.signed(of)}){value}" if takes else value
    target = body.signed(to) if gives else to.name
    if of.is_vector:
        return f"({to.name})__builtin_convertvector({source}, {target})"
    return f"({to.name})({target})({source})"


def _from_truth(body: Body, kind: str, of: Type, to: Type, value: str) -> str:
    minus = kind in ("sext", "sitofp")
    if not of.is_vector:
        return f"({to.name})({'-' if minus else ''}(int32_t){value})"
    wide = body.wide(value, to)
    bits = {"float": "i32", "double": "i64"}.get(to.scalar, to.scalar)
    width = to.lanes_of(bits)
    counted = wide if minus else f"(-({wide}))"
    if to.is_float:
        body.note(width)
        return f"__builtin_convertvector({counted}, {to.name})"
    return f"({to.name}){counted}"


def _select(body: Body, name: str, text: str) -> None:
    by, at = parse_type(text)
    mask, at = parse_value(by, text, at)
    of, at = parse_type(text, skip(text, at + 1))
    a, at = parse_value(of, text, at)
    _, at = parse_type(text, skip(text, at + 1))
    b, _ = parse_value(of, text, at)
    if not by.is_vector:
        body.let(name, of, f"{mask} ? {a} : {b}")
        return
    wide = body.wide(mask, of)
    bits = {"float": "i32", "double": "i64", "i1": "i8"}.get(of.scalar, of.scalar)
    kind = f"{of.lanes_of(bits).name}_s"
    body.note(of)
    chosen = f"(({wide}) & ({kind}){a}) | (~({wide}) & ({kind}){b})"
    body.let(name, of, f"({of.name})({chosen})")


def _getelementptr(body: Body, name: str, text: str) -> None:
    text = flagless(text)
    of, at = parse_type(text)
    base, at = parse_value(Type("ptr"), text, text.index("ptr ", at) + 4)
    if ", <" in text[at:]:
        raise ExportError("export: a vector of addresses has no form in C.")
    kind, at = parse_type(text, skip(text, at + 1))
    index, at = parse_value(kind, text, at)
    if text[at:].startswith(","):
        raise ExportError(f"export: {text!r} has no form in C.")
    signed = f"(intptr_t)({SIGNED[kind.kind]}){index}"
    body.let(name, Type("ptr"), f"{base} + (uintptr_t)({signed}) * {of.size_text()}")


def _load(body: Body, name: str, text: str) -> None:
    atomic = text.startswith("atomic ")
    text = text.removeprefix("atomic ").removeprefix("volatile ")
    of, at = parse_type(text)
    place, _ = parse_value(Type("ptr"), text, text.index("ptr ", at) + 4)
    if atomic:
        body.let(name, of, f"__atomic_load_n(({of.name} *){place}, __ATOMIC_SEQ_CST)")
        return
    body.note(of)
    if of.is_vector and of.scalar == "i1":
        raise ExportError("export: truth values packed in bits have no form in C.")
    body.variables[name] = of.name
    body.lines.append(f"__builtin_memcpy(&{name}, (const void *){place}, sizeof {name});")
    if of.kind == "i1":
        body.lines.append(f"{name} &= 1;")


def _store(body: Body, name: str, text: str) -> None:
    atomic = text.startswith("atomic ")
    text = text.removeprefix("atomic ").removeprefix("volatile ")
    of, at = parse_type(text)
    value, at = parse_value(of, text, at)
    place, _ = parse_value(Type("ptr"), text, text.index("ptr ", at) + 4)
    body.note(of)
    if atomic:
        body.lines.append(f"__atomic_store_n(({of.name} *){place}, {value}, __ATOMIC_SEQ_CST);")
        return
    body.lines.append(
        f"{{ {of.name} x = {value}; __builtin_memcpy((void *){place}, &x, sizeof x); }}"
    )


def _alloca(body: Body, name: str, text: str) -> None:
    of, at = parse_type(text)
    aligned = re.search(r"align (\d+)", text[at:])
    align = f" __attribute__((aligned({aligned[1]})))" if aligned else ""
    room = f"{name}_room"
    body.variables[room] = f"unsigned char {room}[{of.size_text()}]{align}"
    body.let(name, Type("ptr"), f"(uintptr_t){room}")


def _cmpxchg(body: Body, name: str, text: str) -> None:
    place, at = parse_value(Type("ptr"), text, 4)
    of, at = parse_type(text, skip(text, at + 1))
    expected, at = parse_value(of, text, at)
    _, at = parse_type(text, skip(text, at + 1))
    new, _ = parse_value(of, text, at)
    pair = Type("struct", 2, (of, BYTE))
    body.note(pair)
    body.variables[name] = pair.name
    body.lines.append(
        f"{name}.m0 = {expected}; {name}.m1 = __atomic_compare_exchange_n(({of.name} *){place}, "
        f"&{name}.m0, {new}, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);"
    )


def _extractelement(body: Body, name: str, text: str) -> None:
    of, at = parse_type(text)
    value, at = parse_value(of, text, at)
    kind, at = parse_type(text, skip(text, at + 1))
    index, _ = parse_value(kind, text, at)
    one = f"{value}[{index}]"
    body.note(of)
    body.let(name, of.element, f"{one} & 1" if of.scalar == "i1" else one)


def _insertelement(body: Body, name: str, text: str) -> None:
    of, at = parse_type(text)
    value, at = parse_value(of, text, at)
    kind, at = parse_type(text, skip(text, at + 1))
    item, at = parse_value(kind, text, at)
    third, at = parse_type(text, skip(text, at + 1))
    index, _ = parse_value(third, text, at)
    body.let(name, of, value)
    body.lines.append(f"{name}[{index}] = {f'-{item}' if of.scalar == 'i1' else item};")


def _shufflevector(body: Body, name: str, text: str) -> None:
    of, at = parse_type(text)
    a, at = parse_value(of, text, at)
    _, at = parse_type(text, skip(text, at + 1))
    b, at = parse_value(of, text, at)
    mask, at = parse_type(text, skip(text, at + 1))
    rest = text[skip(text, at) :]
    if rest.startswith(("zeroinitializer", "splat")):
        first = 0 if rest.startswith("zero") else int(rest.split("i32 ")[1].split(")")[0])
        lanes = [first] * mask.count
    else:
        lanes = [0 if x == "poison" else int(x) for x in re.findall(r"i32 (-?\w+)", rest)]
    to = Type("vector", mask.count, of.parts)
    body.note(of)
    picked = ", ".join(f"{a}[{k}]" if k < of.count else f"{b}[{k - of.count}]" for k in lanes)
    if len(lanes) == of.count:  # which compilers know as one instruction
        helper = "ADJOINT_SHUFFLE"
        body.let(name, to, f"{helper}({a}, {b}, {', '.join(map(str, lanes))})")
        return
    body.let(name, to, f"({to.name}){{{picked}}}")


def _extractvalue(body: Body, name: str, text: str) -> None:
    of, at = parse_type(text)
    value, at = parse_value(of, text, at)
    k = int(text[at:].lstrip(", "))
    body.let(name, of.parts[k], f"{value}.m{k}")


def _insertvalue(body: Body, name: str, text: str) -> None:
    of, at = parse_type(text)
    value, at = parse_value(of, text, at)
    kind, at = parse_type(text, skip(text, at + 1))
    item, at = parse_value(kind, text, at)
    body.let(name, of, value if value != zero(of) else zero(of))
    body.lines.append(f"{name}.m{int(text[at:].lstrip(', '))} = {item};")


def _freeze(body: Body, name: str, text: str) -> None:
    of, at = parse_type(text)
    body.let(name, of, parse_value(of, text, at)[0])


def _call(body: Body, name: str, text: str) -> None:
    of, at = parse_type(text)
    at = skip(text, at)
    if text[at] == "(":  # the type of a function with any number of arguments
        raise ExportError("export: a program with threads has no form as one C file.")
    end = text.index("(", at)
    callee, at = text[at:end], end + 1
    types: list[Type] = []
    values: list[str] = []
    while text[at] != ")":
        kind, at = parse_type(text, at)
        at = skip(text, at)
        while (
            attribute := re.match(r"(?:align \d+|noundef|nonnull|nocapture) ", text[at:])
        ) is not None:
            at += attribute.end()
        value, at = parse_value(kind, text, at)
        types.append(kind)
        values.append(value)
        at = skip(text, at + 1) if text[at] == "," else at
    for used_type in (of, *types):
        body.note(used_type)
    if callee.startswith("@llvm."):
        expression = call_intrinsic(body, callee[6:], of, types, values)
    elif callee.startswith("@"):
        expression = f"{c_name(callee)}({', '.join(values)})"
    else:
        signature = ", ".join(t.name for t in types)
        expression = f"(({of.name} (*)({signature})){c_name(callee)})({', '.join(values)})"
    if of.kind == "void":
        if expression:
            body.lines.append(f"{expression};")
    else:
        body.let(name or f"unused_{len(body.variables)}", of, expression)


RULES: dict[str, Callable[[Body, str, str], None]] = {
    "add": _binary("+"), "sub": _binary("-"), "mul": _binary("*"), "udiv": _binary("/"),
    "urem": _binary("%"), "and": _logic("&"), "or": _logic("|"), "xor": _logic("^"),
    "fadd": _binary("+"), "fsub": _binary("-"), "fmul": _binary("*"), "fdiv": _binary("/"),
    "sdiv": _signed("/"), "srem": _signed("%"), "shl": _shift("<<"), "lshr": _shift(">>"),
    "ashr": _shift(">>", signed=True), "icmp": _icmp, "fcmp": _fcmp, "fneg": _fneg,
    "select": _select, "getelementptr": _getelementptr, "load": _load, "store": _store,
    "alloca": _alloca, "cmpxchg": _cmpxchg, "extractelement": _extractelement,
    "insertelement": _insertelement, "shufflevector": _shufflevector,
    "extractvalue": _extractvalue, "insertvalue": _insertvalue, "freeze": _freeze, "call": _call,
    **{kind: _cast(kind) for kind in (
        "trunc", "zext", "sext", "fptrunc", "fpext", "sitofp", "uitofp", "fptosi", "fptoui",
        "bitcast", "inttoptr", "ptrtoint",
    )},
}  # fmt: skip
