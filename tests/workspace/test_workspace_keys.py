"""Which key reaches a remote: the one that may push only for a push, and only where it was given."""

from __future__ import annotations

from pathlib import Path

import pytest

from intent_board.config import Repository
from intent_board.workspace import WorkspaceError
from intent_board.workspace.remote import access

BOTH = Repository(
    remote_url="ssh://git@forge.example.org/website.git", credential="push-key", fetch_credential="read-key"
)
PUSH_ONLY = BOTH.model_copy(update={"fetch_credential": None})


class Given:
    """The credentials of one process."""

    def __init__(self, directory: Path, *names: str) -> None:
        self._directory = directory
        for name in names:
            (directory / name).write_text(f"{name}\n")

    def path(self, name: str) -> Path | None:
        return self._directory / name if (self._directory / name).is_file() else None


def key(repository: Repository, given: Given, *, push: bool) -> str:
    """The file that ssh is told to use."""
    command = access("website", repository, given, push=push)[1]["GIT_SSH_COMMAND"]
    return Path(command.split(" -i ")[1].split()[0]).name


def test_a_push_takes_the_key_that_may_push_and_reading_the_other(tmp_path: Path) -> None:
    given = Given(tmp_path, "push-key", "read-key")
    assert key(BOTH, given, push=True) == "push-key"
    assert key(BOTH, given, push=False) == "read-key"


def test_a_unit_without_the_push_key_reads_all_the_same(tmp_path: Path) -> None:
    assert key(BOTH, Given(tmp_path, "read-key"), push=False) == "read-key"
    assert key(PUSH_ONLY, Given(tmp_path), push=False) == "null"


def test_the_publish_unit_reads_with_its_only_key(tmp_path: Path) -> None:
    assert key(PUSH_ONLY, Given(tmp_path, "push-key"), push=False) == "push-key"


@pytest.mark.parametrize(("push", "missing"), [(True, "push-key"), (False, "read-key")])
def test_a_key_that_was_not_given_is_named(tmp_path: Path, push: bool, missing: str) -> None:
    with pytest.raises(WorkspaceError, match=f"'{missing}' of repository 'website' is not loaded here"):
        access("website", BOTH, Given(tmp_path), push=push)


def test_nothing_is_taken_for_a_push_that_needs_no_key(tmp_path: Path) -> None:
    given = Given(tmp_path, "read-key")
    assert key(BOTH.model_copy(update={"credential": None}), given, push=True) == "null"
