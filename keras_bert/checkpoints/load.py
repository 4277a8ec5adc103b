"""`keras_bert.load`: finds a checkpoint by path or name, reads it strictly, hands out models."""

import logging
import os
import pathlib
import re

import keras

from keras_bert.checkpoints import google, huggingface, keras_hub, sentence_transformers, tokenizer_files
from keras_bert.checkpoints.layout import POOLER_TENSORS, Source, Tensor, check_known, fill, slots, tensors_of
from keras_bert.memory import explain_out_of_memory
from keras_bert.models.description import HEADS, describe
from keras_bert.models.encoder import build_encoder
from keras_bert.models.heads import (
    build_classifier,
    build_embedder,
    build_multiple_choice,
    build_span_labeler,
    build_token_classifier,
)
from keras_bert.models.pretrainer import build_next_sentence, build_pretrainer
from keras_bert.text.vocabulary import LONGEST_WORD

KERAS_FILE = "model.keras"
# The checkpoints that ship: a wheel has them in the package, a checkout beside it.
_PACKAGE = pathlib.Path(__file__).parents[1]
_SHELF = _PACKAGE / "saved_models"
if not _SHELF.is_dir():
    _SHELF = _PACKAGE.parent / "saved_models"
_HUB_FILES = [
    "config.json",
    "*.safetensors",
    "*.safetensors.index.json",
    "vocab.txt",
    "tokenizer.json",
    "tokenizer_config.json",
    "added_tokens.json",
    "special_tokens_map.json",
    "modules.json",
    "*/config.json",
    "*sentence_bert_config.json",
    "config_sentence_transformers.json",
]


def load(path_or_name, revision=None, dtype=None, head=None, **encoder_options):
    """Loads a checkpoint of Google, Hugging Face, KerasHub or this package.

    Args:
        path_or_name: a directory, a `.keras` file, a KerasHub `BertBackbone` or `BertTextClassifier`, or a name. A name
            is looked for in `$KERAS_BERT_MODELS`, among the models that ship (`saved_models/` of the checkout, or of
            the installed package), among KerasHub's presets and on the Hugging Face hub, in this order.
        revision: branch, tag or commit on the Hugging Face hub.
        dtype: dtype policy of the models, such as "mixed_bfloat16".
        head: the kind of head, see `describe`, in place of what the checkpoint says; "encoder" leaves its head out.
        **encoder_options: further arguments of `build_encoder`, such as `remat` or `hidden_states`.

    Returns:
        A `LoadedBert`.

    Example:
        bert = keras_bert.load("google-bert/bert-base-uncased")
        model = keras_bert.build_classifier(bert.encoder, num_classes=2)
    """
    if head not in (None, *HEADS):
        raise ValueError(f"`head` must be one of {', '.join(HEADS)}. Received: head={head!r}")
    source = _open(path_or_name, revision, head)
    with explain_out_of_memory(parameters=sum(_size(tensor.shape) for tensor in source.tensors.values())):
        return LoadedBert(source, dtype=dtype, **encoder_options)


class LoadedBert:
    """A checkpoint in memory. Its models share the weights of `encoder`.

    Attributes:
        config: the `BertConfig`.
        encoder: the encoder, weights loaded.
        vocabulary: the `Vocabulary`, or None if the checkpoint has none.
        lowercase, strip_accents: the casing that the vocabulary was made with.
        labels: names of the classes, or None.
        multi_label: whether several classes may be right.
        pooling, normalize: how a sentence encoder makes vectors, see `build_embedder`; None and False for others.
        task: name of the task that the head was trained on, or None.
        pair: whether it was trained on pairs of texts; None if that is not known.
        sequence_length: the most pieces of a sequence that it was trained on, or None.
        null_threshold: above which a question has no answer, or None; see `save`.
        head: the kind of head in the checkpoint, see `describe`; "encoder" for none.
    """

    def __init__(self, source, **encoder_options):
        _check_vocabulary(source)
        self._source = source
        self.config = source.config
        self.vocabulary = source.vocabulary
        self.lowercase = source.lowercase
        self.strip_accents = source.vocabulary.strip_accents if source.vocabulary else None
        self.labels = source.labels
        self.multi_label = source.multi_label
        self.pooling, self.normalize = source.pooling, source.normalize
        self.task = source.task
        self.pair = source.pair
        self.sequence_length = source.sequence_length
        self.null_threshold = source.null_threshold
        self.head = source.head or "encoder"
        options = {"causal": source.causal, "positions": source.positions, **encoder_options}
        self._positions = options["positions"]
        self.encoder = build_encoder(source.config, **options)
        description = describe(self.encoder)
        check_known(source, description)
        fresh = fill(source, slots(description), may_stay_fresh=POOLER_TENSORS)
        if fresh and self.head != "embedding":  # Whose vectors do not come from it.
            logging.getLogger("keras_bert").warning(
                "%s has no pooler: the encoder's is freshly initialized. Fine-tune before `pooled_output` is used.",
                source.name,
            )

    def __repr__(self):
        config = self.config
        return (
            f"LoadedBert({self._source.name!r}, L={config.num_hidden_layers} H={config.hidden_size} "
            f"A={config.num_attention_heads}, head={self.head!r})"
        )

    def preprocessor(self, sequence_length, **options):
        """The `TextPreprocessor` for these models; `options` are its further arguments."""
        from keras_bert.text.preprocessor import TextPreprocessor  # It needs TensorFlow, the models do not.

        if self.vocabulary is None:
            raise ValueError(f"{self._source.name} has no vocabulary. Build a `TextPreprocessor` with one of your own")
        if sequence_length > self.config.max_position_embeddings and self._positions == "learned":
            raise ValueError(
                f"`sequence_length` must be {self.config.max_position_embeddings} at most, as many positions as "
                f"{self._source.name} has. Received: sequence_length={sequence_length}"
            )
        return TextPreprocessor(self.vocabulary, sequence_length, **{"lowercase": self.lowercase, **options})

    def pretrainer(self, next_sentence=None):
        """The pre-training model with the checkpoint's heads; NSP, by default, where the checkpoint has it."""
        if next_sentence is None:
            next_sentence = "cls.seq_relationship.weight" in self._source.tensors
        return self._with_head(build_pretrainer(self.encoder, next_sentence, self._source.tied))

    def model(self):
        """The model with the head that the checkpoint holds."""
        if self.head == "encoder":
            return self.encoder
        if self.head == "embedding":
            return build_embedder(self.encoder, self.pooling, self.normalize, self.sequence_length)
        if self.head == "pretraining":
            return self.pretrainer()
        if self.head == "next_sentence":
            return self._with_head(build_next_sentence(self.encoder))
        if self.head == "question_answering":
            return self._with_head(build_span_labeler(self.encoder))
        if self.head == "multiple_choice":
            return self._with_head(build_multiple_choice(self.encoder, self.config.head_dropout))
        if "classifier.weight" not in self._source.tensors:
            raise ValueError(
                f"{self._source.name}: the config tells of a {self.head} head, but there is no classifier.weight"
            )
        num_classes = self._source.tensors["classifier.weight"].shape[0]
        if self.labels and len(self.labels) != num_classes:
            raise ValueError(
                f"{self._source.name}: `id2label` has {len(self.labels)} labels, but classifier.weight has "
                f"{num_classes} rows"
            )
        if self.head == "token_classification":
            return self._with_head(build_token_classifier(self.encoder, num_classes, self.config.head_dropout))
        return self._with_head(build_classifier(self.encoder, num_classes, self.config.head_dropout, self.multi_label))

    def left_out(self, model):
        """The names of the checkpoint's tensors that a model of it does not hold, such as the head or the pooler."""
        held = {slot.name for slot in slots(describe(model))}
        return sorted(tensor.name for name, tensor in self._source.tensors.items() if name not in held)

    def _with_head(self, model):
        """Fills what a model has beyond the encoder."""
        known = {slot.name for slot in slots(describe(self.encoder))}
        fill(self._source, [slot for slot in slots(describe(model)) if slot.name not in known])
        return model


def _open(path_or_name, revision, head):
    if keras_hub.is_model(path_or_name):
        return keras_hub.read_model(path_or_name)
    name = str(path_or_name)
    shelves = [os.environ.get("KERAS_BERT_MODELS"), _SHELF]
    places = [pathlib.Path(name).expanduser(), *(pathlib.Path(shelf) / name for shelf in shelves if shelf is not None)]
    candidates = list(dict.fromkeys(places))
    for path in candidates:
        if path.exists():
            return _open_path(path, head)
    tried = [f"the path {path}" for path in candidates]
    if isinstance(path_or_name, pathlib.Path) or name.startswith(("/", ".", "~")):
        raise FileNotFoundError(f"{name}: no such checkpoint. Tried: {', '.join(tried)}")
    if _may_be_preset(name):
        if name.startswith("kaggle://") or name in keras_hub.preset_names():
            return keras_hub.read_preset(name, head)
        tried.append("KerasHub's BERT presets")
    return _open_path(_download(name, revision, tried), head)


def _may_be_preset(name):
    """KerasHub's names are words joined by underscores; keras-hub is not imported for others."""
    return name.startswith("kaggle://") or re.fullmatch(r"[a-z0-9]+(_[a-z0-9]+)+", name) is not None


def _download(name, revision, tried):
    import huggingface_hub

    try:
        return pathlib.Path(huggingface_hub.snapshot_download(name, revision=revision, allow_patterns=_HUB_FILES))
    except Exception as error:  # The hub, the network and the name's check each raise their own.
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise ValueError(
            f"{name}: no such checkpoint. Tried: {', '.join(tried)}, the Hugging Face hub ({reason})"
        ) from error


def _open_path(path, head):
    if path.suffix == ".keras" and path.is_file():
        return _open_keras(path, path.parent)
    if not path.is_dir():
        raise ValueError(f"{path}: a checkpoint is a directory or a .keras file. Received a file that is neither")
    folder = path if (path / huggingface.CONFIG).is_file() else sentence_transformers.folder_of_weights(path)
    if google.is_one(folder) and not huggingface.has_weights(folder):
        source = google.read(folder)
        tokenizer_files.read(folder, source, LONGEST_WORD)
    elif (path / KERAS_FILE).is_file() and not (path / huggingface.WEIGHTS).is_file():
        return _open_keras(path / KERAS_FILE, path)
    elif (folder / huggingface.CONFIG).is_file():
        if "registered_name" in huggingface.read_json(folder / huggingface.CONFIG):
            return keras_hub.read_preset(path.resolve(), head)
        source = _open_huggingface(path, folder, head)
    else:
        raise FileNotFoundError(
            f"{path}: not a checkpoint. Expected {huggingface.CONFIG} with {huggingface.WEIGHTS} (Hugging Face), "
            f"{google.CONFIG} with bert_model.ckpt.* (Google), or {KERAS_FILE}"
        )
    source.head = head or source.head
    return source


def _open_huggingface(path, folder, head):
    source = huggingface.read_config(folder)
    source.tensors = huggingface.read_weights(folder, source.tied)
    tokenizer_files.read(folder, source, *([LONGEST_WORD] if huggingface.is_ours(folder) else []))
    if head is None:
        huggingface.check_head(folder, source)
        sentence_transformers.read(path, source)
    return source


def _open_keras(file, directory):
    """A `.keras` file; casing, labels and task stand in the JSON files beside it, where it has them."""
    try:
        model = keras.saving.load_model(file, compile=False)
    except (ValueError, OSError, KeyError) as error:
        raise ValueError(f"{file}: Keras cannot load this file: {str(error).strip().splitlines()[0]}") from error
    description = describe(model)
    tensors = {
        name: Tensor(name, array.shape, lambda array=array: array) for name, array in tensors_of(description).items()
    }
    source = Source(name=str(file), config=description.config, tensors=tensors)
    if (directory / huggingface.CONFIG).is_file():
        source = huggingface.read_config(directory)
        source.name, source.config, source.tensors = str(file), description.config, tensors
    for name in ("head", "causal", "positions", "tied", "multi_label"):
        setattr(source, name, getattr(description, name))
    if description.head == "embedding":
        pooling = description.layers["sentence_pooling"]
        source.pooling, source.normalize = pooling.pooling, pooling.normalize
        source.sequence_length = source.sequence_length or pooling.sequence_length
    tokenizer_files.read(directory, source, LONGEST_WORD)
    return source


def _check_vocabulary(source):
    if source.vocabulary is not None and len(source.vocabulary) > source.config.vocab_size:
        raise ValueError(
            f"{source.name}: the vocabulary has {len(source.vocabulary)} pieces, more than the token table's "
            f"vocab_size={source.config.vocab_size} rows. Expected the vocabulary that the model was trained with"
        )


def _size(shape):
    size = 1
    for dim in shape:
        size *= dim
    return size
