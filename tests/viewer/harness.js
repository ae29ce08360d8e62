import { ChatRenderer } from "/viewer/render/chat-renderer.js";

const AROUND = 160;
const BREATHS = 4;
const DEPTH = 20;

/**
 * Render the events in several ways and return the differences to the first. A way is a list of steps, a step a list of
 * event indices; the first step is replayed. The container is hidden, so that nothing depends on the viewport. Each
 * result is compared live and not live, independently of the state before.
 */
export async function compared(events, ways) {
  const shown = [];
  for (const [name, steps] of Object.entries(ways)) shown.push([name, await live(events, steps)]);
  const [[, expected], ...others] = shown;
  const differing = others.filter(([, result]) => !result.isEqualNode(expected));
  return {
    size: expected.innerHTML.length,
    differences: Object.fromEntries(differing.map(([name, result]) => [name, difference(expected, result)])),
  };
}

async function live(events, steps) {
  const root = container();
  const renderer = new ChatRenderer(root);
  const pause = Math.ceil(steps.length / BREATHS);
  renderer.setLive(steps.length % 2 === 0);
  renderer.replayEvents(steps[0].map((place) => events[place]));
  for (const [number, step] of steps.slice(1).entries()) {
    if (number % 3 === 2) prepare(renderer, step.map((place) => events[place]));
    else step.forEach((place) => renderer.handleNewEvent(events[place]));
    renderer.flush();
    if (number % pause === 0) await breath();
  }
  const shown = document.createElement("div");
  for (const isLive of [false, true]) {
    renderer.setLive(isLive);
    await breath();
    await breath();
    shown.append(root.cloneNode(true));
  }
  root.parentElement.remove();
  shown.normalize();
  return shown;
}

/** Build elements before they are shown, as "Load all" does. */
function prepare(renderer, events) {
  renderer.prepare(events);
  while (renderer.prepareTurns(2));
}

/** Render the events and keep them on the page. */
export async function show(events) {
  const renderer = new ChatRenderer(container(false));
  renderer.replayEvents(events);
  await settled();
  return renderer;
}

function container(isHidden = true) {
  const root = document.createElement("div");
  const around = document.createElement("main");
  around.hidden = isHidden;
  around.append(root);
  document.body.append(around);
  return root;
}

/** Wait for events of elements. A nested timer would wait for four milliseconds, hundreds of times. */
function breath() {
  return scheduler.postTask(() => {}, { priority: "background" });
}

export async function settled() {
  for (let frame = 0; frame < 2; frame++) await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
}

function difference(...results) {
  const [expected, html] = results.map(inAttributeOrder);
  let at = 0;
  while (expected[at] === html[at]) at++;
  const around = (text) => text.slice(Math.max(0, at - AROUND), at + AROUND);
  return [around(expected), around(html)];
}

/** The HTML of an element with the attributes sorted, since their order makes no difference. */
function inAttributeOrder(root) {
  for (const element of root.querySelectorAll("*")) {
    const attributes = [...element.attributes].sort((one, other) => (one.name < other.name ? -1 : 1));
    attributes.forEach(({ name }) => element.removeAttribute(name));
    attributes.forEach(({ name, value }) => element.setAttribute(name, value));
  }
  return root.innerHTML;
}

/** Open all details, also nested ones up to a depth. */
export async function opened(root) {
  for (let depth = 0; depth < DEPTH; depth++) {
    const closed = root.querySelectorAll("details:not([open])");
    if (!closed.length) break;
    closed.forEach((details) => (details.open = true));
    await new Promise((done) => setTimeout(done)); // before the next frame: its layout is slow
  }
  root.querySelectorAll("[aria-expanded=false]").forEach((button) => button.click());
  await settled();
}

/** Tags, attributes and links of the page, and the tokens that are missing. */
export function audit(root, tokens) {
  const elements = [...root.querySelectorAll("*")];
  const attributes = elements.flatMap((element) => [...element.attributes]);
  const text = root.textContent;
  return {
    tags: distinct(elements.map((element) => element.localName)),
    attributes: distinct(attributes.map(({ name }) => name).filter((name) => !/^(aria|data)-/.test(name))),
    carriers: distinct(attributes.filter(({ value }) => /zz\d+zz/.test(value)).map(({ name }) => name)),
    protocols: distinct([...root.querySelectorAll("[href]")].map((link) => protocol(link.getAttribute("href")))),
    sources: distinct([...root.querySelectorAll("[src]")].map((image) => image.getAttribute("src").slice(0, 15))),
    polluted: [Object.prototype, Array.prototype, Map.prototype].flatMap((each) => Object.keys(each)),
    odd: distinct(text.match(/\[object |\[native code\]|undefined/g) ?? []),
    missing: tokens.filter((token) => !text.includes(token)),
  };
}

function protocol(href) {
  return href.startsWith("#") ? "#" : new URL(href, "relative:/").protocol;
}

function distinct(values) {
  return [...new Set(values)].sort();
}
