// A client of Vercel's AI SDK: `node ai_sdk.mjs validate`, or `node ai_sdk.mjs follow ADDRESS [KEY]`.

import { createInterface } from "node:readline";
import { AbstractChat, DefaultChatTransport, validateUIMessages } from "ai";

const print = (value) => console.log(JSON.stringify(value));

class State {
  status = "ready";
  error = undefined;
  constructor(messages) {
    this.messages = messages;
  }
  pushMessage = (message) => this.messages.push(message);
  popMessage = () => this.messages.pop();
  replaceMessage = (index, message) => (this.messages[index] = message);
  snapshot = (value) => structuredClone(value);
}

class Chat extends AbstractChat {}

/** Print the error of each list of messages, one per line of the input; null for a valid one. */
async function validate() {
  for await (const line of createInterface({ input: process.stdin })) {
    const error = await validateUIMessages({ messages: JSON.parse(line) }).then(() => null, String);
    print(error);
  }
}

/** Print the status of the response, then the messages when the stream has ended. */
async function follow(address, key) {
  const headers = key ? { Authorization: `Bearer ${key}` } : {};
  const stored = await fetch(`${address}/projections/ui-messages`, { headers });
  const data = [];
  const chat = new Chat({
    state: new State((await stored.json()).messages),
    onData: (part) => {
      data.push(part.type);
      const isNew = part.type === "data-message" && chat.messages.every(({ id }) => id !== part.id);
      if (isNew) chat.messages = [...chat.messages, part.data];
    },
    transport: new DefaultChatTransport({
      headers,
      prepareReconnectToStreamRequest: () => ({ api: `${address}/ui-stream` }),
      fetch: async (...request) => {
        const response = await fetch(...request);
        print({ status: response.status, header: response.headers.get("x-vercel-ai-ui-message-stream") });
        return response;
      },
    }),
  });
  await chat.resumeStream();
  print({ messages: chat.messages, status: chat.status, error: chat.error?.message ?? null, data });
}

const [command, ...parameters] = process.argv.slice(2);
await { validate, follow }[command](...parameters);
