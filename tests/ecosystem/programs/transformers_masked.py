"""Models of masked words and of pairs of sentences."""

import transformers as tr
from common import say
from small_transformers import GROUPED, QUIET, SEQUENCES, WORDS, words_of

found = []


def reg(name, make, generates=True):
    found.extend(words_of(make, generates))


reg(
    "modernbert",
    lambda: tr.ModernBertForMaskedLM(
        tr.ModernBertConfig(
            **{k: v for k, v in GROUPED.items() if k != "num_key_value_heads"},
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
        tr.DebertaConfig(**WORDS, **QUIET, pos_att_type=["c2p", "p2c"], relative_attention=True)
    ),
    False,
)
reg("camembert", lambda: tr.CamembertForMaskedLM(tr.CamembertConfig(**WORDS, **QUIET)), False)
reg(
    "mobilebert",
    lambda: tr.MobileBertForMaskedLM(
        tr.MobileBertConfig(**WORDS, **QUIET, embedding_size=16, intra_bottleneck_size=16)
    ),
    False,
)
reg(
    "squeezebert",
    lambda: tr.SqueezeBertForMaskedLM(tr.SqueezeBertConfig(**WORDS, **QUIET, embedding_size=16)),
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
    lambda: tr.ConvBertForMaskedLM(tr.ConvBertConfig(**WORDS, **QUIET, embedding_size=16)),
    False,
)
reg("roformer", lambda: tr.RoFormerForMaskedLM(tr.RoFormerConfig(**WORDS, **QUIET)), False)
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
        tr.BigBirdConfig(**WORDS, **QUIET, attention_type="original_full")
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
reg("marian", lambda: tr.MarianMTModel(tr.MarianConfig(**SEQUENCES)))
reg("blenderbot", lambda: tr.BlenderbotForConditionalGeneration(tr.BlenderbotConfig(**SEQUENCES)))
reg("m2m100", lambda: tr.M2M100ForConditionalGeneration(tr.M2M100Config(**SEQUENCES)))
reg(
    "led",
    lambda: tr.LEDForConditionalGeneration(
        tr.LEDConfig(
            **{k: v for k, v in SEQUENCES.items() if k != "max_position_embeddings"},
            attention_window=4,
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
