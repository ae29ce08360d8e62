/** Display names of session sources. */
const NAMES = {
  antigravity: "Antigravity",
  claude: "Claude",
  codex: "Codex",
  gemini: "Gemini",
  gemini_cli: "Gemini CLI",
  cursor: "Cursor",
  opencode: "OpenCode",
  pi: "pi",
  openai_chat: "OpenAI Chat",
  openai_responses: "OpenAI Responses",
  bedrock: "Bedrock",
  langchain: "LangChain",
  pydantic_ai: "Pydantic AI",
  vercel: "Vercel AI SDK",
  atif: "ATIF",
};

export function sourceName(source) {
  return Object.hasOwn(NAMES, source) ? NAMES[source] : source;
}
