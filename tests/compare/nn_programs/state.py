"""State dicts."""

from __future__ import annotations

from typing import Any

from tests.compare.nn_programs import fill, message, program


def pair(t: Any) -> Any:
    return fill(t, t.nn.Sequential(t.nn.Linear(2, 3), t.nn.Linear(3, 1, bias=False)))


@program
def mismatches(t: Any) -> Any:
    def load(state: Any, **options: Any) -> str:
        return message(lambda: pair(t).load_state_dict(state, **options))

    good = pair(t).state_dict()
    return [
        load({}),
        load({"0.weight": t.ones(2, 2), "a": t.ones(1), "1.b.c": t.ones(1), "0": t.ones(1)}),
        load({**good, "0.weight": t.ones(5)}, strict=False),
        load({**good, "0.weight": 3}),
        load({**good, "1.bias": t.ones(1)}),
        load([1]),
        load({**good, "0.weight.x": t.ones(1)}),
    ]


@program
def results(t: Any) -> Any:
    good = pair(t).state_dict()
    part = pair(t).load_state_dict({"0.weight": t.ones(3, 2), "zzz": 1}, strict=False)
    return [
        repr(pair(t).load_state_dict(good)),
        repr(part),
        list(part.missing_keys),
        list(part.unexpected_keys),
        list(part[0]),
    ]


@program
def values(t: Any) -> Any:
    source, target = pair(t), t.nn.Sequential(t.nn.Linear(2, 3), t.nn.Linear(3, 1, bias=False))
    held = target[0].weight
    target.load_state_dict(source.state_dict())
    copied = target[0].weight is held, str(target[0].weight.dtype).split(".")[1]
    target.load_state_dict(source.state_dict(), assign=True)
    kept = source.state_dict(keep_vars=True)["0.weight"] is source[0].weight
    assigned = target[0].weight is held, str(target[0].weight.dtype).split(".")[1]
    return [copied, assigned, kept, target[0].weight, target[0].weight.requires_grad,
            isinstance(target[0].weight, t.nn.Parameter)]  # fmt: skip


@program
def scalar_from_vector(t: Any) -> Any:
    m = t.nn.Module()
    m.register_buffer("count", t.zeros(()))
    m.load_state_dict({"count": t.ones(1)})
    return m.count


@program
def extra_state(t: Any) -> Any:
    class Extra(t.nn.Module):  # type: ignore[misc, name-defined]
        value = 0

        def get_extra_state(self) -> Any:
            return {"value": self.value}

        def set_extra_state(self, state: Any) -> None:
            self.value = state["value"]

    a, b = t.nn.Sequential(Extra()), t.nn.Sequential(Extra())
    a[0].value = 7
    b.load_state_dict(a.state_dict())
    return [list(a.state_dict()), b[0].value, message(lambda: b.load_state_dict({})),
            message(lambda: t.nn.Sequential(t.nn.Identity()).load_state_dict(a.state_dict()))]  # fmt: skip


@program
def hooks(t: Any) -> Any:
    log: list[Any] = []
    net = pair(t)
    net.register_state_dict_pre_hook(lambda m, p, k: log.append(("pre", p, k)))
    net[0].register_state_dict_pre_hook(lambda m, p, k: log.append(("pre", p, k)))
    net[0].register_state_dict_post_hook(lambda m, s, p, meta: log.append(("post", p, list(s))))
    net._register_state_dict_hook(lambda m, s, p, meta: {"only": s["0.weight"]})
    state = net.state_dict()
    other = pair(t)
    other.register_load_state_dict_pre_hook(
        lambda m, s, p, meta, strict, miss, unexp, errs: log.append(("load", p, sorted(s)))
    )

    def rename(s: Any, p: str, *rest: Any) -> None:
        s[p + "weight"] = s.pop(p + "old")

    other[0]._register_load_state_dict_pre_hook(rename)
    other.register_load_state_dict_post_hook(lambda m, keys: log.append(("done", list(keys[0]))))
    other.load_state_dict({"0.old": t.ones(3, 2), "0.bias": t.ones(3), "1.weight": t.ones(1, 3)})
    net2 = pair(t)
    net2.register_load_state_dict_post_hook(lambda m, keys: keys.missing_keys.clear())
    net2.load_state_dict({})
    return [log, list(state), other[0].weight]


@program
def override_point(t: Any) -> Any:
    class Old(t.nn.Linear):  # type: ignore[misc, name-defined]
        _version = 3

        def _load_from_state_dict(self, state: Any, prefix: str, meta: Any, *rest: Any) -> None:
            state[prefix + "weight"] = state[prefix + "weight"] * meta.get("version", 100)
            super()._load_from_state_dict(state, prefix, meta, *rest)

    a, b = fill(t, t.nn.Sequential(Old(2, 2))), fill(t, t.nn.Sequential(Old(2, 2)))
    b.load_state_dict(a.state_dict())
    c = fill(t, t.nn.Sequential(Old(2, 2)))
    c.load_state_dict(dict(a.state_dict()))
    return [b[0].weight, c[0].weight]
