"""`keras_bert.load`: finds a checkpoint by path or name, checks it and builds its models."""

import logging
import math
import os
import pathlib
import re

import keras

from keras_bert.checkpoints import google, huggingface, keras_hub, sentence_transformers, tokenizer_files
from keras_bert.checkpoints.layout import POOLER_TENSORS, Checkpoint, Tensor, check_known, fill, slots, tensors_of
from keras_bert.memory import explain_out_of_memory
from keras_bert.metadata import Metadata
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
# A wheel contains the bundled checkpoints inside the package; a checkout has them next to it.
_PACKAGE = pathlib.Path(__file__).parents[1]
_SHELF = _PACKAGE / "saved_models"
if not _SHELF.is_dir():
    _SHELF = _PACKAGE.parent / "saved_models"
_WITHOUT_POOLER = ("embedding", "question_answering", "token_classification")
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
    """Loads a checkpoint from Google, Hugging Face, KerasHub or this package.

    Args:
        path_or_name: a directory, a `.keras` file, a KerasHub `BertBackbone` or `BertTextClassifier`, or a name. A name
            is looked up in `$KERAS_BERT_MODELS`, in `saved_models/` (of the checkout or of the installed package),
            among KerasHub's presets and on the Hugging Face hub, in this order.
        revision: str, branch, tag or commit on the Hugging Face hub. Defaults to `None`.
        dtype: dtype policy of the models, such as "mixed_bfloat16". Defaults to Keras' global one.
        head: str, the kind of head, see `describe`. "encoder" omits the head. Defaults to the head specified by the
            checkpoint.
        **encoder_options: more arguments of `build_encoder`, such as `remat` or `hidden_states`.

    Returns:
        A `LoadedBert`.

    Example:
        bert = keras_bert.load("google-bert/bert-base-uncased")
        model = keras_bert.build_classifier(bert.encoder, num_classes=2)
    """
    if head not in (None, *HEADS):
        raise ValueError(f"`head` must be one of {', '.join(HEADS)}. Received: head={head!r}")
    checkpoint = _open(path_or_name, revision, head)
    with explain_out_of_memory(parameters=sum(math.prod(tensor.shape) for tensor in checkpoint.tensors.values())):
        return LoadedBert(checkpoint, dtype=dtype, **encoder_options)


class LoadedBert:
    """A checkpoint in memory. Its models share the weights of `encoder`.

    Attributes:
        config: the `BertConfig`.
        encoder: the encoder with loaded weights.
        metadata: the `Metadata`. Each of its fields is an attribute too: `head` ("encoder" for none), `vocabulary`,
            `lowercase`, `labels`, `multi_label`, `task`, `pair`, `sequence_length`, `null_threshold`, `pooling`,
            `normalize`, ...
        strip_accents: bool, whether to remove accents; `None` means the same as `lowercase`.
    """

    def __init__(self, checkpoint, **encoder_options):
        _check_vocabulary(checkpoint)
        self._checkpoint = checkpoint
        self.config = checkpoint.config
        changes = {name: encoder_options.pop(name) for name in ("causal", "positions") if name in encoder_options}
        self.metadata = checkpoint.metadata.replace(head=checkpoint.metadata.head or "encoder", **changes)
        vars(self).update(vars(self.metadata))
        self.strip_accents = self.metadata.strip_accents
        self.encoder = build_encoder(self.config, causal=self.causal, positions=self.positions, **encoder_options)
        description = describe(self.encoder)
        check_known(checkpoint, description)
        complete = fill(checkpoint, slots(description), optional=POOLER_TENSORS)
        if not complete and self.head not in _WITHOUT_POOLER:
            logging.getLogger("keras_bert").warning(
                "%s has no pooler: the encoder's is randomly initialized. Fine-tune before using `pooled_output`.",
                checkpoint.name,
            )

    def __repr__(self):
        config = self.config
        return (
            f"LoadedBert({self._checkpoint.name!r}, L={config.num_hidden_layers} H={config.hidden_size} "
            f"A={config.num_attention_heads}, head={self.head!r})"
        )

    def preprocessor(self, sequence_length, **options):
        """Returns the `TextPreprocessor` for these models; `options` are passed to it."""
        from keras_bert.text.preprocessor import TextPreprocessor  # Needs TensorFlow, unlike the models.

        name, limit = self._checkpoint.name, self.config.max_position_embeddings
        if self.vocabulary is None:
            raise ValueError(f"{name} has no vocabulary. Build a `TextPreprocessor` with your own vocabulary")
        if sequence_length > limit and self.positions == "learned":
            raise ValueError(
                f"`sequence_length` must be at most {limit}, the number of positions of {name}. "
                f"Received: sequence_length={sequence_length}"
            )
        return TextPreprocessor(self.vocabulary, sequence_length, **{"lowercase": self.lowercase, **options})

    def pretrainer(self, next_sentence=None):
        """Returns the pre-training model with the checkpoint's heads; by default with NSP if the checkpoint has it."""
        if next_sentence is None:
            next_sentence = "cls.seq_relationship.weight" in self._checkpoint.tensors
        return self._fill_head(build_pretrainer(self.encoder, next_sentence, self.tied))

    def model(self):
        """Returns the model with the head that the checkpoint contains."""
        encoder, dropout = self.encoder, self.config.head_dropout
        match self.head:
            case "encoder":
                return encoder
            case "embedding":
                return build_embedder(encoder, self.pooling, self.normalize, self.sequence_length)
            case "pretraining":
                return self.pretrainer()
            case "next_sentence":
                model = build_next_sentence(encoder)
            case "question_answering":
                model = build_span_labeler(encoder)
            case "multiple_choice":
                model = build_multiple_choice(encoder, dropout)
            case "token_classification":
                model = build_token_classifier(encoder, self._num_classes(), dropout)
            case _:
                model = build_classifier(encoder, self._num_classes(), dropout, self.multi_label)
        return self._fill_head(model)

    def _num_classes(self):
        name, kernel = self._checkpoint.name, self._checkpoint.tensors.get("classifier.weight")
        if kernel is None:
            raise ValueError(f"{name}: the config specifies a {self.head} head, but there is no classifier.weight")
        if self.labels and len(self.labels) != kernel.shape[0]:
            raise ValueError(
                f"{name}: `id2label` has {len(self.labels)} labels, but classifier.weight has {kernel.shape[0]} rows"
            )
        return kernel.shape[0]

    def left_out(self, model):
        """Returns the names of the checkpoint's tensors that a model does not use, such as the head or the pooler."""
        held = {slot.name for slot in slots(describe(model))}
        return sorted(tensor.name for name, tensor in self._checkpoint.tensors.items() if name not in held)

    def _fill_head(self, model):
        """Loads the weights that a model has besides the encoder's."""
        filled = {slot.name for slot in slots(describe(self.encoder))}
        fill(self._checkpoint, [slot for slot in slots(describe(model)) if slot.name not in filled])
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
    is_kaggle = name.startswith("kaggle://")
    if is_kaggle or re.fullmatch(r"[a-z0-9]+(_[a-z0-9]+)+", name):  # Other names do not import keras-hub.
        if is_kaggle or name in keras_hub.preset_names():
            return keras_hub.read_preset(name, head)
        tried.append("KerasHub's BERT presets")
    return _open_path(_download(name, revision, tried), head)


def _download(name, revision, tried):
    import huggingface_hub

    try:
        return pathlib.Path(huggingface_hub.snapshot_download(name, revision=revision, allow_patterns=_HUB_FILES))
    except Exception as error:  # The hub, the network and the name check raise different types.
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise ValueError(
            f"{name}: no such checkpoint. Tried: {', '.join(tried)}, the Hugging Face hub ({reason})"
        ) from error


def _open_path(path, head):
    if path.suffix == ".keras" and path.is_file():
        return _open_keras(path, path.parent)
    if not path.is_dir():
        raise ValueError(f"{path}: expected a directory or a .keras file. Received: another kind of file")
    folder = path if (path / huggingface.CONFIG).is_file() else sentence_transformers.transformer_folder(path)
    if google.is_google(folder) and not huggingface.has_weights(folder):
        checkpoint = google.read(folder)
        checkpoint.metadata = tokenizer_files.read(folder, checkpoint.metadata, LONGEST_WORD)
    elif (path / KERAS_FILE).is_file() and not (path / huggingface.WEIGHTS).is_file():
        return _open_keras(path / KERAS_FILE, path)
    elif not (folder / huggingface.CONFIG).is_file():
        raise FileNotFoundError(
            f"{path}: not a checkpoint. Expected {huggingface.CONFIG} with {huggingface.WEIGHTS} (Hugging Face), "
            f"{google.CONFIG} with bert_model.ckpt.* (Google), or {KERAS_FILE}"
        )
    elif "registered_name" in huggingface.read_json(folder / huggingface.CONFIG):
        return keras_hub.read_preset(path.resolve(), head)
    else:
        checkpoint = huggingface.read(folder, head)
        longest_word = [LONGEST_WORD] if huggingface.is_ours(folder) else []
        checkpoint.metadata = tokenizer_files.read(folder, checkpoint.metadata, *longest_word)
        if head is None:
            checkpoint.metadata = sentence_transformers.read(path, checkpoint)
    if head is not None:
        checkpoint.metadata = checkpoint.metadata.replace(head=head)
    return checkpoint


def _open_keras(file, directory):
    """Opens a `.keras` file; casing, labels and task come from JSON files in its directory, if there are any."""
    try:
        model = keras.saving.load_model(file, compile=False)
    except (ValueError, OSError, KeyError) as error:
        raise ValueError(f"{file}: Keras cannot load this file: {str(error).strip().splitlines()[0]}") from error
    description = describe(model)
    has_config = (directory / huggingface.CONFIG).is_file()
    metadata = huggingface.read_config(directory)[1] if has_config else Metadata()
    names = ("head", "causal", "positions", "tied", "multi_label")
    metadata = metadata.replace(**{name: getattr(description, name) for name in names})
    if description.head == "embedding":
        layer = description.layers["sentence_pooling"]
        length = metadata.sequence_length or layer.sequence_length
        metadata = metadata.replace(pooling=layer.pooling, normalize=layer.normalize, sequence_length=length)
    tensors = {
        name: Tensor(name, array.shape, lambda array=array: array) for name, array in tensors_of(description).items()
    }
    metadata = tokenizer_files.read(directory, metadata, LONGEST_WORD)
    return Checkpoint(str(file), description.config, tensors, metadata)


def _check_vocabulary(checkpoint):
    vocabulary, rows = checkpoint.metadata.vocabulary, checkpoint.config.vocab_size
    if vocabulary is not None and len(vocabulary) > rows:
        raise ValueError(
            f"{checkpoint.name}: the vocabulary has {len(vocabulary)} pieces, more than the token table's "
            f"vocab_size={rows} rows. Expected the vocabulary that the model was trained with"
        )
