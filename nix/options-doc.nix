# docs/options.md from the options themselves.  scripts/options-doc writes the file, a check compares it.
{ lib }:
let
  evaluated = lib.evalModules {
    modules = [
      ./options.nix
      { _module.args.pkgs = throw "an option without defaultText reads pkgs for its default"; }
    ];
  };
  all = lib.filter (option: option.visible == true && !option.internal) (
    lib.optionAttrSetToDocList evaluated.options.services.intent-board
  );
  prefix = "services.intent-board.";
  short = option: lib.removePrefix prefix option.name;
  section = option: lib.head (lib.splitString "." (short option));

  # In the order in which somebody sets a board up; what is not named here follows by name.
  order = [
    "enable"
    "package"
    "board"
    "credentials"
    "runtimes"
    "modelPools"
    "lanes"
    "queues"
    "roles"
    "repositories"
    "limits"
    "scheduler"
    "repair"
    "split"
    "deploy"
    "notifications"
    "units"
    "tools"
    "extraSettings"
    "configFile"
  ];
  sections = order ++ lib.subtractLists order (lib.unique (map section all));

  plain =
    text:
    lib.trim (
      builtins.replaceStrings
        [
          "{option}"
          "{command}"
          "{file}"
        ]
        [
          ""
          ""
          ""
        ]
        text
    );
  value =
    name: content:
    let
      text = lib.trim content.text;
    in
    if lib.hasInfix "\n" text then
      "- ${name}:\n\n  ```nix\n  ${builtins.replaceStrings [ "\n" ] [ "\n  " ] text}\n  ```"
    else
      "- ${name}: `${text}`";
  entry =
    option:
    lib.concatStringsSep "\n" (
      [
        "### `${option.name}`"
        ""
        (plain option.description)
        ""
        "- Type: ${option.type}"
      ]
      ++ lib.optional (option ? default) (value "Default" option.default)
      ++ lib.optional (option ? example) (value "Example" option.example)
      ++ lib.optional option.readOnly "- Read only."
    );
  block =
    name:
    let
      options = lib.filter (option: section option == name) all;
    in
    "## ${name}\n\n" + lib.concatMapStringsSep "\n\n" entry options;
in
''
  # Options of services.intent-board

  Made from `nix/options.nix` by `scripts/options-doc`; a check says when this file is stale.  The tree is that of
  `board.toml` in camelCase.  `enable`, `package`, `credentials`, `units`, `tools`, `extraSettings`, `configFile` and
  `runtimes.<name>.package` are known to NixOS alone.

  These entries are there unless a host says otherwise: the lanes `schwer` and `leicht`, the pools of `codex`, `claude`
  and `openrouter`, the runtime `codex`, and all seven queues.  Set single values of them by name; `lib.mkForce` replaces
  a whole table.

''
+ lib.concatMapStringsSep "\n\n" block sections
+ "\n"
