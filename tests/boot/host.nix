# The host that tests/boot boots: scripted agents for the family, Codex in a lane of its own.
{ config, ... }:
let
  scripted = {
    runtime = "scripted";
    model = "scripted-small";
    reasoningEffort = null;
  };
  repository = {
    branch = "main";
    checks = [
      [
        "sh"
        "check.sh"
      ]
    ];
  };
in
{
  users.users.lukas.isNormalUser = true;
  # A member of the group who is not the owner, and a stranger.
  users.users.petra = {
    isNormalUser = true;
    extraGroups = [ config.services.intent-board.board.group ];
  };
  users.users.mara.isNormalUser = true;

  services.intent-board = {
    enable = true;
    board = {
      owner = "lukas";
      defaultRepository = "units";
    };
    credentials.openai-api-key = "/etc/secrets/openai";
    credentials.people = "/etc/secrets/people";
    notifications.credential = "people";
    # The model server listens on loopback, where no agent may go by default.
    units.allowedAddresses = [ "127.0.0.1" ];
    units.tickSeconds = 5;

    runtimes = {
      scripted = {
        kind = "command";
        command = [
          "${builtins.storeDir}/00000000000000000000000000000000-scripted-agent/bin/scripted-agent"
        ];
        network = false;
      };
      codex = {
        command = [ "${builtins.storeDir}/00000000000000000000000000000000-codex/bin/codex" ];
        environment.OPENAI_BASE_URL = "http://127.0.0.1:8765/v1";
      };
    };
    modelPools = {
      scripted = [
        "scripted-small"
        "scripted-large"
      ];
      # A name that Codex does not know, which it therefore gives its plain set of tools.
      codex = [ "scripted-codex" ];
    };
    lanes = {
      # The rehearsal's first child runs out of any number of steps; the others have some left after three power cuts.
      schwer = scripted // {
        iterationLimit = 12;
      };
      leicht = scripted // {
        iterationLimit = 12;
      };
      # The rehearsal's agent takes the first lane and the last one by name.
      mitte = {
        phase = "in_umsetzung";
        runtime = "codex";
        model = "scripted-codex";
        reasoningEffort = "low";
      };
    };
    queues = {
      operator = scripted;
      inspect = scripted;
      split = scripted;
      review.slots = 2;
    };
    repositories = {
      units = repository // {
        remoteUrl = "file:///srv/remote.git";
        deploy = true;
      };
      second = repository // {
        remoteUrl = "file:///srv/second.git";
      };
    };
    # Nothing here is NixOS, so nothing can be deployed; what is looked at is that the deployer hears its bell.
    deploy = {
      repository = "units";
      automatic = false;
    };
  };
}
