"""Plugin for axolotl: `ForgetWatchCallback` in its trainers, set by a block of the YAML.

    plugins:
      - forgetwatch.axolotl.ForgetWatchPlugin
    forgetwatch:              # may be left out: all keys have the callback's defaults
      probe: standard
      every: 200
      guard: stop

The keys of the block are the arguments of `ForgetWatchCallback`. Nothing of forgetwatch imports
this module: axolotl does, by the plugin's name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from axolotl.integrations.base import BasePlugin
from pydantic import BaseModel, Field, field_validator

from forgetwatch.errors import WatchError
from forgetwatch.run.callback import ForgetWatchCallback
from forgetwatch.trl import settings

if TYPE_CHECKING:
    from transformers import Trainer

BLOCK: Final = "forgetwatch"
"""Key of the plugin's settings in the YAML."""


class ForgetWatchArgs(BaseModel):  # type: ignore[misc]  # pydantic comes with axolotl, and is not installed here
    """Part of axolotl's configuration that the plugin adds."""

    forgetwatch: dict[str, Any] | None = Field(
        default=None, description="Arguments of ForgetWatchCallback."
    )

    @field_validator(BLOCK)  # type: ignore[untyped-decorator]
    @classmethod
    def _check(cls, block: dict[str, Any] | None) -> dict[str, Any] | None:
        try:
            return None if block is None else settings(block, key=BLOCK)
        except WatchError as error:
            raise ValueError(str(error)) from error


class ForgetWatchPlugin(BasePlugin):  # type: ignore[misc]  # axolotl is not installed here
    """Adds the callback to every trainer that axolotl makes."""

    def register(self, cfg: Mapping[str, Any]) -> None:
        """Check the keys of the block, before a model is loaded."""
        settings(cfg.get(BLOCK), key=BLOCK)

    def get_input_args(self) -> str:
        """Name the class that describes the block.

        Returns:
            Its import path.
        """
        return f"{ForgetWatchArgs.__module__}.{ForgetWatchArgs.__name__}"

    def add_callbacks_post_trainer(
        self, cfg: Mapping[str, Any], trainer: Trainer
    ) -> list[ForgetWatchCallback]:
        """Build the callback that axolotl adds to its trainer."""
        callback = ForgetWatchCallback(**settings(cfg.get(BLOCK), key=BLOCK))
        callback.attach(trainer)
        return [callback]
