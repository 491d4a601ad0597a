"""What an option of the module is called in board.toml, and what board.toml's keys are."""

from __future__ import annotations

import re
from typing import Any, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

#: What only NixOS knows; everything else is in the file.
ONLY_NIX = {"enable", "package", "credentials", "tools", "extraSettings", "configFile", "units", "runtimes.*.package"}


def snake(name: str) -> str:
    return re.sub("[A-Z]", lambda found: "_" + found.group().lower(), name)


def camel(name: str) -> str:
    return re.sub("_([a-z])", lambda found: found.group(1).upper(), name)


def fields(model: type[BaseModel], at: str = "") -> dict[str, FieldInfo]:
    """The leaves of board.toml by path, `*` for a user's own name."""
    found: dict[str, FieldInfo] = {}
    for name, field in model.model_fields.items():
        kind: Any = field.annotation
        inner = get_args(kind)[-1] if get_origin(kind) is dict else kind
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            found |= fields(inner, f"{at}{name}.*." if inner is not kind else f"{at}{name}.")
        else:
            found[f"{at}{name}"] = field
    return found
