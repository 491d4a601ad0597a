"""Wrong values are refused while NixOS evaluates, by a message that names the option; right ones go through."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from intent_board import config

REPOSITORY = 'repositories.website.remoteUrl = "https://forge.example.org/website.git";'
SSH = 'repositories.website.remoteUrl = "ssh://git@forge.example.org/website.git";'

#: What is wrong: (what a person wrote into services.intent-board, the option's name, a word of the reason).
WRONG_BOARD: dict[str, tuple[str, str, str]] = {
    "unknown option": ("lane = { };", "services.intent-board.lane", "does not exist"),
    "unknown key of a section": ('board.ownr = "lukas";', "board.ownr", "does not exist"),
    "unknown key of a lane": ("lanes.schwer.iterations = 3;", "lanes.schwer.iterations", "does not exist"),
    "unknown key of a queue": ("queues.review.slot = 2;", "queues.review.slot", "does not exist"),
    "unknown key of a runtime": ('runtimes.codex.comand = [ "x" ];', "runtimes.codex.comand", "does not exist"),
    "unknown key of a role": ('roles.builder.text = "x";', "roles.builder.text", "does not exist"),
    "unknown key of a repository": ('repositories.website.url = "x";', "repositories.website.url", "does not exist"),
    "snake_case": ("limits.max_children = 3;", "limits.max_children", "does not exist"),
    "lane without a runtime": (
        'lanes.mittel = { phase = "in_umsetzung"; model = "gpt-5.6-luna"; };',
        "lanes.mittel.runtime",
        "no value defined",
    ),
    "lane without a phase": (
        'lanes.mittel = { runtime = "codex"; model = "gpt-5.6-luna"; };',
        "lanes.mittel.phase",
        "no value defined",
    ),
    "lane whose runtime does not exist": (
        'lanes.schwer.runtime = "codx";',
        "lanes.schwer.runtime",
        "no runtime `codx`",
    ),
    "lane in a phase that is none": ('lanes.schwer.phase = "umsetzung";', "lanes.schwer.phase", "not of type"),
    "model outside the pool": ('lanes.schwer.model = "gpt-4";', "lanes.schwer.model", "is not in"),
    "lane without a model": ("lanes.schwer.model = null;", "lanes.schwer.model", "needs a model"),
    "model with a space": ('lanes.schwer.model = "gpt 5";', "lanes.schwer.model", "model name"),
    "effort that Claude lacks": (
        'runtimes.claude = { kind = "claude"; package = pkgs.claude-code; };'
        'lanes.schwer = { runtime = "claude"; model = "sonnet"; };',
        "lanes.schwer.reasoningEffort",
        "claude takes no effort `none`",
    ),
    "iteration limit 4": ("lanes.schwer.iterationLimit = 4;", "lanes.schwer.iterationLimit", "between 5 and 40"),
    "iteration limit 41": ("lanes.schwer.iterationLimit = 41;", "lanes.schwer.iterationLimit", "between 5 and 40"),
    "iteration limit as text": ('lanes.schwer.iterationLimit = "20";', "lanes.schwer.iterationLimit", "not of type"),
    "lane outside the limits": ("limits.iterationLimitMax = 15;", "lanes.schwer.iterationLimit", "outside"),
    "limits the wrong way round": (
        "limits = { iterationLimitMin = 30; iterationLimitMax = 20; };",
        "limits.iterationLimitMin",
        "is above",
    ),
    "eleven children": ("limits.maxChildren = 11;", "limits.maxChildren", "between 1 and 10"),
    "three rungs": ("limits.maxEscalationSteps = 3;", "limits.maxEscalationSteps", "between 0 and 2"),
    "no lanes": ("lanes = lib.mkForce { };", "services.intent-board.lanes", "at least one lane"),
    "no concurrency": ("lanes.schwer.concurrency = 0;", "lanes.schwer.concurrency", "between 1 and 16"),
    "lane name with a dot": (
        'lanes."a.b" = { phase = "in_umsetzung"; runtime = "codex"; model = "gpt-5.6-luna"; };',
        'lanes."a.b"',
        "rename it",
    ),
    "lane name with a specifier": (
        'lanes."a%n" = { phase = "in_umsetzung"; runtime = "codex"; model = "gpt-5.6-luna"; };',
        'lanes."a%n"',
        "rename it",
    ),
    "synthesis lane that does not exist": (
        'scheduler.synthesisLane = "mittel";',
        "scheduler.synthesisLane",
        "no lane `mittel`",
    ),
    "backoff the wrong way round": (
        "scheduler.outageBackoffInitialSeconds = 3600; scheduler.outageBackoffMaxSeconds = 60;",
        "scheduler.outageBackoffInitialSeconds",
        "is above",
    ),
    "empty pool": ("modelPools.codex = [ ];", "modelPools.codex", "not of type"),
    "pool with a model twice": (
        'modelPools.claude = [ "sonnet" "sonnet" ];',
        "modelPools.claude",
        "twice",
    ),
    "pool that is no list": ('modelPools.codex = "gpt-5.6-luna";', "modelPools.codex", "not of type"),
    "runtime without a program": (
        "runtimes.codex.package = lib.mkForce null;",
        "runtimes.codex.package",
        "has no program",
    ),
    "command outside the store": (
        'runtimes.codex.command = [ "/usr/bin/codex" ];',
        "runtimes.codex.command",
        "nothing else exists in the sandbox",
    ),
    "empty command": ("runtimes.codex.command = [ ];", "runtimes.codex.command", "not of type"),
    "runtime of an unknown kind": ('runtimes.gemini.kind = "gemini";', "runtimes.gemini.kind", "not of type"),
    "variable that is none": ('runtimes.codex.environment."A-B" = "x";', "runtimes.codex.environment", "not of type"),
    "value of two lines": ('runtimes.codex.environment.A = "x\\ny";', "runtimes.codex.environment.A", "control"),
    "credential that nobody gave": (
        'runtimes.codex.credentials.OPENAI_API_KEY = "other";',
        "credentials.other",
        "is missing",
    ),
    "secret in the store": (
        'credentials.openai-api-key = lib.mkForce "${builtins.storeDir}/00000000000000000000000000000000-key";',
        "credentials.openai-api-key",
        "not in the Nix store",
    ),
    "secret as a path literal": (
        "credentials.openai-api-key = lib.mkForce ./eval.nix;",
        "credentials.openai-api-key",
        "not in the Nix store",
    ),
    "secret with a specifier": (
        'credentials.openai-api-key = lib.mkForce "/run/%n/key";',
        "credentials.openai-api-key",
        "plain characters",
    ),
    "secret with a second line": (
        'credentials.openai-api-key = lib.mkForce "/run/key\\nExecStartPre=/bin/evil";',
        "credentials.openai-api-key",
        "plain characters",
    ),
    "secret by a relative path": (
        'credentials.openai-api-key = lib.mkForce "secrets/key";',
        "credentials.openai-api-key",
        "absolute",
    ),
    "secret that goes up": (
        'credentials.openai-api-key = lib.mkForce "/run/../etc/key";',
        "credentials.openai-api-key",
        "plain characters",
    ),
    "queue that does not exist": ('queues.revue.role = "reviewer";', "queues.revue", "no such queue"),
    "builder queue among the queues": (
        'queues.builder-schwer.role = "operator";',
        "queues.builder-schwer",
        "come from the lanes",
    ),
    "queue without a role": (
        'queues = lib.mkForce { operator = { runtime = "codex"; model = "gpt-5.6-sol"; }; };',
        "queues.operator.role",
        "no value defined",
    ),
    "queue with another's role": ('queues.review.role = "fixer";', "queues.review.role", "must be `reviewer`"),
    "queue that is missing": (
        'queues = lib.mkForce { operator = { role = "operator"; runtime = "codex"; model = "gpt-5.6-sol"; }; };',
        "queues.review",
        "is missing",
    ),
    "queue without a runtime": ("queues.operator.runtime = null;", "queues.operator.runtime", "is missing"),
    "review with a model of its own": (
        'queues.review.model = "gpt-5.6-sol";',
        "queues.review.model",
        "attempt's own profile",
    ),
    "publish with a runtime": ('queues.publish.runtime = "codex";', "queues.publish.runtime", "runs no model"),
    "zero slots": ("queues.review.slots = 0;", "queues.review.slots", "between 1 and 16"),
    "two deployers": ("queues.deploy.slots = 2;", "queues.deploy.slots", "must be 1"),
    "no time": ("queues.review.timeoutMinutes = 0;", "queues.review.timeoutMinutes", "between 1 and 1440"),
    "role that does not exist": ("roles.tester = { };", "roles.tester", "no such role"),
    "empty owner": ('board.owner = lib.mkForce "";', "board.owner", "user or group name"),
    "owner who is the service": ('board.owner = lib.mkForce "intent-board";', "board.owner", "is no person"),
    "group whose members are root's": ('board.group = "root";', "board.group", "group of the system"),
    "group of the daemon's builders": ('board.group = "nixbld";', "board.group", "group of the system"),
    "state below /home": ('board.stateDir = "/home/lukas/board";', "board.stateDir", "which no unit"),
    "relative state": ('board.stateDir = "board";', "board.stateDir", "absolute"),
    "database of another kind": ('board.database = "postgresql:///board";', "board.database", "SQLite"),
    "default repository that does not exist": (
        'board.defaultRepository = "website";',
        "board.defaultRepository",
        "no repository `website`",
    ),
    "repository without a remote": (
        "repositories.website = { };",
        "repositories.website.remoteUrl",
        "no value defined",
    ),
    "two repositories on one remote": (
        SSH + 'repositories.twin.remoteUrl = "ssh://git@forge.example.org/website";',
        "repositories.twin.remoteUrl",
        "is the same place as",
    ),
    "two repositories on one remote, the short form": (
        SSH + 'repositories.twin.remoteUrl = "git@forge.example.org:website.git";',
        "repositories.twin.remoteUrl",
        "is the same place as",
    ),
    "two repositories on one path": (
        'repositories.one.remoteUrl = "/srv/git/one.git"; repositories.two.remoteUrl = "file:///srv//git/./one.git/";',
        "repositories.two.remoteUrl",
        "is the same place as",
    ),
    "protected path outside the repository": (
        REPOSITORY + 'repositories.website.protectedPaths = [ "/etc" ];',
        "repositories.website.protectedPaths",
        "inside the repository",
    ),
    "protected path that goes up": (
        REPOSITORY + 'repositories.website.protectedPaths = [ "a/../../b" ];',
        "repositories.website.protectedPaths",
        "inside the repository",
    ),
    "allowed command with a second one": (
        'roles.builder.allowedCommands = [ "git log; evil" ];',
        "roles.builder.allowedCommands",
        "nothing for a shell",
    ),
    "allowed command with a pattern": (
        'roles.builder.allowedCommands = [ "git *" ];',
        "roles.builder.allowedCommands",
        "nothing for a shell",
    ),
    "repository below /home": (
        'repositories.website.remoteUrl = "/home/lukas/website.git";',
        "repositories.website.remoteUrl",
        "which no unit",
    ),
    "repository below /root, as a URL": (
        'repositories.website.remoteUrl = "file:///root/website.git";',
        "repositories.website.remoteUrl",
        "which no unit",
    ),
    "repository on a path with a specifier": (
        'repositories.website.remoteUrl = "/srv/%H.git";',
        "repositories.website.remoteUrl",
        "characters that a unit file",
    ),
    "password in a URL": (
        'repositories.website.remoteUrl = "https://lukas:hunter2@forge.example.org/website.git";',
        "repositories.website.remoteUrl",
        "holds a password",
    ),
    "remote that is an option of git": (
        'repositories.website.remoteUrl = "--upload-pack=evil";',
        "repositories.website.remoteUrl",
        "not of type",
    ),
    "remote by a relative path": (
        'repositories.website.remoteUrl = "website.git";',
        "repositories.website.remoteUrl",
        "must be an absolute path",
    ),
    "remote over a transport that git does not have": (
        'repositories.website.remoteUrl = "svn://forge.example.org/website";',
        "repositories.website.remoteUrl",
        "not supported",
    ),
    "key over a line that everybody reads": (
        'credentials.forge = "/run/secrets/forge";'
        'repositories.website = { remoteUrl = "http://forge.example.org/website.git"; credential = "forge"; };',
        "repositories.website.credential",
        "sent unprotected",
    ),
    "remote helper": (
        'repositories.website.remoteUrl = "ext::sh -c evil";',
        "repositories.website.remoteUrl",
        "remote helper",
    ),
    "branch with a space": (REPOSITORY + 'repositories.website.branch = "a b";', "website.branch", "branch name"),
    "branch as a ref": (
        REPOSITORY + 'repositories.website.branch = "refs/heads/main";',
        "website.branch",
        "branch name",
    ),
    "branch that is an option of git": (REPOSITORY + 'repositories.website.branch = "-d";', "website.branch", "branch"),
    "check as one string": (REPOSITORY + 'repositories.website.checks = [ "make" ];', "website.checks", "not of type"),
    "check without a word": (REPOSITORY + "repositories.website.checks = [ [ ] ];", "website.checks", "not of type"),
    "nothing to read an SSH remote with, a credential": (SSH, "website.fetchCredential", "over SSH nobody reads"),
    "nothing to read a short SSH remote with, a credential": (
        'repositories.website.remoteUrl = "git@forge.example.org:website.git";',
        "website.fetchCredential",
        "over SSH nobody reads",
    ),
    "the push credential to read with": (
        SSH
        + 'credentials.forge = "/run/secrets/forge";'
        + 'repositories.website = { credential = "forge"; fetchCredential = "forge"; };',
        "website.fetchCredential",
        "is the key that may push",
    ),
    "push key that nobody gave": (
        REPOSITORY + 'repositories.website.credential = "forge";',
        "credentials.forge",
        "is missing",
    ),
    "host keys below /home": (
        REPOSITORY + 'repositories.website.knownHosts = "/home/lukas/.ssh/known_hosts";',
        "repositories.website.knownHosts",
        "which no unit",
    ),
    "repository deployed, but not by the deployer": (
        REPOSITORY + "repositories.website.deploy = true;",
        "repositories.website.deploy",
        "names another one",
    ),
    "deployed repository that does not exist": (
        'deploy.repository = "website";',
        "deploy.repository",
        "no repository `website`",
    ),
    "host deployed and locked": ('deploy.host = "tnix";', "deploy.host", "is a locked host"),
    "host locked by name, another spelling": (
        'deploy = { host = "Atlas"; lockedHosts = [ "atlas" ]; };',
        "deploy.host",
        "is a locked host",
    ),
    "host locked by us and not by the list": (
        'deploy = { host = "pinix"; lockedHosts = [ ]; };',
        "deploy.host",
        "is a locked host",
    ),
    "host that this is not": (
        REPOSITORY + 'deploy = { host = "atlas"; repository = "website"; };',
        "deploy.host",
        "this configuration is for `blunix`",
    ),
    "host with a domain": ('deploy.host = "blunix.example.org";', "deploy.host", "host name"),
    "gate that is none": ('deploy.gate = "nobody";', "deploy.gate", "not of type"),
    "window that is none": ('deploy.window = "22:00-25:00";', "deploy.window", "time window"),
    "event that is none": ('notifications.events = [ "lunch" ];', "notifications.events", "not of type"),
    "notification credential that nobody gave": (
        'notifications.credential = "apprise";',
        "credentials.apprise",
        "is missing",
    ),
    "memory in words": ('units.memoryMax = "lots";', "units.memoryMax", "not of type"),
    "address that is none": ('units.allowedAddresses = [ "%H" ];', "units.allowedAddresses", "not of type"),
    "hook that is no unit": ('units.onFailure = [ "mail me" ];', "units.onFailure", "not of type"),
    "memory of nothing": ('units.memoryMax = "0%";', "units.memoryMax", "not of type"),
    "address beyond its bounds": (
        'units.allowedAddresses = [ "127.0.0.256" ];',
        "units.allowedAddresses",
        "not of type",
    ),
    "prefix beyond its bounds": (
        'units.allowedAddresses = [ "127.0.0.0/33" ];',
        "units.allowedAddresses",
        "not of type",
    ),
    "address of colons": ('units.allowedAddresses = [ ":::" ];', "units.allowedAddresses", "not of type"),
    "hook by an unknown specifier": ('units.onFailure = [ "page@%z.service" ];', "units.onFailure", "not of type"),
    "hook that is a template": ('units.onFailure = [ "page@.service" ];', "units.onFailure", "not of type"),
    "state in a directory of the system": ('board.stateDir = "/var/lib";', "board.stateDir", "belongs to the system"),
    "state that no boot finds again": ('board.stateDir = "/run/board";', "board.stateDir", "belongs to the system"),
    "state where every unit has its own": ('board.stateDir = "/tmp/board";', "board.stateDir", "which no unit"),
    "state in the deployer's directory": (
        'board.stateDir = "/var/lib/intent-board-deploy/board";',
        "board.stateDir",
        "belongs to the system",
    ),
    "store in a directory of the system": (
        'board.database = "sqlite:////srv/board.sqlite3";',
        "board.database",
        "belongs to the system",
    ),
    "store in the root of the host": (
        'board.database = "sqlite:////board.sqlite3";',
        "board.database",
        "belongs to the system",
    ),
    "store in a directory by another name": (
        'board.database = "sqlite:////var//lib/../lib/board.sqlite3";',
        "board.database",
        "SQLite",
    ),
    "intents in the state": (
        'board.intentDir = "/var/lib/intent-board";',
        "board.intentDir",
        "which only the service may enter",
    ),
    "store among the intents": (
        'board = { intentDir = "/srv/intents"; database = "sqlite:////srv/intents/b.sqlite3"; };',
        "board.database",
        "which the group may read",
    ),
    "role text in the home of a person": (
        'roles.builder.contract = "/home/lukas/builder.md";',
        "roles.builder.contract",
        "which no unit",
    ),
    "repository in the directory of temporary files": (
        'repositories.website.remoteUrl = "/tmp/website.git";',
        "repositories.website.remoteUrl",
        "which no unit",
    ),
    "state moved behind the units' back": (
        'extraSettings.board.state_dir = "/srv/other";',
        "extraSettings.board.state_dir",
        "set it there",
    ),
    "intents moved behind the units' back": (
        'extraSettings.board.intent_dir = "/srv/other";',
        "extraSettings.board.intent_dir",
        "set it there",
    ),
    "slots that no unit serves": (
        "extraSettings.queues.review.slots = 3;",
        "extraSettings.queues.review.slots",
        "set it there",
    ),
    "lane that no unit serves": (
        'extraSettings.lanes.neu = { phase = "in_umsetzung"; runtime = "codex"; model = "gpt-5.6-luna"; };',
        "extraSettings.lanes.neu",
        "set it there",
    ),
    "tick every second": ("units.tickSeconds = 1;", "units.tickSeconds", "between 5 and 3600"),
}

#: What is wrong with the host itself: (its configuration, the option's name, a word of the reason).
WRONG_HOST: dict[str, tuple[str, str, str]] = {
    "no sudo": ("security.sudo.enable = false;", "services.intent-board.enable", "security.sudo.enable"),
    "no user namespaces": ("security.allowUserNamespaces = false;", "board.sandbox", "allowUserNamespaces"),
    "no user namespaces by sysctl": (
        'boot.kernel.sysctl."user.max_user_namespaces" = 0;',
        "board.sandbox",
        "max_user_namespaces",
    ),
    "no unprivileged user namespaces": (
        'boot.kernel.sysctl."kernel.unprivileged_userns_clone" = false;',
        "board.sandbox",
        "unprivilegedUsernsClone",
    ),
    "resolver that workers do not reach": (
        'networking.nameservers = [ "127.0.0.1" ];',
        "units.allowedAddresses",
        "no agent finds its provider",
    ),
    "resolver that the host starts itself": (
        "networking.resolvconf.useLocalResolver = true;",
        "units.allowedAddresses",
        "127.0.0.1",
    ),
    "nothing that builds": (
        "nix.enable = false; services.intent-board.repositories.website = "
        '{ remoteUrl = "https://forge.example.org/website.git"; nixDaemon = true; };',
        "services.intent-board.enable",
        "nix.enable",
    ),
    "service trusted by nix": (
        'nix.settings.trusted-users = [ "root" "intent-board" ];',
        "services.intent-board.enable",
        "trusted-users",
    ),
    "service trusted by nix, in addition": (
        'nix.settings.extra-trusted-users = "root intent-board";',
        "services.intent-board.enable",
        "trusted-users",
    ),
    "everybody trusted by nix": ('nix.settings.trusted-users = [ "*" ];', "services.intent-board.enable", "`*`"),
    "the board's group trusted by nix": (
        'nix.settings.trusted-users = [ "@intent-board" ];',
        "services.intent-board.enable",
        "`@intent-board`",
    ),
    "build user trusted by nix": (
        'nix.settings.trusted-users = [ "intent-board-deploy" ]; services.intent-board = '
        '{ repositories.website.remoteUrl = "https://forge.example.org/x.git"; deploy.repository = "website"; };',
        "services.intent-board.enable",
        "`intent-board-deploy`",
    ),
    "build user unknown to the nix daemon": (
        'nix.settings.allowed-users = [ "intent-board" ]; services.intent-board = '
        '{ repositories.website.remoteUrl = "https://forge.example.org/x.git"; deploy.repository = "website"; };',
        "services.intent-board.deploy.repository",
        "allowed-users",
    ),
    "service unknown to the nix daemon": (
        'nix.settings.allowed-users = [ "lukas" ]; services.intent-board.repositories.website = '
        '{ remoteUrl = "ssh://git@forge.example.org/website.git"; nixDaemon = true; };',
        "services.intent-board.repositories",
        "allowed-users",
    ),
}


@pytest.mark.parametrize("what", WRONG_BOARD)
def test_a_wrong_value_is_refused_by_name(words: Callable[[str], str], what: str) -> None:
    body, option, reason = WRONG_BOARD[what]
    said = words(body)
    assert option in said, said[-2000:]
    assert reason in said, said[-2000:]


def test_the_program_refuses_what_the_module_refuses_of_its_file(nix: Any, refused: type[Exception]) -> None:
    """Where the module's own assertion speaks about the file, the program says the same of it: neither is laxer."""
    only_nix = re.compile(
        r"credential|store|/home|/root|host that this is not|specifier|owner who is|program|two dep|nobody gave|^group"
        r"|^(state|intents|slots|lane|role text|repository) (in|that|where|moved|below) (a|the|no|every|unit|behind)"
    )
    laxer, compared = [], 0
    for what, (body, option, _) in WRONG_BOARD.items():
        try:
            settings = nix.settings(body)["settings"]
        except refused:
            continue  # a type refused it: there is no file
        if only_nix.search(what):
            continue
        try:
            config.parse(settings)
            said = ""
        except config.ConfigError as error:
            said = str(error)
        last = re.sub("[A-Z]", lambda found: "_" + found.group().lower(), option.split(".")[-1]).strip('"')
        if last not in said:
            laxer.append(f"{what}: {said}")
        compared += 1
    assert laxer == []
    assert compared >= 20


@pytest.mark.parametrize("what", WRONG_HOST)
def test_a_host_that_cannot_carry_the_board_is_refused(nix: Any, host: Callable[[str], Any], what: str) -> None:
    body, option, reason = WRONG_HOST[what]
    faults = host(body)["faults"]
    assert any(option in fault and reason in fault for fault in faults), faults


def test_enough_wrong_values_are_tried() -> None:
    assert len(WRONG_BOARD) + len(WRONG_HOST) >= 40


def test_an_owner_must_be_named(nix: Any, refused: type[Exception]) -> None:
    with pytest.raises(refused, match=r"services\.intent-board\.board\.owner"):
        nix.host("services.intent-board.enable = true;")


def test_nothing_happens_to_a_host_that_does_not_enable_it(nix: Any) -> None:
    everything = nix.host("", "all.units") | nix.host("", "all.etc") | nix.host("", "all.users.users")
    assert everything == {}


def test_sudo_rs_will_do(host: Callable[[str], Any]) -> None:
    said = host("security.sudo.enable = false; security.sudo-rs.enable = true;")
    assert said["faults"] == []
    assert said["sudoRs"][0]["runAs"] == "intent-board"
    assert said["sudo"] == []


def test_every_option_can_be_set(nix: Any, full: str) -> None:
    """The full host sets each option once, to another value than its default, and the program takes the file."""
    said = nix.host(full)
    assert said["faults"] == []
    assert said["warnings"] == []
    parsed = config.parse(said["settings"])
    assert parsed.limits.max_children == 5
    assert parsed.lanes["mittel"].concurrency == 2
    options = {option["name"] for option in nix.host("", "options")}
    leaves = {o for o in options if not any(other.startswith(f"{o}.") for other in options)}
    unset = {o for o in leaves if not re.search(_as_set(o), full)}
    assert unset == set()


def _as_set(option: str) -> str:
    """How the full host spells an option: its last word, followed by an equals sign or a deeper name."""
    return rf"\b{re.escape(option.split('.')[-1])}( =|\.)" if option != "services.intent-board.configFile" else "."


def test_an_extra_setting_reaches_the_file(nix: Any) -> None:
    said = nix.settings("extraSettings.limits.max_children = 3; extraSettings.board.sandbox = null;")
    assert said["settings"]["limits"]["max_children"] == 3
    assert said["settings"]["limits"]["max_escalation_steps"] == 2
    assert said["settings"]["board"]["sandbox"] == "required"


def test_a_users_value_stands_above_our_default(nix: Any) -> None:
    said = nix.settings(
        'lanes.leicht.iterationLimit = lib.mkDefault 30; modelPools.claude = [ "opus" ];'
        'runtimes.codex.credentials = { CODEX_KEY = "openai-api-key"; };'
    )["settings"]
    assert said["lanes"]["leicht"]["iteration_limit"] == 30
    assert said["lanes"]["leicht"]["model"] == "gpt-5.6-luna"
    assert said["model_pools"]["claude"] == ["opus"]
    assert said["runtimes"]["codex"]["credentials"] == {"CODEX_KEY": "openai-api-key"}


def test_a_lane_can_be_left_out(nix: Any) -> None:
    said = nix.settings(
        'lanes = lib.mkForce { eine = { phase = "in_umsetzung"; runtime = "codex"; model = "gpt-5.6-sol"; }; };'
        'scheduler.synthesisLane = "eine";'
    )
    assert said["faults"] == []
    assert set(config.parse(said["settings"]).lanes) == {"eine"}


WARNED = {
    "a reviewed commit may change the board": (
        REPOSITORY + 'repositories.website.deploy = true; deploy.repository = "website";',
        "protectedPaths",
    ),
    "deployed, and then not": (REPOSITORY + 'deploy.repository = "website";', "deploy.repository"),
    "credential that nothing uses": ('credentials.spare = "/run/secrets/spare";', "credentials.spare"),
    "variable that looks like a secret": ('runtimes.codex.environment.MY_TOKEN = "x";', "environment.MY_TOKEN"),
    "flakes that nix does not know": (
        REPOSITORY + 'repositories.website.checks = [ [ "nix" "flake" "check" ] ];',
        "repositories.website.checks",
    ),
}


@pytest.mark.parametrize("what", WARNED)
def test_what_is_not_wrong_but_unwise_is_warned_of(nix: Any, what: str) -> None:
    body, option = WARNED[what]
    said = nix.settings(body)
    assert said["faults"] == []
    assert any(option in warning for warning in said["warnings"]), said["warnings"]


def test_sudo_for_wheel_alone_is_warned_of(host: Callable[[str], Any]) -> None:
    for sudo in ("sudo", "sudo-rs"):
        said = host(f"security.{sudo} = {{ enable = true; execWheelOnly = true; }};")
        assert any("board.group" in warning and "wheel" in warning for warning in said["warnings"])


def test_an_owner_whom_nobody_declares_is_warned_of(nix: Any) -> None:
    warnings = nix.settings('board.owner = lib.mkForce "petra";')["warnings"]
    assert any("board.owner" in warning and "petra" in warning for warning in warnings)
