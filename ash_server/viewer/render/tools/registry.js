/** Tool calls: the table of tools by name, and the painter of their cards. */
import { ask } from "./ask.js";
import { bash, exitCodeOf } from "./bash.js";
import { readCall, readRequest } from "./call.js";
import { isFailure } from "./call-result.js";
import { computer } from "./computer.js";
import { edit } from "./edit.js";
import { web } from "./fetch.js";
import { mcp } from "./mcp.js";
import { isPatchCommand } from "./file-changes.js";
import { closedBody } from "./closed-body.js";
import { plan, think } from "./think.js";
import { generic, message } from "./generic.js";
import { read } from "./read.js";
import { openBody } from "./open-body.js";
import { callGist, callTitle, summaryLine } from "./summary-line.js";
import { search } from "./search.js";
import { task } from "./task.js";
import { todo } from "./todo.js";
import { fieldOf, isEmpty, textField } from "../../lib/json-fields.js";
import { write } from "./write.js";

/**
 * How a kind of tool is shown: `title`, `gist` and `outcome` in the summary line, `args` and `result` in the body.
 * `args` takes the fields that it shows from a FieldReader, and returns undefined for arguments that it does not
 * expect. `text` returns the text for copying. `isMessage`: the arguments are for the reader, such as a question, so
 * the call is initially open and does not fold.
 *
 * @typedef {import("./call.js").Call} Call
 * @typedef {{
 *   gist: (args: any, call: Call) => string | false | undefined,
 *   title?: (call: Call) => string,
 *   outcome?: (call: Call) => any[],
 *   isMessage?: boolean,
 *   args?: (reader: import("../../lib/json-fields.js").FieldReader, call: Call) => any[] | undefined,
 *   result?: (result: import("./call.js").Result, call: Call) => any[],
 *   text?: (call: Call) => string | undefined,
 * }} Tool
 */

/** Tool, `data-kind` and names; case and punctuation of names are ignored. @type {[Tool, string, string][]} */
const TOOLS = [
  [
    bash,
    "execute",
    `bash shell local_shell shell_command run_shell_command exec exec_command unified_exec
     container_exec write_stdin bash_code_execution run_command execute_command run_terminal_cmd
     run_terminal_command run_in_terminal terminal powershell git code_interpreter code_execution
     nova_code_interpreter python ipython js_repl repl execute_code run_code`,
  ],
  [
    generic,
    "execute",
    "bash_output command_status kill_shell kill_bash task_output task_stop get_terminal_output kill_terminal",
  ],
  [
    edit,
    "edit",
    `edit multi_edit edit_file update_file smart_edit replace str_replace search_replace
     replace_in_file replace_file_content multi_replace_file_content insert undo_edit apply_patch
     patch apply_diff file_change notebook_edit edit_notebook`,
  ],
  [edit, "delete", "delete delete_file remove_file rm"],
  [write, "edit", "write write_file write_to_file file_write create create_file save save_file save_memory append append_file"],
  [generic, "move", "move move_file rename rename_file mv copy_file"],
  [
    read,
    "read",
    `read read_file read_files read_many_files view view_file view_image open_file cat notebook_read
     fetch_file view_file_outline read_mcp_resource read_resource get_internal_docs`,
  ],
  [
    search,
    "search",
    `grep grep_search grep_files ripgrep rg glob glob_files find find_by_name find_files search
     search_files
     search_file_content file_search codebase_search code_search sem_search semantic_search ls list
     list_dir list_directory list_files read_folder tool_search tool_search_tool_regex
     tool_search_tool_bm25`,
  ],
  [
    todo,
    "todo",
    `todo todo_write todo_read todo_list update_todos write_todos manage_todo_list update_plan
     task_create task_update task_list task_get`,
  ],
  [
    task,
    "agent",
    `task new_task agent invoke_subagent subagent spawn_agent dispatch_agent run_subagent
     delegate delegate_to_agent
     collab_tool_call codebase_investigator codebase_search_agent oracle advisor librarian`,
  ],
  [task, "agent_control", "send_input wait_agent close_agent"],
  [
    web,
    "fetch",
    `fetch web_fetch url_fetch read_url_content fetch_url read_web_page open_page browse
     web_search search_web
     google_web_search web_search_exa x_search x_semantic_search x_keyword_search`,
  ],
  [think, "think", "think thinking sequential_thinking"],
  [plan, "switch_mode", "enter_plan_mode exit_plan_mode plan_enter plan_exit switch_mode"],
  [ask, "other", "ask_user ask_user_question ask_followup_question ask_question question request_user_input"],
  [message, "other", "structured_output send_user_message"],
  [computer, "other", "computer computer_use computer_call browser browser_action"],
  [mcp, "other", "mcp mcp_tool use_mcp_tool call_mcp_tool mcp_approval_request"],
];

const BY_NAME = new Map(
  TOOLS.flatMap(([tool, kind, names]) =>
    names.split(/\s+/).map((name) => /** @type {const} */ ([normalizeName(name), { tool, kind }])),
  ),
);

/** Commands of editor tools, which combine several operations. */
const COMMANDS = {
  view: { tool: read, kind: "read" },
  create: { tool: write, kind: "edit" },
  str_replace: { tool: edit, kind: "edit" },
  insert: { tool: edit, kind: "edit" },
  undo_edit: { tool: edit, kind: "edit" },
  delete: { tool: edit, kind: "delete" },
  rename: { tool: generic, kind: "move" },
};
const EDITORS = /^(?:str_?replace_?(?:based_?)?edit|text_?editor|memory$)/i;

/** A command that a person ran with `!`. */
const USER_SHELL = { tool: { ...bash, isMessage: true, title: () => "!" }, kind: "execute" };
const PATCH = { tool: edit, kind: "edit" };
const MCP = { tool: mcp, kind: "other" };
const OTHER = { tool: generic, kind: "other" };

/** Paint a tool call: the summary line, and the body as rich or, while closed, as plain text. */
export function toolCall(item, { state, isOpen, ...context }) {
  const call = readCall(item, { state, ...context });
  const { tool, kind } = toolOf(call);
  const exitCode = tool.result === bash.result && call.last ? exitCodeOf(call.last) : undefined;
  return {
    name: "details",
    kind: "tool-call",
    data: {
      "data-tool-call-id": item.event.payload.toolCallId,
      "data-block": "tool",
      "data-kind": kind,
      "data-subagent": kind === "agent",
      "data-message": isMessage(call, tool),
      "data-state": state,
      "data-failed": call.results.some(({ error }) => isFailure(error)),
      "data-exit": exitCode !== undefined && exitCode !== 0 && exitCode,
    },
    children: [summaryLine(call, tool), ...(isOpen ? openBody(call, { ...generic, ...tool }, kind) : closedBody(call))],
  };
}

/** The text of a call for copying, if its kind of tool has one. */
export function callText(item) {
  const call = readCall(item, { state: undefined });
  return toolOf(call).tool.text?.(call);
}

/** The title of a running call and its most important argument. */
export function callSummary(item) {
  const call = readCall(item, { state: "running" });
  const { tool } = toolOf(call);
  return { title: callTitle(call, tool), gist: callGist(call, tool) };
}

/** True for a call that runs commands or code, which may call other tools. */
export function runsScripts(item) {
  return toolOf(readRequest(item)).kind === "execute";
}

/** True for a call that is initially open: it failed, or its arguments are for the reader. */
export function isInitiallyOpen(item, state) {
  if (item.kind !== "tool") return false;
  const request = readRequest(item);
  return state === "error" || isMessage(request, toolOf(request).tool);
}

/**
 * @param {Pick<Call, "args">} call
 * @param {Tool} tool
 */
function isMessage({ args }, tool) {
  return tool.isMessage === true && !isEmpty(args);
}

/**
 * The tool by its name or, for a name with several meanings, by its arguments.
 *
 * @param {Pick<Call, "name" | "args" | "executor">} request
 * @returns {{tool: Tool, kind: string}}
 */
function toolOf({ name, args, executor }) {
  if (/^mcp__.+__/s.test(name) || executor === "mcp") return MCP;
  if (EDITORS.test(name)) return fieldOf(COMMANDS, [textField(args, "command") ?? ""]) ?? OTHER;
  if (fieldOf(args, ["command", "cmd"], isPatchCommand)) return PATCH;
  const known = BY_NAME.get(normalizeName(name)) ?? OTHER;
  return executor === "user" && known.tool === bash ? USER_SHELL : known;
}

function normalizeName(name) {
  return name.toLowerCase().replaceAll(/[^\p{L}\p{N}]/gu, "");
}
