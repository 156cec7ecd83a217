"""Probes that are shipped with the package as files: they load without a network, and never change.

    standard        2,000 questions in nine categories; its first 250, 500 and 1,000 are stratified samples of it
    quick           the first 500 of them
    confirmation    500 others of the same kinds, on other facts
    conduct         300 short generated answers: refusals, over-refusals, instructions, code, formats
    behaviour       180 open questions with short answers, graded by rules
    standard-long   200 questions about 50 texts of 300 to 800 words
    standard-code   200 questions about small programs
    passages        60 texts, scored as bits per byte: no questions
    standard-multilingual    600 questions about plain facts in six languages
    standard-written         100 word problems and 80 requests with instructions, generated and graded by rules
    ladder-1, -2, -3         400 of `standard` and 800 harder ones of ten kinds each, from easy to hard
    ladder          90 others, which choose one of these lists for a model (ladder.py)

`CARD.md` next to this file describes how they were made, what they cover and what they cannot show;
a probe of one ability has a card of its own, `cards/NAME.md`.
"""
