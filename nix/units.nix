# The systemd units.  Nothing idles: a doorbell file starts a worker, a timer starts the scheduler.
{
  config,
  lib,
  pkgs,
  serviceUser,
}:
let
  cfg = config.services.intent-board;
  hardening = import ./hardening.nix;

  stateDir = cfg.board.stateDir;
  databaseDir = lib.mapNullable (url: dirOf (lib.removePrefix "sqlite:///" url)) cfg.board.database;
  written = unique [
    stateDir
    cfg.board.intentDir
    databaseDir
  ];
  bells = "${stateDir}/doorbells";
  failures = "${stateDir}/failures";
  buildDir = "/var/lib/intent-board-build";
  unique = list: lib.naturalSort (lib.unique (lib.filter (value: value != null) list));

  # The slots of every queue, in the order of their names.  The deployer is no worker.
  slots = lib.concatLists (
    lib.mapAttrsToList (
      queue: settings:
      lib.genList (
        n:
        settings
        // {
          inherit queue;
          slot = n;
        }
      ) settings.slots
    ) (builders // others)
  );
  builders = lib.mapAttrs' (name: lane: {
    name = "builder-${name}";
    value = {
      slots = lane.concurrency;
      minutes = lane.timeoutMinutes;
      credentials = runtimeSecrets lane.runtime ++ fetchKeys;
    };
  }) cfg.lanes;
  others = lib.mapAttrs (name: queue: {
    inherit (queue) slots;
    minutes = queue.timeoutMinutes;
    credentials =
      fetchKeys
      ++ (
        if name == "publish" then
          pushKeys
        else if queue.runtime != null then
          runtimeSecrets queue.runtime
        else
          # The profile of any lane may come with a review or a repair.
          lib.concatMap (lane: runtimeSecrets lane.runtime) (lib.attrValues cfg.lanes)
      );
  }) (removeAttrs cfg.queues [ "deploy" ]);

  runtimeSecrets = name: lib.attrValues (cfg.runtimes.${name}.credentials or { });
  pushKeys = map (repository: repository.credential) (lib.attrValues cfg.repositories);
  fetchKeys = map (repository: repository.fetchCredential) (lib.attrValues cfg.repositories);
  loadCredential =
    names: map (name: "${name}:${cfg.credentials.${name} or "/missing"}") (unique names);

  # A remote on this host is written by the push, and by nothing else.
  localRemotes = map (path: "-${path}") (
    lib.filter (lib.hasPrefix "/") (
      map (repository: lib.removePrefix "file://" repository.remoteUrl) (lib.attrValues cfg.repositories)
    )
  );

  # What a worker runs beside the model: its checks, and the git and rebase around them.
  checkMinutes = lib.foldl' lib.max 60 (
    map (repository: repository.checkTimeoutMinutes * lib.max 1 (lib.length repository.checks)) (
      lib.attrValues cfg.repositories
    )
  );

  workerName = slot: "intent-board-worker-${slot.queue}-${toString slot.slot}";
  bell = slot: "${bells}/${slot.queue}-${toString slot.slot}";

  environment = {
    PYTHONUNBUFFERED = "1";
    NIX_REMOTE = "daemon";
  };
  path = [
    pkgs.bubblewrap
    pkgs.gitMinimal
    pkgs.openssh
    config.nix.package
  ]
  ++ cfg.tools;

  # Anything that a job may run in: a switch that the board itself started must not end it, and neither must the end
  # of its slot.  A bell may start it as often as it rings.
  mayHoldAJob = {
    restartIfChanged = false;
    stopIfChanged = false;
    unitConfig = {
      X-StopOnRemoval = false;
      StartLimitIntervalSec = 0;
      RequiresMountsFor = lib.concatStringsSep " " written;
    };
  };
  # A unit that fails at once with its bell still ringing would start hundreds of times a second, until systemd gives
  # up on the path unit.  While the service waits for its restart, the path unit waits with it.
  calmRestart = {
    Restart = "on-failure";
    RestartSec = 5;
    RestartSteps = 4;
    RestartMaxDelaySec = 60;
  };
  onFailure = [ "intent-board-failed@%n.service" ] ++ cfg.units.onFailure;
  afterMigration = {
    after = [
      "intent-board-migrate.service"
      "network.target"
      "nix-daemon.socket"
      "systemd-tmpfiles-setup.service"
    ];
    # Wants and not Requires: stopping the migration for a newer one must not stop a running job.  A worker that
    # meets a store it can't use says so itself.
    wants = [ "intent-board-migrate.service" ];
  };
  asService = {
    User = serviceUser;
    Group = cfg.board.group;
    WorkingDirectory = stateDir;
    ReadWritePaths = written;
  };
  program = name: "${cfg.package}/bin/${name}";
  configured = "--config ${cfg.configFile}";

  worker =
    slot:
    lib.nameValuePair (workerName slot) (
      lib.recursiveUpdate (mayHoldAJob // afterMigration) {
        description = "Intent board: ${slot.queue}, slot ${toString slot.slot}";
        inherit environment path onFailure;
        serviceConfig =
          hardening.worker
          // asService
          // calmRestart
          // {
            # Not oneshot: that ignores RuntimeMaxSec, and a long job would hold the boot at "starting".
            Type = "exec";
            ExecStart = "${program "board-worker"} ${configured} ${slot.queue} --slot ${toString slot.slot}";
            Slice = "intent-board-workers.slice";
            LoadCredential = loadCredential slot.credentials;
            # Only a last resort: the worker ends its own runs and leaves after a job when its time is near.
            RuntimeMaxSec = "${toString (2 * (slot.minutes + checkMinutes))}min";
            # The worker puts its job back; what is still there then is ended.
            TimeoutStopSec =
              if slot.queue == "publish" then 2 * cfg.units.stopSeconds else cfg.units.stopSeconds;
            KillMode = "mixed";
            # One process that takes too much (a check, say) is killed alone, and the job fails with a reason.
            OOMPolicy = "continue";
            OOMScoreAdjust = 200;
            ReadWritePaths =
              asService.ReadWritePaths ++ lib.optionals (slot.queue == "publish") (unique localRemotes);
            IPAddressAllow =
              cfg.units.allowedAddresses ++ lib.optional config.services.resolved.enable "127.0.0.53";
          };
      }
    );

  bellOf =
    name: file:
    lib.nameValuePair name {
      description = "Intent board: bell of ${name}";
      partOf = [ "intent-board.target" ];
      # tmpfiles makes the directory that is watched.
      after = [ "systemd-tmpfiles-setup.service" ];
      unitConfig = {
        StartLimitIntervalSec = 0;
        RequiresMountsFor = lib.concatStringsSep " " written;
      };
      pathConfig = {
        # Level-triggered: a file that is there when the service ends starts it again, so no ring is lost.
        PathExists = file;
        Unit = "${name}.service";
      };
    };

  tells = cfg.notifications.credential != null;
  deploys = cfg.deploy.repository != null;
  deployer =
    arguments: description:
    lib.recursiveUpdate (mayHoldAJob // afterMigration) {
      inherit description onFailure;
      environment = environment;
      path = [
        config.nix.package
        config.system.build.nixos-rebuild
        pkgs.gitMinimal
        pkgs.openssh
        pkgs.util-linux
        config.systemd.package
        # Health checks name the host's own programs.
        "/run/current-system/sw"
      ];
      serviceConfig =
        hardening.deployer
        // calmRestart
        // {
          Type = "exec";
          ExecStart = "${program "board-deploy"}${arguments}";
          Slice = "intent-board.slice";
          # Root's own records.  Never the board's directory: a root unit's StateDirectory= is given to root, all of it.
          StateDirectory = "intent-board-deploy";
          StateDirectoryMode = "0700";
          # What goes into the store goes through the daemon; the activation runs in a unit of its own.
          ReadWritePaths = written ++ [
            buildDir
            "/nix/var/nix/profiles"
            "-/run/nixos"
          ];
          LoadCredential = loadCredential [
            cfg.repositories.${cfg.deploy.repository}.fetchCredential or null
          ];
          RuntimeMaxSec = "${toString (3 * cfg.deploy.timeoutMinutes + 30)}min";
          TimeoutStopSec = "5min";
          # Its children end with it, and the activation does not: that is another unit.
          KillMode = "control-group";
          OOMPolicy = "continue";
        };
    };
in
{
  services =
    lib.listToAttrs (map worker slots)
    // {
      intent-board-migrate = {
        description = "Intent board: bring the store up to date";
        wantedBy = [ "intent-board.target" ];
        after = [ "systemd-tmpfiles-setup.service" ];
        inherit environment onFailure;
        unitConfig.RequiresMountsFor = lib.concatStringsSep " " written;
        serviceConfig =
          hardening.local
          // asService
          // {
            Type = "oneshot";
            RemainAfterExit = true;
            ExecStart = "${program "board"} ${configured} init";
            Slice = "intent-board.slice";
            # A backup of a large store comes first.
            TimeoutStartSec = "30min";
          };
      };

      intent-board-scheduler = lib.recursiveUpdate afterMigration {
        description = "Intent board: one look at the whole board";
        inherit environment path onFailure;
        unitConfig = {
          StartLimitIntervalSec = 0;
          RequiresMountsFor = lib.concatStringsSep " " written;
        };
        serviceConfig =
          hardening.local
          // asService
          // {
            Type = "exec";
            ExecStart = "${program "board-scheduler"} ${configured} tick";
            Slice = "intent-board.slice";
            RuntimeMaxSec = "10min";
            TimeoutStopSec = 30;
            KillMode = "mixed";
          };
      };

      "intent-board-failed@" = {
        description = "Intent board: note that %i failed";
        serviceConfig =
          hardening.local
          // asService
          // {
            Type = "oneshot";
            ExecStart = "${pkgs.runtimeShell} ${./note-failure.sh} %i ${failures}";
            ReadWritePaths = failures;
            Slice = "intent-board.slice";
          };
      };
    }
    // lib.optionalAttrs tells {
      # A program of its own, so that an address that is dead or slow holds up no job and no tick.
      intent-board-notify = lib.recursiveUpdate (mayHoldAJob // afterMigration) {
        description = "Intent board: tell people";
        inherit environment onFailure;
        serviceConfig =
          hardening.telling
          // asService
          // calmRestart
          // {
            Type = "exec";
            ExecStart = "${program "board"} ${configured} notify send";
            Slice = "intent-board.slice";
            LoadCredential = loadCredential [ cfg.notifications.credential ];
            RuntimeMaxSec = "10min";
            # A sending that is under way is finished: at most half a minute.
            TimeoutStopSec = 60;
            KillMode = "mixed";
            OOMPolicy = "continue";
          };
      };
    }
    // lib.optionalAttrs deploys {
      intent-board-deploy = deployer "" "Intent board: deploy";
      intent-board-deploy-recover =
        deployer " --recover" "Intent board: finish or undo an interrupted deployment"
        // {
          wantedBy = [ "intent-board.target" ];
        };
    };

  paths =
    lib.listToAttrs (map (slot: bellOf (workerName slot) (bell slot)) slots)
    // lib.listToAttrs (
      lib.optional tells (bellOf "intent-board-notify" "${bells}/notify-0")
      ++ lib.optional deploys (bellOf "intent-board-deploy" "${bells}/deploy-0")
    );

  timers =
    let
      every = seconds: {
        wantedBy = [ "intent-board.target" ];
        partOf = [ "intent-board.target" ];
        timerConfig = {
          # Monotonic: a clock that jumps neither holds the board up nor makes it tick in a row.
          OnActiveSec = 2;
          OnUnitInactiveSec = seconds;
          AccuracySec = "1s";
        };
      };
    in
    {
      intent-board-scheduler = every cfg.units.tickSeconds // {
        description = "Intent board: look at the board every ${toString cfg.units.tickSeconds} seconds";
      };
    }
    // lib.optionalAttrs deploys {
      intent-board-deploy-recover = every (10 * cfg.units.tickSeconds) // {
        description = "Intent board: look for an interrupted deployment";
      };
    };

  targets.intent-board = {
    description = "Intent board";
    wantedBy = [ "multi-user.target" ];
    # A path unit that systemd gave up on is started again by this.
    upholds =
      map (slot: "${workerName slot}.path") slots
      ++ lib.optional tells "intent-board-notify.path"
      ++ lib.optional deploys "intent-board-deploy.path";
  };

  slices = {
    intent-board.description = "Intent board";
    intent-board-workers = {
      description = "Intent board: agents and their checks";
      sliceConfig = lib.filterAttrs (_: value: value != null) {
        MemoryHigh = cfg.units.memoryHigh;
        MemoryMax = cfg.units.memoryMax;
        TasksMax = cfg.units.tasksMax;
        CPUWeight = cfg.units.cpuWeight;
        CPUQuota = lib.mapNullable (percent: "${toString percent}%") cfg.units.cpuQuota;
      };
    };
  };

  tmpfiles =
    let
      mine = mode: {
        d = {
          user = serviceUser;
          group = cfg.board.group;
          inherit mode;
        };
      };
    in
    {
      ${stateDir} = mine "0700";
      ${bells} = mine "0700";
      ${failures} = mine "0700";
    }
    // lib.optionalAttrs (databaseDir != null) { ${databaseDir} = mine "0700"; }
    // lib.optionalAttrs (cfg.board.intentDir != null) {
      # For the group to read; only the board writes there.
      ${cfg.board.intentDir} = mine "0750";
    }
    // lib.optionalAttrs deploys {
      # Root looks into it by its group, since it has no other right to.
      ${buildDir}.d = {
        user = "intent-board-deploy";
        group = "root";
        mode = "0750";
      };
    };
}
