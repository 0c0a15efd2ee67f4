"""Search by vectors and by both legs beside rivals: same rows, questions and run, recall beside each time.

`make bench-vectors` runs `python -m vectors run`. Texts, clock and the running of steps are those of
`compare`.
"""
