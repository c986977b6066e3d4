"""Pipelines beyond texts' classes: questions, labels without training, pictures, sound, tables, masks."""

import numpy as np
import torch
import transformers as tr
from common import fill, parts
from PIL import Image
from small_transformers import PICTURES, QUIET, WORDS
from tokenizers import Tokenizer, models, pre_tokenizers, processors

words = [
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "[MASK]",
    *"the cat sat on a mat dog ran far away who this is about . ?".split(),
]
inner = Tokenizer(models.WordLevel({w: i for i, w in enumerate(words)}, unk_token="[UNK]"))
inner.pre_tokenizer = pre_tokenizers.Whitespace()
inner.post_processor = processors.TemplateProcessing(
    single="[CLS] $A [SEP]",
    pair="[CLS] $A [SEP] $B:1 [SEP]:1",
    special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
)
tokenizer = tr.PreTrainedTokenizerFast(
    tokenizer_object=inner, unk_token="[UNK]", pad_token="[PAD]", cls_token="[CLS]", sep_token="[SEP]",
    mask_token="[MASK]", model_max_length=32,
)  # fmt: skip
config = {**WORDS, **QUIET, "vocab_size": len(words), "max_position_embeddings": 64}
drawing = Image.fromarray(
    (np.sin(np.arange(32 * 32 * 3) * 0.3).reshape(32, 32, 3) * 100 + 120).astype("uint8")
)


def questions():
    """Answers as spans of a text."""
    model = fill(tr.BertForQuestionAnswering(tr.BertConfig(**config))).eval()
    ask = (
        tr.pipeline("question-answering", model=model, tokenizer=tokenizer)
        if "question-answering" in tr.pipelines.SUPPORTED_TASKS
        else None
    )
    if ask is None:
        return [-1]
    told = ask(question="who sat ?", context="the cat sat on a mat", top_k=2)
    return [[each["score"], each["start"], each["end"]] for each in told]


def unseen_labels():
    """Labels that nobody trained."""
    own = tr.BertConfig(
        **config, num_labels=3, label2id={"contradiction": 0, "neutral": 1, "entailment": 2}
    )
    judge = tr.pipeline(
        "zero-shot-classification",
        model=fill(tr.BertForSequenceClassification(own)).eval(),
        tokenizer=tokenizer,
    )
    told = judge("the cat sat on a mat", ["cat", "dog"], hypothesis_template="this is about {} .")
    many = judge(
        "a dog ran", ["cat", "dog"], multi_label=True, hypothesis_template="this is about {} ."
    )
    return [told["scores"], many["scores"]]


def grouped_words():
    """Words of one kind, joined."""
    own = tr.BertConfig(**config, num_labels=3, id2label={0: "O", 1: "B-X", 2: "I-X"})
    model = fill(tr.BertForTokenClassification(own)).eval()
    found = []
    for way in ("none", "simple", "first", "average", "max"):
        mark = tr.pipeline(
            "token-classification", model=model, tokenizer=tokenizer, aggregation_strategy=way
        )
        found.append([float(each["score"]) for each in mark("the cat sat on a mat")])
    return found


def pictures():
    """Classes and features of pictures."""
    model = fill(tr.ViTForImageClassification(tr.ViTConfig(**PICTURES))).eval()
    processor = tr.ViTImageProcessor(size={"height": 32, "width": 32})
    classify = tr.pipeline("image-classification", model=model, image_processor=processor)
    told = classify([drawing, drawing.rotate(90)], top_k=3)
    return [[each["score"] for each in row] for row in told]


def sounds():
    """Classes of sound."""
    own = tr.Wav2Vec2Config(
        hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32, conv_dim=(8, 8), conv_kernel=(5, 3), conv_stride=(4, 2),
        num_conv_pos_embeddings=4, num_conv_pos_embedding_groups=2, num_feat_extract_layers=2, num_labels=3, classifier_proj_size=8)  # fmt: skip
    model = fill(tr.Wav2Vec2ForSequenceClassification(own)).eval()
    classify = tr.pipeline(
        "audio-classification", model=model, feature_extractor=tr.Wav2Vec2FeatureExtractor()
    )
    wave = np.sin(np.arange(1600) * 0.05).astype("float32")
    return sorted(each["score"] for each in classify({"raw": wave, "sampling_rate": 16000}))


def written():
    """Texts continued, several at once, with settings; batches that differ in length."""
    gpt = tr.GPT2LMHeadModel(
        tr.GPT2Config(vocab_size=len(words), n_positions=32, n_embd=16, n_layer=1, n_head=2)
    )
    write = tr.pipeline("text-generation", model=fill(gpt).eval(), tokenizer=tokenizer)
    told = write(
        ["the cat", "a dog ran"],
        max_new_tokens=4,
        num_beams=3,
        num_return_sequences=2,
        pad_token_id=0,
        do_sample=False,
    )
    texts = [each["generated_text"] for row in told for each in row]
    only = write(
        "the cat",
        max_new_tokens=3,
        return_tensors=True,
        pad_token_id=0,
        do_sample=False,
    )
    return [[tokenizer(text)["input_ids"] for text in texts], only[0]["generated_token_ids"]]


def own_pipeline():
    """A pipeline of a program's own, and rows of a generator."""

    class Lengths(tr.Pipeline):
        """How long what a model says is."""

        def _sanitize_parameters(self, scale=1, **kwargs):
            return {}, {}, {"scale": scale}

        def preprocess(self, text):
            return self.tokenizer(text, return_tensors="pt")

        def _forward(self, given):
            return {"hidden": self.model(**given).last_hidden_state}

        def postprocess(self, out, scale=1):
            return float(out["hidden"].norm()) * scale

    measure = Lengths(model=fill(tr.BertModel(tr.BertConfig(**config))).eval(), tokenizer=tokenizer)
    rows = (text for text in ("the cat", "a dog ran far away"))
    return [measure("the cat", scale=2), list(measure(rows))]


def processed():
    """Processors of pictures: sizes, crops, means."""
    found = []
    for make, options in (
        (tr.ViTImageProcessor, {"size": {"height": 24, "width": 24}}),
        (
            tr.CLIPImageProcessor,
            {"size": {"shortest_edge": 28}, "crop_size": {"height": 24, "width": 24}},
        ),
        (tr.ConvNextImageProcessor, {"size": {"shortest_edge": 24}}),
    ):
        made = make(**options)([drawing, drawing], return_tensors="pt")["pixel_values"]
        found += [made.mean(), made.std(), *made.shape]
    return [round(float(x), 1) for x in found]


parts(questions, unseen_labels, grouped_words, pictures, sounds, written, own_pipeline, processed)
