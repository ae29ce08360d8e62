/**
 * The frames of an event stream, as they come. EventSource gives only events whose names one listens for, and events of
 * a session may have any; and it tells neither why it could not connect nor when it will try again.
 *
 * @param {AsyncIterable<Uint8Array>} chunks
 * @returns {AsyncGenerator<{event?: string, data?: string, id?: string, retry?: string}>} a comment is an empty one
 */
export async function* frames(chunks) {
  const decoder = new TextDecoder();
  let rest = "";
  let frame = {};
  for await (const chunk of chunks) {
    const [first, ...others] = decoder.decode(chunk, { stream: true }).split("\n");
    const lines = [rest + first, ...others];
    rest = lines.pop();
    for (const line of lines) {
      if (line === "") {
        yield frame;
        frame = {};
      } else {
        take(frame, line);
      }
    }
  }
}

function take(frame, line) {
  const [, name, value] = line.match(/^([^:]*):? ?(.*)$/s);
  if (name === "data" && "data" in frame) frame.data += `\n${value}`;
  else if (name) frame[name] = value;
}

/** The chunks of a body; not every browser can iterate over it. */
export async function* chunksOf(body) {
  const reader = body.getReader();
  try {
    for (let read = await reader.read(); !read.done; read = await reader.read()) yield read.value;
  } finally {
    reader.releaseLock();
  }
}
