"""Small rows of every task, and settings, for tests of `fit`."""

TEXTS = ["a b c", "d e", "f g h i", "j a", "b b", "c d e f", "g", "h i j"]


PAIRS = list(zip(TEXTS, TEXTS[::-1], strict=True))


CLASSES = ["x", "y"] * 4


WORDS = [text.split() for text in TEXTS]


def tags_of(words):
    """Returns a tag of each word: the words a, e and g are of kind K."""
    return ["B-K" if word in "aeg" else "O" for word in words]


TAGS = [tags_of(words) for words in WORDS]


CONTEXT = "c d e f g h i j k l m"


QUESTIONS = [{"question": "a b", "context": CONTEXT}, {"question": "b", "context": CONTEXT}]


CHOICES = [{"text": text, "choices": ["k", "l m", "n"]} for text in TEXTS[:4]]


SQUAD = [("e", 4), ("k", 16)]


def squad(answers):
    asked = [
        {"id": str(n), "question": row["question"], "answers": [{"text": a[0], "answer_start": a[1]}] if a else []}
        for n, (row, a) in enumerate(zip(QUESTIONS, answers, strict=True))
    ]
    return {
        "version": "v2.0" if None in answers else "1.1",
        "data": [{"paragraphs": [{"context": CONTEXT, "qas": asked}]}],
    }


def rows(**named):
    return [dict(zip(named, values, strict=True)) for values in zip(*named.values(), strict=True)]


SETTINGS = {"epochs": 2, "batch_size": 4, "learning_rate": 1e-2, "seed": 3, "sequence_length": 14}
