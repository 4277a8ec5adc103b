"""Questions about contexts to train and evaluate on, as rows or in the layouts of `data.squad`; their settings."""

import dataclasses

from keras_bert.data.sources import Source
from keras_bert.data.splits import split_numbers
from keras_bert.data.squad import ANSWERS, START, Questions, read
from keras_bert.settings import setting
from keras_bert.tasks.question_answering import metrics
from keras_bert.tasks.rows import Labeled, RowFormat


@dataclasses.dataclass(frozen=True)
class QuestionSettings:
    """Settings for splitting contexts into windows and for decoding answers.

    `null_threshold` is the one for no answer; by default the best on dev.
    """

    version_2: bool = setting(False, "Whether questions may have no answer.", section="data")
    sequence_length: int = setting(384, "Maximum number of tokens of question and context.", least=8)
    doc_stride: int = setting(128, "Distance in tokens between the windows of a long context.", least=1, stored=True)
    max_question_length: int = setting(64, "Maximum number of tokens of a question.", least=1, stored=True)
    max_answer_length: int = setting(30, "Maximum number of tokens of an answer.", least=1, stored=True)
    n_best: int = setting(20, "Number of answers to write for each question.", least=1)
    null_threshold: float | None = None

    def read(self, train, dev, test=None):
        """Returns the `QuestionData` of files or sources; `train` may be a list of several."""
        train_files = train if isinstance(train, list) else [train]
        return read_all(train_files, dev, test, self.version_2)


@dataclasses.dataclass(frozen=True)
class QuestionData:
    """The `Questions` of a task."""

    train: list  # One of each file.
    dev: Questions  # Selects the best run.
    test: Questions | None  # To predict.
    files: dict  # Paths: "train", a list, "dev" and "test".

    def first(self, count):
        """Returns the same data with the first `count` questions of each training file, or all for `None`."""
        return dataclasses.replace(self, train=[part.first(count) for part in self.train])

    def split(self, share, seed):
        """Returns the same data with a share of the questions to train on, drawn at random, as dev."""
        (questions,) = self.train  # Of one file.
        train, held_out = split_numbers(len(questions), share, seed)
        return self.parted(train, held_out)

    def parted(self, train, held_out):
        """Returns the same data with some of the questions to train on, by their numbers, as dev."""
        *earlier, questions = self.train
        kept = [*earlier, questions.at(train)]
        return dataclasses.replace(self, train=kept, dev=questions.at(held_out))

    @property
    def divided(self):
        """The questions that folds divide: those of the last file."""
        return self.train[-1]

    def on_train(self):
        """Returns the same data whose dev is what is trained on."""
        files = self.files | {"dev": self.files["train"][-1]}
        return dataclasses.replace(self, dev=self.train[-1], files=files)


class QuestionRows(RowFormat):
    """Rows with `question`, `context` and `answers`."""

    expects = "dicts with question and context, with answers"
    columns = ({"question", "context"},)
    target_columns = ANSWERS

    def row(self, place, text, target):
        if not self.recognizes(text, None):
            raise ValueError(f"{place} must be a dict with `question` and `context`. Received: {text!r:.100}")
        return self.with_target(text, target)

    def with_named_target(self, row, column):
        named = dict(row)
        if column not in self.target_columns and any(name in row for name in self.target_columns):
            named.pop(START, None)  # Where the other answer is.
        return super().with_named_target(named, column)

    def read(self, train, dev, settings, labels=None, name=None):
        return read_all([train], dev)

    def labeled(self, name, directory, facts, path, *, settings=None, **options):
        questions = read(path)
        exact = "exact" if questions.version_2 else "exact_match"

        def score(texts):
            answers = dict(zip(questions.ids, texts, strict=True))
            scores = metrics.score(questions, answers)
            return {"f1": scores["f1"], exact: scores[exact]}

        def predictions(outputs):
            return [text.decode() for text in outputs["answer"]]

        contexts = [questions.contexts[index] for index in questions.context]
        inputs = {"question": questions.questions, "context": contexts}
        return Labeled(inputs, predictions, score)


def read_all(train_files, dev_file, predict_file=None, version_2=None, max_train_examples=None, max_dev_examples=None):
    """Reads `QuestionData`, of training files and of the dev file the first examples, by default all; see `read`."""
    train = [read(path, version_2).first(max_train_examples) for path in train_files]
    if isinstance(dev_file, Source) and dev_file is train_files[0]:
        dev = train[0]  # Data in Python without validation.
    else:
        dev = read(dev_file, version_2)
    files = {"train": list(map(str, train_files)), "dev": str(dev_file), "test": predict_file}
    test = None
    if predict_file:
        test = read(predict_file, version_2)
        files["test"] = str(predict_file)
    return QuestionData(train, dev.first(max_dev_examples), test, files)
