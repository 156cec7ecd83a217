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
                                            weight_distance: measured reads the weights of two
                                                models
        train: rows.jsonl                   training set, or a list: were questions near to it lost?
        before: logs/base.parquet           a model, snapshot, table or log
        after: [seed0.jsonl, seed1.jsonl]   a list: one for each seed
      - name: qwen2.5-7b
        before: {path: Qwen/Qwen2.5-7B, probe: mine.jsonl, decoding: {tokens: 4096}}
        after: {path: all.parquet, where: {model: tuned}, map: {correct: eval.right}, set: {k: 4},
            metric: acc}
      - name: qwen merged
        before: Qwen/Qwen2.5-7B
        after: {merge: [Qwen/Qwen2.5-7B, Qwen/Qwen2.5-7B-Instruct], alpha: .2}    a share of the second, 0 to 1

Paths are relative to the file. Every scalar stays the text in the file. A side with one answer to
each question is compared with each seed of a side with several, be they a list of files or the
samples of one. Everything that the file itself shows to be wrong is an error before any model is
scored.
"""

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
        """Sources of all sides."""
        return [source for pair in self.pairs for source in (*pair.before, *pair.after)]

    @property
    def asks_for_findings(self) -> bool:
        """Can findings of the paper be tested?

        The file says what a stage does, or merges models.
        """
        return any(pair.kind for pair in self.pairs) or any(source.merge for source in self.sources)


def read_plan(path: Path, *, probe: str | None = None) -> Plan:
    """Read the file of a study.

    `probe` replaces the file's own for sides without one.

    Raises:
        StudyError: If the file cannot be read, has an unknown key, lacks a needed one, or names a
            pair or a stage twice.
    """
    study_given = _mapping(read_plain_yaml(path, "a study in YAML", StudyError), str(path), _TOP)
    defaults: dict[str, Plain] = {
        name: study_given[name] for name in (*_SCORED, *_COMPARED) if name in study_given
    }
    if probe is not None:
        defaults["probe"] = str(Path(probe).absolute()) if Path(probe).is_file() else probe
    reader = _Reader(path, defaults)
    stages: dict[str, list[Pair]] = {}
    for number, entry in enumerate(_list(study_given, "stages", str(path)), 1):
        stage = _mapping(entry, f"{path}: stage {number}", _STAGE)
        name = _text(stage, "name", f"{path}: stage {number}")
        if name in stages:
            raise StudyError(
                f"{path}: the stage {_short(name)} is there twice; give each stage a name of "
                "its own"
            )
        where = f"{path}: stage {_short(name)}"
        kind = _choice(stage["kind"], get_args(Kind), f"{where}: kind") if "kind" in stage else None
        stages[name] = [
            reader.pair(pair_given, where, name, kind)
            for pair_given in _list(stage, "pairs", where)
        ]
    _check_kinds([pair for pairs in stages.values() for pair in pairs], path)
    return Plan(
        name=_text(study_given, "name", str(path)) if "name" in study_given else path.stem,
        path=path,
        categories=path.parent / _text(study_given, "categories", str(path))
        if "categories" in study_given
        else None,
        chance=_choice(study_given.get("chance", "own"), get_args(ChanceRule), f"{path}: chance"),
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

    def pair(self, pair_given: Plain, where: str, stage: str, kind: Kind | None) -> Pair:
        """Read one pair of a stage.

        `where` names the stage in messages.
        """
        name = _text(_mapping(pair_given, f"{where}: a pair"), "name", f"{where}: a pair")
        where = f"{where}: pair {_short(name)}"
        entry = _mapping(pair_given, where, _PAIR)
        if name in self._named:
            raise StudyError(
                f"{where}: the name is there twice, first in stage {_short(self._named[name])}; "
                "give each pair a name of its own"
            )
        self._named[name] = stage
        if lacking := [side for side in ("before", "after") if side not in entry]:
            raise StudyError(f"{where}: needed before and after, {lacking[0]} is missing")
        before, after = (
            self._side(entry[side], f"{where}: {side}") for side in ("before", "after")
        )
        if min(len(before), len(after)) > 1 and len(before) != len(after):
            raise StudyError(
                f"{where}: {len(before)} seeds before and {len(after)} after; give as many on "
                "both sides, or one on one side, which is then compared with each of the other"
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

    def _files(self, files_given: Plain, where: str) -> tuple[Path, ...]:
        names = [files_given] if isinstance(files_given, str) else files_given
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise StudyError(
                f"{where}: needed a path or a list of paths, got {_short(files_given)}"
            )
        paths = tuple(self._path.parent / str(name) for name in names)
        for path in paths:
            if not _is_there(path, where) or not path.is_file():
                raise StudyError(f"{where}: {path}: no such file")
        return paths

    def _side(self, side_given: Plain, where: str) -> tuple[Source, ...]:
        entries = [side_given] if isinstance(side_given, (str, dict)) else list(side_given)
        if not entries:
            raise StudyError(f"{where}: needed a path or a model id, got an empty list")
        return tuple(self._source(entry, where) for entry in entries)

    def _merged(self, merge_given: Mapping[str, Plain], where: str) -> Source:
        # A merge is made and scored.
        models, alpha = merge_given["merge"], merge_given.get("alpha")
        if (
            not isinstance(models, list)
            or len(models) != 2
            or not all(isinstance(model, str) for model in models)
        ):
            raise StudyError(f"{where}: merge: needed two models, [A, B], got {_short(models)}")
        share = _value(alpha) if isinstance(alpha, str) else None
        if isinstance(share, bool) or not isinstance(share, (int, float)) or not 0 <= share <= 1:
            raise StudyError(
                f"{where}: alpha: needed the share of {models[1]}, 0 to 1, got {_short(alpha)}"
            )
        scored = self._scored({**self._defaults, **merge_given}, where)
        if "probe" not in scored:
            raise StudyError(
                f"{where}: merge: needed a probe (probe: NAME, or --probe), which scores the "
                "merged model"
            )
        a, b = (self._location(str(model), where) for model in models)
        label = f"{models[0]} with {share} of {models[1]}"
        return Source(given=label, location=label, merge=(a, b), alpha=float(share), **scored)

    def _source(self, source_given: Plain, where: str) -> Source:
        if isinstance(source_given, dict) and "merge" in source_given:
            return self._merged(_mapping(source_given, where, _MERGE), where)
        entry = (
            {"path": source_given}
            if isinstance(source_given, str)
            else _mapping(source_given, where, _SOURCE)
        )
        path_named = _text(entry, "path", where)
        columns = (
            _columns(entry, where)
            if any(name in entry for name in ("where", "map", "set", "match"))
            else None
        )
        if columns is not None and "metric" in entry:
            raise StudyError(
                f"{where}: metric is for logs of other tools; map: {{correct: ...}} names the "
                "column"
            )
        scored = self._scored({**self._defaults, **entry}, where)
        if (
            "decoding" in entry and "decoding" in self._defaults
        ):  # those of a side add to those of the study
            for_all = self._scored({"decoding": self._defaults["decoding"]}, where)["decoding"]
            scored["decoding"] = {**for_all, **scored["decoding"]}
        return Source(
            given=path_named,
            location=self._location(path_named, where),
            metric=_text(entry, "metric", where) if "metric" in entry else None,
            columns=columns,
            **scored,
        )

    def _location(self, path_named: str, where: str) -> str:
        # Relative to the file; a model id as it is.
        local = self._path.parent / path_named
        if _is_there(local, where):
            return str(local)
        if not (path_named.startswith((".", "/")) or Path(path_named).suffix in SUFFIXES):
            return path_named
        # Next to the file "./x" is "x", which would be looked up as a model id.
        return str(local) if str(local).startswith((".", "/")) else f"./{local}"

    def _scored(self, source_given: Mapping[str, Plain], where: str) -> dict[str, Any]:
        found: dict[str, Any] = {}
        if "probe" in source_given:
            probe_named = _text(source_given, "probe", where)
            local = self._path.parent / probe_named
            found["probe"] = (
                str(local)
                if _is_there(local, f"{where}: probe") and local.is_file()
                else probe_named
            )
        if "decoding" in source_given:
            settings = _mapping(source_given["decoding"], f"{where}: decoding")
            found["decoding"] = {name: _value(value) for name, value in settings.items()}
            try:
                # The number of samples needs a temperature, which may be that of the probe.
                Decoding.of({"temperature": 1.0, **found["decoding"]})
            except ForgetwatchError as error:
                raise StudyError(f"{where}: {error}") from error
        if "rendering" in source_given:
            found["rendering"] = _choice(
                source_given["rendering"], get_args(Rendering), f"{where}: rendering"
            )
        return found


def _columns(entry: Mapping[str, Plain], where: str) -> ColumnMap:
    columns = {
        name: {key: _text(pairs, key, f"{where}: {name}") for key in pairs}
        for name in ("map", "where", "set")
        for pairs in [_mapping(entry.get(name, {}), f"{where}: {name}")]
    }
    match = _text(entry, "match", where) if "match" in entry else None
    try:
        return ColumnMap(
            fields=columns["map"], where=columns["where"], constants=columns["set"], match=match
        )
    except ForgetwatchError as error:
        raise StudyError(f"{where}: {error}") from error


def _covariates(values: Plain, where: str) -> dict[str, float | str]:
    # Numbers, such as 8B or -0.5, and words.
    covariates: dict[str, float | str] = {}
    for name, value in _mapping(values, where).items():
        if name in ("stage", "size", "data"):
            raise StudyError(
                f"{where}: {name} is a key of the {'file' if name == 'stage' else 'pair'} itself"
            )
        if not isinstance(value, str) or not value.strip():
            raise StudyError(
                f"{where}: needed a number or a word under {_short(name)}, got {_short(value)}"
            )
        covariates[name] = _covariate(name, value.strip(), where)
        if name == DISTANCE:
            _check_distance(covariates[name], f"{where}: {name}")
    return covariates


def _covariate(name: str, value: str, where: str) -> float | str:
    if value.lower() in ("null", "~", "nan", ".nan", "none"):
        raise StudyError(
            f"{where}: needed a number or a word under {_short(name)}; leave out what is not known"
        )
    if value.endswith("%"):
        raise StudyError(
            f"{where}: needed a number under {_short(name)}, such as 0.3 for 30 %, got "
            f"{_short(value)}"
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
    # A covariate is a number in all pairs, or a word in all.
    for name in dict.fromkeys(name for pair in pairs for name in pair.covariates):
        kinds = {type(pair.covariates[name]): pair for pair in pairs if name in pair.covariates}
        if len(kinds) > 1 and name != DISTANCE:
            raise StudyError(
                f"{path}: covariate {_short(name)} is a number in pair {_short(kinds[float].name)} "
                f"and a word in pair {_short(kinds[str].name)}; give all pairs one of both"
            )


def _is_there(path: Path, where: str) -> bool:
    # The system may not be able to tell, as for a name that is too long.
    try:
        return path.exists()
    except OSError as error:
        raise StudyError(
            f"{where}: {_short(str(path))} cannot be looked up ({error.strerror})"
        ) from error


def _mapping(mapping: Plain, where: str, keys: tuple[str, ...] | None = None) -> dict[str, Plain]:
    if not isinstance(mapping, dict):
        raise StudyError(f"{where}: needed a mapping (key: value), got {_short(mapping)}")
    if keys is not None and (unknown := [key for key in mapping if key not in keys]):
        meant = did_you_mean(unknown[0], keys)
        raise StudyError(
            f"{where}: unknown key {_short(unknown[0])}{meant}; the keys are {', '.join(keys)}"
        )
    return mapping


def _list(mapping: Mapping[str, Plain], name: str, where: str) -> list[Plain]:
    value = mapping.get(name)
    if isinstance(value, (str, dict, type(None))) or not value:
        raise StudyError(
            f"{where}: needed a list under {name}, at least one entry, got {_short(value)}"
        )
    return list(value)


def _text(mapping: Mapping[str, Plain], name: str, where: str) -> str:
    value = mapping.get(name)
    if not isinstance(value, str) or not value.strip():
        raise StudyError(f"{where}: needed a text under {name}, got {_short(value)}")
    return value


def _choice(value: Plain, allowed: tuple[Any, ...], where: str) -> Any:
    if value not in allowed:
        near = did_you_mean(value, allowed) if isinstance(value, str) else ""
        raise StudyError(f"{where}: needed {' or '.join(allowed)}, got {_short(value)}{near}")
    return value


def _truth(value: Plain, where: str) -> bool:
    return bool(
        _choice(value.lower() if isinstance(value, str) else value, ("true", "false"), where)
        == "true"
    )


def _number(given: Plain, where: str) -> float:
    # Above 0, such as 8e9 or 8B.
    # A comma only between groups of three digits: 1,5 is not 15.
    pattern = r"\s*((?:\d{1,3}(?:,\d{3})+|[\d_]*)(?:\.\d*)?(?:[eE][+-]?\d+)?)\s*([KMBTkmbt]?)\s*"
    match = re.fullmatch(pattern, given) if isinstance(given, str) else None
    try:
        value = (
            float(match[1].replace(",", "")) * _TIMES.get(match[2].upper(), 1)
            if match
            else math.nan
        )
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value > 0):
        raise StudyError(
            f"{where}: needed a number above 0, such as 8e9 or 8B, got {_short(given)}"
        )
    return value


def _value(value: Plain) -> Any:
    # A number or a truth value, if spelled as one; else the text or list of texts.
    if not isinstance(value, str):
        return value
    try:
        parsed = json.loads(value)
    except ValueError:
        # .6 and 1. are numbers in YAML, and none in JSON.
        return float(value) if re.fullmatch(r"\d*\.\d+|\d+\.", value) else value
    return parsed if isinstance(parsed, (int, float, bool, list)) else value


def _short(value: Plain | None) -> str:
    value_text = "nothing" if value is None else repr(value)
    return value_text if len(value_text) <= 80 else f"{value_text[:79]}…"
