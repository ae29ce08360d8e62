"""The plugin that calls Ash from OpenCode, which has no settings for hooks."""

import json
import re
import shlex
from collections.abc import Mapping
from typing import Any, NamedTuple

from ash_server.cli.hooks.settings_file import OWN, SettingsFileInvalid

_HEADING = "// Written by `ash hooks install opencode`."
_ARGUMENTS = re.compile(r"^const command = (\[.*\]);$", re.MULTILINE)
_EVENTS = re.compile(r"^const events = (\[.*\]);$", re.MULTILINE)

# Version 1 calls `server`, version 2 `setup`. Version 1 also calls `setup`, with a context without events.
_SOURCE = """\
import { spawn } from "node:child_process";

const command = @command;
const events = @events;

function report(type, id) {
  if (!events.includes(type) || typeof id !== "string") return;
  const input = JSON.stringify({ hook_event_name: type, session_id: id });
  try {
    const child = spawn(command[0], [...command.slice(1), input], { detached: true, stdio: "ignore" });
    child.on("error", () => {});
    child.unref();
  } catch {}
}

async function follow(context, signal) {
  try {
    for await (const event of context.event.subscribe({ signal })) report(event.type, event.data?.sessionID);
  } catch {}
}

export default {
  id: "ash",
  server: async () => ({
    event: async ({ event }) => report(event.type, event.properties?.sessionID),
  }),
  setup: async (context) => {
    if (!context.event?.subscribe) return;
    const stop = new AbortController();
    void follow(context, stop.signal);
    return () => stop.abort();
  },
};
"""


class OpenCodePlugin(NamedTuple):
    """A file with nothing else."""

    def add(self, text: str | None, entries: Mapping[str, Mapping[str, Any]]) -> str:
        """Return the plugin. Raises SettingsFileInvalid if the file is another one."""
        self.commands(text)
        words = shlex.split(next(iter(entries.values()))["command"])
        source = _SOURCE.replace("@command", json.dumps(words)).replace("@events", json.dumps(list(entries)))
        return f"{_HEADING}\n{source}"

    def remove(self, text: str | None) -> str | None:
        """Return None: remove the file. Raises SettingsFileInvalid if the file is another one."""
        self.commands(text)
        return None

    def commands(self, text: str | None) -> dict[str, str]:
        """Return the command for each event. Raises SettingsFileInvalid if the file is another one."""
        if text is None:
            return {}
        command, events = _ARGUMENTS.search(text), _EVENTS.search(text)
        if not (text.startswith(_HEADING) and command and events):
            raise SettingsFileInvalid("it is not the plugin of Ash")
        line = shlex.join(json.loads(command[1]))
        return dict.fromkeys(json.loads(events[1]), line) if OWN.search(line) else {}

    def is_current(self, text: str | None, entries: Mapping[str, Mapping[str, Any]]) -> bool:
        """True if the file is the plugin with these entries."""
        return text == self.add(None, entries)
