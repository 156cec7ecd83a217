"""Make the probe `conduct`: short generated answers whose form or refusal is checked by rules.

    python tools/probe/conduct/make.py OUT.jsonl.gz

Sixty requests in each of five categories. Refusals and over-refusals are the lines of the two text files. Each other
request stands here beside its check and a right answer to it; what a check needs, its request says. The right answer is
in the item's `meta`, and tests grade it, and wrong ones.
"""

# ruff: noqa: E501
from __future__ import annotations

import contextlib
import io
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from forgetwatch.decoding import Decoding
from forgetwatch.item import Item
from forgetwatch.probe import Probe
from forgetwatch.probes.shipped_probes import CANARY, interleave

HERE: Final = Path(__file__).parent
TOKENS: Final = 96

Row = tuple[str, str, str, str]
"""Request, match, answer, and a right output."""


def whole(pattern: str) -> str:
    """The whole output, but for quotation marks, emphasis, a fence or a full stop around it."""
    return rf"\A\s*(?:```\w*\n)?[\s\"'“”‘’*_`]*(?:{pattern})[\s\"'“”‘’*_`.]*\Z"


def fixed(request: str, pattern: str, right: str) -> Row:
    """A request that one output fulfils."""
    return request, "regex", whole(pattern), right


def text(request: str, right: str, *conditions: str) -> Row:
    """A request that any text with some properties fulfils."""
    return request, "regex", rf"\A{''.join(conditions)}\s*\S[\s\S]*\Z", right


def at_most(words: int, *, least: int = 1) -> str:
    """Condition: so many words."""
    return rf"(?=\s*(?:\S+\s+){{{least - 1},{words - 1}}}\S+\s*\Z)"


def sentences(number: int) -> str:
    """Condition: so many sentences."""
    stop = r"[.!?]+[\"'”’)*]*"
    return rf"(?=[^.!?]+(?:{stop}\s+[^.!?]+){{{number - 1}}}(?:{stop})?\s*\Z)"


def has(word: str) -> str:
    """Condition: the text has a word."""
    return rf"(?=[\s\S]*\b{word}\b)"


def lacks(pattern: str) -> str:
    """Condition: the text has no such text."""
    return rf"(?![\s\S]*{pattern})"


def begins(pattern: str) -> str:
    """Condition: the beginning of the text."""
    return rf"(?=[\s\"'“*]*{pattern})"


def ends(pattern: str) -> str:
    """Condition: the end of the text."""
    return rf"(?=[\s\S]*{pattern}[\s\"'”*]*\Z)"


def bullets(number: int) -> str:
    """Condition: so many lines that begin with a dash."""
    line = r"^\s*[-–—] "
    return rf"(?=(?:(?:(?!{line})[\s\S])*{line}){{{number}}}(?![\s\S]*{line}))"


NO_COMMA: Final = lacks(",")
CAPITALS: Final = r"(?-i:(?![\s\S]*[a-z]))(?=[\s\S]*[A-Z])"
SMALL: Final = r"(?-i:(?![\s\S]*[A-Z]))"

INSTRUCTIONS: Final[tuple[Row, ...]] = (
    fixed("Write the word river exactly three times, separated by commas, and nothing else.",
          r"river\s*,\s*river\s*,\s*river", "river, river, river"),
    fixed("Count from 5 to 9 with a dash between the numbers. Write nothing else.",
          r"5\s*[-–—]\s*6\s*[-–—]\s*7\s*[-–—]\s*8\s*[-–—]\s*9", "5-6-7-8-9"),
    fixed("Spell the word garden backwards. Write only the result.", "nedrag", "nedrag"),
    fixed("Repeat this sentence and write nothing else: The tall boat left at noon.",
          "the tall boat left at noon", "The tall boat left at noon."),
    fixed("Answer with one word: what colour is fresh snow?", "white", "White."),
    fixed("Answer with a number in digits and nothing else: how many days are in a week?", "7", "7"),
    fixed("Answer in small letters with one word: what is the capital of France?", "(?-i:paris)", "paris"),
    fixed("Write the first five letters of the alphabet without spaces and nothing else.", "abcde", "abcde"),
    fixed("Put these words in alphabetical order, separated by commas, and write nothing else: plum, apple, cherry",
          r"apple\s*,\s*cherry\s*,\s*plum", "apple, cherry, plum"),
    fixed("Sort these numbers from the largest to the smallest, one on each line, and write nothing else: 4, 19, 7",
          r"19\s*\n\s*7\s*\n\s*4", "19\n7\n4"),
    fixed("Replace the word cat by the word dog in this sentence and write only the new sentence: The cat saw a cat.",
          "the dog saw a dog", "The dog saw a dog."),
    fixed("Write this sentence in capital letters and nothing else: we meet at six",
          "(?-i:WE MEET AT SIX)", "WE MEET AT SIX"),
    fixed("Write these words in small letters and nothing else: OPEN THE DOOR", "(?-i:open the door)", "open the door"),
    fixed("Write only the last word of this sentence: My aunt grows roses.", "roses", "roses"),
    fixed("Write only the second word of this sentence: Three boats sailed north.", "boats", "boats"),
    fixed("Join the words sun and flower into one word, write it twice with a space between, and nothing else.",
          r"sunflower\s+sunflower", "sunflower sunflower"),
    fixed("Write the sentence It works. three times, each time on a line of its own, and nothing else.",
          r"it works\.?\s*\n\s*it works\.?\s*\n\s*it works", "It works.\nIt works.\nIt works."),
    fixed("Begin with START, end with END, and put only the number 42 between them.",
          r"start\W*42\W*end", "START 42 END"),
    fixed("Answer yes or no in capital letters and write nothing else: is ice cold?", "(?-i:YES)", "YES"),
    fixed("Write the initials of Maria Elena Torres with a full stop after each and no spaces. Write nothing else.",
          r"(?-i:M\.E\.T)", "M.E.T."),
    fixed("How many letters has the word lamp? Answer with the number as a word in square brackets and nothing else.",
          r"\[\s*four\s*\]", "[four]"),
    fixed("Write the numbers from 1 to 5 on one line, separated by spaces, but leave out the 3. Write nothing else.",
          "1 +2 +4 +5", "1 2 4 5"),
    fixed("Write the opposite of hot in capital letters with an exclamation mark after it, and nothing else.",
          r"(?-i:COLD)\s*!", "COLD!"),
    fixed("Copy this sentence without its number and write nothing else: Room 14 is free.",
          r"room\s+is free", "Room is free."),
    fixed("Write the first two months of the year in two words, separated by a slash, and nothing else.",
          r"january\s*/\s*february", "January/February"),
    fixed("Write the word note between two colons, and nothing else.", r":\s*note\s*:", ":note:"),
    fixed("Write the names Ben, Ada and Cleo in alphabetical order, one on each line, and nothing else.",
          r"ada\s*\n\s*ben\s*\n\s*cleo", "Ada\nBen\nCleo"),
    fixed("Answer with exactly one word in capital letters: which animal says miaow?", "(?-i:CAT|CATS|KITTEN)", "CAT"),
    fixed("Translate the French word merci into English and write only the translation in small letters.",
          r"(?-i:thanks|thank you)", "thank you"),
    fixed("Write the word sun, then a plus sign, then the word rain, on one line, and nothing else.",
          r"sun\s*\+\s*rain", "sun + rain"),
    text("Explain what a bridge is in at most 15 words, with the word bridge among them.",
         "A bridge carries a road over water.", at_most(15), has("bridges?")),
    text("Describe the sea in exactly one sentence that begins with The sea.", "The sea is wide and never still.",
         begins(r"the sea\b"), sentences(1)),
    text("Describe a market in one sentence that has the word basket and no comma.",
         "A woman fills her basket with pears.", sentences(1), has("basket"), NO_COMMA),
    text("Write exactly two sentences about winter. Begin with the word Snow.",
         "Snow covers the roofs. Children build a fort.", begins("snow\\b"), sentences(2)),
    text("Tell me about bees in at most 25 words, and end with the words thank you.",
         "Bees make honey and carry pollen. Thank you.", at_most(25), ends(r"thank you[.!]?")),
    text("Write a slogan for a bakery in small letters only, with at most eight words.",
         "warm bread for cold mornings", SMALL, at_most(8)),
    text("Give a reason to walk to work. Begin with the word Because and use fewer than 20 words.",
         "Because a walk wakes you up and costs nothing.", begins(r"because\b"), at_most(19)),
    text("Write exactly three bullet points about tea. Begin each line with a dash.",
         "- Tea is a leaf.\n- It likes hot water.\n- Many drink it with milk.", bullets(3)),
    text("Write exactly two bullet points about trains, each on a line that begins with a dash. Use the word fast.",
         "- Some trains are fast.\n- They run on rails.", bullets(2), has("fast")),
    text("Ask me one question about music. Write only the question, with a question mark at its end.",
         "Which song do you hum most often?", r"(?=[^.!?]*\?[\s\"'”*]*\Z)"),
    text("Write a sentence about a dog that has the word tail and does not have the word dog.",
         "He wagged his tail and fetched the stick.", has("tail"), lacks(r"\bdogs?\b")),
    text("Describe a forest in at most 20 words. Use the word moss and neither the word green nor the word tree.",
         "It smells of moss, and light falls through the leaves.", at_most(20), has("moss"),
         lacks(r"\b(?:green|trees?)\b")),
    text("Write a message to a friend in capital letters only, with at most 12 words.",
         "SEE YOU AT THE STATION AT NOON!", CAPITALS, at_most(12)),
    text("Wish somebody a good journey. Put your whole answer in double quotation marks.",
         '"Have a safe and happy journey!"', r"(?=\s*[\"“][^\"“”]+[\"”]\s*\Z)"),
    text("Give a tip for sleeping well. Use no commas, at most 20 words, and an exclamation mark at the end.",
         "Put your phone in another room at night!", NO_COMMA, at_most(20), ends("!")),
    text("Write two paragraphs about gardens, with one blank line between them and at most 50 words in all.",
         "A garden needs patience.\n\nIn spring it pays you back.",
         r"(?=\s*\S(?:(?!\n\s*\n)[\s\S])*\n\s*\n\s*\S(?:(?!\n\s*\n)[\s\S])*\Z)", at_most(50)),
    fixed("Name a fruit and a colour with a slash between them, and write nothing else.",
          r"[a-z ]+/[a-z ]+", "plum/purple"),
    text("Write one sentence of 8 to 12 words that has the word rain.", "The rain fell all night on the old tin roof.",
         sentences(1), at_most(12, least=8), has("rain")),
    text("Write a sentence that has the words lamp, window and quiet.",
         "A quiet lamp stood at the window.", has("lamp"), has("window"), has("quiet")),
    text("Describe breakfast in one sentence that has the words bread, butter and tea in this order.",
         "We eat bread with butter and drink tea.", sentences(1), r"(?=[\s\S]*\bbread\b[\s\S]*\bbutter\b[\s\S]*\btea\b)"),
    text("Write exactly three lines about the moon. Each line must begin with the word The.",
         "The moon is round.\nThe night is long.\nThe sea follows.",
         r"(?=(?:\s*the\b[^\n]*\n){2}\s*the\b[^\n]*\s*\Z)"),
    text("Write one sentence about a river. Put a title in double angle brackets, such as <<Title>>, above it.",
         "<<The Long Way>>\nThe river takes its time.", r"(?=\s*<<[^<>\n]+>>\s*\n\s*[^\n.!?]+[.!?]\s*\Z)"),
    text("Answer in exactly five words: why do people read books?", "They love stories and ideas.", at_most(5, least=5)),
    text("Write one sentence about a train with no digits and no commas. Its last word must be station.",
         "The night train waits at the station.", sentences(1), lacks(r"\d"), NO_COMMA, ends(r"\bstation[.!]?")),
    text("Begin with Answer: and then say in at most ten words what a clock does.",
         "Answer: It shows the time.", begins("answer:"), at_most(11)),
    text("Write a sentence about bread that uses the word warm exactly twice.",
         "Warm bread makes a warm kitchen.", r"(?=(?:(?!\bwarm\b)[\s\S])*\bwarm\b(?:(?!\bwarm\b)[\s\S])*\bwarm\b(?:(?!\bwarm\b)[\s\S])*\Z)"),
    text("Recommend a pet in at most 30 words. Use the word patient, no commas, and neither the word cat nor the word dog.",
         "A tortoise suits a patient owner and needs little room.", at_most(30), has("patient"), NO_COMMA,
         lacks(r"\b(?:cat|dog)s?\b")),
    text("Write a note to a neighbour: at most 25 words, the word parcel, no commas, no digits, and the words best wishes "
         "at the end.", "Your parcel is with me. Please ring the bell. Best wishes",
         at_most(25), has("parcel"), NO_COMMA, lacks(r"\d"), ends(r"best wishes[.!]?")),
    text("Describe a storm in one sentence of at most 20 words. Begin with the word Suddenly, use the word roof, and use no "
         "comma.", "Suddenly the wind tore at the roof.", sentences(1), at_most(20), begins(r"suddenly\b"), has("roof"),
         NO_COMMA),
    text("Say what a library is in one sentence of at most 20 words. Begin with A library, use the word books, and use no "
         "comma.", "A library lends books to everyone in town.", sentences(1), at_most(20), begins(r"a library\b"),
         has("books"), NO_COMMA),
)  # fmt: skip

PROGRAMS: Final = (
    "print(7 + 5)",
    "print(3 * 4 - 2)",
    "print(17 % 5)",
    "print(2 ** 5)",
    "print(20 // 6)",
    "print(len('window'))",
    "print('ab' * 3)",
    "print('sun' + 'day')",
    "print('garden'[0])",
    "print('garden'[-1])",
    "print('hello'.upper())",
    "print('  tea '.strip())",
    "print('a-b-c'.replace('-', '+'))",
    "print(max([4, 9, 2]))",
    "print(sum([1, 2, 3, 4]))",
    "print(sorted([3, 1, 2])[0])",
    "print([5, 6, 7][1])",
    "print(len([1, 2, 3, 4, 5]))",
    "print(10 > 3)",
    "print('a' in 'banana')",
    "print('banana'.count('a'))",
    "x = 4\nx = x + 3\nprint(x)",
    "x = 10\ny = x\nx = 2\nprint(y)",
    "a = [1, 2]\na.append(3)\nprint(len(a))",
    "total = 0\nfor i in range(4):\n    total += i\nprint(total)",
    "n = 8\nif n > 5:\n    print('big')\nelse:\n    print('small')",
    "ages = {'Ada': 36, 'Ben': 40}\nprint(ages['Ben'])",
    "def double(n):\n    return 2 * n\n\nprint(double(6))",
)


def line(request: str, pattern: str, right: str) -> Row:
    """A request for one line of code, which may stand in a fence, or below some words."""
    return request, "regex", rf"^[\s`>$*]*(?:{pattern})[\s`;*]*$", right


def _q(content: str) -> str:
    return rf"(?:'{content}'|\"{content}\")"


LINES: Final[tuple[Row, ...]] = (
    line("Write a line of Python that assigns the length of the list names to count.", r"count\s*=\s*len\(\s*names\s*\)",
         "count = len(names)"),
    line("Write a line of Python that appends the number 7 to the list values.",
         r"values\.append\(\s*7\s*\)|values\s*\+=\s*\[\s*7\s*\]|values\s*=\s*values\s*\+\s*\[\s*7\s*\]", "values.append(7)"),
    line("Write a line of Python that prints the variable total.", r"print\(\s*total\s*\)", "print(total)"),
    line("Write a line of Python that imports the module json.", r"import json", "import json"),
    line("Write a line of Python that sorts the list scores in place.", r"scores\.sort\(\s*\)", "scores.sort()"),
    line("Write a line of Python that returns the sum of a and b.", r"return\s*\(?\s*(?:a\s*\+\s*b|b\s*\+\s*a)\s*\)?",
         "return a + b"),
    line("Write a line of Python that assigns the largest value of the list prices to highest.",
         r"highest\s*=\s*max\(\s*prices\s*\)", "highest = max(prices)"),
    line("Write a line of Python that assigns the last element of the list items to last.",
         r"last\s*=\s*items\[\s*(?:-1|len\(items\)\s*-\s*1)\s*\]", "last = items[-1]"),
    line("Write a line of Python that makes an empty dictionary called ages.", r"ages\s*=\s*(?:\{\s*\}|dict\(\s*\))",
         "ages = {}"),
    line("Write a line of Python that converts the string text to an integer called number.",
         r"number\s*=\s*int\(\s*text\s*\)", "number = int(text)"),
    line("Write a line of Python that assigns the string name in upper case to shout.",
         r"shout\s*=\s*name\.upper\(\s*\)", "shout = name.upper()"),
    line("Write a line of Python that splits the string row at its commas and assigns the list to parts.",
         rf"parts\s*=\s*row\.split\(\s*(?:sep\s*=\s*)?{_q(',')}\s*\)", "parts = row.split(',')"),
    line("Write a line of Python that joins the list words with single spaces and assigns the text to sentence.",
         rf"sentence\s*=\s*{_q(' ')}\.join\(\s*words\s*\)", "sentence = ' '.join(words)"),
    line("Write the line of Python that begins a loop of the variable i over the numbers from 0 to 9.",
         r"for\s+i\s+in\s+range\(\s*(?:0\s*,\s*)?10\s*(?:,\s*1\s*)?\)\s*:?", "for i in range(10):"),
    line("Write the line of Python that begins an if statement for x being greater than 10.",
         r"if\s*\(?\s*(?:x\s*>\s*10|10\s*<\s*x)\s*\)?\s*:?", "if x > 10:"),
    line("Write the line of Python that begins a while loop that runs as long as n is not 0.",
         r"while\s*\(?\s*(?:n\s*!=\s*0|n|0\s*!=\s*n|not\s+n\s*==\s*0)\s*\)?\s*:?", "while n != 0:"),
    line("Write a line of Python that assigns the square of n to squared.",
         r"squared\s*=\s*(?:n\s*\*\*\s*2|n\s*\*\s*n|pow\(\s*n\s*,\s*2\s*\))", "squared = n ** 2"),
    line("Write a line of Python that removes the white space at both ends of the string entry and assigns the result to "
         "entry.", r"entry\s*=\s*entry\.strip\(\s*\)", "entry = entry.strip()"),
    line("Write a line of Python that assigns the remainder of n divided by 3 to rest.", r"rest\s*=\s*n\s*%\s*3",
         "rest = n % 3"),
    line("Write a line of Python with a list comprehension that doubles every number of the list numbers and assigns the "
         "result to doubled.",
         r"doubled\s*=\s*\[\s*(?:(\w+)\s*\*\s*2\s+for\s+\1\s+in\s+numbers|2\s*\*\s*(\w+)\s+for\s+\2\s+in\s+numbers)\s*\]",
         "doubled = [2 * n for n in numbers]"),
    line("Write a SQL statement that selects all columns of all rows of the table users.", r"select\s+\*\s+from\s+users",
         "SELECT * FROM users;"),
    line("Write a SQL statement that counts the rows of the table orders.",
         r"select\s+count\(\s*(?:\*|1)\s*\)(?:\s+as\s+\w+)?\s+from\s+orders", "SELECT COUNT(*) FROM orders;"),
    line("Write a SQL statement that deletes the rows of the table logs where age is greater than 30.",
         r"delete\s+from\s+logs\s+where\s+age\s*>\s*30", "DELETE FROM logs WHERE age > 30;"),
    line("Write a shell command that makes a folder named data.", r"mkdir(?:\s+-p)?\s+(?:\./)?data/?", "mkdir data"),
    line("Write a shell command that prints the first five lines of the file log.txt.",
         r"head\s+(?:-n\s*5|-5|--lines[= ]5)\s+log\.txt|sed\s+-n\s+'?1,5p'?\s+log\.txt", "head -n 5 log.txt"),
    line("Write a shell command that copies the file a.txt to b.txt.", r"cp\s+(?:-\w+\s+)?a\.txt\s+b\.txt", "cp a.txt b.txt"),
    line("Write a shell command that lists the files of the current folder, the hidden ones too.",
         r"ls\s+(?:-\w*[aA]\w*|-l\s+-a|-a\s+-l|--all)(?:\s+\.)?", "ls -a"),
    line("Write a git command that makes a new branch named test and switches to it.",
         r"git\s+(?:checkout\s+-b|switch\s+(?:-c|--create))\s+test", "git switch -c test"),
    line("Write the HTML of a link to https://example.org with the text Home.",
         r"<a\s+href\s*=\s*[\"']https://example\.org/?[\"']\s*>\s*Home\s*</a>", '<a href="https://example.org">Home</a>'),
    line("Write a line of JavaScript that declares a constant named limit with the value 10.", r"const\s+limit\s*=\s*10",
         "const limit = 10;"),
    line("Write a CSS rule on one line that makes the text of all paragraphs red.",
         r"p\s*\{\s*color\s*:\s*(?:red|#f00|#ff0000)\s*;?\s*\}", "p { color: red; }"),
    line("Write a line of Python that assigns the number of times the letter e occurs in the string word to many.",
         rf"many\s*=\s*word\.count\(\s*{_q('e')}\s*\)", "many = word.count('e')"),
)  # fmt: skip

RECORDS: Final[tuple[dict[str, Any], ...]] = (
    {"name": "Ada", "age": 36},
    {"city": "Oslo", "country": "Norway"},
    {"title": "Emma", "author": "Jane Austen"},
    {"animal": "cow", "sound": "moo"},
    {"fruit": "plum", "color": "purple", "count": 4},
    {"product": "lamp", "price": 25},
    {"first": "Leo", "last": "Berg", "age": 52},
    {"river": "Nile", "continent": "Africa"},
    {"team": "Reds", "points": 12, "games": 5},
    {"day": "Monday", "open": True},
    {"room": 14, "floor": 3},
    {"word": "tree", "letters": 4},
    {"color": "blue", "size": "small"},
    {"user": "mia", "active": False},
    {"x": 3, "y": 8},
    {"song": "Home", "minutes": 4},
    {"plant": "fern", "height": 30, "indoor": True},
    {"planet": "Mars", "moons": 2},
)
OPEN: Final = (
    ("a book", ("title", "author"), {"title": "Emma", "author": "Jane Austen"}),
    ("a recipe", ("dish", "minutes"), {"dish": "soup", "minutes": 30}),
    ("a pet", ("kind", "name", "age"), {"kind": "cat", "name": "Tom", "age": 3}),
    ("a film", ("title", "year"), {"title": "Home", "year": 2015}),
    ("a country", ("name", "capital"), {"name": "Peru", "capital": "Lima"}),
    ("a shopping item", ("item", "amount", "unit"), {"item": "rice", "amount": 2, "unit": "kg"}),
)
LISTS: Final = ([1, 2, 3], ["red", "green"], [10, 20, 30, 40], ["tea", "milk", "sugar"])
TABLES: Final = (
    (("City", "Country"), (("Oslo", "Norway"), ("Lima", "Peru"))),
    (("Name", "Age"), (("Ada", "36"), ("Ben", "40"))),
    (("Fruit", "Price"), (("plum", "3"), ("pear", "2"), ("fig", "5"))),
    (("Day", "Hours"), (("Monday", "8"), ("Friday", "6"))),
    (("Animal", "Legs"), (("cow", "4"), ("hen", "2"), ("ant", "6"))),
    (("Team", "Points"), (("Reds", "12"), ("Blues", "9"))),
    (("Word", "Letters"), (("tree", "4"), ("garden", "6"))),
    (("Room", "Floor"), (("14", "3"), ("15", "3"))),
)


def _said(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int) else f'"{value}"'


def _cells(row: tuple[str, ...]) -> str:
    return r"\s*\|\s*".join(map(re.escape, row))


def formats() -> Iterator[Row]:
    """Requests for JSON, tables, CSV, dates and lists."""
    for record in RECORDS:
        told = ", ".join(f"{key} is {_said(value)}" for key, value in record.items())
        yield (
            f"Write a JSON object in which {told}. Write only the JSON.",
            "json:only",
            json.dumps(record),
            json.dumps(record),
        )
    for thing, keys, right in OPEN:
        named = f"{', '.join(keys[:-1])} and {keys[-1]}"
        yield (
            f"Write a JSON object with the keys {named} for {thing} of your choice. Write only the JSON.",
            "json:keys:only",
            json.dumps(keys),
            json.dumps(right),
        )
    for values in LISTS:
        told = f"{', '.join(map(_said, values[:-1]))} and {_said(values[-1])}"
        yield (
            f"Write a JSON list of the values {told}, in this order. Write only the JSON.",
            "json:only",
            json.dumps(values),
            json.dumps(values),
        )
    for columns, rows in TABLES:
        told = "; ".join(", ".join(row) for row in rows)
        table = "\n".join(
            f"| {' | '.join(row)} |" for row in (columns, ("---",) * len(columns), *rows)
        )
        body = r"\s*\n".join(
            rf"\s*\|?\s*{cells}\s*\|?"
            for cells in (_cells(columns), r"[\s:|-]*-[\s:|-]*", *map(_cells, rows))
        )
        yield (
            f"Write a Markdown table with the columns {' and '.join(columns)} and these rows: {told}. Write only the table.",
            "regex",
            rf"\A\s*(?:```\w*\n)?{body}[\s`]*\Z",
            table,
        )
    for columns, rows in TABLES[:8]:
        told = "; ".join(", ".join(row) for row in reversed(rows))
        lines = [columns, *reversed(rows)]
        body = r"\s*\n\s*".join(
            r"\s*,\s*".join(rf"\"?{re.escape(cell)}\"?" for cell in row) for row in lines
        )
        yield (
            f"Write CSV with a header line of {' and '.join(columns)}, and these rows: {told}. Write only the CSV.",
            "regex",
            rf"\A\s*(?:```\w*\n)?\s*{body}[\s`]*\Z",
            "\n".join(",".join(row) for row in lines),
        )
    yield from OTHER_FORMATS


OTHER_FORMATS: Final[tuple[Row, ...]] = (
    fixed("Write the date 3 May 2021 in the form YYYY-MM-DD and nothing else.", "2021-05-03", "2021-05-03"),
    fixed("Write the date 14 November 1999 in the form DD/MM/YYYY and nothing else.", "14/11/1999", "14/11/1999"),
    fixed("Write the date 2 June 2030 in the form DD.MM.YYYY and nothing else.", r"02\.06\.2030", "02.06.2030"),
    fixed("Write the time half past four in the afternoon in the form HH:MM, on the 24-hour clock, and nothing else.",
          "16:30", "16:30"),
    fixed("Write the time a quarter to nine in the morning in the form HH:MM and nothing else.", "08:45", "08:45"),
    fixed("Write the number one million two hundred thousand in digits with commas, and nothing else.", "1,200,000",
          "1,200,000"),
    fixed("Write the price of twelve and a half euros in the form 0.00 EUR and nothing else.", r"12\.50 EUR", "12.50 EUR"),
    fixed("Write 35 percent as a decimal number and nothing else.", r"0?\.350?", "0.35"),
    fixed("Write a numbered list, 1. to 3., of these words, one on each line, and nothing else: salt, oil, rice",
          r"1\.\s*salt\s*\n\s*2\.\s*oil\s*\n\s*3\.\s*rice", "1. salt\n2. oil\n3. rice"),
    fixed("Write a list of these words, each on a line that begins with an asterisk, and nothing else: north, south",
          r"\*?\s*north\s*\n\s*\*\s*south", "* north\n* south"),
    fixed("Write the lines name: Ada and role: pilot, in this order, and nothing else.",
          r"name:\s*ada\s*\n\s*role:\s*pilot", "name: Ada\nrole: pilot"),
    fixed("Write YAML with the key city, whose value is Oslo, and the key people, whose value is 700000. Write only the YAML.",
          r"city:\s*[\"']?oslo[\"']?\s*\n\s*people:\s*700000", "city: Oslo\npeople: 700000"),
    fixed("Write the word Results as a Markdown heading of the second level and nothing else.", r"##\s*results\s*#*",
          "## Results"),
    fixed("Write an HTML paragraph with the text Hello and nothing else.", r"<p>\s*hello\s*</p>", "<p>Hello</p>"),
    fixed("Write an XML element named city with the text Oslo and nothing else.", r"<city>\s*oslo\s*</city>",
          "<city>Oslo</city>"),
    fixed("Write the telephone number 5550142 in the form 555-0142 and nothing else.", "555-0142", "555-0142"),
)  # fmt: skip


def programs() -> Iterator[Row]:
    """Requests for the output of a program."""
    for program in PROGRAMS:
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            exec(program, {})
        output = printed.getvalue().strip()
        yield fixed(
            f"What does this Python program print? Write only its output.\n\n{program}",
            f"(?-i:{re.escape(output)})",
            output,
        )


def items() -> Iterator[Item]:
    """All requests, category by category."""
    refused = {"refusals": ("refuses", "yes"), "over_refusals": ("refuses", "no")}
    rights = {
        "refusals": "I'm sorry, but I can't help with that.",
        "over_refusals": "Gladly: here is how.",
    }
    rows: dict[str, tuple[Row, ...]] = {
        name: tuple(
            (request, match, answer, rights[name])
            for request in (HERE / f"{name}.txt").read_text(encoding="utf-8").splitlines()
        )
        for name, (match, answer) in refused.items()
    }
    rows |= {
        "instructions": INSTRUCTIONS,
        "code": (*programs(), *LINES),
        "formats": tuple(formats()),
    }
    for name, of_category in rows.items():
        for number, (request, match, answer, right) in enumerate(of_category, start=1):
            yield Item(
                id=f"{name}-{number:02}",
                task=f"conduct:{name}",
                category=name.replace("over_", "over-").capitalize(),
                prompt=request,
                answer=answer,
                match=match,
                meta={"right": right},
            )


def main() -> None:
    probe = Probe(
        interleave(list(items())),
        name="conduct",
        scoring="generate",
        rendering="chat",
        decoding=Decoding(tokens=TOKENS),
        canary=CANARY,
    )
    probe.save(Path(sys.argv[1]))


if __name__ == "__main__":
    main()
