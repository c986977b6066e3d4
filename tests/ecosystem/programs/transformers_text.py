"""Two steps of text models that the other programs do not have, each by its own configuration."""

import torch
import transformers as tr
from common import fill, say, train

ids = torch.arange(16).reshape(2, 8) * 3 % 36 + 3
basic = {
    "vocab_size": 40,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 32,
    "max_position_embeddings": 40,
}
quiet = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
grouped = {
    **basic,
    "num_key_value_heads": 2,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
rotary = {"vocab_size": 40, "n_embd": 16, "n_layer": 2, "n_head": 4, "rotary_dim": 2}
rotary |= {"n_positions": 32, "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
pairs = {
    "vocab_size": 40,
    "d_model": 16,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 32,
    "decoder_ffn_dim": 32,
    "dropout": 0.0,
    "max_position_embeddings": 32,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "decoder_start_token_id": 0,
}
experts = {"moe_intermediate_size": 16, "num_experts_per_tok": 2}
latent = {"q_lora_rank": 8, "kv_lora_rank": 8, "qk_rope_head_dim": 4, "v_head_dim": 4}
found = []
for model in (
    tr.DebertaV2ForMaskedLM(
        tr.DebertaV2Config(
            **basic, **quiet, relative_attention=True, pos_att_type=["p2c", "c2p"]
        )
    ),
    tr.MPNetForMaskedLM(tr.MPNetConfig(**basic, **quiet)),
    tr.XLNetLMHeadModel(
        tr.XLNetConfig(vocab_size=40, d_model=16, n_layer=2, n_head=4, d_inner=32, dropout=0.0)
    ),
    tr.LongformerForMaskedLM(tr.LongformerConfig(**basic, **quiet, attention_window=4)),
    tr.Gemma2ForCausalLM(tr.Gemma2Config(**grouped, head_dim=4, query_pre_attn_scalar=4)),
    tr.Gemma3ForCausalLM(tr.Gemma3TextConfig(**grouped, head_dim=4, query_pre_attn_scalar=4)),
    tr.Olmo2ForCausalLM(tr.Olmo2Config(**grouped)),
    tr.CohereForCausalLM(tr.CohereConfig(**grouped)),
    tr.StableLmForCausalLM(tr.StableLmConfig(**grouped)),
    tr.Starcoder2ForCausalLM(
        tr.Starcoder2Config(**grouped, residual_dropout=0.0, embedding_dropout=0.0)
    ),
    tr.MambaForCausalLM(
        tr.MambaConfig(vocab_size=40, hidden_size=16, num_hidden_layers=2, state_size=4)
    ),
    tr.RwkvForCausalLM(
        tr.RwkvConfig(
            vocab_size=40, hidden_size=16, num_hidden_layers=2, attention_hidden_size=16
        )
    ),
    tr.Qwen2MoeForCausalLM(
        tr.Qwen2MoeConfig(
            **grouped, **experts, shared_expert_intermediate_size=16, num_experts=4
        )
    ),
    tr.DeepseekV3ForCausalLM(
        tr.DeepseekV3Config(
            **{**grouped, "num_key_value_heads": 4}, **experts, **latent, qk_nope_head_dim=4,
            n_routed_experts=4, n_group=1, topk_group=1, first_k_dense_replace=1,
        )
    ),
    tr.GPTJForCausalLM(tr.GPTJConfig(**rotary)),
    tr.CodeGenForCausalLM(tr.CodeGenConfig(**rotary)),
    tr.MBartForConditionalGeneration(tr.MBartConfig(**pairs)),
    tr.PegasusForConditionalGeneration(tr.PegasusConfig(**pairs)),
):  # fmt: skip
    fill(model)
    found += train(model, lambda: model(input_ids=ids, labels=ids).loss, steps=2)
say(*found)
