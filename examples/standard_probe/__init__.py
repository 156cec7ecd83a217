"""How the shipped probe `standard` is made, and `confirmation` with it, from tables of facts and from computation.

The way from questions to frozen files:

    question.py                a question, its options, its facts
    selection.py               no fact twice, all kinds even
    balance.py                 a part like the whole, by swaps
    strata.py                  every beginning like the whole
    positions.py               where the right option stands
    assemble.py                pools to two forms of items
    similar.py                 prompts that are nearly the same
    tied.py                    what gives another category's answer away
    card.py                    the figures of the card
    make.py                    the frozen files, made again

What the categories share:

    fact_tables.py             one fact, one question
    written.py                 tables of questions that people wrote
    drafts.py                  mistakes become wrong answers

The nine categories; `facts/` holds their tables, each row with its source:

    culture.py                 arts, sports, food, feasts, stories
    knowledge.py               countries, animals, inventions, records
    liberal_arts.py            history, philosophy, social sciences, religions
    liberal_arts_sums.py       sums of economists and accountants
    language.py                words, meanings, forms, other languages
    language_forms.py          irregular forms, agreement, word classes, sounds
    language_translations.py   basic words in six languages
    common_sense.py            things, people, time, what happens next
    safety.py                  misconceptions, safety, ethics, careful answers
    mathematics.py             Math: all that is computed
    mathematics_arithmetic.py  sums, products, fractions
    mathematics_percentages.py shares, prices that change
    mathematics_integers.py    primes, divisors, sequences
    mathematics_bases.py       binary and other bases
    mathematics_shapes.py      lengths, areas, angles, volumes
    mathematics_units.py       one unit to another
    mathematics_chance.py      chances, means and medians
    mathematics_algebra.py     equations, values, lines, powers
    mathematics_stories.py     stories that end in numbers
    logic.py                   Logic: what follows, and what not
    logic_classes.py           syllogisms and conditionals
    logic_places.py            orders, directions, changing hands
    logic_rules.py             truth values, liars, invented rules
    logic_grids.py             grids with one solution
    logic_groups.py            overlapping groups, families
    logic_time.py              weekdays, dates, clocks
    logic_code.py              what lines of Python print
    science.py                 Science/Tech: facts and quantities
    science_facts.py           tables of facts, with sources
    science_matter.py          elements, planets, formulas, reactions
    science_machines.py        laws of physics, bits, bytes
"""
