"""One thin file per entry point or group of commands: arguments in, one call of a room, words out."""
