// Run one scenario with the built TypeScript client, and print its results, one JSON text per line.

const [built, scenario, url, key] = process.argv.slice(2);
const { ApiError, AshClient } = await import(`${built}/index.js`);
const { ServerEventParser } = await import(`${built}/server-events.js`);

const USER = '{"type":"user","uuid":"u1","message":{"role":"user","content":"Which tests fail?"}}';
const ANSWER = '{"type":"assistant","uuid":"a1","message":{"role":"assistant","content":"Two\u2028do."}}';

const connect = (options = {}) => new AshClient(url, { key, ...options });
const print = (value) => process.stdout.write(`${JSON.stringify(value)}\n`);

async function all(values) {
  const read = [];
  for await (const value of values) read.push(value);
  return read;
}

const failure = (promise) =>
  promise.then(
    () => "no error",
    (error) => (error instanceof ApiError ? error.code : `${error}`),
  );

const sequences = (appended) => appended.map(({ sequence }) => sequence);

const SCENARIOS = {
  async methods() {
    const names = Object.getOwnPropertyNames(AshClient.prototype);
    print(names.filter((name) => name !== "constructor"));
  },

  async stores() {
    const ash = connect();
    const session = await ash.createSession({ source: "claude", externalId: "run-7", title: "Tests" });
    const again = await ash.createSession({ source: "claude", externalId: "run-7" });
    print(again.id === session.id);
    print(sequences(await ash.append(session.id, [USER, { content: ANSWER }, "plain words"])));
    print((await all(ash.sessions({ q: "run-7" }))).map(({ title }) => title));
    print((await all(ash.messages(session.id, { limit: 1 }))).map(({ content }) => content));
    print((await ash.listMessages(session.id, { after: 1, limit: 1, parsed: false })).nextAfter);
    print((await all(ash.messages(session.id, { after: 1, limit: 1 })))[0].parsed.map(({ type }) => type));
    print(Buffer.concat(await all(ash.export(session.id))).toString());
    print((await ash.search("fail", { in: "said" })).results.map(({ sessionId }) => sessionId === session.id));
    print(sequences(await all(ash.events(session.id, { limit: 1 }))));
    print((await ash.updateSession(session.id, { title: "Two tests" })).title);
    print((await ash.updateLabels(session.id, { starred: true, addTags: ["flaky"] })).labels);
    print((await ash.listTags()).tags);
    print((await ash.getFacts(session.id)).session.id === session.id);
    print((await ash.getChanges(session.id)).filesChanged);
    print((await ash.getResume(session.id)).reason !== undefined);
    await ash.postEvents(session.id, [{ type: "summary", payload: { text: "Done." } }]);
    await ash.endSession(session.id);
    await ash.deleteMessage(session.id, 2);
    await ash.deleteMessage(session.id, 2);
    const popped = [await ash.popMessage(session.id), await ash.popMessage(session.id), await ash.popMessage(session.id)];
    print(popped.map((message) => message?.content ?? null));
    print(await failure(ash.deleteMessage(session.id, 4)));
    print(await failure(ash.deleteSession(session.id, { expectedSequence: 2 })));
    await ash.deleteSession(session.id, { expectedSequence: 3 });
    print(await failure(ash.getSession(session.id)));
  },

  async commits() {
    const ash = connect();
    const session = await ash.createSession({ metadata: { team: "a", old: 1 } });
    const first = { metadata: { n: 1, old: null }, expectedSequence: 0 };
    print(sequences(await ash.commit(session.id, [{ content: USER }], first)));
    print((await ash.commit(session.id, [{ content: USER }], { metadata: { n: 7 }, expectedSequence: 0 }))[0].created);
    const late = ash.commit(session.id, [{ content: ANSWER }], { expectedSequence: 0 });
    print(await late.catch(({ code, problem }) => [code, problem.currentSequence]));
    await ash.commit(session.id, [], { metadata: { n: 2 }, expectedSequence: 1 });
    const { metadata, messageCount } = await ash.getSession(session.id);
    print([metadata, messageCount]);
  },

  async "long and equal texts"() {
    const ash = connect();
    const session = await ash.createSession();
    const texts = ["a", "é😀".repeat(200_000), USER, ...Array(600).fill("c")];
    for (let times = 0; times < 2; times += 1) print((await ash.append(session.id, texts)).length);
    const stored = await all(ash.messages(session.id, { limit: 1000, parsed: false }));
    const expected = [...texts, ...texts.filter((text) => text !== USER)];
    print(JSON.stringify(stored.map(({ content }) => content)) === JSON.stringify(expected));
  },

  async refusals() {
    const ash = connect({ retry: { seconds: 0 } });
    const { id } = await ash.createSession();
    const refused = ash.append(id, ["a", "b\0"]);
    print(await refused.catch(({ code, status, index }) => [status, code, index]));
    print(await failure(ash.append(id, [`${"x".repeat(600_000)}\ud800`])));
    print(await failure(ash.send({ method: "GET", path: "/api/nothing" })));
    const absent = new AshClient("http://127.0.0.1:3", { retry: { seconds: 0 } });
    print(await absent.health().catch(({ code, status, wasSent }) => [code, status ?? null, wasSent]));
    for (const address of ["127.0.0.1:4100", "ftp://ash", "http://"]) {
      try {
        new AshClient(address);
      } catch ({ code }) {
        print(code);
      }
    }
  },

  async health() {
    const ash = connect();
    print(await ash.health());
    print(await failure(ash.checkVersion()));
    print(await failure(ash.listSessions()));
  },

  async "lost answers"() {
    const failures = [];
    const ash = connect({ retry: { onFailure: ({ code }) => failures.push(code) } });
    print(sequences(await ash.append(process.env.SESSION, ["a", "b", USER])));
    print(failures);
  },

  async "lost creation"() {
    print(await failure(connect().createSession({ title: "one" })));
  },

  // Ends when it has read a text "last".
  async follow() {
    const stop = new AbortController();
    const ash = connect({ retry: { seconds: Infinity } });
    for await (const event of ash.follow(process.env.SESSION, { signal: stop.signal })) {
      print(event.sequence);
      if (JSON.stringify(event.payload).includes("last")) stop.abort();
    }
    print("ended");
  },

  async "follow until deleted"() {
    const ash = connect();
    const session = await ash.createSession();
    await ash.append(session.id, ["one"]);
    const followed = ash.follow(session.id);
    print((await followed.next()).value.type);
    await ash.deleteSession(session.id);
    print(await failure(all(followed)));
  },

  async "follow until aborted"() {
    const ash = connect();
    const { id } = await ash.createSession();
    await ash.append(id, ["one"]);
    const stored = await all(ash.events(id));
    const early = new AbortController();
    const before = [];
    for await (const { sequence } of ash.follow(id, { signal: early.signal })) {
      before.push(sequence);
      early.abort();
    }
    print(before);
    const stop = new AbortController();
    const followed = ash.follow(id, { signal: stop.signal });
    for (const _ of stored) await followed.next();
    const next = followed.next(); // waits for an event
    stop.abort();
    print(await next);
    print(await all(ash.follow(id, { signal: stop.signal })));
    const without = new AbortController();
    const retry = { seconds: Infinity, onFailure: () => without.abort() };
    print(await all(new AshClient("http://127.0.0.1:3", { retry }).follow(id, { signal: without.signal })));
  },

  async "unconfirmed writes"() {
    const counts = {};
    for (const code of ["database_unavailable", "write_unconfirmed"]) {
      const calls = { append: (ash) => ash.append("a", ["one"]), popMessage: (ash) => ash.popMessage("a") };
      for (const [name, call] of Object.entries(calls)) {
        let count = 0;
        const answer = async () => {
          count += 1;
          return count > 1 ? Response.json({ messages: [] }) : Response.json({ code }, { status: 503 });
        };
        await failure(call(new AshClient("http://ash.example", { fetch: answer })));
        counts[`${name} ${code}`] = count;
      }
    }
    print(counts);
  },

  async "own writes"() {
    const sequences = [];
    let headers = [];
    const answer = async (request) => {
      headers.push(request.headers.get("Ash-Sequence"));
      return Response.json({ messages: [{ sequence: sequences.shift() }] });
    };
    const ash = new AshClient("http://ash.example", { fetch: answer });
    const printReads = async () => {
      headers = [];
      await ash.listMessages("a");
      await ash.getSession("b");
      await ash.search("x");
      print(headers);
    };
    await printReads();
    sequences.push(5, 4);
    for (const text of ["one", "stored before"]) await ash.append("a", [text]);
    await printReads();
    await ash.endSession("b");
    await printReads();
  },

  async "server events"() {
    const raw = 'id: 1\nevent: raw\ndata: {"a":"\u2028é\r"}\n\n';
    const stream = Buffer.from(`retry: 1\n\n${raw}:\n\nevent: closed\ndata: {}\n\nid: 2\nda`);
    const parses = new Set();
    for (let size = 1; size < stream.length; size += 1) {
      const parser = new ServerEventParser();
      const events = [];
      for (let start = 0; start < stream.length; start += size) {
        events.push(...parser.feed(stream.subarray(start, start + size)));
      }
      parses.add(JSON.stringify(events));
    }
    print([...parses].map((each) => JSON.parse(each)));
  },
};

await SCENARIOS[scenario]();
