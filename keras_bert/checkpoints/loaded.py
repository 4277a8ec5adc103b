"""What `keras_bert.load` returns: the models of a checkpoint, and their answers to texts."""

import functools
import logging
import types

import keras
import numpy as np

from keras_bert import similarity
from keras_bert.checkpoints.identity import model_identity
from keras_bert.checkpoints.layout import POOLER_TENSORS, check_known, fill, is_bilstm, slots
from keras_bert.models.bilstm_encoder import build_bilstm_encoder
from keras_bert.models.describe import describe
from keras_bert.models.encoder import build_encoder
from keras_bert.models.forward import run_encoder
from keras_bert.models.head_table import head_named
from keras_bert.models.heads import build_classifier, build_span_labeler
from keras_bert.models.pretrainer import build_pretrainer
from keras_bert.models.student import take_layers
from keras_bert.similarity import unit


class LoadedBert:
    """A checkpoint in memory. Its models share the weights of `encoder`.

    It is not a Keras model: pass `bert.encoder` to builders of heads, and `bert.model()` to training, `save`, `export`.

    Attributes:
        config: the `BertConfig`.
        encoder: the encoder with loaded weights.
        metadata: the `Metadata`. Each of its fields is an attribute too: `head` ("encoder" for none), `vocabulary`,
            `lowercase`, `labels`, `multi_label`, `task`, `pair`, `sequence_length`, `null_threshold`, `thresholds`,
            `pooling`, `normalize`, ...
        strip_accents: bool, whether to remove accents; `None` means the same as `lowercase`.
        has_pooler: bool, whether the checkpoint has a pooler; otherwise the encoder's is randomly initialized.
        has_pair_layers: `False`; `True` for other models, whose `classifier` takes `pair` to build layers for pairs.
    """

    has_pair_layers = False

    def __init__(self, checkpoint, num_layers=None, **encoder_options):
        self._checkpoint, self._model, self._answerer = checkpoint, None, None
        self.config = checkpoint.config
        names = ("causal", "positions", "bilstm")
        changes = {name: encoder_options.pop(name) for name in names if name in encoder_options}
        self.metadata = checkpoint.metadata.replace(head=checkpoint.metadata.head or "encoder", **changes)
        vars(self).update(vars(self.metadata))
        self.strip_accents = self.metadata.strip_accents
        self.encoder = build_encoder(self.config, causal=self.causal, positions=self.positions, **encoder_options)
        if self.bilstm:
            self.encoder = build_bilstm_encoder(self.encoder)
        description = describe(self.encoder)
        check_known(checkpoint, description)
        wanted = slots(description)
        added = set() if checkpoint.metadata.bilstm else {slot.name for slot in wanted if is_bilstm(slot)}
        pooler = set() if POOLER_TENSORS & checkpoint.tensors.keys() else POOLER_TENSORS  # All of it may be missing.
        fill(checkpoint, wanted, optional=pooler | added)
        self.has_pooler = checkpoint.tensors.keys() >= POOLER_TENSORS
        if not self.has_pooler and "pooled" in head_named(self.head).reads:
            logging.getLogger("keras_bert").warning(
                "%s has no pooler: the encoder's is randomly initialized. Fine-tune before using `pooled_output`.",
                checkpoint.name,
            )
        if num_layers is not None:
            self.encoder = take_layers(self.encoder, num_layers, **encoder_options)
            self.config = describe(self.encoder).config

    def __repr__(self):
        config = self.config
        return (
            f"LoadedBert({self._checkpoint.name!r}, L={config.num_hidden_layers} H={config.hidden_size} "
            f"A={config.num_attention_heads}, head={self.head!r})"
        )

    def __getattr__(self, name):
        if hasattr(keras.Model, name):
            raise AttributeError(
                f"a LoadedBert is not a Keras model and has no attribute {name!r}. Use `bert.encoder` to build a model "
                "with a new head, or `bert.model()` for the model with the checkpoint's head"
            )
        raise AttributeError(f"LoadedBert has no attribute {name!r}")

    def predict(self, texts, batch_size=32, n_best=None, sequence_length=None, candidate_labels=None, **options):
        """Answers texts with the checkpoint's head, as the SavedModel of `export` does.

        A question's context and a text to tag may have any length; other texts are truncated as in training. The model
        is `bert.model()`: after training that model, `predict` uses the trained weights. Needs TensorFlow.

        Args:
            texts: a list of strings, of pairs `(text, pair)`, of `{"question": ..., "context": ...}` or of
                `{"text": ..., "choices": [...]}`, as the head requires; or one of these alone. A classifier or a
                regression model refuses pairs if it was trained without them, and texts if it was trained with pairs;
                if the checkpoint does not say (`bert.pair` is `None`), it takes both.
            batch_size: int, number of texts to compute together. Defaults to 32.
            n_best: int, number of answers to a question, or of tokens for a [MASK]. Defaults to 1 answer, 5 tokens.
            sequence_length: int, maximum number of tokens. Defaults to that of training, or else to the model's.
            candidate_labels: list of labels that the model was not trained on, for zero-shot classification with a
                sentence encoder or with a classifier of pairs (NLI); at least 2, or 1 with `multi_label`. Defaults to
                `None`.
            **options: more options of `export`, such as `stride`, `max_answer_length`, `null_threshold`, `thresholds`
                or `logits`, a bool that adds the logits of a classifier or regression model; with `candidate_labels`
                those of `ZeroShot`: `hypothesis`, `multi_label`, `temperature`.

        Returns:
            A list with a dict for each text; for one text alone, its dict. Scores are probabilities. `start` and `end`
            are positions in the Python string (a SavedModel's are in bytes), so that `text[start:end]` is the answer.

            - classification, also with `candidate_labels`: `label`, `score`, `scores` (a dict by label); multi-label:
              `labels`, those whose score is at least its threshold, and `scores`
            - regression: `value`
            - token classification: `entities`, a list of dicts with `text`, `label`, `start`, `end`, `score`
            - question answering: `answer`, `score`, `start`, `end`; with `n_best` also `answers`, best first. With a
              null threshold also `null_score`, the probability of no answer, for which `answer` is empty and `start`
              and `end` are -1. The probabilities are those among the 20 best answers
            - pre-training: `fills`, for each [MASK] a list of dicts with `token`, `score`; an empty list without
              [MASK]; for pairs as next sentence
            - next sentence: `probability` that the pair follows the text
            - multiple choice: `choice` (its index), `scores`; an empty choice has the score 0
            - encoder, embedding: `vector`, as from `encode`

        Example:
            bert.predict(["A charming film."])[0]["label"]
        """
        if candidate_labels is not None:
            options |= {} if n_best is None else {"n_best": n_best}  # Refused like any unknown option.
            return self._answers().zero_shot(texts, candidate_labels, batch_size, sequence_length, **options)
        return self._answers().predict(texts, batch_size, n_best, sequence_length, **options)

    def encode(self, texts, batch_size=32, sequence_length=None, prompt=None, prompt_name=None, normalize=False):
        """Embeds texts with the encoder: float32 NumPy `(texts, width)`, or `(width,)` for a string. Needs TensorFlow.

        Pools, projects and normalizes as the checkpoint specifies (sentence-transformers), otherwise takes the mean
        over all tokens. Works with any head. For `batch_size` and `sequence_length` see `predict`.

        Args:
            prompt: str, put before each text, "" for none. Defaults to the checkpoint's default prompt, if it has one.
            prompt_name: str, one of the checkpoint's `prompts`, in place of `prompt`. Defaults to `None`.
            normalize: bool, whether to scale vectors to length 1 even if the model does not. Defaults to `False`.

        Example:
            bert.encode(["A sentence.", "Another one."])
        """
        vectors = self._answers().encode(texts, batch_size, sequence_length, prompt, prompt_name)
        return unit(vectors) if normalize else vectors

    def similarity(self, first, second):
        """Compares each text, or vector from `encode`, with each other one: float32 NumPy `(first, second)`.

        The function is the checkpoint's `similarity_function`, the cosine if it has none.

        Args:
            first: a list of texts, a text, or an array of vectors.
            second: the same.

        Example:
            bert.similarity("How old are you?", ["What is your age?", "Where is the station?"])
        """
        vectors = [each if isinstance(each, np.ndarray) else self.encode(each) for each in (first, second)]
        return similarity.similarity(*map(np.atleast_2d, vectors), self.similarity_function)

    def attention(self, text):
        """Returns the tokens of a text and the attention probabilities between them.

        Args:
            text: a string, or a tuple of two for a pair; truncated to the model's maximum length.

        Returns:
            The list of tokens, including [CLS] and [SEP], and a float32 NumPy array `(layers, heads, length, length)`:
            its last axis is what each token of the axis before it attends to, and sums to 1.

        Example:
            tokens, attention = bert.attention("A sentence.")
        """
        kept = ["[MASK]"] if "masked" in head_named(self.head).reads else []  # As in `predict`.
        length = self.config.max_position_embeddings
        preprocessor = self.preprocessor(length, padding="longest", keep_special_tokens=kept)
        parts = [[part] for part in text] if isinstance(text, tuple) else [[text]]
        if len(parts) > 2 or not all(isinstance(part, str) for (part,) in parts):
            raise ValueError(f"`text` must be a string or a tuple of two strings. Received: text={text!r:.200}")
        inputs = preprocessor(tuple(parts) if len(parts) == 2 else parts[0])
        inputs = {name: keras.ops.convert_to_numpy(ids) for name, ids in inputs.items()}
        layers = describe(self.encoder).layers
        _, scores = run_encoder(layers, inputs, return_attention_scores=True)
        scores = keras.ops.cast(keras.ops.concatenate(scores), "float32")
        tokens = [self.vocabulary.pieces[index] for index in inputs["token_ids"][0]]
        return tokens, keras.ops.convert_to_numpy(scores)

    def _answers(self):
        if self._answerer is None:
            if (backend := keras.config.backend()) != "tensorflow":
                raise ValueError(
                    "`predict` and `encode` need the TensorFlow backend of Keras, KERAS_BACKEND=tensorflow. On other "
                    f"backends, call bert.model() on token ids. Received: KERAS_BACKEND={backend}"
                )
            from keras_bert.checkpoints.answers import Answerer  # Needs TensorFlow, unlike the models.

            self._answerer = Answerer(self)
        return self._answerer

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

    def classifier(self, num_classes, multi_label=False):
        """Returns the encoder with a new head from `build_classifier`, which reads pairs and single texts alike."""
        return build_classifier(self.encoder, num_classes, multi_label=multi_label)

    def span_labeler(self):
        """Returns the encoder with a new head from `build_span_labeler`."""
        return build_span_labeler(self.encoder)

    def pretrainer(self, next_sentence=None):
        """Returns the pre-training model with the checkpoint's heads; by default with NSP if the checkpoint has it."""
        next_sentence = self._has_next_sentence() if next_sentence is None else next_sentence
        return self._fill_head(build_pretrainer(self.encoder, next_sentence, self.tied))

    def model(self):
        """Returns the model with the head that the checkpoint contains, the same one in each call."""
        if self._model is None:
            self._model = self._build_model()
        return self._model

    def _build_model(self):
        head, options = head_named(self.head), {**vars(self.metadata), "dropout": self.config.head_dropout}
        options["next_sentence"] = self._has_next_sentence()
        name, tensors = self._checkpoint.name, self._checkpoint.tensors
        try:
            options |= head.sizes(tensors)
        except KeyError as error:
            raise ValueError(
                f"{name}: the config specifies a {head.name} head, but there is no {error.args[0]}"
            ) from None
        if head.has_classes and self.labels and len(self.labels) != options["num_classes"]:
            raise ValueError(
                f"{name}: `id2label` has {len(self.labels)} labels, but classifier.weight has {options['num_classes']} "
                "rows"
            )
        return self._fill_head(head.build(self.encoder, types.SimpleNamespace(**options)))

    def _has_next_sentence(self):
        return "cls.seq_relationship.weight" in self._checkpoint.tensors

    @functools.cached_property
    def identity(self):
        """What training from the checkpoint depends on, see `model_identity`."""
        arrays = (tensor.read() for _, tensor in sorted(self._checkpoint.tensors.items()))
        return model_identity(self.metadata, self._checkpoint.config, arrays)

    def left_out(self, model):
        """Returns the names of the checkpoint's tensors that a model does not use, such as the head or the pooler."""
        held = {slot.name for slot in slots(describe(model))}
        return sorted(tensor.name for name, tensor in self._checkpoint.tensors.items() if name not in held)

    def _fill_head(self, model):
        """Loads the weights that a model has besides the encoder's."""
        filled = {slot.name for slot in slots(describe(self.encoder))}
        fill(self._checkpoint, [slot for slot in slots(describe(model)) if slot.name not in filled])
        return model
