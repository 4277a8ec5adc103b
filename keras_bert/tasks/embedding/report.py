"""The part of a report about queries for which a wrong passage is more similar than the right one."""

import numpy as np

from keras_bert.reports import page

HARDEST = 20
_CHARACTERS = 300  # Of a text in errors.tsv.


def query_sections(measures, queries, passages, wrong, name):
    """Returns an HTML section about the hardest queries.

    Args:
        measures: array `(rows,)`, how wrong each row is.
        queries, passages: lists of strings, the queries and their right passages.
        wrong: list of strings, the most similar wrong passage of each row; `None` for right rows.
        name: string, "rank" or "excess", see `query_errors`.
    """
    rows = _worst(measures, wrong)
    order = "lowest rank of the right passage" if name == "rank" else "largest excess of similarity"
    hardest = [
        {"row": row, "measure": f"{name} {measures[row]:.3g}"}
        | {"query": queries[row], "passage": passages[row], "wrong": wrong[row]}
        for row in rows[:HARDEST]
    ]
    return [
        page.render(
            "tasks/embedding/hardest_queries.html",
            hardest=hardest,
            wrong=f"{len(rows):,} of {len(queries):,}",
            order=order,
        )
    ]


def query_errors(measures, queries, passages, wrong, name):
    """Returns the wrong rows as rows of a table, the header first, the worst at the top.

    `name` is that of the measure: "rank" of the right passage, or "excess", by how much the wrong passage is more
    similar. For the other arguments see `query_sections`.
    """
    lines = [
        [f"{measures[row]:g}", str(row + 1), *(text[row][:_CHARACTERS] for text in (queries, passages, wrong))]
        for row in _worst(measures, wrong)
    ]
    return [[name, "row", "query", "passage", "wrong_passage"], *lines]


def _worst(measures, wrong):
    rows = np.flatnonzero([text is not None for text in wrong])
    return rows[np.argsort(-np.asarray(measures)[rows], kind="stable")].tolist()
