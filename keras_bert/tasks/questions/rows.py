"""Questions, contexts and answers as rows."""

from keras_bert.data.squad import ANSWERS, START
from keras_bert.tasks.questions import metrics
from keras_bert.tasks.questions.data import read, read_all
from keras_bert.tasks.rows import Labelled, RowFormat


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
        if column not in self.target_columns and any(name in row for name in self.target_columns):
            row = {name: value for name, value in row.items() if name != START}  # Where the other answer is.
        return super().with_named_target(row, column)

    def read(self, train, dev, settings, labels=None, name=None):
        return read_all([train], dev)

    def labelled(self, name, directory, facts, path, *, settings=None, **options):
        questions = read(path)
        contexts = [questions.contexts[index] for index in questions.context]

        def score(texts):
            answers = dict(zip(questions.ids, texts, strict=True))
            scores = metrics.score(questions, answers)
            return {metric: scores[metric] for metric in ("f1", "exact" if questions.version_2 else "exact_match")}

        def predictions(outputs):
            return [text.decode() for text in outputs["answer"]]

        inputs = {"question": questions.questions, "context": contexts}
        return Labelled(inputs, predictions, score)
