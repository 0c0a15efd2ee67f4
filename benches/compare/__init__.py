"""The lexical index beside its rivals: same documents, same questions, same run, recall beside each time.

`make bench-compare` runs `python -m compare run`. Every step of every engine has a process of its own, on one
CPU, so that neither memory nor threads of one disturb another.
"""
