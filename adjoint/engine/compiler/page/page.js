"use strict";
// What does not need a browser comes first, and is tested without one (tests/page_logic.js).

const PHASES = ["forward", "backward", "update"];
const WIDTH = 150, HEIGHT = 38, GAP = 22, HEAD = 26, PAD = 12, GROUPED = 40, READABLE = 24;

// -- the tree of modules ------------------------------------------------------------------------

// An item of the tree: a phase, a module, a line that many operations are of, or an operation.
function makeItem(kind, name, path, parent) {
  return { kind, name, path, parent, children: [], byName: new Map(), nodes: [], first: Infinity, time: 0, count: 0 };
}

function childOf(item, kind, name) {
  let child = item.byName.get(name);
  if (!child) {
    child = makeItem(kind, name, item.path ? item.path + "/" + name : name, item);
    item.byName.set(name, child);
    item.children.push(child);
  }
  return child;
}

function buildTree(data) {
  const root = makeItem("root", data.name, "", null);
  const owner = [];  // of each node: the item it is directly in
  data.nodes.forEach((node, k) => {
    let item = childOf(root, "phase", PHASES[node[2]]);
    const path = data.modules[node[3]];
    if (path) for (const part of path.split(".")) item = childOf(item, "module", part);
    item.nodes.push(k);
    owner.push(item);
    for (let up = item; up; up = up.parent) { up.first = Math.min(up.first, k); up.count += 1; }
  });
  const visit = (item) => {
    item.children.forEach(visit);
    const grouped = item.nodes.length > GROUPED;
    for (const k of item.nodes) {
      const node = data.nodes[k];
      let place = item;
      if (grouped) {
        const line = data.lines[node[4]];
        place = childOf(item, "line", line ? shortPath(line[0]) + ":" + line[1] : "no line");
        place.first = Math.min(place.first, k);
        place.count += 1;
      }
      const leaf = makeItem("node", node[0], place.path + "#" + k, place);
      Object.assign(leaf, { node: k, first: k, count: 1, family: node[1] });
      place.children.push(leaf);
      owner[k] = leaf;
    }
    item.children.sort((a, b) => a.first - b.first);
  };
  visit(root);
  dissolve(root, data, owner);
  return { root, owner };
}

// A module that computes nothing itself, only holds others, hides the order of things where its
// owner computes between them: drawn as one box, it would lie before and after what reads from it
// and feeds it. What it holds is drawn beside that instead, by both names.
function dissolve(item, data, owner) {
  for (const child of item.children.filter((c) => c.kind === "module" && !c.nodes.length && inCircle(c, data, owner))) {
    for (const held of child.children) {
      held.name = child.name + "." + held.name;
      held.parent = item;
    }
    item.children.splice(item.children.indexOf(child), 1, ...child.children);
  }
  item.children.sort((a, b) => a.first - b.first);
  item.children.forEach((child) => dissolve(child, data, owner));
}

// Whether what an item gives comes back to it through what lies beside it.
function inCircle(item, data, owner) {
  const beside = (k) => ancestors(owner[k]).find((up) => up.parent === item.parent);
  const reached = new Set();  // boxes beside it that depend on it; nodes are in the order of time
  for (let k = 0; k < data.nodes.length; k++) {
    const here = beside(k);
    if (!here) continue;
    for (const source of data.nodes[k][6]) {
      const from = source < 0 ? null : beside(source);
      if (!from || from === here) continue;
      if (here === item && reached.has(from)) return true;
      if (here !== item && (from === item || reached.has(from))) reached.add(here);
    }
  }
  return false;
}

// What is open at first: the way down to where most of the model is, as long as that is readable.
function openedAtFirst(root) {
  const open = new Set();
  let item = root.children.find((child) => child.name === "forward"), boxes = root.children.length;
  while (item && boxes + item.children.length <= READABLE) {
    open.add(item.path);
    boxes += item.children.length;
    const most = item.children.reduce((a, b) => (b.count > a.count ? b : a), item.children[0]);
    item = most && most.kind === "module" && most.count > item.count / 2 ? most : null;
  }
  return open;
}

function shortPath(file) {
  return file.replace(/\\/g, "/").split("/").pop();
}

function ancestors(item) {
  const found = [];
  for (let up = item; up; up = up.parent) found.push(up);
  return found;
}

// The box that stands for an item: the outermost of its ancestors that is closed, or itself.
function standsFor(item, open) {
  const chain = ancestors(item).reverse();
  for (const up of chain) if (up.kind !== "root" && !open.has(up.path)) return up;
  return item;
}

// -- layout -------------------------------------------------------------------------------------

// Places what is in an open item: layers by the longest way from the top, in the order of time
// where there is a circle. Gives every item x, y, w, h, relative to the item it is in.
function layout(item, open, edges) {
  if (item.kind !== "root" && (!open.has(item.path) || !item.children.length)) {
    item.w = Math.max(WIDTH, Math.min(320, 7.4 * item.name.length + 30));
    item.h = HEIGHT;
    return;
  }
  const children = item.children;
  children.forEach((child) => layout(child, open, edges));
  const layer = new Map(children.map((child) => [child, 0]));
  const inside = edges.get(item) || [];
  const before = new Map(children.map((child) => [child, []]));
  for (const [from, to] of inside) if (from.first < to.first) before.get(to).push(from);
  for (const child of children)
    for (const from of before.get(child)) layer.set(child, Math.max(layer.get(child), layer.get(from) + 1));
  const rows = [];
  for (const child of children) (rows[layer.get(child)] ||= []).push(child);
  const wide = 6;  // boxes beside each other, at most
  const lines = rows.filter(Boolean).flatMap((row) => {
    const cut = [];
    for (let k = 0; k < row.length; k += wide) cut.push(row.slice(k, k + wide));
    return cut;
  });
  const width = Math.max(WIDTH, ...lines.map((row) => row.reduce((sum, c) => sum + c.w + GAP, -GAP)));
  let y = item.kind === "root" ? 0 : HEAD;
  for (const row of lines) {
    let x = PAD + (width - row.reduce((sum, c) => sum + c.w + GAP, -GAP)) / 2;
    for (const child of row) {
      child.x = x;
      child.y = y;
      x += child.w + GAP;
    }
    y += Math.max(...row.map((c) => c.h)) + GAP;
  }
  item.w = width + 2 * PAD;
  item.h = y - GAP + PAD;
}

// Edges among boxes that are to be seen, by the item that both ends are directly in.
function visibleEdges(data, owner, open) {
  const edges = new Map(), seen = new Set();
  data.nodes.forEach((node, k) => {
    const to = standsFor(owner[k], open);
    for (const source of node[6]) {
      if (source < 0) continue;
      const from = standsFor(owner[source], open);
      if (from === to) continue;
      const up = ancestors(from), down = ancestors(to);
      while (up.length && down.length && up[up.length - 1] === down[down.length - 1]) { up.pop(); down.pop(); }
      if (!up.length || !down.length) continue;  // one is in the other
      const a = up[up.length - 1], b = down[down.length - 1];
      const key = a.path + ">" + b.path;
      if (seen.has(key)) continue;
      seen.add(key);
      if (!edges.has(a.parent)) edges.set(a.parent, []);
      edges.get(a.parent).push([a, b]);
    }
  });
  return edges;
}

// -- numbers and search -------------------------------------------------------------------------

function bytes(n) { return withPrefix(n, "B"); }

function withPrefix(n, unit) {
  for (const prefix of ["", "k", "M", "G"]) {
    if (Math.abs(n) < 1000) return (Math.round(n * 100) / 100) + " " + prefix + unit;
    n /= 1000;
  }
  return (Math.round(n * 100) / 100) + " T" + unit;
}

function counted(n, what) { return n + " " + what + (n === 1 ? "" : "s"); }

function cut(text, length) { return text.length > length ? text.slice(0, Math.max(length - 1, 1)) + "…" : text; }

// A time in three figures or so: 12.3 µs, 4.50 ms, 1.62 s.
function microseconds(t) {
  if (t == null) return "";
  for (const unit of ["µs", "ms"]) {
    if (t < 999.5) return t.toFixed(t < 9.995 ? 2 : t < 99.95 ? 1 : 0) + " " + unit;
    t /= 1000;
  }
  return t.toFixed(t < 9.995 ? 2 : 1) + " s";
}

function search(data, tree, words) {
  const wanted = words.toLowerCase().split(/\s+/).filter(Boolean);
  if (!wanted.length) return [];
  const fits = (text) => { const low = text.toLowerCase(); return wanted.every((word) => low.includes(word)); };
  const found = [];
  const visit = (item) => {
    if (item.kind === "module" && fits(item.path.replace(/\//g, "."))) found.push({ what: item.path.split("/").slice(1).join("."), kind: item.path.split("/")[0] + " module", item });
    item.children.forEach(visit);
  };
  visit(tree.root);
  data.inputs.forEach((input, k) => { if (fits(input[0])) found.push({ what: input[0], kind: input[1] + " " + input[2], input: k }); });
  data.nodes.forEach((node, k) => { if (found.length < 400 && fits(node[0])) found.push({ what: node[0], kind: data.modules[node[3]] || "operation", item: tree.owner[k] }); });
  data.kernels.forEach((kernel, k) => { if (found.length < 400 && fits(kernel.name)) found.push({ what: kernel.name, kind: "kernel, step " + kernel.step, kernel: k }); });
  return found.slice(0, 60);
}

// What a program depends on, by the line that looked at it: "x is 3 (/home/me/net.py:7)" is of net.py:7.
function guardsByLine(guards) {
  const lines = new Map();
  for (const guard of guards) {
    const at = guard.match(/^(.*) \((.*):(\d+)\)$/);
    const where = at ? shortPath(at[2]) + ":" + at[3] : "the call";
    if (!lines.has(where)) lines.set(where, []);
    lines.get(where).push(at ? at[1] : guard);
  }
  return lines;
}

// Time of kernels by module path, each shared among the modules it works for.
function moduleTimes(data) {
  const times = new Map();
  for (const kernel of data.kernels) {
    if (kernel.time == null) continue;
    const phase = kernel.backward ? "backward" : kernel.modules.length || !data.nodes.some((node) => node[2] === 2) ? "forward" : "update";
    times.set(phase, (times.get(phase) || 0) + kernel.time);
    for (const module of kernel.modules) {
      let path = phase;
      for (const part of data.modules[module].split(".")) {
        path += "/" + part;
        times.set(path, (times.get(path) || 0) + kernel.time / kernel.modules.length);
      }
    }
  }
  return times;
}

if (typeof module !== "undefined")
  module.exports = { buildTree, inCircle, guardsByLine, openedAtFirst, layout, visibleEdges, standsFor, search, bytes, counted, cut, microseconds, moduleTimes, ancestors };

// -- the page -----------------------------------------------------------------------------------

if (typeof document !== "undefined") start();

function start() {
  const data = JSON.parse(document.getElementById("data").textContent);
  const tree = buildTree(data), times = moduleTimes(data);
  const open = openedAtFirst(tree.root);
  const $ = (id) => document.getElementById(id);
  const view = { x: 20, y: 20, scale: 1 };
  let chosen = null, sources = null;
  const total = data.kernels.reduce((sum, kernel) => sum + (kernel.time || 0), 0);
  $("name").textContent = data.name.split("<locals>.").pop();
  $("name").title = data.name;
  $("summary").textContent = (total ? `${microseconds(total)} in all kernels, each at its quickest; ` : "") + data.summary;

  // - helpers
  function make(tag, attributes, ...inside) {
    const svg = ["g", "rect", "text", "path", "svg", "title"].includes(tag);
    const element = svg ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
    for (const [key, value] of Object.entries(attributes || {})) {
      if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
      else if (value != null) element.setAttribute(key, value);
    }
    for (const child of inside) element.append(child);
    return element;
  }

  // - tabs
  const TABS = [["graph", "Model"], ["kernels", "Kernels"], ["memory", "Memory"], ["guards", "Guards"], ["source", "Code"]];
  const shown = new Set(["graph"]);
  const fill = { kernels: fillKernels, memory: fillMemory, guards: fillGuards, source: fillSource };
  function show(id) {
    for (const [other] of TABS) $(other).hidden = other !== id;
    for (const button of $("tabs").children) button.setAttribute("aria-selected", button.dataset.tab === id);
    if (!shown.has(id)) { shown.add(id); fill[id](); }
  }
  for (const [id, title] of TABS)
    $("tabs").append(make("button", { "data-tab": id, role: "tab", "aria-selected": id === "graph", onclick: () => show(id) }, title));

  // - the graph
  function draw() {
    const edges = visibleEdges(data, tree.owner, open);
    layout(tree.root, open, edges);
    const world = $("world");
    world.replaceChildren();
    drawInside(tree.root, world, edges);
  }
  function drawInside(item, group, edges) {
    for (const [a, b] of edges.get(item) || []) {
      const down = a.y + a.h <= b.y + 1;
      const x1 = a.x + a.w / 2, y1 = down ? a.y + a.h : a.y, x2 = b.x + b.w / 2, y2 = down ? b.y : b.y + b.h;
      const bend = Math.max(12, Math.abs(y2 - y1) / 3) * (down ? 1 : -1);
      group.append(make("path", { class: "edge", d: `M${x1},${y1}C${x1},${y1 + bend} ${x2},${y2 - bend} ${x2},${y2}` }));
    }
    for (const child of item.children) group.append(drawItem(child, edges));
  }
  function drawItem(item, edges) {
    const kind = item.kind === "node" ? item.family : item.kind === "line" ? "movement" : item.kind;
    const group = make("g", { class: "item " + kind + (item === chosen ? " chosen" : ""), transform: `translate(${item.x},${item.y})`, "data-path": item.path });
    group.append(make("rect", { class: "box", width: item.w, height: item.h }));
    const opened = open.has(item.path) && item.children.length;
    const sign = item.children.length ? (opened ? "▾ " : "▸ ") : "";
    group.append(make("text", { x: 9, y: 17 }, sign + item.name));
    const time = times.get(item.path);
    const about = item.kind === "node" ? data.nodes[item.node][5] : counted(item.count, "operation") + (time ? ", " + microseconds(time) : "");
    if (!opened) {
      group.append(make("text", { class: "small", x: 9, y: 30 }, cut(about, Math.floor((item.w - 12) / 5.8))));
      if (time && total) group.append(make("rect", { class: "share", x: 0, y: item.h - 3, width: item.w * Math.min(time / total, 1), height: 3 }));
    }
    group.addEventListener("click", (event) => {
      event.stopPropagation();
      if (moved) return;
      chosen = item;
      if (item.children.length) toggle(item); else { draw(); }
      tell(item);
    });
    if (opened) drawInside(item, group, edges);
    return group;
  }
  function toggle(item) {
    if (open.has(item.path)) open.delete(item.path); else open.add(item.path);
    draw();
  }
  function place() { $("world").setAttribute("transform", `translate(${view.x},${view.y}) scale(${view.scale})`); }
  function fit() {
    const box = $("canvas").getBoundingClientRect();
    view.scale = Math.max(0.15, Math.min(1.2, (box.width - 40) / tree.root.w, (box.height - 40) / tree.root.h));
    if (view.scale < 0.5) view.scale = Math.min(0.8, (box.width - 40) / tree.root.w);
    view.x = (box.width - tree.root.w * view.scale) / 2;
    view.y = 20;
    place();
  }
  let drag = null, moved = false, frame = 0;
  $("canvas").addEventListener("pointerdown", (event) => { drag = [event.clientX - view.x, event.clientY - view.y, event.clientX, event.clientY]; moved = false; });
  window.addEventListener("pointermove", (event) => {
    if (!drag) return;
    if (Math.abs(event.clientX - drag[2]) + Math.abs(event.clientY - drag[3]) > 4) moved = true;
    view.x = event.clientX - drag[0];
    view.y = event.clientY - drag[1];
    if (!frame) frame = requestAnimationFrame(() => { frame = 0; place(); });
  });
  window.addEventListener("pointerup", () => { drag = null; });
  $("canvas").addEventListener("wheel", (event) => {
    event.preventDefault();
    const box = $("canvas").getBoundingClientRect();
    const x = event.clientX - box.left, y = event.clientY - box.top;
    const factor = Math.exp(-event.deltaY * 0.0015), scale = Math.max(0.05, Math.min(4, view.scale * factor));
    view.x = x - (x - view.x) * scale / view.scale;
    view.y = y - (y - view.y) * scale / view.scale;
    view.scale = scale;
    if (!frame) frame = requestAnimationFrame(() => { frame = 0; place(); });
  }, { passive: false });
  $("canvas").addEventListener("dblclick", fit);

  function tell(item) {
    const about = $("about");
    about.replaceChildren(make("h2", {}, item.path.split("#")[0].split("/").join(" › ")));
    const list = make("dl", {});
    const say = (term, ...text) => list.append(make("dt", {}, term), make("dd", {}, ...text));
    if (item.kind === "node") {
      const node = data.nodes[item.node];
      say("operation", node[0]);
      say("gives", node[5]);
      const line = data.lines[node[4]];
      if (line) say("line", make("code", {}, `${shortPath(line[0])}:${line[1]}  ${line[2]}`));
      const weights = node[6].filter((k) => k < 0).map((k) => data.inputs[-1 - k]);
      if (weights.length) say("reads", weights.map((w) => `${w[0]} ${w[2]}`).join(", "));
    } else {
      say("size", counted(item.count, "operation"));
      const time = times.get(item.path);
      if (time) say("time of its kernels", microseconds(time));
      const dotted = item.path.split("/").slice(1).join(".");
      const own = data.inputs.filter((input) => dotted && input[0].startsWith(dotted + "."));
      if (own.length) say("weights", make("pre", {}, own.slice(0, 60).map((w) => `${w[0].slice(dotted.length + 1)}  ${w[2]}`).join("\n")));
      const kernels = data.kernels.filter((kernel) => kernel.modules.some((m) => dotted && (data.modules[m] + ".").startsWith(dotted + ".")));
      if (kernels.length) {
        const box = make("dd", {});
        for (const kernel of kernels.slice(0, 40)) box.append(make("a", { class: "link", onclick: () => showKernel(data.kernels.indexOf(kernel)) }, `${kernel.step}. ${kernel.name} ${microseconds(kernel.time)}`), make("br", {}));
        list.append(make("dt", {}, "kernels"), box);
      }
    }
    about.append(list);
  }
  function reveal(item) {
    show("graph");
    for (const up of ancestors(item).slice(1)) if (up.path) open.add(up.path);
    chosen = item;
    draw();
    const box = $("canvas").getBoundingClientRect();
    let x = 0, y = 0;
    for (const up of ancestors(item)) { x += up.x || 0; y += up.y || 0; }
    view.scale = Math.max(view.scale, 0.7);
    view.x = box.width / 2 - (x + item.w / 2) * view.scale;
    view.y = box.height / 2 - (y + Math.min(item.h, 200) / 2) * view.scale;
    place();
    tell(item);
  }
  if (total) $("legend").append(make("span", {}, make("i", { class: "share" }), "share of the time"));
  for (const name of ["module", "product", "norm", "reduction", "elementwise", "movement", "other"])
    $("legend").append(make("span", {}, make("i", { style: `background:var(--${name})` }), name));

  $("about").append(make("p", {}, "Click a box to open or close it. Drag to move, turn the wheel to zoom, double-click to see it all."));

  // - search
  $("search").addEventListener("input", () => {
    const found = search(data, tree, $("search").value);
    $("found").hidden = !found.length;
    $("found").replaceChildren(...found.map((hit) => make("li", { onclick: () => { $("found").hidden = true; go(hit); } }, hit.what, make("small", {}, hit.kind))));
  });
  $("search").addEventListener("keydown", (event) => {
    if (event.key === "Enter" && $("found").firstChild) $("found").firstChild.click();
    if (event.key === "Escape") $("found").hidden = true;
  });
  document.addEventListener("keydown", (event) => { if (event.key === "/" && document.activeElement !== $("search")) { event.preventDefault(); $("search").focus(); } });
  function go(hit) {
    if (hit.item) reveal(hit.item);
    else if (hit.kernel != null) showKernel(hit.kernel);
    else {
      const user = data.nodes.findIndex((node) => node[6].includes(-1 - hit.input));
      if (user >= 0) reveal(tree.owner[user]);
    }
  }

  // - kernels
  function showKernel(k) {
    show("kernels");
    const row = document.querySelector(`#kernels tr[data-k="${k}"]`);
    if (row) { row.scrollIntoView({ block: "center" }); row.style.background = "var(--box)"; }
  }
  function fillKernels() {
    const columns = [
      ["step", (k) => Number(k.step), (k) => k.step, true], ["kernel", (k) => k.name, (k) => k.name, false],
      ["time", (k) => -(k.time || 0), (k) => microseconds(k.time), true], ["share", (k) => -(k.time || 0), (k) => total ? (100 * k.time / total).toFixed(1) + "%" : "", true],
      ["FLOPs", (k) => -k.flops, (k) => k.flops ? withPrefix(k.flops, "") : "", true], ["moves", (k) => -(k.read + k.written), (k) => bytes(k.read + k.written), true],
      ["modules", (k) => (k.modules.map((m) => data.modules[m])[0] || ""), (k) => k.modules.map((m) => data.modules[m]).slice(0, 4).join(", ") + (k.modules.length > 4 ? ", …" : ""), false],
      ["lines", (k) => k.lines[0], (k) => k.lines.slice(0, 3).map((l) => shortPath(data.lines[l][0]) + ":" + data.lines[l][1]).join(", "), false],
      ["why it is a kernel of its own", (k) => k.reason, (k) => k.reason, false],
    ];
    const table = $("kernels").querySelector("table"), longest = Math.max(...data.kernels.map((k) => k.time || 0), 1e-9);
    const order = data.kernels.map((_, k) => k);
    if (total) order.sort((a, b) => (data.kernels[b].time || 0) - (data.kernels[a].time || 0));
    const rows = () => table.tBodies[0].replaceChildren(...order.map((at) => {
      const kernel = data.kernels[at];
      const row = make("tr", { "data-k": at, title: kernel.operations.join(" + ") }, ...columns.map(([, , text, number]) => make("td", number ? { class: "number" } : {}, text(kernel))));
      if (total) row.cells[3].prepend(make("span", { class: "bar", style: `width:${(40 * (kernel.time || 0) / longest).toFixed(1)}px` }));
      if (kernel.function) row.cells[1].replaceChildren(make("a", { class: "link", onclick: () => showSource(kernel.function) }, kernel.name.replaceAll("+", "+\u200b")));
      return row;
    }));
    table.tHead.replaceChildren(make("tr", {}, ...columns.map(([title, key, , number]) => make("th", { class: number ? "number" : "", onclick: () => { order.sort((a, b) => { const x = key(data.kernels[a]), y = key(data.kernels[b]); return x < y ? -1 : x > y ? 1 : 0; }); rows(); } }, title))));
    if (!total) $("kernels").prepend(make("p", {}, "No run was timed. explain(html=..., run=(arguments,)) times some, and so does `adjoint explain script.py`."));
    rows();
  }

  // - memory
  function fillMemory() {
    const memory = data.memory;
    if (!memory.blocks) { $("plan").textContent = "This backend does not tell its memory plan."; return; }
    const width = 1000, height = 400, moments = Math.max(memory.moments.length, 1), arena = Math.max(memory.arena, 1);
    const svg = make("svg", { viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none" });
    for (const [start, size, first, last, what, line] of memory.blocks) {
      const told = () => { const at = data.lines[line]; $("block").textContent = `${bytes(size)}  ${what}; steps ${memory.moments[first][0]} to ${memory.moments[last][0]}` + (at ? `; ${shortPath(at[0])}:${at[1]}  ${at[2]}` : ""); };
      svg.append(make("rect", { x: width * first / moments, y: height - height * (start + size) / arena, width: Math.max(width * (last - first + 1) / moments, 0.5), height: Math.max(height * size / arena, 0.3), onpointerenter: told }));
    }
    $("plan").append(make("p", {}, `${bytes(memory.arena)} for values between kernels; steps from left to right, addresses from bottom to top.` + (memory.left_out ? ` ${memory.left_out} smaller ones are not drawn.` : "")), svg);
    $("block").textContent = "Point at a block.";
    const table = $("memory").querySelector("table");
    table.tHead.append(make("tr", {}, ...["bytes", "what", "steps", "line"].map((t) => make("th", {}, t))));
    for (const [, size, first, last, what, line] of memory.blocks.slice(0, 40)) {
      const at = data.lines[line];
      table.tBodies[0].append(make("tr", {}, make("td", { class: "number" }, bytes(size)), make("td", {}, what), make("td", {}, `${memory.moments[first][0]} to ${memory.moments[last][0]}`), make("td", {}, make("code", {}, at ? `${shortPath(at[0])}:${at[1]}  ${at[2]}` : ""))));
    }
  }

  // - guards and code
  function fillGuards() {
    $("recordings").textContent = data.recordings;
    for (const [where, texts] of guardsByLine(data.guards))
      $("guards").append(make("details", {}, make("summary", {}, make("code", {}, where), ` ${counted(texts.length, "thing")}`), make("ul", {}, ...texts.map((text) => make("li", {}, text)))));
  }
  async function readSources() {
    if (!sources) {
      const packed = Uint8Array.from(atob(document.getElementById("sources").textContent.trim()), (c) => c.charCodeAt(0));
      const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
      sources = JSON.parse(await new Response(stream).text());
    }
    return sources;
  }
  async function fillSource(wanted) {
    const texts = await readSources(), select = $("source").querySelector("select"), pre = $("source").querySelector("pre");
    if (!select.options.length) {
      const used = new Map(data.kernels.map((kernel) => [kernel.function, kernel.name]));
      for (const name of Object.keys(texts)) select.append(make("option", { value: name }, used.get(name) ? `${used.get(name)}  (${name.slice(0, 24)})` : name));
      select.addEventListener("change", () => { pre.textContent = texts[select.value]; });
      if (!select.options.length) pre.textContent = "This backend does not tell its code.";
    }
    if (wanted) select.value = wanted;
    if (select.value) pre.textContent = texts[select.value] || "";
  }
  function showSource(name) { shown.add("source"); show("source"); fillSource(name); }

  draw();
  fit();
  const asked = () => { const id = location.hash.slice(1); if (TABS.some(([tab]) => tab === id)) show(id); };  // page.html#kernels
  asked();
  window.addEventListener("hashchange", asked);
  window.addEventListener("resize", fit);
}
