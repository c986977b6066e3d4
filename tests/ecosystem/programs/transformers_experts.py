"""Models with experts, by each way of computing them, and models that carry a state, two steps and a few words."""

from common import fill, parts, train
from small_transformers import GROUPED, ids
from transformers import (
    BambaConfig,
    BambaForCausalLM,
    DeepseekV3Config,
    DeepseekV3ForCausalLM,
    GptOssConfig,
    GptOssForCausalLM,
    Mamba2Config,
    Mamba2ForCausalLM,
    MambaConfig,
    MambaForCausalLM,
    MixtralConfig,
    MixtralForCausalLM,
    Qwen3MoeConfig,
    Qwen3MoeForCausalLM,
    Qwen3NextConfig,
    Qwen3NextForCausalLM,
    RecurrentGemmaConfig,
    RecurrentGemmaForCausalLM,
)

SHORT = {"max_new_tokens": 3, "do_sample": False, "pad_token_id": 0, "eos_token_id": None}
CHOSEN = {"num_experts_per_tok": 2, "moe_intermediate_size": 16}
STATE = {"vocab_size": 40, "hidden_size": 16, "num_hidden_layers": 2}


def learn(model):
    """Losses, then words."""
    losses = train(fill(model), lambda: model(input_ids=ids, labels=ids).loss, steps=2)
    return losses, model.eval().generate(ids[:, :4], **SHORT)


def experts():
    latent = {
        "kv_lora_rank": 8, "q_lora_rank": 8, "qk_rope_head_dim": 4, "qk_nope_head_dim": 8, "v_head_dim": 8,
        "n_group": 2, "topk_group": 1, "first_k_dense_replace": 1, "n_routed_experts": 4,
    }  # fmt: skip
    found = []
    for model in (
        MixtralForCausalLM(
            MixtralConfig(**GROUPED, num_local_experts=4, output_router_logits=True)
        ),
        Qwen3MoeForCausalLM(Qwen3MoeConfig(**GROUPED, **CHOSEN, num_experts=4, head_dim=8)),
        DeepseekV3ForCausalLM(
            DeepseekV3Config(**{**GROUPED, "num_key_value_heads": 4}, **CHOSEN, **latent)
        ),
        GptOssForCausalLM(
            GptOssConfig(
                **GROUPED, head_dim=8, num_local_experts=4, num_experts_per_tok=2, sliding_window=4
            )
        ),
    ):
        found.append(learn(model))
        for way in ("eager", "batched_mm", "grouped_mm"):
            model.set_experts_implementation(way)
            found.append(model(ids).logits)
    return found


def linear_attention():
    heads = {
        "linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 8,
        "linear_value_head_dim": 8, "shared_expert_intermediate_size": 16, "num_experts": 4, "head_dim": 8,
        "layer_types": ["linear_attention", "full_attention"],
    }  # fmt: skip
    return learn(Qwen3NextForCausalLM(Qwen3NextConfig(**GROUPED, **CHOSEN, **heads)))


def states():
    return [
        learn(MambaForCausalLM(MambaConfig(**STATE, state_size=4, time_step_rank=2))),
        learn(
            Mamba2ForCausalLM(
                Mamba2Config(**STATE, state_size=8, num_heads=4, head_dim=8, n_groups=1, chunk_size=4)
            )
        ),
        learn(
            RecurrentGemmaForCausalLM(
                RecurrentGemmaConfig(
                    **{**STATE, "num_hidden_layers": 3}, intermediate_size=32, num_attention_heads=2,
                    lru_width=16, attention_window_size=8,
                )
            )
        ),
        learn(
            BambaForCausalLM(
                BambaConfig(
                    **GROUPED, attn_layer_indices=[1], mamba_n_heads=4, mamba_d_head=8, mamba_d_state=8,
                    mamba_chunk_size=4,
                )
            )
        ),
    ]  # fmt: skip


parts(experts, linear_attention, states)
