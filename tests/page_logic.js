// The page's logic without a browser: node tests/page_logic.js data.json
"use strict";
const assert = require("node:assert");
const page = require("../adjoint/engine/compiler/page/page.js");

const data = {
  name: "step",
  modules: ["", "Net.a", "Net.b.0", "Net.b.1"],
  lines: [["x/net.py", 3, "y = self.a(x)"], ["x/train.py", 9, "loss"]],
  inputs: [["Net.a.weight", "state", "float32[2, 2]"], ["argument 0", "argument", "float32[2]"]],
  nodes: [
    ["linear", "product", 0, 1, 0, "float32[2]", [-1, -2]],
    ["relu", "elementwise", 0, 2, 0, "float32[2]", [0]],
    ["relu", "elementwise", 0, 3, 0, "float32[2]", [1]],
    ["sum", "reduction", 0, 0, 1, "float32[]", [2]],
    ["mul", "elementwise", 1, 3, 0, "float32[2]", [3]],
    ["addcmul", "elementwise", 2, 0, 1, "float32[2]", [4]],
  ],
  kernels: [{ name: "relu+relu", step: "1", modules: [2, 3], lines: [0], backward: false, time: 10, operations: [] }],
};
const tree = page.buildTree(data);
assert.deepEqual(tree.root.children.map((c) => c.name), ["forward", "backward", "update"]);
const net = tree.root.children[0].children.find((c) => c.name === "Net");
assert.deepEqual(net.children.map((c) => c.name), ["a", "b"]);
assert.equal(net.count, 3);

assert.deepEqual([...page.openedAtFirst(tree.root)], ["forward", "forward/Net", "forward/Net/b"]);
const open = new Set(["forward", "forward/Net"]);
assert.equal(page.standsFor(tree.owner[1], open).path, "forward/Net/b");
let edges = page.visibleEdges(data, tree.owner, open);
assert.deepEqual(edges.get(net).map(([a, b]) => [a.name, b.name]), [["a", "b"]]);
assert.deepEqual(edges.get(tree.root).map(([a, b]) => [a.name, b.name]), [["forward", "backward"], ["backward", "update"]]);
page.layout(tree.root, open, edges);
const [a, b] = net.children;
assert.ok(a.y + a.h < b.y, "b reads what a gives: it lies below");
assert.ok(net.w >= a.w && net.h >= b.y + b.h, "a module is around what is in it");

open.add("forward/Net/b");
edges = page.visibleEdges(data, tree.owner, open);
assert.deepEqual(edges.get(b).map(([x, y]) => [x.name, y.name]), [["0", "1"]]);

assert.deepEqual(page.search(data, tree, "net.b 1").map((hit) => hit.what), ["Net.b.1", "Net.b.1"]);
assert.equal(page.search(data, tree, "a.weight")[0].input, 0);
assert.equal(page.search(data, tree, "relu+")[0].kernel, 0);
assert.deepEqual(page.search(data, tree, "nothing like it"), []);
assert.equal(page.moduleTimes(data).get("forward/Net/b"), 10);
assert.equal(page.bytes(2500000), "2.5 MB");
for (const [time, told] of [[null, ""], [0.5, "0.50 µs"], [12.34, "12.3 µs"], [999.7, "1.00 ms"], [1500, "1.50 ms"], [446000, "446 ms"], [4432700, "4.43 s"], [19215000, "19.2 s"]])
  assert.equal(page.microseconds(time), told);

// A module that only holds others (`transformer`) dissolves where its owner computes between them.
const held = {
  name: "step", modules: ["", "GPT", "GPT.transformer.wte", "GPT.transformer.drop", "GPT.head"], lines: [], inputs: [], kernels: [],
  nodes: [
    ["embedding", "product", 0, 2, -1, "float32[2]", []],
    ["add", "elementwise", 0, 1, -1, "float32[2]", [0]],
    ["dropout", "elementwise", 0, 3, -1, "float32[2]", [1]],
    ["linear", "product", 0, 4, -1, "float32[2]", [2]],
  ],
};
const gpt = page.buildTree(held).root.children[0].children[0];
assert.deepEqual(gpt.children.map((c) => c.name), ["transformer.wte", "add", "transformer.drop", "head"]);
assert.equal(gpt.children[0].path, "forward/GPT/transformer/wte");
assert.equal(gpt.children[0].parent, gpt);
held.nodes[1][6] = [];  // nothing comes back to it: it stays a box
const kept = page.buildTree(held).root.children[0].children[0];
assert.deepEqual(kept.children.map((c) => c.name), ["transformer", "add", "head"]);
assert.deepEqual([...page.guardsByLine(["a is 3 (/x/net.py:7)", "f is there (the call)", "b is 4 (/x/net.py:7)"])], [["net.py:7", ["a is 3", "b is 4"]], ["the call", ["f is there (the call)"]]]);
assert.equal(page.cut("abcdef", 4), "abc…");

if (process.argv[2]) {  // a page of a real program lays out without overlaps
  const real = JSON.parse(require("node:fs").readFileSync(process.argv[2], "utf8"));
  const made = page.buildTree(real), all = new Set();
  const visit = (item) => { if (item.path) all.add(item.path); item.children.forEach(visit); };
  visit(made.root);
  page.layout(made.root, all, page.visibleEdges(real, made.owner, all));
  const check = (item) => {
    item.children.forEach((c, k) => {
      assert.ok([c.x, c.y, c.w, c.h].every(Number.isFinite), c.path);
      item.children.slice(k + 1).forEach((d) => assert.ok(c.x + c.w <= d.x || d.x + d.w <= c.x || c.y + c.h <= d.y || d.y + d.h <= c.y, c.path + " over " + d.path));
      check(c);
    });
  };
  check(made.root);
  assert.equal(made.owner.length, real.nodes.length);
}
console.log("ok");
