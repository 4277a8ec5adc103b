"""Converts TriviaQA to the format of SQuAD 1.1, to train on before SQuAD.

    python -m pipelines.convert_triviaqa --qa=triviaqa-rc/qa/wikipedia-train.json --evidence=triviaqa-rc/evidence \\
        --output=triviaqa.json
    python -m pipelines.run_squad --train_file=triviaqa.json,train-v1.1.json --dev_file=dev-v1.1.json \\
        --model=google-bert/bert-large-uncased --output_dir=runs/squad

A context is the first 400 words of a document, with the questions that it answers; the answer is the first occurrence
of any accepted answer. Prints how many question-document pairs were kept, and why the others were dropped. 2,000 pairs
take about a second.
"""

from absl import flags

from keras_bert.tasks.questions import triviaqa

from . import command

command.section("data")
_QA = flags.DEFINE_list("qa", None, "TriviaQA's question file(s), of train or dev.", required=True)
_EVIDENCE = flags.DEFINE_string("evidence", None, "TriviaQA's directory with wikipedia/ and web/.", required=True)
_MAX_WORDS = flags.DEFINE_integer("max_words", 400, "Number of words of a document to use as context.", 1)
_SOURCES = flags.DEFINE_list("sources", None, "Source(s): wikipedia, web; default: as given in each question file.")
command.section("output")
_OUTPUT = flags.DEFINE_string("output", None, "Output file.", required=True)

_REASONS = {
    "no_answer": "without an answer in the first {} words",
    "missing": "with a missing document, the first is {}",
    "empty": "with an empty document",
    "repeated": "duplicates",
    "unnamed": "with a document without a file name",
    "unverified": "with an unverified question or document",
}


def main():
    counts = triviaqa.convert(_QA.value, _EVIDENCE.value, _OUTPUT.value, _MAX_WORDS.value, _SOURCES.value)
    print(f"{counts.questions:,} questions, {counts.pairs:,} question-document pairs:")
    for reason, text in _REASONS.items():
        if counts.dropped[reason]:
            known = counts.first_missing if reason == "missing" else _MAX_WORDS.value
            print(f"{counts.dropped[reason]:,} {text.format(known)}")
    print(f"{counts.kept:,} kept, of {counts.answered:,} questions, in {counts.paragraphs:,} contexts: {_OUTPUT.value}")


if __name__ == "__main__":
    command.run(main, tensorflow=False)
