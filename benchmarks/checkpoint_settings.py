"""The settings of the checkpoints of the hub that people use most, from memory of their main branches."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Settings:
    """The settings of a checkpoint.

    Args:
        name: str, its name on the hub.
        model: str, the class of transformers that has its tensors.
        weights: str, the ending of their file, "safetensors" or "bin".
        tokenizer: str, the class of a tokenizer with vocab.txt; or "unigram" or "bpe", a file of the model's class.
        cased: bool, whether the tokenizer keeps the case.
        config: dict of keys of config.json; `None` for one that is missing.
        tokens: dict of keys of tokenizer_config.json.
        tensors: dict of the shapes of more tensors.
        modules: tuple of the modules of sentence-transformers after the first.
        old: bool, whether LayerNorms have gamma and beta.
        instead: str, what to take in its place, of one that does not open.
    """

    name: str
    model: str = "BertModel"
    weights: str = "safetensors"
    tokenizer: str = "BertTokenizer"
    cased: bool = False
    config: dict = dataclasses.field(default_factory=dict)
    tokens: dict = dataclasses.field(default_factory=dict)
    tensors: dict = dataclasses.field(default_factory=dict)
    modules: tuple = ()
    old: bool = False
    instead: str = ""


def _binary(name, model="BertForMaskedLM", **options):
    return Settings(name, model, "bin", **options)


def _labels(name, count, model="BertForSequenceClassification", weights="safetensors", **options):
    return Settings(name, model, weights, **{**options, "config": {"num_labels": count, **options.get("config", {})}})


def _google(name, cased=False):
    """One of Google's, with the tensors of both tasks and the class of one."""
    config = {"architectures": ["BertForMaskedLM"]}
    return Settings(name, "BertForPreTraining", cased=cased, config=config, old=True)


_BOTH = "BertForPreTraining"
_NER = "BertForTokenClassification"
_UNNAMED = {"architectures": None}
_MEAN = ("Pooling", "Normalize")
_MECAB = {"word_tokenizer_type": "mecab", "subword_tokenizer_type": "wordpiece", "do_lower_case": False}
_JAPANESE = "BertJapaneseTokenizer"
_IDENTITY = "torch.nn.modules.linear.Identity"

FAMILIES = {
    "Google's": [
        _google("google-bert/bert-base-uncased"),
        _google("google-bert/bert-base-cased", cased=True),
        _google("google-bert/bert-large-uncased"),
        _google("google-bert/bert-base-multilingual-cased", cased=True),
        _google("google-bert/bert-base-chinese", cased=True),
        _binary("google/bert_uncased_L-2_H-128_A-2", _BOTH, config=_UNNAMED),
        _binary("prajjwal1/bert-tiny", _BOTH, config={**_UNNAMED, "model_type": None}),
        Settings("google-bert/bert-large-uncased-whole-word-masking-finetuned-squad", "BertForQuestionAnswering"),
    ],
    "Domains": [
        _labels("ProsusAI/finbert", 3, weights="bin"),
        _labels("yiyanghkust/finbert-tone", 3, weights="bin"),
        _binary("dmis-lab/biobert-v1.1", _BOTH, config=_UNNAMED, cased=True),
        _binary("allenai/scibert_scivocab_uncased", _BOTH, config=_UNNAMED),
        _binary("emilyalsentzer/Bio_ClinicalBERT", _BOTH, config=_UNNAMED, cased=True),
        _binary("nlpaueb/legal-bert-base-uncased", _BOTH),
        _binary("microsoft/BiomedNLP-BiomedBERT-base-uncased-abstract-fulltext"),
        Settings("cambridgeltl/SapBERT-from-PubMedBERT-fulltext"),
        Settings("anferico/bert-for-patents", "BertForMaskedLM"),
    ],
    "Languages": [
        _binary("neuralmind/bert-base-portuguese-cased", _BOTH, cased=True),
        _binary("dccuchile/bert-base-spanish-wwm-cased", cased=True, tokens={"strip_accents": False}),
        Settings("dbmdz/bert-base-german-cased", "BertForMaskedLM", cased=True),
        _binary("dbmdz/bert-base-turkish-cased", cased=True),
        _binary("hfl/chinese-bert-wwm-ext"),
        _binary("hfl/chinese-roberta-wwm-ext", config={"directionality": "bidi", "pooler_num_fc_layers": 3}),
        _binary("hfl/chinese-macbert-base"),
        Settings("tohoku-nlp/bert-base-japanese-v3", _BOTH, tokenizer=_JAPANESE, tokens=_MECAB),
        _binary(
            "tohoku-nlp/bert-base-japanese-char-v2",
            tokenizer=_JAPANESE,
            tokens={**_MECAB, "subword_tokenizer_type": "character"},
        ),
        Settings("klue/bert-base", "BertForMaskedLM", cased=True),
        _binary("snunlp/KR-BERT-char16424", cased=True),
        Settings("aubmindlab/bert-base-arabertv02", "BertForMaskedLM", cased=True, tokens={"never_split": ["[mail]"]}),
        _binary("asafaya/bert-base-arabic"),
        _binary("HooshvareLab/bert-fa-base-uncased"),
        _binary("indobenchmark/indobert-base-p1", "BertModel"),
        _binary("KB/bert-base-swedish-cased", cased=True, tokens={"strip_accents": False}),
        _binary("DeepPavlov/rubert-base-cased", "BertModel", cased=True),
        Settings("cointegrated/rubert-tiny2", _BOTH, cased=True),
        _binary("google/muril-base-cased", "BertModel", cased=True, config={"embedding_size": 32}),
    ],
    "Sentence encoders": [
        Settings("sentence-transformers/all-MiniLM-L6-v2", modules=_MEAN),
        Settings("sentence-transformers/multi-qa-MiniLM-L6-cos-v1", modules=_MEAN),
        Settings(
            "sentence-transformers/paraphrase-multilingual-MiniLM-L12-v2", tokenizer="unigram", modules=("Pooling",)
        ),
        Settings("sentence-transformers/LaBSE", cased=True, modules=("Pooling", "Dense", "Normalize")),
        Settings(
            "sentence-transformers/distiluse-base-multilingual-cased-v2",
            "DistilBertModel",
            tokenizer="DistilBertTokenizer",
            cased=True,
            modules=("Pooling", "Dense"),
        ),
        Settings("intfloat/e5-base-v2", modules=_MEAN),
        Settings("intfloat/multilingual-e5-base", "XLMRobertaModel", tokenizer="unigram", modules=_MEAN),
        Settings("BAAI/bge-base-en-v1.5", modules=_MEAN),
        _binary("BAAI/bge-m3", "XLMRobertaModel", tokenizer="unigram", modules=_MEAN),
        Settings("thenlper/gte-base", modules=_MEAN),
        Settings("mixedbread-ai/mxbai-embed-large-v1", modules=("Pooling",)),
        Settings("Snowflake/snowflake-arctic-embed-m", modules=_MEAN),
        _binary("princeton-nlp/sup-simcse-bert-base-uncased", "BertModel"),
    ],
    "Search": [
        _labels("cross-encoder/ms-marco-MiniLM-L6-v2", 1, config={"sbert_ce_default_activation_function": _IDENTITY}),
        _labels("BAAI/bge-reranker-base", 1, "XLMRobertaForSequenceClassification", tokenizer="unigram"),
        Settings(
            "colbert-ir/colbertv2.0", config={"architectures": ["HF_ColBERT"]}, tensors={"linear.weight": (16, 32)}
        ),
        _binary("naver/splade-cocondenser-ensembledistil"),
        _binary("facebook/contriever", "BertModel", config={"architectures": ["Contriever"]}),
        _binary("facebook/dpr-question_encoder-single-nq-base", "DPRQuestionEncoder"),
    ],
    "RoBERTa": [
        Settings("FacebookAI/roberta-base", "RobertaForMaskedLM", tokenizer="bpe"),
        Settings("FacebookAI/roberta-large", "RobertaForMaskedLM", tokenizer="bpe"),
        Settings("distilbert/distilroberta-base", "RobertaForMaskedLM", tokenizer="bpe"),
        _labels("FacebookAI/roberta-large-mnli", 3, "RobertaForSequenceClassification", tokenizer="bpe"),
        _labels(
            "cardiffnlp/twitter-roberta-base-sentiment-latest",
            3,
            "RobertaForSequenceClassification",
            "bin",
            tokenizer="bpe",
        ),
        _labels(
            "SamLowe/roberta-base-go_emotions",
            28,
            "RobertaForSequenceClassification",
            tokenizer="bpe",
            config={"problem_type": "multi_label_classification"},
        ),
        Settings("deepset/roberta-base-squad2", "RobertaForQuestionAnswering", tokenizer="bpe"),
        _labels("Jean-Baptiste/roberta-large-ner-english", 5, "RobertaForTokenClassification", "bin", tokenizer="bpe"),
        _binary("microsoft/codebert-base", "RobertaModel", tokenizer="bpe"),
        Settings("sentence-transformers/all-distilroberta-v1", "RobertaModel", tokenizer="bpe", modules=_MEAN),
        _labels("cross-encoder/stsb-roberta-base", 1, "RobertaForSequenceClassification", "bin", tokenizer="bpe"),
    ],
    "MPNet": [
        _binary("microsoft/mpnet-base", "MPNetForMaskedLM", tokenizer="MPNetTokenizer"),
        Settings("sentence-transformers/all-mpnet-base-v2", "MPNetModel", tokenizer="MPNetTokenizer", modules=_MEAN),
        Settings(
            "sentence-transformers/paraphrase-mpnet-base-v2",
            "MPNetModel",
            tokenizer="MPNetTokenizer",
            modules=("Pooling",),
        ),
        Settings(
            "sentence-transformers/multi-qa-mpnet-base-dot-v1",
            "MPNetModel",
            "bin",
            "MPNetTokenizer",
            modules=("Pooling",),
        ),
    ],
    "DistilBERT, ELECTRA, XLM-RoBERTa": [
        Settings("distilbert/distilbert-base-uncased", "DistilBertForMaskedLM"),
        _labels("distilbert/distilbert-base-uncased-finetuned-sst-2-english", 2, "DistilBertForSequenceClassification"),
        Settings("distilbert/distilbert-base-cased-distilled-squad", "DistilBertForQuestionAnswering", cased=True),
        _binary("google/electra-small-discriminator", "ElectraForPreTraining", config={"embedding_size": 16}),
        _binary("google/electra-base-discriminator", "ElectraForPreTraining", config={"embedding_size": 32}),
        _binary("google/electra-base-generator", "ElectraForMaskedLM", config={"embedding_size": 48}),
        _binary("monologg/koelectra-base-v3-discriminator", "ElectraForPreTraining", config={"embedding_size": 32}),
        Settings("FacebookAI/xlm-roberta-base", "XLMRobertaForMaskedLM", tokenizer="unigram"),
        Settings("almanach/camembert-base", "CamembertForMaskedLM", tokenizer="unigram"),
        _binary("vinai/phobert-base", "RobertaForMaskedLM", tokenizer="PhobertTokenizer"),
    ],
    "Fine-tuned": [
        _labels("dslim/bert-base-NER", 9, _NER, cased=True),
        _labels("dbmdz/bert-large-cased-finetuned-conll03-english", 9, _NER, cased=True),
        _labels("Davlan/bert-base-multilingual-cased-ner-hrl", 9, _NER, "bin", cased=True),
        _labels("d4data/biomedical-ner-all", 84, "DistilBertForTokenClassification", "bin"),
        _labels("nlptown/bert-base-multilingual-uncased-sentiment", 5),
        _labels("unitary/toxic-bert", 6, config={"problem_type": "multi_label_classification"}),
        Settings("deepset/bert-base-cased-squad2", "BertForQuestionAnswering", cased=True),
        _binary(
            "huawei-noah/TinyBERT_General_4L_312D",
            _BOTH,
            config={**_UNNAMED, "model_type": None},
            tensors={"fit_dense.weight": (64, 32), "fit_dense.bias": (64,)},
        ),
    ],
    "Other models": [
        Settings(
            "albert/albert-base-v2",
            "AlbertForMaskedLM",
            tokenizer="unigram",
            instead="all blocks share their weights; distilbert/distilbert-base-uncased is as small",
        ),
        _binary(
            "microsoft/deberta-v3-base",
            "DebertaV2ForMaskedLM",
            tokenizer="unigram",
            instead="attention between contents and relative positions; FacebookAI/roberta-base, or KerasHub",
        ),
        Settings(
            "answerdotai/ModernBERT-base",
            "ModernBertForMaskedLM",
            tokenizer="bpe",
            config={"pad_token_id": 0},
            instead="rotary positions, local attention, gated units; FacebookAI/roberta-base, in windows",
        ),
        _binary(
            "google/mobilebert-uncased",
            "MobileBertForPreTraining",
            config={"embedding_size": 16},
            instead="bottlenecks around each block; google/bert_uncased_L-4_H-256_A-4",
        ),
        Settings(
            "nomic-ai/nomic-embed-text-v1.5",
            config={"model_type": "nomic_bert", "architectures": ["NomicBertModel"]},
            instead="rotary positions and gated units; BAAI/bge-base-en-v1.5",
        ),
        Settings(
            "jinaai/jina-embeddings-v2-base-en",
            config={"position_embedding_type": "alibi", "architectures": ["JinaBertForMaskedLM"]},
            instead="a bias by distance in place of positions, gated units; BAAI/bge-base-en-v1.5",
        ),
        Settings(
            "Alibaba-NLP/gte-base-en-v1.5",
            config={"model_type": "new", "architectures": ["NewModel"]},
            instead="rotary positions and gated units; thenlper/gte-base",
        ),
    ],
}
