"""Converts TriviaQA to the format of SQuAD 1.1, to train on before SQuAD.

    python -m research.convert_triviaqa --qa=triviaqa-rc/qa/wikipedia-train.json --evidence=triviaqa-rc/evidence \\
        --output=triviaqa.json
    python -m pipelines.run_squad --train_file=triviaqa.json,train-v1.1.json --dev_file=dev-v1.1.json \\
        --model=google-bert/bert-large-uncased --output_dir=runs/squad

A context is the first 400 words of a document, with the questions that it answers; the answer is the first occurrence
of any accepted answer. Prints how many question-document pairs were kept, and why the others were dropped. 2,000 pairs
take about a second.
"""

import dataclasses

from pipelines import command
from pipelines.arguments import CommandArguments, flag
from research import triviaqa

_REASONS = {
    "no_answer": "without an answer in the first {} words",
    "missing": "with a missing document, the first is {}",
    "empty": "with an empty document",
    "repeated": "duplicates",
    "unnamed": "with a document without a file name",
    "unverified": "with an unverified question or document",
}


@dataclasses.dataclass(frozen=True)
class Arguments(CommandArguments):
    qa: list[str] = flag(None, "TriviaQA's question file(s), of train or dev.", required=True, section="data")
    evidence: str = flag(None, "TriviaQA's directory with wikipedia/ and web/.", required=True)
    max_words: int = flag(400, "Number of words of a document to use as context.", least=1)
    sources: list[str] = flag(None, "Source(s): wikipedia, web; default: as given in each question file.")
    output: str = flag(None, "Output file.", required=True, section="output")


def main(arguments):
    files, limits = (arguments.qa, arguments.evidence, arguments.output), (arguments.max_words, arguments.sources)
    counts = triviaqa.convert(*files, *limits)
    print(f"{counts.questions:,} questions, {counts.pairs:,} question-document pairs:")
    for reason, text in _REASONS.items():
        if counts.dropped[reason]:
            known = counts.first_missing if reason == "missing" else arguments.max_words
            print(f"{counts.dropped[reason]:,} {text.format(known)}")
    kept = f"{counts.kept:,} kept, of {counts.answered:,} questions, in {counts.paragraphs:,} contexts"
    print(f"{kept}: {arguments.output}")


if __name__ == "__main__":
    command.run(__doc__, Arguments, main, tensorflow=False)
