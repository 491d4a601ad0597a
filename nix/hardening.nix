# What the units may not do.  A directive that is missing from a set is missing for a reason, which stands in `absent`;
# tests/nix holds both the exposure figures and that list, because the figures alone would praise a unit in which no
# agent can run.
let
  # True for everything the board runs.
  common = {
    NoNewPrivileges = true;
    PrivateTmp = true;
    PrivateDevices = true;
    DevicePolicy = "closed";
    ProtectHome = true;
    ProtectSystem = "strict";
    ProtectControlGroups = true;
    ProtectClock = true;
    ProtectKernelModules = true;
    ProtectProc = "invisible";
    LockPersonality = true;
    RestrictRealtime = true;
    SystemCallArchitectures = "native";
    KeyringMode = "private";
    RemoveIPC = true;
    UMask = "0077";
  };
  # For units that start no sandbox of their own.
  closed = {
    ProtectKernelTunables = true;
    ProtectKernelLogs = true;
    ProtectHostname = true;
    ProcSubset = "pid";
    RestrictNamespaces = true;
    RestrictSUIDSGID = true;
    MemoryDenyWriteExecute = true;
  };
  unprivileged = {
    CapabilityBoundingSet = "";
    AmbientCapabilities = "";
    PrivateUsers = true;
    PrivateMounts = true;
    PrivateIPC = true;
  };
  # Refused calls are errors and not signals: a program that tries something newer falls back instead of dying.
  systemCalls = extra: {
    SystemCallFilter = [
      "@system-service"
      "~@privileged"
    ]
    ++ extra;
    SystemCallErrorNumber = "EPERM";
  };
in
{
  # Workers start bubblewrap, and Codex starts a sandbox of its own inside it.
  worker =
    common
    // unprivileged
    // systemCalls [ "@mount capset" ]
    // {
      # bubblewrap takes user, mnt, pid, ipc and uts; Codex's own sandbox and runs without network take net.
      RestrictNamespaces = "user mnt pid ipc uts net";
      # Codex's sandbox asks the kernel about its interfaces.
      RestrictAddressFamilies = [
        "AF_UNIX"
        "AF_INET"
        "AF_INET6"
        "AF_NETLINK"
      ];
      # Loopback services of the host, its neighbours on the link, and a cloud's metadata service are no business of
      # an agent.  Lifted one address at a time by units.allowedAddresses.
      IPAddressDeny = [
        "localhost"
        "link-local"
        "multicast"
      ];
    };

  # Pure work on the store and the mirrors: no network at all.
  local =
    common
    // closed
    // unprivileged
    // systemCalls [ "~@resources" ]
    // {
      PrivateNetwork = true;
      RestrictAddressFamilies = "AF_UNIX";
      IPAddressDeny = "any";
    };

  # The same with the network, for telling people: an address may be a service of this host, so none is shut out.
  telling =
    common
    // closed
    // unprivileged
    // systemCalls [ "~@resources" ]
    // {
      RestrictAddressFamilies = [
        "AF_UNIX"
        "AF_INET"
        "AF_INET6"
      ];
    };

  # Root, but with two capabilities only: it becomes the build user and the service user, and root's files are its own.
  deployer =
    common
    // closed
    # setpriv drops what it does not hand on with capset, which is among the privileged ones.
    // systemCalls [ "@setuid capset" ]
    // {
      CapabilityBoundingSet = [
        "CAP_SETUID"
        "CAP_SETGID"
      ];
      PrivateMounts = true;
      PrivateIPC = true;
      RestrictAddressFamilies = [
        "AF_UNIX"
        "AF_INET"
        "AF_INET6"
        "AF_NETLINK"
      ];
    };

  # Read by tests/nix.  Per set, what a reader would expect to find, and why it is not there.
  absent = {
    worker = {
      ProtectKernelTunables = "bubblewrap cannot mount /proc in its PID namespace";
      ProtectKernelLogs = "bubblewrap cannot mount /proc in its PID namespace";
      ProtectHostname = "together with the rest of this set bubblewrap cannot make its UTS namespace";
      ProcSubset = "bubblewrap reads /proc/sys/kernel/overflowuid";
      RestrictSUIDSGID = "blocks openat2, which bubblewrap 0.12 needs; the state directory is 0700 instead";
      MemoryDenyWriteExecute = "Node, in which agent programs are written, compiles at run time";
      InaccessiblePaths = "below /proc it keeps bubblewrap from mounting /proc";
      PrivateNetwork = "agents speak to their provider";
    };
    local = { };
    telling = {
      PrivateNetwork = "messages go to addresses in the network";
      IPAddressDeny = "an address may be a mail or message server on this host";
    };
    deployer = {
      User = "the deployer is root: it sets the system profile and starts the activation";
      PrivateUsers = "root would be nobody outside and could set no profile";
      PrivateNetwork = "the flake's inputs are fetched";
      IPAddressDeny = "health checks ask services of this host";
    };
  };
}
