# A complete host.  blunix runs the board for five repositories of one person, and is the one host that the board may
# deploy to.  Take it as a module of your own NixOS configuration, beside `intent-board.nixosModules.default`.
{ config, pkgs, ... }:
{
  networking.hostName = "blunix";

  # The person who answers for the board.  Being the owner makes her a member of the group intent-board.
  users.users.lukas = {
    isNormalUser = true;
    extraGroups = [ "wheel" ];
  };
  # Somebody else who may hand intents over; they wait in wartet_auf_startfreigabe until the owner accepts them.
  users.users.mara = {
    isNormalUser = true;
    extraGroups = [ config.services.intent-board.board.group ];
  };

  # Agents and checks build through the daemon as the service user, who must be allowed and must not be trusted:
  # a trusted user can make the daemon do anything.
  nix.settings = {
    experimental-features = [
      "nix-command"
      "flakes"
    ];
    trusted-users = [ "root" ];
  };

  services.intent-board = {
    enable = true;

    board = {
      owner = "lukas";
      # Where `board submit` without --repository goes.
      defaultRepository = "nixos-config";
      # Readable for the group, so that people can follow the projected intents in their editor.
      intentDir = "/srv/intents";
    };

    # Files on the running host, written by sops-nix, agenix or by hand; never paths into this repository.  systemd hands
    # each to the units that need it and to no others: an Operator never sees the key that pushes.
    credentials = {
      openai-api-key = "/run/secrets/intent-board/openai";
      anthropic-api-key = "/run/secrets/intent-board/anthropic";
      openrouter-api-key = "/run/secrets/intent-board/openrouter";
      forge-push-key = "/run/secrets/intent-board/forge-push";
      # A deploy key without write access: every unit but publish fetches with it.
      forge-read-key = "/run/secrets/intent-board/forge-read";
      apprise-urls = "/run/secrets/intent-board/apprise";
    };

    # --- who works ------------------------------------------------------------------------------------------------

    # The key behind a runtime can be read by every tool that the model runs: give it a spend cap at the provider.
    runtimes = {
      codex.package = pkgs.codex;
      # Unfree; the host must allow it (nixpkgs.config.allowUnfreePredicate).
      claude = {
        kind = "claude";
        package = pkgs.claude-code;
        credentials.ANTHROPIC_API_KEY = "anthropic-api-key";
      };
      # Codex again, spoken to through OpenRouter.
      openrouter = {
        kind = "openrouter";
        package = pkgs.codex;
        credentials.OPENROUTER_API_KEY = "openrouter-api-key";
      };
    };

    # Three pools: the only models that a lane, a queue or a rung of a ladder may name.
    modelPools = {
      codex = [
        "gpt-6-astra"
        "gpt-5.6-sol"
        "gpt-5.6-terra"
        "gpt-5.6-luna"
      ];
      claude = [
        "sonnet"
        "opus"
      ];
      openrouter = [
        "moonshotai/kimi-k2-thinking"
        "deepseek/deepseek-v3.2"
      ];
    };

    # Two lanes, each with its one profile.  An escalation changes the model, the effort or the limit, never the lane.
    lanes = {
      schwer = {
        runtime = "codex";
        model = "gpt-5.6-sol";
        reasoningEffort = "medium";
        iterationLimit = 25;
      };
      leicht = {
        runtime = "claude";
        model = "sonnet";
        reasoningEffort = "low";
        iterationLimit = 10;
        # Two small cards at once, each with its own unit.
        concurrency = 2;
      };
    };
    scheduler.maxConcurrentBuilders = 3;

    # What is not named here keeps the module's defaults; queues can't be added or left out.
    queues = {
      operator.model = "gpt-6-astra";
      inspect = {
        runtime = "openrouter";
        model = "deepseek/deepseek-v3.2";
      };
    };

    # --- where they work ------------------------------------------------------------------------------------------

    repositories = {
      nixos-config = {
        remoteUrl = "ssh://git@forge.example.org/lukas/nixos-config.git";
        branch = "dev";
        credential = "forge-push-key";
        fetchCredential = "forge-read-key";
        knownHosts = pkgs.writeText "forge_known_hosts" ''
          forge.example.org ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIExampleExampleExampleExampleExampleExampleEx
        '';
        checks = [
          [
            "nix"
            "flake"
            "check"
            "--no-update-lock-file"
          ]
        ];
        # Flake inputs are fetched by the client, and builds go through the daemon.
        checkNetwork = true;
        nixDaemon = true;
        deploy = true;
        # Without these, a reviewed commit could raise the board's own limits, name another owner or change what root
        # runs.  A diff that touches one of them waits for the owner, whoever owns the card.
        protectedPaths = [
          "hosts/blunix/intent-board.nix"
          "hosts/blunix/users.nix"
          "secrets/"
          "flake.lock"
        ];
      };
      website = {
        remoteUrl = "ssh://git@forge.example.org/lukas/website.git";
        branch = "dev";
        credential = "forge-push-key";
        fetchCredential = "forge-read-key";
        checks = [
          [
            "make"
            "test"
          ]
        ];
      };
      calendar-web = {
        remoteUrl = "ssh://git@forge.example.org/lukas/calendar-web.git";
        branch = "dev";
        credential = "forge-push-key";
        fetchCredential = "forge-read-key";
        checks = [
          [
            "npm"
            "test"
          ]
        ];
        # `npm ci` in the check fetches.
        checkNetwork = true;
      };
      dashboard = {
        remoteUrl = "ssh://git@forge.example.org/lukas/dashboard.git";
        branch = "main";
        credential = "forge-push-key";
        fetchCredential = "forge-read-key";
        checks = [
          [
            "make"
            "check"
          ]
        ];
      };
      # Everybody may read it, so only the push needs a key.
      launcher = {
        remoteUrl = "https://forge.example.org/lukas/launcher.git";
        branch = "main";
        credential = "forge-push-key";
        checks = [
          [
            "cargo"
            "test"
            "--offline"
          ]
        ];
      };
    };
    # What the checks above call, beside nix itself.
    tools = with pkgs; [
      bashInteractive
      cargo
      coreutils
      diffutils
      findutils
      gawk
      gitMinimal
      gnugrep
      gnumake
      gnused
      gnutar
      gzip
      jq
      nodejs
      ripgrep
      rustc
    ];

    # --- what becomes of it ---------------------------------------------------------------------------------------

    # Agents that can change a configuration can change what root runs.  The gate `owner` lets nothing onto this host
    # that the owner has not released by its hash; `review` would trust a model's approval with that.
    deploy = {
      host = "blunix";
      lockedHosts = [
        "tnix"
        "pinix"
      ];
      repository = "nixos-config";
      gate = "owner";
      # Released in the afternoon, switched at night.
      window = "22:00-06:00";
      # What has to run on this host after a switch, or it goes back; name your own.  One unit in each: with several
      # `is-active` is content with one of them.
      healthChecks = [
        [
          "systemctl"
          "is-active"
          "sshd.service"
        ]
        [
          "systemctl"
          "is-active"
          "nginx.service"
        ]
      ];
    };

    # One small round of repair by itself; whatever is left after it is a person's.
    repair.automaticRounds = 1;

    notifications = {
      credential = "apprise-urls";
      events = [
        "needs_human"
        "approval_wanted"
        "question"
        "failed"
        "deployed"
        "deploy_failed"
        "runtime_paused"
      ];
    };

    units = {
      # Left for everything else that this host does.
      memoryHigh = "8G";
      memoryMax = "12G";
      cpuQuota = 300;
    };
  };
}
