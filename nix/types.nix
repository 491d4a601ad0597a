# The option types of this module.  Each accepts what intent_board/config.py accepts and no more, so that a wrong
# value is refused while NixOS evaluates and not when a service starts.
{ lib }:
let
  inherit (lib) types;

  named =
    description: type:
    type
    // {
      inherit description;
      descriptionClass = "noun";
    };
  matching = description: pattern: named description (types.strMatching pattern);
in
rec {
  name = matching "name of lower-case letters, digits and dashes, at most 31" "[a-z][a-z0-9-]{0,30}";
  userName = matching "user or group name" "[a-z_][a-z0-9_-]{0,30}";
  model = matching "model name" "[A-Za-z0-9][A-Za-z0-9._:+/-]{0,127}";
  effort = matching "reasoning effort" "[A-Za-z0-9_-]{1,32}";
  credentialName = matching "credential name" "[A-Za-z0-9][A-Za-z0-9._-]{0,126}";
  hostName = matching "host name without a domain" "[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?";
  window = matching "time window such as 22:00-06:00" "([01][0-9]|2[0-3]):[0-5][0-9]-([01][0-9]|2[0-3]):[0-5][0-9]";

  # Control characters would let a value look like another one in a terminal, or end a line of a unit.
  line = named "non-empty line of at most 4096 characters without control characters" (
    types.addCheck (types.strMatching "[^[:cntrl:]]+") (value: lib.stringLength value <= 4096)
  );
  argv = named "command line: a non-empty list of arguments, never read by a shell" (types.nonEmptyListOf line);

  # These paths reach unit files, where `%` begins a specifier and a space ends a value.
  place = named "absolute path of plain characters, not in the Nix store" (
    types.addCheck types.externalPath isPlainPath
  );
  # Read while NixOS builds or by the service; may be a path literal, since nothing in it is secret.
  readable = named "absolute path" types.path;
  isPlainPath =
    value:
    builtins.match "(/[A-Za-z0-9._+@=,-]+)+" value != null
    && !(builtins.any (part: part == ".." || part == ".") (lib.splitString "/" value));

  branch = named "branch name as git accepts it, without refs/heads/" (
    types.addCheck (types.strMatching "[^[:space:][:cntrl:]~^:?*\\[\\-][^[:space:][:cntrl:]~^:?*\\[\\]*") isBranch
  );
  isBranch =
    value:
    let
      parts = lib.splitString "/" value;
    in
    builtins.stringLength value <= 4096
    && !(lib.hasInfix ".." value || lib.hasInfix "@{" value || lib.hasSuffix "." value)
    && !(lib.hasPrefix "refs/" value || value == "@" || value == "HEAD")
    && builtins.all (part: part != "" && !lib.hasPrefix "." part && !lib.hasSuffix ".lock" part) parts;

  # What names no file of the repository would protect nothing, without a word.
  insidePath = named "path or pattern inside the repository" (types.addCheck line isInside);
  isInside =
    value:
    let
      parts = lib.splitString "/" value;
    in
    !(lib.hasPrefix "/" value || lib.hasPrefix "~" value || lib.hasInfix "\\" value)
    && !(builtins.elem ".." parts || builtins.elem ".git" parts)
    && lib.trim value == value;

  # It becomes an entry of an agent program's own list, which takes what a shell would join for one more command.
  commandPrefix = named "beginning of a command: plain words, nothing for a shell" (
    types.addCheck line isCommandPrefix
  );
  isCommandPrefix =
    value:
    let
      words = lib.splitString " " value;
    in
    !(lib.any (char: lib.hasInfix char value) (lib.stringToCharacters ";&|$`<>(){}[]*?!#~\\\"',"))
    && builtins.all (word: word != "") words
    && !(lib.hasPrefix "-" value || lib.hasInfix "=" (lib.head words));

  remote = named "git URL or absolute path" (types.addCheck line (value: !lib.hasPrefix "-" value));
  database = matching "SQLite URL with an absolute path, sqlite:////…" "sqlite:////[A-Za-z0-9._+@=,/-]+";
  variables =
    type: lib.types.addCheck (types.attrsOf type) (set: lib.all isVariable (lib.attrNames set)) // {
      description = "attribute set of ${type.description}, keyed by names of environment variables";
    };
  isVariable = value: builtins.match "[A-Za-z_][A-Za-z0-9_]{0,127}" value != null;
  memory = matching "size such as 8G, or a percentage of the machine's memory" "[0-9]+[KMGT]?|[0-9]{1,2}%|100%";
  address = matching "IP address or prefix" "[0-9a-fA-F:.]+(/[0-9]{1,3})?|localhost|link-local|multicast|any";
  unitName = matching "systemd unit name" "[A-Za-z0-9:_.@\\-]+\\.(service|target)";
  extraSettings =
    let
      value = types.nullOr (
        types.oneOf [
          types.bool
          types.int
          types.float
          types.str
          (types.listOf value)
          (types.attrsOf value)
        ]
      );
    in
    named "TOML table" (types.attrsOf (value // { description = "TOML value"; }));
  minutes = types.ints.between 1 1440;
}
