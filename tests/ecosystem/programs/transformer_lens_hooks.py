"""transformer-lens: activations cached, patched and ablated; factored matrices; training."""

import torch
from common import fill, picture, say, train
from transformer_lens import FactoredMatrix, HookedTransformer, HookedTransformerConfig, utils

config = HookedTransformerConfig(n_layers=2, d_model=16, n_ctx=12, d_head=8, n_heads=2, d_mlp=32, d_vocab=30, act_fn="gelu", normalization_type="LN", device="cpu", seed=0)
model = fill(HookedTransformer(config))
ids = torch.arange(16).reshape(2, 8) * 3 % 30
found = train(model, lambda: model(ids, return_type="loss"), steps=3)
model.eval()
logits, cache = model.run_with_cache(ids)
found += [logits.sum(), len(cache), cache["pattern", 0].sum(), cache["resid_post", -1].abs().sum(), cache.stack_head_results(layer=2).abs().sum()]
parts, names = cache.decompose_resid(layer=2, return_labels=True)
found += [parts.abs().sum(), len(names), cache.accumulated_resid(incl_mid=True).abs().sum(), cache.logit_attrs(parts, ids[:, 0]).sum()]


def without_head(value, hook):
    """One head says nothing."""
    value[:, :, 1] = 0
    return value


def swapped(value, hook):
    """What the other text has."""
    value[0] = value[1]
    return value


found.append(model.run_with_hooks(ids, return_type="loss", fwd_hooks=[(utils.get_act_name("z", 0), without_head)]))
found.append(model.run_with_hooks(ids, return_type="loss", fwd_hooks=[(utils.get_act_name("resid_pre", 1), swapped)]))
grads = {}
model.add_hook(lambda name: name.endswith("hook_z"), lambda g, hook: grads.update({hook.name: g.abs().sum().item()}), "bwd")
model(ids, return_type="loss").backward()
model.reset_hooks()
found += [grads[name] for name in sorted(grads)]
circuit = model.OV[0, 0]
found += [circuit.norm(), circuit.S.sum(), circuit.AB.sum(), model.QK[1, 1].eigenvalues.abs().sum() if hasattr(model.QK[1, 1], "eigenvalues") else 0]
small = FactoredMatrix(picture(5, 2), picture(2, 5))
found += [small.trace() if hasattr(small, "trace") else small.AB.trace(), (small @ picture(5)).sum(), small.svd()[1].sum(), small.T.AB.sum()]
found += model.generate(ids[:1, :4], max_new_tokens=5, do_sample=False, verbose=False, return_type="tokens").flatten().tolist() if "return_type" in HookedTransformer.generate.__code__.co_varnames else []
rotary = HookedTransformerConfig(n_layers=1, d_model=16, n_ctx=12, d_head=8, n_heads=2, d_mlp=32, d_vocab=30, act_fn="silu", gated_mlp=True, normalization_type="RMS",
                                 positional_embedding_type="rotary", rotary_dim=8, device="cpu", seed=0)  # fmt: skip
other = fill(HookedTransformer(rotary))
found += train(other, lambda: other(ids, return_type="loss"), steps=2)
folded = HookedTransformer(config)
folded.load_and_process_state_dict(model.state_dict(), fold_ln=False, center_writing_weights=True, center_unembed=True)
found.append((folded(ids).log_softmax(-1) - model(ids).log_softmax(-1)).abs().max() < 1e-3)
say(*found)
