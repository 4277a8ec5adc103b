"""Classification and regression of texts and pairs: GLUE and users' own tables, also with several labels per text."""
