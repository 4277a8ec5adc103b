"""Builders: functions that wire layers into plain functional `keras.Model`s."""
