r"""Text of other people, made safe for a terminal, a spreadsheet, and pages that are passed on.

    visible            "red \x1b[31m"                  red ⟨U+001B⟩[31m       a terminal obeys control characters
    csv_cell           "=HYPERLINK(...)"               '=HYPERLINK(...)       a spreadsheet runs formulas
    without_folders    "/home/me/work/probe.jsonl"     probe.jsonl            a page names no folder of its machine

Names of models, categories and tasks, texts of items, and paths come from files that other people
made. Marks of writing direction, which can reverse the order of what is shown, are made visible
too. So are characters that take no room: with one of them two names would look alike.
"""

import re
from typing import Final

# Controls but tab and newline, marks of direction, lone surrogates (no UTF-8 has them),
# noncharacters; characters without a shape of their own: with one of them two names would look
# alike. Joiners belong into
# some scripts and emoji.
_UNSEEN: Final = re.compile(
    "[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff"
    "\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180e\u200b\u2060-\u2065\u206a-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb"
    "\U000e0000-\U000e007f]"
    "|(?:(?<=[\u0000-\u024f])|^)[\u200c\u200d]"
)
# A sign that begins a formula, in ASCII or in full width, also after white space.
# The apostrophes of a text that looks as if it was made safe before.
_FORMULA: Final = re.compile(r"'*(?:\s*[=+\-@＝＋－＠]|[\t\r\n])")
# Two or more folders and a name, from the root, a drive, or a share.
_ABSOLUTE: Final = re.compile(
    r"(?<![\w./\\:~])(?:~|[A-Za-z]:|\\)?(?:[/\\][^/\\\s'\"<>|:;,()]+)+[/\\]([^/\\\s'\"<>|:;,()]+)"
)


def visible(text: str) -> str:
    r"""Make control characters, marks of direction and blanks visible.

    Line breaks and tabs are kept.

    >>> visible("a\x00b\u202ec\r\nd"), visible("Ma\u200bth")
    ('a⟨U+0000⟩b⟨U+202E⟩c\nd', 'Ma⟨U+200B⟩th')
    """
    return _UNSEEN.sub(lambda match: f"⟨U+{ord(match[0]):04X}⟩", text.replace("\r\n", "\n"))


def csv_cell(text: str) -> str:
    """Prepare a text for a cell of a CSV table.

    Control characters are made visible; an apostrophe stands before what a spreadsheet would run.

    Numbers are no text and need none: a spreadsheet reads ``-0.5`` as a number.

    >>> csv_cell("=1+1"), csv_cell("Math"), csv_cell("-")
    ("'=1+1", 'Math', "'-")
    """
    text = visible(text)
    return f"'{text}" if _FORMULA.match(text) else text


def from_csv_cell(cell: str) -> str:
    """Text of a cell that `csv_cell` made.

    >>> from_csv_cell("'=1+1"), from_csv_cell("'tis")
    ('=1+1', "'tis")
    """
    return cell[1:] if cell.startswith("'") and _FORMULA.match(cell) else cell


def without_folders(text: str) -> str:
    """Replace each absolute path by its last name.

    >>> without_folders("3 tasks are not in /home/me/work/map.csv, and 1/2 or a/b is no path")
    '3 tasks are not in map.csv, and 1/2 or a/b is no path'
    """
    return _ABSOLUTE.sub(lambda match: match[1], text)
