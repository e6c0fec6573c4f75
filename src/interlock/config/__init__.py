"""Settings: from a flag, else the environment, else the file, else the default."""

from interlock.config.resolve import Resolved, resolve
from interlock.config.settings import ClientSettings, Settings, check, lanes
from interlock.config.tokens import Token

__all__ = ["ClientSettings", "Resolved", "Settings", "Token", "check", "lanes", "resolve"]
