"""The served stub."""

from stub_server import stub

__all__ = ["stub"]
