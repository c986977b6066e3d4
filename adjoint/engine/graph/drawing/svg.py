"""A graph as a picture: SVG, made here, that any browser shows.

Nodes are boxes in layers, arrows carry values downwards. A composite, or an operation with
subgraphs, is one box with a double frame: a click on it shows what is inside, a click elsewhere
hides that again, by style rules alone; `expand` draws it in place. An arrow that would cross many
layers is replaced by a tag with the value's name where it arrives.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from adjoint.engine.core.html import escape
from adjoint.engine.graph.drawing.layers import Box, assign_layers, place
from adjoint.engine.graph.ir import DataflowGraph, Node, Value
from adjoint.engine.graph.text import graphs_in, literal

LETTER, LINE, PAD = 6.4, 15.0, 8.0
REACH = 9  # layers an arrow may cross
MARGIN = 16.0

# Selector -> declarations; all apply inside one picture only.
STYLE = {
    "text": "font: 11px ui-monospace, Menlo, Consolas, monospace; fill: #1c2530",
    ".op": "font-weight: 600",
    ".spec": "fill: #5b6876; font-size: 10px",
    ".tag": "fill: #7a4fb5; font-size: 10px",
    "rect": "rx: 5px; stroke: #8a97a6; fill: #f4f6f8",
    ".input > rect": "fill: #e3f3e6; stroke: #6aa878; rx: 12px",
    ".host > rect": "fill: #f7efd8; rx: 12px",
    ".product > rect": "fill: #dfe9fb; stroke: #6b8fc9",
    ".reduction > rect": "fill: #fbe6dd",
    ".view > rect": "fill: #ffffff; stroke-dasharray: 3 2",
    ".made > rect": "fill: #f1e9f8",
    ".composite > rect": "fill: #fff8e1; stroke: #c9a227",
    ".composite > rect.inside": "fill: #fffdf5",
    "rect.result": "stroke: #b3372f; stroke-width: 2",
    ".folded": "cursor: pointer; outline: none",
    ".more": "display: none; outline: none",
    ".more > rect": "fill: #fffdf5; stroke: #c9a227; stroke-width: 2",
    "path": "fill: none; stroke: #93a0ae; marker-end: url(#tip)",
}
TIP = (
    '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
    'orient="auto"><path d="M0 0L8 4L0 8z" style="fill:#93a0ae;stroke:none"/></marker></defs>'
)


@dataclass(slots=True)
class DrawnBox:
    """A box with what is written in it, and what is drawn inside."""

    kind: str
    lines: list[tuple[str, str]]  # (class, text)
    title: str
    result: bool = False
    inside: list[Drawing] = field(default_factory=list)
    folded: list[Drawing] = field(default_factory=list)  # shown on demand

    @property
    def size(self) -> tuple[float, float]:
        width = max([len(text) for _, text in self.lines], default=0) * LETTER
        height = len(self.lines) * LINE
        width = max([width, *(d.width for d in self.inside)])
        return width + 2 * PAD, height + PAD + sum(d.height + PAD for d in self.inside)


@dataclass(slots=True)
class Drawing:
    """Elements of SVG and the room they take."""

    width: float
    height: float
    body: list[str]


def to_svg(graph: DataflowGraph, expand: Collection[str] | bool = ()) -> str:
    """The graph as an SVG document.

    Args:
        graph: what to draw.
        expand: names of operations whose subgraphs are drawn, or True for all of them.
    """
    artist = Artist(expand)
    drawing = artist.draw(graph)
    width, height = drawing.width + 2 * MARGIN, drawing.height + 2 * MARGIN
    size = f'width="{width:.0f}" height="{height:.0f}"'
    rules = [f".adjoint-graph {where} {{ {what} }}" for where, what in STYLE.items()]
    shown = f'class="adjoint-graph" viewBox="0 0 {width:.0f} {height:.0f}" {size}'
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {shown}>',
        "<style>",
        *rules,
        *artist.rules,
        "</style>",
        TIP,
        f'<rect {size} style="fill:#fff;stroke:none"/>',
        f'<g transform="translate({MARGIN:.0f} {MARGIN:.0f})">',
        *drawing.body,
        "</g></svg>\n",
    ]
    return "\n".join(lines)


class Artist:
    """Draws graphs inside graphs, numbering what can be unfolded."""

    def __init__(self, expand: Collection[str] | bool) -> None:
        self.expand = expand
        self.rules: list[str] = []  # of style: what shows when its box has the focus

    def draw(self, graph: DataflowGraph) -> Drawing:
        """The nodes of a graph, placed."""
        results = set(graph.outputs)
        used = {x for node in graph for x in node.inputs if isinstance(x, Value)} | results
        inputs = [v for v in graph.inputs if v in used]
        items = [_input_item(v, v in results) for v in inputs]
        items += [self.node_item(node, results) for node in graph]
        index: dict[Value, int] = {v: i for i, v in enumerate(inputs)}
        index |= {v: len(inputs) + i for i, node in enumerate(graph) for v in node.outputs}
        arrows = _arrows(graph, index, len(inputs))
        boxes = [Box(0.0, 0.0) for _ in items]
        assign_layers(boxes, list(arrows))
        edges = _tag_long(arrows, boxes, items)
        for box, item in zip(boxes, items, strict=True):
            box.width, box.height = item.size
        placed = place(boxes, edges)
        drawing = Drawing(placed.width, placed.height, [_arrow(r) for r in placed.routes])
        more: list[str] = []  # drawn last, over everything
        for item, box in zip(items, boxes, strict=True):
            mark = self.unfold(item, box, drawing, more) if item.folded else ""
            drawing.body += _draw_item(item, box, mark)
        drawing.body += more
        return drawing

    def unfold(self, item: DrawnBox, box: Box, drawing: Drawing, more: list[str]) -> str:
        """Add what a box shows on demand, below it; returns the marks of the box."""
        number = len(self.rules)
        self.rules.append(
            f"#n{number}:focus ~ #m{number}, #m{number}:focus-within {{ display: inline }}"
        )
        width = max(d.width for d in item.folded) + 2 * PAD
        height = sum(d.height + PAD for d in item.folded) + PAD
        x, y = max(min(box.x - width / 2, drawing.width - width), 0.0), box.y + box.height + 3
        drawing.width, drawing.height = (
            max(drawing.width, x + width),
            max(drawing.height, y + height),
        )
        more.append(
            f'<g class="more" id="m{number}" tabindex="0" transform="translate({x:.1f} {y:.1f})">'
        )
        more.append(f'<rect width="{width:.1f}" height="{height:.1f}"/>')
        at = PAD
        for inner in item.folded:
            more += [
                f'<g transform="translate({(width - inner.width) / 2:.1f} {at:.1f})">',
                *inner.body,
                "</g>",
            ]
            at += inner.height + PAD
        more.append("</g>")
        return f' id="n{number}" tabindex="0"'

    def node_item(self, node: Node, results: set[Value]) -> DrawnBox:
        """The box of a node."""
        record, expand = node.record, self.expand
        inner = [("", node.subgraph)] if node.subgraph is not None else []
        inner += [subgraph for k, v in node.params.items() for subgraph in graphs_in(v, k)]
        numbers = [literal(x) for x in node.inputs if not isinstance(x, Value)]
        head = record.name + (f" {', '.join(numbers)}" if numbers else "")
        lines = [("op", _short(head))]
        lines += [("spec", f"{v.name}: {v.spec}") for v in node.outputs[:4]]
        args = [f"{k}={literal(v, k)}" for k, v in node.params.items() if not list(graphs_in(v, k))]
        item = DrawnBox(_kind(node), lines, f"{record.name}({', '.join(args)})")
        item.result = any(v in results for v in node.outputs)
        opened = expand is True or (expand is not False and record.name in expand)
        for name, graph in inner:
            if name and opened:
                item.lines.append(("spec", name))
            (item.inside if opened else item.folded).append(self.draw(graph))
        return item


def _arrows(
    graph: DataflowGraph, index: dict[Value, int], first: int
) -> dict[tuple[int, int], str]:
    """Which item's value goes to which, and what it is called."""
    return {
        (index[x], i): x.name
        for i, node in enumerate(graph, first)
        for x in node.inputs
        if isinstance(x, Value)
    }


def _tag_long(
    arrows: dict[tuple[int, int], str], boxes: list[Box], items: list[DrawnBox]
) -> list[tuple[int, int]]:
    """The arrows short enough to draw; the others become tags of the items they lead to."""
    short = []
    for (a, b), name in arrows.items():
        if boxes[b].layer - boxes[a].layer > REACH:
            items[b].lines.append(("tag", f"\u2190 {name}"))
        else:
            short.append((a, b))
    return short


def _input_item(value: Value, result: bool) -> DrawnBox:
    kind = "host" if value.host else "input"
    return DrawnBox(kind, [("op", value.name), ("spec", str(value.spec))], repr(value), result)


def _kind(node: Node) -> str:
    record = node.record
    if node.subgraph is not None or any(isinstance(v, DataflowGraph) for v in node.params.values()):
        return "composite"
    if record.family == "bilinear":
        return "product"
    if record.is_view:
        return "view"
    if record.reduces or record.position_of:
        return "reduction"
    return "made" if record.creates else record.family


def _short(text: str, most: int = 34) -> str:
    return text if len(text) <= most else text[: most - 1] + "\u2026"


def _draw_item(item: DrawnBox, box: Box, mark: str) -> list[str]:
    left = box.x - box.width / 2
    kind = f"{item.kind} folded" if mark else item.kind
    out = [f'<g class="{kind}"{mark} transform="translate({left:.1f} {box.y:.1f})">']
    out.append(f"<title>{escape(item.title)}</title>")
    marked = ' class="result"' if item.result else ""
    out.append(f'<rect width="{box.width:.1f}" height="{box.height:.1f}"{marked}/>')
    if item.kind == "composite":
        out.append(
            f'<rect class="inside" x="2.5" y="2.5" width="{box.width - 5:.1f}" '
            f'height="{box.height - 5:.1f}"/>'
        )
    y = PAD / 2 + 11
    for kind, text in item.lines:
        out.append(
            f'<text class="{kind}" x="{box.width / 2:.1f}" y="{y:.1f}" text-anchor="middle">'
            f"{escape(text)}</text>"
        )
        y += LINE
    y -= 11 - PAD / 2
    for drawing in item.inside:
        x = (box.width - drawing.width) / 2
        out += [f'<g transform="translate({x:.1f} {y:.1f})">', *drawing.body, "</g>"]
        y += drawing.height + PAD
    return [*out, "</g>"]


def _arrow(points: list[tuple[float, float]]) -> str:
    """A smooth line through the points, leaving and arriving straight down."""
    (x, y), *rest = points
    path = [f"M{x:.1f} {y:.1f}"]
    for to_x, to_y in rest:
        middle = (y + to_y) / 2
        path.append(f"C{x:.1f} {middle:.1f} {to_x:.1f} {middle:.1f} {to_x:.1f} {to_y:.1f}")
        x, y = to_x, to_y
    return f'<path d="{"".join(path)}"/>'


DataflowGraph._repr_svg_ = to_svg  # type: ignore[attr-defined]  # what notebooks ask for
