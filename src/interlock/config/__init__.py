"""Settings: from a flag, else the environment, else the file, else the default."""

from interlock.config.lanes import lanes
from interlock.config.resolve import Resolved, resolve
from interlock.config.settings import ClientSettings, Settings, check
from interlock.config.tokens import Token

__all__ = ["ClientSettings", "Resolved", "Settings", "Token", "check", "lanes", "resolve"]
