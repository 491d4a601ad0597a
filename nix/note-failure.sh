# Writes down that a unit of the board has failed, where `board doctor` finds it.  Started by OnFailure= of that unit;
# systemd says in MONITOR_* how it ended.  A unit whose credential is missing never reaches our code (status 243), so
# nobody else could say so.
set -eu
unit=$1
directory=$2
case "$unit" in
  */* | .*) echo "note-failure: '$unit' is no unit's name" >&2; exit 1 ;;
esac
case "${MONITOR_EXIT_STATUS:-}" in
  243 | CREDENTIALS) advice="a file named in services.intent-board.credentials is missing on this host or cannot be read; put it there" ;;
  203 | EXEC) advice="its program cannot be started; rebuild the system" ;;
  217 | USER) advice="the service user is missing; rebuild the system" ;;
  226 | NAMESPACE) advice="a directory that it needs is missing; run systemd-tmpfiles --create" ;;
  *) advice="journalctl --unit $unit says more" ;;
esac
line="$unit failed (${MONITOR_SERVICE_RESULT:-unknown result}, status ${MONITOR_EXIT_STATUS:-unknown}): $advice"
echo "$line" >&2
temporary=$(mktemp "$directory/.note.XXXXXX")
printf '%s\t%s\n' "$(date +%s)" "$line" >"$temporary"
mv -f "$temporary" "$directory/$unit"
