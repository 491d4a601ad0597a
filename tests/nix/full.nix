# A host that sets every option once, to something else than its default.
{ pkgs, ... }:
{
  networking.hostName = "atlas";
  nix.settings.experimental-features = [
    "nix-command"
    "flakes"
  ];
  users.users.petra = { };
  services.intent-board = {
    enable = true;
    package = pkgs.intent-board;
    tools = [ pkgs.gitMinimal ];
    credentials = {
      openai-api-key = "/run/secrets/openai";
      anthropic = "/run/secrets/anthropic";
      openrouter = "/run/secrets/openrouter";
      forge = "/run/secrets/forge";
      forge-read = "/run/secrets/forge-read";
      apprise = "/run/secrets/apprise";
    };
    extraSettings.limits.max_children = 5;

    board = {
      owner = "petra";
      group = "board";
      stateDir = "/srv/board";
      intentDir = "/srv/intents";
      database = "sqlite:////srv/database/board.sqlite3";
      sandbox = "when_available";
      defaultRepository = "website";
    };
    limits = {
      maxChildren = 6;
      maxEscalationSteps = 1;
      iterationLimitMin = 6;
      iterationLimitMax = 39;
    };
    scheduler = {
      maxConcurrentBuilders = 4;
      synthesisLane = "mittel";
      interruptedRuns = 2;
      publishRounds = 2;
      outageBackoffInitialSeconds = 30;
      outageBackoffMaxSeconds = 1800;
    };
    lanes.mittel = {
      phase = "in_umsetzung";
      runtime = "claude";
      model = "opus";
      reasoningEffort = "high";
      iterationLimit = 25;
      concurrency = 2;
      timeoutMinutes = 90;
    };
    modelPools.claude = [
      "opus"
      "sonnet"
    ];
    runtimes = {
      codex.package = pkgs.codex;
      claude = {
        kind = "claude";
        command = [
          "${pkgs.claude-code}/bin/claude"
          "--verbose"
        ];
        environment.DISABLE_TELEMETRY = "1";
        credentials.ANTHROPIC_API_KEY = "anthropic";
        network = false;
        idleTimeoutMinutes = 20;
      };
      openrouter = {
        kind = "openrouter";
        package = pkgs.codex;
        credentials.OPENROUTER_API_KEY = "openrouter";
      };
    };
    queues = {
      operator = {
        role = "operator";
        runtime = "claude";
        model = "opus";
        reasoningEffort = "low";
        iterationLimit = 12;
        slots = 2;
        timeoutMinutes = 20;
      };
      inspect = {
        runtime = "openrouter";
        model = "deepseek/deepseek-v3.2";
      };
    };
    roles.reviewer = {
      contract = ./eval.nix;
      allowedCommands = [ "git log" ];
    };
    repositories.website = {
      remoteUrl = "ssh://git@forge.example.org/website.git";
      branch = "dev";
      credential = "forge";
      fetchCredential = "forge-read";
      knownHosts = "/etc/ssh/ssh_known_hosts";
      checks = [
        [
          "nix"
          "flake"
          "check"
        ]
        [
          "make"
          "test"
        ]
      ];
      checkTimeoutMinutes = 30;
      checkNetwork = true;
      nixDaemon = true;
      deploy = true;
      protectedPaths = [ "hosts/" ];
    };
    repositories.here.remoteUrl = "file:///srv/git/here.git";
    repair = {
      automaticRounds = 1;
      budget = 5;
    };
    split.automatic = true;
    deploy = {
      host = "atlas";
      lockedHosts = [ "router" ];
      repository = "website";
      automatic = false;
      gate = "owner";
      window = "22:00-06:00";
      healthChecks = [
        [
          "systemctl"
          "is-active"
          "nginx.service"
        ]
      ];
      healthTimeoutSeconds = 30;
      rollback = false;
      timeoutMinutes = 30;
    };
    notifications = {
      credential = "apprise";
      events = [ "failed" ];
    };
    units = {
      tickSeconds = 30;
      memoryHigh = "4G";
      memoryMax = "6G";
      tasksMax = 4096;
      cpuQuota = 150;
      cpuWeight = 40;
      stopSeconds = 60;
      allowedAddresses = [ "127.0.0.1" ];
      onFailure = [ "page@intent-board.service" ];
    };
  };
}
