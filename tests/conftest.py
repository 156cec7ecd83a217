"""Settings of every test: no network, one thread, and the folder of real data where there is one."""

import gc
import os
from contextlib import suppress
from pathlib import Path

import pytest
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
    """Leave out repetitions and rarer cases, unless they are asked for by the option, by name, or by their marker.

    The marker names the beginnings of the cases that are left out, of a test of several, and the reason for all.
    """
    marked = {item: mark for item in items if (mark := item.get_closest_marker("full")) is not None}
    named: dict[tuple[str, tuple[str, ...]], set[str]] = {}
    left_out = set()
    for item, mark in marked.items():
        if "reason" not in mark.kwargs:
            raise pytest.UsageError(f"{item.nodeid}: mark.full needs its reason")
        case = item.name.partition("[")[2]
        hits = {start for start in mark.args if case.startswith(start)}
        named.setdefault((item.nodeid.partition("[")[0], mark.args), set()).update(hits)
        if hits or not mark.args:
            left_out.add(item)
    if (
        config.getoption("--full")
        or config.option.markexpr
        or any("::" in given for given in config.args)
    ):
        return
    for (test, starts), hits in named.items():
        if missing := set(starts) - hits:
            raise pytest.UsageError(
                f"{test}: mark.full names cases that are not there: {', '.join(sorted(missing))}"
            )
    config.hook.pytest_deselected(items=[item for item in items if item in left_out])
    items[:] = [item for item in items if item not in left_out]


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
    return (
        [f"not as in constraints.txt, so that {UPSTREAM[0]} is no error: {', '.join(others)}"]
        if others
        else []
    )


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
