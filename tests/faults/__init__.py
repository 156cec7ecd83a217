"""Trials of what may go wrong, made from a seed: small in the tests, long on demand.

cases.py    one case: a call, and what it may do
seeds.py    small valid files of every format that is read, and their mutations
fuzz.py     mutated files to every reader, and random command lines
"""
