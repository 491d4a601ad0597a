"""Which machine this is, who wrote the configuration, and when a deployment may begin."""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest

from intent_board.config import Deploy
from intent_board.deploy.host import DeployRefused, Host, label, prove_configuration, prove_identity
from intent_board.deploy.window import opens_at


@pytest.fixture
def host(tmp_path: Path) -> Host:
    (tmp_path / "hostname").write_text("blunix\n")
    (tmp_path / "NIXOS").touch()
    return Host(
        hostname=lambda: "blunix", hostname_file=tmp_path / "hostname", nixos_marker=tmp_path / "NIXOS",
        config_file=tmp_path / "etc/board.toml",
    )  # fmt: skip


@pytest.mark.parametrize("name", ["blunix", "BLUNIX", "Blunix.example.org", "blunix.", "  blunix\n"])
def test_a_host_name_compares_without_case_and_domain(host: Host, name: str) -> None:
    host.hostname_file.write_text(name)
    assert prove_identity(replace(host, hostname=lambda: name), Deploy()) == "blunix"


@pytest.mark.parametrize(
    "name",
    ["", ".", "-blunix", "blu nix", "blun\u0456x", "\uff42lunix", "blunix\x00", "../blunix", "localhost", "blunix2"],
)
def test_any_other_name_is_refused(host: Host, name: str) -> None:
    with pytest.raises(DeployRefused):
        prove_identity(replace(host, hostname=lambda: name), Deploy())
    host.hostname_file.write_text(name)
    with pytest.raises(DeployRefused):
        prove_identity(host, Deploy())


@pytest.mark.parametrize("name", ["tnix", "PINIX", "tnix.example.org"])
def test_locked_hosts_are_refused_by_name_whatever_the_configuration_says(host: Host, name: str) -> None:
    host.hostname_file.write_text(name)
    # A configuration that forgets them, and calls one of them its host.
    permissive = Deploy.model_construct(host=name, locked_hosts=())
    with pytest.raises(DeployRefused, match="locked host"):
        prove_identity(replace(host, hostname=lambda: name), permissive)


def test_a_host_that_the_configuration_locks_is_refused(host: Host) -> None:
    with pytest.raises(DeployRefused, match="locked host"):
        prove_identity(host, Deploy.model_construct(host="blunix", locked_hosts=("BLUNIX",)))


def test_the_two_names_of_a_host_must_agree(host: Host) -> None:
    host.hostname_file.write_text("other\n")
    with pytest.raises(DeployRefused, match="no remote mode"):
        prove_identity(host, Deploy())
    host.hostname_file.unlink()
    with pytest.raises(DeployRefused, match="cannot be read"):
        prove_identity(host, Deploy())


def test_only_nixos_is_deployed_to(host: Host) -> None:
    host.nixos_marker.unlink()
    with pytest.raises(DeployRefused, match="no NixOS"):
        prove_identity(host, Deploy())


def test_no_environment_variable_changes_the_host(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HOSTNAME", "HOST", "INTENT_BOARD_HOST", "INTENT_BOARD_CONFIG", "NIXOS_CONFIG"):
        monkeypatch.setenv(name, "tnix")
    assert prove_identity(host, Deploy()) == "blunix"
    assert Host().config_file == Path("/etc/intent-board/board.toml")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to give files to other users")
def test_a_configuration_that_others_can_write_is_not_believed(host: Host) -> None:
    with pytest.raises(DeployRefused, match="cannot be read"):
        prove_configuration(host)
    host.config_file.parent.mkdir()
    host.config_file.touch(0o644)
    prove_configuration(host)
    os.chown(host.config_file, 12345, 0)
    with pytest.raises(DeployRefused, match="not believed"):
        prove_configuration(host)
    os.chown(host.config_file, 0, 0)
    host.config_file.chmod(0o664)
    with pytest.raises(DeployRefused, match="not believed"):
        prove_configuration(host)
    host.config_file.chmod(0o644)
    host.config_file.parent.chmod(0o777)
    with pytest.raises(DeployRefused, match="not believed"):
        prove_configuration(host)


def test_a_link_into_a_strangers_directory_is_not_believed(host: Host, tmp_path: Path) -> None:
    host.config_file.parent.mkdir()
    stranger = tmp_path / "stranger.toml"
    stranger.touch(0o666)
    stranger.chmod(0o666)
    host.config_file.symlink_to(stranger)
    with pytest.raises(DeployRefused, match="not believed"):
        prove_configuration(host)


def test_a_user_that_is_root_under_another_name_is_refused(host: Host) -> None:
    with pytest.raises(DeployRefused, match="has no user"):
        host.account("no-such-user-here")


@pytest.mark.parametrize(
    ("window", "now", "opens"),
    [
        (None, "12:00", None),
        ("22:00-06:00", "23:30", None),
        ("22:00-06:00", "05:59", None),
        ("22:00-06:00", "06:00", "22:00"),
        ("22:00-06:00", "12:00", "22:00"),
        ("08:00-17:00", "08:00", None),
        ("08:00-17:00", "17:00", "next 08:00"),
        ("08:00-17:00", "07:59", "08:00"),
        ("00:00-00:00", "03:00", None),
    ],
)
def test_a_deployment_waits_for_its_window(window: str | None, now: str, opens: str | None) -> None:
    found = opens_at(window, datetime.fromisoformat(f"2026-03-10T{now}:30"))
    if opens is None:
        assert found is None
    else:
        day = "11" if opens.startswith("next ") else "10"
        assert found == datetime.fromisoformat(f"2026-03-{day}T{opens.removeprefix('next ')}:00")


@pytest.mark.parametrize("name", ["a" * 64, "a..b".replace("a", ""), "_x"])
def test_what_is_no_label_is_no_host_name(name: str) -> None:
    with pytest.raises(DeployRefused, match="not a host name"):
        label(name)
