"""Adjoint's core, from scratch.

This file builds a small Adjoint in plain Python and NumPy, with the names and the structure of the
real one. Read it from top to bottom and run it: every claim is asserted. What it leaves out is
breadth (dtypes, devices, hundreds of operations) and speed. At each heading, the files where the
real thing lives.
"""

from __future__ import annotations

import heapq
import inspect
import itertools

import numpy as np

# Set by hand, so that what belongs together stays on one screen.
# fmt: off

# -- 1. The record -----------------------------------------------------------------------------
# (core/operations/record.py) Everything the framework knows about an operation is stated once, in a
# record: how the result looks (`infer`), its derivative (`rules`, one per operand), how its
# parameters change when a batch dimension is put in front (`batched_params`), and whether it is a
# view. How it is computed is not here: each backend keeps its own table of kernels.

class Rule:
    """A derivative rule. Its parameter names declare what it needs, and only that is saved:
    x, y (operands), out (result), g (cotangent), x_shape, y_shape, or a parameter's name."""

    def __init__(self, fn):
        self.fn, self.names = fn, tuple(inspect.signature(fn).parameters)

    def __call__(self, look_up):
        return self.fn(*map(look_up, self.names))

class Record:
    """One operation. Calling it binds it: `ADD(x, y)`."""

    def __init__(self, name, family, infer, rules, batched_params=None, view=False):
        self.name, self.family, self.infer = name, family, infer
        self.rules = tuple(Rule(r) if callable(r) else r for r in rules)
        self.batched_params, self.view = batched_params, view

    def __call__(self, *operands, **params):
        return bind(self, operands, params)

# -- 2. Families -------------------------------------------------------------------------------
# (core/operations/families.py) From the mathematical kind of an operation its rules follow.
# Elementwise operations state a partial per operand; linear ones their transpose; bilinear ones a
# transpose per operand. Reverse mode (`pull`) and forward mode (`push`) are both derived from that
# one statement, so they cannot disagree.

def elementwise(name, *partials):
    return Record(name, "elementwise", np.broadcast_shapes, partials)

def linear(name, infer, *transposes, batched_params, view=False):
    return Record(name, "linear", infer, transposes, batched_params, view)

def bilinear(name, infer, *transposes, batched_params):
    return Record(name, "bilinear", infer, transposes, batched_params)

def pull(record, position, look_up):
    """The cotangent of one operand, from the cotangent g of the result."""
    rule = record.rules[position]
    if record.family != "elementwise":
        return rule(look_up)
    g, partial = look_up("g"), rule if isinstance(rule, float) else rule(look_up)
    return sum_to(g * partial, look_up("xy"[position] + "_shape"))

def push(record, operands, tangents, params, look_up):
    """The tangent of the result, from the tangents of the operands (None: zero)."""
    if record.family == "linear":  # linear in all operands together
        filled = [zeros(x.shape) if t is None else t for x, t in zip(operands, tangents)]
        return record(*filled, **params)
    terms = []
    for position, t in enumerate(tangents):
        if t is None:
            continue
        if record.family == "bilinear":  # linear in each
            pair = [t if i == position else x for i, x in enumerate(operands)]
            terms.append(record(*pair, **params))
        else:
            rule = record.rules[position]
            terms.append(t * (rule if isinstance(rule, float) else rule(look_up)))
    total = terms[0] if len(terms) == 1 else terms[0] + terms[1]
    shape = look_up("out_shape")
    return total if total.shape == shape else total.expand(shape)

# -- 3. A few operations -----------------------------------------------------------------------
# (ops/) The rules are written in the operations themselves. So a derivative can be differentiated
# again, batched, and captured, without a line more.

ADD = elementwise("add", 1.0, 1.0)
MUL = elementwise("mul", lambda y: y, lambda x: x)
EXP = elementwise("exp", lambda out: out)
SIN = elementwise("sin", lambda x: COS(x))
COS = elementwise("cos", lambda x: SIN(x) * -1.0)

SUM = linear("sum",
    lambda x, dims: tuple(1 if d in dims else n for d, n in enumerate(x)),  # dims stay, as 1
    lambda g, x_shape: g.expand(x_shape),
    batched_params=lambda p, size: {"dims": tuple(d + 1 for d in p["dims"])})
RESHAPE = linear("reshape",
    lambda x, shape: shape,
    lambda g, x_shape: g.reshape(x_shape),
    batched_params=lambda p, size: {"shape": (size, *p["shape"])})
MATMUL = bilinear("matmul",
    lambda x, y: (*x[:-1], y[-1]),
    lambda g, y: g @ y.T,
    lambda g, x: x.T @ g,
    batched_params=lambda p, size: p)  # np.matmul takes batches in front already

# Views are linear too. They are other windows on the same storage (section 5).
EXPAND = linear("expand",
    lambda x, shape: shape,
    lambda g, x_shape: sum_to(g, x_shape),
    batched_params=lambda p, size: {"shape": (size, *p["shape"])}, view=True)
PERMUTE = linear("permute",
    lambda x, dims: tuple(x[d] for d in dims),
    lambda g, dims: PERMUTE(g, dims=tuple(np.argsort(dims))),
    batched_params=lambda p, size: {"dims": (0, *(d + 1 for d in p["dims"]))}, view=True)
SLICE = linear("slice",
    lambda x, index: np.empty(x)[index].shape,
    lambda g, x_shape, index: scatter(zeros(x_shape), g, ((SLICE, {"index": index}),)),
    batched_params=lambda p, size: {"index": (slice(None), *p["index"])}, view=True)

# The inverse of every view: x with what `chain` shows of it replaced by y. All in-place writes
# through views are made of this one primitive, so they need no derivative of their own.
VIEW_SCATTER = linear("view_scatter",
    lambda x, y, chain: x,
    lambda g, y_shape, chain: scatter(g, zeros(y_shape), chain),
    lambda g, chain: follow(g, chain),
    batched_params=lambda p, size: {
        "chain": tuple((r, r.batched_params(q, size)) for r, q in p["chain"])})

def follow(x, chain):
    for record, params in chain:
        x = record(x, **params)
    return x

def scatter(x, y, chain):
    return VIEW_SCATTER(x, y, chain=chain)

def sum_to(g, shape):
    """Undo broadcasting: sum over what was repeated."""
    if g.shape == tuple(shape):
        return g
    added = len(g.shape) - len(shape)
    stretched = (d for d in range(added, len(g.shape)) if shape[d - added] != g.shape[d])
    return SUM(g, dims=(*range(added), *stretched)).reshape(shape)

# -- 4. Execution ------------------------------------------------------------------------------
# (backends/array/) A table from records to kernels. This one is NumPy's; the real one is written
# once for NumPy and CuPy, and LLVM and Triton have theirs. Kernels of views return NumPy views.

def view_scatter(x, y, chain):
    out = x.copy()
    shown = out
    for record, params in chain:
        shown = KERNELS[record](shown, **params)
    shown[...] = y
    return out

KERNELS = {
    ADD: np.add, MUL: np.multiply, EXP: np.exp, SIN: np.sin, COS: np.cos, MATMUL: np.matmul,
    SUM: lambda x, dims: np.sum(x, axis=dims, keepdims=True),
    RESHAPE: lambda x, shape: x.reshape(shape).copy(),  # not a view here, to be brief
    EXPAND: lambda x, shape: np.broadcast_to(x, shape),
    PERMUTE: lambda x, dims: x.transpose(dims),
    SLICE: lambda x, index: x[(*index, ...)],
    VIEW_SCATTER: view_scatter,
}

def execute(record, operands, params):
    arrays = [read(x) if isinstance(x, Tensor) else x for x in operands]
    return Tensor(Storage(np.asarray(KERNELS[record](*arrays, **params))))

# -- 5. Tensors are windows on storages --------------------------------------------------------
# (tensor/storage.py, tensor/tensor.py) A Storage is a cell with a current value; a Tensor shows
# part of it through a chain of views. Outside transforms the value is a NumPy array, changed in
# place. Inside a transform it is the level's payload, which nobody changes: a write replaces it.

class Storage:
    def __init__(self, value, level=None):
        self.value, self.level, self.version = value, level, 0
        self.birth = len(LEVELS)  # how many transforms were active when it was made

class Tensor:
    """A window on a storage, with its place on the tape."""

    def __init__(self, storage, chain=(), shape=None):
        self.storage, self.chain = storage, chain
        self.shape = storage.value.shape if shape is None else tuple(shape)
        self.requires_grad, self.node, self.base = False, None, None

    def __add__(self, y): return ADD(self, y)
    def __mul__(self, y): return MUL(self, y)
    def __sub__(self, y): return ADD(self, y * -1.0)
    def __matmul__(self, y): return MATMUL(self, y)
    def sin(self): return SIN(self)
    def sum(self): return SUM(self, dims=tuple(range(len(self.shape)))).reshape(())
    def reshape(self, shape): return RESHAPE(self, shape=tuple(shape))
    def expand(self, shape): return EXPAND(self, shape=tuple(shape))
    def __getitem__(self, i): return SLICE(self, index=i if isinstance(i, tuple) else (i,))
    def __setitem__(self, i, y): write(self[i], y)

    @property
    def T(self):
        n = len(self.shape)
        return PERMUTE(self, dims=(*range(n - 2), n - 1, n - 2))

def tensor(value, requires_grad=False):
    out = Tensor(Storage(np.array(value, dtype=float)))
    out.requires_grad = requires_grad
    return out

def zeros(shape):
    return tensor(np.zeros(shape))

def window(source, record, params):
    """A view: the same storage, one more link in the chain, nothing computed."""
    shape = record.infer(source.shape, **params)
    out = Tensor(source.storage, (*source.chain, (record, params)), shape)
    root = source if source.base is None else source.base[0]
    out.base = (root, root.node)
    return out

def read(x):
    """The value a tensor shows: its storage's, seen through the chain of views."""
    value, level = x.storage.value, x.storage.level
    for record, params in x.chain:
        if level is None:
            value = KERNELS[record](value, **params)
        else:
            value = level.window(value, record, params)
    return value

# -- 6. The one door ---------------------------------------------------------------------------
# (core/operations/dispatch.py) Transforms form a stack of levels. An operation goes to the highest
# level among its operands, which expresses it in operations on payloads; those meet the next level
# down, and so on, to capture or execution. The tape is level 0.

LEVELS = []  # the active transforms
CONTEXT = {"capture": None, "grad": True}

def bind(record, operands, params):
    if record.view:
        out = window(operands[0], record, params)
        attach(record, operands, params, out)
        return out
    level = highest_level(operands)
    if level is not None:
        return level.process(record, operands, params)
    run = execute if CONTEXT["capture"] is None else CONTEXT["capture"].record
    out = run(record, operands, params)
    attach(record, operands, params, out)
    return out

def highest_level(operands):
    levels = [x.storage.level for x in operands if isinstance(x, Tensor) and x.storage.level]
    return max(levels, key=lambda level: level.depth, default=None)

# -- 7. Reverse mode: the tape -----------------------------------------------------------------
# (autodiff/) A node keeps what its rules asked for and where the operands came from. Backward
# walks nodes from the newest to the oldest.

_clock = itertools.count(1)

class Node:
    def __init__(self, record, operands, params, out, edges):
        self.record, self.params, self.edges, self.time = record, params, edges, next(_clock)
        known = dict(zip("xy", operands), out=out)
        shapes = {f"{k}_shape": v.shape for k, v in known.items() if isinstance(v, Tensor)}
        rules = [r for r, e in zip(record.rules, edges) if e and isinstance(r, Rule)]
        names = {name for rule in rules for name in rule.names}
        self.saved = {n: (known[n], version(known[n])) for n in names if n in known}
        self.static = {**shapes, **params}

    def pull(self, g, level):
        def look_up(name):
            if name == "g" or name not in self.saved:
                return g if name == "g" else self.static[name]
            value, seen = self.saved[name]
            if version(value) != seen:
                raise RuntimeError(f"{self.record.name}: a saved tensor was modified in place")
            # Inside a transform, gradients are values of the level below.
            return read(value) if level and on_level(value, level) else value

        return [pull(self.record, i, look_up) if e else None for i, e in enumerate(self.edges)]

def version(x):
    return x.storage.version if isinstance(x, Tensor) else None

def on_level(x, level):
    return isinstance(x, Tensor) and x.storage.level is level

def attach(record, operands, params, out):
    """Record an operation whose operands' gradients are wanted, on the tape of out's level."""
    level = out.storage.level
    edges = [x if on_level(x, level) and tracked(x) else None for x in operands]
    if CONTEXT["grad"] and any(edges):
        out.node = Node(record, operands, params, out, [e and (e.node or e) for e in edges])
        out.requires_grad = True

def tracked(x):
    """Whether x's gradient is wanted. A view first catches up with writes to its root: the root
    has then a new node, and the view's is derived from it by following the chain again."""
    if x.base and x.base[0].node is not x.base[1]:
        root = x.base[0]
        fresh = follow(same(root), x.chain[len(root.chain) :])
        x.node, x.requires_grad, x.base = fresh.node, fresh.requires_grad, (root, root.node)
    return x.requires_grad

def same(x):
    """Another tensor for the same window, at the same place on the tape."""
    out = Tensor(x.storage, x.chain, x.shape)
    out.node, out.requires_grad = x.node, x.requires_grad
    return out

def backward(y, xs, g, level=None):
    """The gradients of y at leaves xs, given the cotangent g of y."""
    tracked(y)
    start = y.node or y
    grads, heap, queued = {start: g}, [], set()

    def queue(place):
        if isinstance(place, Node) and place not in queued:
            queued.add(place)
            heapq.heappush(heap, (-place.time, id(place), place))

    queue(start)
    while heap:
        node = heapq.heappop(heap)[2]
        for place, grad in zip(node.edges, node.pull(grads.pop(node), level)):
            if place is not None:
                grads[place] = grads[place] + grad if place in grads else grad
                queue(place)
    return [grads.get(x) for x in xs]

m = tensor([[1.0, 2.0], [3.0, 4.0]])
assert read(m + m * 2.0)[1, 1] == 12.0
row = m.T[0]  # a view of a view ...
assert row.storage is m.storage and [r.name for r, _ in row.chain] == ["permute", "slice"]

w = tensor([1.0, 2.0, 3.0], requires_grad=True)
(g,) = backward((w * w.sin()).sum(), [w], tensor(1.0))
assert np.allclose(read(g), np.sin(read(w)) + read(w) * np.cos(read(w)))
(gg,) = backward(g.sum(), [w], tensor(1.0))  # the gradient was itself recorded
assert np.allclose(read(gg), 2 * np.cos(read(w)) - read(w) * np.sin(read(w)))

# -- 8. Writes ---------------------------------------------------------------------------------
# (tensor/writing/) There is one way for elements to change. For the tape, a write through a
# view is VIEW_SCATTER on the root: the root gets a new node, and other views catch up later.

def write(target, value):
    value = value if isinstance(value, Tensor) else tensor(value)
    value = value if value.shape == target.shape else value.expand(target.shape)
    root = target if target.base is None else target.base[0]
    tracked(target)
    before, storage = same(root), target.storage
    level = highest_level((target, value))
    if level is not None:
        if storage.level is not level:
            if storage.birth < level.depth:
                raise RuntimeError("a write would put a transformed value into an outer tensor")
            whole = Tensor(Storage(storage.value, storage.level))  # lift the storage
            storage.value, storage.level = level.lift(whole), level
        new = level.enter(value)
        storage.value = level.scatter(storage.value, new, target.chain) if target.chain else new
    elif CONTEXT["capture"] is not None:
        CONTEXT["capture"].write(target, value)
    else:
        read(target)[...] = read(value)
    storage.version += 1
    attach(VIEW_SCATTER, (before, value), {"chain": target.chain[len(root.chain) :]}, root)

m[0, 0] = 10.0
assert read(row)[0] == 10.0  # ... and it sees writes to what it views

x = tensor([1.0, 2.0, 3.0], requires_grad=True)
y = x * x
tail = y[1:]
y[1] = x[0] * 5.0  # differentiable: the gradient of what was there is lost, x[0] gains 5
(g,) = backward(tail.sum(), [x], tensor(1.0))  # the old view has caught up
assert read(g).tolist() == [5.0, 0.0, 6.0]

z = x * 1.0
out = z.sin()
z[0] = 7.0
try:
    backward(out.sum(), [x], tensor(1.0))
except RuntimeError as error:
    assert "sin: a saved tensor was modified" in str(error)

# -- 9. Levels ---------------------------------------------------------------------------------
# (core/operations/levels.py, autodiff/levels/) A transform pushes a level and wraps its arguments.
# What tells the transforms apart is the payload: a tensor one level down (grad), a pair of them
# (jvp), or one with a batch in front (vmap).

class Level:
    def __enter__(self):
        LEVELS.append(self)
        self.depth = len(LEVELS)
        return self

    def __exit__(self, *_):
        LEVELS.pop()

    def wrap(self, payload):
        return Tensor(Storage(payload, self), shape=self.shape_of(payload))

    def enter(self, x):
        """The payload of any operand as this level sees it."""
        return read(x) if on_level(x, self) else self.lift(x)

class GradLevel(Level):
    """Payload: the value. The tape of this level runs beside it."""

    def shape_of(self, payload): return payload.shape
    def lift(self, x): return x
    def window(self, payload, record, params): return record(payload, **params)
    def scatter(self, payload, new, chain): return scatter(payload, new, chain)

    def process(self, record, operands, params):
        out = self.wrap(record(*map(self.enter, operands), **params))
        attach(record, operands, params, out)
        return out

class JvpLevel(Level):
    """Payload: (primal, tangent); None is a zero nobody needs to store."""

    def shape_of(self, payload): return payload[0].shape
    def lift(self, x): return (x, None)

    def window(self, payload, record, params):
        return tuple(None if p is None else record(p, **params) for p in payload)

    def scatter(self, payload, new, chain):
        (primal, t), (part, u) = payload, new
        t, u = zeros(primal.shape) if t is None else t, zeros(part.shape) if u is None else u
        return scatter(primal, part, chain), scatter(t, u, chain)

    def process(self, record, operands, params):
        primals, tangents = zip(*map(self.enter, operands))
        out = record(*primals, **params)
        known = {**dict(zip("xy", primals), out=out, out_shape=out.shape), **params}
        return self.wrap((out, push(record, primals, tangents, params, known.__getitem__)))

class VmapLevel(Level):
    """Payload: the batched value, its batch in dimension 0."""

    def __init__(self, size): self.size = size
    def shape_of(self, payload): return payload.shape[1:]
    def lift(self, x): return x.expand((self.size, *x.shape)) if isinstance(x, Tensor) else x
    def window(self, x, record, params):
        return record(x, **record.batched_params(params, self.size))

    def scatter(self, payload, new, chain):
        params = VIEW_SCATTER.batched_params({"chain": chain}, self.size)
        return VIEW_SCATTER(payload, new, **params)

    def process(self, record, operands, params):
        values = [self.enter(x) for x in operands]
        if record.family != "elementwise":
            return self.wrap(record(*values, **record.batched_params(params, self.size)))
        rank = max(len(v.shape) for v in values if isinstance(v, Tensor))
        aligned = [  # so that batches meet when broadcasting
            v.reshape((self.size, *(1,) * (rank - len(v.shape)), *v.shape[1:]))
            if isinstance(v, Tensor) and len(v.shape) < rank else v
            for v in values
        ]
        return self.wrap(record(*aligned, **params))

def grad(f):
    def gradient(x, *rest):
        with GradLevel() as level:
            leaf = level.wrap(x)
            leaf.requires_grad = True
            y = f(leaf, *rest)
            return backward(y, [leaf], tensor(np.ones(y.shape)), level)[0]

    return gradient

def jvp(f, x, t):
    with JvpLevel() as level:
        return level.enter(f(level.wrap((x, t))))

def vmap(f):
    def batched(*xs):
        with VmapLevel(xs[0].shape[0]) as level:
            return level.enter(f(*map(level.wrap, xs)))

    return batched

# They compose freely, because each speaks of the level below only in operations.
def f(x):
    y = zeros(x.shape)  # in-place writes inside transforms: the payload is replaced
    y[0] = x[0] * x[1]
    y[1:] = x[1:].sin()
    return (y * y).sum()

p, v = tensor([0.5, 1.5, 2.5]), tensor([1.0, -1.0, 0.5])
a, b, c = read(p)
expected = np.array([2 * a * b**2, 2 * a**2 * b + np.sin(2 * b), np.sin(2 * c)])
assert np.allclose(read(grad(f)(p)), expected)
assert np.allclose(read(jvp(f, p, v)[1]), expected @ read(v))  # forward agrees with reverse

hvp = read(jvp(grad(f), p, v)[1])  # jvp of grad: a column of the hessian times v
hessian = np.stack([read(grad(lambda q, i=i: grad(f)(q)[i])(p)) for i in range(3)])  # grad of grad
assert np.allclose(hessian, hessian.T) and np.allclose(hvp, hessian @ read(v))

batch = tensor(np.random.default_rng(0).normal(size=(4, 3)))
per_sample = read(vmap(grad(f))(batch))  # vmap of grad: per-sample gradients
assert np.allclose(per_sample, np.stack([read(grad(f)(batch[i])) for i in range(4)]))
basis = tensor(np.eye(3))
assert np.allclose(read(vmap(lambda e: jvp(grad(f), p, e)[1])(basis)), hessian)  # all at once

outer = tensor([2.0], requires_grad=True)  # and with the tape, level 0, below them all
(g,) = backward(vmap(lambda x: (x * outer).sin().sum())(batch).sum(), [outer], tensor(1.0))
assert np.allclose(read(g), (read(batch) * np.cos(2.0 * read(batch))).sum())

# -- 10. Capture -------------------------------------------------------------------------------
# (graph/) While a trace is active, execution records nodes instead of running kernels. Tensors
# from outside keep their arrays: a table maps each storage to its current SSA value. Reading a
# storage makes it an input; writing one makes a new value, which a call of the captured program
# carries back. Transforms and tape are above this, so what they do is recorded too.

class Trace:
    def __init__(self):
        self.nodes, self.inputs, self.cells = [], [], {}  # SSA values are numbers

    def value(self, x):
        """The SSA value a tensor shows."""
        if not isinstance(x, Tensor):
            return x
        if x.storage not in self.cells:
            self.inputs.append(x.storage)
            self.cells[x.storage] = self.add("input", (), {})
        value = self.cells[x.storage]
        for record, params in x.chain:
            value = self.add(record, (value,), params)
        return value

    def add(self, record, inputs, params):
        self.nodes.append((record, inputs, params))
        return f"%{len(self.nodes) - 1}"

    def record(self, record, operands, params):
        value = self.add(record, tuple(map(self.value, operands)), params)
        shapes = [x.shape if isinstance(x, Tensor) else () for x in operands]
        out = Tensor(Storage(None), shape=record.infer(*shapes, **params))
        self.cells[out.storage] = value
        return out

    def write(self, target, value):
        new = self.value(value)
        if target.chain:
            whole = self.value(Tensor(target.storage, shape=()))
            new = self.add(VIEW_SCATTER, (whole, new), {"chain": target.chain})
        else:
            self.value(target)
        self.cells[target.storage] = new

def interpret(trace, arrays):
    """Replay: run the kernels of all nodes."""
    values, given = {}, iter(arrays)
    for number, (record, inputs, params) in enumerate(trace.nodes):
        operands = [values[i] if isinstance(i, str) else i for i in inputs]
        run = KERNELS.get(record, lambda: next(given))  # an input takes the next array
        values[f"%{number}"] = run(*operands, **params)
    return values

def capture(f):
    """f recorded at the first call, replayed with its effects at every call."""
    trace, results = Trace(), []

    def program(*args):
        if not results:
            CONTEXT["capture"] = trace
            try:
                for x in args:
                    trace.value(x)  # arguments are the first inputs
                results.append(trace.value(f(*args)))
            finally:
                CONTEXT["capture"] = None
        state = trace.inputs[len(args) :]
        values = interpret(trace, [read(x) for x in args] + [s.value for s in state])
        out, *written = [values[v].copy() for v in (*results, *map(trace.cells.get, state))]
        for storage, value in zip(state, written):
            storage.value[...] = value  # what the function wrote
        return tensor(out)

    program.trace = trace
    return program

weight = tensor([[0.1, -0.2], [0.3, 0.4], [0.0, 0.5]])

def step(inputs, wanted):
    def loss(q):
        error = inputs @ q - wanted
        return (error * error).sum()

    before = loss(weight)
    write(weight, weight - grad(loss)(weight) * 0.05)  # a training step, update included
    return before

inputs, wanted = tensor([[1.0, 2.0, 0.5], [0.0, 1.0, 1.0]]), tensor([[1.0, 0.0], [0.0, 1.0]])
start = read(weight).copy()
eager = [read(step(inputs, wanted)) for _ in range(5)]
after = read(weight).copy()
weight.storage.value[...] = start
captured = capture(step)
replayed = [read(captured(inputs, wanted)) for _ in range(5)]
assert np.array_equal(eager, replayed) and np.array_equal(after, read(weight))
assert replayed[-1] < replayed[0]
assert [record for record, _, _ in captured.trace.nodes].count(MATMUL) == 3  # two forward, one back

if __name__ == "__main__":
    for number, (record, operands, params) in enumerate(captured.trace.nodes):
        print(f"%{number} = {getattr(record, 'name', record)}{operands} {params or ''}")
