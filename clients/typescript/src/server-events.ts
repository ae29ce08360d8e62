/** One server-sent event. */
export interface ServerEvent {
  /** Undefined for a control event of the stream, which is not in the log: `caught_up`, `closed`. */
  sequence: number | undefined;
  data: string;
}

/** Parses the chunks of a stream; an incomplete event at its end is dropped. Lines end with `\n` only. */
export class ServerEventParser {
  readonly #decoder = new TextDecoder();
  #rest = "";
  #fields = new Map<string, string>();

  *feed(chunk: Uint8Array): Generator<ServerEvent, void> {
    const lines = (this.#rest + this.#decoder.decode(chunk, { stream: true })).split("\n");
    this.#rest = lines.pop() ?? "";
    for (const line of lines) {
      if (line) this.#addField(line);
      else yield* this.#endEvent();
    }
  }

  #addField(line: string): void {
    const end = line.indexOf(": ");
    if (end > 0) this.#fields.set(line.slice(0, end), line.slice(end + 2));
  }

  *#endEvent(): Generator<ServerEvent, void> {
    const fields = this.#fields;
    this.#fields = new Map();
    const id = fields.get("id");
    const data = fields.get("data");
    if (data !== undefined) yield { sequence: id ? Number(id) : undefined, data };
  }
}
