"""SQuAD as retrieval data: find the paragraph of a question among all paragraphs of the file."""

from keras_bert.search.data import Passage, Query, RetrievalData
from keras_bert.tasks.questions import data


def read_squad(path):
    """Reads a file in SQuAD's format as `RetrievalData`; dev-v1.1.json has 10,570 questions and 2,067 paragraphs.

    Repeated paragraphs are one passage; the ids of passages are their numbers. The only relevant passage of a question
    is its own paragraph, also for questions of SQuAD 2.0 without an answer.
    """
    read = data.read(path)
    numbers = {text: number for number, text in enumerate(dict.fromkeys(read.contexts))}
    passages = [Passage(str(number), text) for text, number in numbers.items()]
    queries = list(map(Query, read.ids, read.questions))
    own = (str(numbers[read.contexts[context]]) for context in read.context)
    relevance = {name: {passage: 1.0} for name, passage in zip(read.ids, own, strict=True)}
    return RetrievalData(passages, queries, relevance)
