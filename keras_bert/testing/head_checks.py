"""Every promise of a head, checked on a tiny model of random weights."""

import dataclasses
import importlib.util
import inspect
import math
import pathlib
import tempfile

import keras
import numpy as np
import scipy.special
import tensorflow as tf

from keras_bert.answering.explainer import can_explain
from keras_bert.answering.input_rows import check_rows, read_rows
from keras_bert.bert import load
from keras_bert.checkpoints.save import save
from keras_bert.exporting.export import build_signatures
from keras_bert.exporting.verification import verify
from keras_bert.heads.explain_signatures import TOKENS, form_of
from keras_bert.heads.head import HEAD_DROPOUT, Head, check_inputs, is_same_option
from keras_bert.heads.registry import HEADS, describe, register_head
from keras_bert.models.description import layers_of
from keras_bert.models.tuning import enable_lora, merge_lora
from keras_bert.runs.rehearsal import check_equal
from keras_bert.tasks.registry import task_of
from keras_bert.testing import processes, promises, samples
from keras_bert.testing.left_out import left_out
from keras_bert.testing.promises import SkippedError, expect, promise

_CLASSES = 3
_RANK = 2
_EQUAL = 1e-5  # Of outputs, relative to the largest one.
_VERSION = "model/1"
_TEMPERATURE = 2.0


def check_head(head, options=None, *, texts=None, labels=None, keys=(), only=None):
    """Checks that a head keeps every promise of the package, on a tiny encoder of random weights.

    It is built, described, saved and loaded; it answers and explains in Python, and answers at the shell in a new
    process, and over a server; it is exported, verified, and converted to int8 and ONNX; it trains with LoRA adapters,
    and computes in bfloat16. Takes about a minute. A promise that is broken does not end the check: the others that do
    not stand on it are checked, too. A head that is not registered is registered.

    Args:
        head: a subclass of `keras_bert.Head`, or an instance.
        options: dict, the options of its `build`, such as `{"num_classes": 3}`, which is the default for a head with
            classes.
        texts: list of texts as `predict` takes them, at least two. Defaults to a few sentences.
        labels: list of the names of the classes. Defaults to as many as there are classes.
        keys: names that each answer must have. Defaults to none.
        only: names of the promises to check, with those that they stand on. Defaults to `None`: all.

    Returns:
        A `Checked`: the names of the promises, notes on what could not be checked, and the seconds that it took.

    Raises:
        BrokenPromises: an `AssertionError` with a line for each promise that is broken.

    Example:
        def test_ordinal():
            keras_bert.testing.check_head(Ordinal, {"num_classes": 4})
    """
    instance = _registered(head)
    with tempfile.TemporaryDirectory() as folder:
        checks = HeadChecks(instance, options, texts, labels, keys, pathlib.Path(folder))
        return promises.run(checks, f"the head {instance.name}", only)


def _registered(head):
    """Returns the instance of a head that is registered, and registers it if it is not."""
    instance = head() if inspect.isclass(head) and issubclass(head, Head) else head
    if not any(type(known) is type(instance) for known in HEADS):
        register_head(head)
    for known in HEADS:
        if type(known) is type(instance):
            return known
    return instance


class HeadChecks:
    """The promises of a head."""

    def __init__(self, head, options, texts, labels, keys, folder):
        self.head = head
        self.keys = keys
        self.folder = folder
        self.options = _with_classes(head, options or {}, labels)
        self.labels = _labels(head, self.options, labels)
        self.given_texts = texts
        self.pieces = samples.vocabulary(texts, labels)
        keras.utils.set_random_seed(1)
        self.encoder = samples.tiny_encoder(self.pieces)

    @promise("build")
    def model(self):
        """The model, a functional one on the encoder's graph."""
        model = self.head.build(self.encoder, **self.options)
        check_inputs(self.head, model)
        kind = isinstance(model, keras.Model) and isinstance(model.output, dict)
        expect(kind, "`build` to return a functional keras.Model whose outputs are a dict", model)
        layers = layers_of(model)
        own = self.head.layer in layers or self.head.is_encoder
        expect(own, f"a layer {self.head.layer!r}, the `layer` of the head", ", ".join(layers))
        samples.shake(model)
        return model

    @promise()
    def outputs(self, model):
        """A row for each text, which does not depend on the other texts."""
        inputs = samples.token_inputs(model)
        together = _outputs(model, inputs)
        count = len(next(iter(inputs.values())))
        alone = []
        for row in range(count):
            inputs_of_row = {name: value[row : row + 1] for name, value in inputs.items()}
            alone.append(_outputs(model, inputs_of_row))
        for name, value in together.items():
            shape = f"the output {name} with the shape {value.shape}"
            expect(value.ndim > 0 and value.shape[0] == count, f"{name} to start with the batch, {count} rows", shape)
            for row, other in enumerate(alone):
                same = other[name].shape == value[row : row + 1].shape
                expect(same, f"{name} to start with the batch, 1 row", f"the shape {other[name].shape}")
                _expect_close(other[name], value[row : row + 1], f"{name} of a row not to depend on other rows")
        if isinstance(self.head.classes, str) and self.head.classes in together:
            self._check_rank(together[self.head.classes])

    def _check_rank(self, values):
        """Raises for logits of classes with another rank than those of rows or of tokens."""
        ranks = [2]
        if set(self.head.reads) - {"pooled"}:
            ranks.append(3)
        rank = " or ".join(map(str, ranks))
        expected = f"the output {self.head.classes}, the `classes` of the head, to have rank {rank}"
        expect(values.ndim in ranks, f"{expected}: (batch, classes)", f"the shape {values.shape}")

    @promise("run")
    def run_equals_the_graph(self, model):
        """`run` computes what the graph of the model does."""
        if self.head.run is None or any(isinstance(layer, keras.Model) for layer in model.layers):
            raise SkippedError("the head has no `run` on top of an encoder")
        inputs = samples.token_inputs(model)
        layers = layers_of(model)
        tensors = {name: keras.ops.convert_to_tensor(value) for name, value in inputs.items()}
        rows = self.head.encoder_inputs(layers, tensors)
        encoder_inputs = {name: rows[name] for name in self.encoder.input}
        encoded = self.encoder(encoder_inputs, training=False)
        outputs = self.head.run(layers, encoded, tensors)
        found = {name: np.asarray(value) for name, value in outputs.items()}
        expected = _outputs(model, inputs)
        expect(found.keys() == expected.keys(), f"`run` to return {', '.join(expected)}", ", ".join(found))
        for name, value in expected.items():
            _expect_close(found[name], value, f"the output {name} of `run` to be that of the model")

    @promise("describe")
    def description(self, model):
        """The head and the options of a model are told by its layers."""
        description = describe(model)
        self._check_description(description)
        self._check_description(describe(keras.models.clone_model(model)))
        return description

    def _check_description(self, description):
        expect(description.head == self.head.name, f"`describe` to tell the head {self.head.name}", description.head)
        for name, value in self.options.items():
            if name == "dropout" and HEAD_DROPOUT in description.layers:
                received = description.config.head_dropout
            elif name in description.options:
                received = description.options[name]
            else:
                continue
            same = is_same_option(received, value)
            expect(same, f"`described` to tell {name}={value!r}", f"{name}={received!r}")

    @promise("save")
    def saved(self, model):
        """The folder of the saved model."""
        folder = self.folder / "saved"
        settings = {}
        if self.head.takes_pair:
            settings["pair"] = self._is_pair()
        save(
            model,
            folder,
            self.pieces,
            labels=self.labels,
            sequence_length=samples.LENGTH,
            **settings,
        )
        return folder

    def _is_pair(self):
        """Whether the head takes pairs of texts, of those that are given."""
        first = self.given_texts[0] if self.given_texts else None
        return self.head.requires_pair or isinstance(first, tuple)

    @promise("load")
    def bert(self, saved):
        """The saved model opens again."""
        bert = load(saved)
        expect(bert.head == self.head.name, f"the saved head {self.head.name}", bert.head)
        bert.model()
        return bert

    @promise("options")
    def options_are_stored(self, bert, description):
        """A loaded model has the options of `build`."""
        loaded = describe(bert.model()).options
        for name, value in description.options.items():
            if value is None:  # Such as the length of texts, which `save` sets.
                continue
            received = loaded.get(name)
            same = is_same_option(received, value)
            expect(same, f"a loaded model to have the option {name}={value!r}", f"{name}={received!r}")

    @promise("labels")
    def labels_are_stored(self, bert):
        """A loaded model has the names of the classes in their order."""
        expect(bert.labels == self.labels, f"a loaded model to have the labels {self.labels}", bert.labels)

    @promise()
    def weights(self, bert, model):
        """A loaded model has all weights, and no tensor of the file is unused."""
        check_equal(model, bert.model())
        unused = bert.left_out(bert.model())
        expect(not unused, "`tensors` that name each tensor of the file", f"unused: {', '.join(unused)}")
        inputs = samples.token_inputs(model)
        expected = _outputs(model, inputs)
        received = _outputs(bert.model(), inputs)
        for name, value in expected.items():
            _expect_close(received[name], value, f"the output {name} to be the same after `load`")

    @promise("predict")
    def answers(self, bert):
        """Answers to the texts, dicts with the same fields for each text."""
        texts = self._texts_to_answer(bert)
        answers = bert.predict(texts)
        fields = answers[0].keys()
        missing = [name for name in self.keys if name not in fields]
        expect(not missing, f"answers with the fields {', '.join(self.keys)}", f"{', '.join(fields)}")
        for answer in answers[1:]:
            same = answer.keys() == fields
            expect(same, f"the same fields for each text, {', '.join(fields)}", ", ".join(answer))
        alone = bert.predict(texts[0])
        promises.expect_equal(alone, answers[0], "the answer to one text")
        return answers

    def _texts_to_answer(self, bert):
        """Returns the texts to answer."""
        if self.given_texts is not None:
            return list(self.given_texts)
        names = self.head.inputs(bert)[0]
        other = [name for name in names if name not in samples.INPUTS]
        if other:
            raise ValueError(
                f"`inputs` of the head must be inputs of its signature, of {', '.join(samples.INPUTS)}, or `texts` "
                f"must be dicts with them. Received: {', '.join(other)}"
            )
        task = task_of(bert)
        if task is not None and task.rows.convert is not None:
            raise SkippedError(f"the task {task.name} has rows of its own, which `texts` must be: see `check_task`")
        return samples.texts_for(names)

    @promise()
    def explain(self, bert):
        """`explain` tells what a logit loses without each word, as a loop that replaces the ids of each word does.

        A head without logits that words explain promises nothing.
        """
        if not can_explain(bert):
            return
        texts = self._texts_to_answer(bert)
        rows, _ = read_rows(texts, self.head.takes_words)
        if any("words" in row for row in rows):
            raise SkippedError("the texts are lists of words")
        form = form_of(bert.model(), self.head)
        word = 0 if form == TOKENS else None
        preprocessor = bert.preprocessor(samples.LENGTH, keep_special_tokens=list(self.head.keeps))
        for text, row in zip(texts, rows, strict=True):
            explained = bert.explain(text, word, sequence_length=samples.LENGTH)
            if explained["tokens"] > explained["tokens_read"]:
                continue
            expected = left_out(bert, self.head.classes, form, _packed(preprocessor, row))
            received = {
                "value": explained["value"],
                "baseline": explained["baseline"],
                "scores": [scored["score"] for scored in explained["words"]],
            }
            what = f"the explanation of {text!r:.60}, compared with leaving out each word by a loop,"
            promises.expect_equal(received, dataclasses.asdict(expected), what)

    @promise()
    def confidence(self, bert):
        """A temperature divides the logits of the classes in the probabilities that are answered.

        A head without the option `confidence` promises nothing.
        """
        if not self.head.confidence_fields(describe(bert.model())):
            return
        if bert.multi_label:
            raise SkippedError("each label has a probability of its own")
        plain = self._class_logits(bert)
        scaled = self._class_logits(bert, confidence={"temperature": _TEMPERATURE})
        expected = scipy.special.softmax(plain / _TEMPERATURE, -1)
        what = f"probabilities with confidence={{'temperature': {_TEMPERATURE}}} to be those of logits divided by it"
        _expect_close(scipy.special.softmax(scaled, -1), expected, what)

    def _class_logits(self, bert, **options):
        """Returns what answers tell of the logits of the classes, by a signature with these options."""
        rows, _ = read_rows(self._texts_to_answer(bert), self.head.takes_words)
        names = check_rows(rows, self.head.inputs(bert), "the head")
        preprocessor = bert.preprocessor(samples.LENGTH, padding="longest")
        signatures = build_signatures(
            bert.model(),
            preprocessor,
            bert.labels,
            self.head.requires_pair,
            **options,
        )
        inputs = []
        for name in names:
            inputs.append(tf.constant([row[name] for row in rows]))
        outputs = signatures["serving_default"](*inputs)
        arrays = {name: value.numpy() for name, value in outputs.items()}
        try:
            logits = self.head.class_logits(arrays)
        except ValueError as error:
            raise SkippedError("answers do not tell the probabilities of all classes") from error
        return np.asarray(logits, "float64")

    @promise("shell")
    def predict_at_the_shell(self, answers, bert, saved):
        """`keras-bert predict` answers in a new process as Python does."""
        rows, _ = read_rows(self._texts_to_answer(bert), self.head.takes_words)
        found = processes.predicted_at_the_shell(saved, rows, processes.plugins_of(type(self.head)))
        processes.expect_answers(found, answers, "the answers at the shell")

    @promise("export")
    def exported(self, bert):
        """The folder of the SavedModel, whose outputs have those by which a client knows the head."""
        folder = self.folder / "exported" / _VERSION
        bert.export(folder)
        signature = tf.saved_model.load(str(folder)).signatures["serving_default"]
        outputs = signature.structured_outputs
        missing = set(self.head.outputs) - set(outputs)
        expected = f"`respond` to return the `outputs` of the head, {', '.join(self.head.outputs)}"
        expect(not missing, expected, ", ".join(outputs))
        return folder

    @promise()
    def server(self, exported, answers, bert):
        """A server and its client answer as Python does."""
        rows, _ = read_rows(self._texts_to_answer(bert), self.head.takes_words)
        allowed = self.head.inputs(bert)
        names = check_rows(rows, allowed, "the head")
        loaded = tf.saved_model.load(str(exported))

        def signature(inputs):
            tensors = {name: tf.constant(values) for name, values in inputs.items()}
            return loaded.signatures["serving_default"](**tensors)

        processes.expect_served(exported.parent, signature, names, rows, answers, self.head.outputs)

    @promise()
    def int8(self, bert):
        """The folder of the SavedModel in int8."""
        folder = self.folder / "int8" / _VERSION
        bert.export(folder, precision="int8")
        return folder

    @promise()
    def verify(self, exported):
        """Another program that has TensorFlow alone computes the stored answers of the SavedModels."""
        folders = [exported, self.folder / "int8" / _VERSION]
        for report in verify([folder for folder in folders if folder.exists()]):
            expect(not report.problems, "SavedModels without problems", "; ".join(report.problems))

    @promise()
    def onnx(self, bert):
        """ONNX Runtime computes the outputs of the model."""
        if self.head.run is None:
            raise SkippedError("the head has no `run`, which writes ONNX")
        if any(importlib.util.find_spec(name) is None for name in ("onnx", "onnxruntime")):
            raise SkippedError("onnxruntime is not installed")
        from keras_bert.exporting.onnx_export import export_onnx

        preprocessor = bert.preprocessor(samples.LENGTH)
        export_onnx(bert.model(), preprocessor, self.folder / "onnx", labels=bert.labels)

    @promise()
    def lora(self, saved):
        """A step with LoRA adapters changes the model, which is the same one when they are merged."""
        model = load(saved).model()
        inputs = samples.token_inputs(model)
        before = _outputs(model, inputs)
        enable_lora(model, _RANK)
        _step(model, inputs)
        trained = _outputs(model, inputs)
        is_changed = False
        for name, value in before.items():
            if np.abs(trained[name] - value).max() > 0:
                is_changed = True
        expect(is_changed, "outputs that a training step changes", "the same outputs")
        merge_lora(model)
        for name, value in _outputs(model, inputs).items():
            _expect_close(value, trained[name], f"the output {name} to stay when adapters are merged", 1e-3)
        self._check_description(describe(model))

    @promise()
    def bfloat16(self, saved):
        """Outputs are finite in bfloat16."""
        model = load(saved, dtype="mixed_bfloat16").model()
        for name, value in _outputs(model, samples.token_inputs(model)).items():
            expect(np.isfinite(value).all(), f"finite numbers in {name}", value)


def _packed(preprocessor, row):
    """Returns the model inputs of a text, padded."""
    if "choices" in row:
        return preprocessor.with_choices([row["text"]], [row["choices"]])
    return preprocessor({name: [text] for name, text in row.items()})


def _with_classes(head, options, labels):
    """Returns the options of `build`, with a number of classes if it needs one."""
    parameters = inspect.signature(head.build).parameters
    all_options = dict(options)
    if "num_classes" in parameters:
        all_options.setdefault("num_classes", len(labels) if labels else _CLASSES)
    return all_options


def _labels(head, options, labels):
    """Returns the names of the classes in an order that is not that of the alphabet; `None` for no classes."""
    if labels is not None:
        return list(labels)
    count = options.get("num_classes")
    if not head.has_classes or count is None or count < 2:
        return None
    return [f"class {number}" for number in range(count, 0, -1)]


def _outputs(model, inputs):
    """Returns the outputs of a model as arrays by name."""
    arrays = {}
    for name, value in model(inputs, training=False).items():
        arrays[name] = np.asarray(keras.ops.cast(value, "float32"))
    return arrays


def _expect_close(received, expected, what, tolerance=_EQUAL):
    """Raises an error unless arrays are equal up to a part of their largest value."""
    expect(received.shape == expected.shape, what, f"the shape {received.shape} instead of {expected.shape}")
    scale = max(np.abs(expected).max(initial=0.0), 1.0)
    difference = np.abs(received - expected).max(initial=0.0)
    is_close = math.isfinite(difference) and difference <= tolerance * scale
    expect(is_close, what, f"a difference of {difference:.3g}")


def _step(model, inputs):
    """Trains a model for one step, towards outputs of zero."""
    optimizer = keras.optimizers.SGD(0.1)
    with tf.GradientTape() as tape:
        outputs = model(inputs, training=True)
        means = []
        for value in outputs.values():
            means.append(tf.reduce_mean(tf.square(tf.cast(value, tf.float32))))
        loss = tf.add_n(means)
    weights = model.trainable_weights
    gradients = tape.gradient(loss, [weight.value for weight in weights])
    pairs = []
    for gradient, weight in zip(gradients, weights, strict=True):
        if gradient is not None:
            pairs.append((gradient, weight))
    optimizer.apply_gradients(pairs)
