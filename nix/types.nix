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

  # --- characters: a Nix string is bytes, a text of board.toml is characters -----------------------------------------

  # "2028-202e": each character from U+2028 to U+202E, below U+10000.
  range =
    ends:
    let
      numbers = map lib.fromHexString (lib.splitString "-" ends);
      character = code: builtins.fromJSON ''"\u${lib.fixedWidthString 4 "0" (lib.toHexString code)}"'';
    in
    map character (lib.range (lib.head numbers) (lib.last numbers));
  # The list of intent_board/config.py.  Its last range is U+E0000 to U+E0FFF, which all begin with the same two bytes.
  invisible =
    lib.concatMap range [
      "0001-001f"
      "007f-009f"
      "00ad"
      "034f"
      "061c"
      "115f-1160"
      "17b4-17b5"
      "180b-180f"
      "200b-200f"
      "2028-202e"
      "2060-206f"
      "3164"
      "fe00-fe0f"
      "feff"
      "ffa0"
      "fff0-fffb"
    ]
    ++ map (low: builtins.fromJSON ''"\ud82f\udca${low}"'') (lib.stringToCharacters "0123")
    ++ map (low: builtins.fromJSON ''"\ud834\udd7${low}"'') (lib.stringToCharacters "3456789a")
    ++ [ (builtins.substring 0 2 (builtins.fromJSON ''"\udb40\udc00"'')) ];
  # What Python takes for space, beside control characters.
  spaces = [
    " "
  ]
  ++ lib.concatMap range [
    "00a0"
    "1680"
    "2000-200a"
    "202f"
    "205f"
    "3000"
  ];
  continuation = map (builtins.substring 1 1) (range "0080-00bf");

  # Without regular expressions, whose stack ends at some length of the text.
  without = parts: builtins.replaceStrings parts (map (_: "") parts);
  has = parts: value: without parts value != value;
  characters = value: builtins.stringLength (without continuation value);
in
rec {
  name = matching "name of lower-case letters, digits and dashes, at most 31" "[a-z][a-z0-9-]{0,30}";
  userName = matching "user or group name" "[a-z_][a-z0-9_-]{0,30}";
  model = matching "model name" "[A-Za-z0-9][A-Za-z0-9._:+/-]{0,127}";
  effort = matching "reasoning effort" "[A-Za-z0-9_-]{1,32}";
  credentialName = matching "credential name" "[A-Za-z0-9][A-Za-z0-9._-]{0,126}";
  hostName = matching "host name without a domain" "[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?";
  window = matching "time window such as 22:00-06:00" "([01][0-9]|2[0-3]):[0-5][0-9]-([01][0-9]|2[0-3]):[0-5][0-9]";

  # Control characters and invisible ones would let a value look like another one, or end a line of a unit.
  line = named "non-empty line of at most 4096 characters without control or invisible characters" (
    types.addCheck types.str (value: value != "" && characters value <= 4096 && !has invisible value)
  );
  argv = named "command line: a non-empty list of arguments, never read by a shell" (
    types.nonEmptyListOf line
  );

  # These paths reach unit files, where `%` begins a specifier and a space ends a value.
  place = named "absolute path of plain characters, not in the Nix store" (
    types.addCheck types.externalPath isPlainPath
  );
  # Read while NixOS builds or by the service; may be a path literal, since nothing in it is secret.
  readable = named "absolute path without .." (
    types.addCheck types.path (value: !builtins.elem ".." (lib.splitString "/" (toString value)))
  );
  isPlainPath =
    value:
    builtins.match "(/[A-Za-z0-9._+@=,-]+)+" value != null
    && !(builtins.any (part: part == ".." || part == ".") (lib.splitString "/" value));

  branch = named "branch name as git accepts it, without refs/heads/" (types.addCheck line isBranch);
  isBranch =
    value:
    let
      parts = lib.splitString "/" value;
    in
    !has (spaces ++ lib.stringToCharacters "~^:?*[\\") value
    && !(lib.hasInfix ".." value || lib.hasInfix "@{" value)
    && !(lib.hasPrefix "-" value || lib.hasPrefix "refs/" value || lib.hasSuffix "." value)
    && !(value == "@" || value == "HEAD")
    && builtins.all (part: part != "" && !lib.hasPrefix "." part && !lib.hasSuffix ".lock" part) parts;

  # What names no file of the repository would protect nothing, without a word.
  insidePath = named "path or pattern inside the repository" (types.addCheck line isInside);
  isInside =
    value:
    let
      parts = lib.splitString "/" value;
    in
    !(lib.hasPrefix "/" value || lib.hasPrefix "~" value || has [ "\\" ] value)
    && !(builtins.elem ".." parts || builtins.elem ".git" parts)
    && !lib.any (space: lib.hasPrefix space value || lib.hasSuffix space value) spaces;

  # It becomes an entry of an agent program's own list, which takes what a shell would join for one more command.
  commandPrefix = named "beginning of a command: plain words, nothing for a shell" (
    types.addCheck line isCommandPrefix
  );
  isCommandPrefix =
    value:
    let
      words = lib.splitString " " value;
    in
    !has (lib.stringToCharacters ";&|$`<>(){}[]*?!#~\\\"'," ++ lib.tail spaces) value
    && builtins.all (word: word != "") words
    && !(lib.hasPrefix "-" value || lib.hasInfix "=" (lib.head words));

  remote = named "git URL or absolute path" (types.addCheck line (value: !lib.hasPrefix "-" value));
  # Its directory is given to the service, so it must be known by the one name that other rules look for.
  database = named "SQLite URL with an absolute path, sqlite:////…" (
    types.addCheck (types.strMatching "sqlite:////.*") (
      value: isPlainPath (lib.removePrefix "sqlite:///" value)
    )
  );
  variables =
    type:
    lib.types.addCheck (types.attrsOf type) (set: lib.all isVariable (lib.attrNames set))
    // {
      description = "attribute set of ${type.description}, keyed by names of environment variables";
    };
  isVariable = value: builtins.match "[A-Za-z_][A-Za-z0-9_]{0,127}" value != null;
  memory = matching "size such as 8G, or a percentage of the machine's memory" "[1-9][0-9]{0,15}[KMGT]?|[1-9][0-9]?%|100%";
  # systemd only warns of one that it can't read, and leaves it out.
  address = named "IP address, with a prefix length or without, or localhost, link-local, multicast or any" (
    types.addCheck types.str isAddress
  );
  isAddress =
    value:
    let
      group = "[0-9a-fA-F]{1,4}";
      colons = lib.length (lib.splitString ":" value) - 1;
      isV6 =
        colons <= 7
        && (
          builtins.match "(${group}:){7}${group}(/[0-9]{1,3})?" value != null
          || builtins.match "((${group}:)*${group})?::((${group}:)*${group})?(/[0-9]{1,3})?" value != null
        );
      isV4 = builtins.match "(${octet}\\.){3}${octet}(/[0-9]{1,3})?" value != null;
      length = builtins.match ".*/([1-9]?[0-9]|1[0-9][0-9])" value;
      fits = most: !lib.hasInfix "/" value || length != null && lib.toInt (lib.head length) <= most;
    in
    builtins.stringLength value <= 64
    && (
      builtins.elem value [
        "localhost"
        "link-local"
        "multicast"
        "any"
      ]
      || isV4 && fits 32
      || isV6 && fits 128
    );
  octet = "(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])";
  # A template without an instance can't be started; one for all takes the failed unit's name, `page@%n.service`.
  unitName =
    let
      part = "[A-Za-z0-9:_.-]|\\\\x[0-9a-f]{2}";
    in
    matching "name of a systemd service or target that can be started" "(${part}){1,120}(@(${part}|%[nNpiI]){1,120})?\\.(service|target)";
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
