"""A study as YAML: stages, their pairs of models, and how each side is read or scored.

name: instruction tuning at three sizes     default: the file's name
probe: standard                             scores the models; files of outcomes need none
decoding: {temperature: 0.6, top_p: 0.95, samples: 3, tokens: 32768}
rendering: chat                             plain or chat, if not that of the probe
categories: mine.csv                        another map of tasks to categories
on_mismatch: intersect                      compare the items that all files of a pair have; default: error
allow_prompt_mismatch: true                 the two sides may read different prompts
chance: paper-compat                        the paper's numbers as its released code computes them; default: own
stages:
  - name: instruction tuning
    kind: from-base                         or continual-pretraining, from-instruct: for the paper's findings
    pairs:
      - name: llama-3.1-8b
        size: 8B                            parameters
        data: 1e6                           scale of the data, in the study's own unit
        family: llama-3                     pairs that share a base or recipe; default: those of one base
        covariates: {method: SFT, mix: 3}   numbers and words that forgetting may go with; see `factors`.
                                            weight_distance: measured reads the weights of two models
        train: rows.jsonl                   training set, or a list: were questions near to it lost?
        before: logs/base.parquet           a model, snapshot, table or log
        after: [seed0.jsonl, seed1.jsonl]   a list: one for each seed
      - name: qwen2.5-7b
        before: {path: Qwen/Qwen2.5-7B, probe: mine.jsonl, decoding: {tokens: 4096}}
        after: {path: all.parquet, where: {model: tuned}, map: {correct: eval.right}, set: {k: 4}, metric: acc}
      - name: qwen merged
        before: Qwen/Qwen2.5-7B
        after: {merge: [Qwen/Qwen2.5-7B, Qwen/Qwen2.5-7B-Instruct], alpha: .2}    a share of the second, 0 to 1

Paths are relative to the file. Every scalar stays the text in the file. A side with one answer to each
question is compared with each seed of a side with several, be they a list of files or the samples of one. Everything
that the file itself shows to be wrong is an error before any model is scored.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, get_args

from forgetwatch.comparing.checks import OnMismatch
from forgetwatch.comparing.comparison import ChanceRule
from forgetwatch.decoding import Decoding
from forgetwatch.errors import ForgetwatchError, StudyError, did_you_mean
from forgetwatch.files.reading import Plain, read_plain_yaml
from forgetwatch.item import Rendering
from forgetwatch.readers.mapping import ColumnMap
from forgetwatch.readers.outcomes import SUFFIXES

_SCORED: Final = ("probe", "decoding", "rendering")
_COMPARED: Final = ("on_mismatch", "allow_prompt_mismatch")
_TOP: Final = ("name", *_SCORED, "categories", *_COMPARED, "chance", "stages")
_STAGE: Final = ("name", "kind", "pairs")
_PAIR: Final = (
    "name",
    "family",
    "size",
    "data",
    "covariates",
    "train",
    "before",
    "after",
    *_COMPARED,
)
_MERGE: Final = ("merge", "alpha", *_SCORED)
_SOURCE: Final = ("path", *_SCORED, "metric", "where", "map", "set", "match")
Kind = Literal["continual-pretraining", "from-base", "from-instruct"]
"""What a stage does, as far as a finding of the paper asks for it: training on a domain; post-training of base models,
instruction tuning included; post-training of instruct models."""
DISTANCE: Final = "weight_distance"
"""Covariate whose value may be `MEASURED`: distance of the weights after from those before, relative to the latter."""
MEASURED: Final = "measured"
_TIMES: Final = {"K": 1e3, "M": 1e6, "B": 1e9, "T": 1e12}


@dataclass(frozen=True, kw_only=True)
class Source:
    """One model, snapshot, table or log of a side."""

    given: str  # its path or model id as the file names it
    location: str  # the path from here, or the model id
    probe: str | None = None  # scores it if it is a model
    decoding: Mapping[str, Any] = field(
        default_factory=dict
    )  # settings that differ from the probe's
    rendering: Rendering | None = None  # replaces the probe's
    metric: str | None = None  # decides, if a log has several
    columns: ColumnMap | None = None  # those of a table under other names, and the rows that count
    merge: tuple[str, str] | None = None  # locations of the two models that are averaged
    alpha: float = 0.0  # share of the second


@dataclass(frozen=True, kw_only=True)
class Pair:
    """A model before and after one step of its training.

    Attributes:
        name: Its name, unique in the study.
        size: Number of parameters; None if the file gives none.
        data: Scale of the data of the step, in the unit of the study; None likewise.
        family: Name of the family that it belongs to: that of the file, else its base.
        names_family: True if the file names it.
        kind: What its stage does; None if the file does not say.
        covariates: Numbers and words that forgetting may go with, by name.
        train: Files of its training set.
        before: One source for each seed; a single one stands for all seeds.
        after: The same, after.
    """

    stage: str
    name: str
    family: str
    names_family: bool
    kind: Kind | None
    size: float | None
    data: float | None
    covariates: Mapping[str, float | str]
    train: tuple[Path, ...]
    before: tuple[Source, ...]
    after: tuple[Source, ...]
    on_mismatch: OnMismatch
    allow_prompt_mismatch: bool


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A study as its file describes it.

    Attributes:
        categories: File of another map of tasks to categories; None for the snapshots' own.
        chance: Rule of the paper's tables; see `compare`.
        stages: Names of the stages, in their order.
        pairs: The pairs of all stages, in their order; at least one.
    """

    name: str
    path: Path
    categories: Path | None
    chance: ChanceRule
    stages: tuple[str, ...]
    pairs: tuple[Pair, ...]

    @property
    def sources(self) -> list[Source]:
        """The sources of all sides."""
        return [source for pair in self.pairs for source in (*pair.before, *pair.after)]

    @property
    def asks_for_findings(self) -> bool:
        """True if the file says what a stage does, or merges models, so that findings of the paper can be asked."""
        return any(pair.kind for pair in self.pairs) or any(source.merge for source in self.sources)


def read_plan(path: Path, *, probe: str | None = None) -> Plan:
    """Read the file of a study; `probe` replaces the file's own for sides that name none.

    Raises:
        StudyError: If the file cannot be read, has an unknown key, lacks a needed one, or names a pair or a stage
            twice.
    """
    given = _mapping(read_plain_yaml(path, "a study in YAML", StudyError), str(path), _TOP)
    defaults: dict[str, Plain] = {
        name: given[name] for name in (*_SCORED, *_COMPARED) if name in given
    }
    if probe is not None:
        defaults["probe"] = str(Path(probe).absolute()) if Path(probe).is_file() else probe
    reader = _Reader(path, defaults)
    stages: dict[str, list[Pair]] = {}
    for number, entry in enumerate(_list(given, "stages", str(path)), 1):
        stage = _mapping(entry, f"{path}: stage {number}", _STAGE)
        name = _text(stage, "name", f"{path}: stage {number}")
        if name in stages:
            raise StudyError(
                f"{path}: the stage {_short(name)} is there twice; give each stage a name of its own"
            )
        where = f"{path}: stage {_short(name)}"
        kind = _choice(stage["kind"], get_args(Kind), f"{where}: kind") if "kind" in stage else None
        stages[name] = [reader.pair(one, where, name, kind) for one in _list(stage, "pairs", where)]
    _check_kinds([pair for pairs in stages.values() for pair in pairs], path)
    return Plan(
        name=_text(given, "name", str(path)) if "name" in given else path.stem,
        path=path,
        categories=path.parent / _text(given, "categories", str(path))
        if "categories" in given
        else None,
        chance=_choice(given.get("chance", "own"), get_args(ChanceRule), f"{path}: chance"),
        stages=tuple(stages),
        pairs=tuple(pair for pairs in stages.values() for pair in pairs),
    )


class _Reader:
    """Reads the pairs of a file, with what its top level sets for all of them."""

    def __init__(self, path: Path, defaults: Mapping[str, Plain]) -> None:
        self._path, self._defaults = path, defaults
        self._named: dict[str, str] = {}
        for (
            name
        ) in _SCORED:  # a wrong default is an error of the file, also where every side has its own
            if name in defaults:
                self._scored({name: defaults[name]}, str(path))

    def pair(self, given: Plain, where: str, stage: str, kind: Kind | None) -> Pair:
        """Return one pair of a stage; `where` names the stage in messages."""
        name = _text(_mapping(given, f"{where}: a pair"), "name", f"{where}: a pair")
        where = f"{where}: pair {_short(name)}"
        entry = _mapping(given, where, _PAIR)
        if name in self._named:
            raise StudyError(
                f"{where}: the name is there twice, first in stage {_short(self._named[name])}; give each pair a name "
                "of its own"
            )
        self._named[name] = stage
        if lacking := [side for side in ("before", "after") if side not in entry]:
            raise StudyError(f"{where}: needed before and after, {lacking[0]} is missing")
        before, after = (
            self._side(entry[side], f"{where}: {side}") for side in ("before", "after")
        )
        if min(len(before), len(after)) > 1 and len(before) != len(after):
            raise StudyError(
                f"{where}: {len(before)} seeds before and {len(after)} after; give as many on both sides, or one on "
                "one side, which is then compared with each of the other"
            )
        on_mismatch, allowed = (entry.get(name, self._defaults.get(name)) for name in _COMPARED)
        return Pair(
            stage=stage,
            name=name,
            family=_text(entry, "family", where) if "family" in entry else before[0].given,
            names_family="family" in entry,
            kind=kind,
            train=self._files(entry.get("train", []), f"{where}: train"),
            covariates=_covariates(entry.get("covariates", {}), f"{where}: covariates"),
            size=_number(entry["size"], f"{where}: size") if "size" in entry else None,
            data=_number(entry["data"], f"{where}: data") if "data" in entry else None,
            before=before,
            after=after,
            on_mismatch=_choice(
                on_mismatch or "error", get_args(OnMismatch), f"{where}: on_mismatch"
            ),
            allow_prompt_mismatch=_truth(allowed or "false", f"{where}: allow_prompt_mismatch"),
        )

    def _files(self, given: Plain, where: str) -> tuple[Path, ...]:
        names = [given] if isinstance(given, str) else given
        if not isinstance(names, list) or not all(isinstance(one, str) for one in names):
            raise StudyError(f"{where}: needed a path or a list of paths, got {_short(given)}")
        paths = tuple(self._path.parent / str(one) for one in names)
        for path in paths:
            if not _is_there(path, where) or not path.is_file():
                raise StudyError(f"{where}: {path}: no such file")
        return paths

    def _side(self, given: Plain, where: str) -> tuple[Source, ...]:
        entries = [given] if isinstance(given, (str, dict)) else list(given)
        if not entries:
            raise StudyError(f"{where}: needed a path or a model id, got an empty list")
        return tuple(self._source(entry, where) for entry in entries)

    def _merged(self, given: Mapping[str, Plain], where: str) -> Source:
        """Return the source of a merge, which is made and scored."""
        models, alpha = given["merge"], given.get("alpha")
        if (
            not isinstance(models, list)
            or len(models) != 2
            or not all(isinstance(one, str) for one in models)
        ):
            raise StudyError(f"{where}: merge: needed two models, [A, B], got {_short(models)}")
        share = _value(alpha) if isinstance(alpha, str) else None
        if isinstance(share, bool) or not isinstance(share, (int, float)) or not 0 <= share <= 1:
            raise StudyError(
                f"{where}: alpha: needed the share of {models[1]}, 0 to 1, got {_short(alpha)}"
            )
        scored = self._scored({**self._defaults, **given}, where)
        if "probe" not in scored:
            raise StudyError(
                f"{where}: merge: needed a probe (probe: NAME, or --probe), which scores the merged model"
            )
        a, b = (self._location(str(one), where) for one in models)
        label = f"{models[0]} with {share} of {models[1]}"
        return Source(given=label, location=label, merge=(a, b), alpha=float(share), **scored)

    def _source(self, given: Plain, where: str) -> Source:
        if isinstance(given, dict) and "merge" in given:
            return self._merged(_mapping(given, where, _MERGE), where)
        entry = {"path": given} if isinstance(given, str) else _mapping(given, where, _SOURCE)
        named = _text(entry, "path", where)
        columns = (
            _columns(entry, where)
            if any(name in entry for name in ("where", "map", "set", "match"))
            else None
        )
        if columns is not None and "metric" in entry:
            raise StudyError(
                f"{where}: metric is for logs of other tools; map: {{correct: ...}} names the column"
            )
        scored = self._scored({**self._defaults, **entry}, where)
        if (
            "decoding" in entry and "decoding" in self._defaults
        ):  # those of a side add to those of the study
            for_all = self._scored({"decoding": self._defaults["decoding"]}, where)["decoding"]
            scored["decoding"] = {**for_all, **scored["decoding"]}
        return Source(
            given=named,
            location=self._location(named, where),
            metric=_text(entry, "metric", where) if "metric" in entry else None,
            columns=columns,
            **scored,
        )

    def _location(self, named: str, where: str) -> str:
        """Return the path of what is named, from here; a model id as it is."""
        local = self._path.parent / named
        if _is_there(local, where):
            return str(local)
        if not (named.startswith((".", "/")) or Path(named).suffix in SUFFIXES):
            return named
        # Next to the file "./x" is "x", which would be looked up as a model id.
        return str(local) if str(local).startswith((".", "/")) else f"./{local}"

    def _scored(self, given: Mapping[str, Plain], where: str) -> dict[str, Any]:
        """Return the settings by which a model is scored."""
        found: dict[str, Any] = {}
        if "probe" in given:
            named = _text(given, "probe", where)
            local = self._path.parent / named
            found["probe"] = (
                str(local) if _is_there(local, f"{where}: probe") and local.is_file() else named
            )
        if "decoding" in given:
            settings = _mapping(given["decoding"], f"{where}: decoding")
            found["decoding"] = {name: _value(value) for name, value in settings.items()}
            try:
                # The number of samples needs a temperature, which may be that of the probe.
                Decoding.of({"temperature": 1.0, **found["decoding"]})
            except ForgetwatchError as error:
                raise StudyError(f"{where}: {error}") from error
        if "rendering" in given:
            found["rendering"] = _choice(
                given["rendering"], get_args(Rendering), f"{where}: rendering"
            )
        return found


def _columns(entry: Mapping[str, Plain], where: str) -> ColumnMap:
    named = {
        name: {key: _text(pairs, key, f"{where}: {name}") for key in pairs}
        for name in ("map", "where", "set")
        for pairs in [_mapping(entry.get(name, {}), f"{where}: {name}")]
    }
    match = _text(entry, "match", where) if "match" in entry else None
    try:
        return ColumnMap(
            fields=named["map"], where=named["where"], constants=named["set"], match=match
        )
    except ForgetwatchError as error:
        raise StudyError(f"{where}: {error}") from error


def _covariates(given: Plain, where: str) -> dict[str, float | str]:
    """Return the covariates of a pair: numbers, such as 8B or -0.5, and words."""
    found: dict[str, float | str] = {}
    for name, value in _mapping(given, where).items():
        if name in ("stage", "size", "data"):
            raise StudyError(
                f"{where}: {name} is a key of the {'file' if name == 'stage' else 'pair'} itself"
            )
        if not isinstance(value, str) or not value.strip():
            raise StudyError(
                f"{where}: needed a number or a word under {_short(name)}, got {_short(value)}"
            )
        found[name] = _covariate(name, value.strip(), where)
        if name == DISTANCE:
            _check_distance(found[name], f"{where}: {name}")
    return found


def _covariate(name: str, value: str, where: str) -> float | str:
    if value.lower() in ("null", "~", "nan", ".nan", "none"):
        raise StudyError(
            f"{where}: needed a number or a word under {_short(name)}; leave out what is not known"
        )
    if value.endswith("%"):
        raise StudyError(
            f"{where}: needed a number under {_short(name)}, such as 0.3 for 30 %, got {_short(value)}"
        )
    try:
        number = float(value)
    except ValueError:
        return _number(value, where) if re.fullmatch(r"[\d.,_]+[KMBTkmbt]", value) else value
    if not math.isfinite(number):
        raise StudyError(
            f"{where}: needed a finite number under {_short(name)}, got {_short(value)}"
        )
    return number


def _check_distance(value: float | str, where: str) -> None:
    is_number = isinstance(value, float) and value >= 0
    if value != MEASURED and not is_number:
        raise StudyError(
            f"{where}: needed {MEASURED}, or a number of at least 0, got {_short(str(value))}"
        )


def _check_kinds(pairs: Sequence[Pair], path: Path) -> None:
    """Raise StudyError for a covariate that is a number in some pairs and a word in others."""
    for name in dict.fromkeys(name for pair in pairs for name in pair.covariates):
        given = {type(pair.covariates[name]): pair for pair in pairs if name in pair.covariates}
        if len(given) > 1 and name != DISTANCE:
            raise StudyError(
                f"{path}: covariate {_short(name)} is a number in pair {_short(given[float].name)} and a word in pair "
                f"{_short(given[str].name)}; give all pairs one of both"
            )


def _is_there(path: Path, where: str) -> bool:
    """Return True if there is a file or folder.

    StudyError if the system cannot tell, as for a name that is too long.
    """
    try:
        return path.exists()
    except OSError as error:
        raise StudyError(
            f"{where}: {_short(str(path))} cannot be looked up ({error.strerror})"
        ) from error


def _mapping(given: Plain, where: str, known: tuple[str, ...] | None = None) -> dict[str, Plain]:
    if not isinstance(given, dict):
        raise StudyError(f"{where}: needed a mapping (key: value), got {_short(given)}")
    if known is not None and (unknown := [key for key in given if key not in known]):
        meant = did_you_mean(unknown[0], known)
        raise StudyError(
            f"{where}: unknown key {_short(unknown[0])}{meant}; the keys are {', '.join(known)}"
        )
    return given


def _list(given: Mapping[str, Plain], name: str, where: str) -> list[Plain]:
    found = given.get(name)
    if isinstance(found, (str, dict, type(None))) or not found:
        raise StudyError(
            f"{where}: needed a list under {name}, at least one entry, got {_short(found)}"
        )
    return list(found)


def _text(given: Mapping[str, Plain], name: str, where: str) -> str:
    found = given.get(name)
    if not isinstance(found, str) or not found.strip():
        raise StudyError(f"{where}: needed a text under {name}, got {_short(found)}")
    return found


def _choice(given: Plain, allowed: tuple[Any, ...], where: str) -> Any:
    if given not in allowed:
        near = did_you_mean(given, allowed) if isinstance(given, str) else ""
        raise StudyError(f"{where}: needed {' or '.join(allowed)}, got {_short(given)}{near}")
    return given


def _truth(given: Plain, where: str) -> bool:
    return bool(
        _choice(given.lower() if isinstance(given, str) else given, ("true", "false"), where)
        == "true"
    )


def _number(given: Plain, where: str) -> float:
    """Return a number above 0, such as 8e9 or 8B."""
    # A comma only between groups of three digits: 1,5 is not 15.
    pattern = r"\s*((?:\d{1,3}(?:,\d{3})+|[\d_]*)(?:\.\d*)?(?:[eE][+-]?\d+)?)\s*([KMBTkmbt]?)\s*"
    found = re.fullmatch(pattern, given) if isinstance(given, str) else None
    try:
        value = (
            float(found[1].replace(",", "")) * _TIMES.get(found[2].upper(), 1)
            if found
            else math.nan
        )
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value > 0):
        raise StudyError(
            f"{where}: needed a number above 0, such as 8e9 or 8B, got {_short(given)}"
        )
    return value


def _value(given: Plain) -> Any:
    """Return a setting as a number or a truth value, if it is spelled as one; else its text or list of texts."""
    if not isinstance(given, str):
        return given
    try:
        found = json.loads(given)
    except ValueError:
        # .6 and 1. are numbers in YAML, and none in JSON.
        return float(given) if re.fullmatch(r"\d*\.\d+|\d+\.", given) else given
    return found if isinstance(found, (int, float, bool, list)) else given


def _short(given: Plain | None) -> str:
    text = "nothing" if given is None else repr(given)
    return text if len(text) <= 80 else f"{text[:79]}…"
