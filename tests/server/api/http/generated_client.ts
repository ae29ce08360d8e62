// A session through a client of `openapi-generator-cli -g typescript-fetch`; prints what it has read.
import { Configuration, EventsApi, MessagesApi, ResponseError, SessionsApi } from "./client/index.js";

const configuration = new Configuration({ basePath: process.argv[2]! });
const sessions = new SessionsApi(configuration);
const messages = new MessagesApi(configuration);
const events = new EventsApi(configuration);

const { id: sessionId, metadata } = await sessions.createSession({
  sessionToCreate: { source: "claude", metadata: { team: "a", limits: { tokens: 5 } } },
});
const line = '{"type":"user","message":{"role":"user","content":"Which tests fail?"}}';
const appended = await messages.appendMessages({ sessionId, messageToAppend: [{ content: line, id: "m1" }] });
await events.appendEvents({ sessionId, eventToAppend: [{ type: "turn_start", payload: { trigger: "user" } }] });

const page = await messages.listMessages({ sessionId, limit: 1, parsed: true });
const stored = await events.listEvents({ sessionId });
const problem = await sessions.getSession({ sessionId: "00000000-0000-4000-8000-000000000000" }).catch(
  (error: ResponseError) => error.response.json(),
);
console.log(
  JSON.stringify({
    metadata,
    appended: appended.messages.map(({ id, sequence, created }) => [id, sequence, created]),
    contents: page.messages.map(({ content }) => content),
    events: stored.events.map(({ sequence, type, payload }) => [sequence, type, payload]),
    isInMilliseconds: stored.events.every(({ timestamp }) => timestamp > 2 ** 32),
    problem: problem.code,
  }),
);
