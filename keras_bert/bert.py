"""`keras_bert.load` and what it returns: answers, vectors, training and scores of texts; writing and exporting."""

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Generic, Literal, Self, TypeVar, Unpack, overload

import keras
import numpy as np

from keras_bert import similarity
from keras_bert.annotations import (
    Answer,
    EncoderOptions,
    Explanation,
    ExplanationMethod,
    ExportOptions,
    FitMethod,
    FitOptions,
    LabelCheck,
    LongTexts,
    PredictOptions,
    Results,
    SaveOptions,
    Strategy,
    StrategyName,
    TaskName,
    TaskOptions,
    Text,
    Texts,
)
from keras_bert.checkpoints.load import open_checkpoint
from keras_bert.checkpoints.loaded import LoadedModels
from keras_bert.checkpoints.save import save
from keras_bert.checkpoints.tensors import Checkpoint, Tensor, with_words
from keras_bert.checks import hint, similar
from keras_bert.heads.answers import flat
from keras_bert.heads.registry import describe, head_named, register_head
from keras_bert.metadata import Metadata
from keras_bert.models.encoder import build_encoder, run_encoder
from keras_bert.models.tuning import check_no_lora
from keras_bert.similarity import unit

_SHOWN = 5  # Labels that are shown.
_FACTS = ("config", "encoder", "head", "labels", "metadata", "results", "sequence_length", "task", "vocabulary")
_UNSAVED = ("_checkpoint", "_model", "_identity", "_answerer", "encoder")  # What a copy makes again.
_SAVED = ("config", "metadata", "encoder_options", "has_pooler", "results")
# What `dir` does not list.
_INTERNAL: tuple[str, ...] = (
    "checkpoint",
    "has_pair_layers",
    "identity",
    "keep_in_memory",
    "strip_accents",
    *Metadata.__dataclass_fields__,
)
# Names that other programs use, and what there is in their place: of arguments of `load`, dtypes and attributes.
_FIND = "`fit` finds the classes in its targets, and bert.classifier(num_classes) is a model with a new head"
_HINTS = {
    "num_labels": _FIND,
    "num_classes": _FIND,
    "output_attentions": "`attention_scores=True` returns attention probabilities",
    "output_hidden_states": "`hidden_states=True` returns the outputs of all layers",
    "torch_dtype": "`dtype` is the precision, such as dtype='bfloat16'",
}
_DTYPES = {"bf16": "bfloat16", "fp16": "float16", "half": "float16", "fp32": "float32"}
_PREDICT = "`predict` returns probabilities: `score` and `scores` of each answer"
_ELSEWHERE = {
    "from_pretrained": "keras_bert.load(path_or_name) opens a checkpoint",
    "save_pretrained": "`save(directory)` writes a folder for `from_pretrained`",
    "predict_proba": _PREDICT,
    "score": "`evaluate(texts, targets)` returns the scores, a dict",
    "transform": "`encode(texts)` returns vectors",
    "tokenizer": "`preprocessor(sequence_length).tokenizer` splits texts, `vocabulary` has the pieces",
    "num_labels": "`labels` has the names of the classes",
}


AnswerT = TypeVar("AnswerT")  # Of the heads of the package, `Answer`.


class LoadedBert(LoadedModels, Generic[AnswerT]):
    """A checkpoint in memory. Its models share the weights of `encoder`.

    It is not a Keras model: pass `bert.encoder` to builders of heads, and `bert.model()` to training, `save`, `export`.
    Its pickles and deep copies have the weights, with merged LoRA adapters, and answer equally.

    Attributes:
        config: the `BertConfig`.
        encoder: the encoder with loaded weights.
        metadata: the `Metadata`. Each of its fields is an attribute too: `head` ("encoder" for none), `vocabulary`,
            `lowercase`, `labels`, `multi_label`, `task`, `pair`, `sequence_length`, `null_threshold`, `thresholds`,
            `confidence`, `pooling`, `normalize`, ...
        strip_accents: bool, whether to remove accents; `None` means the same as `lowercase`.
        has_pooler: bool, whether the checkpoint has a pooler; otherwise the encoder's is randomly initialized.
        has_pair_layers: `False`; `True` for other models, whose `classifier` takes `pair` to build layers for pairs.
        results: dict, the setting, scores and history of the run of `fit` that trained the model, or `None`;
            `evaluated_on` tells whether the scores are of "validation" or of the "training data".
    """

    def __init__(self, checkpoint, num_layers=None, **encoder_options):
        super().__init__(checkpoint, num_layers, **encoder_options)
        self.results = None
        self._answerer = None

    if TYPE_CHECKING:
        results: Results  # Optional; programs that have trained the model index it.

    def __repr__(self):
        config = self.config
        size = f"L={config.num_hidden_layers} H={config.hidden_size} A={config.num_attention_heads}"
        facts = [repr(self._checkpoint.name), size, f"head={self.head!r}"]
        if self.labels:
            shown = ", ".join(map(repr, self.labels[:_SHOWN]))
            if len(self.labels) > _SHOWN:
                shown += f", ... {len(self.labels)} in all"
            facts.append(f"labels=[{shown}]")
        if self.sequence_length:
            facts.append(f"sequence_length={self.sequence_length}")
        return f"LoadedBert({', '.join(facts)})"

    def __dir__(self):
        names = [name for name in dir(type(self)) if name not in _INTERNAL]
        return names + list(_FACTS)

    # Type checkers take a class with it for one that has any attribute.
    if not TYPE_CHECKING:

        def __getattr__(self, name):
            raise AttributeError(self._missing(name), name=name, obj=None)

    def _missing(self, name):
        """Returns a message about an attribute that there is not."""
        if name in _ELSEWHERE:
            return f"a LoadedBert has no attribute {name!r}: {_ELSEWHERE[name]}"
        if hasattr(keras.Model, name):
            return (
                f"a LoadedBert is not a Keras model and has no attribute {name!r}. Use `bert.encoder` to build a model "
                "with a new head, or `bert.model()` for the model with the checkpoint's head"
            )
        meant = None if name.startswith("_") else similar(name, dir(self))
        question = f". Did you mean {meant!r}?" if meant else ""
        return f"LoadedBert has no attribute {name!r}{question}"

    def __reduce__(self):
        """Pickles, and copies deeply, the present weights, whatever files or graphs they were in."""
        if any(layer.quantization_mode for layer in (self._model or self.encoder)._flatten_layers()):
            raise TypeError(
                "a quantized model cannot be pickled or copied. Expected a model without quantize(), and a dtype other "
                "than int8; `save` writes it"
            )
        arrays = {}
        for name, tensor in self.checkpoint().tensors.items():
            arrays[name] = (tensor.name, tensor.read())
        facts = {name: value for name, value in vars(self).items() if name not in _UNSAVED}
        dtype = self.encoder.get_layer("token_embedding").dtype_policy.name
        return _restored, (self.name, arrays, dtype, facts)

    def __copy__(self):
        copied = object.__new__(type(self))
        copied._take(self)
        for name, value in self._notes().items():
            setattr(copied, name, value)
        return copied

    def keep_in_memory(self, name, results=None):
        """Same as `LoadedModels.keep_in_memory`; `results` are those of the run that trained the model."""
        super().keep_in_memory(name)
        self.results = results

    def _take(self, other):
        super()._take(other)
        self.results = other.results
        self._answerer = None

    def _notes(self):
        """Returns the attributes that a user added, a dict."""
        return {name: value for name, value in vars(self).items() if name not in (*_UNSAVED, *_SAVED)}

    def add_words(self, words: Sequence[str]) -> Self:
        """Adds words to the vocabulary, so that they are one token each, and their rows to the token table.

        Words take the place of `[unused]` pieces first, then new rows. A row starts as the mean of those of the pieces
        that the word had before: train the model afterwards. Also longer words that start with a new word are split
        differently. `encoder` and `model()` are new models: those from before stay as they are, also the models that
        share their weights. Needs TensorFlow.

        Args:
            words: list of single words, as the tokenizer splits texts, in lower case for an uncased vocabulary; or of
                pieces that continue a word, such as "##itis". Those of the vocabulary are skipped, with a warning.

        Returns:
            This object.

        Example:
            bert.add_words(["remdesivir", "ventilator"]).save("my_model")
        """
        model = self.encoder if self._model is None else self._model
        check_no_lora(model, "bert.model()")
        if any(layer.quantization_mode for layer in model._flatten_layers()):
            raise ValueError(
                "`add_words` needs floats. Expected a model without quantize(), and a dtype other than int8"
            )
        dtype = self.encoder.get_layer("token_embedding").dtype_policy
        larger = LoadedBert(with_words(self.checkpoint(), words), dtype=dtype, **self.encoder_options)
        larger.keep_in_memory(self.name)  # Not the old models, which may still be trained.
        results = self.results
        has_pooler = self.has_pooler
        self._take(larger)
        self.results = results
        self.has_pooler = has_pooler
        return self

    @overload
    def predict(  # type: ignore[overload-overlap]  # A string is a list of strings, too.
        self,
        texts: Text,
        *,
        batch_size: int = 32,
        sequence_length: int | None = None,
        long_texts: LongTexts | None = None,
        overlap: int | None = None,
        max_windows: int | None = None,
        n_best: int | None = None,
        candidate_labels: Sequence[str] | None = None,
        as_frame: Literal[False] = False,
        **options: Unpack[PredictOptions],
    ) -> AnswerT: ...

    @overload
    def predict(
        self,
        texts: Texts,
        *,
        batch_size: int = 32,
        sequence_length: int | None = None,
        long_texts: LongTexts | None = None,
        overlap: int | None = None,
        max_windows: int | None = None,
        n_best: int | None = None,
        candidate_labels: Sequence[str] | None = None,
        as_frame: Literal[False] = False,
        **options: Unpack[PredictOptions],
    ) -> list[AnswerT]: ...

    @overload
    def predict(
        self,
        texts: Texts,
        *,
        batch_size: int = 32,
        sequence_length: int | None = None,
        long_texts: LongTexts | None = None,
        overlap: int | None = None,
        max_windows: int | None = None,
        n_best: int | None = None,
        candidate_labels: Sequence[str] | None = None,
        as_frame: bool,
        **options: Unpack[PredictOptions],
    ) -> Any: ...

    def predict(
        self,
        texts: Any,
        *,
        batch_size: int = 32,
        sequence_length: int | None = None,
        long_texts: LongTexts | None = None,
        overlap: int | None = None,
        max_windows: int | None = None,
        n_best: int | None = None,
        candidate_labels: Sequence[str] | None = None,
        as_frame: bool = False,
        **options: Any,
    ) -> Any:
        """Answers texts with the checkpoint's head, as the SavedModel of `export` does.

        A question's context and a text to tag may have any length; other texts are truncated as in training. The model
        is `bert.model()`: after training that model, `predict` uses the trained weights. Needs TensorFlow.

        Args:
            texts: a list of strings, of pairs `(text, pair)`, of `{"question": ..., "context": ...}` or of
                `{"text": ..., "choices": [...]}`, as the head requires; or one of these alone. Of dicts and frames with
                other columns, those that the model was trained on; for choices and tags also those of known data sets.
                For a tagger also lists of words, which stay as they are. A classifier or a regression model refuses
                pairs if it was trained without them, and texts if it was trained with pairs; if the checkpoint does not
                say (`bert.pair` is `None`), it takes both. Empty texts, which `fit` and `evaluate` refuse, are answered
                with a warning.
            batch_size: int, number of texts to compute together. Defaults to 32.
            sequence_length: int, maximum number of tokens. Defaults to that of training, which `fit` and the commands
                store, or else to the number of the model's positions; so it does in `evaluate` and `export`.
            long_texts, overlap, max_windows: how a text is read that has more tokens: "head", "tail" or "head_tail", or
                all of it in "windows" that overlap; "refuse" raises an error. See
                `TextPreprocessor`. Default to those of training; so they do in `evaluate` and `export`.
            n_best: int, number of answers to a question, or of tokens for a [MASK]. Defaults to 1 answer, 5 tokens.
            candidate_labels: list of labels that the model was not trained on, for zero-shot classification with a
                sentence encoder or with a classifier of pairs (NLI); at least 2, or 1 with `multi_label`. Defaults to
                `None`.
            as_frame: bool, whether to return a pandas data frame with a row for each text, and `score_<class>` for each
                class in place of `scores`. It has the index of a Series or frame, for `frame.join(answers)`; for lists,
                the texts are the first columns. Defaults to `False`.
            **options: more options of `export`, such as `doc_stride`, `max_answer_length`, `null_threshold`,
                `thresholds` or `logits`, a bool that adds the logits of a classifier or regression model; with
                `candidate_labels` those of `ZeroShot`: `hypothesis`, `multi_label`, `temperature`.

        Returns:
            A list with a dict for each text; for one text alone, its dict. Scores are probabilities. `start` and `end`
            are positions in the Python string (a SavedModel's are in bytes), so that `text[start:end]` is the answer.
            All have `tokens` and `tokens_read`, the number of tokens of the text, and how many of them the model read:
            fewer if the text was cut, which a log message counts too. Both include the other text of a pair, a prompt,
            [CLS] and each [SEP], so that `tokens` is the `sequence_length` that reads all; of several choices or
            candidate labels, they are those of the longest one. Where `tokens` are the tokens themselves, as in
            replaced token detection, the number is `text_tokens`.

            - classification, also with `candidate_labels`: `label`, `score`, `scores` (a dict by label); `label` is
              `None` below the threshold of `bert.confidence`, see `answer_at_precision` of `fit`; multi-label:
              `labels`, those whose score is at least its threshold, and `scores`
            - regression: `value`
            - token classification: `entities`, a list of dicts with `text`, `label`, `start`, `end`, `score`
            - question answering: `answer`, `score`, `start`, `end`; with `n_best` also `answers`, best first. With a
              null threshold also `null_score`, the probability of no answer, for which `answer` is empty and `start`
              and `end` are -1. The probabilities are those among the 20 best answers
            - pre-training: `fills`, for each [MASK] a list of dicts with `token`, `score`; an empty list without
              [MASK]; for pairs as next sentence
            - next sentence: `probability` that the pair follows the text
            - multiple choice: `choice` (its index; `None` below the threshold of `bert.confidence`), `scores`; an empty
              choice has the score 0
            - encoder, embedding: `embedding`, the vector that `encode` returns

        Example:
            bert.predict(["A charming film."])[0]["label"]
        """
        reading = _given(long_texts=long_texts, overlap=overlap, max_windows=max_windows)
        if candidate_labels is None:
            answers = self._answers().predict(
                texts,
                n_best=n_best,
                batch_size=batch_size,
                sequence_length=sequence_length,
                reading=reading,
                **options,
            )
        else:
            if n_best is not None:
                options["n_best"] = n_best  # Refused like any unknown option.
            answers = self._answers().zero_shot(
                texts,
                candidate_labels,
                batch_size=batch_size,
                sequence_length=sequence_length,
                reading=reading,
                **options,
            )
        return _as_frame(answers, texts) if as_frame else answers

    @overload
    def explain(  # type: ignore[overload-overlap]  # A string is a list of strings, too.
        self,
        texts: Text,
        target: Any = None,
        *,
        method: ExplanationMethod = "leave_one_out",
        replacement: str = "[MASK]",
        n_steps: int | None = None,
        batch_size: int = 32,
        sequence_length: int | None = None,
        long_texts: LongTexts | None = None,
        overlap: int | None = None,
        max_windows: int | None = None,
        doc_stride: int | None = None,
    ) -> Explanation: ...

    @overload
    def explain(
        self,
        texts: Texts,
        target: Any = None,
        *,
        method: ExplanationMethod = "leave_one_out",
        replacement: str = "[MASK]",
        n_steps: int | None = None,
        batch_size: int = 32,
        sequence_length: int | None = None,
        long_texts: LongTexts | None = None,
        overlap: int | None = None,
        max_windows: int | None = None,
        doc_stride: int | None = None,
    ) -> list[Explanation]: ...

    def explain(
        self,
        texts: Any,
        target: Any = None,
        *,
        method: ExplanationMethod = "leave_one_out",
        replacement: str = "[MASK]",
        n_steps: int | None = None,
        batch_size: int = 32,
        sequence_length: int | None = None,
        long_texts: LongTexts | None = None,
        overlap: int | None = None,
        max_windows: int | None = None,
        doc_stride: int | None = None,
    ) -> Any:
        """Tells which words of a text raise or lower the logit of an answer. Needs TensorFlow.

        For classes, several labels, numbers, tags and choices, of texts and of pairs, and for heads of your own with
        such logits. The pieces of a word are replaced together, in the ids that the model reads; [CLS] and [SEP] stay.
        The words are those that BERT finds, at white space and punctuation. Of a text that is too long, they are those
        that were read.

        Args:
            texts: as in `predict`.
            target: the name or the number of the class whose logit is explained, or of the choice; for tags a word of
                the text, its number, or a tuple of it and a tag; or a list with one for each text. Defaults to `None`:
                the predicted class or choice, that with the highest logit; for tags, the predicted tag of the first
                word that is not outside of entities ("O"), or else of the first word.
            method: "leave_one_out": the score of a word is what the logit loses when the word alone is replaced, one
                forward pass for each word; or "integrated_gradients" (Sundararajan et al., 2017), along the path from
                `baseline` in the vectors of the token table, before segments and positions are added. Defaults to
                "leave_one_out".
            replacement: str, the token in place of a word, "[MASK]" or "[PAD]". Defaults to "[MASK]".
            n_steps: int, number of points of the path of integrated gradients, by Gauss and Legendre's rule; only for
                this method. Defaults to 50.
            batch_size: int, number of texts of a call. Memory depends on the tokens of one text. Defaults to 32.
            sequence_length, long_texts, overlap, max_windows: as in `predict`. The logit is that of the
                document, and a word is replaced in each window that has it.
            doc_stride: int, for tags how far apart the windows of a long text start, as in `predict`. Defaults to
                half a window.

        Returns:
            A list with a dict for each text; for one text alone, its dict. It prints as a line of words with signed
            numbers, and shows colours in a notebook.

            - `words`: list of dicts with `text`, `start` and `end` in the Python string, `score`, positive where the
              word raises the logit, and `input`: "text", "pair" or "choice"
            - `target`: the class or the choice, `None` for a number; of tags also `word`, the place of its word among
              `words`
            - `value`: the logit; `baseline`: that with all words replaced; `difference`: `value - baseline`; `delta`:
              what the sum of the scores misses of it. It is the error of the integral for integrated gradients. For
              leave-one-out, it is the part that words have only together, and no error
            - `method`, `replacement`, `tokens`, `tokens_read`

        Example:
            print(reviews.explain("A charming film."))
        """
        reading = _given(long_texts=long_texts, overlap=overlap, max_windows=max_windows)
        return self._answers().explain(
            texts,
            target,
            method=method,
            replacement=replacement,
            n_steps=n_steps,
            batch_size=batch_size,
            sequence_length=sequence_length,
            reading=reading,
            doc_stride=doc_stride,
        )

    def encode(
        self,
        texts: Texts,
        *,
        batch_size: int = 32,
        sequence_length: int | None = None,
        long_texts: LongTexts | None = None,
        overlap: int | None = None,
        max_windows: int | None = None,
        prompt: str | None = None,
        prompt_name: str | None = None,
        normalize: bool = False,
    ) -> np.ndarray:
        """Embeds texts with the encoder: float32 NumPy `(texts, width)`, or `(width,)` for a string. Needs TensorFlow.

        Pools, projects and normalizes as the checkpoint specifies (sentence-transformers), otherwise takes the mean
        over all tokens. Works with any head. For `batch_size`, `sequence_length` and `long_texts` see `predict`; a log
        message counts the texts that were cut.

        Args:
            prompt: str, put before each text, "" for none. Defaults to the checkpoint's default prompt, if it has one.
            prompt_name: str, one of the checkpoint's `prompts`, in place of `prompt`. Defaults to `None`.
            normalize: bool, whether to scale vectors to length 1 even if the model does not. Defaults to `False`.

        Example:
            bert.encode(["A sentence.", "Another one."])
        """
        options = {"batch_size": batch_size, "sequence_length": sequence_length}
        options["reading"] = _given(long_texts=long_texts, overlap=overlap, max_windows=max_windows)
        vectors = self._answers().encode(texts, prompt=prompt, prompt_name=prompt_name, **options)
        return unit(vectors) if normalize else vectors

    def _vectors(self, texts):
        """Returns vectors as they are, and those of texts."""
        return texts if isinstance(texts, np.ndarray) else self.encode(texts)

    def similarity(self, first: Any, second: Any) -> np.ndarray:
        """Compares each text, or vector from `encode`, with each other one: float32 NumPy `(first, second)`.

        The function is the checkpoint's `similarity_function`, the cosine if it has none.

        Args:
            first: a list of texts, a text, or an array of vectors.
            second: the same.

        Example:
            bert.similarity("How old are you?", ["What is your age?", "Where is the station?"])
        """
        rows = np.atleast_2d(self._vectors(first))
        columns = np.atleast_2d(self._vectors(second))
        return similarity.similarity(rows, columns, self.similarity_function)

    def attention(self, text: str | tuple[str, str]) -> tuple[list[str], np.ndarray]:
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
        shown = self.vocabulary.shown_pieces
        tokens = [shown[index] for index in inputs["token_ids"][0]]
        return tokens, keras.ops.convert_to_numpy(scores)

    @overload
    def fit(
        self,
        texts: Texts,
        targets: Any = None,
        *,
        validation: Any = None,
        validation_data: Any = None,
        validation_split: float | None = None,
        task: TaskName | None = None,
        output_dir: str | os.PathLike | None = None,
        learning_rate: float | Sequence[float] | None = None,
        batch_size: int | Sequence[int] | None = None,
        epochs: int | Sequence[int] | None = None,
        seed: int | Sequence[int] = 1,
        sequence_length: int | None = None,
        patience: int | None = None,
        callbacks: Sequence[keras.callbacks.Callback] = (),
        strategy: StrategyName | Strategy | None = None,
        teacher: Any = None,
        intermediate: Any = (),
        folds: int | None = None,
        groups: Any = None,
        method: FitMethod = "full",
        verbose: bool = True,
        **options: Unpack[FitOptions],
    ) -> "LoadedBert[Answer]": ...

    @overload
    def fit(self, texts: Texts, targets: Any = None, *, task: str, **options: Any) -> "LoadedBert[Any]":
        """A task of others, with options and answers of its own."""

    def fit(
        self,
        texts: Any,
        targets: Any = None,
        *,
        validation: Any = None,
        validation_data: Any = None,
        validation_split: float | None = None,
        task: str | None = None,
        output_dir: str | os.PathLike | None = None,
        learning_rate: float | Sequence[float] | None = None,
        batch_size: int | Sequence[int] | None = None,
        epochs: int | Sequence[int] | None = None,
        seed: int | Sequence[int] = 1,
        sequence_length: int | None = None,
        patience: int | None = None,
        callbacks: Sequence[keras.callbacks.Callback] = (),
        strategy: Any = None,
        teacher: Any = None,
        intermediate: Any = (),
        folds: int | None = None,
        groups: Any = None,
        method: FitMethod = "full",
        verbose: bool = True,
        **options: Any,
    ) -> "LoadedBert[Any]":
        """Fine-tunes on texts, as the commands do on files. This model stays as it is. Needs TensorFlow.

        Random numbers of the program continue as if nothing had been trained; only TensorFlow's start again from its
        seed. Calls in several threads train one after the other; other threads can answer, but not draw random numbers.

        Args:
            texts: a list, an array, a Series, a data frame or a dataset of strings, of pairs as tuples, or of what else
                `predict` takes; or lists of words. Or rows of a data set with their targets, as files have them: a
                `datasets.Dataset`, a `pyarrow.Table`, an iterator or a list of dicts.
            targets: a list, an array or a Series; or the name of a column of `texts`, a data frame. The task follows:
                strings or integers are classes; floats are values; lists of labels are several labels; tags of words,
                or spans `(start, end, label)` of texts, are entities; answers are strings of the context, `None` for
                no answer; the right choice is its index. Pairs without targets train a sentence encoder.
            validation: tuple of texts and targets that select the best epoch. Defaults to `None`: all epochs are
                trained, and the last weights are kept.
            validation_data: Keras' name of `validation`.
            validation_split: float, share of the rows, drawn at random, that is `validation` instead.
            task: string, the name of a task, see `keras_bert.tasks`. Defaults to the one that follows from the data.
            output_dir: folder of the run: report, model card, model, SavedModel. The same call resumes an interrupted
                run, or returns the model of a finished one. With another learning rate, batch size, number of epochs or
                seed, a new run is added; earlier ones stay in `runs/`, but the best model is chosen among the new ones.
                Defaults to `None`: nothing is kept.
            learning_rate, batch_size, epochs, seed: numbers, by default those of the task. A list is a grid; the best
                run on `validation` is kept.
            sequence_length: int, maximum number of tokens, which the trained model stores, see `predict`. Defaults to
                that of the task, 128 or 384 for questions; for a sentence encoder, to its own.
            patience: int, epochs without a better score on `validation` before stopping.
            callbacks: list of Keras callbacks, such as `keras.callbacks.EarlyStopping`.
            strategy: a `tf.distribute` strategy, or a name, see `create_strategy`. Defaults to one device.
            teacher: a trained model of the same task, or its directory or name: the model learns from its answers, too,
                with a new head. Then there are the options `temperature`, 2 by default, and `alpha`, the weight of the
                teacher, 0.5, see `keras_bert.losses.distillation_loss`. Defaults to `None`.
            intermediate: tuple of texts and targets to train on before, or a list of them, also those of other tasks,
                whose head is left out then. Defaults to none.
            folds: int, folds of a cross-validation instead of `validation`: each row is predicted by a model that was
                not trained on it, see `out_of_fold.tsv` in `output_dir`, and the returned model is trained on all
                rows. Rows of a document, or with the same text, are in the same fold. Defaults to `None`.
            groups: list with a value for each text, or the name of a column of `texts`; rows of a group, such as those
                of an author, are in the same fold instead. A column is left out of the texts, unless it has a usual
                name of texts, such as `premise` or `context`, or is the only one besides the targets.
            method: str, how a classifier or a regression model of few texts is trained. "full" trains the whole model
                in steps; "probe" computes the vectors of the texts once, as `encode` does, and fits the head alone to
                them; "contrastive" first tunes the encoder on pairs of texts with equal and with different labels, for
                which `learning_rate`, `batch_size` and `epochs` are; "auto" compares the last two by cross-validation,
                or on `validation`, and keeps the better one. Defaults to "full".
            verbose: bool, whether to show the data, the progress and the results. Defaults to `True`.
            **options: fields of `Hyperparameters`, such as `precision`, `lora_rank`, `freeze_layers`, `layer_decay` and
                `gradient_accumulation`; and those of the task, such as `class_weight`, "balanced" or a dict by class,
                which also weights the loss on `validation`; `calibrate`, a bool, which fits a temperature of the
                probabilities to `validation` or to the folds, for classes, several labels, tags and choices; and
                `answer_at_precision`, such as 0.95, which also chooses a threshold below which there is no label, or no
                choice.

        Returns:
            A new `LoadedBert`, trained; `results` has the `scores`, the `history`, and what the scores are
            `evaluated_on`: "validation", or without one the "training data".

        Example:
            reviews = bert.fit(texts, labels, validation=(dev_texts, dev_labels), epochs=3)
            reviews.predict("A charming film.")
        """
        self._check_backend("fit")
        from keras_bert.runs import fit  # Needs TensorFlow, unlike the models.

        if validation is not None and validation_data is not None:
            raise ValueError("`validation` and `validation_data` are the same argument. Received: both")
        if validation is None:
            validation = validation_data
        return fit.fit(
            self,
            fit.FitArguments(
                texts=texts,
                targets=targets,
                validation=validation,
                validation_split=validation_split,
                task=task,
                output_dir=output_dir,
                learning_rate=learning_rate,
                batch_size=batch_size,
                epochs=epochs,
                seed=seed,
                sequence_length=sequence_length,
                patience=patience,
                callbacks=callbacks,
                strategy=strategy,
                teacher=teacher,
                intermediate=intermediate,
                folds=folds,
                groups=groups,
                method=method,
                verbose=verbose,
                options=options,
            ),
        )

    def check_labels(
        self,
        texts: Any,
        targets: Any = None,
        *,
        folds: int = 5,
        groups: Any = None,
        task: str | None = None,
        output_dir: str | os.PathLike | None = None,
        learning_rate: float | Sequence[float] | None = None,
        batch_size: int | Sequence[int] | None = None,
        epochs: int | Sequence[int] | None = None,
        seed: int | Sequence[int] = 1,
        sequence_length: int | None = None,
        callbacks: Sequence[keras.callbacks.Callback] = (),
        strategy: StrategyName | Strategy | None = None,
        intermediate: Any = (),
        method: FitMethod = "full",
        verbose: bool = True,
        **options: Any,
    ) -> list[LabelCheck]:
        """Ranks labels by how probably they are wrong: by the loss of predictions of models that have not seen them.

        Each fold of the rows is predicted by a model that is fine-tuned on the other folds; no model is kept. This
        model stays as it is. One that has the head of the task with the same labels is refused, since it may have been
        trained on these rows. Needs TensorFlow.

        Args:
            texts, targets: as in `fit`, for tasks whose loss has a value for each row.
            folds: int, the number of folds. Defaults to 5.
            groups: rows of a group are in the same fold, see `fit`.
            output_dir: folder of the runs. The same call resumes interrupted runs. Defaults to `None`: nothing is
                kept.
            task, learning_rate, batch_size, epochs, seed, sequence_length, callbacks, strategy, intermediate, method,
                verbose: as in `fit`; `method="probe"` takes seconds.
            **options: those of `fit`.

        Returns:
            A list of dicts, the most doubtful labels first: `row`, the number of the text from 0; the `label`; what is
            `predicted`; the `loss`, which is the cross-entropy of classes and tags, the mean one of several labels, the
            squared error of numbers, and of questions 1 - F1; and `same_text`, the rows with the same text and another
            label, which come before all others. There is a dict for each text, or of a tagger for each word, with
            `word`, its number in the text, and its `text`.

        Example:
            doubtful = bert.check_labels(texts, labels)
            print(texts[doubtful[0]["row"]], doubtful[0])
        """
        self._check_backend("check_labels")
        from keras_bert.runs import fit  # Needs TensorFlow, unlike the models.

        return fit.check_labels(
            self,
            fit.FitArguments(
                texts=texts,
                targets=targets,
                validation=None,
                validation_split=None,
                task=task,
                output_dir=output_dir,
                learning_rate=learning_rate,
                batch_size=batch_size,
                epochs=epochs,
                seed=seed,
                sequence_length=sequence_length,
                patience=None,
                callbacks=callbacks,
                strategy=strategy,
                teacher=None,
                intermediate=intermediate,
                folds=folds,
                groups=groups,
                method=method,
                verbose=verbose,
                options=options,
            ),
        )

    def evaluate(
        self,
        texts: Texts,
        targets: Any = None,
        *,
        sequence_length: int | None = None,
        verbose: bool = True,
        **options: Unpack[TaskOptions],
    ) -> dict[str, float]:
        """Returns the loss and the scores of the model on texts with targets, see `fit`: a dict of floats.

        Scores are from 0 to 1, correlations from -1, and are those of the answers of `predict`, with its default
        `sequence_length`. Of a model with `confidence`, there are also `calibration_error` and, with a threshold,
        `answered`, the share of texts with a label, and their `precision`. `options` are those of the task, such as
        `doc_stride`. Needs TensorFlow.

        Example:
            reviews.evaluate(test_texts, test_labels)["accuracy"]
        """
        self._check_backend("evaluate")
        from keras_bert.runs import fit_evaluation  # Needs TensorFlow, unlike the models.

        return fit_evaluation.evaluate(
            self, texts, targets, sequence_length=sequence_length, verbose=verbose, **options
        )

    def save(self, directory: str | os.PathLike, **options: Unpack[SaveOptions]) -> None:
        """Writes the model with its vocabulary, labels and other settings; `options` are those of `keras_bert.save`.

        Example:
            reviews.save("my_model")
        """
        settings = {"strip_accents": self.strip_accents} | self.metadata.settings | options
        save(self.model(), directory, self.vocabulary, **settings)

    def export(
        self,
        directory: str | os.PathLike,
        *,
        sequence_length: int | None = None,
        long_texts: LongTexts | None = None,
        overlap: int | None = None,
        max_windows: int | None = None,
        **options: Unpack[ExportOptions],
    ) -> None:
        """Writes a SavedModel that takes raw text; `options` are those of `keras_bert.export`. Needs TensorFlow.

        Args:
            directory: the output, such as `saved_models/reviews/1`.
            sequence_length: int, maximum number of tokens. Defaults as in `predict`.
            long_texts, overlap, max_windows: how a text is read that has more. Default as in `predict`.

        Example:
            reviews.export("saved_models/reviews/1")
        """
        self._check_backend("export")
        reading = _given(long_texts=long_texts, overlap=overlap, max_windows=max_windows)
        self._answers().export(directory, sequence_length=sequence_length, reading=reading, **options)

    def _answers(self):
        if self._answerer is None:
            self._check_backend("predict")
            from keras_bert.answering.explainer import Explainer  # Needs TensorFlow, unlike the models.

            self._answerer = Explainer(self)
        return self._answerer

    @staticmethod
    def _check_backend(method):
        backend = keras.config.backend()
        if backend != "tensorflow":
            raise ValueError(
                f"`{method}` needs the TensorFlow backend of Keras, KERAS_BACKEND=tensorflow. On other backends, call "
                f"bert.model() on token ids. Received: KERAS_BACKEND={backend}"
            )


@overload
def load(
    path_or_name: str | os.PathLike | keras.Model,
    *,
    revision: str | None = None,
    dtype: str | keras.DTypePolicy | None = None,
    head: str | None = None,
    base: str | os.PathLike | None = None,
    tokenizer: str | os.PathLike | None = "auto",
    **encoder_options: Unpack[EncoderOptions],
) -> LoadedBert[Answer]: ...


@overload
def load(
    path_or_name: str | os.PathLike | keras.Model,
    *,
    revision: str | None = None,
    dtype: str | keras.DTypePolicy | None = None,
    head: str | None = None,
    heads: Sequence[Any],
    base: str | os.PathLike | None = None,
    tokenizer: str | os.PathLike | None = "auto",
    **encoder_options: Unpack[EncoderOptions],
) -> LoadedBert[Any]: ...


def load(
    path_or_name: str | os.PathLike | keras.Model,
    *,
    revision: str | None = None,
    dtype: str | keras.DTypePolicy | None = None,
    head: str | None = None,
    heads: Sequence[Any] = (),
    base: str | os.PathLike | None = None,
    tokenizer: str | os.PathLike | None = "auto",
    **encoder_options: Any,
) -> LoadedBert[Any]:
    """Loads a checkpoint from Google, Hugging Face, KerasHub or this package.

    The folder of a LoRA adapter, of peft or of this package, is merged into the model that it was trained on.

    Args:
        path_or_name: a directory, a `.keras` file, a KerasHub `BertBackbone` or `BertTextClassifier`, or a name. A name
            is looked up in `$KERAS_BERT_MODELS`, in `saved_models/` (of the checkout or of the installed package),
            among KerasHub's presets and on the Hugging Face hub, in this order.
        revision: str, branch, tag or commit on the Hugging Face hub. Defaults to `None`.
        dtype: dtype policy of the models, such as "mixed_bfloat16". Defaults to Keras' global one.
        head: str, the kind of head, see `describe`. "encoder" omits the head. Defaults to the head specified by the
            checkpoint.
        heads: list of heads of your own that the checkpoint may have, see `register_head`, which registers them for all
            functions. No code is read from a checkpoint. Defaults to none.
        base: path or name of the model that an adapter was trained on. Defaults to the one in its config, where a
            relative path may start at the adapter's folder.
        tokenizer: `None` loads the weights alone. "words" takes the vocabulary of a `BertJapaneseTokenizer`, for texts
            whose words are separated by spaces. A path or handle is that of another folder with a tokenizer, such as
            the preprocessing of TensorFlow Hub. Defaults to "auto": the checkpoint's own.
        **encoder_options: more arguments of `build_encoder`, such as `remat` or `hidden_states`; `num_layers` takes
            only this number of evenly spaced layers, see `take_layers`.

    Returns:
        A `LoadedBert`. Other models are refused with the name of the function that opens them, such as
        `keras_bert.translation.load` for encoder-decoders.

    Example:
        bert = keras_bert.load("google-bert/bert-base-uncased")
        model = keras_bert.build_classifier(bert.encoder, num_classes=2)
    """
    for own in heads:
        register_head(own)
    _check_dtype(dtype)
    checkpoint = open_checkpoint(path_or_name, revision, head, base, tokenizer)
    _check_options(encoder_options)  # After other models were refused, which have options of their own.
    return LoadedBert(checkpoint, dtype=dtype, **encoder_options)


def _given(**options):
    """Returns the options that are given."""
    return {name: value for name, value in options.items() if value is not None}


def _check_options(options):
    known = [*load.__kwdefaults__, *build_encoder.__kwdefaults__, "num_layers"]
    for name in options:
        if name not in known:
            raise ValueError(f"`load` has no argument {name!r}. {hint(name, known, _HINTS)}")


def _check_dtype(dtype):
    """Raises an error for a name that Keras has no dtype policy for."""
    try:
        keras.dtype_policies.get(dtype)
    except ValueError:
        name = _DTYPES.get(dtype, "bfloat16")
        expected = repr(name)
        if name != "float32":
            expected += f", or 'mixed_{name}', which keeps the weights in float32"
        raise ValueError(f"`dtype` must be a dtype such as {expected}. Received: dtype={dtype!r}") from None


def _restored(name, arrays, dtype, facts):
    """Returns a `LoadedBert` from what it was pickled as."""
    tensors = {}
    for key, (file_name, value) in arrays.items():
        tensors[key] = Tensor(file_name, value.shape, lambda value=value: value)
    checkpoint = Checkpoint(name, facts["config"], tensors, facts["metadata"])
    bert = LoadedBert(checkpoint, dtype=dtype, **facts["encoder_options"])
    for attribute, value in facts.items():
        if attribute not in _INTERNAL:  # Pickles had those of `metadata` once.
            setattr(bert, attribute, value)
    return bert


def _as_frame(answers, texts):
    """Returns the answers as a pandas data frame: with the index of a Series or frame, or else beside the texts."""
    try:
        import pandas
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            "`as_frame` needs pandas, which is not installed. Install it with `pip install pandas`", name="pandas"
        ) from None
    if isinstance(answers, dict):  # Of one text alone.
        return pandas.DataFrame([_columns(texts) | flat(answers)])
    rows = [flat(answer) for answer in answers]
    if isinstance(texts, pandas.Series | pandas.DataFrame):
        return pandas.DataFrame(rows, texts.index)
    if isinstance(texts, list):
        rows = [_columns(text) | row for text, row in zip(texts, rows, strict=True)]
    return pandas.DataFrame(rows)  # Arrays, tensors and datasets are not repeated.


def _columns(text):
    """Returns what was answered as columns: a text, a pair, words, or a dict."""
    if isinstance(text, dict):
        return text
    if isinstance(text, tuple):
        return {"text": text[0], "pair": text[1]}
    return {"text": text}
