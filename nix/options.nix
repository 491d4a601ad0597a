# Every option of services.intent-board.  The tree under it is board.toml in camelCase; the few options that only
# NixOS knows stand in `enable`, `package`, `credentials`, `units`, `tools`, `extraSettings` and `runtimes.<name>.package`.
# Defaults equal those of intent_board/config.py; tests/nix holds the two together.
{ lib, pkgs, ... }:
let
  inherit (lib) mkOption types literalExpression;
  own = import ./types.nix { inherit lib; };

  option =
    type: default: example: description:
    mkOption {
      inherit
        type
        default
        example
        description
        ;
    };
  required =
    type: example: description:
    mkOption { inherit type example description; };
  nullOr = types.nullOr;
  table =
    description: example: module:
    mkOption {
      type = types.attrsOf (types.submodule module);
      default = { };
      inherit description example;
    };

  notificationEvents = [
    "needs_human"
    "blocked"
    "limit_reached"
    "negative_review"
    "approval_wanted"
    "question"
    "failed"
    "ready"
    "deployed"
    "deploy_failed"
    "discrepancy"
    "runtime_paused"
  ];

  board = {
    owner = required own.userName "lukas" ''
      The one system user who may accept, release, discard, route and archive.  Everybody else in
      {option}`services.intent-board.board.group` may submit and read.
    '';
    group = option own.userName "intent-board" "board" ''
      Group whose members may run {command}`board`.  The module makes it and puts the owner into it.
    '';
    stateDir = option own.place "/var/lib/intent-board" "/srv/intent-board" ''
      Where the store, mirrors, trees and doorbells live.  Only the service user may enter it.
    '';
    intentDir = option (nullOr own.place) null "/srv/intents" ''
      Where the intents' Markdown files are written, for people to read.  `null`: `intents` in the state directory.
    '';
    database = option (nullOr own.database) null "sqlite:////srv/intent-board/board.sqlite3" ''
      SQLAlchemy URL of the store.  `null`: `board.sqlite3` in the state directory.
    '';
    sandbox =
      option
        (types.enum [
          "required"
          "when_available"
        ])
        "required"
        "required"
        ''
          `required` refuses to run an agent without bubblewrap.  `when_available` is meant for trying the board on a
          machine that can't make user namespaces; the run is then recorded as not sandboxed.
        '';
    defaultRepository = option (nullOr own.name) null "nixos-config" ''
      Repository of an intent that is submitted without `--repository`.
    '';
  };

  limits = {
    maxChildren = option (types.ints.between 1 10) 10 5 "How many children one split may have.";
    maxEscalationSteps = option (types.ints.between 0 2) 2 1 "How many rungs a ladder may have.";
    iterationLimitMin =
      option (types.ints.between 5 40) 5 10
        "The smallest iteration limit that may be asked for.";
    iterationLimitMax =
      option (types.ints.between 5 40) 40 30
        "The largest iteration limit that may be asked for.";
  };

  scheduler = {
    maxConcurrentBuilders =
      option (types.ints.between 1 64) 2 3
        "How many builders run at once, over all lanes.";
    synthesisLane =
      option own.name "schwer" "leicht"
        "Lane that builds the synthesis card of a family.";
    interruptedRuns = option (types.ints.between 0 10) 3 1 ''
      How often a run that a crash or a reboot cut off is repeated within its attempt.
    '';
    publishRounds = option (types.ints.between 0 10) 3 5 ''
      How often a commit is rebased and reviewed again because its branch moved.
    '';
    outageBackoffInitialSeconds = option (types.ints.between 1 3600) 60 30 ''
      First pause after a provider's outage or rate limit; it doubles with each further one.
    '';
    outageBackoffMaxSeconds = option (types.ints.between 1 86400) 3600 7200 "Longest such pause.";
  };

  lane.options = {
    phase =
      required
        (types.enum [
          "in_umsetzung"
          "in_umsetzung_leicht"
        ])
        "in_umsetzung"
        ''
          Phase of the cards that this lane builds.  The names are the board's wire names and are never translated.
        '';
    runtime = required own.name "codex" "One of {option}`services.intent-board.runtimes`.";
    model = option (nullOr own.model) null "gpt-5.6-luna" ''
      One of {option}`services.intent-board.modelPools` of that runtime; `null` only for runtimes of kind `command`.
    '';
    reasoningEffort =
      option (nullOr own.effort) null "medium"
        "Effort handed to the agent program; `null`: its own.";
    iterationLimit = option (types.ints.between 5 40) 20 30 "Model steps that one attempt may take.";
    concurrency = option (types.ints.between 1 16) 1 2 ''
      How many cards this lane builds at once, each by its own unit.
      {option}`services.intent-board.scheduler.maxConcurrentBuilders` bounds all lanes together.
    '';
    timeoutMinutes = option own.minutes 120 240 "Wall clock of one attempt.";
  };

  runtime.options = {
    kind =
      required
        (types.enum [
          "codex"
          "claude"
          "openrouter"
          "command"
        ])
        "codex"
        ''
          How the program is spoken to.  `openrouter` is Codex with another provider; `command` is any program that
          reads the order on its standard input and prints its answer.
        '';
    package = option (nullOr types.package) null (literalExpression "pkgs.codex") ''
      The agent program.  `null` because some are unfree (claude-code) and nothing should fail to evaluate for
      people who don't use them.  A runtime with neither package nor command is left out of the configuration.
    '';
    command = option (nullOr own.argv) null [ "/nix/store/…-codex/bin/codex" ] ''
      Command line of the agent program; the first word is a path in the Nix store, for nothing else exists in the
      sandbox.  `null`: the main program of {option}`package`.
    '';
    environment = option (own.variables own.line) { } { CODEX_LOG = "warn"; } ''
      Further environment variables of the program.  They end up in the world-readable store: no secrets.
    '';
    credentials =
      option (own.variables own.credentialName) { } { OPENAI_API_KEY = "openai-api-key"; }
        ''
          Environment variable of the program to the name, in {option}`services.intent-board.credentials`, of the secret
          that it holds.  The tools that a model runs can read it: use a key with a spend cap.
        '';
    network = option types.bool true false "Whether the program's sandbox has the host's network.";
    idleTimeoutMinutes =
      option own.minutes 30 10
        "A run that says nothing for this long is ended as timed out.";
  };

  queue.options = {
    role = required (types.enum [
      "operator"
      "reviewer"
      "publish"
      "fixer"
      "inspector"
      "planner"
      "deploy"
    ]) "operator" "The role that serves this queue.";
    runtime = option (nullOr own.name) null "codex" ''
      One of {option}`services.intent-board.runtimes`.  `review` and `repair` take none (they use the profile of the
      attempt they belong to), `publish` and `deploy` run no model.
    '';
    model = option (nullOr own.model) null "gpt-5.6-sol" "One of that runtime's model pool.";
    reasoningEffort =
      option (nullOr own.effort) null "medium"
        "Effort handed to the agent program; `null`: its own.";
    iterationLimit = option (types.ints.between 1 40) 20 10 "Model steps that one run may take.";
    slots =
      option (types.ints.between 1 16) 1 2
        "How many jobs of this queue run at once, each by its own unit.";
    timeoutMinutes = option own.minutes 60 30 "Wall clock of one run.";
  };

  role.options = {
    contract = option (nullOr own.readable) null (literalExpression "./roles/reviewer.md") ''
      The role's own text (Markdown with front matter).  `null`: the packaged one.
    '';
    allowedCommands = option (types.listOf own.commandPrefix) [ ] [ "git log" ] ''
      Beginnings of the commands that the role's runs may use beyond what every run of that role may.
    '';
  };

  repository.options = {
    remoteUrl = required own.remote "ssh://git@forge.example.org/lukas/website.git" ''
      Where commits are fetched from and published to.  Not below {file}`/home` or {file}`/root`, which no unit sees.
    '';
    branch = option (nullOr own.branch) null "main" ''
      Branch that is built on and published to.  `null`: the branch that the remote's HEAD names.
    '';
    credential = option (nullOr own.credentialName) null "forge-push-key" ''
      Name, in {option}`services.intent-board.credentials`, of the key that may push to the remote: an SSH key, or a
      token for https.  Only the units of the publish queue are given it.
    '';
    fetchCredential = option (nullOr own.credentialName) null "forge-read-key" ''
      Name of a key that may only read, for all the other units.  `null`: they fetch without one, which serves a
      repository that everybody may read.
    '';
    knownHosts = option (nullOr own.readable) null (literalExpression "./forge_known_hosts") ''
      File with the remote's SSH host keys.  `null`: the system's.
    '';
    checks =
      option (types.listOf own.argv)
        [ ]
        [
          [
            "nix"
            "flake"
            "check"
            "--no-update-lock-file"
          ]
        ]
        ''
          Commands that must exit 0 in a fresh checkout of a commit before it is reviewed.  They run in the sandbox,
          without any key.
        '';
    checkTimeoutMinutes = option own.minutes 60 90 "Wall clock of one check.";
    checkNetwork = option types.bool false true "Whether checks have the host's network.";
    nixDaemon = option types.bool false true ''
      Whether builders and checks reach the nix daemon.  A fixed-output build uses the network through it.
    '';
    deploy = option types.bool false true ''
      Whether published commits of this repository are deployed; it must be
      {option}`services.intent-board.deploy.repository`.
    '';
    protectedPaths =
      option (types.listOf own.insidePath) [ ] [ "hosts/blunix/intent-board.nix" "flake.lock" ]
        ''
          Paths and patterns (as in a .gitignore) whose change waits for the owner's release, whoever owns the card.
        '';
  };

  deploy = {
    host = option own.hostName "blunix" "atlas" "The one host that is ever deployed to.";
    lockedHosts = option (types.listOf own.hostName) [ "tnix" "pinix" ] [ "tnix" "pinix" "router" ] ''
      Hosts that are refused by name.  `tnix` and `pinix` are locked even where this list leaves them out.
    '';
    repository = option (nullOr own.name) null "nixos-config" ''
      The repository whose commits are deployed.  `null`: nothing is, and there are no deploy units.
    '';
    automatic =
      option types.bool true false
        "Whether a published commit is deployed without being asked.";
    gate =
      option
        (types.enum [
          "review"
          "owner"
          "commit"
        ])
        "review"
        "owner"
        ''
          What a commit needs before it is deployed: `review` a positive review, `owner` that and the owner's release,
          `commit` only the owner's own direct builds.
        '';
    window =
      option (nullOr own.window) null "22:00-06:00"
        "Local time in which deployments may begin; `null`: always.";
    healthChecks =
      option (types.listOf own.argv)
        [ ]
        [
          [
            "systemctl"
            "is-active"
            "nginx.service"
          ]
        ]
        ''
          Commands that must exit 0 after a switch.
        '';
    healthTimeoutSeconds =
      option (types.ints.between 1 3600) 60 120
        "How long they may take to become good.";
    rollback =
      option types.bool true false
        "Whether an unhealthy switch goes back to the generation before.";
    timeoutMinutes = option own.minutes 60 120 "Wall clock of one deployment.";
  };

  units = {
    tickSeconds = option (types.ints.between 5 3600) 60 30 ''
      How often the scheduler looks at the board.  A lost ring costs at most this long.
    '';
    memoryHigh =
      option (nullOr own.memory) "80%" "12G"
        "Memory of all workers above which they are slowed down.";
    memoryMax =
      option (nullOr own.memory) "90%" "16G"
        "Memory of all workers above which the kernel kills a process.";
    tasksMax = option (types.ints.between 64 1000000) 8192 4096 "Processes and threads of all workers.";
    cpuQuota = option (nullOr (types.ints.between 5 100000)) null 200 ''
      Processor time of all workers in percent of one processor; `null`: no limit but the weight.
    '';
    cpuWeight = option (types.ints.between 1 10000) 50 100 ''
      Share of the processor when others want it too (the system's own services have 100).
    '';
    stopSeconds = option (types.ints.between 10 900) 90 300 ''
      How long a worker may take to put its job back when it is told to stop; publish units get twice that.
    '';
    allowedAddresses = option (types.listOf own.address) [ ] [ "127.0.0.1" ] ''
      Loopback, link-local or multicast addresses that workers may reach in spite of the rule against all of these: a
      model server on this machine, say.  Agents with network reach every other address anyway.
    '';
    onFailure = option (types.listOf own.unitName) [ ] [ "page-me@intent-board.service" ] ''
      Units started when one of the board's units has failed, beside the note that {command}`board doctor` reads.
    '';
  };
in
{
  options.services.intent-board = {
    enable = lib.mkEnableOption "the intent board";

    package = mkOption {
      type = types.package;
      defaultText = literalExpression "the package that this flake builds";
      example = literalExpression "pkgs.intent-board";
      description = "The intent-board package.";
    };

    credentials =
      option (types.attrsOf own.place) { } { openai-api-key = "/run/secrets/openai-api-key"; }
        ''
          Secrets by name, as files that root can read on the running host; {command}`systemd` hands each to exactly the
          units that need it.  A path in the Nix store is refused: everybody can read that.
        '';

    tools = mkOption {
      type = types.listOf types.package;
      default = with pkgs; [
        bashInteractive
        coreutils
        diffutils
        findutils
        gawk
        gitMinimal
        gnugrep
        gnused
        gnutar
        gzip
        jq
        ripgrep
      ];
      defaultText = literalExpression ''
        with pkgs; [
          bashInteractive coreutils diffutils findutils gawk gitMinimal gnugrep gnused gnutar gzip jq ripgrep
        ]
      '';
      example = literalExpression "with pkgs; [ bashInteractive coreutils gitMinimal nodejs ]";
      description = ''
        Programs that agents and checks find on their PATH, beside the nix of this host where a repository has
        {option}`nixDaemon`.
      '';
    };

    extraSettings = option own.extraSettings { } { limits.max_children = 3; } ''
      The one escape hatch: written over {file}`board.toml` as it stands, in the file's own snake_case, for a setting
      that this module does not know.  It is checked like everything else, when the system is built.
    '';

    configFile = mkOption {
      type = types.path;
      readOnly = true;
      example = "/nix/store/…-board.toml";
      description = "The finished and checked {file}`board.toml` that all units use.";
    };

    settings = mkOption {
      type = types.attrs;
      readOnly = true;
      internal = true;
      visible = false;
      description = "What goes into board.toml, before it becomes text.";
    };

    inherit
      board
      limits
      scheduler
      deploy
      units
      ;

    lanes = table ''
      Builder lanes, each with its one profile.  `schwer` and `leicht` are there unless
      `lib.mkForce` replaces the whole set; single values of theirs can be set by name.
    '' { leicht.concurrency = 2; } lane;

    modelPools =
      option (types.attrsOf (types.nonEmptyListOf own.model)) { } { codex = [ "gpt-5.6-luna" ]; }
        ''
          Per runtime, the only models that a lane, a queue or a rung may name.  A list given here replaces ours.
        '';

    runtimes = table ''
      Agent programs.  `codex` is declared; give it a package (or a command), and its key in
      {option}`services.intent-board.credentials`.
    '' (literalExpression "{ codex.package = pkgs.codex; }") runtime;

    queues = table ''
      The queues beside the builder queues, which come from the lanes.  All seven are there; a queue can't be added
      or left out.
    '' { review.slots = 2; } queue;

    roles = table "Deviations from the packaged roles." {
      reviewer.allowedCommands = [ "git log" ];
    } role;

    repositories = table "The checkouts that the board works in." {
      website.remoteUrl = "ssh://git@forge.example.org/lukas/website.git";
    } repository;

    repair = {
      automaticRounds =
        option (types.ints.between 0 10) 0 1
          "Rounds in which a Fixer runs without being asked.";
      budget = option (types.ints.between 0 20) 3 5 "Rounds of repair that one card may have at all.";
    };

    split.automatic =
      option types.bool false true
        "Whether a card that used its whole ladder is split unasked.";

    notifications = {
      credential = option (nullOr own.credentialName) null "apprise-urls" ''
        Name, in {option}`services.intent-board.credentials`, of a file with Apprise URLs, one a line.
      '';
      events =
        option (types.listOf (types.enum notificationEvents)) notificationEvents [ "needs_human" "failed" ]
          ''
            What people are told about.
          '';
    };
  };
}
