"""Models of masked words and of pairs of sentences."""

import torch
import transformers as tr
from common import fill, say, train

ids = torch.arange(16).reshape(2, 8) * 3 % 36 + 3
mask = torch.ones(2, 8, dtype=torch.long)
mask[1, 6:] = 0
basic = {
    "vocab_size": 40,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 32,
    "max_position_embeddings": 32,
}
quiet = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
G = {**basic, "num_key_value_heads": 2, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
seq = {
    "vocab_size": 40,
    "d_model": 16,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 32,
    "decoder_ffn_dim": 32,
    "dropout": 0.0,
    "attention_dropout": 0.0,
    "max_position_embeddings": 32,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "decoder_start_token_id": 2,
}
found = []


def reg(name, make, gen=True):
    """Two steps of training, and what the model says afterwards."""
    torch.manual_seed(0)
    model = fill(make()).train()
    given = {"input_ids": ids, "attention_mask": mask, "labels": ids}
    found.extend(train(model, lambda: model(**given).loss, steps=2))
    if gen:
        model.eval()
        with torch.no_grad():
            said = model.generate(ids[:1], max_new_tokens=5, do_sample=False, pad_token_id=0)
        found.extend(said.flatten().tolist())


reg(
    "modernbert",
    lambda: tr.ModernBertForMaskedLM(
        tr.ModernBertConfig(
            **{k: v for k, v in G.items() if k != "num_key_value_heads"},
            cls_token_id=1,
            sep_token_id=2,
            local_attention=4,
        )
    ),
    False,
)
reg(
    "deberta",
    lambda: tr.DebertaForMaskedLM(
        tr.DebertaConfig(**basic, **quiet, pos_att_type=["c2p", "p2c"], relative_attention=True)
    ),
    False,
)
reg("camembert", lambda: tr.CamembertForMaskedLM(tr.CamembertConfig(**basic, **quiet)), False)
reg(
    "mobilebert",
    lambda: tr.MobileBertForMaskedLM(
        tr.MobileBertConfig(**basic, **quiet, embedding_size=16, intra_bottleneck_size=16)
    ),
    False,
)
reg(
    "squeezebert",
    lambda: tr.SqueezeBertForMaskedLM(tr.SqueezeBertConfig(**basic, **quiet, embedding_size=16)),
    False,
)
reg(
    "fnet",
    lambda: tr.FNetForMaskedLM(
        tr.FNetConfig(
            vocab_size=40,
            hidden_size=16,
            num_hidden_layers=2,
            intermediate_size=32,
            max_position_embeddings=32,
            hidden_dropout_prob=0.0,
        )
    ),
    False,
)
reg(
    "convbert",
    lambda: tr.ConvBertForMaskedLM(tr.ConvBertConfig(**basic, **quiet, embedding_size=16)),
    False,
)
reg("roformer", lambda: tr.RoFormerForMaskedLM(tr.RoFormerConfig(**basic, **quiet)), False)
reg(
    "xlm",
    lambda: tr.XLMWithLMHeadModel(
        tr.XLMConfig(
            vocab_size=40,
            emb_dim=16,
            n_layers=2,
            n_heads=4,
            dropout=0.0,
            attention_dropout=0.0,
            max_position_embeddings=32,
        )
    ),
    False,
)
reg(
    "bigbird",
    lambda: tr.BigBirdForMaskedLM(
        tr.BigBirdConfig(**basic, **quiet, attention_type="original_full")
    ),
    False,
)
reg(
    "funnel",
    lambda: tr.FunnelForMaskedLM(
        tr.FunnelConfig(
            vocab_size=40,
            block_sizes=[1, 1],
            num_decoder_layers=1,
            d_model=16,
            n_head=4,
            d_head=4,
            d_inner=32,
            hidden_dropout=0.0,
            attention_dropout=0.0,
            activation_dropout=0.0,
        )
    ),
    False,
)
reg(
    "reformer",
    lambda: tr.ReformerModelWithLMHead(
        tr.ReformerConfig(
            vocab_size=40,
            hidden_size=16,
            num_attention_heads=2,
            attention_head_size=8,
            feed_forward_size=32,
            attn_layers=["local", "lsh"],
            is_decoder=True,
            axial_pos_embds=False,
            max_position_embeddings=32,
            num_buckets=2,
            hidden_dropout_prob=0.0,
            local_attn_chunk_length=4,
            lsh_attn_chunk_length=4,
            hash_seed=0,
        )
    ),
    False,
)
reg("marian", lambda: tr.MarianMTModel(tr.MarianConfig(**seq)))
reg("blenderbot", lambda: tr.BlenderbotForConditionalGeneration(tr.BlenderbotConfig(**seq)))
reg("m2m100", lambda: tr.M2M100ForConditionalGeneration(tr.M2M100Config(**seq)))
reg(
    "led",
    lambda: tr.LEDForConditionalGeneration(
        tr.LEDConfig(
            **{k: v for k, v in seq.items() if k != "max_position_embeddings"}, attention_window=4
        )
    ),
)
reg(
    "prophetnet",
    lambda: tr.ProphetNetForConditionalGeneration(
        tr.ProphetNetConfig(
            vocab_size=40,
            hidden_size=16,
            num_encoder_layers=1,
            num_decoder_layers=1,
            num_encoder_attention_heads=2,
            num_decoder_attention_heads=2,
            encoder_ffn_dim=32,
            decoder_ffn_dim=32,
            dropout=0.0,
            attention_dropout=0.0,
            activation_dropout=0.0,
            max_position_embeddings=32,
            pad_token_id=0,
            bos_token_id=1,
            eos_token_id=2,
        )
    ),
)
reg(
    "mt5",
    lambda: tr.MT5ForConditionalGeneration(
        tr.MT5Config(
            vocab_size=40,
            d_model=16,
            d_kv=4,
            d_ff=32,
            num_layers=1,
            num_heads=4,
            dropout_rate=0.0,
            decoder_start_token_id=0,
        )
    ),
)
reg(
    "umt5",
    lambda: tr.UMT5ForConditionalGeneration(
        tr.UMT5Config(
            vocab_size=40,
            d_model=16,
            d_kv=4,
            d_ff=32,
            num_layers=1,
            num_heads=4,
            dropout_rate=0.0,
            decoder_start_token_id=0,
        )
    ),
)
reg(
    "longt5",
    lambda: tr.LongT5ForConditionalGeneration(
        tr.LongT5Config(
            vocab_size=40,
            d_model=16,
            d_kv=4,
            d_ff=32,
            num_layers=1,
            num_heads=4,
            dropout_rate=0.0,
            decoder_start_token_id=0,
            local_radius=3,
        )
    ),
)
say(*found)
