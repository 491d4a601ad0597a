"""What is said when an answer is refused."""

from __future__ import annotations

import re
from enum import StrEnum


class Code(StrEnum):
    """Why an answer was refused, as a stable word.  docs/contracts.md explains each."""

    TOO_LARGE = "too_large"
    NO_BLOCK = "no_block"
    MANY_BLOCKS = "many_blocks"
    TEXT_AROUND = "text_around"
    FENCE = "fence"
    MALFORMED_BLOCK = "malformed_block"
    NOT_JSON = "not_json"
    DUPLICATE_KEY = "duplicate_key"
    NOT_A_NUMBER = "not_a_number"
    INTEGER_TOO_LARGE = "integer_too_large"
    SURROGATE = "surrogate"
    NESTING = "nesting"
    UNKNOWN_FIELD = "unknown_field"
    CLAIM = "claim"
    MISSING_FIELD = "missing_field"
    WRONG_TYPE = "wrong_type"
    WRONG_VALUE = "wrong_value"
    NOT_NULL = "not_null"
    EMPTY = "empty"
    WHITE_SPACE = "white_space"
    INVISIBLE_CHARACTER = "invisible_character"
    OUT_OF_RANGE = "out_of_range"
    WRONG_COUNT = "wrong_count"
    DUPLICATE = "duplicate"
    PATTERN = "pattern"
    PATH = "path"
    UNKNOWN_LANE = "unknown_lane"
    PROFILE = "profile"
    MODEL_POOL = "model_pool"
    EFFORT = "effort"
    SLUG = "slug"
    UNKNOWN_CHILD = "unknown_child"
    WAVE = "wave"
    OVERLAP = "overlap"
    INTENT = "intent"
    WRONG_COMMIT = "wrong_commit"
    WRONG_NONCE = "wrong_nonce"
    CRITERIA = "criteria"
    CONTRADICTION = "contradiction"


class ContractError(Exception):
    """An answer that its contract does not accept.

    `path` is the JSON path of the first fault (`$` is the whole answer), `reason` one line that says what is wrong
    and what would be right, `code` the stable word for programs.  `str()` is `path: reason`, one line.
    """

    def __init__(self, code: Code, reason: str, path: str = "$") -> None:
        super().__init__(code, reason, path)
        self.code, self.reason, self.path = code, reason, path

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"

    def under(self, step: str) -> ContractError:
        """The same error, found below `step` (`.children[2]`)."""
        self.path = f"${step}{self.path[1:]}"
        return self


def step(key: str) -> str:
    """A field name as one step of a JSON path; a name that is none of ours can't break the line."""
    return f".{key}" if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,79}", key) else f"[{shown(key)}]"


def shown(value: object) -> str:
    """A value of an answer for a message: one line, printable, short."""
    if not isinstance(value, str):
        return {dict: "an object", list: "a list", type(None): "null", bool: str(value).lower()}.get(
            type(value), f"{value}"[:40]
        )
    return repr(value if len(value) <= 80 else value[:77] + "...")
