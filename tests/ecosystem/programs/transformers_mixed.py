"""Language models of mixed kinds: state spaces, experts, recurrences."""

import transformers as tr
from common import say
from small_transformers import GROUPED, WORDS, words_of

found = []


def reg(name, make, generates=True):
    found.extend(words_of(make, generates))


reg(
    "mamba2",
    lambda: tr.Mamba2ForCausalLM(
        tr.Mamba2Config(
            vocab_size=40,
            hidden_size=16,
            num_hidden_layers=2,
            state_size=8,
            num_heads=4,
            head_dim=8,
            n_groups=1,
            chunk_size=4,
        )
    ),
)
reg("granite", lambda: tr.GraniteForCausalLM(tr.GraniteConfig(**GROUPED)))
reg(
    "granitemoe",
    lambda: tr.GraniteMoeForCausalLM(
        tr.GraniteMoeConfig(**GROUPED, num_local_experts=4, num_experts_per_tok=2)
    ),
)
reg("olmo", lambda: tr.OlmoForCausalLM(tr.OlmoConfig(**GROUPED)))
reg(
    "olmoe",
    lambda: tr.OlmoeForCausalLM(tr.OlmoeConfig(**GROUPED, num_experts=4, num_experts_per_tok=2)),
)
reg("phi", lambda: tr.PhiForCausalLM(tr.PhiConfig(**GROUPED)))
reg("persimmon", lambda: tr.PersimmonForCausalLM(tr.PersimmonConfig(**WORDS, hidden_dropout=0.0)))
reg(
    "mpt",
    lambda: tr.MptForCausalLM(
        tr.MptConfig(vocab_size=40, d_model=16, n_heads=4, n_layers=2, max_seq_len=32)
    ),
)
reg(
    "gptneo",
    lambda: tr.GPTNeoForCausalLM(
        tr.GPTNeoConfig(
            vocab_size=40,
            hidden_size=16,
            num_layers=2,
            num_heads=4,
            attention_types=[[["global", "local"], 1]],
            window_size=4,
            max_position_embeddings=32,
            resid_dropout=0.0,
            embed_dropout=0.0,
            attention_dropout=0.0,
        )
    ),
)
reg(
    "gptbigcode",
    lambda: tr.GPTBigCodeForCausalLM(
        tr.GPTBigCodeConfig(
            vocab_size=40,
            n_embd=16,
            n_layer=2,
            n_head=4,
            n_positions=32,
            resid_pdrop=0.0,
            embd_pdrop=0.0,
            attn_pdrop=0.0,
        )
    ),
)
reg(
    "recurrentgemma",
    lambda: tr.RecurrentGemmaForCausalLM(
        tr.RecurrentGemmaConfig(
            **{**GROUPED, "num_hidden_layers": 3}, lru_width=16, attention_window_size=8
        )
    ),
)
reg(
    "jamba",
    lambda: tr.JambaForCausalLM(
        tr.JambaConfig(
            **{k: v for k, v in GROUPED.items() if k != "max_position_embeddings"},
            num_experts=2,
            num_experts_per_tok=1,
            mamba_d_state=4,
            mamba_d_conv=4,
            mamba_dt_rank=4,
            use_mamba_kernels=False,
            attn_layer_period=2,
            attn_layer_offset=1,
            expert_layer_period=2,
            expert_layer_offset=1,
        )
    ),
)
reg("helium", lambda: tr.HeliumForCausalLM(tr.HeliumConfig(**GROUPED, head_dim=4)))
reg("glm", lambda: tr.GlmForCausalLM(tr.GlmConfig(**GROUPED, head_dim=4)))
reg("nemotron", lambda: tr.NemotronForCausalLM(tr.NemotronConfig(**GROUPED)))
reg(
    "gptoss",
    lambda: tr.GptOssForCausalLM(
        tr.GptOssConfig(
            **{**GROUPED, "num_hidden_layers": 2},
            head_dim=4,
            num_local_experts=4,
            num_experts_per_tok=2,
            sliding_window=4,
        )
    ),
)
reg(
    "qwen3moe",
    lambda: tr.Qwen3MoeForCausalLM(
        tr.Qwen3MoeConfig(
            **GROUPED, head_dim=4, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=16
        )
    ),
)
reg(
    "deepseekv2",
    lambda: tr.DeepseekV2ForCausalLM(
        tr.DeepseekV2Config(
            **{**GROUPED, "num_key_value_heads": 4},
            q_lora_rank=8,
            kv_lora_rank=8,
            qk_rope_head_dim=4,
            qk_nope_head_dim=4,
            v_head_dim=4,
            n_routed_experts=4,
            num_experts_per_tok=2,
            moe_intermediate_size=8,
            first_k_dense_replace=1,
            n_group=1,
            topk_group=1,
        )
    ),
)
reg("smollm3", lambda: tr.SmolLM3ForCausalLM(tr.SmolLM3Config(**GROUPED)))
reg("exaone4", lambda: tr.Exaone4ForCausalLM(tr.Exaone4Config(**GROUPED, sliding_window=4)))
reg(
    "bamba",
    lambda: tr.BambaForCausalLM(
        tr.BambaConfig(
            **GROUPED,
            mamba_n_heads=4,
            mamba_d_head=8,
            mamba_d_state=8,
            mamba_n_groups=1,
            mamba_expand=2,
            mamba_chunk_size=4,
            attn_layer_indices=[1],
        )
    ),
)
reg(
    "falconmamba",
    lambda: tr.FalconMambaForCausalLM(
        tr.FalconMambaConfig(vocab_size=40, hidden_size=16, num_hidden_layers=2, state_size=4)
    ),
)
reg(
    "qwen3next",
    lambda: tr.Qwen3NextForCausalLM(
        tr.Qwen3NextConfig(
            **GROUPED,
            head_dim=8,
            num_experts=4,
            num_experts_per_tok=2,
            moe_intermediate_size=16,
            shared_expert_intermediate_size=16,
            linear_num_key_heads=2,
            linear_num_value_heads=4,
            linear_key_head_dim=8,
            linear_value_head_dim=8,
            layer_types=["linear_attention", "full_attention"],
        )
    ),
)
reg(
    "lfm2",
    lambda: tr.Lfm2ForCausalLM(tr.Lfm2Config(**GROUPED, layer_types=["conv", "full_attention"])),
)
reg(
    "minimax",
    lambda: tr.MiniMaxForCausalLM(
        tr.MiniMaxConfig(
            **GROUPED,
            head_dim=4,
            num_local_experts=2,
            num_experts_per_tok=1,
            block_size=4,
            layer_types=["linear_attention", "full_attention"],
        )
    ),
)
reg(
    "zamba2",
    lambda: tr.Zamba2ForCausalLM(
        tr.Zamba2Config(
            **{**GROUPED, "num_hidden_layers": 3},
            mamba_d_state=8,
            mamba_ngroups=1,
            n_mamba_heads=4,
            mamba_headdim=8,
            chunk_size=4,
            num_mem_blocks=1,
            hybrid_layer_ids=[1],
            layers_block_type=["mamba", "hybrid", "mamba"],
            use_mamba_kernels=False,
        )
    ),
)
reg(
    "llama4",
    lambda: tr.Llama4ForCausalLM(
        tr.Llama4TextConfig(
            **GROUPED,
            head_dim=4,
            intermediate_size_mlp=32,
            num_local_experts=2,
            num_experts_per_tok=1,
            attention_chunk_size=4,
        )
    ),
)
reg(
    "gemma3n",
    lambda: tr.Gemma3nForCausalLM(
        tr.Gemma3nTextConfig(
            **{**GROUPED, "num_hidden_layers": 2},
            head_dim=4,
            vocab_size_per_layer_input=40,
            hidden_size_per_layer_input=4,
            layer_types=["sliding_attention", "full_attention"],
            num_kv_shared_layers=0,
            laurel_rank=2,
            altup_num_inputs=2,
            sliding_window=4,
            activation_sparsity_pattern=[0.5, 0.0],
        )
    ),
)
say(*found)
