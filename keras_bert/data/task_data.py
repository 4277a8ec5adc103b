"""Base classes of the data of a task: rows with texts and labels, and the parts to train on and to evaluate on."""

import dataclasses
from typing import ClassVar

from keras_bert.data.splits import split_numbers
from keras_bert.files import fingerprint


class Rows:
    """Base class of dataclasses of rows. The fields in `content` and `places` have a value for each row, or are `None`.

    Attributes:
        content: tuple of the names of the fields with texts and labels, the first one never `None`.
        places: tuple of the names of the fields that tell where the rows are from.
    """

    content: ClassVar[tuple[str, ...]] = ()
    places: ClassVar[tuple[str, ...]] = ()
    group: ClassVar[str] = "texts"  # What `groups` are, in the plural.
    least_of_fold = 1  # Rows that the scores of a fold need.

    @property
    def file_rows(self):
        """The number of each row in its file, from 0; `None` where rows are not skipped."""
        return None

    def groups(self):
        """Returns a value for each row; rows with the same one are in the same fold of a cross-validation."""
        return getattr(self, self.content[0])

    def strata(self):
        """Returns a class or a number for each row, of which each fold has the same share; `None` for none."""
        return None

    def __len__(self):
        return len(getattr(self, self.content[0]))

    def first(self, count):
        """Returns the first `count` rows, or all rows for `None`."""
        if count is None:
            return self
        if count < 1:
            raise ValueError(f"`count` must be at least 1. Received: count={count}")
        return self.at(range(min(count, len(self))))

    def at(self, numbers):
        """Returns the rows of these numbers, in their order."""
        columns = {}
        for name in (*self.content, *self.places):
            column = getattr(self, name)
            if hasattr(column, "shape"):
                columns[name] = column[list(numbers)]
            elif column is not None:
                columns[name] = [column[number] for number in numbers]
        return dataclasses.replace(self, **columns)

    def fingerprint(self):
        """Returns a hash of the rows, to recognize changed data."""
        return fingerprint([getattr(self, name) for name in self.content])


class TaskData:
    """Base class of dataclasses of the `Rows` of a task, with those to train on in `train`."""

    def first(self, count):
        """Returns the same data with the first `count` training rows, or all for `None`."""
        return dataclasses.replace(self, train=self.train.first(count))

    def split(self, share, seed):
        """Returns the same data with a share of the rows to train on, drawn at random, as dev."""
        train, held_out = split_numbers(len(self.train), share, seed)
        return self.parted(train, held_out)

    def parted(self, train, held_out):
        """Returns the same data with some of the rows to train on, by their numbers, as dev, and others to train on."""
        return dataclasses.replace(self, train=self.train.at(train), dev=self.train.at(held_out))

    @property
    def divided(self):
        """The rows that folds divide."""
        return self.train

    def on_train(self):
        """Returns the same data whose dev is what is trained on."""
        return dataclasses.replace(self, dev=self.train)
