"""The plugin for axolotl, with a stand-in of its base class; and with axolotl's own where that is installed."""

import importlib
import importlib.util
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml
from support import model, probe, tokenizer

from forgetwatch import Trajectory
from forgetwatch.errors import WatchError

pytest.importorskip("pydantic")
_AXOLOTL = importlib.util.find_spec("axolotl") is not None


class _BasePlugin:
    """The methods of axolotl's plugins that are called around a training."""

    def __init__(self) -> None:
        pass

    def register(self, cfg: Any) -> None:
        raise NotImplementedError

    def get_input_args(self) -> str | None:
        return None

    def add_callbacks_pre_trainer(self, cfg: Any, model: Any) -> list[Any]:
        return []

    def add_callbacks_post_trainer(self, cfg: Any, trainer: Any) -> list[Any]:
        raise NotImplementedError


class _DictDefault(dict[str, Any]):
    """As axolotl's: a key that is missing is None, and keys are attributes."""

    def __missing__(self, key: str) -> None:
        return None


@pytest.fixture(params=["stand-in", "axolotl"])
def plugin_module(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[ModuleType]:
    if request.param == "axolotl":
        if not _AXOLOTL:
            pytest.skip("axolotl is not installed")
        base = importlib.import_module("axolotl.integrations.base")
    else:
        base = ModuleType("axolotl.integrations.base")
        base.__dict__["BasePlugin"] = _BasePlugin
        monkeypatch.setitem(sys.modules, "axolotl", ModuleType("axolotl"))
        monkeypatch.setitem(sys.modules, "axolotl.integrations", ModuleType("axolotl.integrations"))
    monkeypatch.setitem(sys.modules, "axolotl.integrations.base", base)
    monkeypatch.delitem(sys.modules, "forgetwatch.axolotl", raising=False)
    module = importlib.import_module("forgetwatch.axolotl")
    assert issubclass(module.ForgetWatchPlugin, base.BasePlugin)
    yield module
    sys.modules.pop("forgetwatch.axolotl", None)


def trainer(folder: Path) -> Any:
    from datasets import Dataset
    from transformers import Trainer, TrainingArguments

    tok = tokenizer()
    rows = [{"input_ids": [5 + n, 6 + n, 7], "labels": [5 + n, 6 + n, 7]} for n in range(8)]
    arguments = TrainingArguments(
        str(folder / "run"),
        max_steps=3,
        per_device_train_batch_size=2,
        report_to=[],
        use_cpu=True,
        save_strategy="no",
    )
    return Trainer(
        model(tok), arguments, train_dataset=Dataset.from_list(rows), processing_class=tok
    )


@pytest.mark.filterwarnings("ignore:'pin_memory' argument is set as true")
def test_a_training_with_the_plugin_leaves_its_looks(
    plugin_module: ModuleType, tmp_path: Path
) -> None:
    probe().save(tmp_path / "p.jsonl")
    block = _DictDefault(
        probe=str(tmp_path / "p.jsonl"), every=[1, 3], max_overhead=None, drift=False
    )
    cfg = _DictDefault(forgetwatch=block)
    plugin = plugin_module.ForgetWatchPlugin()
    plugin.register(cfg)
    made = trainer(tmp_path)
    # As axolotl's builders do, once the trainer is made.
    for callback in plugin.add_callbacks_post_trainer(cfg, made):
        made.add_callback(callback)
    made.train()
    assert list(Trajectory.from_run(tmp_path / "run").steps)[-2:] == [1, 3]


def test_without_a_block_the_callback_has_its_defaults(
    plugin_module: ModuleType, tmp_path: Path
) -> None:
    plugin = plugin_module.ForgetWatchPlugin()
    plugin.register(_DictDefault())
    (callback,) = plugin.add_callbacks_post_trainer(_DictDefault(), trainer(tmp_path))
    assert callback.probe.name == "standard"
    assert callback.settings.max_overhead == 0.02


@pytest.mark.parametrize(
    ("block", "message"),
    [
        ({"prob": "standard"}, r"unknown name 'prob', did you mean 'probe'\?"),
        ("standard", "needed a block of names and values"),
    ],
)
def test_a_wrong_block_is_refused_before_a_model_is_loaded(
    plugin_module: ModuleType, block: Any, message: str
) -> None:
    with pytest.raises(WatchError, match=message):
        plugin_module.ForgetWatchPlugin().register({"forgetwatch": block})


def test_the_schema_of_the_block_is_found_by_its_path(plugin_module: ModuleType) -> None:
    # axolotl imports it by this path, and makes a class of it and its own.
    module, name = plugin_module.ForgetWatchPlugin().get_input_args().rsplit(".", 1)
    schema = getattr(importlib.import_module(module), name)
    assert schema(forgetwatch={"probe": "standard", "guard": None}).forgetwatch == {
        "probe": "standard",
        "guard": None,
    }
    assert schema().forgetwatch is None
    with pytest.raises(ValueError, match="unknown name 'prob'"):
        schema(forgetwatch={"prob": "standard"})


@pytest.mark.skipif(not _AXOLOTL, reason="axolotl is not installed")
def test_axolotls_manager_loads_the_plugin_and_hands_its_callback_out(tmp_path: Path) -> None:
    from axolotl.integrations.base import PluginManager

    manager = PluginManager.get_instance()
    manager.register("forgetwatch.axolotl.ForgetWatchPlugin")
    assert "forgetwatch.axolotl.ForgetWatchArgs" in manager.get_input_args()
    (callback,) = manager.add_callbacks_post_trainer(
        _DictDefault(forgetwatch={"every": 7}), trainer(tmp_path)
    )
    assert callback.every == 7


def test_the_block_of_the_page_is_accepted(plugin_module: ModuleType) -> None:
    page = (Path(__file__).parent.parent / "docs" / "how-to" / "trainers.md").read_text(
        encoding="utf-8"
    )
    (block,) = re.findall(r"```yaml\n(.*?)```", page, flags=re.DOTALL)
    read = yaml.safe_load(block)
    plugin = read["plugins"][0].rsplit(".", 1)
    assert getattr(importlib.import_module(plugin[0]), plugin[1]) is plugin_module.ForgetWatchPlugin
    assert set(plugin_module.settings(read["forgetwatch"], key="forgetwatch")) == {
        "probe",
        "every",
        "max_overhead",
        "guard",
    }
