/** Calls of tools: which kind each is, and how it is shown. */
import { el } from "../dom.js";
import { ask } from "./ask.js";
import { bash } from "./bash.js";
import { readCall } from "./call.js";
import { computer } from "./computer.js";
import { edit } from "./edit.js";
import { web } from "./fetch.js";
import { mcp } from "./mcp.js";
import { isPatchCommand } from "./patches.js";
import { plainBody } from "./plain.js";
import { words } from "./prose.js";
import { raw } from "./raw.js";
import { read } from "./read.js";
import { richBody } from "./rich.js";
import { row } from "./row.js";
import { search } from "./search.js";
import { task } from "./task.js";
import { todo } from "./todo.js";
import { at, textAt } from "./values.js";
import { write } from "./write.js";

/**
 * How a kind of tool is shown: `title` and `gist` in the line, `outcome` what came of it, `args` and `result` what is
 * below. `args` takes what it shows from a Reader, and gives undefined where the arguments are not what it expects.
 * @typedef {{gist: Function, title?: Function, outcome?: Function, args?: Function, result?: Function}} Tool
 */

/** By their names, without case and signs. The second column is `data-kind`. */
const TOOLS = [
  [bash, "execute", "bash shell local_shell shell_command run_shell_command exec exec_command unified_exec command"],
  [bash, "execute", "run_command execute_command run_terminal_cmd run_terminal_command run_in_terminal terminal powershell"],
  [bash, "execute", "bash_code_execution container_exec write_stdin git process"],
  [bash, "execute", "code_interpreter code_execution nova_code_interpreter python ipython js_repl repl execute_code run_code"],
  [raw, "execute", "bash_output kill_shell kill_bash task_output task_stop get_terminal_output kill_terminal"],
  [edit, "edit", "edit multi_edit multiedit edit_file replace str_replace search_replace replace_in_file apply_patch patch"],
  [edit, "edit", "file_change apply_diff notebook_edit edit_notebook insert undo_edit update_file smart_edit"],
  [write, "edit", "write write_file create_file create write_to_file save_file file_write save_memory"],
  [edit, "delete", "delete delete_file remove_file rm"],
  [raw, "move", "move move_file rename rename_file mv copy_file"],
  [read, "read", "read read_file read_many_files read_files view view_file view_image open_file cat notebook_read fetch_file"],
  [read, "read", "read_mcp_resource read_resource get_internal_docs"],
  [search, "search", "grep glob search search_file_content grep_search file_search find find_files grep_files glob_files"],
  [search, "search", "codebase_search code_search codesearch sem_search semantic_search ripgrep rg ls list list_dir"],
  [search, "search", "list_directory list_files read_folder tool_search tool_search_tool_regex tool_search_tool_bm25 search_files"],
  [todo, "todo", "todo_write todowrite todo_read todoread todo update_todos write_todos todo_list update_plan manage_todo_list"],
  [todo, "todo", "task_create task_update task_list task_get"],
  [task, "agent", "task agent subagent spawn_agent dispatch_agent run_subagent new_task delegate delegate_to_agent send_input"],
  [task, "agent", "codebase_investigator codebase_search_agent oracle advisor librarian collab_tool_call wait_agent close_agent"],
  [web, "fetch", "web_fetch webfetch fetch fetch_url url_fetch read_web_page web_search websearch google_web_search"],
  [web, "fetch", "web_search_exa x_search x_semantic_search x_keyword_search open_page search_web browse"],
  [words, "think", "think thinking sequential_thinking"],
  [words, "switch_mode", "exit_plan_mode enter_plan_mode plan_exit plan_enter switch_mode"],
  [ask, "other", "ask_user_question ask_user ask_followup_question question request_user_input"],
  [computer, "other", "computer computer_use computer_call browser browser_action"],
  [mcp, "other", "mcp mcp_tool mcp_approval_request use_mcp_tool call_mcp_tool"],
];

const BY_NAME = new Map(TOOLS.flatMap(([tool, kind, names]) => names.split(" ").map((name) => [bare(name), { tool, kind }])));

/** What a tool that does several things is asked to do. */
const COMMANDS = {
  view: { tool: read, kind: "read" },
  create: { tool: write, kind: "edit" },
  str_replace: { tool: edit, kind: "edit" },
  insert: { tool: edit, kind: "edit" },
  undo_edit: { tool: edit, kind: "edit" },
  delete: { tool: edit, kind: "delete" },
  rename: { tool: raw, kind: "move" },
};
const EDITORS = /^(?:str_?replace_?(?:based_?)?edit|text_?editor|memory$)/i;

const PATCH = { tool: edit, kind: "edit" };
const MCP = { tool: mcp, kind: "other" };
const OTHER = { tool: raw, kind: "other" };

export function toolCall(item, { state, isOpen }) {
  const call = readCall(item, state);
  const { tool, kind } = toolOf(call);
  return {
    name: "details",
    kind: "tool-call",
    data: { "data-tool-call-id": item.event.payload.toolCallId, "data-block": "tool", "data-kind": kind, "data-state": state },
    children: [row(call, tool), ...(isOpen ? richBody(call, { ...raw, ...tool }) : plainBody(call))],
  };
}

/** By the name; where one name means several things, by the arguments. */
function toolOf({ name, args, executor }) {
  if (/^mcp__.+__/s.test(name) || executor === "mcp") return MCP;
  if (EDITORS.test(name)) return at(COMMANDS, [textAt(args, "command") ?? ""]) ?? OTHER;
  if (at(args, ["command", "cmd"], isPatchCommand)) return PATCH;
  return BY_NAME.get(bare(name)) ?? OTHER;
}

function bare(name) {
  return name.toLowerCase().replaceAll(/[^\p{L}\p{N}]/gu, "");
}
