"""Easily ignored settings of other programs' folders: each is applied and kept by `save`, or raises an error."""

import dataclasses
import functools
import json
import shutil

import numpy as np
import pytest

import keras_bert
from keras_bert.checkpoints import huggingface, tokenizer_files
from keras_bert.checkpoints.folder import Folder
from keras_bert.checkpoints.load import open_checkpoint
from keras_bert.checkpoints.tensors import slots
from keras_bert.metadata import Metadata
from keras_bert.text.tokenizer_options import LONGEST_WORD, VOCABULARY_OPTIONS
from tests.checkpoints.conftest import edit
from tests.conftest import relative, to_numpy

CASES = ["added_special_tokens_v4_layout", "added_tokens", "cased_strip_accents", "causal_lm", "lower_keep_accents"]
CASES += ["multi_label", "next_sentence", "no_chinese_split", "no_model_type", "pad_at_3", "sentence_encoder"]
CASES += ["untied_masked_lm"]
OUTPUTS = {"out_last_hidden_state": "sequence_output", "out_pooler_output": "pooled_output"}
OUTPUTS |= {"out_embedding": "embedding"}
CHANGED = {
    "added_tokens": [
        keras_bert.AddedToken("new word", single_word=True),
        keras_bert.AddedToken("<x>", normalized=False, special=True),
    ],
    "strip_accents": False,
    "tokenize_chinese_chars": False,
    "max_word_length": 7,
    "pair_segments": False,
    "normalizer": {"type": "Sequence", "normalizers": [{"type": "NFC"}, {"type": "StripAccents"}]},
    "pre_tokenizer": {"type": "Whitespace"},
    "truncation_side": "left",
    "special_tokens": {"[MASK]": "<x>"},
    "pair_separators": 2,
    "trim_offsets": True,
}
LOGITS = {"pretraining": "mlm_logits", "next_sentence": "nsp_logits"}


@functools.cache
def preprocessor(vocabulary, lowercase, length):
    """Half of the folders have the same tokenizer, which takes long to trace."""
    options = {"padding": "longest", "keep_special_tokens": ["[MASK]", "[SEP]"]}
    return keras_bert.TextPreprocessor(vocabulary, length, lowercase=lowercase, **options)


def inputs_of(bert, texts):
    inputs = preprocessor(bert.vocabulary, bert.lowercase, bert.sequence_length or 160)(texts)
    inputs = {name: ids.numpy() for name, ids in inputs.items()}
    if bert.head == "pretraining":
        rows, width = inputs["token_ids"].shape
        inputs["mask_positions"] = np.tile(np.arange(width, dtype="int32"), (rows, 1))
    return inputs


@pytest.mark.tensorflow
@pytest.mark.parametrize("case", CASES)
def test_a_folder_of_transformers(eager, golden, loaded, loaded_model, tmp_path, case):
    """Ids and outputs equal those of transformers, and `save` keeps all settings."""
    tokenizers = pytest.importorskip("tokenizers", reason="tokenizers is not installed")
    folder = golden / "hf_edge" / case
    ours = tmp_path / "ours"
    content = json.loads((folder / "texts.json").read_text())
    expected = np.load(folder / "golden.npz")
    bert, model = loaded(f"hf_edge/{case}"), loaded_model(f"hf_edge/{case}")
    inputs = inputs_of(bert, content["texts"])
    for name, theirs in (("token_ids", "input_ids"), ("padding_mask", "attention_mask")):
        np.testing.assert_array_equal(inputs[name], expected[theirs])
    outputs = model(inputs)
    real = expected["attention_mask"].astype(bool)
    for name in filter(lambda name: name.startswith("out_"), expected):
        found = to_numpy(outputs[OUTPUTS.get(name, LOGITS.get(bert.head, "logits"))])
        wanted = expected[name]
        if wanted.ndim == 3:
            found, wanted = found[real], wanted[real]
        assert relative(found, wanted) < 2e-5
    facts = {"labels": bert.labels, "sequence_length": bert.sequence_length}
    keras_bert.save(model, ours, bert.vocabulary, lowercase=bert.lowercase, **facts)
    again = open_checkpoint(ours)
    assert (again.metadata, again.config) == (bert.metadata, bert.config)
    for slot in slots(keras_bert.describe(model)):
        np.testing.assert_array_equal(again.tensors.pop(slot.name).read(), slot.value())
    assert not again.tensors
    before = json.loads((folder / "config.json").read_text())
    after = json.loads((ours / "config.json").read_text())
    kept = {"architectures", "problem_type", "id2label", "pad_token_id", "tie_word_embeddings", "is_decoder"}
    assert {key: after[key] for key in kept & before.keys()} == {key: before[key] for key in kept & before.keys()}
    encodings = tokenizers.Tokenizer.from_file(str(ours / "tokenizer.json")).encode_batch(content["texts"])
    assert [encoding.ids for encoding in encodings] == content["ids"]


# Those of Unigram and byte-level BPE are tested with their own vocabularies.
@pytest.mark.parametrize("option", VOCABULARY_OPTIONS[:-2], ids=lambda option: option.name)
def test_no_option_is_lost(config, pieces, tmp_path, option):
    """A folder keeps each option with either kind of tokenizer class; Google's format refuses what it would lose."""
    needed = {"pair_separators": 2, "pair_segments": False} if option.name == "trim_offsets" else {}
    changed = {option.name: CHANGED[option.name], **needed}
    vocabulary = keras_bert.Vocabulary([*pieces, "new word", "<x>"], **changed)
    assert vocabulary != keras_bert.Vocabulary(vocabulary.pieces)
    tokenizer_files.write(vocabulary, lowercase=False, max_length=16, directory=tmp_path)
    for name in ("BertTokenizer", "PreTrainedTokenizerFast")[not vocabulary.is_berts :]:
        edit(tmp_path / "tokenizer_config.json", tokenizer_class=name)
        metadata = tokenizer_files.read(Folder(tmp_path), Metadata(), LONGEST_WORD)
        assert (metadata.vocabulary, metadata.lowercase) == (vocabulary, False)
    if option.google == "refused":
        model = keras_bert.build_encoder(dataclasses.replace(config, vocab_size=60))
        with pytest.raises(ValueError, match=f"Google's format cannot store the vocabulary's `{option.name}`"):
            keras_bert.save(model, tmp_path / "google", vocabulary, format="google")


def test_added_tokens_with_a_vocab_txt(golden, tmp_path):
    """The older files specify the same as `tokenizer.json`."""
    for path in (golden / "hf_edge" / "added_special_tokens_v4_layout").iterdir():
        shutil.copyfile(path, tmp_path / path.name)
    expected = tokenizer_files.read(Folder(tmp_path), Metadata())
    (tmp_path / "tokenizer.json").unlink()
    assert tokenizer_files.read(Folder(tmp_path), Metadata()) == expected


def test_special_tokens_in_other_files(config, pieces, tmp_path):
    """One that is in the vocabulary, and one that gets the next id, as in transformers."""
    keras_bert.save(keras_bert.build_encoder(dataclasses.replace(config, vocab_size=52)), tmp_path, [*pieces, "<a>"])
    settings, older = tmp_path / "tokenizer_config.json", tmp_path / "special_tokens_map.json"
    several = ["<a>", "<b>"]
    named = {"first": "<a>", "second": {"content": "<b>"}}
    first = keras_bert.AddedToken("<a>", normalized=False, special=True, wordpiece=True)
    expected = (first, keras_bert.AddedToken("<b>", normalized=False, special=True))

    def read(tokens, old):
        edit(settings, extra_special_tokens=tokens)
        older.write_text(json.dumps(old))
        return tokenizer_files.read(Folder(tmp_path), Metadata()).vocabulary

    for tokens, old in (
        (several, {"additional_special_tokens": ["e"]}),
        ({}, {"additional_special_tokens": several}),
        ({}, {"additional_special_tokens": named}),
        (["<a>"], {"eos_token": {"content": "<b>"}}),
        ({"first": "<a>"}, {"extra_special_tokens": ["<b>"]}),
        (named, {}),
    ):
        vocabulary = read(tokens, old)
        assert (vocabulary.added_tokens, vocabulary.ids(["<a>", "<b>"])) == (expected, [50, 51])
    (tmp_path / "tokenizer.json").unlink()  # The same from `vocab.txt`.
    assert keras_bert.load(tmp_path).vocabulary.added_tokens == expected
    edit(settings, additional_special_tokens=["<b>"])
    assert read({"first": "<a>"}, {}).added_tokens == expected
    # An empty list of the newer file counts; tokens keep their settings.
    edit(settings, eos_token={"content": "<a>", "normalized": True}, additional_special_tokens=None)
    assert read([], {"additional_special_tokens": ["<b>"]}).added_tokens == (first._replace(normalized=True),)


@pytest.fixture
def folder(copy):
    """The folder of a classifier, whose files can be changed."""
    return copy("classification")


JAPANESE = {"tokenizer_class": "BertJapaneseTokenizer", "word_tokenizer_type": "mecab", "do_lower_case": False}


def test_words_of_a_dictionary(eager, copy, tmp_path):
    """`BertJapaneseTokenizer`: words are composed and split into pieces, but not at ideographs or punctuation."""
    folder = copy("token_classification")
    (folder / "tokenizer.json").unlink()
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "東京", "##都", "に", "住", "##む", "AB", "##。", "ab"]
    (folder / "vocab.txt").write_text("\n".join(pieces))
    edit(folder / "tokenizer_config.json", **JAPANESE)
    refused = r"JapaneseTokenizer'; load\(..., tokenizer='words'\) .*`convert_.*; load\(..., tokenizer=None\) opens the"
    with pytest.raises(ValueError, match=refused):
        keras_bert.load(folder)
    assert keras_bert.load(folder, tokenizer=None).vocabulary is None
    words = [["東京都", "に", "住む", "ＡＢ。", "都"]]
    text = " ".join(words[0])
    bert = keras_bert.load(folder, tokenizer="words")
    bert.save(tmp_path / "saved")
    for loaded in (bert, keras_bert.load(tmp_path / "saved")):
        preprocessor = loaded.preprocessor(16)
        inputs, first = preprocessor.from_words(words)
        assert to_numpy(inputs["token_ids"])[0, :11].tolist() == [2, 5, 6, 7, 8, 9, 10, 11, 1, 3, 0]
        assert first.to_list() == [[1, 3, 4, 6, 8]]
        np.testing.assert_array_equal(preprocessor([text])["token_ids"], inputs["token_ids"])
    assert loaded.predict(words) == loaded.predict([text])
    edit(folder / "tokenizer_config.json", do_lower_case=True, mecab_kwargs={"normalize_text": False})
    ids = keras_bert.load(folder, tokenizer="words").preprocessor(8)([" ".join(["ab", "AB", "ＡＢ"])])["token_ids"]
    assert to_numpy(ids)[0, :5].tolist() == [2, 12, 12, 1, 3]
    for name, value in (("subword_tokenizer_type", "character"), ("word_tokenizer_type", "basic")):
        edit(folder / "tokenizer_config.json", **{**JAPANESE, name: value})
        with pytest.raises(ValueError, match=r"'BertJapaneseTokenizer'; load\(..., tokenizer=None\)"):
            keras_bert.load(folder, tokenizer="words")


def test_a_tokenizer_of_choice(golden, folder):
    with pytest.raises(ValueError, match="must be 'auto' for a tokenizer that splits texts on its own"):
        keras_bert.load(folder, tokenizer="words")
    with pytest.raises(ValueError, match="must be 'auto', 'words', None, or a folder .* Received: tokenizer='word'"):
        keras_bert.load(folder, tokenizer="word")
    with pytest.raises(FileNotFoundError, match="no tokenizer. Expected vocab.txt, tokenizer.json or"):
        keras_bert.load(folder, tokenizer=golden / "hf_small" / "bare")
    other = golden / "hf_edge" / "no_chinese_split"
    with pytest.raises(ValueError, match="the vocabulary has 78 pieces, more than the token table's vocab_size=50"):
        keras_bert.load(folder, tokenizer=other)


WORDS = {"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "a"}
THRESHOLDS = {"problem_type": "multi_label_classification", "keras_bert": {"thresholds": [0.5, 2, 0.5]}}


@pytest.mark.parametrize(
    ("file", "values", "message"),
    [
        ("tokenizer_config.json", {"tokenizer_class": "BertJapaneseTokenizer"}, "tokenizer_class='BertJapaneseTokeni"),
        ("tokenizer_config.json", {"do_basic_tokenize": False}, "`do_basic_tokenize` must be True"),
        ("tokenizer_config.json", {"cls_token": {"content": "<s>"}}, r"`cls_token` must be '\[CLS\]'"),
        ("tokenizer.json", {"normalizer": {"type": "NFKC"}}, "='NFKC'; transformers 5 ignores it with BertTok"),
        ("tokenizer.json", {"pre_tokenizer": {"type": "Whitespace"}}, "expected pre_tokenizer.type='BertPreTokenizer'"),
        ("tokenizer.json", {"post_processor": {"type": "RobertaProcessing"}}, r"expected the sequences \[CLS\] A"),
        ("special_tokens_map.json", {"sep_token": "</s>"}, r"`sep_token` must be '\[SEP\]'.*: sep_token='</s>'"),
        ("tokenizer_config.json", {"split_special_tokens": True}, "`split_special_tokens` must be False"),
        ("added_tokens.json", {"<x>": 10**9}, "with few gaps. Received: '<x>' with the id 1000000000 among 51 pieces"),
        ("added_tokens.json", {"<x>": 9}, "added_tokens.json: .*added token '<x>' with the id 9, beside 'e' with the"),
        ("tokenizer_config.json", {"added_tokens_decoder": {"50": {"content": "e"}}}, "'e' with the id 50, beside 'e'"),
        ("tokenizer.json", {"added_tokens": [{"id": 9, "content": "<x>"}]}, "tokenizer.json: .*'<x>' with the id 9, b"),
        ("tokenizer.json", {"model": WORDS}, r"model.type='WordLevel'; load\(..., tokenizer=None\) opens the weights"),
        ("tokenizer.json", {"truncation": {"direction": "Up"}}, "`truncation_side` must be .*: truncation_side='up'"),
        *(
            ("tokenizer.json", {"post_processor": {"type": "BertProcessing", "cls": ["[CLS]", 2], "sep": sep}}, message)
            for sep, message in ((["[SEP]", 4], "with the ids of the vocabulary"), (["</s>", 3], r"\[CLS\] A \[SEP\]"))
        ),
        (
            "tokenizer.json",
            {"added_tokens": [{"content": "<x>"}]},
            r"tokenizer.json: .* than expected: KeyError\('id'\)",
        ),
        ("tokenizer_config.json", {"added_tokens_decoder": [1]}, "bert: .*AttributeError.*; load.*, tokenizer=None"),
        ("config.json", {"model_type": ["bert"]}, r"`model_type` must be one of bert, .*: model_type=\['bert'\]"),
        ("config.json", {"problem_type": "regression"}, "`problem_type` must match the number of labels"),
        ("config.json", {"problem_type": "ranking"}, "`problem_type` must be one of regression"),
        ("config.json", THRESHOLDS, r"config.json: `thresholds` must be a number .* list of 3, .*\[0.5, 2, 0.5\]"),
        ("config.json", {"quantization_config": {"bits": 4}}, "`quantization_config` is not supported"),
        ("config.json", {"architectures": ["MyBert"], "keras_bert": {}}, r"does not identify the head .*=\['MyBert'\]"),
    ],
)
def test_unsupported_settings_raise(folder, file, values, message):
    edit(folder / file, **values)
    with pytest.raises(ValueError, match=message):
        keras_bert.load(folder)


def test_sides_and_words_that_are_never_split(folder, caplog):
    """As in transformers 5: the settings decide about the side, else `tokenizer.json`; `never_split` does nothing."""
    edit(folder / "tokenizer.json", truncation={"direction": "Left", "max_length": 8})
    assert keras_bert.load(folder).vocabulary.truncation_side == "left"
    edit(folder / "tokenizer_config.json", truncation_side="right", never_split=["[SEP]", "e!"])
    assert keras_bert.load(folder).vocabulary.truncation_side == "right"
    assert [record.getMessage().partition("`never_split` of ")[2] for record in caplog.records] == [
        "tokenizer_config.json is ignored, as in transformers 5: e!. Tokens of added_tokens.json are never split"
    ]


@pytest.mark.parametrize("part", ["normalizer", "pre_tokenizer", "post_processor"])
def test_parts_of_tokenizer_json_that_are_null(folder, part):
    """BertTokenizer of transformers has its own; other programs do not normalize or split texts, nor add [CLS]."""
    content = json.loads((folder / "tokenizer.json").read_text())
    (folder / "tokenizer.json").write_text(json.dumps(content | {part: None}))
    assert keras_bert.load(folder).lowercase
    edit(folder / "tokenizer_config.json", tokenizer_class="PreTrainedTokenizerFast")
    for read in (keras_bert.load, lambda folder: keras_bert.Vocabulary(folder / "tokenizer.json")):
        if part == "post_processor":
            with pytest.raises(ValueError, match=f"tokenizer.json: .*Received: {part}=null"):
                read(folder)
        else:
            vocabulary = read(folder)
            steps = {"normalizer": "normalizers", "pre_tokenizer": "pretokenizers"}[part]
            vocabulary = getattr(vocabulary, "vocabulary", vocabulary)
            assert getattr(vocabulary, part) == {"type": "Sequence", steps: []}


def test_normalizers_of_tokenizer_json(folder):
    plain = {"type": "BertNormalizer", "lowercase": False, "strip_accents": True}
    # Lower case before a cased normalizer, as sentence-transformers writes it.
    sequence = {"type": "Sequence", "normalizers": [{"type": "Lowercase"}, plain | {"strip_accents": None}]}
    post_processor = {"type": "BertProcessing", "cls": ["[CLS]", 2], "sep": ["[SEP]", 3]}
    (folder / "tokenizer_config.json").write_text('{"tokenizer_class": "PreTrainedTokenizerFast"}')
    for normalizer, expected in ((plain, (False, True)), (sequence, (True, False))):
        edit(folder / "tokenizer.json", normalizer=normalizer, post_processor=post_processor)
        found = tokenizer_files.read(Folder(folder), Metadata())
        assert (found.lowercase, found.strip_accents) == expected


def test_a_vocabulary_with_capitals_is_cased(pieces, tmp_path):
    for piece, lowercase in (("xY", False), ("xy", True), ("[NEW]", True)):
        keras_bert.Vocabulary([*pieces[:-1], piece]).save(tmp_path / "vocab.txt")
        assert tokenizer_files.read(Folder(tmp_path), Metadata()).lowercase == lowercase


@pytest.mark.parametrize("name", ["BertTokenizer", "DistilBertTokenizerFast", "PreTrainedTokenizerFast", None])
def test_the_class_decides_between_two_files(folder, caplog, name):
    """As in transformers: BertTokenizer applies its defaults, PreTrainedTokenizerFast what tokenizer.json says."""
    old, settings = folder / "tokenizer.json", folder / "tokenizer_config.json"
    normalizer = {"type": "BertNormalizer", "lowercase": False, "strip_accents": False, "handle_chinese_chars": False}
    model = {**json.loads(old.read_text())["model"], "max_input_chars_per_word": 7}
    edit(old, normalizer=normalizer, model=model)
    stale = {"do_lower_case": True} if name == "PreTrainedTokenizerFast" else {}
    settings.write_text(json.dumps({"tokenizer_class": name, **stale}))
    metadata = tokenizer_files.read(Folder(folder), Metadata())
    vocabulary = metadata.vocabulary
    found = metadata.lowercase, vocabulary.strip_accents, vocabulary.tokenize_chinese_chars, vocabulary.max_word_length
    if stale:
        assert found == (False, False, False, 7)
        assert not caplog.messages
        return
    assert found == (True, None, True, 100)
    listed = "lowercase (False, True), strip_accents (False, None), tokenize_chinese_chars (False, True), "
    assert f"disagree on {listed}max_word_length (7, 100). The class decides" in caplog.text
    settings.write_text(json.dumps({"do_lower_case": False, "strip_accents": False, "tokenize_chinese_chars": False}))
    metadata = tokenizer_files.read(
        Folder(folder), Metadata(), longest_word=200
    )  # A folder of `save`, whose file is right.
    assert (metadata.lowercase, metadata.vocabulary.max_word_length, len(caplog.messages)) == (False, 7, 1)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, True),
        ({"tokenizer_class": "ElectraTokenizerFast"}, True),
        ({"tokenizer_class": "DistilBertTokenizer"}, False),
        ({"tokenizer_class": "PreTrainedTokenizerFast"}, False),
        ({"tokenizer_class": "TokenizersBackend", "model_input_names": ["input_ids", "token_type_ids"]}, True),
        ({"model_input_names": ["input_ids", "attention_mask"]}, False),
    ],
)
def test_segments_of_pairs(models, folder, settings, expected):
    """Whether transformers gives the model segment ids: `model_input_names`, or else the class, decides."""
    (folder / "tokenizer_config.json").write_text(json.dumps({"do_lower_case": True, **settings}))
    vocabulary = tokenizer_files.read(Folder(folder), Metadata()).vocabulary
    assert vocabulary.pair_segments is expected
    keras_bert.save(models("classification"), folder, vocabulary)
    assert tokenizer_files.read(Folder(folder), Metadata()).vocabulary.pair_segments is expected


def test_added_tokens_in_two_files(folder):
    """`added_tokens_decoder` replaces those of tokenizer.json and of older files, as in transformers."""
    added = {"id": 50, "content": "new", "normalized": False, "special": False}
    edit(folder / "tokenizer.json", added_tokens=[added, added | {"id": 51, "content": "old"}])
    (folder / "added_tokens.json").write_text('{"older": 52}')
    settings = folder / "tokenizer_config.json"
    token = {"content": "new", "normalized": True, "special": True}
    for name, expected in (("BertTokenizer", ["new"]), ("PreTrainedTokenizerFast", ["new", "old"])):
        edit(settings, tokenizer_class=name, added_tokens_decoder={"50": token})
        tokens = tokenizer_files.read(Folder(folder), Metadata()).vocabulary.added_tokens
        assert [token.content for token in tokens] == expected
        assert tokens[0][1:3] == (True, True)


def test_the_head_argument(folder):
    edit(folder / "config.json", architectures=["MyBert", "BertForSequenceClassification"], keras_bert={})
    assert keras_bert.load(folder).head == "classification"
    edit(folder / "config.json", architectures=["MyBert"], keras_bert={})
    assert keras_bert.load(folder, head="encoder").model().name == "bert_encoder"
    assert keras_bert.load(folder, head="classification").model().output["logits"].shape == (None, 3)
    with pytest.raises(ValueError, match="`head` must be one of encoder, embedding"):
        keras_bert.load(folder, head="classifier")


def test_saving_over_an_older_model_replaces_its_files_and_keeps_others(models, pieces, folder):
    old = json.loads((folder / "tokenizer.json").read_text())
    (folder / "added_tokens.json").write_text('{"old": 50}')
    (folder / "notes.txt").write_text("mine")
    (folder / "modules.json").write_text("[]")
    vocabulary = keras_bert.Vocabulary([*pieces[:-1], "new"], max_word_length=7)
    keras_bert.save(models("encoder"), folder, vocabulary, lowercase=False, overwrite=True)
    new = json.loads((folder / "tokenizer.json").read_text())
    assert (old["model"]["vocab"].get("new"), new["model"]["vocab"]["new"]) == (None, 49)
    assert (new["normalizer"]["lowercase"], new["model"]["max_input_chars_per_word"]) == (False, 7)
    assert keras_bert.load(folder).vocabulary == vocabulary
    assert not (folder / "added_tokens.json").exists()
    assert not (folder / "modules.json").exists()
    assert (folder / "notes.txt").read_text() == "mine"
    assert [path.name for path in folder.parent.iterdir()] == ["bert"]


def test_labels_of_other_types_and_a_path_in_the_home_directory(models, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    for labels in (np.array(["a", "b", "c"]), [0, 1, 2]):
        keras_bert.save(models("classification"), "~/bert", None, labels=labels, overwrite=True)
        assert huggingface.read_model(Folder(tmp_path / "bert")).metadata.labels == [str(label) for label in labels]
