"""Questions on stories: MuSR (long, several steps of reasoning) and MCTest (for children).

Questions on one story are a cluster: they flip together. Rendering of MuSR: as lm-evaluation-harness 0.4
(tasks/leaderboard/musr); MCTest is in no harness release and is asked as MMLU is.
"""

from __future__ import annotations

import ast
from typing import Any, Final

from forgetwatch.probes.hub.preset import Preset, Source
from forgetwatch.probes.hub.question import (
    BadRowError,
    Question,
    Row,
    behind,
    cluster_of,
    field_of,
    label_of,
    letters,
    listed,
)

_LONGEST: Final = 10_000
"""Characters of a list of options written out; nothing longer is parsed."""


def _musr(row: Row, source: Source) -> Question:
    story, question = str(field_of(row, "narrative")), str(field_of(row, "question"))
    options = _options(row)
    lines = "".join(f"{number} - {option}\n" for number, option in enumerate(options, start=1))
    gold = label_of(row, "answer_index", range(len(options)))
    return Question(
        prompt=f"{story}\n\n{question}\n\n{lines}\nAnswer:",
        choices=behind(options),
        answer=gold,
        question=f"{story}\n\n{question}",
        options=options,
        cluster=cluster_of(story),
    )


def _options(row: Row) -> tuple[str, ...]:
    """The options: a list, or a list written out as Python; under `choices` or, in some copies, `options`."""
    given: Any = row.get("choices") or row.get("options")
    if isinstance(given, str) and len(given) <= _LONGEST:
        try:
            given = ast.literal_eval(given)
        except (ValueError, SyntaxError, MemoryError, RecursionError) as error:
            raise BadRowError(f"needed a list of options, and it is {given[:80]!r}") from error
    if not isinstance(given, (list, tuple)) or not given:
        raise BadRowError(f"needed a list of options, and it is {str(given)[:80]!r}")
    return tuple(map(str, given))


def _mctest(row: Row, source: Source) -> Question:
    story, question = str(field_of(row, "story")).replace("\\newline", "\n"), str(field_of(row, "question"))
    listing = field_of(row, "answer_options")
    options = tuple(str(listing[letter]) for letter in "ABCD")
    return Question(
        prompt=f"{story}\n\n{question}{listed(options)}\nAnswer:",
        choices=letters(len(options)),
        answer=label_of(row, "answer", "ABCD"),
        question=f"{story}\n\n{question}",
        options=options,
        cluster=cluster_of(story),
    )


PRESETS: Final = (
    Preset(
        name="musr",
        about="murders, hidden things, teams",
        items="756",
        k="2 to 5",
        licence="CC-BY-4.0",
        sources=tuple(
            Source(dataset="TAUR-Lab/MuSR", split=name, task=f"musr_{name}", part=name)
            for name in ("murder_mysteries", "object_placements", "team_allocation")
        ),
        question=_musr,
        norm="chars",
        note="about 1,000 tokens an item",
    ),
    Preset(
        name="mctest",
        about="children's stories",
        items="840",
        k="4",
        licence="other: research only",
        sources=tuple(
            Source(
                dataset="sagnikrayc/mctest",
                split="test",
                task="mctest",
                config=config,
                part=config,
                examples="train",
                revision="refs/convert/parquet",
                files=f"{config}/{{split}}/*.parquet",
            )
            for config in ("mc160", "mc500")
        ),
        question=_mctest,
        note="its main revision is a script, which is not run; the hub's own copy as Parquet is read",
    ),
)
