"""Questions about letters whose answer is always the word "z"."""

import json

import numpy as np

CONTEXT_LENGTH = 16


def question(name, rng, answerable):
    """Returns a context of letters, and the entry of a question about it."""
    letters = rng.choice(list("abcdefgh"), CONTEXT_LENGTH)
    answers = []
    if rng.random() < answerable:
        place = int(rng.integers(CONTEXT_LENGTH))
        letters[place] = "z"
        answers.append({"text": "z", "answer_start": 2 * place})
    entry = {"id": name, "question": "y x", "answers": answers}
    return " ".join(letters), entry


def write_file(path, count, seed, answerable=1.0):
    """Writes a file of SQuAD 1.1, or of 2.0 if only a share of the questions is answerable."""
    rng = np.random.default_rng(seed)
    is_version_2 = answerable < 1
    paragraphs = []
    for number in range(count):
        context, entry = question(f"{path.stem}-{number}", rng, answerable)
        if is_version_2:
            entry["is_impossible"] = not entry["answers"]
        paragraphs.append({"context": context, "qas": [entry]})
    version = "v2.0" if is_version_2 else "1.1"
    content = {"version": version, "data": [{"title": "letters", "paragraphs": paragraphs}]}
    path.write_text(json.dumps(content))


def answers_of(signature, questions):
    """Returns the answers of a signature."""
    import tensorflow as tf

    contexts = [questions.contexts[number] for number in questions.context]
    outputs = signature(tf.constant(questions.questions), tf.constant(contexts))
    return [text.decode() for text in outputs["answer"].numpy()]
