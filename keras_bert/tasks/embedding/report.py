"""The part of a report about queries for which a wrong passage is more similar than the right one."""

import numpy as np

from keras_bert.reports import page

HARDEST = 20
_CHARACTERS = 300  # Of a text in errors.tsv.


def query_report(measures, queries, passages, wrong, name):
    """Returns an HTML section about the hardest queries, in a list, and the wrong rows as rows of `errors.tsv`.

    `wrong` has the most similar wrong passage of each row, `None` for right ones. `measures` are how wrong rows are: by
    `name`, the "rank" of the right passage, or the "excess" of the similarity of the wrong one.
    """
    rows = _worst(measures, wrong)
    order = "lowest rank of the right passage" if name == "rank" else "largest excess of similarity"
    texts = {"query": queries, "passage": passages, "wrong": wrong}
    hardest = [
        {"row": row, "measure": f"{name} {measures[row]:.3g}", **{key: column[row] for key, column in texts.items()}}
        for row in rows[:HARDEST]
    ]
    count = f"{len(rows):,} of {len(queries):,}"
    section = page.render("tasks/embedding/hardest_queries.html", hardest=hardest, wrong=count, order=order)
    lines = [
        [f"{measures[row]:g}", str(row + 1), *(column[row][:_CHARACTERS] for column in texts.values())] for row in rows
    ]
    return [section], [[name, "row", "query", "passage", "wrong_passage"], *lines]


def _worst(measures, wrong):
    rows = np.flatnonzero([text is not None for text in wrong])
    return rows[np.argsort(-np.asarray(measures)[rows], kind="stable")].tolist()
