"""Generators of the shipped probes `standard` and `confirmation`, from tables of facts and from computation.

    PYTHONPATH=tools/probe python -m standard_probe.make FOLDER      run from the root of the repository

From questions to frozen files:

    question.py        a question, its options, its facts
    selection.py       no fact twice, all kinds evenly
    balance.py         a part like the whole, by swaps
    strata.py          every prefix like the whole
    positions.py       position of the right option
    assemble.py        pools to two forms of items
    alike.py           questions that give each other away, and prompts that are nearly the same
    card.py            the figures of the card
    make.py            the frozen files

Shared by the categories:

    fact_tables.py     one fact, one question
    written.py         tables of questions that people wrote
    drafts.py          computed questions: mistakes become wrong answers

The nine categories; `facts/` holds their tables, each row with its source:

    culture.py         arts, sports, food, feasts, stories
    knowledge.py       countries, animals, inventions, records
    liberal_arts/      history, philosophy, social sciences, religions
    language/          words, meanings, forms, other languages
    common_sense.py    things, people, time, what happens next
    safety.py          misconceptions, safety, ethics, careful answers
    mathematics/       Math: all computed
    logic/             Logic: all computed
    science/           Science/Tech: facts and quantities
"""
