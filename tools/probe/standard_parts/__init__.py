"""Generators of the shipped probes next to `standard`, each of one ability that `standard` does not cover.

    make.py            `PARTS`, and the command that writes the frozen files and the figures of their cards
    assembly.py        questions to items: order, positions of the right options, ids
    multilingual.py    `standard-multilingual`: facts in six languages; its tables are in facts/
    written.py         `standard-written`: word problems, and requests with instructions

`PARTS` names a function for each probe. A function takes no argument and returns the same probe each time: it draws
only from generators with a fixed seed. A test computes every key a second time, from the text of the item.
"""
