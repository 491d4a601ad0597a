# What one option says about another, as assertions and warnings.  The rules are those of intent_board/config.py
# (which checks the finished file again, when the system is built) and those that only NixOS can know.
{
  config,
  lib,
  toml,
  serviceUser,
  buildUser,
}:
let
  cfg = config.services.intent-board;
  own = import ./types.nix { inherit lib; };
  usable = toml.usable cfg.runtimes;
  option = path: "services.intent-board.${path}";
  quoted = names: lib.concatStringsSep ", " (lib.naturalSort names);

  # A check is a list of faults; each becomes one assertion that fails.
  fault = path: reason: {
    assertion = false;
    message = "${option path}: ${reason}";
  };
  unless =
    condition: path: reason:
    lib.optional (!condition) (fault path reason);
  each = set: f: lib.concatLists (lib.mapAttrsToList f set);

  trustedQueues = [
    "publish"
    "deploy"
  ];
  snapshotQueues = [
    "review"
    "repair"
  ];
  queueRoles = {
    operator = "operator";
    review = "reviewer";
    publish = "publish";
    repair = "fixer";
    inspect = "inspector";
    split = "planner";
    deploy = "deploy";
  };
  roles = [
    "operator"
    "builder"
    "reviewer"
    "fixer"
    "inspector"
    "planner"
  ];
  general = [
    "none"
    "minimal"
    "low"
    "medium"
    "high"
    "xhigh"
    "max"
  ];
  efforts = {
    codex = general;
    openrouter = general;
    claude = [
      "low"
      "medium"
      "high"
      "xhigh"
      "max"
    ];
  };

  # --- one entry of a table -------------------------------------------------------------------------------------

  names =
    lib.concatMap
      (
        table:
        lib.concatMap (
          name:
          unless (builtins.match "[a-z][a-z0-9-]{0,30}" name != null) "${table}.\"${name}\""
            "the name must be of lower-case letters, digits and dashes, begin with a letter and have at most 31 characters; rename it"
        ) (lib.attrNames cfg.${table})
      )
      [
        "lanes"
        "modelPools"
        "runtimes"
        "queues"
        "roles"
        "repositories"
      ];

  profile =
    path: user:
    lib.optionals (user.runtime != null) (
      if !(cfg.runtimes ? ${user.runtime}) then
        [
          (fault "${path}.runtime" "there is no runtime `${user.runtime}`; declare it under ${option "runtimes"} or use one of: ${quoted (lib.attrNames cfg.runtimes)}")
        ]
      else
        profileOf path user cfg.runtimes.${user.runtime}
    );
  profileOf =
    path: user: runtime:
    let
      pool = cfg.modelPools.${user.runtime} or [ ];
      known = efforts.${runtime.kind} or null;
    in
    unless (usable ? ${user.runtime}) "runtimes.${user.runtime}.package"
      "is needed by ${option path} and has no program; set it (for codex: pkgs.codex) or set ${option "runtimes.${user.runtime}.command"}"
    ++
      unless (user.model == null || builtins.elem user.model pool) "${path}.model"
        "`${toString user.model}` is not in ${option "modelPools.${user.runtime}"}; add it there or choose one of: ${quoted pool}"
    ++
      unless (user.model != null || runtime.kind == "command") "${path}.model"
        "runtime `${user.runtime}` needs a model; choose one of ${option "modelPools.${user.runtime}"}"
    ++
      unless (user.reasoningEffort == null || known == null || builtins.elem user.reasoningEffort known)
        "${path}.reasoningEffort"
        "${runtime.kind} takes no effort `${toString user.reasoningEffort}`; use one of: ${lib.concatStringsSep ", " known}";

  lanes =
    each cfg.lanes (
      name: lane:
      profile "lanes.${name}" lane
      ++
        unless
          (
            lane.iterationLimit >= cfg.limits.iterationLimitMin
            && lane.iterationLimit <= cfg.limits.iterationLimitMax
          )
          "lanes.${name}.iterationLimit"
          "${toString lane.iterationLimit} is outside ${option "limits"} (${toString cfg.limits.iterationLimitMin} to ${toString cfg.limits.iterationLimitMax})"
    )
    ++ unless (cfg.lanes != { }) "lanes" "there must be at least one lane";

  queues =
    each cfg.queues (
      name: queue:
      let
        path = "queues.${name}";
        model = [
          "runtime"
          "model"
          "reasoningEffort"
        ];
        why =
          if builtins.elem name snapshotQueues then "uses the attempt's own profile" else "runs no model";
      in
      if lib.hasPrefix "builder" name then
        [
          (fault path "builder queues come from the lanes; set ${option "lanes.<name>.concurrency"} instead")
        ]
      else if !(queueRoles ? ${name}) then
        [ (fault path "there is no such queue; the queues are: ${quoted (lib.attrNames queueRoles)}") ]
      else if queue.role != queueRoles.${name} then
        [ (fault "${path}.role" "must be `${queueRoles.${name}}`, the role that serves this queue") ]
      else if builtins.elem name (snapshotQueues ++ trustedQueues) then
        lib.concatMap (
          key: unless (queue.${key} == null) "${path}.${key}" "must be left out: this queue ${why}"
        ) model
      else
        unless (queue.runtime != null) "${path}.runtime" "is missing; name one of ${option "runtimes"}"
        ++ profile path queue
    )
    ++ lib.concatMap (
      name:
      unless (
        cfg.queues ? ${name}
      ) "queues.${name}" "is missing; a board needs every one of: ${quoted (lib.attrNames queueRoles)}"
    ) (lib.attrNames queueRoles)
    ++ unless (
      (cfg.queues.deploy.slots or 1) == 1
    ) "queues.deploy.slots" "must be 1: there is one host and one deployment at a time";

  pools = each cfg.modelPools (
    name: pool: unless (lib.allUnique pool) "modelPools.${name}" "names a model twice; keep one"
  );

  runtimes = each cfg.runtimes (
    name: runtime:
    let
      program = lib.head runtime.command;
    in
    # A runtime without a program is left out of the file, and a typo in it would go unseen.
    builtins.deepSeq (removeAttrs runtime [ "package" ]) unless
      (runtime.command == null || lib.hasPrefix "${builtins.storeDir}/" program)
      "runtimes.${name}.command"
      "must begin with a path in ${builtins.storeDir}, for nothing else exists in the sandbox; set ${option "runtimes.${name}.package"} instead"
  );

  roleNames = each cfg.roles (
    name: role:
    unless (builtins.elem name roles) "roles.${name}"
      "there is no such role; the roles are: ${quoted roles}"
    ++ unless (
      role.contract == null || !isHidden role.contract
    ) "roles.${name}.contract" "${hidden}; move the file or use a path literal"
  );

  # --- between tables -------------------------------------------------------------------------------------------

  bounds =
    unless (
      cfg.limits.iterationLimitMin <= cfg.limits.iterationLimitMax
    ) "limits.iterationLimitMin" "is above ${option "limits.iterationLimitMax"}; lower it"
    ++
      unless (cfg.lanes ? ${cfg.scheduler.synthesisLane}) "scheduler.synthesisLane"
        "there is no lane `${cfg.scheduler.synthesisLane}`; use one of: ${quoted (lib.attrNames cfg.lanes)}"
    ++
      unless (cfg.scheduler.outageBackoffInitialSeconds <= cfg.scheduler.outageBackoffMaxSeconds)
        "scheduler.outageBackoffInitialSeconds"
        "is above ${option "scheduler.outageBackoffMaxSeconds"}; lower it";

  # One spelling for the many of one place: `host:path` is `ssh://host/path`, a path is a `file` URL.
  place =
    url:
    let
      short = builtins.match "([^/:]+):(.*)" url;
      isShort = short != null && !lib.hasPrefix "//" (lib.elemAt short 1);
      long =
        if isShort then
          "ssh://${lib.elemAt short 0}/${lib.elemAt short 1}"
        else
          lib.removePrefix "file://" url;
      parsed = builtins.match "([a-z+]+://)?(.*)" long;
      parts = lib.filter (part: part != "" && part != ".") (lib.splitString "/" (lib.elemAt parsed 1));
    in
    toString (lib.elemAt parsed 0)
    + lib.optionalString (lib.hasPrefix "/" long) "/"
    + lib.removeSuffix ".git" (lib.concatStringsSep "/" parts);
  repositories = each cfg.repositories (
    name: repository:
    let
      path = "repositories.${name}";
      twins = lib.filter (
        other: other != name && place cfg.repositories.${other}.remoteUrl == place repository.remoteUrl
      ) (lib.attrNames cfg.repositories);
    in
    unless (twins == [ ]) "${path}.remoteUrl"
      "is the same place as ${option "repositories.${lib.head twins}"}; keep one of them"
    ++ unless (
      builtins.match "[A-Za-z0-9+.-]*::.*" repository.remoteUrl == null
    ) "${path}.remoteUrl" "must not be a git remote helper; give the plain URL"
    ++
      unless (builtins.match "[a-z+]*://[^/@]*:[^/]*@.*" repository.remoteUrl == null) "${path}.remoteUrl"
        "holds a password, which everybody could read in the Nix store; put it into a file and name it with ${option "${path}.credential"}"
    ++ unless (
      transport repository.remoteUrl != "unknown"
    ) "${path}.remoteUrl" "has a transport that is not supported; use ssh, https or an absolute path"
    ++
      unless (transport repository.remoteUrl != "relative") "${path}.remoteUrl"
        "must be an absolute path: any other would be looked for wherever a process happens to start"
    ++
      lib.concatMap
        (
          key:
          unless (
            repository.${key} == null || transport repository.remoteUrl != "unprotected"
          ) "${path}.${key}" "would be sent unprotected to ${option "${path}.remoteUrl"}; use https there"
        )
        [
          "credential"
          "fetchCredential"
        ]
    ++ unless (
      !isHidden (lib.removePrefix "file://" repository.remoteUrl)
    ) "${path}.remoteUrl" "${hidden}; move the repository, to /srv for example"
    ++
      unless (!isSsh repository.remoteUrl || repository.fetchCredential != null) "${path}.fetchCredential"
        "is needed: over SSH nobody reads without a key, and every unit but publish reads; set it to a key that may only read"
    ++
      unless (repository.fetchCredential == null || repository.fetchCredential != repository.credential)
        "${path}.fetchCredential"
        "is the key that may push, which only publish units are to hold; make one that may only read"
    ++
      unless (plainOrRemote repository.remoteUrl) "${path}.remoteUrl"
        "is a path with characters that a unit file can't hold; rename it to letters, digits and ._+@=,-"
    ++
      unless (repository.deploy -> name == cfg.deploy.repository) "${path}.deploy"
        "is true, but ${option "deploy.repository"} names another one; set it there or to false"
    ++
      lib.concatMap
        (
          key:
          unless (repository.${key} == null || cfg.credentials ? ${repository.${key}})
            "credentials.${toString repository.${key}}"
            "is missing, but ${option "${path}.${key}"} names it; set it to the file that holds the key"
        )
        [
          "credential"
          "fetchCredential"
        ]
    ++ unless (
      repository.knownHosts == null || !isHidden repository.knownHosts
    ) "${path}.knownHosts" "${hidden}; move the file or use a path literal"
  );
  transport =
    url:
    let
      is = pattern: builtins.match pattern (lib.toLower url) != null;
    in
    # git knows them in small letters alone.
    if is "[a-z][a-z0-9+.-]*://.*" && builtins.match "[a-z+]+://.*" url == null then
      "unknown"
    else if is "file://[^/].*|file://" then
      "relative"
    else if is "(http|git)://([^/@]*@)?(localhost|127[.]0[.]0[.]1|\\[::1])([/:].*)?" then
      "here"
    else if is "(http|git)://.*" then
      "unprotected"
    else if is "(file|ssh|git[+]ssh|ssh[+]git|https)://.*" then
      "known"
    else if is "[a-z][a-z0-9+.-]*://.*" then
      "unknown"
    else if is "/.*|[^/]*:.*" then
      "known"
    else
      "relative";
  isSsh = url: builtins.match "(git[+])?ssh([+]git)?://.*|[^/:]+:[^/].*|[^/:]+:/[^/].*" url != null;
  # Such a path stands in the publish units, as one that may be written.
  plainOrRemote =
    url:
    let
      path = lib.removePrefix "file://" url;
    in
    !lib.hasPrefix "/" path || own.isPlainPath path;
  # Every unit has /tmp to itself (PrivateTmp), and no view of people's homes (ProtectHome).  A path literal is copied
  # into the store.
  isHidden =
    path:
    !builtins.isPath path
    && !lib.hasPrefix builtins.storeDir (toString path)
    && builtins.match "/+(home|root|run/user|tmp|var/tmp)(/.*)?" (toString path) != null;
  hidden = "is below /home, /root or /tmp, of which no unit of the board sees the host's";

  references =
    unless (cfg.board.defaultRepository == null || cfg.repositories ? ${cfg.board.defaultRepository})
      "board.defaultRepository"
      "there is no repository `${toString cfg.board.defaultRepository}`; declare it under ${option "repositories"}"
    ++
      unless (cfg.deploy.repository == null || cfg.repositories ? ${cfg.deploy.repository})
        "deploy.repository"
        "there is no repository `${toString cfg.deploy.repository}`; declare it under ${option "repositories"}"
    ++
      unless (cfg.notifications.credential == null || cfg.credentials ? ${cfg.notifications.credential})
        "credentials.${toString cfg.notifications.credential}"
        "is missing, but ${option "notifications.credential"} names it; set it to the file with the Apprise URLs"
    ++ each usable (
      name: runtime:
      each runtime.credentials (
        variable: credential:
        unless (cfg.credentials ? ${credential}) "credentials.${credential}"
          "is missing, but ${option "runtimes.${name}.credentials.${variable}"} names it; set it to the file that holds the key"
      )
    )
    ++ lib.concatMap (
      name:
      unless (builtins.match "[A-Za-z0-9][A-Za-z0-9._-]{0,126}" name != null) "credentials.\"${name}\""
        "the name must be of letters, digits, dots, dashes and underscores; rename it"
    ) (lib.attrNames cfg.credentials);

  lower = lib.toLower;
  locked = map lower (
    cfg.deploy.lockedHosts
    ++ [
      "tnix"
      "pinix"
    ]
  );
  deploy =
    unless (
      !builtins.elem (lower cfg.deploy.host) locked
    ) "deploy.host" "`${cfg.deploy.host}` is a locked host and is never deployed to; name another host"
    ++
      unless (cfg.deploy.repository == null || lower cfg.deploy.host == lower config.networking.hostName)
        "deploy.host"
        "is `${cfg.deploy.host}`, but this configuration is for `${config.networking.hostName}` and would never be deployed; correct it or set ${option "deploy.repository"} to null";

  # --- the host ---------------------------------------------------------------------------------------------------

  # nix also reads `extra-…`, a list or one text.
  users =
    key: default:
    lib.concatMap (names: lib.splitString " " names) (
      lib.toList (config.nix.settings.${key} or default)
      ++ lib.toList (config.nix.settings."extra-${key}" or [ ])
    );
  trusted = users "trusted-users" [ ];
  allowed = users "allowed-users" [ "*" ];
  sysctl = name: config.boot.kernel.sysctl.${name} or null;
  off =
    value:
    builtins.elem (toString value) [
      "0"
      ""
    ]
    && value != null;
  daemon = lib.any (repository: repository.nixDaemon) (lib.attrValues cfg.repositories);
  host =
    unless (config.security.sudo.enable || config.security.sudo-rs.enable) "enable"
      "`board` proves who asks through sudo; set security.sudo.enable or security.sudo-rs.enable to true"
    ++
      unless (config.security.allowUserNamespaces && !off (sysctl "user.max_user_namespaces"))
        "board.sandbox"
        "agents run in a sandbox that needs user namespaces; set security.allowUserNamespaces to true and leave user.max_user_namespaces above 0"
    ++
      unless (!off (sysctl "kernel.unprivileged_userns_clone")) "board.sandbox"
        "agents run in a sandbox that needs user namespaces; set security.unprivilegedUsernsClone to true"
    ++
      lib.concatMap
        (
          user:
          unless (!builtins.elem user trusted) "enable"
            "nix.settings.trusted-users holds `${user}`, which makes every agent root through the nix daemon; remove it there"
        )
        (
          [
            serviceUser
            "*"
            "@${cfg.board.group}"
          ]
          ++ lib.optional (cfg.deploy.repository != null) buildUser
        )
    ++
      unless
        (
          !daemon
          || builtins.elem "*" allowed
          || builtins.elem serviceUser allowed
          || builtins.elem "@${cfg.board.group}" allowed
        )
        "repositories"
        "a repository has nixDaemon, but nix.settings.allowed-users does not let `${serviceUser}` in; add it there"
    ++
      unless
        (cfg.deploy.repository == null || builtins.elem "*" allowed || builtins.elem buildUser allowed)
        "deploy.repository"
        "`${buildUser}` builds what is deployed, but nix.settings.allowed-users does not let it in; add it there"
    ++ unless (
      !builtins.elem cfg.board.owner [
        serviceUser
        buildUser
        "root"
        "nobody"
      ]
    ) "board.owner" "`${cfg.board.owner}` is no person; name the user who answers for the board"
    ++
      unless
        (
          !builtins.elem cfg.board.group [
            buildUser
            "nixbld"
            "nogroup"
            "root"
          ]
        )
        "board.group"
        "`${cfg.board.group}` is a group of the system, which its members would then belong to; name another"
    ++ unless (
      config.nix.enable || !(daemon || cfg.deploy.repository != null)
    ) "enable" "repositories or the deployer build with nix; set nix.enable to true";

  # A resolver of this host at a loopback address, which workers can't reach; systemd-resolved has its own.
  loopback = lib.filter (address: builtins.match "127\\..*|::1" address != null) (
    map (server: lib.head (lib.splitString "#" server)) config.networking.nameservers
    ++ lib.optional config.networking.resolvconf.useLocalResolver "127.0.0.1"
  );
  reachable = cfg.units.allowedAddresses ++ lib.optional config.services.resolved.enable "127.0.0.53";
  opens =
    address:
    builtins.elem address reachable
    || lib.any (all: builtins.elem all reachable) [
      "any"
      "localhost"
      "127.0.0.0/8"
    ];
  resolver = lib.concatMap (
    address:
    unless (config.services.resolved.enable || opens address) "units.allowedAddresses"
      "this host resolves names at ${address}, which workers don't reach, so that no agent finds its provider; add it (agents then reach every service at that address), or set services.resolved.enable to true"
  ) (lib.unique loopback);

  # --- directories: the module makes them, gives them to the service user and shuts them ---------------------------

  directories = {
    inherit (cfg.board) stateDir intentDir;
    database = lib.mapNullable (url: dirOf (lib.removePrefix "sqlite:///" url)) cfg.board.database;
  };
  inside = outer: path: path == outer || lib.hasPrefix "${outer}/" path;
  # Directories of the system and of other units.
  isTaken =
    path:
    builtins.elem path [
      "/"
      "/mnt"
      "/opt"
      "/srv"
      "/var"
      "/var/cache"
      "/var/lib"
      "/var/log"
    ]
    || lib.any (outer: inside outer path) [
      "/bin"
      "/boot"
      "/dev"
      "/etc"
      "/lib"
      "/lib64"
      "/nix"
      "/proc"
      "/run"
      "/sys"
      "/usr"
      "/var/lib/intent-board-build"
      "/var/lib/intent-board-deploy"
      "/var/run"
    ];
  places =
    each (lib.filterAttrs (_: path: path != null) directories) (
      key: path:
      unless (!isHidden path) "board.${key}" "${hidden}; move it, to /srv for example"
      ++
        unless (!isTaken path) "board.${key}"
          "would give ${path} to `${serviceUser}`, but it belongs to the system; name a directory of its own, below /srv or /var/lib"
    )
    ++
      unless (cfg.board.intentDir == null || !inside cfg.board.stateDir cfg.board.intentDir)
        "board.intentDir"
        "lies in ${option "board.stateDir"}, which only the service may enter; name a directory outside of it, or null"
    ++
      unless
        (
          cfg.board.intentDir == null
          || !(directories.database != null && inside cfg.board.intentDir directories.database)
        )
        "board.database"
        "lies in ${option "board.intentDir"}, which the group may read; name another directory";

  # --- the escape hatch ----------------------------------------------------------------------------------------------

  # Units are made from these tables: a value that only the file has would be one that no unit knows of.
  snakeKeys = value: map toml.snake (lib.attrNames value);
  extra = cfg.extraSettings;
  hatch =
    let
      instead =
        path: reason:
        fault "extraSettings.${path}" "${reason}, which the units are made from; set it there";
      clash =
        path: known: given:
        map (key: instead "${path}.${key}" "is ${option path}'s own") (
          lib.intersectLists known (lib.attrNames (lib.filterAttrs (_: value: value != null) given))
        );
      table = name: lib.optionalAttrs (lib.isAttrs (extra.${name} or null)) extra.${name};
    in
    lib.concatMap (name: clash name (snakeKeys cfg.${name}) (table name)) [
      "board"
      "deploy"
      "notifications"
    ]
    ++
      lib.concatMap
        (
          name:
          each (table name) (
            entry: given:
            if cfg.${name} ? ${entry} then
              clash "${name}.${entry}" (snakeKeys cfg.${name}.${entry}) (
                lib.optionalAttrs (lib.isAttrs given) given
              )
            else
              [ (instead "${name}.${entry}" "adds to ${option name}") ]
          )
        )
        [
          "lanes"
          "queues"
          "repositories"
          "runtimes"
        ];

  # --- not wrong, but worth a word ----------------------------------------------------------------------------------

  deployed = cfg.repositories.${toString cfg.deploy.repository} or null;
  features = config.nix.settings.experimental-features or [ ];
  flakeChecks = lib.attrNames (
    lib.filterAttrs (
      _: repository:
      lib.any (
        argv:
        lib.take 2 argv == [
          "nix"
          "flake"
        ]
      ) repository.checks
    ) cfg.repositories
  );
  used =
    lib.concatMap (runtime: lib.attrValues runtime.credentials) (lib.attrValues usable)
    ++ lib.concatMap (repository: [
      repository.credential
      repository.fetchCredential
    ]) (lib.attrValues cfg.repositories)
    ++ [ cfg.notifications.credential ];
in
{
  assertions =
    names
    ++ lanes
    ++ queues
    ++ pools
    ++ runtimes
    ++ roleNames
    ++ bounds
    ++ repositories
    ++ references
    ++ deploy
    ++ host
    ++ resolver
    ++ places
    ++ hatch;

  warnings =
    lib.optional
      (
        deployed != null
        && cfg.deploy.automatic
        && cfg.deploy.gate == "review"
        && deployed.protectedPaths == [ ]
      )
      "${option "deploy"}: deployments are automatic after a review alone, and ${option "repositories.${cfg.deploy.repository}.protectedPaths"} is empty, so a reviewed commit can change the board's own limits; protect the file that configures the board, or set ${option "deploy.gate"} to \"owner\""
    ++
      lib.optional (deployed != null && !deployed.deploy)
        "${option "deploy.repository"}: ${option "repositories.${cfg.deploy.repository}.deploy"} is false, so nothing is deployed; set it to true, or this to null"
    ++
      lib.optional
        (
          flakeChecks != [ ]
          && !(lib.all (f: builtins.elem f features) [
            "nix-command"
            "flakes"
          ])
        )
        "${option "repositories.${lib.head flakeChecks}.checks"}: runs `nix flake`, but nix.settings.experimental-features does not hold nix-command and flakes; add them"
    ++
      lib.optional (!(config.users.users ? ${cfg.board.owner}))
        "${option "board.owner"}: this configuration declares no user `${cfg.board.owner}`; nobody can release anything until there is one"
    ++
      lib.optional
        (
          config.security.sudo.enable && config.security.sudo.execWheelOnly
          || config.security.sudo-rs.enable && config.security.sudo-rs.execWheelOnly
        )
        "${option "board.group"}: execWheelOnly keeps everybody who is not in wheel from sudo, and so from `board`; put the members of `${cfg.board.group}` into wheel too, or set security.sudo.execWheelOnly to false"
    ++ map (
      name: "${option "credentials.${name}"}: nothing uses it; remove it or name it where it belongs"
    ) (lib.subtractLists used (lib.attrNames cfg.credentials))
    ++ each usable (
      name: runtime:
      map
        (
          variable:
          "${option "runtimes.${name}.environment.${variable}"}: looks like a secret, and everybody can read the Nix store; move it to ${option "runtimes.${name}.credentials"}"
        )
        (
          lib.filter (variable: builtins.match ".*(KEY|TOKEN|SECRET|PASSWORD)" variable != null) (
            lib.attrNames runtime.environment
          )
        )
    );
}
