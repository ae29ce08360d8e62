/** The alerts of GitHub: quotations with a first line such as `[!NOTE]`. */

const MARK = /^\[!(note|tip|important|warning|caution)\][ \t]*(?:\n|$)/i;

/** Turn quotations with the mark of an alert into boxes with its name. Runs before inline content is parsed. */
export function markAlerts(state) {
  const output = [];
  /** The open quotations, and whether they are alerts. @type {boolean[]} */
  const open = [];
  for (let index = 0; index < state.tokens.length; index += 1) {
    const token = state.tokens[index];
    output.push(token);
    if (token.type === "blockquote_close" && open.pop()) token.tag = "div";
    if (token.type !== "blockquote_open") continue;
    const [paragraph, inline] = state.tokens.slice(index + 1, index + 3);
    const match = paragraph.type === "paragraph_open" && inline.content.match(MARK);
    open.push(Boolean(match));
    if (!match) continue;
    const name = match[1].toLowerCase();
    token.tag = "div";
    token.attrs = [["class", `alert alert-${name}`], ["role", "note"]];
    output.push(...titleTokens(name, state.Token));
    inline.content = inline.content.slice(match[0].length);
    if (inline.content === "") index += 3; // the paragraph has no other line
  }
  state.tokens = output;
}

function titleTokens(name, Token) {
  const open = new Token("paragraph_open", "p", 1);
  open.attrs = [["class", "alert-title"]];
  const content = name[0].toUpperCase() + name.slice(1);
  const inline = Object.assign(new Token("inline", "", 0), { children: [], content });
  return [open, inline, new Token("paragraph_close", "p", -1)];
}
