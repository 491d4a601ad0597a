"""What the tests of the contracts share; the answers themselves are in contract_answers.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from contract_answers import PARENT, answer, refusal
from hypothesis import settings

from intent_board import config as configuration
from intent_board.config import BoardConfig
from intent_board.contracts import Code
from intent_board.contracts.operator import Decision, parse_decision

# The same examples in every run: a test that fails on one machine fails on all.
settings.register_profile("same", derandomize=True, deadline=None, max_examples=300)
settings.load_profile("same")


@pytest.fixture(scope="session")
def config() -> BoardConfig:
    return configuration.example()


@pytest.fixture
def decide(config: BoardConfig) -> Callable[[Any], Decision]:
    """Parse an Operator's answer around a value."""
    return lambda value: parse_decision(answer(value), parent_slug=PARENT, config=config)


@pytest.fixture
def refused(decide: Callable[[Any], Decision]) -> Callable[[Any], tuple[str, Code]]:
    """The path and the code of the error that an Operator's value is refused with."""

    def check(value: Any) -> tuple[str, Code]:
        return refusal(lambda: decide(value))

    return check
