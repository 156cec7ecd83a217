"""Settings of every test: no network, one thread, and the folder of real data where there is one."""

import gc
import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from short_looks import FEW_PROMPTS, no_picture
from versions import CONSTRAINTS, UPSTREAM, differing

os.environ["OMP_NUM_THREADS"] = "1"  # tiny models: threads would only wait for each other
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["HF_HUB_DISABLE_TELEMETRY"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["WANDB_MODE"] = "offline"

with suppress(ModuleNotFoundError):  # most tests need no generated examples
    from hypothesis import settings

    # A busy machine is no failure; the number of examples bounds the time.
    settings.register_profile("unhurried", deadline=None)
    settings.load_profile("unhurried")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--full", action="store_true", help="run repetitions and rarer cases, too")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out repetitions and rarer cases, unless they are asked for by the option, by name, or by their marker."""
    if config.getoption("--full") or config.option.markexpr or any("::" in given for given in config.args):
        return
    lines = (Path(__file__).parent / "left_out.txt").read_text(encoding="utf-8").splitlines()
    names = tuple(f"tests/{line.strip()}" for line in lines if line.startswith("    "))
    left_out = [item for item in items if item.get_closest_marker("full") or item.nodeid.startswith(names)]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        gone = set(left_out)
        items[:] = [item for item in items if item not in gone]


def pytest_collection_finish() -> None:
    """Keep what was imported out of every later search for garbage, which each training makes and waits for."""
    gc.collect()
    gc.freeze()


def pytest_configure(config: pytest.Config) -> None:
    """Show the warnings of other packages about coming changes where a version is not the tested one: do not raise."""
    if differing(CONSTRAINTS.read_text(encoding="utf-8")):
        for warning in UPSTREAM:
            config.addinivalue_line("filterwarnings", f"default::{warning}")


def pytest_report_header() -> list[str]:
    others = differing(CONSTRAINTS.read_text(encoding="utf-8"))
    return [f"not as in constraints.txt, so that {UPSTREAM[0]} is no error: {', '.join(others)}"] if others else []


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder of real files by others, named by FORGETWATCH_REAL_DATA."""
    folder = os.environ.get("FORGETWATCH_REAL_DATA")
    if not folder:
        pytest.skip("FORGETWATCH_REAL_DATA names no folder of real files")
    return Path(folder)


@pytest.fixture(autouse=True, scope="session")
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Keep the tests away from the user's cache, and from what an earlier run of the tests left in it."""
    folder = tmp_path_factory.mktemp("cache")
    os.environ.setdefault("FORGETWATCH_CACHE", str(folder))
    return folder


@pytest.fixture(autouse=True, scope="module")
def few_drift_prompts() -> Iterator[None]:
    """Measure the drift of a run on few prompts: every training of the tests begins with these completions."""
    with pytest.MonkeyPatch.context() as patch:
        # Tests that load no torch have none to shorten.
        if (module := sys.modules.get("forgetwatch.run.drift")) is not None:
            patch.setattr(module, "PROMPTS", FEW_PROMPTS)
        yield


@pytest.fixture(autouse=True, scope="module")
def trainings_without_pictures(request: pytest.FixtureRequest) -> Iterator[None]:
    """Leave the pictures out of the pages of trainings: they take longer than the training of a tiny model.

    Tests of pages and pictures, and those from end to end, have them.
    """
    folder = request.path.relative_to(Path(__file__).parent).parts[0]
    with pytest.MonkeyPatch.context() as patch:
        if folder == "run" and (module := sys.modules.get("forgetwatch.report.html")) is not None:
            patch.setattr(module, "svg", no_picture)
        yield
