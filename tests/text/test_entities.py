"""Tags and entities against plain loops over conlleval's rules."""

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")

from keras_bert.text.entities import Entities, entities, entity_spans, word_tags  # noqa: E402

TYPES = ["PER", "LOC", "creative-work"]
SCHEMES = {
    "IOB": ["O", *(f"{prefix}-{kind}" for kind in TYPES for prefix in "BI")],
    "IOBES": ["O", *(f"{prefix}-{kind}" for kind in TYPES for prefix in "BIES")],
    "BILOU": [*(f"{prefix}-{kind}" for kind in TYPES for prefix in "BILU"), "O"],
}


def starts_chunk(before, before_type, tag, kind):
    if tag in ("B", "S", "U"):
        return True
    if before in ("E", "L", "S", "U", "O") and tag in ("I", "E", "L"):
        return True
    return tag != "O" and before_type != kind


def ends_chunk(before, before_type, tag, kind):
    if before in ("E", "L", "S", "U"):
        return True
    if before in ("B", "I") and tag in ("B", "S", "U", "O"):
        return True
    return before != "O" and before_type != kind


def slow_entities(sentence):
    """[(type, start, end)] of a list of labels: conlleval's loop over one sentence."""
    found, start = [], None
    before, before_type = "O", ""
    for word, label in enumerate([*sentence, "O"]):
        tag, _, kind = label.partition("-")
        if start is not None and ends_chunk(before, before_type, tag, kind):
            found.append((before_type, start, word))
            start = None
        if starts_chunk(before, before_type, tag, kind):
            start = word
        before, before_type = tag, kind
    return found


def listed(found):
    """[[(type, start, end)]] of `Entities`."""
    assert (found.type.dtype, found.start.dtype, found.end.dtype) == (tf.string, tf.int32, tf.int32)
    rows = zip(*(field.to_list() for field in found), strict=True)
    return [[(kind.decode(), start, end) for kind, start, end in zip(*row, strict=True)] for row in rows]


def read(*sentences):
    """The entities of sentences such as "B-PER I-PER O"."""
    sentences = [sentence.split() for sentence in sentences]
    labels = sorted({label for sentence in sentences for label in sentence})
    return listed(entities(ragged([[labels.index(label) for label in sentence] for sentence in sentences]), labels))


def ragged(rows):
    return tf.ragged.constant(rows, tf.int32, ragged_rank=1)


def random_sentences(rng, labels, sentences=30):
    return [rng.integers(0, len(labels), rng.integers(0, 15)).tolist() for _ in range(sentences)]


def test_the_schemes_by_hand():
    wanted = [("PER", 0, 2), ("PER", 2, 3), ("LOC", 4, 5)]
    assert read("B-PER I-PER B-PER O B-LOC") == [wanted]
    assert read("I-PER I-PER B-PER O I-LOC") == [wanted]
    assert read("B-PER E-PER S-PER O S-LOC") == [wanted]
    assert read("B-PER L-PER U-PER O U-LOC") == [wanted]
    assert read("B-PER E-PER S-PER O S-LOC", "B-ORG M-ORG E-ORG") == [wanted, [("ORG", 0, 3)]]


def test_broken_sequences_by_hand():
    assert read("O I-PER I-LOC") == [[("PER", 1, 2), ("LOC", 2, 3)]]
    assert read("E-PER E-PER I-PER") == [[("PER", 0, 1), ("PER", 1, 2), ("PER", 2, 3)]]
    assert read("S-PER I-PER O B-PER") == [[("PER", 0, 1), ("PER", 1, 2), ("PER", 3, 4)]]


def test_an_entity_ends_with_its_sentence():
    assert read("O B-PER", "I-PER", "", "I-PER") == [[("PER", 1, 2)], [("PER", 0, 1)], [], [("PER", 0, 1)]]


def test_labels_without_a_prefix_or_without_a_type():
    assert read("PER PER LOC O geo-loc") == [[("PER", 0, 2), ("LOC", 2, 3), ("geo-loc", 4, 5)]]
    assert read("B I B O I") == [[("", 0, 2), ("", 2, 3), ("", 4, 5)]]
    assert read("PER I-PER") == [[("PER", 0, 2)]]


@pytest.mark.parametrize("scheme", SCHEMES)
def test_equals_the_loop(scheme):
    labels, rng = SCHEMES[scheme], np.random.default_rng(0)
    for _ in range(20):
        tags = random_sentences(rng, labels)
        expected = [slow_entities([labels[tag] for tag in sentence]) for sentence in tags]
        assert listed(entities(ragged(tags), labels)) == expected


@pytest.mark.parametrize("scheme", SCHEMES)
def test_gives_back_what_was_tagged(scheme):
    rng = np.random.default_rng(1)
    single, final = {"IOB": "BI", "IOBES": "SE", "BILOU": "UL"}[scheme]
    sentences, wanted = [], []
    for _ in range(100):
        sentence, found = [], []
        for size in rng.integers(0, 5, 6):  # 0 is a word outside.
            kind = TYPES[rng.integers(3)]
            if size:
                found.append((kind, len(sentence), len(sentence) + size))
            prefixes = ["B", *"I" * (size - 2), final] if size > 1 else single
            sentence += [f"{prefix}-{kind}" for prefix in prefixes] if size else ["O"]
        sentences.append(" ".join(sentence))
        wanted.append(found)
    assert read(*sentences) == wanted


@pytest.mark.parametrize("rows", [[], [[]], [[], []]])
def test_no_words(rows):
    found = entities(ragged(rows), ["O", "B-PER"])
    assert listed(found) == rows
    starts, ends = entity_spans(found, ragged(rows), ragged(rows))
    assert starts.to_list() == ends.to_list() == rows
    assert word_tags(tf.zeros([len(rows), 4], tf.int32), ragged(rows)).to_list() == rows


@pytest.mark.parametrize("dtype", [tf.int32, tf.int64])
def test_row_splits_and_tags_of_either_type(dtype):
    tags = tf.ragged.constant([[1, 2], [], [2]], dtype, row_splits_dtype=dtype)
    found = entities(tags, ["O", "B-PER", "I-PER"])
    assert listed(found) == [[("PER", 0, 2)], [], [("PER", 0, 1)]]
    starts, ends = entity_spans(found, ragged([[0, 4], [], [2]]), tf.ragged.constant([[3, 9], [], [5]], tf.int64))
    assert (starts.to_list(), ends.to_list()) == ([[0], [], [2]], [[9], [], [5]])


def test_word_tags_by_hand():
    values = tf.constant([[5, 6, 7, 8], [1, 2, 3, 4]])
    assert word_tags(values, ragged([[1, 3], []])).to_list() == [[6, 8], []]
    assert word_tags(values, ragged([[1, -1], [2, 0, -1]]), missing=9).to_list() == [[6, 9], [3, 1, 9]]


def test_word_tags_of_logits():
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(3, 6, 4)).astype("float32")
    first = [[1, 2, -1], [], [5, -1]]
    missing = [1.0, 0.0, 0.0, 0.0]
    words = word_tags(logits, ragged(first), missing)
    assert words.shape.as_list() == [3, None, 4]
    for row, positions in enumerate(first):
        assert len(words[row]) == len(positions)
        for word, position in enumerate(positions):
            expected = logits[row, position] if position >= 0 else missing
            np.testing.assert_array_equal(words[row, word], expected)


def test_entity_spans_by_hand():
    # "Max Müller saw Rome": bytes, so that ü counts twice.
    text = "Max Müller saw Rome".encode()
    found = entities(ragged([[1, 2, 0, 3]]), ["O", "B-PER", "I-PER", "B-LOC"])
    starts, ends = entity_spans(found, ragged([[0, 4, 12, 16]]), ragged([[3, 11, 15, 20]]))
    pieces = [text[start:end].decode() for start, end in zip(starts.to_list()[0], ends.to_list()[0], strict=True)]
    assert pieces == ["Max Müller", "Rome"]


class Service(tf.Module):
    @tf.function(
        input_signature=[
            tf.TensorSpec([None, None, None], tf.float32, name="logits"),
            tf.TensorSpec([None, None], tf.int32, name="first_pieces"),
            tf.TensorSpec([None], tf.int32, name="words"),
        ]
    )
    def serve(self, logits, first_pieces, words):
        first = tf.RaggedTensor.from_tensor(first_pieces, lengths=words)
        tags = word_tags(tf.argmax(logits, axis=-1, output_type=tf.int32), first, missing=0)
        found = entities(tags, SCHEMES["IOBES"])
        starts, ends = entity_spans(found, 10 * first, 10 * first + 9)
        ragged = {**found._asdict(), "start_byte": starts, "end_byte": ends}
        return {
            "count": found.type.row_lengths(),
            **{name: value.to_tensor("" if name == "type" else -1) for name, value in ragged.items()},
        }


def test_through_a_saved_model(tmp_path):
    service = Service()
    tf.saved_model.save(service, str(tmp_path), signatures=service.serve)
    serve = tf.saved_model.load(str(tmp_path)).signatures["serving_default"]
    rng = np.random.default_rng(2)
    for batch in (1, 5, 40, 0):
        labels = SCHEMES["IOBES"]
        logits = rng.normal(size=(batch, 16, len(labels))).astype("float32")
        words = rng.integers(0, 15, batch)
        outputs = serve(
            logits=tf.constant(logits),
            first_pieces=tf.broadcast_to(tf.range(1, 15), [batch, 14]),
            words=tf.constant(words, tf.int32),
        )
        for row in range(batch):
            expected = slow_entities([labels[tag] for tag in logits[row, 1 : 1 + words[row]].argmax(-1)])
            count = int(outputs["count"][row])
            fields = [outputs[name][row, :count].numpy().tolist() for name in ("type", "start", "end")]
            assert [(kind.decode(), start, end) for kind, start, end in zip(*fields, strict=True)] == expected
            # Word w stands at piece w + 1, of which the test says that it takes ten bytes.
            assert outputs["start_byte"][row, :count].numpy().tolist() == [10 * start + 10 for _, start, _ in expected]
            assert outputs["end_byte"][row, :count].numpy().tolist() == [10 * end + 9 for _, _, end in expected]


def test_a_ragged_signature():
    spec = tf.RaggedTensorSpec([None, None], tf.int32)
    graph = tf.function(lambda tags: entities(tags, SCHEMES["IOB"]), input_signature=[spec])
    found = graph(ragged([[1, 2, 0], []]))
    assert isinstance(found, Entities)
    assert listed(found) == [[("PER", 0, 2)], []]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: entities(ragged([[0]]), []), "`labels` must be a list of strings, at least one. Received: labels="),
        (
            lambda: entities(ragged([[0]]), "O"),
            "`labels` must be a list of strings, at least one. Received: labels='O'",
        ),
        (lambda: entities(ragged([[0]]), ["O", 1]), "`labels` must be a list of strings, at least one. Received: lab"),
        (
            lambda: entities(ragged([[0]]), ["O", "B-PER", "O"]),
            r"`labels` has O more than once. Received: labels=\['O', 'B-PER', 'O'\]",
        ),
        (
            lambda: word_tags(tf.zeros([1, 4]), ragged([[1, -1]])),
            r"`first_pieces` has words that were cut off. Expected `missing`, the value for them. "
            r"Received: first_pieces=\[ 1 -1\]",
        ),
        (
            lambda: entity_spans(
                entities(ragged([[1], [0, 1]]), ["O", "B"]), ragged([[0], [0]]), ragged([[1], [1, 2]])
            ),
            r"`word_starts` has fewer words than the tags had. Expected one offset a word. Received: words=\[0 1\]",
        ),
        (
            lambda: entity_spans(entities(ragged([[1]]), ["O", "B"]), ragged([[0]]), ragged([[]])),
            "`word_ends` has fewer words than the tags had. Expected one offset a word. Received: words=",
        ),
    ],
)
def test_errors(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_a_cut_off_word_in_a_graph():
    graph = tf.function(
        word_tags, input_signature=[tf.TensorSpec([None, None]), tf.RaggedTensorSpec([None, None], tf.int32)]
    )
    assert graph(tf.constant([[1.0, 2.0]]), ragged([[1, 0]])).to_list() == [[2.0, 1.0]]
    with pytest.raises(tf.errors.InvalidArgumentError, match="`first_pieces` has words that were cut off"):
        graph(tf.constant([[1.0, 2.0]]), ragged([[1, -1]]))
