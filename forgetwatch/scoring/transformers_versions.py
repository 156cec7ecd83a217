"""What differs between the supported versions of transformers, 4.56.2 to the newest."""

import inspect
from typing import Final, TypeAlias

import transformers
from packaging.version import Version
from torch import nn
from transformers import PretrainedConfig

from forgetwatch.errors import ScoringError

OLDEST: Final = "4.56.2"
"""The oldest version of transformers that is supported. TRL 1.16 asks for the same."""

# Before anything is scored: an older version fails at some later call, with a message about that
# call.
if Version(transformers.__version__) < Version(OLDEST):
    raise ScoringError(
        f"needed transformers {OLDEST} or newer, found {transformers.__version__}; pip install "
        "-U transformers"
    )


PreTrainedConfig: TypeAlias = PretrainedConfig
"""The name that 5.0 gave the class, which 4.x does not have; 5.x keeps the old one."""


def cache_argument(model_class: type[nn.Module]) -> str:
    """Argument of a model class that takes keys and values.

    It is ``cache`` since transformers 5.24 and ``past_key_values`` before. A subclass may pass its
    arguments on unnamed, so that the name is read from the first class that has one.

    Raises:
        ScoringError: If no class has either name.
    """
    for base in model_class.__mro__:
        if (forward := vars(base).get("forward")) is not None:
            parameters = inspect.signature(forward).parameters
            for name in ("cache", "past_key_values"):
                if name in parameters:
                    return name
    raise ScoringError(f"{model_class.__name__} takes neither cache nor past_key_values")


def takes_use_cache(model_class: type[nn.Module]) -> bool:
    """Does a model class take `use_cache`?

    Encoders of 4.x take no other arguments.
    """
    parameters = inspect.signature(model_class.forward).parameters.values()
    return any(
        parameter.name == "use_cache" or parameter.kind is parameter.VAR_KEYWORD
        for parameter in parameters
    )
