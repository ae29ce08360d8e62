import { ChatRenderer } from "./chat-renderer.js";
import { el } from "./dom.js";

const id = document.body.dataset.sessionId;
const api = `/api/sessions/${id}`;
const log = el("div", { role: "log", "data-preset": "work" });
const main = el("main", {}, log);
document.body.append(main);
const renderer = new ChatRenderer(log, { hrefOf: (session) => `/sessions/${encodeURIComponent(session)}` });

const page = await (await fetch(`${api}/events?before=9007199254740991&limit=500&collapse=true`)).json();
renderer.replayEvents(page.events);
const last = page.events.at(-1)?.sequence ?? 0;
const stream = new EventSource(`${api}/events/stream?after=${last}&collapse=true`);
const types = ["turn_start","turn_end","user_message","user_audio","assistant_chunk","assistant_done","thinking_chunk","thinking_done","tool_call","tool_input_chunk","tool_output_chunk","tool_result","agent_message","agent_callback","agent_switch","interrupt","error","audio_chunk","audio_done","summary","system_message","retraction","raw","reset"];
for (const type of types) stream.addEventListener(type, (event) => renderer.handleNewEvent(JSON.parse(event.data)));
