"""No network, whichever way the tests of this folder are started."""

import os

for name in ("HF_HUB_OFFLINE", "HF_HUB_DISABLE_TELEMETRY"):
    os.environ.setdefault(name, "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault(
    "OMP_NUM_THREADS", "1"
)  # small models on the CPU: threads would only wait for each other
