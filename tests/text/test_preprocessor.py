"""Model inputs from strings: all input types, all execution environments and all errors."""

import json
import subprocess
import sys

import keras
import numpy as np
import pytest

from keras_bert import TextPreprocessor, Vocabulary

tf = pytest.importorskip("tensorflow")

from tests.text.test_packing import truncate  # noqa: E402

PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "hello", "wor", "##ld", "!", "a", "b", "c", "é", "e"]
HELLO = [2, 5, 6, 7, 8, 3, 0, 0]  # [CLS] hello wor ##ld ! [SEP]
A = [2, 9, 3, 0, 0, 0, 0, 0]
PAIR = [2, 5, 3, 9, 10, 3, 0, 0]


@pytest.fixture(scope="module")
def preprocessor():
    return TextPreprocessor(PIECES, 8)


def ids(packed):
    return packed["token_ids"].numpy().tolist()


@pytest.mark.parametrize(
    ("inputs", "expected"),
    [
        ("Hello world!", HELLO),
        (b"Hello world!", HELLO),
        (["Hello world!", "a"], [HELLO, A]),
        (np.array(["Hello world!", "a"]), [HELLO, A]),
        (np.array(["Hello world!", b"a"], dtype=object), [HELLO, A]),
        (("hello", "a b"), PAIR),
        ((["hello"], ["a b"]), [PAIR]),
        ({"text": ["hello"], "pair": ["a b"]}, [PAIR]),
        ([], np.zeros([0, 8]).tolist()),
        ("", [2, 3, 0, 0, 0, 0, 0, 0]),
        (("", ""), [2, 3, 3, 0, 0, 0, 0, 0]),
        (tf.constant("a"), A),
        ((tf.constant(["hello"]), tf.constant(["a b"])), [PAIR]),
        (tf.constant([["a", "a"], ["a", "a"]]), [[A, A], [A, A]]),
        ("\ud800a", A),  # A lone surrogate, as some JSON contains it.
    ],
)
def test_input_types(preprocessor, inputs, expected):
    assert ids(preprocessor(inputs)) == expected


def test_segments_and_masks(preprocessor):
    packed = preprocessor((["hello", "", "a", ""], ["a b", "a b", "", ""]))
    assert packed["segment_ids"].numpy().tolist() == [
        [0, 0, 0, 1, 1, 1, 0, 0],
        [0, 0, 1, 1, 1, 0, 0, 0],
        [0, 0, 0, 1, 0, 0, 0, 0],
        [0, 0, 1, 0, 0, 0, 0, 0],
    ]
    assert packed["padding_mask"].numpy().tolist() == [
        [1, 1, 1, 1, 1, 1, 0, 0],
        [1, 1, 1, 1, 1, 0, 0, 0],
        [1, 1, 1, 1, 0, 0, 0, 0],
        [1, 1, 1, 0, 0, 0, 0, 0],
    ]
    alone = preprocessor(["a", ""])
    assert (alone["segment_ids"].numpy() == 0).all()
    assert alone["padding_mask"].numpy().sum(1).tolist() == [3, 2]
    for values in (*packed.values(), *alone.values()):
        assert values.dtype == tf.int32


def test_one_tokenizer_of_a_vocabulary(preprocessor):
    """Graphs of a tokenizer are traced once for all lengths; other settings have their own."""
    assert TextPreprocessor(Vocabulary(PIECES), 4, padding="longest").tokenizer is preprocessor.tokenizer
    tokenizers = [
        preprocessor.tokenizer,
        TextPreprocessor(PIECES, 8, lowercase=False).tokenizer,
        TextPreprocessor(PIECES, 8, strip_accents=False).tokenizer,
        TextPreprocessor(PIECES, 8, keep_special_tokens=["[MASK]"]).tokenizer,
    ]
    assert len(set(map(id, tokenizers))) == 4


CHOICES = [["b", "", "a b c"], ["c", "\0 ", "a"]]  # Of the texts "a" and "hello".


def test_choices(eager):
    """A choice is the pair of its text; one without tokens is masked, also if it has characters."""
    preprocessor = TextPreprocessor(PIECES, 7, padding="longest")
    packed = preprocessor.with_choices(["a", "hello"], CHOICES)
    assert ids(packed) == [
        [[2, 9, 3, 10, 3, 0, 0], [2, 9, 3, 3, 0, 0, 0], [2, 9, 3, 9, 10, 11, 3]],
        [[2, 5, 3, 11, 3, 0, 0], [2, 5, 3, 3, 0, 0, 0], [2, 5, 3, 9, 3, 0, 0]],
    ]
    assert packed["padding_mask"].numpy().sum(-1).tolist() == [[5, 0, 7], [5, 0, 5]]
    assert packed["segment_ids"].numpy()[0, 2].tolist() == [0, 0, 0, 1, 1, 1, 1]
    with pytest.raises(ValueError, match="`text` and `pair` must have the same shape"):
        preprocessor.with_choices(["a"], [["b"], ["c"]])


def test_choices_without_segments(eager):
    preprocessor = TextPreprocessor(PIECES, 7, padding="longest")
    expected = preprocessor.with_choices(["a", "hello"], CHOICES)
    one_segment = TextPreprocessor(Vocabulary(PIECES, pair_segments=False), 7, padding="longest")
    packed = one_segment.with_choices(["a", "hello"], CHOICES)
    assert ids(packed) == ids(expected)
    assert not packed["segment_ids"].numpy().any()
    np.testing.assert_array_equal(packed["padding_mask"], expected["padding_mask"])


def test_truncation_of_one_text(eager):
    assert ids(TextPreprocessor(PIECES, 4)("a b c")) == [2, 9, 10, 3]


@pytest.mark.parametrize(
    ("length", "truncation", "expected"),
    [
        (7, "longest_first", [2, 9, 10, 3, 5, 5, 3]),
        (8, "only_second", [2, 9, 10, 11, 3, 5, 5, 3]),
        (5, "only_second", [2, 9, 10, 3, 3]),
    ],
)
def test_truncation_of_pairs(eager, length, truncation, expected):
    preprocessor = TextPreprocessor(PIECES, length, truncation=truncation)
    assert ids(preprocessor(("a b c", "hello hello hello hello"))) == expected


def test_truncation_at_the_left(eager):
    vocabulary = Vocabulary(PIECES, truncation_side="left")
    assert ids(TextPreprocessor(vocabulary, 4)("a b c")) == [2, 10, 11, 3]
    assert ids(TextPreprocessor(vocabulary, 7)(("a b c", "hello a b c"))) == [2, 10, 11, 3, 10, 11, 3]
    second = TextPreprocessor(vocabulary, 8, truncation="only_second")
    assert ids(second(("a b c", "hello a b c"))) == [2, 9, 10, 11, 3, 10, 11, 3]
    packed, first = TextPreprocessor(vocabulary, 6).from_words([["Hello", "world", "!", "a", "b"], ["a", ""]])
    assert ids(packed) == [[2, 7, 8, 9, 10, 3], [2, 9, 3, 0, 0, 0]]
    assert first.to_list() == [[-1, -1, 2, 3, 4], [1, -1]]
    with pytest.raises(ValueError, match="`truncation_side` must be .* Received: truncation_side='up'"):
        Vocabulary(PIECES, truncation_side="up")


@pytest.mark.parametrize(
    ("padding", "texts", "length"),
    [
        ("fixed", ["a"], 8),
        ("longest", ["a"], 3),
        ("longest", ["a", "a b"], 4),
        ("longest", ["a " * 100], 8),
        ("longest", [], 2),
        ("longest", [""], 2),
        (3, ["a"], 3),
        (3, ["a b"], 6),
        (3, ["a b c a b"], 8),
    ],
)
def test_padding(eager, padding, texts, length):
    packed = TextPreprocessor(PIECES, 8, padding=padding)(texts)
    for values in packed.values():
        assert values.shape == (len(texts), length)


def test_tf_data(preprocessor):
    rows = tf.data.Dataset.from_tensor_slices({"text": ["hello", ""], "pair": ["a b", ""], "label": [1, 2]})

    def pack(row):
        return preprocessor({"text": row["text"], "pair": row["pair"]}), row["label"]

    packed = rows.map(pack)
    assert [ids(inputs) for inputs, _ in packed] == [PAIR, [2, 3, 3, 0, 0, 0, 0, 0]]
    assert packed.element_spec[0]["token_ids"] == tf.TensorSpec([8], tf.int32)


def test_functional_model_keras_file_and_saved_model(preprocessor, tmp_path):
    inputs = {name: keras.Input((), dtype="string", name=name) for name in ("text", "pair")}
    model = keras.Model(inputs, preprocessor(inputs))
    data = {"text": tf.constant(["hello"]), "pair": tf.constant(["a b"])}
    for output in model.outputs:
        assert output.shape == (None, 8)
    assert ids(model(data)) == [PAIR]
    assert model.predict(data, verbose=0)["token_ids"].tolist() == [PAIR]
    model.save(tmp_path / "model.keras")
    assert ids(keras.models.load_model(tmp_path / "model.keras")(data)) == [PAIR]
    model.export(tmp_path / "here", verbose=False)
    (tmp_path / "here").rename(tmp_path / "there")
    assert ids(tf.saved_model.load(tmp_path / "there").serve(data)) == [PAIR]


@pytest.mark.slow
def test_keras_file_loads_after_importing_the_package(preprocessor, tmp_path):
    text = keras.Input((), dtype="string")
    keras.Model(text, preprocessor(text)).save(tmp_path / "model.keras")
    program = (
        "import keras, keras_bert, tensorflow as tf\n"
        f"model = keras.models.load_model({str(tmp_path / 'model.keras')!r})\n"
        "print(model(tf.constant(['a']))['token_ids'].numpy().tolist())"
    )
    output = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert output.strip() == str([A])


def test_config_contains_all_arguments(eager):
    arguments = {
        "vocabulary": PIECES,
        "sequence_length": 16,
        "lowercase": False,
        "strip_accents": True,
        "padding": 8,
        "keep_special_tokens": ["[MASK]"],
        "truncation": "only_second",
        "long_texts": "tail",
        "name": "texts",
    }
    config = TextPreprocessor(**arguments).get_config()
    assert config.items() >= arguments.items()
    again = TextPreprocessor.from_config(config)
    assert again.get_config() == config
    assert ids(again(("É [MASK]", "a b c"))) == [2, 1, 4, 3, 9, 10, 11, 3]


def test_integers_of_numpy_become_json(eager):
    vocabulary = Vocabulary(PIECES, max_word_length=np.int16(9))
    preprocessor = TextPreprocessor(vocabulary, sequence_length=np.int64(8), padding=np.int32(4))
    config = json.loads(json.dumps(preprocessor.get_config()))
    assert config["sequence_length"] == 8
    assert config["padding"] == 4
    assert config["vocabulary"] == {"pieces": PIECES, "max_word_length": 9}


def test_ragged_outputs(preprocessor, monkeypatch):
    monkeypatch.setattr("keras_bert.text.preprocessor._CHUNK", 2)
    rows = preprocessor.ragged(["Hello world!", "", "a"])
    assert rows["token_ids"].to_list() == [HELLO[:6], [2, 3], A[:3]]
    assert rows["padding_mask"].to_list() == [[1] * 6, [1] * 2, [1] * 3]
    assert preprocessor.ragged((["hello"], ["a b"]))["segment_ids"].to_list() == [[0, 0, 0, 1, 1, 1]]
    assert preprocessor.ragged([])["token_ids"].shape == (0, None)


@pytest.mark.parametrize("in_graph", [False, True])
def test_from_words(eager, preprocessor, in_graph):
    words = [["Hello", "world", "\0", "!", "a", "b", "a"], [], ["a b"]]
    if in_graph:
        dataset = tf.data.Dataset.from_tensors(tf.ragged.constant(words)).map(preprocessor.from_words)
        packed, first = next(iter(dataset))
    else:
        packed, first = preprocessor.from_words(words)
    assert ids(packed) == [[2, 5, 6, 7, 8, 9, 10, 3], [2, 3, 0, 0, 0, 0, 0, 0], [2, 9, 10, 3, 0, 0, 0, 0]]
    assert first.to_list() == [[1, 2, -1, 4, 5, 6, -1], [], [1]]
    assert first.dtype == tf.int32


def test_words_in_tuples_and_with_lone_surrogates(eager, preprocessor):
    _, first = preprocessor.from_words([["\ud83da"], ("b",)])
    assert first.to_list() == [[1], [1]]


@pytest.mark.parametrize(
    "words",
    [tf.ragged.constant([[1]]), tf.ragged.constant([[["a"]]]), ["a b"], tf.constant([["a"]])],
    ids=["integers", "three axes", "texts", "dense"],
)
def test_words_that_are_refused(preprocessor, words):
    with pytest.raises(ValueError, match=r"`words` must be ragged strings `\(batch, words\)`"):
        preprocessor.from_words(words)


def test_decode(preprocessor):
    assert preprocessor.decode(HELLO) == "hello world !"
    assert preprocessor.decode(preprocessor(["Hello world!", "a ?"])["token_ids"]) == ["hello world !", "a [UNK]"]
    assert preprocessor.decode(np.array([2, 4, 3])) == "[MASK]"
    assert preprocessor.decode(preprocessor.tokenizer(["hello", ""])) == ["hello", ""]
    assert preprocessor.decode([]) == ""
    assert preprocessor.decode([[2, 4, 3], [2, 3]]) == ["[MASK]", ""]


@pytest.mark.parametrize("wrong", [-1, len(PIECES), 4.0])
def test_ids_that_cannot_be_decoded(preprocessor, wrong):
    with pytest.raises(ValueError, match=f"`ids` must be integers from 0 to .*Received: {wrong} among them"):
        preprocessor.decode([wrong])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"sequence_length": 2}, "`sequence_length` must be an integer of at least 3.*Received: sequence_length=2"),
        ({"sequence_length": 8.0}, "`sequence_length` must be an integer"),
        ({"truncation": "first"}, "`truncation` must be 'longest_first' or 'only_second'"),
        ({"padding": "max"}, "`padding` must be 'fixed', 'longest' or an integer"),
        ({"padding": 0}, "Received: padding=0"),
    ],
)
def test_invalid_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        TextPreprocessor(PIECES, **({"sequence_length": 8} | arguments))


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        (["a", None], "`text` must be strings, in lists of equal length. Received: None among them"),
        (3, "`text` must be strings"),
        ([["a"], ["b", "c"]], "in lists of equal length"),
        (("a",), "a tuple must have two parts, the texts and their pairs. Received: a tuple of 1"),
        ([("a", "b")], r"`text` is a list with tuples. Expected a tuple of two lists.* Received: \('a', 'b'\) first"),
        ({"texts": "a"}, r"a dict must have `text`, and `pair` for pairs. Received: keys \['texts'\]"),
        ((["a"], ["b", "c"]), r"`text` and `pair` must have the same shape. Received: text.shape=\(1,\)"),
        (tf.constant([1]), "`text` must be strings. Received: dtype=<dtype: 'int32'>"),
        (tf.ragged.constant([["a"]]), "`text` must not be ragged; use `from_words` for words"),
    ],
)
def test_invalid_inputs(preprocessor, inputs, message):
    with pytest.raises(ValueError, match=message):
        preprocessor(inputs)


def test_pairs_of_unequal_length_in_graph_mode(preprocessor):
    specs = [tf.TensorSpec([None], tf.string)] * 2
    pack = tf.function(lambda *texts: preprocessor(texts), input_signature=specs, autograph=False)
    with pytest.raises(tf.errors.InvalidArgumentError, match="`text` and `pair` must have the same shape"):
        pack(tf.constant(["a"]), tf.constant(["a", "b"]))


def read(tokens, room, long_texts):
    """Returns the tokens that are read of a list of tokens, by slices."""
    if len(tokens) <= room:
        return tokens
    if long_texts == "tail":
        return tokens[len(tokens) - room :]
    if long_texts == "head_tail":
        head = room // 4
        return tokens[:head] + tokens[len(tokens) - (room - head) :]
    return tokens[:room]


def tokens_of(words):
    return [PIECES.index(word) for word in words]


CYCLE = ["a", "b", "c", "hello", "!"]
MANY_WORDS = [CYCLE[number * number % 5] for number in range(12)]
ROWS = [MANY_WORDS[:count] for count in (0, 1, 3, 4, 9, 12)]
every_cut = pytest.mark.parametrize("long_texts", ["head", "tail", "head_tail"])
lengths = pytest.mark.parametrize("length", [5, 6, 11, 16])


@every_cut
@lengths
def test_long_texts(eager, long_texts, length):
    preprocessor = TextPreprocessor(PIECES, length, long_texts=long_texts, padding="longest")
    texts = [" ".join(row) for row in ROWS]
    expected = [[2, *read(tokens_of(row), length - 2, long_texts), 3] for row in ROWS]
    assert preprocessor.ragged(texts)["token_ids"].to_list() == expected
    mask = preprocessor(texts)["padding_mask"].numpy()
    assert mask.sum(1).tolist() == list(map(len, expected))


@every_cut
@lengths
@pytest.mark.parametrize(("first", "second"), [(ROWS[5], ROWS[2]), (ROWS[3], ROWS[5]), (ROWS[4], ROWS[4])])
def test_pairs_of_long_texts(eager, long_texts, length, first, second):
    """Google's loop tells how many tokens are read of each: the longer text is truncated."""
    preprocessor = TextPreprocessor(PIECES, length, long_texts=long_texts, padding="longest")
    first_kept, second_kept = truncate(first, second, length - 3)
    pair = preprocessor.ragged(([" ".join(first)], [" ".join(second)]))
    first_ids = read(tokens_of(first), len(first_kept), long_texts)
    second_ids = read(tokens_of(second), len(second_kept), long_texts)
    assert pair["token_ids"].to_list() == [[2, *first_ids, 3, *second_ids, 3]]


@every_cut
@lengths
def test_places_of_words_of_long_texts(eager, long_texts, length):
    """The place of the first token of each word, where it is read."""
    preprocessor = TextPreprocessor(PIECES, length, long_texts=long_texts, padding="longest")
    _, starts = preprocessor.from_words(ROWS)
    for row, found in zip(ROWS, starts.to_list(), strict=True):
        expected = [-1] * len(row)
        for place, number in enumerate(read(list(range(len(row))), length - 2, long_texts), 1):
            expected[number] = place
        assert found == expected


@pytest.fixture
def refusing():
    return TextPreprocessor(PIECES, 5, long_texts="refuse")


def test_long_texts_are_refused(refusing):
    assert ids(refusing(["a b c", ""])) == [[2, 9, 10, 11, 3], [2, 3, 0, 0, 0]]
    message = r"texts\[1\] has 6 tokens.* 5 .*`long_texts` is 'refuse'"
    with pytest.raises(ValueError, match=message):
        refusing(["a", "a b c a"])


def test_long_texts_are_refused_in_every_call(refusing):
    with pytest.raises(ValueError, match=r"texts\[1\]"):
        refusing.ragged(["a", "a b c a"])
    with pytest.raises(ValueError, match=r"texts\[1\]"):
        refusing.counted(["a", "a b c a"])
    with pytest.raises(ValueError, match=r"texts\[0\]"):
        refusing((["a"], ["a b"]))
    with pytest.raises(ValueError, match=r"texts\[0\]"):
        refusing.with_choices(["a"], [["a", "a b"]])
    with pytest.raises(tf.errors.InvalidArgumentError, match="is not cut .long_texts=refuse.*tokens:. .6."):
        next(iter(tf.data.Dataset.from_tensors(["a", "a b c a"]).map(refusing)))


def test_names_of_ways_to_read_long_texts():
    with pytest.raises(ValueError, match="`long_texts` must be one of head, tail, head_tail, windows, refuse"):
        TextPreprocessor(PIECES, 5, long_texts="middle")


NUMBERS = [str(number) for number in range(30)]


@pytest.mark.parametrize(("overlap", "max_windows"), [(0, None), (3, None), (1, 2)])
def test_windows_are_those_of_a_tokenizer(overlap, max_windows):
    tokenizers = pytest.importorskip("tokenizers")
    pieces = [*PIECES[:5], *NUMBERS]
    other = tokenizers.BertWordPieceTokenizer({piece: number for number, piece in enumerate(pieces)})
    other.enable_truncation(8, stride=overlap)
    expected = []
    rows = []
    texts = [" ".join(NUMBERS[:count]) for count in (0, 5, 6, 7, 9, 12, 13, 29)]
    for row, text in enumerate(texts):
        encoded = other.encode(text)
        windows = [encoded.ids, *(part.ids for part in encoded.overflowing)][:max_windows]
        expected += windows
        rows += [row] * len(windows)
    preprocessor = TextPreprocessor(pieces, 8, long_texts="windows", overlap=overlap, max_windows=max_windows)
    windows = preprocessor.windows(texts)
    assert windows.views.row.numpy().tolist() == rows
    assert next(windows.ragged_parts())["token_ids"].to_list() == expected


def test_counts_of_windows():
    """[CLS] and [SEP] count once; of two windows of 8 with one token in common, 13 are read."""
    preprocessor = TextPreprocessor([*PIECES[:5], *NUMBERS], 8, long_texts="windows", overlap=1, max_windows=2)
    texts = [" ".join(NUMBERS[:count]) for count in (0, 6, 9, 29)]
    counts = preprocessor.windows(texts).token_counts()
    assert counts["tokens"].numpy().tolist() == [2, 8, 11, 31]
    assert counts["tokens_read"].numpy().tolist() == [2, 8, 11, 13]


def test_windows_of_pairs():
    """The second text is read in windows behind the first one, of which half of the room is read."""
    preprocessor = TextPreprocessor(PIECES, 7, long_texts="windows", overlap=1)
    views = preprocessor.windows((["a b", "c c c", ""], ["a b c a", "a b", "b"]))
    assert next(views.ragged_parts())["token_ids"].to_list() == [
        [2, 9, 10, 3, 9, 10, 3],
        [2, 9, 10, 3, 10, 11, 3],
        [2, 9, 10, 3, 11, 9, 3],
        [2, 11, 11, 3, 9, 10, 3],
        [2, 3, 10, 3],
    ]


def test_calls_of_a_preprocessor_of_windows():
    preprocessor = TextPreprocessor(PIECES, 5, long_texts="windows")
    assert ids(preprocessor(["a b"])) == [[2, 9, 10, 3, 0]]
    with pytest.raises(ValueError, match=r"texts.0. has 6 tokens.* Expected a call of `windows`"):
        preprocessor(["a b c a"])
    none = preprocessor.windows([])
    assert none.views.row.shape == (0,)
    assert none.packed()["token_ids"].shape == (0, 5)


def test_options_of_windows():
    numbers = TextPreprocessor(PIECES, 5, long_texts="windows", overlap=np.int64(2), max_windows=np.int32(3))
    assert json.loads(json.dumps(numbers.get_config()))["max_windows"] == 3
    with pytest.raises(ValueError, match="overlap"):
        TextPreprocessor(PIECES, 5, overlap=2)
    with pytest.raises(ValueError, match="long_texts"):
        TextPreprocessor(PIECES, 5, long_texts="tail").windows(["a"])
    with pytest.raises(ValueError, match="`overlap` must be less than the 3 tokens of a window. Received: overlap=3"):
        TextPreprocessor(PIECES, 5, long_texts="windows", overlap=3)


def test_options_of_windows_of_pairs():
    """Whatever the texts, and not only when a first text is long."""
    wide = TextPreprocessor(PIECES, 7, long_texts="windows", overlap=2)
    with pytest.raises(ValueError, match="`overlap` must be less than 2, the tokens .* beside a long first text"):
        wide.windows((["a"], ["b"]))
    with pytest.raises(ValueError, match="`sequence_length` must be at least 4 for windows of pairs. Received: .*=3"):
        TextPreprocessor(PIECES, 3, long_texts="windows").windows((["a"], ["b"]))
