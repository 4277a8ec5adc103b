"""CoNLL files: layouts of columns, comments, files without tags, files with predictions, and mistakes."""

import pytest

from keras_bert.tasks.tagging import data
from keras_bert.tasks.tagging.schemes import EntitySpan
from tests.tasks.files import write

CONLL = "-DOCSTART- -X- O\n\nAda N B-PER\nLove N I-PER\n# N O\n\n-DOCSTART- -X- O\n\nParis N B-LOC\n"
# Blank lines end a sentence.
BLANK = "\ufeff\n \n" + CONLL.replace("\n\n", "\n\t\n \n\n").replace("\n", "\r\n")
GLOBAL_COLUMNS = """# global.columns = ID FORM NER MISC
# text = Ada
1\tAda\tB-PER\t_
2\tLove\tL-PER\t_
3\t#\tO\t_

# id x domain=y
1\tParis\tU-LOC\t_
"""
CONLL_U = """# text_en = Hi you
1-2\tx\t_
1\tAda\tPER
2\tLove\tPER
3\t#\tO

1\tParis\tLOC
"""
COMMENTS = "Ada\tB-PER\nLove\tI-PER\n#\tO\n\n# a comment\n\n# Paris\tx\nParis\tB-LOC\n"
QUOTED = '"-DOCSTART-","O"\n\nAda,B-PER\nLove,I-PER\n#,O\n\n\ufeff-DOCSTART-,O\n\nParis,B-LOC\n'
# Name, content and options of files with the same words and entities.
LAYOUTS = [
    ("plain.txt", CONLL, {}),
    ("blank.conll", BLANK, {}),
    ("tabs.tsv", "Ada\tN\tB-PER\nLove\tN\tI-PER\n#\tN\tO\n \t \nParis\tN\tB-LOC", {}),
    ("first.txt", "I-PER Ada\nI-PER Love\nO #\n\nI-LOC Paris\n", {"word_column": "2", "tag_column": "1"}),
    ("global.conll", GLOBAL_COLUMNS, {"word_column": "FORM", "tag_column": "NER"}),
    ("bars.txt", "Ada|B-PER\nLove|E-PER\n#|O\n\nParis|S-LOC\n", {"separator": "bar"}),
    ("comments.tsv", COMMENTS, {}),
    ("names.csv", "token,ner\nAda,PER\nLove,PER\n#,O\n\nParis,LOC\n", {}),
    ("ud.conllu", CONLL_U, {"word_column": "2"}),
    ("quoted.csv", QUOTED, {}),
]


@pytest.mark.parametrize(("name", "content", "options"), LAYOUTS, ids=[row[0] for row in LAYOUTS])
def test_layouts(tmp_path, name, content, options):
    found = data.read(write(tmp_path / name, content), **options)
    assert found.words == [["Ada", "Love", "#"], ["Paris"]]
    assert found.entities == [[EntitySpan("PER", 0, 2)], [EntitySpan("LOC", 0, 1)]]
    documents = 2 if "DOCSTART" in content else 1
    assert len(set(found.documents)) == documents


def test_columns_by_name(tmp_path):
    path = write(tmp_path / "named.csv", 'tag,word\nS-LOC,"x"\n')
    found = data.read(path, word_column="word", tag_column="tag")
    assert found.words == [["x"]]
    assert found.entities == [[EntitySpan("LOC", 0, 1)]]


def test_lemmas_are_no_numbers_of_words(tmp_path):
    """The first cells look like those of CoNLL-U, and the tag of "#" occurs only after a word."""
    content = "3.5 Ada PER\na-b Love PER\n# # HT\n\n# x y\n-1 Paris LOC\n"
    found = data.read(write(tmp_path / "lemmas.txt", content), word_column="2")
    assert found.words == [["Ada", "Love", "#"], ["Paris"]]
    assert found.tags == [["PER", "PER", "HT"], ["LOC"]]


def test_predictions_are_one_more_column(tmp_path):
    found = data.read(write(tmp_path / "iob1.txt", CONLL.replace("B-", "I-")))
    assert found.scheme == "iob1"
    assert found.lines == [3, 9]
    found.write(tmp_path / "out.txt", [[EntitySpan("LOC", 0, 1), EntitySpan("LOC", 1, 3)], []])
    assert (tmp_path / "out.txt").read_text() == (
        "-DOCSTART- -X- O O\n\nAda N I-PER I-LOC\nLove N I-PER B-LOC\n# N O I-LOC\n\n"
        "-DOCSTART- -X- O O\n\nParis N I-LOC O\n"
    )


def test_predictions_of_csv_are_quoted_where_needed(tmp_path):
    found = data.read(write(tmp_path / "x.csv", 'word,tag\n"New York",B-a\n#x,"B-b,c"\n'))
    assert found.words == [["New York", "#x"]]
    found.write(tmp_path / "out.csv", found.entities)
    written = (tmp_path / "out.csv").read_text()
    assert written == 'word,tag,predicted\n"New York",B-a,B-a\n#x,"B-b,c","B-b,c"\n'


def test_comments_are_written_before_their_sentences(tmp_path):
    found = data.read(write(tmp_path / "x.txt", "Ada B-PER\n\nParis B-LOC\nx O\n"))
    found.write_comments(tmp_path / "out.txt", {1: ["# first", "# second"]})
    assert (tmp_path / "out.txt").read_text() == "Ada B-PER\n\n# first\n# second\nParis B-LOC\nx O\n"


@pytest.fixture
def tagged(tmp_path):
    """A file of words with plain tags, which others are like."""
    return data.read(write(tmp_path / "pos.txt", "Ada NN\nis VB\n"))


def test_plain_tags(tagged, tmp_path):
    assert tagged.scheme == "words"
    assert tagged.tags == [["NN", "VB"]]
    assert tagged.entities is None
    dev = data.read(write(tmp_path / "dev.txt", "oh O\n"), like=tagged)
    assert dev.tags == [["O"]]


def test_a_file_without_tags(tagged, tmp_path):
    found = data.read(write(tmp_path / "test.txt", "Ada\nx\n\ny\n"), like=tagged, labeled=False)
    assert found.words == [["Ada", "x"], ["y"]]
    assert not found.is_labeled
    found.write(tmp_path / "out.txt", [["NN", "VB"], ["O"]])
    assert (tmp_path / "out.txt").read_text() == "Ada NN\nx VB\n\ny O\n"


@pytest.mark.parametrize("word", [",", "1,000", "a;b", "|"])
def test_words_that_contain_separators(tagged, tmp_path, word):
    found = data.read(write(tmp_path / "x.txt", f"{word}\nb\n"), like=tagged, labeled=False)
    assert found.words == [[word, "b"]]


@pytest.mark.parametrize("comments", [("# id 1\n", "# id 2\n"), ("", "# id 2\n")])
def test_words_with_spaces_like_those_of_a_file_with_tabs(tmp_path, comments):
    like = data.read(write(tmp_path / "tabs.tsv", "a b\tX\nc\tX\n"))
    first, second = comments
    path = write(tmp_path / "x.txt", f"{first}Ada\n\n{second}x y\n")
    found = data.read(path, like=like, labeled=False)
    assert found.words == [["Ada"], ["x y"]]


@pytest.mark.parametrize("header", ["word\n", ""])
def test_a_name_above_the_only_column(tmp_path, header):
    like = data.read(write(tmp_path / "named.tsv", "word\ttag\na b\tX\n"))
    path = write(tmp_path / "x.txt", f"{header}Ada\n\n# id 2\nx y\n")
    found = data.read(path, like=like, labeled=False, word_column="word", tag_column="tag")
    assert found.words == [["Ada"], ["x y"]]


def test_a_file_like_another_one_has_its_separator(tmp_path):
    """As a whole: a word may contain a part of it."""
    train = data.read(write(tmp_path / "train.txt", "Ada::B-PER\nis::O\n"), separator="::")
    found = data.read(write(tmp_path / "dev.txt", "a:b::O\nc::B-PER\n"), like=train)
    assert found.words == [["a:b", "c"]]
    assert found.entities == [[EntitySpan("PER", 1, 2)]]


def test_hashtags_are_words_and_doubtful_lines_are_reported(tmp_path, caplog):
    content = "#win HT\n#now HT\nyes UH\n\n# a b\nsee V\n#win HT\n\n#z rare\n#now V\n"
    found = data.read(write(tmp_path / "x.txt", content))
    assert found.words == [["#win", "#now", "yes"], ["see", "#win"], ["#now"]]
    assert "x.txt: 1 line(s) that start with # have all columns" in caplog.text
    assert "the first is line 9" in caplog.text


def test_hashtags_with_a_prefix_of_entities_are_words(tmp_path):
    found = data.read(write(tmp_path / "x.txt", "#x B-E\ny I-E\n\n#z I-F\n"))
    assert found.words == [["#x", "y"], ["#z"]]


def test_sentences_by_number_keep_the_lines_of_their_file(tmp_path):
    found = data.read(write(tmp_path / "x.txt", "Ada B-PER\n\nParis B-LOC\nx O\n\ny O\n"))
    kept = found.at([0, 2])
    assert kept.words == [["Ada"], ["y"]]
    kept.write(tmp_path / "out.txt", [[], [EntitySpan("X", 0, 1)]])
    assert (tmp_path / "out.txt").read_text() == "Ada B-PER O\n\ny O B-X\n"


# Content, options, and what tells the mistake.
MISTAKES = [
    ("a B-X\nb I-X O\nc O\n", {}, r"x.txt:2: expected 2 columns.* Received: 3"),
    ("a\tB-X\n\tO\n", {}, r"x.txt:2: the word is empty"),
    ("a\tB-X\nb\t\n", {}, r"x.txt:2: the tag is empty"),
    ("a O\n", {"tag_column": "3"}, r"x.txt: `tag_column` must be from 1 to 2"),
    ("w t\na O\n", {"tag_column": "ner"}, r"x.txt: no column `ner`. It has: w, t"),
    ("a b t t\na b O O\n", {"tag_column": "t"}, r"x.txt: 2 columns are named `t`"),
    ("w a b t\na b O\nb c O\n", {"tag_column": "t"}, r"x.txt: `t` is column 4"),
    ("a O\n", {"tag_column": "1"}, r"x.txt: words and tags are in the same column"),
    ("\n \n", {}, r"x.txt: no words"),
]


@pytest.mark.parametrize(("content", "options", "message"), MISTAKES)
def test_mistakes(tmp_path, content, options, message):
    with pytest.raises(ValueError, match=message):
        data.read(write(tmp_path / "x.txt", content), **options)
