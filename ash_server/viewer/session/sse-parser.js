/**
 * Parse the frames of an event stream. EventSource is not used: it delivers only events with known names, and reports
 * neither why a connection failed nor when it retries.
 *
 * @param {AsyncIterable<Uint8Array>} chunks
 * @returns {AsyncGenerator<{event?: string, data?: string, id?: string, retry?: string}>} a comment is an empty frame
 */
export async function* parseFrames(chunks) {
  const decoder = new TextDecoder();
  let rest = "";
  let frame = {};
  for await (const chunk of chunks) {
    const [first, ...others] = decoder.decode(chunk, { stream: true }).split("\n");
    const lines = [rest + first, ...others];
    rest = lines.pop() ?? "";
    for (const line of lines) {
      if (line === "") {
        yield frame;
        frame = {};
      } else {
        addField(frame, line);
      }
    }
  }
}

function addField(frame, line) {
  const [, name, value] = line.match(/^([^:]*):? ?(.*)$/s);
  if (name === "data" && "data" in frame) frame.data += `\n${value}`;
  else if (name) frame[name] = value;
}

/** Iterate over the chunks of a response body; not every browser supports that directly. */
export async function* readChunks(body) {
  const reader = body.getReader();
  try {
    for (let read = await reader.read(); !read.done; read = await reader.read()) yield read.value;
  } finally {
    reader.releaseLock();
  }
}
