"""Model inputs from strings: all input types, all execution environments and all errors."""

import json
import subprocess
import sys

import keras
import numpy as np
import pytest

from keras_bert import TextPreprocessor, Vocabulary

tf = pytest.importorskip("tensorflow")

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
    segments = [[0, 0, 0, 1, 1, 1], [0, 0, 1, 1, 1], [0, 0, 0, 1], [0, 0, 1]]
    assert packed["segment_ids"].numpy().tolist() == [row + [0] * (8 - len(row)) for row in segments]
    assert packed["padding_mask"].numpy().tolist() == [[1] * len(row) + [0] * (8 - len(row)) for row in segments]
    alone = preprocessor(["a", ""])
    assert (alone["segment_ids"].numpy() == 0).all()
    assert alone["padding_mask"].numpy().sum(1).tolist() == [3, 2]
    assert {value.dtype for value in (packed | alone).values()} == {tf.int32}


def test_one_tokenizer_of_a_vocabulary(preprocessor):
    """Graphs of a tokenizer are traced once for all lengths; other settings have their own."""
    assert TextPreprocessor(Vocabulary(PIECES), 4, padding="longest").tokenizer is preprocessor.tokenizer
    others = {"lowercase": False}, {"strip_accents": False}, {"keep_special_tokens": ["[MASK]"]}
    tokenizers = [TextPreprocessor(PIECES, 8, **options).tokenizer for options in others]
    assert len({id(tokenizer) for tokenizer in (preprocessor.tokenizer, *tokenizers)}) == 4


def test_choices(eager):
    """A choice is the pair of its text; one without tokens is masked, also if it has characters."""
    preprocessor = TextPreprocessor(PIECES, 7, padding="longest")
    packed = preprocessor.with_choices(["a", "hello"], [["b", "", "a b c"], ["c", "\0 ", "a"]])
    assert ids(packed) == [
        [[2, 9, 3, 10, 3, 0, 0], [2, 9, 3, 3, 0, 0, 0], [2, 9, 3, 9, 10, 11, 3]],
        [[2, 5, 3, 11, 3, 0, 0], [2, 5, 3, 3, 0, 0, 0], [2, 5, 3, 9, 3, 0, 0]],
    ]
    assert packed["padding_mask"].numpy().sum(-1).tolist() == [[5, 0, 7], [5, 0, 5]]
    assert packed["segment_ids"].numpy()[0, 2].tolist() == [0, 0, 0, 1, 1, 1, 1]
    one_segment = TextPreprocessor(Vocabulary(PIECES, pair_segments=False), 7, padding="longest")
    again = one_segment.with_choices(["a", "hello"], [["b", "", "a b c"], ["c", "\0 ", "a"]])
    assert (ids(again), again["segment_ids"].numpy().max()) == (ids(packed), 0)
    assert again["padding_mask"].numpy().tolist() == packed["padding_mask"].numpy().tolist()
    with pytest.raises(ValueError, match="`text` and `pair` must have the same shape"):
        preprocessor.with_choices(["a"], [["b"], ["c"]])


def test_truncation(eager):
    assert ids(TextPreprocessor(PIECES, 4)("a b c")) == [2, 9, 10, 3]
    pair = ("a b c", "hello hello hello hello")
    for length, truncation, expected in (
        (7, "longest_first", [2, 9, 10, 3, 5, 5, 3]),
        (8, "only_second", [2, 9, 10, 11, 3, 5, 5, 3]),
        (5, "only_second", [2, 9, 10, 3, 3]),
    ):
        assert ids(TextPreprocessor(PIECES, length, truncation=truncation)(pair)) == expected


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


def test_padding(eager):
    for padding, cases in {
        "fixed": [(["a"], 8)],
        "longest": [(["a"], 3), (["a", "a b"], 4), (["a " * 100], 8), ([], 2), ([""], 2)],
        3: [(["a"], 3), (["a b"], 6), (["a b c a b"], 8)],
    }.items():
        preprocessor = TextPreprocessor(PIECES, 8, padding=padding)
        for texts, length in cases:
            assert {value.shape for value in preprocessor(texts).values()} == {(len(texts), length)}


def test_tf_data(preprocessor):
    rows = tf.data.Dataset.from_tensor_slices({"text": ["hello", ""], "pair": ["a b", ""], "label": [1, 2]})
    packed = rows.map(lambda row: (preprocessor({"text": row["text"], "pair": row["pair"]}), row["label"]))
    assert [ids(inputs) for inputs, _ in packed] == [PAIR, [2, 3, 3, 0, 0, 0, 0, 0]]
    assert packed.element_spec[0]["token_ids"] == tf.TensorSpec([8], tf.int32)


def test_functional_model_keras_file_and_saved_model(preprocessor, tmp_path):
    inputs = {name: keras.Input((), dtype="string", name=name) for name in ("text", "pair")}
    model = keras.Model(inputs, preprocessor(inputs))
    data = {"text": tf.constant(["hello"]), "pair": tf.constant(["a b"])}
    assert {value.shape for value in model.outputs} == {(None, 8)}
    assert ids(model(data)) == model.predict(data, verbose=0)["token_ids"].tolist() == [PAIR]
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
    arguments = {"vocabulary": PIECES, "sequence_length": 16, "lowercase": False, "strip_accents": True, "padding": 8}
    arguments |= {"keep_special_tokens": ["[MASK]"], "truncation": "only_second", "long_texts": "tail", "name": "texts"}
    config = TextPreprocessor(**arguments).get_config()
    assert {name: config[name] for name in arguments} == arguments
    again = TextPreprocessor.from_config(config)
    assert again.get_config() == config
    assert ids(again(("É [MASK]", "a b c"))) == [2, 1, 4, 3, 9, 10, 11, 3]
    # Integers of NumPy become JSON.
    settings = {"sequence_length": np.int64(8), "padding": np.int32(4)}
    preprocessor = TextPreprocessor(Vocabulary(PIECES, max_word_length=np.int16(9)), **settings)
    expected = {**settings, "vocabulary": {"pieces": PIECES, "max_word_length": 9}}
    assert json.loads(json.dumps(preprocessor.get_config())).items() >= expected.items()


def test_ragged_outputs(preprocessor, monkeypatch):
    monkeypatch.setattr("keras_bert.text.preprocessor._CHUNK", 2)
    rows = preprocessor.ragged(["Hello world!", "", "a"])
    assert rows["token_ids"].to_list() == [HELLO[:6], [2, 3], A[:3]]
    assert rows["padding_mask"].to_list() == [[1] * 6, [1] * 2, [1] * 3]
    assert preprocessor.ragged((["hello"], ["a b"]))["segment_ids"].to_list() == [[0, 0, 0, 1, 1, 1]]
    assert preprocessor.ragged([])["token_ids"].shape == (0, None)


def test_from_words(eager, preprocessor):
    words = [["Hello", "world", "\0", "!", "a", "b", "a"], [], ["a b"]]
    mapped = tf.data.Dataset.from_tensors(tf.ragged.constant(words)).map(preprocessor.from_words)
    for packed, first in (preprocessor.from_words(words), next(iter(mapped))):
        assert ids(packed) == [[2, 5, 6, 7, 8, 9, 10, 3], [2, 3, 0, 0, 0, 0, 0, 0], [2, 9, 10, 3, 0, 0, 0, 0]]
        assert first.to_list() == [[1, 2, -1, 4, 5, 6, -1], [], [1]]
        assert first.dtype == tf.int32
    assert preprocessor.from_words([["\ud83da"], ("b",)])[1].to_list() == [[1], [1]]
    for wrong in (tf.ragged.constant([[1]]), tf.ragged.constant([[["a"]]]), ["a b"], tf.constant([["a"]])):
        with pytest.raises(ValueError, match="`words` must be ragged strings `\\(batch, words\\)`"):
            preprocessor.from_words(wrong)


def test_decode(preprocessor):
    assert preprocessor.decode(HELLO) == "hello world !"
    assert preprocessor.decode(preprocessor(["Hello world!", "a ?"])["token_ids"]) == ["hello world !", "a [UNK]"]
    assert preprocessor.decode(np.array([2, 4, 3])) == "[MASK]"
    assert preprocessor.decode(preprocessor.tokenizer(["hello", ""])) == ["hello", ""]
    assert preprocessor.decode([]) == ""
    assert preprocessor.decode([[2, 4, 3], [2, 3]]) == ["[MASK]", ""]
    for wrong in (-1, len(PIECES), 4.0):
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
        TextPreprocessor(PIECES, **{"sequence_length": 8, **arguments})


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        (["a", None], "`text` must be strings, in lists of equal length. Received: None among them"),
        (3, "`text` must be strings, in lists of equal length. Received: 3"),
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
        return tokens[: room // 4] + tokens[len(tokens) - (room - room // 4) :]
    return tokens[:room]


@pytest.mark.parametrize("long_texts", ["head", "tail", "head_tail"])
@pytest.mark.parametrize("length", [5, 6, 11, 16])
def test_long_texts(eager, long_texts, length):
    preprocessor = TextPreprocessor(PIECES, length, long_texts=long_texts, padding="longest")
    words = [["a", "b", "c", "hello", "!"][number * number % 5] for number in range(12)]
    rows = [words[:count] for count in (0, 1, 3, 4, 9, 12)]
    tokens = [[PIECES.index(word) for word in row] for row in rows]
    packed = preprocessor([" ".join(row) for row in rows])
    expected = [[2, *read(row, length - 2, long_texts), 3] for row in tokens]
    assert preprocessor.ragged([" ".join(row) for row in rows])["token_ids"].to_list() == expected
    assert tf.reduce_sum(packed["padding_mask"], 1).numpy().tolist() == list(map(len, expected))
    # Pairs: Google's loop, which truncates the longer text.
    for first, second in ((rows[5], rows[2]), (rows[3], rows[5]), (rows[4], rows[4])):
        sizes = [len(first), len(second)]
        while sum(sizes) > length - 3:
            sizes[sizes[0] <= sizes[1]] -= 1
        first_ids, second_ids = ([PIECES.index(word) for word in part] for part in (first, second))
        pair = preprocessor.ragged(([" ".join(first)], [" ".join(second)]))
        expected = [2, *read(first_ids, sizes[0], long_texts), 3, *read(second_ids, sizes[1], long_texts), 3]
        assert pair["token_ids"].to_list() == [expected]
    # Words: the place of the first token of each, where it is read.
    packed, starts = preprocessor.from_words(rows)
    places = [read(list(range(len(row))), length - 2, long_texts) for row in rows]
    assert starts.to_list() == [
        [kept.index(number) + 1 if number in kept else -1 for number in range(len(row))]
        for row, kept in zip(rows, places, strict=True)
    ]


def test_long_texts_are_refused():
    preprocessor = TextPreprocessor(PIECES, 5, long_texts="refuse")
    assert ids(preprocessor(["a b c", ""])) == [[2, 9, 10, 11, 3], [2, 3, 0, 0, 0]]
    message = r"texts\[1\] has 6 tokens, more than the 5 that the model reads, and `long_texts` is 'refuse'"
    for call in (preprocessor, preprocessor.ragged, preprocessor.counted):
        with pytest.raises(ValueError, match=message):
            call(["a", "a b c a"])
    with pytest.raises(ValueError, match=r"texts\[0\] has 6 tokens"):
        preprocessor((["a"], ["a b"]))
    with pytest.raises(ValueError, match=r"texts\[0\] has 6 tokens"):
        preprocessor.with_choices(["a"], [["a", "a b"]])
    with pytest.raises(tf.errors.InvalidArgumentError, match="is not cut .long_texts=refuse.*tokens:. .6."):
        next(iter(tf.data.Dataset.from_tensors(["a", "a b c a"]).map(preprocessor)))
    with pytest.raises(ValueError, match="`long_texts` must be one of head, tail, head_tail, windows, refuse"):
        TextPreprocessor(PIECES, 5, long_texts="middle")


@pytest.mark.parametrize(("overlap", "max_windows"), [(0, None), (3, None), (1, 2)])
def test_windows_are_those_of_a_tokenizer(overlap, max_windows):
    tokenizers = pytest.importorskip("tokenizers")
    words = [str(number) for number in range(30)]
    pieces = [*PIECES[:5], *words]
    other = tokenizers.BertWordPieceTokenizer({piece: number for number, piece in enumerate(pieces)})
    other.enable_truncation(8, stride=overlap)
    preprocessor = TextPreprocessor(pieces, 8, long_texts="windows", overlap=overlap, max_windows=max_windows)
    texts = [" ".join(words[:count]) for count in (0, 5, 6, 7, 9, 12, 13, 29)]
    views = preprocessor.windows(texts)
    rows = [[] for _ in texts]
    for row, ids in zip(views.views.row.numpy(), next(views.ragged_parts())["token_ids"].to_list(), strict=True):
        rows[row].append(ids)
    for text, found in zip(texts, rows, strict=True):
        encoded = other.encode(text)
        expected = [encoded.ids, *(part.ids for part in encoded.overflowing)]
        assert found == expected[:max_windows]
    counts = views.token_counts()
    assert counts["tokens"].numpy().tolist() == [len(text.split()) + 2 for text in texts]
    read = [len({token for ids in row for token in ids} - {2, 3}) + 2 for row in rows]
    assert counts["tokens_read"].numpy().tolist() == read


def test_windows_of_pairs_and_calls():
    # The second text is read in windows behind the first one, of which half of the room is read.
    preprocessor = TextPreprocessor(PIECES, 7, long_texts="windows", overlap=1)
    views = preprocessor.windows((["a b", "c c c", ""], ["a b c a", "a b", "b"]))
    expected = [[2, 9, 10, 3, 9, 10, 3], [2, 9, 10, 3, 10, 11, 3], [2, 9, 10, 3, 11, 9, 3], [2, 11, 11, 3, 9, 10, 3]]
    assert next(views.ragged_parts())["token_ids"].to_list() == [*expected, [2, 3, 10, 3]]
    preprocessor = TextPreprocessor(PIECES, 5, long_texts="windows")
    assert ids(preprocessor(["a b"])) == [[2, 9, 10, 3, 0]]
    with pytest.raises(ValueError, match=r"texts.0. has 6 tokens.* Expected a call of `windows`"):
        preprocessor(["a b c a"])
    with pytest.raises(ValueError, match="`overlap` is an option of long_texts='windows'"):
        TextPreprocessor(PIECES, 5, overlap=2)
    with pytest.raises(ValueError, match="`windows` needs long_texts='windows'. Received: long_texts='tail'"):
        TextPreprocessor(PIECES, 5, long_texts="tail").windows(["a"])
    numbers = TextPreprocessor(PIECES, 5, long_texts="windows", overlap=np.int64(2), max_windows=np.int32(3))
    assert json.loads(json.dumps(numbers.get_config()))["max_windows"] == 3
    none = preprocessor.windows([])
    assert (none.views.row.shape, none.packed()["token_ids"].shape) == ((0,), (0, 5))
    with pytest.raises(ValueError, match="`overlap` must be less than the 3 tokens of a window. Received: overlap=3"):
        TextPreprocessor(PIECES, 5, long_texts="windows", overlap=3)
    # Whatever the texts, and not only when a first text is long.
    wide = TextPreprocessor(PIECES, 7, long_texts="windows", overlap=2)
    with pytest.raises(ValueError, match="`overlap` must be less than 2, the tokens .* beside a long first text"):
        wide.windows((["a"], ["b"]))
    with pytest.raises(ValueError, match="`sequence_length` must be at least 4 for windows of pairs. Received: .*=3"):
        TextPreprocessor(PIECES, 3, long_texts="windows").windows((["a"], ["b"]))
